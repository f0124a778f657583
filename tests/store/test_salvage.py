"""A damaged ledger is not lost: what can still be read of it is in the new one, and nothing else is."""

import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.store import entries, intake, salvage
from longwatch.store.ledger import Ledger
from longwatch.store.writer import LedgerWriter

RUNS, PAGE = 400, 4096
COLUMNS = (
    "run, attempt, name, started, ended, reason, outcome, found, daemon, kind, trigger, generation, json"
)
AT = "2026-01-02T03:04:05.678Z"


def row(number: int, **changes: Any) -> intake.Row:
    """Return a closed run of a daemon, of which no spool knows."""
    record = {
        "run": f"web-{number:06d}", "harness": "web", "kind": "resident", "trigger": "start", "generation": number,
        "started_at": AT, "duration_ms": 1_000, "termination_reason": "exited", "exit_code": 0, "why": "x" * 300,
        **changes,
    }  # fmt: skip
    return entries.closed(record, {}, "d-1")


def filled(state: Path) -> dict[str, tuple[Any, ...]]:
    """Fill a ledger with runs and events; return its rows by run."""
    with Ledger(str(state), writer=True) as ledger:
        ledger.write(lambda db: [add(db, number) for number in range(RUNS)])
        return rows(ledger)


def add(db: sqlite3.Connection, number: int) -> None:
    intake.insert(db, row(number))
    told = json.dumps({"event": "x", "seq": number + 1})
    db.execute("INSERT INTO feed VALUES ('d-1', ?, ?, 'web', ?)", (number + 1, number, told))


def rows(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    return {found[0]: found for found in ledger.rows(f"SELECT {COLUMNS} FROM runs NATURAL JOIN summaries")}


def harm(state: Path, kind: str) -> bytes:
    path = state / "ledger.sqlite3"
    data = bytearray(path.read_bytes())
    middle = len(data) // PAGE // 2 * PAGE
    if kind == "a hole":
        data[middle : middle + 6 * PAGE] = bytes(6 * PAGE)
    elif kind == "cut off":
        del data[-8 * PAGE :]
    path.write_bytes(data)
    return bytes(data)


def aside(state: Path) -> list[Path]:
    return [path for path in state.iterdir() if ".broken-" in path.name and "-journal" not in path.name]


@pytest.mark.fault("R2")
@pytest.mark.parametrize("kind", ["a hole", "cut off"])
def test_runs_that_no_spool_has_come_over(state: Path, kind: str) -> None:
    """Closed runs of a daemon outlive damage, each whole; how many did not is said, and the old file stays as it is."""
    before = filled(state)
    data = harm(state, kind)
    with Ledger.current(str(state)) as ledger:
        there, notes = rows(ledger), ledger.notes
    assert RUNS // 2 < len(there) < RUNS
    assert there.items() <= before.items()
    said = re.search(r"(\d+) runs? and \d+ events? came over, (\d+) runs? could not be read$", notes[1])
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(there), RUNS - len(there))
    (kept,) = aside(state)
    assert kept.read_bytes() == data
    assert str(kept) in notes[0]


@pytest.mark.fault("R2")
def test_events_that_come_over_are_without_a_gap(state: Path) -> None:
    """Of a daemon's events the newest come over down to the first one missing, and the next one's number goes on."""
    filled(state)
    with sqlite3.connect(state / "ledger.sqlite3") as db:
        db.execute("UPDATE feed SET json='{torn' WHERE seq=?", (RUNS - 10,))
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET rootpage=9999 WHERE name='runs_by_end'")
    db.close()
    writer = LedgerWriter(str(state), "d-1")
    writer.start()
    told: list[int | None] = []
    writer.feed({"event": "y", "at": AT}, told.append)
    assert writer.stop() == 0
    assert told == [RUNS + 1]
    with Ledger.current(str(state)) as ledger:
        numbers = [seq for (seq,) in ledger.rows("SELECT seq FROM feed ORDER BY seq")]
    assert numbers == list(range(RUNS - 9, RUNS + 2))


@pytest.mark.fault("R2")
def test_what_the_new_ledger_has_stays(state: Path, tmp_path: Path) -> None:
    """A run that somebody has written meanwhile is newer than what the damaged file says of it."""
    filled(state)
    newer = row(7, why="newer", exit_code=3)
    with Ledger(str(tmp_path / "new"), writer=True) as ledger:
        ledger.write(lambda db: intake.insert(db, newer))
        said = salvage.bring_over(str(state / "ledger.sqlite3"), ledger._db)
        there = rows(ledger)
    assert said == f"{RUNS - 1} runs and {RUNS} events came over, 0 runs could not be read"
    assert there[newer.run][-1] == newer.json
    assert len(there) == RUNS


@pytest.mark.fault("R2")
def test_a_journal_beside_a_file_set_aside_is_not_played_back(state: Path, tmp_path: Path) -> None:
    """What a crash left in the midst of a change stays so: the file is read as it is, and byte by byte what it was."""
    filled(state)
    path, crashed = state / "ledger.sqlite3", tmp_path / "crashed"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA cache_size=1")
    db.execute("BEGIN")
    db.execute("UPDATE summaries SET json=json || ' '")
    for suffix in ("", "-journal"):  # as a kill would leave them
        crashed.with_name(f"crashed{suffix}").write_bytes(path.with_name(path.name + suffix).read_bytes())
    db.close()
    before = crashed.read_bytes()
    with Ledger(str(tmp_path / "new"), writer=True) as ledger:
        salvage.bring_over(str(crashed), ledger._db)
    assert crashed.read_bytes() == before
    assert crashed.with_name("crashed-journal").stat().st_size > 0


@pytest.mark.fault("R2")
def test_nobody_waits_long_for_a_large_file(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is up the rest stays where it is, and that is said."""
    filled(state)
    harm(state, "a hole")
    monkeypatch.setattr(salvage, "PATIENCE", 0.0)
    monkeypatch.setattr(salvage._Table, "_ends", lambda _: (1, RUNS))
    with Ledger.current(str(state)) as ledger:
        assert rows(ledger) == {}
        assert len(ledger.notes) == 1
        assert ledger.write(lambda db: db.execute("SELECT 1").fetchone()) == (1,)


@pytest.mark.fault("R2")
def test_a_disk_that_takes_nothing_over_keeps_nobody_from_the_ledger(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written is said, none of it is there in part, and the new ledger answers."""
    filled(state)
    harm(state, "a hole")

    def full(*_: object) -> str:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(salvage, "_newest_events", full)
    with Ledger.current(str(state)) as ledger:
        assert rows(ledger) == {}
        assert ledger.notes[1] == f"{aside(state)[0]}: nothing came over: database or disk is full"


@pytest.mark.fault("R2")
def test_a_run_without_its_own_summary_stays_behind(state: Path, tmp_path: Path) -> None:
    """A row whose summary is of another run, or no object, is counted as lost and not made up."""
    filled(state)
    with sqlite3.connect(state / "ledger.sqlite3") as db:
        db.execute("UPDATE summaries SET json='[]' WHERE run='web-000001'")
        db.execute("UPDATE summaries SET json='{\"run\": \"x\"}' WHERE run='web-000002'")
        db.execute("UPDATE runs SET started='soon' WHERE run='web-000003'")
    db.close()
    with Ledger(str(tmp_path / "new"), writer=True) as ledger:
        said = salvage.bring_over(str(state / "ledger.sqlite3"), ledger._db)
        assert not {f"web-00000{number}" for number in (1, 2, 3)} & rows(ledger).keys()
        assert ledger.rows("SELECT count(*) FROM runs") == ledger.rows("SELECT count(*) FROM summaries")
    assert said.endswith("3 runs could not be read")


@pytest.mark.fault("R2")
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=40))
@settings(deadline=None, max_examples=10)
def test_whatever_rots_a_ledger_opens(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[float, int]]
) -> None:
    """Bytes changed anywhere: the ledger is read or made anew, and holds no run that never was."""
    state = tmp_path_factory.mktemp("state")
    before = filled(state)
    path = state / "ledger.sqlite3"
    data = bytearray(path.read_bytes())
    for where, change in flips:
        # The head of the file holds numbers that say what it is: another kind of file is another test.
        data[100 + int(where * (len(data) - 100))] ^= change
    path.write_bytes(data)
    with Ledger.current(str(state)) as ledger:
        ids = {run for (run,) in ledger.rows("SELECT run FROM runs")}
    if aside(state):
        assert ids <= before.keys()
        assert aside(state)[0].read_bytes() == data
    assert os.path.exists(path)
