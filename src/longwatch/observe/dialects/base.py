"""What all dialects share: a reader of one file or stream, and the book of its calls.

A reader is told lines and answers with records. It never raises: what it does not know is a sign of life, what does
not parse is counted. It remembers as little as it must: which calls are open, and what it has said already, because
agents write the same thing twice when they resume, and in two forms when their format moves on.
"""

import msgspec

from longwatch.observe import events as e
from longwatch.observe.dialects.calls import Calls, Recent
from longwatch.observe.dialects.loose import decode, kind_of, text
from longwatch.observe.lines import SHORT, WINDOW, cut
from longwatch.observe.record import DISK, INFERRED, RECEIPT, RECORD, Record, instant
from longwatch.observe.wording import limit_class, reset
from longwatch.resets import Reset
from longwatch.resets import span as read_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    from longwatch.observe.dialects.glance import Glance

#: How a file of SQLite begins.
DATABASE_HEAD = b"SQLite format 3\0"


class Dialect:
    """One agent's way of writing. `recognise` gets a file's first records and returns where such are read, or ""."""

    __slots__ = ("_glance", "make", "name", "recognise")

    def __init__(
        self,
        name: str,
        make: "Callable[[str], Reader]",
        recognise: "Callable[[Sequence[dict[str, Any]]], str]",
        glance: "Callable[[Callable[[bytes], str]], Glance] | None" = None,
    ) -> None:
        self.name = name
        self.make = make
        self.recognise = recognise
        self._glance = None if glance is None else glance(self._read_through)

    def reader(self, source: str = DISK) -> "Reader":
        """Return a reader for a file (disk), or for what the agent prints (stream)."""
        return self.make(source)

    def classify(self, line: bytes) -> str:
        """Return the kind of the event that a line gives, by as few of its bytes as will do; "" for none.

        A call that failed is `tool_failed`; of several events a result goes first, then a call.
        """
        return self._read_through(line) if self._glance is None else self._glance.kind(line)

    def kinds(self, run: bytes | memoryview) -> list[str]:
        """Return the same of each line of a run (see `lines.runs`)."""
        if self._glance is not None:
            return self._glance.kinds(run)
        return [self._read_through(line) for line in bytes(run).split(b"\n") if line.strip()]

    def _read_through(self, line: bytes) -> str:
        events = [event for record in self.make(DISK).read(line) for event in record.events]
        for event in events:
            if isinstance(event, e.ToolResult):
                return event.kind if event.ok else "tool_failed"
        kinds = [event.kind for event in events if not isinstance(event, e.SessionStarted | e.Usage)]
        return "tool_call" if "tool_call" in kinds else next(iter(kinds), "")


class Peek(msgspec.Struct):
    """What tells of a long line whether it has to be read at all."""

    type: object = None
    timestamp: object = None


_PEEK = msgspec.json.Decoder(Peek)
#: What a model does once it is heard again.
_ANSWERS = (e.Text, e.Thinking, e.ToolCalled)


class Reader:
    """Reads one file or stream, line after line. Dialects say in `interpret` what a record means.

    `bad` counts lines that are no JSON, `failures` records at which the dialect itself failed: both are signs of life.
    """

    #: Types of records that never mean anything; a long line of such a type is not decoded.
    noise: "ClassVar[frozenset[str]]" = frozenset()
    #: What differs in equal results: the ids that the program gives out.
    varying: "ClassVar[re.Pattern[str] | None]" = None

    def __init__(self, source: str = DISK) -> None:
        self.source = source
        self.session = ""
        #: Set where the whole file is a sub-agent's.
        self.sub = ""
        self.calls = Calls()
        self.said = Recent()
        self.bad = 0
        self.failures = 0
        self._last: int | None = None
        self._wall: int | None = None
        self._parked_until, self._parked_by = 0, ""
        self._used: tuple[object, ...] = ()

    # -- what whoever follows a file calls

    def take_up(self, path: str, offset: int) -> None:
        """Take note of what stands before the place in a file from which on it is read. Raises nothing."""

    def read(self, line: bytes, pos: int = 0, wall: int | None = None) -> list[Record]:
        """Return the records of a line: at least one, unless the line is no JSON. Raises nothing.

        `wall` is when it was received, in ms since 1970, for records that do not say when they were written.
        """
        self._wall = wall
        if len(line) > SHORT and (record := self._skipped(line)) is not None:
            record.pos = pos
            return [record]
        value = decode(line)
        if value is None:
            self.bad += 1
            return []
        return self.take(value, pos)

    def take(self, value: object, pos: int = 0) -> list[Record]:
        """Return the records of a decoded line or row. Raises nothing."""
        try:
            records = list(self.interpret(value)) if isinstance(value, dict) else []
        except Exception:  # noqa: BLE001 - the next release of an agent must not end the supervision of this one
            self.failures += 1
            records = []
        records = records or [self.made(raw_type=kind_of(value))]
        for record in records:
            record.pos = pos
            self._lift(record)
        return records

    def _lift(self, record: Record) -> None:
        """Where the model speaks before the end of a stated wait, that wait is over, and it is told first."""
        now = record.at
        if now is None:
            return
        for place, event in enumerate(record.events):
            if isinstance(event, _ANSWERS) and now < self._parked_until:
                self._parked_until = 0
                before, after = record.events[:place], record.events[place:]
                record.events = (*before, e.Limited(self._parked_by, lifted=True), *after)
                return
            span = (
                event.span
                if isinstance(event, e.Limited)
                else event.delay
                if isinstance(event, e.Retry)
                else None
            )
            if span is not None and isinstance(event, e.Limited | e.Retry):
                self._parked_until, self._parked_by = max(self._parked_until, now + span), event.cls

    def stderr(self, line: bytes) -> list[Record]:
        """Return the records of a line on the agent's stderr: words that only a program prints of itself."""
        del line
        return []

    def steady(self, said: str) -> str:
        """Return a result without what its program adds to it anew each time: equal results have to look equal."""
        return said if self.varying is None else self.varying.sub("", said)

    # -- what dialects write

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a record means; nothing at all makes it a sign of life."""
        raise NotImplementedError

    def made(
        self, *events: e.Event, at: object = None, sub: str = "", raw_type: str = "", uid: str = "", note: str = ""
    ) -> Record:  # fmt: skip
        """Return a record of this file; one without a time happened no earlier than the one before it."""
        own = instant(at)
        stamped, source = own, RECORD
        if own is None:
            stamped, source = (self._last, INFERRED) if self._wall is None else (self._wall, RECEIPT)
        if stamped is not None:
            self._last = stamped if self._last is None else max(self._last, stamped)
        return Record(
            events, at=stamped, at_source=RECEIPT if stamped is None else source, session=self.session,
            sub=sub or self.sub, source=self.source, raw_type=raw_type, uid=uid, note=note,
        )  # fmt: skip

    def time_of(self, at: object) -> int | None:
        """Return when a record was written, as far as is known, in ms since 1970."""
        own = instant(at)
        return own if own is not None else self._last if self._wall is None else self._wall

    def ended(self, reason: str, *, sub: bool = False) -> tuple[e.Event, ...]:
        """Return the end of a turn; its calls that still run are nobody's now, and all of a turn that was broken off.

        The calls of a sub-agent (`sub`) are in the same book as ours, so the end of its turn ends none.
        """
        ok = reason == "end_turn"
        calls: tuple[e.Event, ...] = ()
        if not sub:
            calls = self.calls.orphaned(running=True)
            calls += self.calls.orphaned() if reason in ("aborted", "error") else ()
        return (*calls, e.TurnEnded(reason, ok))

    def closed(self, *, ok: bool, reason: str = "") -> tuple[e.Event, ...]:
        """Return the end of the conversation: no call gets a result any more."""
        calls = self.calls.orphaned(running=True) + self.calls.orphaned()
        return (*calls, e.SessionEnded(ok, reason))

    def used(
        self, message: str, given: int, output: int, cached: int = 0, *, total: int = 0, cost: float | None = None,
        inside: bool = False,
    ) -> tuple[e.Event, ...]:  # fmt: skip
        """Return what a reply has used; nothing where it says nothing new.

        Tokens of the input (`given`) include those written to a cache, and with `inside` those read from one; what of
        a `total` no part accounts for is output.
        """
        told = (message, given, output, cached, total, cost)
        if told == self._used and message:
            return ()
        self._used = told
        given -= min(given, cached) if inside else 0
        output = max(output, total - given - cached)
        if not (given or output or cached or cost):
            return ()
        return (e.Usage(message, given, output, cached, cost),)

    def limited(
        self, message: str, status: int | None, at: object, *, cls: str = "", until: object = None,
        span: int | None = None, scope: str = "",
    ) -> tuple[tuple[e.Event, ...], str]:  # fmt: skip
        """Return the limit that an error names, if it names one, and what should be told of the reading.

        What the record states, a span in ms or an instant (`until`), goes before what its words say.
        """
        cls = cls or limit_class(message, status)
        if cls not in ("rate", "usage", "money", "auth"):
            return (), ""
        written, found = self.time_of(at), Reset(span)
        if written is not None and span is None:
            found = read_span(until, written / 1000) if until is not None else reset(message, written / 1000)
        return (e.Limited(cls, found.span, scope),), found.note

    def _skipped(self, line: bytes) -> Record | None:
        if not self.noise:
            return None
        try:
            peek = _PEEK.decode(cut(line, WINDOW))
        except (ValueError, RecursionError):
            return None
        if peek.type not in self.noise:
            return None
        return self.made(at=peek.timestamp, raw_type=text(peek.type))
