"""The ledger: one SQLite file with all past runs, filled from the spool by whoever reads.

What is brought in and how far the spool was read change in one transaction, and runs are keyed by id and
attempt: reading a line twice never doubles a run, dying in between never loses one.

A file that is damaged, or no ledger at all, is moved aside, said aloud and rebuilt: from what can still be read of it,
and from the spools that are still there. One that a newer longwatch wrote is left alone. What must be said is in `Ledger.notes`.
"""

import contextlib
import fcntl
import os
import sqlite3
import time

from longwatch.errors import StoreError
from longwatch.paths import ensure
from longwatch.store import intake, salvage, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Self, TypeVar

    T = TypeVar("T")

BUSY_MS = 5_000
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Ledger:
    """An open ledger; `notes` are lines for stderr, each said once. Close it, or use it as a context manager.

    Where none can be kept a copy in memory answers; to a `writer` that would be a lie, so it gets a StoreError.
    """

    def __init__(self, state_folder: str, *, writer: bool = False) -> None:
        self.state_folder = state_folder
        self.path = os.path.join(state_folder, "ledger.sqlite3")
        self.notes: list[str] = []
        self.inode = 0
        self._writer = writer
        self._db = self._open()

    @classmethod
    def current(cls, state_folder: str) -> "Self":
        """Open the ledger with everything in it that the spool has. Raises StoreError with one line."""
        ledger = cls(state_folder)
        ledger.ingest()
        return ledger

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def ingest(self) -> int:
        """Bring in what the spool has and the ledger has not; returns the number of lines taken."""
        return self._guarded(self._ingest)

    def rows(self, sql: str, parameters: "Sequence[object]" = ()) -> "list[tuple[Any, ...]]":
        """Return the rows of a query."""
        return self._guarded(lambda: self._db.execute(sql, parameters).fetchall())

    def adopt(self, summaries: "Sequence[dict[str, Any]]") -> None:
        """Add runs that a reader found without report and supervisor; a run's own line replaces them later."""
        rows = []
        for summary in summaries:
            with contextlib.suppress(intake.BadLineError):
                rows.append(intake.row(summary))

        def work() -> None:
            with self._transaction():
                for row in rows:
                    intake.insert(self._db, row, found=True)

        self._guarded(work)

    def write(self, work: "Callable[[sqlite3.Connection], T]") -> "T":
        """Do some work in one transaction, and once more in a new file where this one turns out to be damaged.

        Durable when it returns. Raises StoreError with one line when it was not done.
        """

        def whole() -> "T":
            with self._transaction():
                return work(self._db)

        return self._guarded(whole)

    def is_in_place(self) -> bool:
        """Whether the open file is still the one that its path names."""
        try:
            return os.stat(self.path).st_ino == self.inode
        except OSError:
            return False

    def _ingest(self) -> int:
        pending = intake.pending(self._db, os.path.join(self.state_folder, "spool"))
        if not pending:
            return 0
        with self._transaction():
            # Another reader may have been faster: where to begin is read again inside.
            result = intake.take(self._db, pending)
        self.notes += result.notes
        return result.lines

    def _guarded(self, work: "Callable[[], T]") -> "T":
        """Do some work; when the file turns out to be damaged, replace it and do it again."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._refusal(error) from error
            self._db.close()
            damage = error
        try:
            self._db = self._anew(damage)
            self._ingest()
            return work()
        except sqlite3.DatabaseError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: sqlite3.DatabaseError) -> StoreError:
        if _code(error) in _BUSY:
            return StoreError(f"{self.path} is busy; try again")
        return StoreError(f"{self.path}: {error}")

    def _open(self) -> sqlite3.Connection:
        try:
            ensure(self.state_folder)
            return self._connect()
        except OSError as error:
            return self._in_memory(f"{self.path}: {error.strerror}")
        except StoreError as error:
            if self._writer or os.path.isdir(self.state_folder):  # a newer ledger
                raise
            return self._in_memory(str(error))
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                return self._anew(error)
            if _code(error) in _BUSY:
                raise self._refusal(error) from error
            return self._in_memory(f"{self.path}: {error}")

    def _connect(self) -> sqlite3.Connection:
        # SQLite would make it with the umask's rights; an empty file is an empty database.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        db = sqlite3.connect(self.path, timeout=BUSY_MS / 1000, isolation_level=None)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _in_memory(self, why: str) -> sqlite3.Connection:
        """Answer from a copy: a disk that is full or read-only is no reason to know nothing."""
        if self._writer:
            raise StoreError(why)
        self.notes.append(f"{why}; the history is read, not kept")
        db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with contextlib.closing(schema.reading(self.path, "mode=ro")) as there:
                there.backup(db)
            self._prepare(db)
        except sqlite3.Error:
            db.close()
            db = sqlite3.connect(":memory:", isolation_level=None)
            self._prepare(db)
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        version = schema.version(db)
        if version > schema.SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer longwatch (schema {version}); upgrade, or move it aside"
            )
        mode = journal_mode(sqlite3.sqlite_version_info)
        if schema.pragma(db, "journal_mode") not in (mode, "memory"):
            db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("PRAGMA synchronous=FULL")
        schema.prepare(db)

    def _anew(self, damage: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Begin a new file with what can still be read of the damaged one, which is kept as it is."""
        aside = self._set_aside(damage)
        db = self._connect()
        if aside:
            try:
                came = salvage.bring_over(aside, db)
            except sqlite3.Error as error:
                came = f"nothing came over: {error}"
            self.notes += [f"{aside}: {came}"] if came else []
        return db

    def _set_aside(self, error: sqlite3.DatabaseError) -> str:
        """Move the damaged file aside and return where; "" if another reader did so. Nothing is overwritten."""
        with _locked(os.path.join(self.state_folder, "ledger.lock")):
            if not os.path.exists(self.path) or os.stat(self.path).st_ino != self.inode:
                return ""
            aside = _free(self.path + time.strftime(".broken-%Y%m%dT%H%M%S", time.gmtime()))
            # The journal goes along, and first: played back into a new file it would damage that one too.
            for suffix in ("-journal", "-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(self.path + suffix, aside + suffix)
        self.notes.append(
            f"{self.path} was damaged ({error}); moved aside to {aside}, rebuilt from the spool"
        )
        return aside

    @contextlib.contextmanager
    def _transaction(self) -> "Iterator[None]":
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise


def journal_mode(version: tuple[int, ...]) -> str:
    """Return the journal to use with this SQLite: a write-ahead log only where its corruption fix is in.

    Before 3.51.3, and its backports 3.44.6 and 3.50.7, two connections could damage a file in WAL mode.
    """
    fixed = version >= (3, 51, 3) or any(
        version[:2] == backport[:2] and version >= backport for backport in ((3, 44, 6), (3, 50, 7))
    )
    return "wal" if fixed else "truncate"


def _code(error: sqlite3.DatabaseError) -> int:
    # The low byte is the kind, what is above it the detail. Errors of the module itself have none.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return _code(error) in _DAMAGED


def _free(path: str) -> str:
    """Return a path that nothing has: this one, or with a number behind it."""
    number, free = 0, path
    while os.path.lexists(free):
        number += 1
        free = f"{path}.{number}"
    return free


@contextlib.contextmanager
def _locked(path: str) -> "Iterator[None]":
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
