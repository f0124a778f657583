"""The ledger's tables: made anew, brought up from an older schema, or refused. One transaction each."""

import os
import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SCHEMA = 2
#: "lwld": tells our file from any other database that somebody put here.
APPLICATION = 0x6C776C64
#: Up to here a whole check at opening costs a few milliseconds; rot in larger files shows when it is met.
CHECKED_SIZE = 4 * 1024 * 1024
#: What a schema has at least.
_TABLES = {1: {"runs", "summaries", "spools"}, 2: {"runs", "summaries", "spools", "feed"}}


class DamagedError(sqlite3.DatabaseError):
    """What is there is a database, but not a ledger in one piece."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


# Read at the import: the package may be replaced under a daemon that has to make a new ledger.
_WHOLE = _read("schema.sql")
_STEPS = {1: _read("from_1.sql")}


def reading(path: str, how: str) -> sqlite3.Connection:
    """Open a file only to read it: `mode=ro`, or `immutable=1` where not even its journal may be looked at."""
    from urllib.parse import quote  # noqa: PLC0415 - as heavy as all the rest that a ledger needs

    return sqlite3.connect(f"file:{quote(path)}?{how}", uri=True)


def version(db: sqlite3.Connection) -> int:
    """Return the schema of what is there; 0 for an empty file."""
    return int(pragma(db, "user_version"))


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or check and bring up those that are there. Raises DamagedError for what is no ledger."""
    if version(db) == 0:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # says something only before the first table
        _change(db)
        return
    if pragma(db, "application_id") != APPLICATION:
        raise DamagedError("not a ledger")
    if pragma(db, "page_count") * pragma(db, "page_size") <= CHECKED_SIZE:
        _check(db)
    if version(db) < SCHEMA:
        _change(db)


def _change(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        _apply(db, version(db))  # another one may have been faster
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _apply(db: sqlite3.Connection, found: int) -> None:
    if found >= SCHEMA:
        return
    if found == 0:
        _refuse_foreign(db)
        scripts = [_WHOLE]
    else:
        scripts = [_STEPS[step] for step in range(found, SCHEMA)]
    for script in scripts:
        for statement in _statements(script):
            db.execute(statement)
    db.execute(f"PRAGMA application_id={APPLICATION}")
    db.execute(f"PRAGMA user_version={SCHEMA}")


def _refuse_foreign(db: sqlite3.Connection) -> None:
    if db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise DamagedError("another program's database")


def _statements(script: str) -> "Iterator[str]":
    """Split a script; `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _check(db: sqlite3.Connection) -> None:
    found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    if found != "ok":
        raise DamagedError(" ".join(found.split()))
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not _TABLES[version(db)] <= tables:
        raise DamagedError("tables are missing")


def pragma(db: sqlite3.Connection, name: str) -> "Any":
    """Return what a setting of the file is."""
    return db.execute(f"PRAGMA {name}").fetchone()[0]
