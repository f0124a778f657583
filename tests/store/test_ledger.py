"""The ledger: filled from the spool exactly once, rebuilt when it is damaged, never overwritten."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.errors import StoreError
from longwatch.store import intake, ledger, schema, spool
from longwatch.store.ledger import Ledger

DAY = time.strftime("%Y-%m-%d", time.gmtime())


def record(run: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1, "run": run, "name": "build", "attempt": 1, "termination_reason": "exited", "outcome": "success",
        "started_at": "2026-01-02T03:04:05.678Z", "duration_ms": 1_000, **changes,
    }  # fmt: skip


def line(run: str, **changes: Any) -> bytes:
    return spool.line(record(run, **changes))


def put(state: Path, data: bytes, day: str = DAY, *, append: bool = True) -> Path:
    folder = state / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{day}.jsonl"
    with path.open("ab" if append else "wb") as file:
        file.write(data)
    return path


def stored(state: Path) -> tuple[list[str], list[str]]:
    """Return the runs that a reader sees, and what it is told."""
    with Ledger.current(str(state)) as opened:
        return [run for (run,) in opened.rows("SELECT run FROM runs ORDER BY run")], opened.notes


def test_a_line_becomes_a_run(state: Path) -> None:
    """A reader brings the spool in before it answers; the file is private, its schema numbered."""
    put(state, line("a-000000"))
    with Ledger.current(str(state)) as opened:
        found = opened.rows("SELECT run, attempt, name, started, ended, reason, outcome, found FROM runs")
        assert found == [("a-000000", 1, "build", 1767323045678, 1767323046678, "exited", "success", 0)]
        assert opened.rows("PRAGMA user_version") == [(2,)]
        assert not opened.notes
        kept = json.loads(opened.rows("SELECT json FROM summaries")[0][0])
    assert kept == record("a-000000")
    assert stat.S_IMODE((state / "ledger.sqlite3").stat().st_mode) == 0o600


def test_reading_twice_never_doubles(state: Path) -> None:
    """Offsets are remembered; a copied, shortened or replaced file is read again without doubling a run."""
    path = put(state, line("a-000000") + line("b-000000"))
    assert stored(state)[0] == ["a-000000", "b-000000"]
    assert stored(state)[0] == ["a-000000", "b-000000"]
    put(state, line("c-000000"))
    assert stored(state)[0] == ["a-000000", "b-000000", "c-000000"]
    path.write_bytes(line("b-000000"))
    other = path.with_name("new")
    other.write_bytes(line("b-000000") + line("a-000000") + line("d-000000"))
    assert stored(state)[0] == ["a-000000", "b-000000", "c-000000"]
    other.rename(path)
    assert stored(state)[0] == ["a-000000", "b-000000", "c-000000", "d-000000"]


def test_attempts_are_runs_of_their_own(state: Path) -> None:
    """A run is keyed by id and attempt; the later line about one attempt wins."""
    put(state, line("a-000000") + line("a-000000", attempt=2) + line("a-000000", attempt=2, outcome="failed"))
    with Ledger.current(str(state)) as opened:
        assert opened.rows("SELECT attempt, outcome FROM runs ORDER BY 1") == [(1, "success"), (2, "failed")]


@pytest.mark.fault("R2")
def test_a_torn_last_line_waits(state: Path) -> None:
    """A line without its end is not read until it has one, and nothing is said of it."""
    whole = line("a-000000")
    put(state, line("b-000000") + whole[:20])
    assert stored(state) == (["b-000000"], [])
    put(state, whole[20:])
    assert stored(state) == (["a-000000", "b-000000"], [])


@pytest.mark.fault("M5")
def test_bad_lines_are_passed_over_and_told_once(state: Path) -> None:
    """Zero bytes and lines that say nothing are skipped, counted, copied and told once; all others count."""
    bad = [b"not json\n", b"[1]\n", b"\0\0\0\n", b'{"v": 1, "type": "other"}\n', spool.line({"run": 5})[1:]]
    put(state, b"\0\0" + line("a-000000") + b"".join(bad) + line("b-000000"))
    runs, notes = stored(state)
    assert runs == ["a-000000", "b-000000"]
    assert len(notes) == 1
    assert f"{DAY}.jsonl: 6 unreadable lines; copied to " in notes[0]
    assert (state / "spool" / f"bad-{DAY}").read_bytes() == b"\0\0\n" + b"".join(bad)
    assert stored(state) == (runs, [])


def test_a_newer_line_stays(state: Path) -> None:
    """A line of a newer longwatch is told and left in place; those behind it count, bad ones are told once."""
    newer = b'{"v": 2, "type": "run", "run": "n-000000"}\n'
    put(state, line("a-000000") + newer + line("b-000000") + b"bad\n")
    runs, notes = stored(state)
    assert runs == ["a-000000", "b-000000"]
    assert "lines of a newer longwatch (version 2) wait there; upgrade to read them" in notes[0]
    assert "1 unreadable line;" in notes[1]
    runs, notes = stored(state)
    assert (runs, len(notes)) == (["a-000000", "b-000000"], 1)
    assert newer in (state / "spool" / f"{DAY}.jsonl").read_bytes()


def test_a_newer_line_is_read_after_the_upgrade(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited is brought in by the version that can read it."""
    put(state, line("a-000000").replace(b'"v": 1', b'"v": 2'))
    assert stored(state)[0] == []
    monkeypatch.setattr(intake, "VERSION", 2)
    assert stored(state) == (["a-000000"], [])


def test_odd_values_are_stored_or_passed_over(state: Path) -> None:
    """Undecodable names are stored, values that no run can have make a bad line; nothing breaks the reader."""
    odd: list[dict[str, Any]] = [
        {"attempt": 1 << 70},
        {"started_at": "yesterday"},
        {"started_at": "2026-01-01"},
        {"run": ""},
    ]
    put(state, b"".join(line(**{"run": "x-000000", **changes}) for changes in odd))
    put(state, b"[" * 100_000 + b"\n")
    put(state, line("y-000000", name="caf\udce9", duration_ms=1 << 80, outcome=None))
    runs, notes = stored(state)
    assert runs == ["y-000000"]
    assert "5 unreadable lines" in notes[0]


Cut = st.lists(
    st.tuples(st.sampled_from(["torn", "zero", "junk", "blank", "good"]), st.integers(1, 60)), max_size=12
)


@pytest.mark.fault("M5", "R2")
@given(Cut, st.lists(st.integers(0, 3_000), max_size=4))
@settings(deadline=None, max_examples=25)
def test_any_damage_leaves_the_good_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int]], cuts: list[int]
) -> None:
    """However a spool is torn, zeroed or cut into readings: each whole line is a run, exactly once."""
    state = tmp_path_factory.mktemp("state")
    data, good = b"", []
    for number, (kind, size) in enumerate(parts):
        if kind == "good":
            good.append(f"r-{number:06d}")
            data += line(good[-1])
        else:
            whole = line("t-000000").strip()
            data += {"torn": whole[:size], "zero": b"\0" * size, "junk": b"\n{}x\n" * size, "blank": b"\n\n"}[
                kind
            ]
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        put(state, data[at:cut])
        at = max(at, cut)
        stored(state)
    assert stored(state)[0] == good


@pytest.mark.fault("R2")
@pytest.mark.parametrize("damage", ["zeroed", "torn", "text", "foreign", "middle", "header", "tables"])
def test_a_damaged_ledger_is_moved_aside_and_rebuilt(state: Path, damage: str) -> None:
    """A ledger that cannot be read is set aside, said aloud, and rebuilt from the spools; nothing is overwritten."""
    put(state, b"".join(line(f"a-{i:06d}") for i in range(300)))
    expected = stored(state)[0]
    path = state / "ledger.sqlite3"
    before = harm(path, damage)
    runs, notes = stored(state)
    assert runs == expected
    assert [number for number, note in enumerate(notes) if "was damaged" in note] == [0]
    aside = set_aside(state)
    assert len(aside) == 1
    assert aside[0] in notes[0]
    assert (state / aside[0]).read_bytes() == before
    assert stored(state) == (expected, [])


def set_aside(state: Path) -> list[str]:
    return [name for name in os.listdir(state) if ".broken-" in name and not name.endswith("-journal")]


def harm(path: Path, damage: str) -> bytes:
    data = bytearray(path.read_bytes())
    if damage == "zeroed":
        data[:] = bytes(len(data))
    elif damage == "torn":
        del data[len(data) // 2 :]
    elif damage == "text":
        data[:] = b"once there was a ledger here\n" * 100
    elif damage == "middle":
        data[4096 * 2 : 4096 * 14] = bytes(4096 * 12)
    elif damage == "header":
        data[:100] = bytes(100)
    else:
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE other (x)")
            if damage == "tables":
                db.execute("PRAGMA user_version=1")
                db.execute(f"PRAGMA application_id={schema.APPLICATION}")
        db.close()
        return path.read_bytes()
    path.write_bytes(data)
    return bytes(data)


def test_rot_met_later_is_set_aside_too(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file too large for a check at opening, damage shows when a query meets it, and is mended then."""
    monkeypatch.setattr(schema, "CHECKED_SIZE", 0)
    put(state, b"".join(line(f"a-{i:06d}") for i in range(300)))
    expected = stored(state)[0]
    harm(state / "ledger.sqlite3", "middle")
    with Ledger.current(str(state)) as opened:
        rows = opened.rows("SELECT run, name, found, json FROM runs NATURAL JOIN summaries ORDER BY run")
        assert [run for run, *_ in rows] == expected
        assert "was damaged" in opened.notes[0]


def test_two_that_find_the_damage_move_it_once(state: Path) -> None:
    """Whoever comes second finds the new file and leaves it."""
    put(state, line("a-000000"))
    stored(state)
    first, second = Ledger(str(state)), Ledger(str(state))
    with first, second:
        first._set_aside(sqlite3.DatabaseError("rot"))
        first._connect().close()
        second._set_aside(sqlite3.DatabaseError("rot"))
    assert len(set_aside(state)) == 1
    assert second.notes == []


def test_an_older_broken_file_is_never_overwritten(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two damages within a second get names of their own."""
    monkeypatch.setattr(time, "strftime", lambda *_: ".broken-X")
    for content in ("one", "two"):
        state.mkdir(parents=True, exist_ok=True)
        (state / "ledger.sqlite3").write_text(content * 1000)
        stored(state)
    assert (state / "ledger.sqlite3.broken-X").read_text().startswith("one")
    assert (state / "ledger.sqlite3.broken-X.1").read_text().startswith("two")


def test_a_newer_ledger_is_left_alone(state: Path) -> None:
    """A ledger of a newer longwatch is refused with one line and not touched."""
    stored(state)
    path = state / "ledger.sqlite3"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=7")
    db.close()
    before = path.read_bytes()
    with pytest.raises(
        StoreError, match=r"was written by a newer longwatch \(schema 7\); upgrade, or move it aside"
    ):
        Ledger(str(state))
    assert path.read_bytes() == before


def test_an_unusable_place_answers_from_the_spool(state: Path) -> None:
    """Where no ledger can be kept, the spool still answers, and it is said."""
    (state / "ledger.sqlite3").mkdir(parents=True)
    put(state, line("a-000000"))
    runs, notes = stored(state)
    assert runs == ["a-000000"]
    assert "the history is read, not kept" in notes[0]


def test_no_state_folder_at_all(state: Path) -> None:
    """A state folder that cannot be made leaves an empty history with a note."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("in the way")
    runs, notes = stored(state)
    assert runs == []
    assert "cannot make this folder" in notes[0]


def test_a_busy_ledger_says_so(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does not let go is waited for, then named in one line."""
    monkeypatch.setattr(ledger, "BUSY_MS", 20)
    stored(state)
    put(state, line("a-000000"))
    holder = sqlite3.connect(state / "ledger.sqlite3", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Ledger(str(state)) as opened, pytest.raises(StoreError, match="is busy; try again"):
        opened.ingest()
    holder.close()
    assert stored(state)[0] == ["a-000000"]


@pytest.mark.parametrize(
    ("code", "said"), [(sqlite3.SQLITE_BUSY, None), (sqlite3.SQLITE_FULL, "read, not kept")]
)
def test_a_ledger_that_cannot_be_opened(
    state: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str | None
) -> None:
    """Busy at opening is refused with one line; on a full or read-only disk a copy of what is there answers."""
    put(state, line("a-000000"))
    stored(state)
    put(state, line("b-000000"))
    prepare = Ledger._prepare

    def refuse(self: Ledger, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA database_list").fetchone()[2]:
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = code
            raise error
        prepare(self, db)

    monkeypatch.setattr(Ledger, "_prepare", refuse)
    if said is None:
        with pytest.raises(StoreError, match="is busy; try again"):
            Ledger(str(state))
    else:
        runs, notes = stored(state)
        assert runs == ["a-000000", "b-000000"]
        assert said in notes[0]


def test_what_cannot_be_mended_is_one_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that fails for another reason than damage, and damage that comes back, are StoreErrors."""
    with Ledger(str(state)) as opened:
        with pytest.raises(StoreError, match="no such table"):
            opened.rows("SELECT * FROM nowhere")

        def rot() -> None:
            raise schema.DamagedError("rot")

        with pytest.raises(StoreError, match="rot"):
            opened._guarded(rot)


def test_readers_at_once_agree(state: Path) -> None:
    """Readers that start together on a new machine all answer, and no run is doubled."""
    put(state, b"".join(line(f"a-{i:06d}") for i in range(200)))
    code = (
        "import sys; from longwatch.store.ledger import Ledger\n"
        "with Ledger.current(sys.argv[1]) as l: print(l.rows('SELECT count(*) FROM runs')[0][0], l.notes)"
    )
    readers = [
        subprocess.Popen([sys.executable, "-c", code, str(state)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert {reader.communicate(timeout=30)[0] for reader in readers} == {"200 []\n"}


def test_a_failure_takes_nothing_half(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and offsets change together: a reader that dies in between leaves the ledger as it was."""
    put(state, line("a-000000"))
    with monkeypatch.context() as patch:
        patch.setattr(intake, "_drop_old", lambda *_: 1 / 0)
        with Ledger(str(state)) as opened, pytest.raises(ZeroDivisionError):
            opened.ingest()
    with Ledger(str(state)) as opened:
        assert opened.rows("SELECT count(*) FROM runs") == [(0,)]
    assert stored(state)[0] == ["a-000000"]


def test_old_spools_go_when_they_were_read(state: Path) -> None:
    """A spool is kept 30 days for a rebuild, then removed with its bad lines; one that waits stays."""
    old = put(state, line("a-000000") + b"bad\n", "2020-01-01")
    waiting = put(state, line("b-000000") + b'{"v": 9, "type": "run"}\n', "2020-01-02")
    fresh = put(state, line("c-000000"))
    runs, _ = stored(state)
    assert runs == ["a-000000", "b-000000", "c-000000"]
    assert not old.exists()
    assert waiting.exists()
    assert fresh.exists()
    assert not (state / "spool" / "bad-2020-01-01").exists()
    assert stored(state)[0] == runs


def test_a_spool_that_cannot_be_read_is_named(state: Path) -> None:
    """One file that is no file does not hide the others."""
    (state / "spool" / "2026-01-01.jsonl").mkdir(parents=True)
    put(state, line("a-000000"))
    put(state, b"", "nonsense")
    runs, notes = stored(state)
    assert runs == ["a-000000"]
    assert "2026-01-01.jsonl: cannot be read" in notes[0]


def test_bad_lines_that_cannot_be_copied(state: Path) -> None:
    """When even the copy fails, that is part of the note."""
    (state / "spool" / f"bad-{DAY}").mkdir(parents=True)
    put(state, b"bad\n")
    assert "copied to nowhere (" in stored(state)[1][0]


def test_a_run_found_open_gives_way_to_its_own_line(state: Path) -> None:
    """What a reader concluded about a run is replaced by what the run itself wrote, never the other way round."""
    with Ledger.current(str(state)) as opened:
        opened.adopt([record("a-000000", outcome="interrupted"), {"run": "no start"}])
        assert opened.rows("SELECT outcome, found FROM runs") == [("interrupted", 1)]
        put(state, line("a-000000"))
        opened.ingest()
        opened.adopt([record("a-000000", outcome="interrupted")])
        assert opened.rows("SELECT outcome, found FROM runs") == [("success", 0)]


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ((3, 40, 1), "truncate"), ((3, 44, 5), "truncate"), ((3, 44, 6), "wal"), ((3, 45, 0), "truncate"),
        ((3, 50, 6), "truncate"), ((3, 50, 7), "wal"), ((3, 51, 2), "truncate"), ((3, 51, 3), "wal"), ((4, 0, 0), "wal"),
    ],
)  # fmt: skip
def test_journal_follows_the_fix(version: tuple[int, ...], mode: str) -> None:
    """A write-ahead log is used only where SQLite's corruption fix is in."""
    assert ledger.journal_mode(version) == mode


@pytest.mark.parametrize("mode", ["wal", "truncate"])
def test_both_journals_keep_the_history(state: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The mode may change between two readers; the history stays."""
    put(state, line("a-000000"))
    stored(state)
    monkeypatch.setattr(ledger, "journal_mode", lambda _: mode)
    put(state, line("b-000000"))
    with Ledger.current(str(state)) as opened:
        assert opened.rows("PRAGMA journal_mode") == [(mode,)]
        assert opened.rows("PRAGMA synchronous") == [(2,)]
    monkeypatch.undo()
    assert stored(state)[0] == ["a-000000", "b-000000"]


def test_lists_use_the_index(state: Path) -> None:
    """The last runs of one name are found without reading the others."""
    with Ledger.current(str(state)) as opened:
        plan = opened.rows(
            "EXPLAIN QUERY PLAN SELECT run FROM runs WHERE name='a' ORDER BY started DESC LIMIT 5"
        )
    assert "runs_by_name" in plan[0][3]
    assert len(plan) == 1
