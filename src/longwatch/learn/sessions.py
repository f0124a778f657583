"""Transcript files as sessions: which dialect a file is in, its records, and which files belong together."""

import heapq
import os
from itertools import chain, islice

from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.observe.dialects import Dialect, detect, names
from longwatch.observe.dialects.base import DATABASE_HEAD, Reader
from longwatch.observe.dialects.opencode import Database
from longwatch.observe.lines import Splitter
from longwatch.observe.record import DATABASE, DISK, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: What of a file tells its dialect.
HEAD = 256 << 10
_CHUNK = 256 << 10
#: By how many records a file says whose session it is.
_ENOUGH = 50


class Transcript:
    """One file. `records` can be read once; `bad` then counts the lines that were none.

    With `source`, whoever names the dialect also knows what the file is, so nothing is looked into for it. Raises
    OSError for a file that cannot be read, UsageError for one that no dialect knows.
    """

    def __init__(
        self, path: str, dialect: Dialect | None = None, session: str = "", source: str = ""
    ) -> None:
        self.path = path
        with open(path, "rb") as file:
            head = file.read(HEAD if not source else len(DATABASE_HEAD))
        found = detect(head) if not source or dialect is None else (dialect, source)
        if found is None and dialect is None:
            raise UsageError(
                f"{path}: no dialect knows it; name one: --dialect {'|'.join(names())}"
                if head.strip() else f"{path}: nothing in it"
            )  # fmt: skip
        known, source = found if found is not None and dialect in (None, found[0]) else (dialect, DISK)
        assert known is not None
        self.dialect = known.name
        self.source = source
        self.reader: Reader | None = None
        if head.startswith(DATABASE_HEAD):
            self.source, self.records = DATABASE, self._rows(session)
        else:
            self.reader = known.reader(source)
            self.records = self._lines()
        first = list(islice(self.records, _ENOUGH))
        self.session = next((record.session for record in first if record.session), "")
        told = [record.sub for record in first if record.events]
        self.sub = told[0] if told and all(told) else ""
        self.records = chain(first, self.records)

    @property
    def bad(self) -> int:
        """How many lines were no records."""
        return 0 if self.reader is None else self.reader.bad

    def _lines(self) -> "Iterator[Record]":
        assert self.reader is not None
        splitter = Splitter()
        with open(self.path, "rb") as file:
            while chunk := file.read(_CHUNK):
                for pos, line in splitter.places(chunk):
                    yield from self.reader.read(line, pos)
        bad = self.reader.bad
        if rest := splitter.rest.strip(b"\0 \t\r"):
            yield from self.reader.read(rest, splitter.offset)
            self.reader.bad = bad  # what has no line break yet is not bad, it is not finished

    def _rows(self, session: str) -> "Iterator[Record]":
        database = Database(self.path)
        chosen = session or database.newest()
        return database.read(chosen)


class Session(Plain):
    """The files of one session: the agent's own, and those of its helpers."""

    __slots__ = ("files",)

    def __init__(self, files: list[Transcript]) -> None:
        self.files = files

    def records(self) -> "Iterator[Record]":
        """Yield the records of all files in the order of their times."""
        if len(self.files) == 1:
            return iter(self.files[0].records)
        return (
            record for _, _, record in heapq.merge(*(_stamped(n, file) for n, file in enumerate(self.files)))
        )


def _stamped(place: int, file: Transcript) -> "Iterator[tuple[int, tuple[int, int], Record]]":
    """Times within a file step back now and then; what is written later did not happen earlier."""
    newest = 0
    for count, record in enumerate(file.records):
        newest = max(newest, record.at or 0)
        yield newest, (place, count), record


def sessions(paths: "Sequence[str]", dialect: Dialect | None = None, session: str = "") -> list[Session]:
    """Return the sessions that files hold, in their order; a helper's file goes with its session.

    `session` is which one of a database (the newest if empty). Raises as `Transcript`.
    """
    return grouped(Transcript(path, dialect, session) for path in dict.fromkeys(map(os.path.normpath, paths)))


def grouped(files: "Iterable[Transcript]") -> list[Session]:
    """Put the files of helpers to those of their agents."""
    found = list(files)
    owners = {
        (file.dialect, file.session): Session([file])
        for file in reversed(found)
        if not file.sub and file.session
    }
    out = []
    for file in found:
        owner = owners.get((file.dialect, file.session))
        if owner is not None and file.sub:
            owner.files.append(file)
        elif owner is not None and owner.files[0] is file:
            out.append(owner)
        else:
            out.append(Session([file]))
    return out
