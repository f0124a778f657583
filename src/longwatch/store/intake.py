"""From spool lines to ledger rows.

A line is taken when it is whole. A torn last line waits for its end; zero bytes and lines that say nothing are
passed over, counted, copied to `bad-YYYY-MM-DD` beside the spool and told once; a line of a newer longwatch
stays where it is until somebody can read it, and the lines behind it are taken all the same.
"""

import contextlib
import datetime as dt
import json
import os
import sqlite3
import time

from longwatch.core.record import Plain
from longwatch.store.spool import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeGuard

#: Spools are kept this long after they were read, so that a damaged ledger can be rebuilt from them.
KEEP_DAYS = 30
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LARGEST = 1 << 62


class BadLineError(ValueError):
    """A line that says nothing about any run."""


class NewerLineError(Exception):
    """A line that a newer longwatch wrote; the argument is its version."""


class Result:
    """What one reading did: lines that became rows, and what has to be said."""

    __slots__ = ("lines", "notes")

    def __init__(self) -> None:
        self.lines = 0
        self.notes: list[str] = []


class Row(Plain):
    """One run as the ledger keeps it; times are ms since 1970, `ended` None while it runs.

    Of what no daemon ran, `daemon` and what stands behind it are None.
    """

    __slots__ = (
        "attempt", "daemon", "ended", "generation", "json", "kind", "name", "outcome", "reason", "run", "started",
        "trigger",
    )  # fmt: skip

    def __init__(
        self, run: str, attempt: int, name: str, started: int, ended: int | None, json: str, *,
        reason: str | None = None, outcome: str | None = None, daemon: str | None = None, kind: str | None = None,
        trigger: str | None = None, generation: int | None = None,
    ) -> None:  # fmt: skip
        self.run = run
        self.attempt = attempt
        self.name = name
        self.started = started
        self.ended = ended
        self.json = json
        self.reason = reason
        self.outcome = outcome
        self.daemon = daemon
        self.kind = kind
        self.trigger = trigger
        self.generation = generation


def pending(db: sqlite3.Connection, folder: str) -> list[str]:
    """Return the spool files that hold something which has not been read, oldest first."""
    paths = []
    for path in spools(folder):
        with contextlib.suppress(FileNotFoundError):  # another reader has just dropped it
            if _position(db, path)[1] < os.stat(path).st_size:
                paths.append(path)
    return paths


def spools(folder: str) -> list[str]:
    """Return the paths of all daily files, oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if _day(name) is not None]


def take(db: sqlite3.Connection, paths: "Sequence[str]") -> Result:
    """Bring the unread lines of these files into the ledger, inside the caller's transaction."""
    result = Result()
    for path in paths:
        try:
            _take_file(db, path, result)
        except OSError as error:
            result.notes.append(f"{path}: cannot be read: {error.strerror}")
    for folder in {os.path.dirname(path) for path in paths}:
        _drop_old(db, folder)
    return result


def _take_file(db: sqlite3.Connection, path: str, result: Result) -> None:
    inode, read, counted = _position(db, path)
    newer = 0
    bad: list[bytes] = []
    with open(path, "rb") as spool:
        spool.seek(read)
        at = read
        for line in spool:
            if not line.endswith(b"\n"):
                break
            at += len(line)
            try:
                result.lines += _take_line(db, line, bad if at > counted else [])
            except NewerLineError as error:
                newer = newer or int(error.args[0])
            if not newer:
                read = at
    db.execute(
        "INSERT OR REPLACE INTO spools (file, inode, read, counted) VALUES (?, ?, ?, ?)",
        (os.path.basename(path), inode, read, max(counted, at)),
    )
    if newer:
        result.notes.append(
            f"{path}: lines of a newer longwatch (version {newer}) wait there; upgrade to read them"
        )
    if bad:
        result.notes.append(
            f"{path}: {len(bad)} unreadable line{'s'[: len(bad) > 1]}; copied to {_keep_bad(path, bad)}"
        )


def _take_line(db: sqlite3.Connection, line: bytes, bad: list[bytes]) -> int:
    text = line.strip(b"\0 \t\r\n")
    if b"\0" in line:
        bad.append(line)
    if not text:
        return 0
    try:
        insert(db, row(parse(text)))
    except (BadLineError, RecursionError):
        if line not in bad[-1:]:
            bad.append(line)
        return 0
    return 1


def parse(text: bytes) -> "dict[str, Any]":
    """Return the object of a spool line. Raises BadLineError or NewerLineError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError(str(error)) from error
    if not isinstance(found, dict):
        raise BadLineError("no object")
    version = found.pop("v", None)
    if isinstance(version, int) and version > VERSION:
        raise NewerLineError(version)
    if version != VERSION or found.pop("type", None) != "run":
        raise BadLineError("no record of a run")
    return found


def row(summary: "dict[str, Any]") -> Row:
    """Return the row of a run's summary. Raises BadLineError when it lacks what identifies a run."""
    run, attempt, name = summary.get("run"), summary.get("attempt", 1), summary.get("name")
    if not isinstance(run, str) or not run or not fits(attempt):
        raise BadLineError("no run id")
    started = instant(summary.get("started_at"))
    duration = summary.get("duration_ms")
    return Row(
        clean(run) or "",
        attempt,
        clean(name) or "",
        started,
        started + (duration if fits(duration) else 0),
        json.dumps(summary),
        reason=clean(summary.get("termination_reason")),
        outcome=clean(summary.get("outcome")),
    )


def insert(db: sqlite3.Connection, new: Row, *, found: bool = False) -> None:
    """Write a row. A run's own line replaces what is there, but for whose run it is; what was found never does."""
    key = (new.run, new.attempt)
    if found and db.execute("SELECT 1 FROM runs WHERE run=? AND attempt=?", key).fetchone():
        return
    db.execute(
        "INSERT INTO runs (run, attempt, name, started, ended, reason, outcome, found, daemon, kind, trigger, generation)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, attempt) DO UPDATE SET name=excluded.name,"
        " started=excluded.started, ended=excluded.ended, reason=excluded.reason, outcome=excluded.outcome,"
        " found=excluded.found, daemon=coalesce(excluded.daemon, daemon), kind=coalesce(excluded.kind, kind),"
        " trigger=coalesce(excluded.trigger, trigger), generation=coalesce(excluded.generation, generation)",
        (
            *key, new.name, new.started, new.ended, new.reason, new.outcome, int(found), new.daemon, new.kind,
            new.trigger, new.generation,
        ),
    )  # fmt: skip
    db.execute("INSERT OR REPLACE INTO summaries (run, attempt, json) VALUES (?, ?, ?)", (*key, new.json))


def _position(db: sqlite3.Connection, path: str) -> tuple[int, int, int]:
    """Return inode, where to go on reading, and up to where bad lines have been told."""
    there = os.stat(path)
    known = db.execute(
        "SELECT read, counted FROM spools WHERE file=? AND inode=?", (os.path.basename(path), there.st_ino)
    ).fetchone()
    if known is None or known[0] > there.st_size:  # another file, or cut short: runs are never doubled
        return there.st_ino, 0, 0
    return there.st_ino, known[0], known[1]


def _keep_bad(path: str, bad: list[bytes]) -> str:
    """Copy bad lines beside the spool; returns where, or why not."""
    copy = os.path.join(os.path.dirname(path), "bad-" + os.path.basename(path).removesuffix(".jsonl"))
    try:
        descriptor = os.open(copy, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "ab") as out:
            out.writelines(bad)
    except OSError as error:
        return f"nowhere ({error.strerror})"
    return copy


def _drop_old(db: sqlite3.Connection, folder: str) -> None:
    """Remove spools that were read to their end and are old, and copies of bad lines as old as they."""
    limit = time.strftime("%Y-%m-%d", time.gmtime(time.time() - KEEP_DAYS * 86400))
    for path in list(_older(folder, limit)):
        name = os.path.basename(path)
        read = db.execute("SELECT read FROM spools WHERE file=?", (name,)).fetchone()
        with contextlib.suppress(OSError):
            if name.startswith("bad-") or (read is not None and read[0] >= os.stat(path).st_size):
                os.unlink(path)
                db.execute("DELETE FROM spools WHERE file=?", (name,))


def _older(folder: str, limit: str) -> "Iterator[str]":
    for name in os.listdir(folder):
        day = _day(name.removeprefix("bad-").removesuffix(".jsonl") + ".jsonl")
        if day is not None and day < limit:
            yield os.path.join(folder, name)


def _day(name: str) -> str | None:
    """Return the day of a spool file's name; None for any other file."""
    day, dot, extension = name.partition(".")
    try:
        good = extension == "jsonl" and dt.date.fromisoformat(day).isoformat() == day
    except ValueError:
        return None
    return day if good and dot else None


def instant(text: object) -> int:
    """Return the ms since 1970 of an RFC 3339 text. Raises BadLineError for anything else."""
    try:
        moment = dt.datetime.fromisoformat(text if isinstance(text, str) else "")
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadLineError("no started_at") from error


def fits(value: object) -> "TypeGuard[int]":
    """Whether a value is a whole number that SQLite can keep."""
    return isinstance(value, int) and -_LARGEST < value < _LARGEST


def clean(value: object) -> "str | None":
    """Return a text that SQLite can store: undecodable bytes of a program's name come as lone surrogates."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
