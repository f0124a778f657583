"""What a supervised run comes back with. Ending badly is a value; only `check()` makes it an exception."""

import subprocess

from longwatch.errors import LongwatchError
from longwatch.how import how
from longwatch.reached import (
    CallReached,
    CeilingReached,
    FirstReached,
    IdleReached,
    LimitReached,
    TimeoutReached,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Characters of stderr in the message of a failure.
QUOTED = 500

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
    """A run ended badly, and no limit of ours was the reason. `partial` is its `Result`, `reason` why it ended.

    As in any `CalledProcessError` there are `cmd`, `returncode` (see `Result.returncode`: a death by N is 128+N),
    `stdout` and `stderr`. Not raised for a limit (that is `LimitReached`) nor for exit status 0.
    """

    __module__ = "longwatch"

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
    that are no UTF-8 become replacement marks. `returncode` is the exit status that `longwatch run` would have: the
    program's own, 124 for a limit, 126 or 127 for one that cannot be started, 128+N for a death by signal N, 125
    where nobody could read the status.

    `report` is the report as `longwatch run --report` writes it. Each of its keys is an attribute too, spans in ms
    (`termination_reason`, `exit_code`, `duration_ms`, `idle_ms`, `survivors`, `post_mortem`, ...), but for its two
    streams: those are in `report["stdout"]` and `report["stderr"]`, with the number of bytes.
    """

    __module__ = "longwatch"
    __slots__ = ("argv", "report", "returncode", "stderr", "stdout")

    def __init__(
        self, argv: "Sequence[str]", report: "Mapping[str, Any]", stdout: str, stderr: str, returncode: int
    ) -> None:
        self.argv = tuple(argv)
        self.report = dict(report)
        self.stdout = stdout
        self.stderr = stderr
        self.returncode = returncode

    def __getattr__(self, name: str) -> "Any":
        # A copy has no slots filled yet when it is asked for its methods.
        report = {} if name in self.__slots__ else self.report
        try:
            return report[name]
        except KeyError:
            raise AttributeError(f"a Result has no {name!r}") from None

    @property
    def ok(self) -> bool:
        """Whether the run ended well: its verdict is success."""
        return bool(self.report["verdict"] == "success")

    def check(self) -> "Result":
        """Return this result if the run ended well.

        Raises IdleReached, FirstReached, CallReached, CeilingReached, TimeoutReached or LimitReached when a limit
        stopped it, all of them `TimeoutError`s with this result as `.partial`; RunFailed, a `CalledProcessError`,
        for every other bad end. Not raised for a program that exited 0 by itself, however long it was silent.
        """
        if self.ok:
            return self
        reason = self.report["termination_reason"]
        if reason in _RAISED:
            raise _RAISED[reason](self.message, reason, self)
        raise RunFailed(self.message + self._complaint(), self)

    def _complaint(self) -> str:
        """What it said on stderr when it failed by itself, on one line; no more of it than a reader takes in."""
        said = " ".join(self.stderr[:QUOTED].split()) if self.report["termination_reason"] == "exited" else ""
        return f": {said}" if said else ""

    @property
    def message(self) -> str:
        """One line: the program, and how its run ended."""
        return how(self.argv[0], self.report)

    def __repr__(self) -> str:
        return f"<Result {self.argv[0]} {self.report['termination_reason']} {self.report['outcome']}>"
