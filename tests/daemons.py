"""Daemons for tests: started, asked, killed; see `bare_daemon`."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helpers
from longwatch import paths
from longwatch.core.harness import Harness
from longwatch.core.spec import LimitSpec
from longwatch.runtime.kept import Keeper, KeeperError

BARE = Path(__file__).parent / "bare_daemon.py"


def harness(
    name: str, *command: str, cwd: str = "/tmp", limits: dict[str, LimitSpec] | None = None, **more: Any
) -> Harness:
    """Return a harness whose stop does not take long."""
    return Harness(name, command, cwd=cwd, limits=limits, **{"grace": 500, **more})


def shell(name: str, script: str, **more: Any) -> Harness:
    """Return a harness that runs a shell script."""
    return harness(name, "sh", "-c", script, **more)


class Refused(Exception):
    """The daemon said no."""


class Daemon:
    """One daemon's place: a file, a state folder, a keeper; and the process that runs now."""

    def __init__(self, folder: Path, *harnesses: Harness, **tables: Any) -> None:
        # Short, for it becomes part of a socket's path.
        (folder / "w").mkdir(exist_ok=True)
        self.config = folder / "w" / "longwatch.toml"
        self.tables = tables
        self.process: subprocess.Popen[str] | None = None
        self.state = paths.state()
        self.define(*harnesses)
        self.id = paths.daemon_id(str(self.config))
        self.folder = Path(paths.daemon_folder(self.state, self.id))
        self.sockets = Path(paths.sockets(self.id, self.state))
        self.out = folder / "daemon.out"

    def define(self, *harnesses: Harness) -> None:
        """Write the file anew."""
        self.harnesses = {each.name: each for each in harnesses}
        told = {"harnesses": [each.as_dict() for each in harnesses], **self.tables}
        self.config.write_text(json.dumps(told))

    def begin(self, *flags: str) -> "tuple[subprocess.Popen[str], int]":
        """Start a daemon and return its process and the descriptor that it says on when it is up."""
        ready, theirs = os.pipe()
        with self.out.open("a") as out:
            process = subprocess.Popen(
                [sys.executable, str(BARE), str(self.config), str(theirs), *flags],
                pass_fds=(theirs,),
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(helpers.ROOT / "tests")},
            )
        os.close(theirs)
        return process, ready

    def start(self, *flags: str) -> dict[str, Any]:
        """Start a daemon and return what it says when it is up, or why it is not."""
        process, ready = self.begin(*flags)
        with os.fdopen(ready) as file:
            line = file.readline()
        assert line, f"the daemon said nothing: {self.said()}"
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            process.wait(10)
        else:
            self.process = process
        return told

    def ask(self, op: str, **args: Any) -> dict[str, Any]:
        """Ask the daemon; Refused with its words where it says no."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(str(self.sockets / "api.sock"))
            connection.sendall(json.dumps({"op": op, **args}).encode() + b"\n")
            with connection.makefile() as lines:
                answer = json.loads(lines.readline() or '{"error": {"text": "hung up"}}')
        if "error" in answer:
            raise Refused(answer["error"]["text"])
        return answer["ok"]

    def status(self, name: str) -> dict[str, Any]:
        """Return how a harness stands."""
        return next(each for each in self.ask("status")["harnesses"] if each["name"] == name)

    def until(self, name: str, deadline: float = 15.0, **wanted: Any) -> dict[str, Any]:
        """Wait until a harness stands so, and return how it stands."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.clear()
            seen.update(self.status(name))
            return all(seen.get(key) == value for key, value in wanted.items())

        try:
            helpers.wait_until(there, deadline)
        except AssertionError:
            raise AssertionError(f"{name} never was {wanted}: {seen}\n{self.said()}") from None
        return seen

    def running(self, name: str) -> dict[str, Any]:
        """Wait until a harness runs, and return how it stands."""
        return self.until(name, state="running")

    def kill(self, signum: int = signal.SIGKILL) -> int:
        """End the daemon by a signal, and return its status."""
        assert self.process is not None
        os.kill(self.process.pid, signum)
        code = self.process.wait(20)
        self.process = None
        return code

    def down(self) -> dict[str, Any]:
        """Stop everything."""
        answer = self.ask("down")
        assert self.process is not None
        self.process.wait(20)
        self.process = None
        return answer

    def said(self) -> str:
        """Return what the daemons of this place have said so far."""
        return self.out.read_text() if self.out.exists() else ""

    def facts(self, kind: str) -> list[dict[str, Any]]:
        """Return the facts of one kind that were told so far."""
        found = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return [fact for fact in found if fact["event"] == kind]

    def logged(self, name: str) -> str:
        """Return the log of a resident harness, older files first."""
        folder = self.folder / "logs"
        files = sorted(folder.glob(f"{name}.log.*"), key=lambda path: -int(path.suffix[1:]))
        return "".join(
            path.read_bytes().decode(errors="replace")
            for path in (*files, folder / f"{name}.log")
            if path.exists()
        )

    def ledger(self) -> list[dict[str, Any]]:
        """Return the runs that the ledger knows, oldest first."""
        from longwatch.store.ledger import Ledger
        from longwatch.store.listing import Wanted, listed

        with Ledger(self.state) as ledger:
            return list(reversed(listed(ledger, Wanted(limit=10_000))))

    def end(self) -> None:
        """Leave nothing: neither daemon nor keeper nor harness."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
        with contextlib.suppress(KeeperError):
            Keeper.connect(str(self.sockets / "keeper.sock"), replace=True).stop()


def numbers(text: str) -> list[int]:
    """Return the numbers of numbered lines, in their order."""
    return [int(found) for found in re.findall(r"^line (\d+)\r?$", text, re.MULTILINE)]


@contextlib.contextmanager
def daemon(folder: Path, *harnesses: Harness, start: bool = True, **tables: Any) -> Iterator[Daemon]:
    """Run a daemon; at the end of the block everything is stopped."""
    place = Daemon(folder, *harnesses, **tables)
    try:
        if start:
            told = place.start()
            assert told.get("ready"), told
        yield place
    finally:
        place.end()
