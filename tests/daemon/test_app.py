"""The daemon as a whole: how it begins, what signals mean to it, what a reload does and does not do, how it ends."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

import helpers
from daemons import Refused, daemon, shell
from longwatch.core.spec import LimitSpec

SLEEP = "exec sleep 600"
#: What a supervisor of harnesses has no use for, and would pay for in memory.
HEAVY = (
    "pydantic",
    "click",
    "asyncio",
    "fastapi",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "apprise",
    "structlog",
)


def test_the_supervisor_loads_no_web_stack_and_no_models():
    """Everything it needs is loaded when it starts, and none of what its other processes are made of."""
    script = "import sys, longwatch.daemon.__main__; print(' '.join(sorted(sys.modules)))"
    loaded = helpers.run_command([sys.executable, "-c", script], measured=False).out.split()
    assert "longwatch.daemon.supervisor" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.capability("CAP-118")
def test_ctrl_c_stops_everything_proven(tmp_path):
    """INT ends all trees, the keeper and the daemon; whether each is wanted stays as it was."""
    leaves = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' &) ; exec sleep 600"
    with daemon(tmp_path, shell("a", leaves), shell("b", SLEEP)) as place:
        pids = [place.running(name)["pid"] for name in ("a", "b")]
        keeper = place.ask("status")["daemon"]["keeper_pid"]
        assert place.kill(signal.SIGINT) == 0
        assert not any(helpers.alive(pid) for pid in (*pids, keeper))
        runs = place.ledger()
        assert {(run["outcome"], run["origin"]) for run in runs} == {("cancelled", "shutdown")}
        place.start()
        assert place.running("a")["intent"]


def test_down_answers_what_it_stopped(tmp_path):
    """`down` ends all, and says so before the daemon goes."""
    with daemon(tmp_path, shell("a", SLEEP), shell("off", SLEEP, enabled=False)) as place:
        place.running("a")
        answer = place.down()
        assert answer == {"stopped": ["a"], "kept": [], "survivors": []}


def test_down_can_keep_what_runs(tmp_path):
    """`down --keep` ends the daemon alone."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        pid = place.running("a")["pid"]
        process = place.process
        assert place.ask("down", keep=True)["kept"] == ["a"]
        assert process.wait(10) == 0
        place.process = None
        assert helpers.alive(pid)
        place.start()
        assert place.running("a")["pid"] == pid


def test_a_place_that_becomes_free_is_taken(tmp_path):
    """With room for one harness at once the next is held back, and starts by itself when the first is over."""
    with daemon(tmp_path, shell("a", SLEEP), shell("b", SLEEP), daemon={"max_concurrent": 1}) as place:
        helpers.wait_until(lambda: any(one["state"] == "running" for one in place.ask("status")["harnesses"]))
        first, second = sorted(("a", "b"), key=lambda name: place.status(name)["state"] != "running")
        assert [hold["kind"] for hold in place.status(second)["holds"]] == ["slots"]
        place.ask("stop", name=first)
        assert place.running(second)["holds"] == []
        place.until(first, state="stopped")


def test_a_file_with_errors_starts_nothing(tmp_path):
    """All errors are said, and the status says that it is the file."""
    with daemon(tmp_path, shell("a", SLEEP), start=False) as place:
        errors = [
            {"file": "x.toml", "line": 3, "column": 1, "message": "no such key"},
            {"file": "x.toml", "line": 0, "message": "bad"},
        ]
        place.config.write_text(json.dumps({"errors": errors}))
        told = place.start()
        assert told == {"error": "x.toml:3:1: no such key\nx.toml: bad", "status": 2}


def test_it_takes_as_many_descriptors_as_there_may_be(tmp_path):
    """The soft limit is raised to the hard one, for the daemon and not for what it starts."""
    with daemon(tmp_path, shell("a", f"ulimit -Sn > {tmp_path}/soft; {SLEEP}")) as place:
        place.running("a")
        soft, hard = resource.prlimit(place.process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard


@pytest.mark.fault("L1")
def test_a_daemon_that_was_stopped_notices_and_blames_nobody(tmp_path):
    """SIGSTOP for longer than a window: it says that it was late, and stops no harness for a silence nobody watched."""
    quiet = shell("quiet", f"echo line 1; {SLEEP}", limits={"idle": LimitSpec(1_500, "stop")})
    with daemon(tmp_path, quiet) as place:
        first = place.until("quiet", state="running", progress_source="stdout")
        os.kill(place.process.pid, signal.SIGSTOP)
        helpers.time.sleep(2.7)
        os.kill(place.process.pid, signal.SIGCONT)
        assert place.status("quiet")["run"] == first["run"]
        late = helpers.wait_until(lambda: place.facts("tick_late"))
        assert late[0]["span"] > 1_000
        assert place.ask("status")["daemon"]["tick_late_ms"] >= late[0]["span"]
        place.until("quiet", attempt=2)
        assert place.ledger()[0]["termination_reason"] == "idle"


def test_what_is_shown_is_what_will_happen(tmp_path):
    """A limit that restarts says so, a schedule that is off has no next time, and the last run names its limit."""
    stalls = shell("a", SLEEP, limits={"stall": LimitSpec(60_000, "stop")}, revive=("stall",))
    fires = shell("b", "true", kind="scheduled", schedule=("0 2 * * *",))
    ends = shell("c", SLEEP, limits={"idle": LimitSpec(50, "stop")}, restart="no")
    with daemon(tmp_path, stalls, fires, ends) as place:
        assert place.status("a")["limits"]["stall"]["action"] == "restart"
        place.until("a", state="running")
        assert place.ask("start", name="a")["ran"] is True
        assert place.status("b")["next_due"]
        place.ask("stop", name="b")
        assert place.status("b")["next_due"] is None
        last = helpers.wait_until(lambda: place.status("c")["last_run"])
        assert last["limit"]["name"] == "idle"
        assert "ran" not in place.ask("start", name="c")


def test_a_reload_applies_limits_at_once(tmp_path):
    """Changed limits hold for what runs, without another process; HUP says the same as the verb."""
    with daemon(tmp_path, shell("a", f"echo line 1; {SLEEP}")) as place:
        first = place.until("a", state="running", progress_source="stdout")
        place.define(shell("a", f"echo line 1; {SLEEP}", limits={"idle": LimitSpec(60_000, "stop")}))
        assert place.ask("reload", dry_run=True)["applied"] == ["a"]
        assert place.status("a")["limits"] == {}
        os.kill(place.process.pid, signal.SIGHUP)
        stands = helpers.wait_until(lambda: (s := place.status("a"))["limits"] and s)
        assert (stands["pid"], stands["pending_restart"]) == (first["pid"], False)
        assert 0 < stands["limits"]["idle"]["left_ms"] <= 60_000
        place.define(shell("a", f"echo line 1; {SLEEP}", limits={"idle": LimitSpec(10, "stop")}))
        place.ask("reload")
        place.until("a", attempt=2)


def test_a_line_that_moved_is_no_change(tmp_path):
    """What only stands elsewhere in the file is not told as applied; where it stands now is shown."""
    limits = {"idle": LimitSpec(60_000, "stop")}
    with daemon(tmp_path, shell("a", SLEEP, limits=limits, setters={"idle": "x.toml:3"})) as place:
        place.running("a")
        place.define(shell("a", SLEEP, limits=limits, setters={"idle": "x.toml:4"}))
        assert place.ask("reload")["applied"] == []
        assert place.status("a")["limits"]["idle"]["by"] == "x.toml:4"


def test_a_reload_never_restarts_by_itself(tmp_path):
    """A changed command waits for a restart, says so, survives the daemon, and is applied on request."""
    with daemon(tmp_path, shell("a", SLEEP), shell("b", SLEEP)) as place:
        first = place.running("a")
        place.define(shell("a", "exec sleep 601"), shell("b", SLEEP))
        answer = place.ask("reload")
        assert (answer["applied"], answer["pending"], answer["restarted"]) == (["a"], ["a"], [])
        assert place.status("a")["pending_restart"]
        assert not place.status("b")["pending_restart"]
        place.kill()
        place.start()
        assert place.running("a")["pending_restart"]
        answer = place.ask("reload", restart=True)
        assert answer["restarted"] == ["a"]
        second = helpers.wait_until(
            lambda: (s := place.status("a"))["state"] == "running" and s["pid"] != first["pid"] and s
        )
        assert not second["pending_restart"]
        assert "sleep 601" in helpers.command_line(second["pid"])


def test_a_harness_that_is_gone_from_the_file_runs_on_named(tmp_path):
    """Removed is not ended: it runs on until it is pruned, also under the next daemon; new ones start."""
    with daemon(tmp_path, shell("old", SLEEP)) as place:
        pid = place.running("old")["pid"]
        place.define(shell("new", SLEEP))
        answer = place.ask("reload")
        assert (answer["removed"], answer["added"], answer["pruned"]) == (["old"], ["new"], [])
        place.running("new")
        assert place.status("old")["pid"] == pid
        assert place.ask("status")["daemon"]["removed"] == ["old"]
        place.kill()
        place.start()
        assert place.running("old")["pid"] == pid
        assert place.ask("status")["daemon"]["removed"] == ["old"]
        assert place.ask("reload", prune=True)["pruned"] == ["old"]
        helpers.wait_until(lambda: not helpers.alive(pid))
        helpers.wait_until(lambda: [each["name"] for each in place.ask("status")["harnesses"]] == ["new"])


def test_a_file_that_got_broken_changes_nothing(tmp_path):
    """All runs as before, and the errors are answered."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        pid = place.running("a")["pid"]
        place.config.write_text(
            json.dumps({"errors": [{"file": "x", "line": 1, "column": 2, "message": "no"}]})
        )
        answer = place.ask("reload", restart=True, prune=True)
        assert [error["message"] for error in answer["errors"]] == ["no"]
        assert answer["applied"] == answer["removed"] == []
        assert place.running("a")["pid"] == pid
        assert place.facts("reloaded")[-1]["errors"] == ["x:1:2: no"]


def test_what_is_asked_of_a_name_that_is_not_there_names_the_nearest(tmp_path):
    """A typo costs nothing and is answered with what was meant."""
    with daemon(tmp_path, shell("worker", SLEEP)) as place:
        with pytest.raises(Refused, match=r"no harness workr; did you mean worker\?"):
            place.ask("stop", name="workr")
        with pytest.raises(Refused, match="no such request"):
            place.ask("explode")


def test_intent_outlives_the_daemon(tmp_path):
    """What was stopped stays stopped, what runs is started again after a crash of everything."""
    with daemon(tmp_path, shell("a", SLEEP), shell("b", SLEEP)) as place:
        place.running("a")
        place.running("b")
        assert place.ask("stop", name="a")["state"] == "stopped"
        place.down()
        place.start()
        place.running("b")
        assert (place.status("a")["state"], place.status("a")["intent"]) == ("stopped", False)
        place.ask("start", name="a")
        place.running("a")


@pytest.mark.fault("R2")
def test_a_damaged_memory_is_set_aside_and_said(tmp_path):
    """A torn intent file costs no start; it is kept, and status says where."""
    with daemon(tmp_path, shell("a", SLEEP), start=False) as place:
        place.folder.mkdir(parents=True)
        (place.folder / "intent.json").write_text('{"a": {"ena')
        place.start()
        place.running("a")
        assert any(
            "intent.json" in problem and "set aside" in problem
            for problem in place.ask("status")["daemon"]["problems"]
        )
        assert (place.folder / "intent.json.damaged-1").read_text() == '{"a": {"ena'


ASKS = """
import json, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    s.sendall(json.dumps(dict(op=sys.argv[2], name=sys.argv[3])).encode() + b"\\n")
    print(s.makefile().readline().strip())
"""


def test_who_is_inside_may_read_and_restart_itself_no_more(tmp_path):
    """A program of a harness that sheds its session and its environment is still known for what it is."""
    script = tmp_path / "asks.py"
    script.write_text(ASKS)
    inner = f"""
        ask() {{ env -i setsid {sys.executable} {script} "$SOCK" "$@"; }}
        ask status a; ask stop b; ask down b; ask stop a; echo done; exec sleep 600
    """
    with daemon(tmp_path, shell("b", SLEEP), start=False) as place:
        told = {"SOCK": str(place.sockets / "api.sock"), "PATH": os.environ["PATH"]}
        outer = inner.replace("ask status a; ask stop b; ask down b; ask stop a", "ask stop b")
        place.define(
            shell("a", inner, env=told),
            shell("b", SLEEP),
            shell("c", outer, env=told, allow_control=True, enabled=False),
        )
        place.start()
        helpers.wait_until(lambda: "done" in place.logged("a"))
        answers = [json.loads(line) for line in place.logged("a").splitlines() if line.startswith("{")]
        assert "ok" in answers[0]
        assert [answer["error"]["kind"] for answer in answers[1:]] == ["refused"] * 3
        assert "may read, and restart itself" in answers[1]["error"]["text"]
        assert place.running("b")
        place.ask("start", name="c")
        place.until("b", state="stopped")


def test_a_restart_from_inside_goes_through_the_budget(tmp_path):
    """A harness may restart itself; each time counts."""
    script = tmp_path / "asks.py"
    script.write_text(ASKS)
    inner = f'{sys.executable} {script} "$SOCK" restart a; exec sleep 600'
    with daemon(tmp_path, start=False) as place:
        place.define(shell("a", inner, env={"SOCK": str(place.sockets / "api.sock")}, intensity=2))
        place.start()
        place.until("a", state="failed", gave_up="intensity")


def test_a_slow_subscriber_is_nobodys_trouble(tmp_path):
    """One who listens and raises is dropped; facts go on."""
    from longwatch.core.facts import RunStarted
    from longwatch.daemon.parts import DaemonParts
    from longwatch.daemon.supervisor import Supervisor
    from longwatch.runtime.host import Host
    from longwatch.runtime.running import Parts

    said: list[str] = []
    heard: list[object] = []
    host = Host()
    supervisor = Supervisor(
        host,
        DaemonParts(Parts(str(tmp_path))),
        config="x",
        folder=str(tmp_path),
        sockets=str(tmp_path),
        state=str(tmp_path),
        log=said.append,
    )
    supervisor.subscribe(lambda fact: 1 / 0)
    supervisor.subscribe(heard.append)
    supervisor.publish(RunStarted(1))
    supervisor.publish(RunStarted(2))
    assert [fact.at for fact in heard] == [1, 2]
    assert sum("ZeroDivisionError" in line for line in said) == 1
    host.close()


def test_bad_words_to_the_daemon_are_told():
    """Its own flags are few; a wrong one is said in a line."""
    done = subprocess.run(
        [sys.executable, "-m", "longwatch.daemon", "--conf", "x"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("longwatch.daemon: --conf:")
