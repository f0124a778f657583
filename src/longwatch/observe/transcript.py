"""The transcript of a run as a source: what its agent did, told to the watch at the instants at which it happened.

Sampled: whoever holds it looks when a limit comes due, right before anything destructive, and sooner where somebody
wakes it. Records carry the wall clock's time. It is turned into the watch's by the distance of the two clocks now,
and kept between the last look and this one: what was appended since cannot have happened before, however often the
wall clock is set meanwhile. Only of what was in a file when it was met do the times decide what is older than the run.

The source is unknown until the first record of this run, and again while no file of ours can be read.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from time import monotonic_ns
from typing import Protocol

from longwatch.core import observations as o
from longwatch.core.sight import TRANSCRIPT
from longwatch.observe.record import Record
from longwatch.observe.sessions import HELPER, Found, Sessions
from longwatch.observe.tail import Tail

#: How often to look for further files at most: it reads folders and processes. One that takes longer than a trifle (in
#: ms), where there are thousands of files, is made as much more seldom.
SEARCH, TRIFLE = 1_000, 20
#: The two clocks are read one after the other, and both are rounded.
_SLACK = 100
#: So many files keep their descriptors; an agent may have hundreds of helpers.
OPEN = 64

Told = tuple[int, o.Observation]
Hear = Callable[[int, Record, int], Iterable[o.Observation]]


class Reader(Protocol):
    """A dialect's reader of one file."""

    sub: str
    bad: int

    def read(self, line: bytes, pos: int = 0, wall: int | None = None) -> list[Record]:
        """Return the records of a line."""


class Source(Protocol):
    """Something that holds records of an agent: a file of lines, a database."""

    @property
    def bad(self) -> int:
        """How many lines were no records."""

    @property
    def behind(self) -> bool:
        """Whether there is more than one look takes."""

    def read(self, wall: int | None) -> Iterable[Record]:
        """Yield what is new; raises OSError while it cannot be read."""

    def rest(self) -> None:
        """Hold no descriptor until the next reading."""


class Lines:
    """A file of lines, followed and read in one dialect."""

    def __init__(self, found: Found, reader: Reader) -> None:
        self._tail = Tail(found.path, found.mark)
        self._reader = reader
        if found.why == HELPER and not reader.sub:
            reader.sub = os.path.splitext(os.path.basename(found.path))[0]

    @property
    def bad(self) -> int:
        """How many lines were no records."""
        return self._reader.bad

    @property
    def behind(self) -> bool:
        """Whether there is more than one look takes."""
        return self._tail.behind

    def read(self, wall: int | None) -> Iterator[Record]:
        """Yield the records of the new lines. Raises OSError while the file cannot be read."""
        for pos, line in self._tail.read():
            yield from self._reader.read(line, pos, wall)

    def rest(self) -> None:
        """Give the descriptor back until the next reading."""
        self._tail.close()


def _plainly(at: int, record: Record, late: int) -> Iterable[o.Observation]:  # noqa: ARG001
    return record.observations(TRANSCRIPT, late=late)


class Transcript:
    """All files of one run's agent as one source. `follow` makes a source of a file that was found.

    `note` is told, once each, what a human should know of the reading; `hear` what each record means: its instant on
    the watch's clock, the record, and how many ms before that it was written.
    """

    name = TRANSCRIPT

    def __init__(
        self, sessions: Sessions, follow: Callable[[Found], Source], started: int,
        note: Callable[[str], object] = lambda text: None, hear: Hear = _plainly,
    ) -> None:  # fmt: skip
        self.sessions = sessions
        self._hear = hear
        self._follow = follow
        self._note = note
        self._noted: set[str] = set()
        self._followed: list[_Followed] = []
        self._started = self._looked = started
        self._searched = started - SEARCH
        self._pause = SEARCH
        self._seen = self._lost = False

    @property
    def files(self) -> dict[str, str]:
        """The files that are followed, each with why it is ours."""
        return {each.found.path: each.found.why for each in self._followed}

    @property
    def bad(self) -> int:
        """How many lines of all files were no records."""
        return sum(each.source.bad for each in self._followed)

    @property
    def behind(self) -> bool:
        """Whether there is more to read than one look takes: look again soon."""
        return any(each.source.behind for each in self._followed)

    def look(self, now: int, *, afresh: bool = False) -> list[Told]:
        """Return what happened since the last look, each with its instant in ms on the watch's clock, oldest first.

        Further files are searched for now and then, and where somebody has to know (`afresh`).
        """
        wall = time.time_ns() // 1_000_000
        if afresh or now - self._searched >= self._pause:
            self._search(now)
        records = [told for each in self._followed for told in self._read(each, now, wall)]
        records.sort(key=lambda told: told[0])
        told = self._source_changed(now, [at for at, _ in records])
        for at, record in records:
            # Instants before the last look are told as of it: of a stated wait less is left by then.
            late = 0 if record.at is None else at - _on(record.at, now, wall)
            told += [(at, seen) for seen in self._hear(at, record, max(0, late))]
            self._say(record.note)
        self._looked = now
        return coalesced(told)

    def close(self) -> None:
        """Give all descriptors back."""
        for each in self._followed:
            each.source.rest()

    def _search(self, now: int) -> None:
        self._searched = now
        began = monotonic_ns()
        for found in self.sessions.find():
            self._followed.append(_Followed(found, self._follow(found), self._started))
        self._pause = SEARCH * max(1, (monotonic_ns() - began) // 1_000_000 // TRIFLE)

    def _read(self, each: "_Followed", now: int, wall: int) -> list[tuple[int, Record]]:
        found = []
        try:
            for record in each.read(now, wall):
                own = now if record.at is None else _on(record.at, now, wall)
                # Stamps step back, between threads and between machines: what comes later did not happen earlier.
                each.last = min(now, max(own, each.last, self._looked))
                found.append((each.last, record))
        except OSError:
            pass
        if each.source.bad:
            self._say(f"{each.found.path}: what is no record is skipped")
        if sum(other.last > each.last for other in self._followed) >= OPEN:
            each.source.rest()
        return found

    def _source_changed(self, now: int, instants: list[int]) -> list[Told]:
        """Tell that the source was seen for the first time, or lost, or found again."""
        readable = any(each.readable for each in self._followed)
        if instants and (self._lost or not self._seen):
            self._seen, self._lost = True, False
            return [(instants[0], o.SourceFound(TRANSCRIPT))]
        if self._seen and readable == self._lost:
            self._lost = not readable
            return [(now, o.SourceFound(TRANSCRIPT) if readable else o.SourceLost(TRANSCRIPT))]
        return []

    def _say(self, text: str) -> None:
        if text and text not in self._noted:
            self._noted.add(text)
            self._note(text)


class _Followed:
    """One file of ours: its source, the newest instant told of it, and whether it can be read."""

    __slots__ = ("_fresh", "_started", "found", "last", "readable", "source")

    def __init__(self, found: Found, source: Source, started: int) -> None:
        self.found = found
        self.source = source
        self.last = started
        self.readable = True
        self._started = started
        self._fresh = found.mark is not None

    def read(self, now: int, wall: int) -> Iterator[Record]:
        """Yield the new records of this run. Raises OSError while there is nothing to read."""
        self.readable = False
        for record in self.source.read(wall if self._fresh else None):
            if self._fresh or not self._is_old(record, now, wall):
                yield record
        self.readable = True
        self._fresh = self._fresh or not self.source.behind

    def _is_old(self, record: Record, now: int, wall: int) -> bool:
        if record.at is None:
            return self.found.existed
        return _on(record.at, now, wall) < self._started - _SLACK


def _on(at: int, now: int, wall: int) -> int:
    """Return an instant of the wall clock, in ms since 1970, on the clock of which it is `now` when that is `wall`."""
    return now - (wall - at)


def coalesced(told: list[Told]) -> list[Told]:
    """Return what is told with runs of mere signs joined: a watch needs the last of them, and how many there were."""
    out: list[Told] = []
    for at, seen in told:
        last = out[-1][1] if out else None
        if isinstance(seen, o.ProgressSeen) and isinstance(last, o.ProgressSeen):
            out[-1] = (at, o.ProgressSeen(seen.source, last.count + seen.count))
        elif isinstance(seen, o.AliveSeen) and isinstance(last, o.AliveSeen):
            out[-1] = (at, seen)
        else:
            out.append((at, seen))
    return out
