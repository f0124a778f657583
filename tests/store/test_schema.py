"""The ledger's tables: made, and brought up from what an older longwatch made."""

import sqlite3
from pathlib import Path

import pytest

from longwatch.errors import StoreError
from longwatch.store import schema
from longwatch.store.ledger import Ledger
from longwatch.store.listing import Wanted, listed, open_records
from longwatch.store.queries import last_run, runs

# As the first version made it, and what it wrote.
FIRST = """
CREATE TABLE runs (
    run TEXT NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
    reason TEXT, outcome TEXT, found INTEGER NOT NULL, PRIMARY KEY (run, attempt)
);
CREATE INDEX runs_by_name ON runs (name, started DESC);
CREATE INDEX runs_by_start ON runs (started DESC);
CREATE INDEX runs_by_end ON runs (ended DESC);
CREATE TABLE summaries (run TEXT NOT NULL, attempt INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (run, attempt));
CREATE TABLE spools (
    file TEXT NOT NULL PRIMARY KEY, inode INTEGER NOT NULL, read INTEGER NOT NULL, counted INTEGER NOT NULL
);
INSERT INTO runs VALUES ('build-aaaaaa', 1, 'build', 1000, 2000, 'exited', 'success', 0);
INSERT INTO runs VALUES ('build-bbbbbb', 2, 'build', 3000, 4000, 'idle', 'failed', 1);
INSERT INTO summaries VALUES ('build-aaaaaa', 1, '{"run": "build-aaaaaa", "attempt": 1, "outcome": "success"}');
INSERT INTO summaries VALUES ('build-bbbbbb', 2, '{"run": "build-bbbbbb", "attempt": 2, "outcome": "failed"}');
INSERT INTO spools VALUES ('2026-01-01.jsonl', 7, 99, 98);
PRAGMA user_version=1;
"""


def first(state: Path) -> Path:
    """Leave a ledger as the first version did."""
    state.mkdir(parents=True)
    path = state / "ledger.sqlite3"
    db = sqlite3.connect(path)
    db.executescript(f"PRAGMA application_id={schema.APPLICATION};{FIRST}")
    db.close()
    return path


def shapes(ledger: Ledger) -> list[tuple[object, ...]]:
    """Return the columns and indexes of all tables."""
    tables = [
        name for (name,) in ledger.rows("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
    ]
    columns = [(t, *row) for t in tables for row in ledger.rows(f"PRAGMA table_info({t})")]
    indexes = ledger.rows(
        "SELECT name, sql FROM sqlite_master WHERE type='index' AND sql NOTNULL ORDER BY name"
    )
    return [*columns, *indexes]


@pytest.mark.capability("CAP-122")
def test_an_older_ledger_is_brought_up(state: Path, tmp_path: Path) -> None:
    """What the first version wrote is all there, in the very tables that a new ledger has."""
    first(state)
    with Ledger(str(state)) as opened, Ledger(str(tmp_path / "new")) as new:
        assert opened.notes == []
        assert opened.rows("PRAGMA user_version") == [(schema.SCHEMA,)]
        assert shapes(opened) == shapes(new)
        assert [found["run"] for found in runs(opened)] == ["build-bbbbbb", "build-aaaaaa"]
        assert opened.rows("SELECT ended, reason, found, daemon FROM runs ORDER BY started") == [
            (2000, "exited", 0, None), (4000, "idle", 1, None),
        ]  # fmt: skip
        assert opened.rows("SELECT * FROM spools") == [("2026-01-01.jsonl", 7, 99, 98)]
        assert open_records(opened, "d") == []


def test_a_step_that_fails_leaves_the_older_ledger(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one transaction: what breaks in its midst, even after the old table is gone, has changed nothing."""
    path = first(state)
    with monkeypatch.context() as patch:
        patch.setitem(schema._STEPS, 1, schema._STEPS[1] + "INSERT INTO nowhere VALUES (1);")
        with Ledger(str(state)) as copy:  # a copy answers, and cannot be brought up either
            assert "no such table" in copy.notes[0]
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert db.execute("SELECT count(*) FROM runs").fetchone() == (2,)
    db.close()
    with Ledger(str(state)) as opened:
        assert len(listed(opened, Wanted())) == 2


def test_who_is_second_finds_it_done(state: Path) -> None:
    """Two that open an older ledger at once: the second one changes nothing."""
    path = first(state)
    with Ledger(str(state)):
        db = sqlite3.connect(path, isolation_level=None)
        schema._change(db)
        assert schema.version(db) == schema.SCHEMA
        db.execute("PRAGMA user_version=9")
        schema._change(db)
        assert schema.version(db) == 9
        db.close()


def test_a_writer_is_never_given_a_copy(state: Path) -> None:
    """Where no ledger can be kept a reader gets a copy in memory, a writer an error."""
    (state / "ledger.sqlite3").mkdir(parents=True)
    with pytest.raises(StoreError, match="Is a directory"):
        Ledger(str(state), writer=True)
    state.joinpath("sub").write_text("in the way")
    with pytest.raises(StoreError, match="cannot make this folder"):
        Ledger(str(state / "sub" / "state"), writer=True)


def test_an_older_ledger_without_its_tables_is_damaged(state: Path) -> None:
    """Each schema has its own set of tables to be there."""
    path = first(state)
    db = sqlite3.connect(path)
    db.execute("DROP TABLE spools")
    db.close()
    with Ledger(str(state)) as opened:
        assert "tables are missing" in opened.notes[0]
        assert last_run(opened) is None
