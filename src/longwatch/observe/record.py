"""One record of an agent: its events, and where they come from.

`at` is the record's own time, so what is read late still happened when it happened. What an agent's helper does is
the agent's work, but the end of the helper's turn is not the end of ours: `observations` knows the difference.
"""

from datetime import datetime

from longwatch.core import observations as o
from longwatch.core.record import Plain
from longwatch.core.sight import TRANSCRIPT
from longwatch.observe import events as e

#: Where a record was read: a file of the agent's, what it prints, its database, a hook's call, the ACP.
SOURCES = DISK, STREAM, DATABASE, HOOK, ACP = ("disk", "stream", "db", "hook", "acp")
#: Who stamped it: the agent; whoever received it (so `at` is None here); what stands beside it.
RECORD, RECEIPT, INFERRED = "record", "receipt", "inferred"
#: The type of what was read from words for people: an agent that prints such lines may still print no records.
WORDS = "words"

#: Numbers are seconds from September 2001 to 2096, or the same in ms, µs or ns.
_OLDEST, _NEWEST = 1_000_000_000, 4_000_000_000
_SCALES = (1_000, 1, 0.001, 0.000_001)
#: What is about a conversation as a whole, and so says nothing of ours when a helper reports it.
_OWN = (e.SessionStarted, e.SessionEnded, e.TurnStarted, e.TurnEnded)


class Record(Plain):
    """What one instant of a transcript means. Without events it is only a sign of life.

    `at` is in ms since 1970, None where the record has no time; `sub` is the sub-agent whose record it is; `uid` tells
    it from all others of its session (an empty one: it has none); `pos` is its offset in bytes, in a database its
    number; `note` is what a human should be told of the reading, such as a time without a zone.
    """

    __slots__ = ("at", "at_source", "events", "note", "pos", "raw_type", "session", "source", "sub", "uid")

    def __init__(
        self, events: tuple[e.Event, ...] = (), *, at: int | None = None, at_source: str = "", session: str = "",
        sub: str = "", source: str = DISK, raw_type: str = "", uid: str = "", pos: int = 0, note: str = "",
    ) -> None:  # fmt: skip
        self.events = events
        self.at = at
        self.at_source = at_source or (RECEIPT if at is None else RECORD)
        self.session = session
        self.sub = sub
        self.source = source
        self.raw_type = raw_type
        self.uid = uid
        self.pos = pos
        self.note = note

    def observations(self, source: str = TRANSCRIPT, late: int = 0) -> tuple[o.Observation, ...]:
        """Return what a watch hears of it; `late` is how many ms ago the record was written."""
        heard: list[o.Observation] = []
        for event in self.events:
            if self.sub and isinstance(event, _OWN):
                heard.append(o.AliveSeen(source))
            else:
                heard += e.observations(_aged(event, late), source)
        return tuple(heard) or (o.AliveSeen(source),)


def _aged(event: e.Event, late: int) -> e.Event:
    """Return an event as it looks `late` ms later: of a stated wait only the rest is left, if any."""
    if late <= 0:
        return event
    if isinstance(event, e.Retry) and event.delay is not None:
        left = event.delay - late
        return e.Retry(event.attempt, left if left > 0 else None, event.status, event.cls)
    if isinstance(event, e.Limited) and event.span is not None:
        left = event.span - late
        return e.Limited(event.cls, left if left > 0 else None, event.scope, event.lifted)
    return event


def instant(value: object) -> int | None:
    """Return the ms since 1970 that a time stands for: ISO 8601, or a number by its size; None for anything else.

    A text without a zone is local time, as those who leave it out write it.
    """
    if isinstance(value, str):
        return _written(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    for power, scale in enumerate(_SCALES):
        unit = 1_000**power
        if _OLDEST * unit <= value < _NEWEST * unit:
            return round(value * scale)
    return None


def _written(text: str) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
