"""Plans for tests, and `longwatch batch run` on them: to its end, or in the background."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

import helpers
from helpers import Finished
from longwatch.cli import verbs

PYTHON = sys.executable


def sh(name: str, script: str, **more: Any) -> dict[str, Any]:
    """Return an item that runs a shell script."""
    return {"id": name, "command": ["sh", "-c", script], **more}


class Plan:
    """A plan in a folder of the test, and what is kept of it."""

    def __init__(self, folder: Path, *items: Mapping[str, Any], **head: Any) -> None:
        self.folder = folder
        self.path = folder / "plan.json"
        self.define(*items, **head)

    def define(self, *items: Mapping[str, Any], **head: Any) -> None:
        """Write the file anew."""
        # Short, for the keeper's socket is below it; and a kill after the grace is soon enough for a test.
        told = {"base": "b", **head, "item": [{"kill_after": "500ms", **item} for item in items]}
        self.path.write_text(json.dumps(told))

    @property
    def base(self) -> Path:
        """Where its states are."""
        return self.folder / "b"

    def run(self, *flags: str, env: Mapping[str, str] | None = None) -> Finished:
        """Run it to its end, here: a process of its own takes longer to start than most of these plans."""
        return called(self.folder, "batch", "run", str(self.path), *flags, env=env)

    def start(self, *flags: str, env: Mapping[str, str] | None = None) -> "Live":
        """Run it in the background."""
        return Live(self, flags, env)

    def state(self, item: str) -> dict[str, Any]:
        """Return what is kept of an item; empty where nothing is."""
        try:
            found: dict[str, Any] = json.loads((self.base / "state" / f"{item}.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def lifecycles(self) -> dict[str, str]:
        """Return where each item stands that was begun."""
        found = [json.loads(path.read_text()) for path in sorted((self.base / "state").glob("*.json"))]
        return {state["id"]: state["lifecycle"] for state in found}

    def log(self, item: str) -> str:
        """Return what is in the log of an item."""
        return (self.base / "logs" / f"{item}.log").read_text()

    def said(self, item: str) -> list[str]:
        """Return the lines that an item itself has written to its log."""
        return [line for line in self.log(item).splitlines() if not line.startswith("-- longwatch ")]

    def report(self) -> dict[str, Any]:
        """Return the report as programs read it."""
        done = called(self.folder, "batch", "report", str(self.path), "--json")
        found: dict[str, Any] = json.loads(done.out)
        return found

    def item(self, name: str) -> dict[str, Any]:
        """Return what the report says of an item."""
        found: dict[str, Any] = next(item for item in self.report()["items"] if item["id"] == name)
        return found


def called(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Finished:
    """Call a verb in this process, with descriptors of its own; return what it wrote and how it ended."""
    files = [(folder / name).open("w+b") for name in ("called.out", "called.err")]
    nothing = os.open(os.devnull, os.O_RDONLY)
    before = [os.dup(number) for number in range(3)]
    streams = sys.stdout, sys.stderr
    began = time.monotonic()
    try:
        for number, source in enumerate([nothing, *(file.fileno() for file in files)]):
            os.dup2(source, number)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(number, "w", closefd=False)) for number in (1, 2)
        )
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            try:
                code: object = verbs.main(list(words))
            except SystemExit as end:
                code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        sys.stdout, sys.stderr = streams
        for number, saved in enumerate(before):
            os.dup2(saved, number)
            os.close(saved)
        os.close(nothing)
    text = []
    for file in files:
        file.seek(0)
        text.append(file.read().decode(errors="surrogateescape"))
        file.close()
    return Finished(int(code or 0), *text, time.monotonic() - began)  # type: ignore[call-overload]


class Live:
    """A batch in the background; what it says goes to files."""

    def __init__(self, plan: Plan, flags: tuple[str, ...], env: Mapping[str, str] | None) -> None:
        self.plan = plan
        self._out, self._err = plan.folder / "out", plan.folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [helpers.LONGWATCH, "batch", "run", plan.path, *flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env=helpers.environment(env),
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.kept():
            # Nobody else would end what the keeper holds.
            self.plan.define()
            self.plan.run("--resume")

    @property
    def out(self) -> str:
        """What was written on stdout until now."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What was written on stderr until now."""
        return self._err.read_text()

    def until(self, true: Callable[[], Any], deadline: float = 15.0) -> Any:
        """Wait for something; what was said is in the error where it does not come."""
        try:
            return helpers.wait_until(true, deadline)
        except AssertionError as late:
            raise AssertionError(f"{late}; it said: {self.err}") from None

    def until_log(self, item: str, text: str, deadline: float = 15.0) -> str:
        """Wait until a text is in the log of an item."""
        path = self.plan.base / "logs" / f"{item}.log"
        self.until(lambda: path.exists() and text in path.read_text(), deadline)
        return path.read_text()

    def until_lifecycle(self, item: str, lifecycle: str) -> dict[str, Any]:
        """Wait until an item stands so."""
        self.until(lambda: self.plan.state(item).get("lifecycle") == lifecycle)
        return self.plan.state(item)

    def kill(self) -> None:
        """End it as nobody can catch; wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def send(self, signum: int = signal.SIGINT) -> None:
        """Send it a signal."""
        self.process.send_signal(signum)

    def finish(self, deadline: float = 30.0) -> Finished:
        """Wait for its end."""
        code = self.process.wait(deadline)
        return Finished(code, self.out, self.err, 0.0)

    def kept(self) -> list[int]:
        """Return the processes of items that are still there."""
        plan = os.fsencode(f"LONGWATCH_PLAN={self.plan.path}").decode()
        return helpers.processes_with(plan)
