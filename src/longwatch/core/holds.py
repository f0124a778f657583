"""Reasons to expect silence. A hold is a mask, not a freeze: it forbids a limit to fire, it stops no clock.

Holds are a set: call ids, question ids, one pause, one quiet, ready. They overlap freely and end one by one.
A limit's deadline is max(last restart + window, end of the last hold that masked it).
"""

from longwatch.core.record import Plain

CALL, ASKED, PAUSED, QUIET, READY = "call", "asked", "paused", "quiet", "ready"
#: No declared source can be read; `idle` is not armed yet (by the first progress, or by a soft limit).
BLIND, UNARMED = "blind", "unarmed"


class Hold(Plain):
    """One open hold; `end` is the instant at which it ends by itself (None: it does not)."""

    __slots__ = ("began", "end", "kind", "subject")

    def __init__(self, kind: str, subject: str, began: int, end: int | None = None) -> None:
        self.kind = kind
        self.subject = subject
        self.began = began
        self.end = end


class Holds:
    """The open holds of one run."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Hold] = {}

    def begin(self, kind: str, now: int, subject: str = "", end: int | None = None) -> Hold | None:
        """Open a hold, or move the end of an open one later (never earlier); None when nothing changed."""
        known = self._open.get((kind, subject))
        if known is None:
            hold = self._open[kind, subject] = Hold(kind, subject, now, end)
            return hold
        if end is None or known.end is None or end <= known.end:
            return None
        known.end = end
        return known

    def end(self, kind: str, subject: str = "") -> Hold | None:
        """Close a hold; None when it was not open (a result without a start is harmless)."""
        return self._open.pop((kind, subject), None)

    def of(self, kind: str) -> list[Hold]:
        """Return the open holds of a kind, oldest first."""
        return [hold for hold in self._open.values() if hold.kind == kind]

    def expired(self, now: int) -> list[Hold]:
        """Close and return the holds whose end has come, in the order of their ends."""
        over = [hold for hold in self._open.values() if hold.end is not None and hold.end <= now]
        for hold in over:
            del self._open[hold.kind, hold.subject]
        return sorted(over, key=lambda hold: hold.end or 0)

    def next_end(self) -> int | None:
        """Return the instant at which the next hold ends by itself."""
        return min((hold.end for hold in self._open.values() if hold.end is not None), default=None)

    def mask(self, kinds: frozenset[str], floor: int) -> int | None:
        """Return the earliest instant at which a limit masked by `kinds` may fire; None: not foreseeable."""
        for hold in self._open.values():
            if hold.kind in kinds:
                if hold.end is None:
                    return None
                floor = max(floor, hold.end)
        return floor

    def shift(self, span: int) -> None:
        """Nobody watched for `span` ms: a stated end guards the silence after it, so it moves along, as does the age."""
        for hold in self._open.values():
            hold.began += span
            if hold.end is not None:
                hold.end += span

    def all(self) -> list[Hold]:
        """Return all open holds, oldest first."""
        return list(self._open.values())
