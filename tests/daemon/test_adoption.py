"""The next daemon goes on with what the last one left: nothing lost, nothing twice."""

import os
import signal
from pathlib import Path

import pytest

import helpers
from daemons import daemon, numbers, shell
from longwatch import paths
from longwatch.core.spec import LimitSpec

COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.01; done"


def copies(word: str) -> list[int]:
    """Return the shells that run a script with this word in it."""
    return [
        pid
        for pid in helpers.all_pids()
        if word in helpers.command_line(pid) and helpers.command_line(pid).startswith("sh -c")
    ]


@pytest.mark.capability("NEW-16")
@pytest.mark.fault("I2")
def test_a_killed_daemon_loses_no_line_and_no_program(tmp_path):
    """Ten kills at moments of their own: the same processes, each line once, one open run each, on pipes and terminals."""
    mark = f"mark{os.getpid()}"
    chatty = [shell(f"h{i}", f": {mark}; {COUNT}", pty=i == 2) for i in range(3)]
    with daemon(tmp_path, *chatty) as place:
        pids = {each.name: place.running(each.name)["pid"] for each in chatty}
        for turn in range(10):
            helpers.wait_until(lambda turn=turn: len(numbers(place.logged("h0"))) > turn * 5)
            place.kill()
            assert place.start()["ready"]
        for name, pid in pids.items():
            assert place.running(name)["pid"] == pid
        assert sorted(copies(mark)) == sorted(pids.values())
        assert [run["outcome"] for run in place.ledger()] == ["running"] * 3
        place.down()
        for each in chatty:
            seen = numbers(place.logged(each.name))
            assert seen == list(range(1, len(seen) + 1))
        assert [run["outcome"] for run in place.ledger()] == ["cancelled"] * 3
        assert copies(mark) == []


@pytest.mark.capability("NEW-16")
@pytest.mark.fault("I3")
def test_what_ended_while_nobody_watched_is_closed_with_its_own_code(tmp_path):
    """The exit code is the program's, its last words are in the log, and it is started again by its policy."""
    script = f"[ -e {tmp_path}/second ] && exec sleep 60; touch {tmp_path}/second; read x < {tmp_path}/go; echo last words; exit 7"
    os.mkfifo(tmp_path / "go")
    with daemon(tmp_path, shell("a", script)) as place:
        first = place.running("a")
        place.kill()
        (tmp_path / "go").write_text("x\n")
        helpers.wait_until(lambda: not helpers.alive(first["pid"]))
        place.start()
        place.until("a", state="running", attempt=2)
        ended = next(run for run in place.ledger() if run["run"] == first["run"])
        assert (ended["exit_code"], ended["outcome"], ended["termination_reason"]) == (7, "failed", "exited")
        assert "last words" in place.logged("a")


@pytest.mark.fault("I1")
def test_term_stops_nothing(tmp_path):
    """TERM ends the daemon alone; the next one goes on with the same process."""
    with daemon(tmp_path, shell("a", COUNT)) as place:
        pid = place.running("a")["pid"]
        assert place.kill(signal.SIGTERM) == 0
        assert helpers.alive(pid)
        assert not (place.folder / "daemon.json").exists()
        place.start()
        assert place.running("a")["pid"] == pid
        place.down()
        assert not helpers.alive(pid)
        seen = numbers(place.logged("a"))
        assert seen == list(range(1, len(seen) + 1))


@pytest.mark.fault("I1")
def test_an_upgrade_takes_over_under_live_programs(tmp_path):
    """`--replace`: the old daemon lets go, the new one has the same processes, and the lock."""
    with daemon(tmp_path, shell("a", COUNT), shell("t", COUNT, pty=True)) as place:
        before = {name: place.running(name)["pid"] for name in ("a", "t")}
        old = place.process
        assert place.start("--replace")["ready"]
        assert old.wait(10) == 0
        assert {name: place.running(name)["pid"] for name in ("a", "t")} == before
        assert [run["outcome"] for run in place.ledger()] == ["running", "running"]


@pytest.mark.fault("I1")
def test_a_daemon_that_does_not_answer_is_replaced_all_the_same(tmp_path, monkeypatch):
    """One that is stopped is woken to let go."""
    with daemon(tmp_path, shell("a", COUNT)) as place:
        pid = place.running("a")["pid"]
        old = place.process
        os.kill(old.pid, signal.SIGSTOP)
        assert place.start("--replace")["ready"]
        assert old.wait(10) == 0
        assert place.running("a")["pid"] == pid


@pytest.mark.capability("CAP-122")
@pytest.mark.fault("I5")
def test_an_open_run_with_nothing_behind_it_is_interrupted(tmp_path):
    """Keeper and program are gone: the run is closed as interrupted, and another one begins."""
    with daemon(tmp_path, shell("a", "exec sleep 600")) as place:
        first = place.running("a")
        keeper = place.ask("status")["daemon"]["keeper_pid"]
        place.kill()
        helpers.kill_all([keeper, first["pid"]])
        helpers.wait_until(lambda: not helpers.alive(keeper) and not helpers.alive(first["pid"]))
        place.start()
        second = place.running("a")
        assert second["run"] != first["run"]
        runs = {run["run"]: run for run in place.ledger()}
        assert (runs[first["run"]]["outcome"], runs[first["run"]]["cause"]) == ("interrupted", "daemon_crash")


@pytest.mark.fault("I2")
def test_without_its_keeper_a_program_is_known_by_who_it_is(tmp_path):
    """The keeper died with the daemon: the program is followed by its pid, stopped with its tree, not started twice."""
    mark = f"alone{os.getpid()}"
    with daemon(tmp_path, shell("a", f": {mark}; trap '' HUP; while :; do sleep 0.05; done")) as place:
        pid = place.running("a")["pid"]
        keeper = place.ask("status")["daemon"]["keeper_pid"]
        place.kill()
        helpers.kill_all([keeper])
        helpers.wait_until(lambda: not helpers.alive(keeper))
        place.start()
        stands = place.running("a")
        assert stands["pid"] == pid
        assert copies(mark) == [pid]
        assert place.ask("stop", name="a")["state"] == "stopped"
        assert copies(mark) == []


@pytest.mark.fault("I2")
def test_what_nobody_knows_of_is_ended(tmp_path):
    """A run that the keeper has and no record tells of is ended before anything is started."""
    from keepers import give_back
    from keepers import shell as launched
    from longwatch.runtime.kept import Keeper

    with daemon(tmp_path, shell("a", "exec sleep 600"), start=False) as place:
        paths.ensure(str(place.sockets))
        keeper = Keeper.at(str(place.sockets / "keeper.sock"))
        child = keeper.spawn(launched("exec sleep 601"), "stray-abcdef")
        keeper.close()
        place.start()
        place.running("a")
        helpers.wait_until(lambda: not helpers.alive(child.pid))
        give_back(child)
        assert "stray-abcdef" in place.said()


@pytest.mark.capability("NEW-16")
def test_silence_that_nobody_watched_counts_for_nobody(tmp_path):
    """An adopted program has its clocks back, and the time without a daemon is no silence of it."""
    limits = {"idle": LimitSpec(1_500, "stop")}
    with daemon(tmp_path, shell("a", "echo line 1; exec sleep 600", limits=limits)) as place:
        place.until("a", state="running", progress_source="stdout")
        place.kill()
        helpers.time.sleep(1.7)
        place.start()
        stands = place.running("a")
        assert stands["sources"]["stdout"]["count"] == 1
        assert stands["progress_ms"] > 1_500
        assert 0 < stands["limits"]["idle"]["left_ms"] <= 1_500
        place.until("a", attempt=2)
        ended = place.ledger()[0]
        assert ended["termination_reason"] == "idle"


@pytest.mark.fault("A5")
def test_the_first_budget_is_kept_over_a_restart_of_the_daemon(tmp_path):
    """A daemon that comes up does not stop what has shown its first sign long ago, or has time left for it."""
    limits = {"first": LimitSpec(2_000, "stop")}
    quiet = shell("quiet", "exec sleep 600", limits={"first": LimitSpec(60_000, "stop")})
    with daemon(tmp_path, shell("spoke", "echo line 1; exec sleep 600", limits=limits), quiet) as place:
        place.until("spoke", state="running", progress_source="stdout")
        place.kill()
        place.start()
        assert "first" not in {
            k for k, v in place.running("spoke")["limits"].items() if v["left_ms"] is not None
        }
        left = place.running("quiet")["limits"]["first"]["left_ms"]
        assert 0 < left <= 60_000


def test_a_run_folder_that_is_gone_keeps_nobody_from_following(tmp_path):
    """Without its folder the run goes on, with clocks that begin now."""
    import shutil

    limits = {"idle": LimitSpec(60_000, "stop")}
    with daemon(tmp_path, shell("a", COUNT, limits=limits)) as place:
        first = place.running("a")
        place.kill()
        shutil.rmtree(paths.run_folder(place.state, first["run"]))
        place.start()
        assert place.running("a")["pid"] == first["pid"]


def test_a_lost_ledger_costs_no_program(tmp_path):
    """What runs is found by its folder, and written into the new ledger."""
    with daemon(tmp_path, shell("a", COUNT)) as place:
        first = place.running("a")
        place.kill()
        for file in Path(place.state).glob("ledger.sqlite3*"):
            file.unlink()
        place.start()
        assert place.running("a")["pid"] == first["pid"]
        helpers.wait_until(lambda: [run["run"] for run in place.ledger()] == [first["run"]])


def test_an_end_that_was_not_written_down_any_more_is_read_from_the_folder(tmp_path):
    """The report is there, the ledger's line is open: it is closed with the report, and the keeper forgets it."""
    import json

    with daemon(tmp_path, shell("a", "exec sleep 600")) as place:
        first = place.running("a")
        place.kill()
        os.kill(first["pid"], signal.SIGTERM)
        helpers.wait_until(lambda: not helpers.alive(first["pid"]))
        report = {
            "schema": 1,
            "run": first["run"],
            "name": "a",
            "attempt": 1,
            "termination_reason": "idle",
            "outcome": "failed",
            "exit_code": None,
            "signal": "TERM",
            "duration_ms": 5,
            "started_at": place.ledger()[0]["started_at"],
        }
        (Path(paths.run_folder(place.state, first["run"])) / "report.json").write_text(json.dumps(report))
        place.start()
        place.running("a")
        ended = next(run for run in place.ledger() if run["run"] == first["run"])
        assert (ended["termination_reason"], ended["signal"]) == ("idle", "TERM")
