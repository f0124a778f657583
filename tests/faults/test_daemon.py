"""Faults of other supervisors of resident programs, and that this one has none of them."""

import itertools
import json
import os
import random
import signal
from pathlib import Path

import pytest

import helpers
from daemons import daemon, numbers, shell
from longwatch import paths
from longwatch.core.spec import LimitSpec

SLEEP = "exec sleep 600"
COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.01; done"


@pytest.mark.fault("A7")
def test_work_moves_the_clock(tmp_path):
    """A program that goes on for many windows is never cut."""
    with daemon(tmp_path, shell("busy", COUNT, limits={"idle": LimitSpec(400, "stop")})) as place:
        first = place.running("busy")
        helpers.wait_until(lambda: len(numbers(place.logged("busy"))) > 200)
        assert place.status("busy")["run"] == first["run"]


@pytest.mark.fault("D2")
def test_one_harness_is_no_sign_of_life_of_another(tmp_path):
    """The silent one is found though its neighbour, of the same program, talks all the time."""
    limits = {"idle": LimitSpec(500, "stop")}
    with daemon(
        tmp_path,
        shell("talks", COUNT, limits=limits),
        shell("stuck", f": {COUNT}; {SLEEP}".replace("while", "until"), limits=limits, restart="no"),
    ) as place:
        talks = place.running("talks")
        helpers.wait_until(lambda: place.status("stuck")["state"] == "stopped")
        ended = next(run for run in place.ledger() if run["harness"] == "stuck")
        assert ended["termination_reason"] == "idle"
        assert place.status("talks")["run"] == talks["run"]


@pytest.mark.fault("E3")
def test_a_log_that_fails_is_read_past(tmp_path):
    """No room for the log: the program writes on, what is lost is counted and said, and the log goes on later."""
    script = f"read x < {tmp_path}/go; i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i and more of it; done; touch {tmp_path}/through; {SLEEP}"
    os.mkfifo(tmp_path / "go")
    with daemon(tmp_path, shell("a", script)) as place:
        place.running("a")
        logs = place.folder / "logs"
        logs.rename(logs.with_name("away"))
        logs.write_text("in the way")
        (tmp_path / "go").write_text("x\n")
        helpers.wait_until((tmp_path / "through").exists)
        assert place.status("a")["sources"]["stdout"]["count"]


@pytest.mark.fault("H1")
def test_a_number_that_is_anothers_by_now_is_not_touched(tmp_path):
    """After a crash of daemon and keeper the pid belongs to somebody else: that one is left alone, the run is over."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        first = place.running("a")
        keeper = place.ask("status")["daemon"]["keeper_pid"]
        place.kill()
        helpers.kill_all([keeper, first["pid"]])
        helpers.wait_until(lambda: not helpers.alive(keeper) and not helpers.alive(first["pid"]))
        with helpers.subprocess.Popen(["sleep", "600"]) as stranger:
            meta = Path(paths.run_folder(place.state, first["run"])) / "meta.json"
            told = json.loads(meta.read_text())
            meta.write_text(json.dumps({**told, "child_pid": stranger.pid}))
            place.start()
            second = place.running("a")
            assert (second["run"] != first["run"], stranger.poll()) == (True, None)
            place.down()
            assert stranger.poll() is None
            stranger.kill()


@pytest.mark.fault("I3")
def test_what_is_told_of_an_earlier_run_ends_no_later_one(tmp_path):
    """A stop of a run by its id is for that run alone."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        first = place.running("a")
        os.kill(first["pid"], signal.SIGKILL)
        second = place.until("a", state="running", attempt=2)
        with pytest.raises(Exception, match="no harness"):
            place.ask("stop", name=first["run"])
        assert place.status("a")["pid"] == second["pid"]


@pytest.mark.fault("P3")
def test_a_slow_hook_of_one_holds_up_no_other(tmp_path):
    """While the hook before a stop takes its time, and a leftover of it holds its output, the others are served."""
    hook = f"touch {tmp_path}/began; (sleep 600 &) ; sleep 600"
    slow = shell("slow", SLEEP, limits={"idle": LimitSpec(200, "stop")}, before_stop=hook, restart="no")
    with daemon(tmp_path, slow, shell("other", SLEEP)) as place:
        helpers.wait_until((tmp_path / "began").exists)
        place.running("other")
        assert place.ask("restart", name="other")["state"] == "running"
        assert place.status("slow")["state"] == "running"
        assert place.ask("stop", name="slow")["state"] == "stopped"
        place.kill()
        # What a killed daemon's own commands were doing is ended by the next one.
        place.start()
        place.running("other")
        helpers.wait_until(
            lambda: (
                not [
                    pid for pid in helpers.all_pids() if str(tmp_path / "began") in helpers.command_line(pid)
                ]
            )
        )


@pytest.mark.fault("P4")
def test_each_end_has_its_own_reason(tmp_path):
    """A stall, a limit of time, a stop by hand, a kill by somebody and an exit are five things."""
    limit = LimitSpec
    ends = [
        shell("idle", SLEEP, limits={"idle": limit(300, "stop")}, restart="no"),
        shell("stalled", SLEEP, limits={"stall": limit(300, "stop")}, restart="no"),
        shell("time", SLEEP, limits={"timeout": limit(300, "stop")}, restart="no"),
        shell("killed", "kill -9 $$", restart="no"),
        shell("exits", "exit 143", restart="no"),
        shell("hand", SLEEP, restart="no"),
    ]
    with daemon(tmp_path, *ends) as place:
        place.running("hand")
        place.ask("stop", name="hand")
        helpers.wait_until(lambda: len([run for run in place.ledger() if run["outcome"] != "running"]) == 6)
        found = {run["harness"]: (run["termination_reason"], run["outcome"]) for run in place.ledger()}
        assert found == {
            "idle": ("idle", "failed"),
            "stalled": ("stalled", "stalled"),
            "time": ("timeout", "timed_out"),
            "killed": ("signaled", "failed"),
            "exits": ("exited", "failed"),
            "hand": ("cancelled", "cancelled"),
        }


@pytest.mark.fault("G2")
def test_what_survives_a_kill_has_no_second_copy(tmp_path, monkeypatch):
    """A tree that does not go is told as unkillable; nothing is started beside it, and the end of the daemon names it."""
    from longwatch.core.harness import Harness
    from longwatch.daemon.parts import DaemonParts
    from longwatch.daemon.supervisor import Supervisor
    from longwatch.posix.tree import Tree
    from longwatch.runtime.host import Host
    from longwatch.runtime.running import Parts

    immortal = lambda tree, patience=0: [f"{tree.leader.pid} sleep"]  # noqa: E731
    monkeypatch.setattr("longwatch.core.ending.KILL_WAIT", 200)
    host, heard = Host(), []
    supervisor = Supervisor(
        host,
        DaemonParts(Parts(paths.state())),
        config="x",
        folder=str(tmp_path),
        sockets=paths.ensure(str(tmp_path / "k")),
        state=paths.state(),
        log=lambda text: None,
    )
    supervisor.subscribe(heard.append)
    service = supervisor.add(Harness("a", ("sleep", "600"), cwd="/tmp", grace=100))
    supervisor.begin()

    def until(true):
        helpers.wait_until(lambda: host.turn(20) or true(), 10)

    until(lambda: service.machine.state == "running")
    pid = service.running.child.pid
    with monkeypatch.context() as patch:
        patch.setattr(Tree, "kill", immortal)
        patch.setattr(Tree, "signal", lambda tree, signum: None)
        from longwatch.core.service_words import RestartAsked

        service.tell(RestartAsked("somebody"))
        until(lambda: any(fact.name == "unkillable" for fact in heard))
        assert (service.machine.state, service.running is not None) == ("stopping", True)
        assert [fact.name for fact in heard].count("run_opened") == 1
    os.kill(pid, signal.SIGKILL)
    until(lambda: [fact.name for fact in heard].count("run_opened") == 2)
    supervisor.stop_all()
    until(lambda: not supervisor.alive)
    assert supervisor.stop_keeper() == []
    host.close()


@pytest.mark.soak
@pytest.mark.capability("NEW-16")
@pytest.mark.timeout(600)
def test_two_hundred_kills_of_a_daemon_with_ten_chatty_harnesses(tmp_path):
    """Whenever it is killed: no line lost, no run lost or doubled, no second copy, nothing left, the ledger loads."""
    mark, drawn = f"soak{os.getpid()}", random.Random(16)
    chatty = [
        shell(
            f"h{i}",
            f": {mark}; {COUNT}".replace("0.01", f"0.0{1 + i % 5}"),
            pty=i % 4 == 1,
            log={"max": 64 << 10, "keep": 1000},
        )
        for i in range(10)
    ]
    with daemon(tmp_path, *chatty, start=False) as place:
        for turn in range(200):
            process, ready = place.begin()
            if turn % 3:
                with os.fdopen(ready) as file:
                    file.readline()
            else:
                os.close(ready)
            helpers.time.sleep(drawn.random() * 0.4)
            process.kill()
            process.wait()
            # The ledger loads, and has each harness running once.
            running = [run["harness"] for run in place.ledger() if run["outcome"] == "running"]
            assert len(running) == len(set(running)), (turn, running)
        place.start()
        pids = [place.running(each.name)["pid"] for each in chatty]
        found = [pid for pid in helpers.all_pids() if mark in helpers.command_line(pid) and helpers.stat(pid)]
        assert sorted(found) == sorted(pids)
        assert place.down()["survivors"] == []
        assert not any(helpers.alive(pid) for pid in pids)
        runs = place.ledger()
        assert not [run for run in runs if run["outcome"] == "running"]
        for each in chatty:
            seen = numbers(place.logged(each.name))
            began = [run for run in runs if run["harness"] == each.name]
            gaps = [after for before, after in itertools.pairwise(seen) if after not in (before + 1, 1)]
            assert (gaps, seen.count(1)) == (
                [],
                len([run for run in began if run["outcome"] != "interrupted"]),
            ), each.name
