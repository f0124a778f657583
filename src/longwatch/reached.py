"""The errors of the library for a limit that stopped the run; the tree is drawn in `errors`."""

from longwatch.errors import LongwatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LimitReached(LongwatchError, TimeoutError):
    """A limit stopped the run, or the guarded stream. Not raised for one that ended by itself before.

    `reason` is the termination reason; `partial` what there was until then: the `Result` of a run, the text of a
    stream (None: nothing). Of a stream also: `window_ms` and `elapsed_ms` (the limit, and what it had counted),
    `last_event` (the kind of the newest event, "none" without any), and `pauses` (`parked_ms`, `granted_ms`,
    `cap_ms`, `open`).
    """

    __module__ = "longwatch"
    reason: str = "unknown"

    def __init__(
        self, message: str = "", reason: str | None = None, partial: "Any" = None, *,
        window_ms: int = 0, elapsed_ms: int = 0, last_event: str = "none", pauses: "dict[str, Any] | None" = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.partial = partial
        self.window_ms = window_ms
        self.elapsed_ms = elapsed_ms
        self.last_event = last_event
        self.pauses = pauses or {}


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
