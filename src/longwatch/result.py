"""What a supervised run comes back with. Ending badly is a value; only `check()` makes it an exception."""

import subprocess

from longwatch.core.outcomes import exit_status
from longwatch.errors import LongwatchError
from longwatch.reached import (
    CallReached,
    CeilingReached,
    FirstReached,
    IdleReached,
    LimitReached,
    TimeoutReached,
)
from longwatch.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Reasons that a limit of ours brought about, and the class of each; those without one raise `LimitReached`.
_RAISED: "dict[str, type[LimitReached]]" = {
    "idle": IdleReached,
    "first": FirstReached,
    "call": CallReached,
    "ceiling": CeilingReached,
    "timeout": TimeoutReached,
    "stalled": LimitReached,
    "effect": LimitReached,
    "asked": LimitReached,
    "looping": LimitReached,
}


class RunFailed(LongwatchError, subprocess.CalledProcessError):
    """A run ended badly, and no limit of ours was the reason. `partial` is its `Result`.

    Not raised for a limit (that is `LimitReached`) nor for exit status 0.
    """

    def __init__(self, message: str, result: "Result") -> None:
        subprocess.CalledProcessError.__init__(
            self, result.returncode, list(result.argv), result.stdout, result.stderr
        )
        self.message = message
        self.partial = result
        self.reason = result.termination_reason

    def __str__(self) -> str:
        return self.message


class Result:
    """A run that is over: the report's fields, and both streams as text.

    `stdout` and `stderr` hold the first 64 KiB and the last 256 KiB, with a line naming the gap between them; bytes
    that are no UTF-8 become replacement marks. Every key of the report is an attribute too (`duration_ms`,
    `survivors`, `post_mortem`, ...), but for its two streams: those are in `report["stdout"]`.
    """

    __slots__ = ("argv", "report", "stderr", "stdout")

    def __init__(self, argv: "Sequence[str]", report: "Mapping[str, Any]", stdout: str, stderr: str) -> None:
        self.argv = tuple(argv)
        self.report = dict(report)
        self.stdout = stdout
        self.stderr = stderr

    def __getattr__(self, name: str) -> "Any":
        try:
            return self.report[name]
        except KeyError:
            raise AttributeError(f"a Result has no {name!r}") from None

    @property
    def ok(self) -> bool:
        """Whether the run ended well: its verdict is success."""
        return bool(self.report["verdict"] == "success")

    @property
    def returncode(self) -> int:
        """The exit status that `longwatch run` would have: the program's own, 124 for a limit, 128+N."""
        report = self.report
        if report["termination_reason"] == "spawn_failed":
            return int(report["spawn_status"])
        return exit_status(report["termination_reason"], report["exit_code"], report["signal_number"])

    def check(self) -> "Result":
        """Return this result if the run ended well.

        Raises IdleReached, FirstReached, CallReached, CeilingReached, TimeoutReached or LimitReached when a limit
        stopped it, all of them `TimeoutError`s with this result as `.partial`; RunFailed, a `CalledProcessError`,
        for every other bad end. Not raised for a program that exited 0, however long it was silent.
        """
        if self.ok:
            return self
        reason = self.report["termination_reason"]
        if reason in _RAISED:
            raise _RAISED[reason](self.message, reason, self)
        raise RunFailed(self.message, self)

    @property
    def message(self) -> str:
        """One line: how the run ended, and of a silence how long it was."""
        report, program = self.report, self.argv[0] if self.argv else "the program"
        limit = report["limit"]
        if limit is not None:
            return f"{program}: {_LIMIT_WORDS.get(limit['name'], limit['name'])} {_window(limit)}"
        if report["notes"] and report["termination_reason"] == "spawn_failed":
            return str(report["notes"][0])
        if report["signal"] is not None:
            return f"{program}: died of signal {report['signal']}"
        if report["exit_code"] is not None:
            return f"{program}: exited with status {report['exit_code']}"
        return f"{program}: {report['termination_reason']}"

    def __repr__(self) -> str:
        return f"<Result {self.argv[:1]} {self.report['termination_reason']} {self.report['outcome']}>"


_LIMIT_WORDS = {
    "idle": "no output for",
    "first": "no first output within",
    "ceiling": "reached its ceiling of",
    "timeout": "took longer than",
    "call": "a call took longer than",
}


def _window(limit: "Mapping[str, Any]") -> str:
    return format_duration(limit["window_ms"])
