"""What is kept: of the ledger so many days and bytes, of each harness what came with its newest runs.

A sweep goes in small steps, each a transaction of its own, so that neither a run's record nor a reader waits for it.
Runs that are open stay, and of each daemon the newest event, from which its numbers go on.
"""

import contextlib
import os

from longwatch.paths import is_run_id, name_of
from longwatch.store import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping

    from longwatch.store.ledger import Ledger

_DAY = 86_400_000
#: For how many days; how much, in bytes; and what is less than anybody means.
DAYS, LEAST_DAYS = 90, 1
SIZE, LEAST_SIZE = 256 << 20, 16 << 20
KEEP_RUNS = 20
#: Rows that a step removes at most, and free pages that it gives back.
STEP = 500
_OLD_EVENTS = (
    "SELECT daemon, seq FROM feed WHERE at < ? AND seq < (SELECT max(seq) FROM feed AS all_of_it"
    " WHERE all_of_it.daemon = feed.daemon) ORDER BY at LIMIT ?"
)
_OLD_RUNS = "SELECT run, attempt FROM runs WHERE ended < ? ORDER BY ended LIMIT ?"
_NO_LIMIT = 1 << 62
_INCREMENTAL = 2


class Sweep:
    """Brings the ledger back within its bounds. Less than a day, or 16 MiB, is not taken for meant."""

    def __init__(self, wall_ms: int, days: int, size: int) -> None:
        self._before = wall_ms - max(days, LEAST_DAYS) * _DAY
        self._size = max(size, LEAST_SIZE)

    def step(self, open_ledger: "Callable[[], Ledger]") -> bool:
        """Do one step; return whether there is more to do. Raises StoreError."""
        return open_ledger().write(self._step)

    def _step(self, db: "sqlite3.Connection") -> bool:
        if _remove_events(db, self._before) or _remove_runs(db, self._before):
            return True
        if _used(db) > self._size:
            return self._remove_oldest(db)
        return self._shrink(db)

    def _remove_oldest(self, db: "sqlite3.Connection") -> bool:
        """Remove what is oldest, whichever kind it is of."""
        (event,) = db.execute("SELECT min(at) FROM feed").fetchone()
        (run,) = db.execute("SELECT min(ended) FROM runs").fetchone()
        kinds = [_remove_events, _remove_runs]
        if event is None or (run is not None and run < event):
            kinds.reverse()
        return any(remove(db, _NO_LIMIT) for remove in kinds)

    def _shrink(self, db: "sqlite3.Connection") -> bool:
        """Give free pages back to the disk, where the file was made so; some are kept for what comes next."""
        free, pages = schema.pragma(db, "freelist_count"), schema.pragma(db, "page_count")
        too_large = pages * schema.pragma(db, "page_size") > self._size
        if (
            schema.pragma(db, "auto_vacuum") != _INCREMENTAL
            or not free
            or (free <= 2 * STEP and not too_large)
        ):
            return False
        db.execute(f"PRAGMA incremental_vacuum({STEP})").fetchall()
        return True


def _remove_events(db: "sqlite3.Connection", before: int) -> int:
    old = db.execute(_OLD_EVENTS, (before, STEP)).fetchall()
    db.executemany("DELETE FROM feed WHERE daemon=? AND seq=?", old)
    return len(old)


def _remove_runs(db: "sqlite3.Connection", before: int) -> int:
    old = db.execute(_OLD_RUNS, (before, STEP)).fetchall()
    for table in ("runs", "summaries"):
        db.executemany(f"DELETE FROM {table} WHERE run=? AND attempt=?", old)
    return len(old)


def _used(db: "sqlite3.Connection") -> int:
    pages = schema.pragma(db, "page_count") - schema.pragma(db, "freelist_count")
    return int(pages * schema.pragma(db, "page_size"))


class Payloads:
    """Removes what came with the triggers of runs, RUN.json each, but that of each harness's newest runs and open ones.

    `keep` says how many by harness; of one that it does not name as many stay as by default.
    """

    def __init__(self, folder: str, keep: "Mapping[str, int]") -> None:
        self._folder = folder
        self._keep = keep

    def step(self, open_ledger: "Callable[[], Ledger]") -> bool:
        """Remove them; there is never more to do. Raises StoreError, and OSError where the folder cannot be read."""
        open_runs = {run for (run,) in open_ledger().rows("SELECT run FROM runs WHERE ended IS NULL")}
        for path in self.spare(open_runs):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return False

    def spare(self, spared: "Collection[str]") -> list[str]:
        """Return the files that are not needed any more: neither of a newest run nor of one in `spared`."""
        by_harness: dict[str, list[str]] = {}
        for run in self._runs():
            by_harness.setdefault(name_of(run), []).append(run)
        spare = []
        for harness, runs in by_harness.items():
            runs.sort(key=lambda run: _changed(self._path(run)), reverse=True)
            spare += runs[max(1, self._keep.get(harness, KEEP_RUNS)) :]
        return [self._path(run) for run in spare if run not in spared]

    def _path(self, run: str) -> str:
        return os.path.join(self._folder, f"{run}.json")

    def _runs(self) -> list[str]:
        """Return the runs that have a file; what is named otherwise is not ours to remove."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return [name[:-5] for name in names if name.endswith(".json") and is_run_id(name[:-5])]


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
