"""The conversations that the known agents have kept of this user, read one by one, by several processes where there are many."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from longwatch.learn.sessions import Session, Transcript
from longwatch.learn.suggest import Seen, Sleeps, silences
from longwatch.observe.agent import ASKING
from longwatch.observe.dialects import load
from longwatch.observe.dialects.opencode import Database
from longwatch.observe.places import PLACES, Shelf
from longwatch.observe.record import DISK, Record
from longwatch.observe.rows import Table

#: Below so many bytes more processes would not be done sooner.
MANY = 64 << 20
_CHUNK = 4
_DATABASES = ("opencode",)


class Conversation(NamedTuple):
    """Where one is kept: its file and those of its helpers; or the id of one in a database."""

    agent: str
    path: str
    helpers: tuple[str, ...] = ()
    row: str = ""
    size: int = 0


class Read(NamedTuple):
    """What came of reading one: nothing where it could not be; `troubles` say what could not, in one line each."""

    seen: Seen
    troubles: list[str]


def place(agent: str, environ: Mapping[str, str]) -> str:
    """Return where an agent keeps its conversations."""
    return PLACES[agent].folder(environ)


def conversations(agent: str, environ: Mapping[str, str], since: int | None) -> list[Conversation]:
    """Return an agent's conversations, those that were written to since an instant in ms since 1970."""
    if agent in _DATABASES:
        table = Table(environ)
        return [
            Conversation(agent, table.path, row=name)
            for name in table.all()
            if (state := table.state(name)) is not None and state.written >= (since or 0)
        ]
    shelf = Shelf(PLACES[agent], environ)
    return [
        Conversation(agent, path, tuple(sorted(shelf.helpers(path))), size=state.size)
        for path in sorted(shelf.all())
        if (state := shelf.state(path)) is not None and state.written >= (since or 0)
    ]


def read_all(
    found: Sequence[Conversation], sleeps: Sleeps, starts: Mapping[tuple[str, str], Sequence[int]]
) -> Iterator[Read]:
    """Read conversations, in their order. `starts` are the starts of runs by agent and its conversation's id."""
    read = partial(read_one, sleeps=sleeps, starts=starts)
    workers = min(_processors(), len(found))
    if workers < 2 or sum(each.size for each in found) < MANY or sys.platform != "linux":
        yield from map(read, found)
        return
    yield from _shared(read, found, workers)


def read_one(found: Conversation, *, sleeps: Sleeps, starts: Mapping[tuple[str, str], Sequence[int]]) -> Read:
    """Read one conversation, in the memory of a few records."""
    troubles: list[str] = []
    try:
        session, records = _records(found, troubles)
        begun = starts.get((found.agent, session), ())
        return Read(Seen(silences(records, begun), sleeps, ASKING), troubles)
    except OSError as error:
        return Read(Seen(()), [*troubles, _why(found.path, error)])


def _records(found: Conversation, troubles: list[str]) -> tuple[str, Iterable[Record]]:
    if found.row:
        return found.row, Database(found.path).read(found.row)
    dialect = load(found.agent)
    main = Transcript(found.path, dialect, source=DISK)
    files = [main]
    for path in found.helpers:
        try:
            files.append(Transcript(path, dialect, source=DISK))
        except OSError as error:
            troubles.append(_why(path, error))
    return main.session, _counted(files, troubles)


def _counted(files: list[Transcript], troubles: list[str]) -> Iterator[Record]:
    """Yield the records of files, and tell of each how much of it is none."""
    yield from Session(files).records()
    troubles += [f"{file.path}: {file.bad} lines are no records" for file in files if file.bad]


def _why(path: str, error: OSError) -> str:
    return f"{path}: {error.strerror}" if error.strerror else str(error)


def _shared(
    read: Callable[[Conversation], Read], found: Sequence[Conversation], workers: int
) -> Iterator[Read]:
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context, _die_with_ctrl_c) as pool:
        yield from pool.map(read, found, chunksize=_CHUNK)


def _die_with_ctrl_c() -> None:
    """Whoever typed it meant us all, and wants no traceback of each."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
