"""Which run a word means, which runs live, and what became of those that left no report."""

import json
import os
from pathlib import Path

import pytest

import folders
import helpers
from longwatch.errors import StoreError
from longwatch.posix.clocks import LOOKED
from longwatch.posix.identity import Identity, identity
from longwatch.store import spool
from longwatch.store.queries import ManyRunsError, NoSuchRunError, find, find_live, history, last_run, runs
from longwatch.store.run_folders import folders as all_folders
from longwatch.store.run_folders import live_runs


def dead() -> Identity:
    """Return the identity of a process that is gone."""
    own = folders.me()
    return Identity(own.pid, own.start + 1, own.boot)


def found(state: Path, word: str) -> str:
    with history(str(state)) as ledger:
        return find(str(state), ledger, word).run


def test_a_run_lives_while_its_supervisor_does(state: Path) -> None:
    """A folder is live as long as the very process that made it; then, without a report, it was interrupted."""
    with helpers.ending(folders.sleeper()) as process:
        run = folders.make(state, supervisor=identity(process.pid))
        run.close()
        assert [folder.run for folder in live_runs(str(state))] == [run.run]
        process.kill()
        process.wait()
    assert live_runs(str(state)) == []
    with history(str(state)) as ledger:
        summary = last_run(ledger)
    assert summary is not None
    assert (summary["run"], summary["termination_reason"], summary["outcome"]) == (
        run.run,
        "interrupted",
        "interrupted",
    )


@pytest.mark.fault("P4")
def test_an_outside_kill_is_never_called_ours(state: Path) -> None:
    """A run whose supervisor vanished has no limit, no origin and no signal: nobody claims to have stopped it."""
    folder = folders.make(state, supervisor=dead(), age_ms=9_000, progress_ago=4_000)
    told = folder.clocks.header[LOOKED]
    started = folder.clocks.header[1]
    folder.close()
    with history(str(state)) as ledger:
        (summary,) = runs(ledger)
    assert [summary[key] for key in ("limit", "origin", "signal", "exit_code")] == [None] * 4
    assert "longwatch itself ended without a report" in summary["diagnosis"]
    assert summary["duration_ms"] == told - started
    assert 3_900 < summary["idle_ms"] < 4_500
    assert summary["progress"]["stdout"]["count"] == 1


def test_an_interrupted_run_without_clocks(state: Path) -> None:
    """When even the clocks are gone the run is still told."""
    folder = folders.make(state, supervisor=dead())
    folder.close()
    (Path(folder.path) / "clocks").unlink()
    with history(str(state)) as ledger:
        (summary,) = runs(ledger)
    assert (summary["duration_ms"], summary["progress"]) == (0, {})


def test_a_report_without_a_line_is_history(state: Path) -> None:
    """A run whose line could not be spooled is found by its report, and the ledger keeps it."""
    folder = folders.make(state)
    folder.write_report(folders.report(folder.run))
    folder.close()
    with history(str(state)) as ledger:
        assert [summary["run"] for summary in runs(ledger)] == [folder.run]
    for entry in Path(folder.path).iterdir():
        entry.unlink()
    with history(str(state)) as ledger:
        assert [summary["termination_reason"] for summary in runs(ledger)] == ["idle"]


@pytest.mark.fault("R2")
def test_a_torn_report_is_none(state: Path) -> None:
    """A report that a crash of the machine tore counts as none."""
    folder = folders.make(state, supervisor=dead())
    folder.close()
    (Path(folder.path) / "report.json").write_bytes(b'{"schema": 1, "ru')
    (only,) = all_folders(str(state))
    assert only.report() is None
    with history(str(state)) as ledger:
        assert [summary["outcome"] for summary in runs(ledger)] == ["interrupted"]


def test_odd_folders_are_left_out(state: Path) -> None:
    """What is no run folder is passed over, a newer one is told in one line."""
    good, newer, clocks = folders.make(state), folders.make(state), folders.make(state)
    for run in (good, newer, clocks):
        run.close()
    (state / "runs" / "other").mkdir()
    (state / "runs" / "empty-abcdef").mkdir()
    (state / "runs" / "moved-abcdef").mkdir()
    (state / "runs" / "moved-abcdef" / "meta.json").write_bytes((Path(good.path) / "meta.json").read_bytes())
    about = json.loads((Path(newer.path) / "meta.json").read_text())
    (Path(newer.path) / "meta.json").write_text(json.dumps({**about, "schema": 2}))
    data = bytearray((Path(clocks.path) / "clocks").read_bytes())
    data[0] += 1
    (Path(clocks.path) / "clocks").write_bytes(data)
    notes: list[str] = []
    assert [folder.run for folder in all_folders(str(state), notes)] == [good.run]
    assert len(notes) == 2
    assert all("was written by a newer longwatch" in note for note in notes)
    assert len(all_folders(str(state))) == 1


def test_a_run_of_another_machine(state: Path) -> None:
    """A run of a machine that shares this home is live as far as we know, and not ours to judge."""
    folders.make(state, host="elsewhere", supervisor=dead()).close()
    (folder,) = live_runs(str(state))
    assert not folder.here


def test_words_that_mean_a_run(state: Path) -> None:
    """An id, a marker, the beginning of an id, a live run's name, else the newest of a name."""
    old = folders.ended(state, "build")
    folders.ended(state, "test")
    new = folders.ended(state, "build", started_at="2026-01-01T00:00:00Z")
    assert found(state, old) == old
    assert found(state, "outer-abcdef/" + old) == old
    assert found(state, old[:-1]) == old
    assert found(state, "build") == old
    assert found(state, new) == new
    with helpers.ending(folders.sleeper()) as process:
        live = folders.make(state, "build", supervisor=identity(process.pid))
        live.close()
        assert found(state, "build") == live.run
        with history(str(state)) as ledger:
            assert find(str(state), ledger, "build").summary is None
    assert found(state, "test") == found(state, "te")


def test_a_name_of_several_live_runs_is_refused(state: Path) -> None:
    """A name that fits several live runs names them; an id is still exact."""
    ids = [folders.make(state).run for _ in range(2)]
    with pytest.raises(ManyRunsError) as refused:
        found(state, "build")
    assert all(run in str(refused.value) for run in ids)
    assert found(state, ids[0]) == ids[0]
    with pytest.raises(ManyRunsError):
        find_live(str(state), "build")
    assert find_live(str(state), ids[1]).run == ids[1]


def test_a_beginning_of_several_is_refused(state: Path) -> None:
    """Where only beginnings fit, and several do, they are named."""
    ids = [folders.ended(state, name) for name in ("builder", "building")]
    with pytest.raises(ManyRunsError) as refused:
        found(state, "build")
    assert all(run in str(refused.value) for run in ids)
    for name in ("alpha", "alphabet"):
        folders.make(state, name).close()
    with pytest.raises(ManyRunsError):
        find_live(str(state), "alp")
    assert find_live(str(state), "alpha").name == "alpha"


def test_an_unknown_word_offers_the_nearest(state: Path) -> None:
    """A word that fits nothing is refused with the nearest name."""
    folders.ended(state, "build")
    with pytest.raises(NoSuchRunError, match="no run biuld; did you mean build"):
        found(state, "biuld")
    with pytest.raises(NoSuchRunError, match=r"no run zzz$"):
        found(state, "zzz")
    folders.make(state, "server")
    with pytest.raises(NoSuchRunError, match="no live run sever; did you mean server"):
        find_live(str(state), "sever")
    with pytest.raises(NoSuchRunError):
        find_live(str(state), "")
    with pytest.raises(NoSuchRunError):
        found(state, "")


def test_runs_are_narrowed_down(state: Path) -> None:
    """Lists are the newest first, by name, by time, by outcome, up to a number."""
    for name, at, outcome in (
        ("a", 1, "failed"),
        ("a", 2, "success"),
        ("b", 3, "failed"),
        ("a", 4, "failed"),
    ):
        line = {
            "run": f"{name}-00000{at}",
            "name": name,
            "outcome": outcome,
            "started_at": f"2026-01-0{at}T00:00:00Z",
        }
        spool.append(str(state), line)
    with history(str(state)) as ledger:

        def days(**narrowed: object) -> list[str]:
            return [summary["run"][-1] for summary in runs(ledger, **narrowed)]  # type: ignore[arg-type]

        assert days() == ["4", "3", "2", "1"]
        assert days(limit=2) == ["4", "3"]
        assert days(name="a") == ["4", "2", "1"]
        assert days(name="a", outcome="failed") == ["4", "1"]
        assert days(since=1_767_312_000_000) == ["4", "3", "2"]
        assert days(name="c") == []


def test_the_last_run_is_the_one_that_ended_last(state: Path) -> None:
    """Not the one that started last: a long run that ended just now is what somebody asks about."""
    for run, minute, took in (("a-000000", 0, 600_000), ("b-000000", 1, 1_000)):
        at = f"2026-01-01T00:0{minute}:00Z"
        spool.append(str(state), {"run": run, "started_at": at, "duration_ms": took})
    with history(str(state)) as ledger:
        summary = last_run(ledger)
    assert summary is not None
    assert summary["run"] == "a-000000"


def test_a_newer_ledger_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs that need the history end with the line of the ledger; a ledger that only cannot take more is noted."""
    from longwatch.store.ledger import Ledger

    folders.make(state, supervisor=dead()).close()

    def refuse(self: Ledger, summaries: object) -> None:
        raise StoreError("is busy")

    monkeypatch.setattr(Ledger, "adopt", refuse)
    with history(str(state)) as ledger:
        assert ledger.notes == ["runs without a line in the spool are missing here: is busy"]


def test_events_and_meta_are_read_as_they_are(state: Path) -> None:
    """Lines of the events file that are no facts are passed over; a folder without one has none."""
    run = folders.make(state)
    run.append_event({"event": "run_started"})
    with open(run.path + "/events.jsonl", "ab") as events:
        events.write(b"torn\n[1]\n")
    (folder,) = live_runs(str(state))
    assert [event["event"] for event in folder.events()] == ["run_started"]
    os.unlink(run.path + "/events.jsonl")
    assert folder.events() == []
    folder.meta["limits"] = None
    assert folder.limits == {}
    run.close()
