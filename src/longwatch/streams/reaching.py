"""The error of a limit that was reached in a stream: its class, its one line, and what it knows of pauses.

Without a pause the line of a ceiling is that of any limit; with one it also says what the ceiling was, how far pauses
have moved it, and whether they could have moved it further.
"""

from typing import Any

from longwatch import vocabulary
from longwatch.core import facts as f
from longwatch.core.holds import PAUSED
from longwatch.reached import (
    CallReached,
    CeilingReached,
    FirstReached,
    IdleReached,
    LimitReached,
    TimeoutReached,
)
from longwatch.units import format_duration

_CLASSES: dict[str, type[LimitReached]] = {
    "idle": IdleReached,
    "first": FirstReached,
    "call": CallReached,
    "ceiling": CeilingReached,
    "timeout": TimeoutReached,
}


class Parked:
    """What is known of the provider's pauses of one stream, gathered from facts."""

    __slots__ = ("_cap", "_granted", "_span", "_until", "pauses")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._granted = 0
        self._span: int | None = None
        self._until: int | None = None
        #: How often the provider has said wait.
        self.pauses = 0

    def said(self, span: int | None) -> None:
        """The provider said wait, for so long or for nobody knows how long."""
        self.pauses += 1
        self._span = span

    def hear(self, fact: f.Fact) -> None:
        """Take note of what a fact says of pauses."""
        if isinstance(fact, f.ExtensionGranted) and fact.limit == "ceiling":
            self._granted = fact.total
        elif isinstance(fact, f.HoldBegan) and fact.hold == PAUSED:
            self._until = fact.until
        elif isinstance(fact, f.HoldEnded) and fact.hold == PAUSED:
            self._until = None

    def open(self, now: int) -> bool:
        """Whether a pause is still running."""
        return self._until is not None and self._until > now

    def as_dict(self, parked: int, now: int) -> dict[str, Any]:
        """Return what an error carries; `parked` is the time in pauses, all of it."""
        return {"parked_ms": parked, "granted_ms": self._granted, "cap_ms": self._cap, "open": self.open(now)}

    def words(self, now: int) -> str:
        """Return what a reached ceiling says of the pauses; nothing where there were none."""
        if not self.pauses:
            return ""
        spent = self._granted >= self._cap
        credit = "EXHAUSTED" if spent else f"of at most {format_duration(self._cap)}"
        span = "until nobody knows when" if not self._span else f"of {format_duration(self._span)}"
        state = "still open" if self.open(now) else "over"
        granted = format_duration(self._granted) if self._granted else "nothing"
        return f" and {granted} granted for pauses ({credit}; the last one, {span}, is {state})"


def reached(
    name: str, fired: f.LimitFired, reason: str, parked: Parked, *, partial: str | None, last_event: str,
    parked_ms: int,
) -> LimitReached:  # fmt: skip
    """Return the error for the limit that ended a stream."""
    missed = "event" if fired.limit == "first" else "progress"
    words = vocabulary.limit(fired.limit, fired.window, missed, fired.subject)
    more = parked.words(fired.at) if fired.limit == "ceiling" else ""
    return _CLASSES.get(reason, LimitReached)(
        f"{name}: {words}{more}", reason, partial,
        window_ms=fired.window, elapsed_ms=max(0, fired.at - fired.since), last_event=last_event,
        pauses=parked.as_dict(parked_ms, fired.at),
    )  # fmt: skip


__all__ = ["Parked", "reached"]
