"""What can still be read of a damaged ledger, brought over into the new one.

The damaged file is opened so that nothing of it can change. Its rows are asked for one by one, newest first, for a
bounded time: a page that is gone takes its own rows along and no others. A row comes over whole, with a summary that
is its own, or not at all; what the new ledger has already stays as it is.
"""

import contextlib
import json
import sqlite3
import time

from longwatch.store import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Row = tuple[Any, ...]

#: How long each of the three tables is read, in seconds: whoever opens the ledger waits for it.
PATIENCE = 1.0
_RUNS = "run, attempt, name, started, ended, reason, outcome, found, daemon, kind, trigger, generation"
_SUMMARIES = "run, attempt, json"
_FEED = "daemon, seq, at, harness, json"
_ALONE = (
    "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM {other}"
    " WHERE {other}.run={table}.run AND {other}.attempt={table}.attempt)"
)
#: So often SQLite looks at the clock within one query, in steps of its own.
_STEPS = 10_000


def bring_over(damaged: str, db: sqlite3.Connection) -> str:
    """Bring over runs and the newest events of the file `damaged`; return what to say of it, "" for nothing at all.

    Raises sqlite3.Error where the new ledger cannot be written; then nothing came over.
    """
    with contextlib.closing(schema.reading(damaged, "immutable=1")) as old:
        if not _is_ledger(old):
            return ""
        db.execute("BEGIN IMMEDIATE")
        try:
            said = _bring(old, db)
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
    return said


def _is_ledger(old: sqlite3.Connection) -> bool:
    try:
        # Nothing is written; this alone makes SQLite read a file that was cut off.
        old.execute("PRAGMA writable_schema=ON")
        return (schema.pragma(old, "application_id"), schema.version(old)) == (
            schema.APPLICATION,
            schema.SCHEMA,
        )
    except sqlite3.DatabaseError:
        return False


def _bring(old: sqlite3.Connection, db: sqlite3.Connection) -> str:
    runs, summaries = _Table(old, "runs", _RUNS, _is_run), _Table(old, "summaries", _SUMMARIES, _is_summary)
    before = _count(db)
    _insert(db, "runs", _RUNS, runs.rows())
    _insert(db, "summaries", _SUMMARIES, summaries.rows())
    offered = _count(db)
    for table, other in (("runs", "summaries"), ("summaries", "runs")):
        db.execute(_ALONE.format(table=table, other=other))
    _bound(old)
    events = sum(_insert(db, "feed", _FEED, _newest_events(old, daemon)) for daemon in _daemons(db))
    came = _count(db) - before
    lost = runs.lost + offered - before - came
    if not (came or lost or events):
        return ""
    late = " in time, or at all" if runs.late or summaries.late else ""
    return f"{_some(came, 'run')} and {_some(events, 'event')} came over, {_some(lost, 'run')} could not be read{late}"


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM runs").fetchone()[0])


def _insert(db: sqlite3.Connection, table: str, columns: str, rows: "Iterator[Row]") -> int:
    marks = ", ".join("?" * len(columns.split()))
    return db.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", rows).rowcount


class _Table:
    """A damaged table. Then `lost` rows could not be read, and `late` is whether the time was up before its end."""

    def __init__(
        self, db: sqlite3.Connection, name: str, columns: str, good: "Callable[[Row], bool]"
    ) -> None:
        self._db = db
        self._name = name
        self._sql = f"SELECT {columns} FROM {name} WHERE rowid=?"
        self._good = good
        self.lost = 0
        self.late = False

    def rows(self) -> "Iterator[Row]":
        """Yield what can be read and is good, newest first."""
        is_up = _bound(self._db)
        first, last = self._ends()
        for rowid in range(last, first - 1, -1):
            if is_up():
                self.late = True
                return
            row = self._row(rowid)
            if row is not None:
                yield row

    def _row(self, rowid: int) -> "Row | None":
        """Return a row; None where there is none, or none that is good."""
        try:
            row: Row | None = self._db.execute(self._sql, (rowid,)).fetchone()
        except sqlite3.DatabaseError:
            self.lost += 1
            return None
        if row is None or self._good(row):
            return row
        self.lost += 1
        return None

    def _ends(self) -> tuple[int, int]:
        """Return the least and the largest rowid, as far as they can be told: where the table ends badly, by its index."""
        index = f"{self._name} INDEXED BY sqlite_autoindex_{self._name}_1"
        first = _numbers(self._db, f"SELECT min(rowid) FROM {self._name}")
        last = _numbers(self._db, f"SELECT max(rowid) FROM {self._name}")
        every = last or _numbers(self._db, f"SELECT rowid FROM {index}")
        every = every or _numbers(self._db, f"SELECT rowid FROM {self._name} NOT INDEXED")
        return min(first, default=1), max(every, default=0)


def _numbers(db: sqlite3.Connection, sql: str) -> list[int]:
    """Return the numbers of a query as far as it gets."""
    found = []
    with contextlib.suppress(sqlite3.DatabaseError):
        for (number,) in db.execute(sql):
            found.append(number or 0)  # what was read before a bad page counts
    return found


def _bound(db: sqlite3.Connection) -> "Callable[[], bool]":
    """Give all queries from now on one time together; return what says whether it is up."""
    end = time.monotonic() + PATIENCE

    def is_up() -> bool:
        return time.monotonic() >= end

    db.set_progress_handler(is_up, _STEPS)
    return is_up


def _is_run(row: "Row") -> bool:
    run, attempt, name, started, ended, *_ = row
    return (
        isinstance(run, str)
        and isinstance(name, str)
        and isinstance(attempt, int)
        and isinstance(started, int)
        and isinstance(ended, int | None)
    )


def _is_summary(row: "Row") -> bool:
    """Whether the text is whole and says itself what run it is of."""
    run, attempt, text = row
    try:
        told = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(told, dict) and (told.get("run"), told.get("attempt", 1)) == (run, attempt)


def _daemons(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT DISTINCT daemon FROM runs WHERE daemon IS NOT NULL").fetchall()
    return [daemon for (daemon,) in found]


def _newest_events(old: sqlite3.Connection, daemon: str) -> "Iterator[Row]":
    """Yield a daemon's events backwards as long as none is missing: what is gone before them is counted by readers."""
    wanted = None
    with contextlib.suppress(sqlite3.DatabaseError):
        for row in old.execute(f"SELECT {_FEED} FROM feed WHERE daemon=? ORDER BY seq DESC", (daemon,)):
            if wanted not in (None, row[1]) or not _is_event(row):
                return
            wanted = row[1] - 1
            yield row


def _is_event(row: "Row") -> bool:
    _, seq, at, _, text = row
    try:
        return isinstance(at, int) and json.loads(text).get("seq") == seq
    except (TypeError, ValueError, AttributeError, RecursionError):
        return False
