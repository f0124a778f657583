"""What a guard understands of its events: which reader reads them, what the watch hears, and the text until now.

Most streams consist of events of a few classes, so who reads a class is decided once. Whatever nobody can read is
progress. A reader that fails is one that could not read: the stream goes on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from longwatch.core import observations as o
from longwatch.observe.events import Event, Text, observations
from longwatch.streams import adapters
from longwatch.streams.pulse import EVENTS

Reader = Callable[[Any], Iterable[Event]]

#: What is kept of a text, in bytes: as much as of a program's output.
HEAD, TAIL = 64 << 10, 256 << 10
#: The kind of an event before the first, and of one that says no more than that it came.
NO_EVENT, ANY_EVENT = "none", "event"
_PROGRESS = (o.ProgressSeen(EVENTS),)


class Spoken:
    """The first and the last of a text that comes in pieces."""

    __slots__ = ("_head", "_head_size", "_tail", "_tail_size", "dropped")

    def __init__(self) -> None:
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_size = self._tail_size = 0
        #: Bytes that are in neither.
        self.dropped = 0

    def add(self, text: str) -> None:
        """Take the next piece; what falls out of the middle is counted, in whole pieces."""
        size = _size(text)
        if not self._tail and self._head_size + size <= HEAD:
            self._head.append(text)
            self._head_size += size
            return
        if size > TAIL:
            kept = text.encode()[-TAIL:].decode(errors="ignore")
            self.dropped += size - _size(kept)
            text, size = kept, _size(kept)
        self._tail.append(text)
        self._tail_size += size
        while self._tail_size > TAIL:
            oldest = _size(self._tail.popleft())
            self._tail_size -= oldest
            self.dropped += oldest

    def __str__(self) -> str:
        head = "".join(self._head)
        gap = ""
        if self.dropped:
            gap = f"{'' if head.endswith(chr(10)) else chr(10)}[... {self.dropped} bytes left out ...]\n"
        return f"{head}{gap}{''.join(self._tail)}"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class Hearing:
    """Reads one stream's events."""

    __slots__ = ("_adapter", "_known", "_note", "_readers", "last_event", "spoken", "typed")

    def __init__(self, adapter: Reader | None, note: Callable[[str], object]) -> None:
        self._adapter = adapter
        self._known: dict[type, Reader | None] = {}
        self._readers: dict[str, Any] = {}
        self._note = note
        self.spoken: Spoken | None = None
        #: Whether anybody can read any of it: then there may be calls and pauses, and each event is looked at.
        self.typed = adapter is not None
        self.last_event = NO_EVENT

    def hear(self, event: Any) -> Sequence[o.Observation]:
        """Return what the watch hears of an event. Never raises."""
        kind = type(event)
        if kind not in self._known:
            self._known[kind] = self._reader_of(kind)
        reader = self._known[kind]
        self.last_event = ANY_EVENT
        if reader is None:
            return _PROGRESS
        heard: list[o.Observation] = []
        try:
            for each in reader(event):
                heard += observations(each, EVENTS)
                self.last_event = each.kind
                if type(each) is Text:
                    self._spoke(each.text)
        except Exception as error:  # noqa: BLE001 - what cannot be read has come all the same
            self._note(f"the adapter could not read an event of {kind.__qualname__}: {error!r}")
        return heard or _PROGRESS

    def _spoke(self, text: str) -> None:
        if self.spoken is None:
            self.spoken = Spoken()
        self.spoken.add(text)

    def _reader_of(self, kind: type) -> Reader | None:
        reader = self._adapter
        if reader is None:
            reader = _itself if issubclass(kind, Event) else adapters.for_type(kind, self._readers)
        self.typed = self.typed or reader is not None
        return reader


def _itself(event: Event) -> tuple[Event]:
    return (event,)


__all__ = ["ANY_EVENT", "NO_EVENT", "Hearing", "Reader", "Spoken"]
