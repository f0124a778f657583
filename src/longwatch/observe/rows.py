"""Conversations that are rows of a database instead of files: those of opencode.

One database holds the conversations of all directories, and its log of events numbers what happened in each. It is
read in short transactions that wait for nobody; one that is busy, or not there yet, is one that cannot be read now.
"""

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Protocol

from longwatch.observe.places import PLACES, Place, State
from longwatch.observe.record import Record
from longwatch.observe.sessions import Found

#: The conversations that were written last; nobody takes up one that is older than so many others.
_MOST = 500
_SESSIONS = f"""
    SELECT id, directory, time_created, time_updated,
        (SELECT coalesce(max(seq), -1) FROM event WHERE aggregate_id = session.id)
    FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT {_MOST}
"""
_PREFIX = "ses_"


class Table:
    """The conversations in one user's database; each goes by its id. Sub-agents' ones are read with their parents'."""

    def __init__(self, environ: Mapping[str, str], place: Place = PLACES["opencode"]) -> None:
        self.place = place
        self.path = f"{place.folder(environ)}/{place.main}"
        self._rows: dict[str, tuple[str, int, State]] = {}

    def all(self) -> Iterator[str]:
        """Yield the ids of all conversations, as they are now."""
        self._rows = {
            name: (directory, created, State(0, seq, written))  # a row is no file, so it has no inode
            for name, directory, created, written, seq in self._ask()
        }
        return iter(self._rows)

    def of_session(self, session: str) -> Iterator[str]:
        """Yield the conversation with this id, if there is one."""
        return (name for name in self.all() if name == session)

    def holds(self, path: str) -> bool:
        """Whether it is enough to have this file open: no, all have the same."""
        return False

    def helpers(self, main: str) -> Iterator[str]:
        """Yield none: they are read with the conversation they belong to."""
        return iter(())

    def registries(self, pid: int) -> Iterator[str]:
        """Yield none: there is no registry."""
        return iter(())

    def state(self, path: str) -> State | None:
        """Return what a conversation looked like at the last look at all: its size is the number of its last event."""
        row = self._rows.get(path)
        return None if row is None else row[2]

    def belongs(self, path: str, folders: Collection[str]) -> bool:
        """Whether a conversation belongs to one of these folders."""
        row = self._rows.get(path)
        return row is not None and os.path.realpath(row[0]) in folders

    def begun(self, path: str) -> int | None:
        """Return when a conversation began, in ms since 1970."""
        row = self._rows.get(path)
        return None if row is None else row[1]

    def is_id(self, word: str) -> bool:
        """Whether a word looks like the name of a conversation."""
        return word.startswith(_PREFIX)

    def _ask(self) -> list[tuple[str, str, int, int, int]]:
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=0.2)) as connection:
                return connection.execute(_SESSIONS).fetchall()
        except sqlite3.Error:
            return []


class Database(Protocol):
    """A dialect's reader of a database (see `dialects.opencode`); it remembers how far it has read."""

    def read(self, session: str) -> Iterable[Record]:
        """Yield the new records of a conversation and its sub-agents'; raises OSError."""


class Rows:
    """One conversation of a database, with those of its sub-agents. Each row has its time, so none needs a mark."""

    bad = 0
    behind = False

    def __init__(self, found: Found, database: Database) -> None:
        self._session = found.path
        self._database = database

    def read(self, wall: int | None) -> Iterable[Record]:
        """Yield the new records. Raises OSError while the database cannot be read."""
        return self._database.read(self._session)

    def rest(self) -> None:
        """Nothing is held between two readings."""
