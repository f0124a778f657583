"""Programs under the installed `longwatch run`, as a user starts them, and what is left of each run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import helpers

#: What starts any child of these tests: an interpreter, by a name that says so.
PYTHON = sys.executable


class Run(NamedTuple):
    """How a run ended: status as subprocess tells it, both streams, seconds, and its report."""

    code: int
    out: str
    err: str
    seconds: float
    report: dict[str, Any]

    @property
    def said(self) -> list[str]:
        """The lines that longwatch itself wrote on stderr."""
        return [line for line in self.err.splitlines() if line.startswith("longwatch: ")]

    @property
    def reason(self) -> str:
        """Why it ended."""
        return str(self.report["termination_reason"])


class Live:
    """A run in the background; what it writes goes to files."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path, report: Path) -> None:
        self.process = process
        self._out = out
        self._err = err
        self._report = report

    @property
    def pid(self) -> int:
        """The pid of longwatch itself."""
        return self.process.pid

    @property
    def out(self) -> str:
        """What the program has written until now."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What was written on stderr until now, by both."""
        return self._err.read_text()

    def wait_for(self, text: str, deadline: float = 10.0) -> str:
        """Wait until the text is in the program's output; return all of that."""
        helpers.wait_until(lambda: text in self.out, deadline, f"{text!r} in the output")
        return self.out

    def send(self, signum: int) -> None:
        """Send a signal to longwatch itself."""
        self.process.send_signal(signum)

    def tree(self) -> list[int]:
        """Return the pids of what runs below longwatch."""
        return helpers.descendants(self.pid)

    def wait_for_guardian(self) -> None:
        """Wait until a fork of longwatch stands by."""
        mine = helpers.command_line(self.pid)

        def there() -> bool:
            return any(helpers.command_line(pid) == mine for pid in self.tree())

        helpers.wait_until(there, what="the guardian")

    def status(self) -> dict[str, Any]:
        """Wait until `ls` knows the run, and return what it says of it."""

        def listed() -> Any:
            told = json.loads(helpers.run_cli("ls", "--json").out or "{}")
            return next((run for run in told.get("runs", ()) if run["pid"] == self.pid), None)

        found: dict[str, Any] = helpers.wait_until(listed, what="the run in ls")
        return found

    def finish(self, deadline: float = 20.0) -> Run:
        """Wait for the end of longwatch."""
        code = self.process.wait(deadline)
        return Run(code, self.out, self.err, 0.0, read_report(self._report))


def read_report(path: Path) -> dict[str, Any]:
    """Return a report, or {} where none was written."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _new(suffix: str) -> Path:
    descriptor, name = tempfile.mkstemp(suffix, dir=os.environ["HOME"])
    os.close(descriptor)
    return Path(name)


def supervise(*flags: str | Path, program: Sequence[str | Path], **options: Any) -> Run:
    """Run a program to its end under `longwatch run FLAGS`; options as for `helpers.run_command`."""
    report = _new(".json")
    options.setdefault("deadline", 15)
    done = helpers.run_cli("run", "--report", report, *flags, "--", *program, **options)
    return Run(*done, read_report(report))


@contextlib.contextmanager
def live(*flags: str | Path, program: Sequence[str | Path], **options: Any) -> Iterator[Live]:
    """Start a program under `longwatch run FLAGS`; at the end of the block longwatch is killed if it still runs."""
    out, err, report = _new(".out"), _new(".err"), _new(".json")
    options = {"stdin": subprocess.DEVNULL, "start_new_session": True} | options
    options["env"] = helpers.environment(options.get("env"))
    argv = [helpers.LONGWATCH, "run", "--report", report, *flags, "--", *program]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(argv, stdout=stdout, stderr=stderr, **options)
    with helpers.ending(process):
        yield Live(process, out, err, report)


def shell(script: str) -> list[str]:
    """Return the argv of a shell script."""
    return ["sh", "-c", script]


def python(*lines: str) -> list[str]:
    """Return the argv of a Python program."""
    return [PYTHON, "-c", "\n".join(lines)]


def gone(*pids: int, deadline: float = 5.0) -> None:
    """Wait until none of these processes is alive."""
    helpers.wait_until(
        lambda: not [pid for pid in pids if helpers.alive(pid)], deadline, f"the end of {pids}"
    )


def numbers(text: str) -> list[int]:
    """Return the whole numbers in a text, such as pids that a program printed."""
    return [int(word) for word in text.split() if word.isdigit()]


__all__ = [
    "PYTHON", "Live", "Run", "gone", "live", "numbers", "python", "read_report", "shell", "signal", "supervise",
]  # fmt: skip
