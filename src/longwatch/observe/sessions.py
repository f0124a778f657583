"""Whose file is it: which transcripts are written by the processes of one run.

Agents keep the records of all their conversations side by side, and several may work in one directory at once. The
newest file is therefore nobody's in particular. A file is ours by the first of these that holds:

- `open`: a process of the run holds it open for writing;
- `registry`: the agent notes which process has which conversation, and the process is one of the run's;
- `named`: the agent named its conversation to us, or was started with its name;
- `folder`: it belongs to the directory that the run's agent works in, and nobody else can have written it (see
  `neighbours`); only for agents that tell in no better way, or that have ended before they were heard to tell;
- `helper`: it lies where a conversation of ours keeps its sub-agents.

What none of them shows is not ours. Where nothing is ours yet the transcript is *pending*: unknown, and so without a
voice. Nothing is ever given back: a conversation that moves to another file is followed there, beside the old one.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator

from longwatch.core.record import Plain
from longwatch.observe.neighbours import Company, Conversations, Neighbours, Worker
from longwatch.observe.places import State, head
from longwatch.observe.tail import Mark

OPEN, REGISTRY, NAMED, FOLDER, HELPER = "open", "registry", "named", "folder", "helper"
#: A registry's file is stamped by the wall clock, a process by the kernel's: such differences are no older process.
_SLACK = 2_000


class Found(Plain):
    """A file of ours: `why` it is, and where to begin (`mark`; None: at its beginning).

    From a mark on all is new. At a beginning there may be copied or older records, to be told by their times; one
    without a time is old where the file `existed` before the run.
    """

    __slots__ = ("existed", "mark", "path", "why")

    def __init__(self, path: str, why: str, mark: Mark | None = None, *, existed: bool = False) -> None:
        self.path = path
        self.why = why
        self.mark = mark
        self.existed = existed


class Sessions:
    """Finds the files of one run of one agent. To be made right after the start, before the agent writes.

    `shelf` has all conversations of the agent; `started` is the run's start in ms on the clock that `clock` reads.
    """

    def __init__(
        self, shelf: Conversations, company: Company, started: int, *, clock: Callable[[], int]
    ) -> None:
        self.place = shelf.place
        self._shelf = shelf
        self._company = company
        self._clock = clock
        self._started = started
        self._named: set[str] = set()
        self._known: dict[str, str] = {}
        self._before = {path: state for path in shelf.all() if (state := shelf.state(path)) is not None}
        self._neighbours = Neighbours(shelf, company, dict(self._before), started, self._wall)

    @property
    def pending(self) -> str:
        """Why nothing is followed; empty when something is."""
        if self._known:
            return ""
        return self._neighbours.doubt or f"{self.place.names[0]} has written no transcript yet"

    def name(self, session: str) -> None:
        """Take note that the agent itself named its conversation: in its stream, or to a hook."""
        self._named.add(session)

    def find(self) -> list[Found]:
        """Return the files of ours that were not returned before."""
        members = list(self._company.members())
        found = [
            *self._ours(OPEN, self._company.written(self._shelf.holds)),
            *self._ours(REGISTRY, self._registered(members)),
            *self._ours(NAMED, self._called(members)),
        ]
        # Who has ended tells in no way any more; it may have been so quick that nobody saw it telling.
        if self.place.by_folder or not (members or self._known):
            others = {path: state for path in self._shelf.all() if (state := self._changed(path)) is not None}
            found += self._ours(FOLDER, self._neighbours.ours(members, others))
        mains = [path for path, why in self._known.items() if why != HELPER]
        return found + self._ours(HELPER, [path for main in mains for path in self._shelf.helpers(main)])

    def _ours(self, why: str, paths: Iterable[str]) -> list[Found]:
        new = [path for path in dict.fromkeys(paths) if path not in self._known]
        self._known.update(dict.fromkeys(new, why))
        return [self._found(path, why) for path in new]

    def _found(self, path: str, why: str) -> Found:
        known = self._neighbours.before if why == FOLDER else self._before
        before = known.get(path)
        # Touched since the start already: what is new in it only the times in it can tell.
        if before is None or (known is self._before and before.written >= self._wall(self._started)):
            return Found(path, why, existed=before is not None)
        return Found(path, why, Mark(before.inode, before.size) if before.inode else None, existed=True)

    def _changed(self, path: str) -> State | None:
        return None if path in self._known else self._shelf.state(path)

    def _registered(self, members: list[Worker]) -> Iterator[str]:
        for member in members:
            for path in self._shelf.registries(member.pid):
                yield from self._shelf.of_session(self._session(path, member))

    def _session(self, path: str, member: Worker) -> str:
        """Return the conversation that a registry's file gives to a process; empty for what is left of another one.

        An earlier process with this pid wrote its file before this one began; one of another container, where pids
        are counted anew, began at another tick.
        """
        state = self._shelf.state(path)
        if state is None or state.written < self._wall(member.started) - _SLACK:
            return ""
        if "{id}" in self.place.registry:
            return os.path.basename(os.path.dirname(path))
        text = head(path)
        start = _field(text, b"procStart")
        return _field(text, b"sessionId") if start in ("", str(member.ticks)) else ""

    def _called(self, members: list[Worker]) -> Iterator[str]:
        words = (word for member in members if member.plays(self.place.names) for word in member.words)
        given = {value for word in words if self._shelf.is_id(value := word.rpartition("=")[2])}
        for session in sorted(self._named | given):
            yield from self._shelf.of_session(session)

    def _wall(self, instant: int) -> int:
        """Return an instant of the watch's clock in ms since 1970."""
        return time.time_ns() // 1_000_000 - (self._clock() - instant)


def _field(text: bytes, name: bytes) -> str:
    """Return a text of a small JSON file by its key, wherever it stands."""
    _, _, rest = text.partition(b'"%s":"' % name)
    return rest.partition(b'"')[0].decode(errors="replace")
