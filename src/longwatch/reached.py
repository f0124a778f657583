"""The errors of the library for a limit that stopped the run; the tree is drawn in `errors`."""

from longwatch.errors import LongwatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LimitReached(LongwatchError, TimeoutError):
    """A limit stopped the run. Not raised when the program ended by itself before the first signal.

    `reason` is the termination reason; `partial` the `Result` with everything the run left (None: nothing).
    """

    __module__ = "longwatch"
    reason: str = "unknown"

    def __init__(self, message: str = "", reason: str | None = None, partial: "Any" = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.partial = partial


class IdleReached(LimitReached):
    """The program made no progress for the idle window."""

    __module__ = "longwatch"
    reason = "idle"


class FirstReached(LimitReached):
    """The program never made its first progress."""

    __module__ = "longwatch"
    reason = "first"


class CallReached(LimitReached):
    """One call of the program took longer than its budget."""

    __module__ = "longwatch"
    reason = "call"


class CeilingReached(LimitReached):
    """The run's ceiling was reached; pauses of the provider had moved it as far as they may."""

    __module__ = "longwatch"
    reason = "ceiling"


class TimeoutReached(LimitReached):
    """The run's fixed time was over."""

    __module__ = "longwatch"
    reason = "timeout"
