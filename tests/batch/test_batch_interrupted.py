"""A batch that is ended, killed or asked: what runs of it, what is left of it, and that nothing is done twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers
from batches import Plan, called, sh
from longwatch.posix.identity import identity
from longwatch.runtime import scope
from longwatch.runtime.kept import Keeper

pytestmark = pytest.mark.long

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def keeper_of(plan: Plan) -> Keeper:
    """Become the master of the keeper that a killed batch has left."""
    return Keeper.connect(str(plan.base / "keeper.sock"))


@pytest.mark.capability("CAP-51")
@pytest.mark.fault("G7")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_it_so_that_it_can_be_resumed(tmp_path: Path, signum: int) -> None:
    """TERM, five seconds at most, KILL: nothing of the trees is left, all can go on, and we end by the signal itself."""
    plan = Plan(
        tmp_path,
        sh("soft", "echo up; exec sleep 60"),
        sh("after", "exit 0", needs=["soft"]),
        jobs=2,
        name="ended",
    )
    with plan.start() as live:
        live.until_log("soft", "up")
        live.send(signum)
        done = live.finish()
        assert live.kept() == []
    assert done.code == -signum
    assert "stopping what runs; it can be resumed. Once more kills at once" in done.err
    assert "--resume goes on with 2 of 2" in done.out
    assert plan.lifecycles() == {"soft": "interrupted_resumable", "after": "pending"}
    assert plan.item("after")["left_out"] == "needs soft"


@pytest.mark.capability("CAP-51")
@pytest.mark.fault("G7")
def test_who_ignores_it_is_killed(tmp_path: Path) -> None:
    """After five seconds, whatever its own grace; a second signal does not wait for that."""
    plan = Plan(tmp_path, sh("deaf", STUBBORN, kill_after="60s"))
    with plan.start() as live:
        live.until_log("deaf", "up")
        live.send()
        live.until(lambda: "stopping what runs" in live.err)
        live.send()
        done = live.finish(4)
        assert live.kept() == []
    assert done.code == -signal.SIGINT
    assert "killing what runs" in done.err
    assert plan.state("deaf")["lifecycle"] == "interrupted_resumable"


def test_the_grace_of_an_interrupt() -> None:
    """Five seconds: a CI service leaves about ten in all."""
    from longwatch.runtime.batch import INTERRUPT_GRACE

    assert INTERRUPT_GRACE == 5_000


@pytest.mark.capability("CAP-45", "CAP-50")
def test_a_killed_batch_is_taken_up_where_it_was(tmp_path: Path) -> None:
    """Its items run on below the keeper; the next one follows them to their end, and starts none of them again."""
    script = "echo begun; while ! test -e go; do sleep 0.05; done; echo over"
    plan = Plan(tmp_path, sh("a", script, cwd=str(tmp_path)), sh("b", "echo b", needs=["a"]))
    with plan.start() as live:
        live.until_log("a", "begun")
        live.kill()
        assert len(live.kept()) >= 1
        again = plan.start("--resume")
        again.until(lambda: "a: found running, and followed again" in again.err)
        (tmp_path / "go").touch()
        assert again.finish().code == 0
    assert plan.said("a") == ["begun", "over"]
    assert plan.said("b") == ["b"]
    assert plan.state("a")["attempt"] == 1


def test_who_ended_while_nobody_looked_is_not_run_again(tmp_path: Path) -> None:
    """The keeper knows how: its exit status and its last words are still there."""
    plan = Plan(
        tmp_path,
        sh("a", "echo begun; while ! test -e go; do sleep 0.05; done; echo last; exit 7", cwd=str(tmp_path)),
    )
    with plan.start() as live:
        live.until_log("a", "begun")
        live.kill()
        (tmp_path / "go").touch()
        live.until(lambda: live.kept() == [])
        assert plan.run("--resume").code == 1
    state = plan.state("a")
    assert (state["attempt"], state["lifecycle"], state["exit_code"]) == (1, "failed_terminal", 7)
    assert plan.said("a") == ["begun", "last"]


@pytest.mark.fault("F7")
@pytest.mark.capability("CAP-49")
def test_what_nobody_holds_any_more_is_gone_before_it_is_begun_again(tmp_path: Path) -> None:
    """Batch and keeper are killed; a leftover that ignores TERM holds a lock: the second attempt has it at its first line."""
    lock = tmp_path / "lock"
    script = (
        f"flock -n {lock} -c \"trap '' TERM HUP; echo up; while :; do sleep 0.1; done\" || echo locked out"
    )
    second = f"test $LONGWATCH_ATTEMPT = 1 || exec flock -n {lock} -c 'echo mine'; "
    plan = Plan(tmp_path, sh("a", second + script))
    with plan.start() as live:
        live.until_log("a", "up")
        live.until(lambda: plan.state("a").get("pid"))
        live.kill()
        with keeper_of(plan) as keeper:
            os.kill(keeper.pid, signal.SIGKILL)
        assert live.kept()
        done = plan.run("--resume")
    assert done.code == 0, done.err
    assert plan.said("a")[-1] == "mine"
    assert plan.state("a")["attempt"] == 2


@pytest.mark.fault("F7")
def test_a_second_try_begins_when_the_tree_of_the_first_is_gone(tmp_path: Path) -> None:
    """A grandchild in a session of its own holds a lock and ignores TERM: the next try can take the lock at once."""
    lock = tmp_path / "lock"
    hold = f"setsid flock -n {lock} -c \"trap '' TERM HUP; touch {tmp_path}/held; while :; do sleep 0.1; done\" & "
    script = f"flock -n {lock} -c 'echo mine' || echo locked; {hold} while ! test -e {tmp_path}/held; do sleep 0.02; done; exit 1"
    plan = Plan(tmp_path, sh("a", script, retries=1))
    plan.run()
    assert plan.said("a") == ["mine", "mine"]


def test_a_keeper_that_dies_is_replaced(tmp_path: Path) -> None:
    """What it held runs on and is followed to its end, and the rest of the plan is started by a new one."""
    script = "echo up; while ! test -e go; do sleep 0.05; done; echo over"
    plan = Plan(tmp_path, sh("a", script, cwd=str(tmp_path)), sh("b", "echo b", needs=["a"]))
    with plan.start() as live:
        live.until_log("a", "up")
        _, keeper = helpers.stat(live.until(lambda: plan.state("a").get("pid"))) or ("", 0)
        os.kill(keeper, signal.SIGKILL)
        (tmp_path / "go").touch()
        done = live.finish()
    assert done.code == 0
    assert "the keeper is gone; a new one is started" in done.err
    assert (plan.said("a"), plan.said("b")) == (["up", "over"], ["b"])


# Asked from outside


@pytest.mark.capability("CAP-54")
def test_one_item_is_stopped_and_goes_on(tmp_path: Path) -> None:
    """Stop PLAN/ITEM ends it with its tree, the others run on; start PLAN/ITEM resumes it in the same batch."""
    wait = "echo attempt $LONGWATCH_ATTEMPT; while ! test -e go; do sleep 0.05; done"
    plan = Plan(tmp_path, sh("a", wait, cwd=str(tmp_path)), sh("b", wait, cwd=str(tmp_path)), name="asked")
    with plan.start() as live:
        live.until_log("a", "attempt")
        live.until_log("b", "attempt")
        done = called(tmp_path, "stop", "asked/a", "-k", "100ms")
        assert done.code == 0, done.err
        assert done.out.startswith("asked/a: stopped, over in ")
        state = plan.state("a")
        assert (state["lifecycle"], state["reason"]) == ("interrupted_resumable", "cancelled")
        assert called(tmp_path, "stop", "asked/a").code == 1
        assert plan.state("b")["lifecycle"] == "running"
        done = called(tmp_path, "start", f"{plan.path}/a")
        assert done.code == 0, done.err
        assert done.out.startswith("asked/a: started as a-")
        live.until_log("a", "attempt 2")
        assert called(tmp_path, "start", "asked/a").code == 1
        (tmp_path / "go").touch()
        assert live.finish().code == 0
    assert plan.lifecycles() == {"a": "completed", "b": "completed"}


def test_an_item_is_run_again_when_no_batch_runs(tmp_path: Path) -> None:
    """Start PLAN/ITEM runs it here, alone; stop says that it does not run."""
    plan = Plan(tmp_path, sh("a", "echo a"), sh("b", "echo b"), name="quiet")
    plan.run()
    assert called(tmp_path, "start", "quiet/b").code == 0
    assert (plan.said("a"), plan.said("b")) == (["a"], ["b", "b"])
    done = called(tmp_path, "stop", "quiet/b")
    assert (done.code, done.err) == (1, "longwatch: quiet/b does not run: it is completed\n")
    done = called(tmp_path, "start", "quiet/cc")
    assert (done.code, done.err) == (4, f"longwatch: no item cc of {plan.path} was begun\n")


def test_verbs_know_items_of_plans(tmp_path: Path) -> None:
    """Ls shows PLAN/ITEM of what runs, why tells of its newest run, logs shows its whole log."""
    plan = Plan(
        tmp_path,
        sh("a", "echo up; exec sleep 60"),
        sh("b", "exit 3"),
        {"id": "c", "command": ["nope"]},
        name="known",
    )
    with plan.start() as live:
        live.until_log("a", "up")
        listed = live.until(lambda: json.loads(called(tmp_path, "ls", "--json").out)["runs"])
        assert [(run["item"], run["name"]) for run in listed] == [("known/a", "a")]
        assert called(tmp_path, "ls").out.splitlines()[1].startswith("known/a ")
        assert json.loads(called(tmp_path, "why", "known/a", "--json").out)["live"] is True
        assert "up" in called(tmp_path, "logs", "known/a").out
        # A run of a batch is stopped as the item that it is: the batch itself is nobody's to signal for it.
        run = plan.state("a")["run"]
        assert called(tmp_path, "stop", run).code == 0
        live.finish()
    assert plan.state("a")["lifecycle"] == "interrupted_resumable"
    why = called(tmp_path, "why", "known/b")
    assert "failed by itself with exit status 3" in why.out
    assert "nope: not found" in called(tmp_path, "why", "known/c").out
    logs = called(tmp_path, "logs", plan.state("a")["run"])
    assert logs.out.splitlines()[1] == "up"


def test_from_inside_only_oneself_is_stopped(tmp_path: Path) -> None:
    """An item may end itself, no other one."""
    plan = Plan(
        tmp_path,
        sh("a", "sleep 0.4"),
        sh("b", f"{helpers.LONGWATCH} stop inner/a; {helpers.LONGWATCH} start inner/a; exit 0"),
        name="inner",
    )
    assert plan.run().code == 0
    assert sum("nothing else may be started or stopped" in line for line in plan.said("b")) == 2


# Who may be signalled


def noted(process: "subprocess.Popen[bytes]", **changes: Any) -> dict[str, Any]:
    """Return what a state file says of a process that carries the mark of a run, once it does."""
    found = identity(process.pid)
    assert found is not None
    environ = Path(f"/proc/{process.pid}/environ")
    helpers.wait_until(lambda: helpers.MARKER.encode() in environ.read_bytes())
    return {"pid": process.pid, "start": found.start, "boot": found.boot, "mark": "item-abcdef", **changes}


@contextlib.contextmanager
def running(*argv: str, **env: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program, which is gone at the end of the block."""
    with subprocess.Popen(argv, env={**os.environ, **env}) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.capability("CAP-49")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pid": None}, scope.MISSING), ({"start": None}, scope.MISSING), ({"boot": "other"}, scope.STALE),
        ({"start": 1}, scope.REUSED), ({"mark": "other-abcdef"}, scope.MISMATCH),
    ],
)  # fmt: skip
def test_who_is_not_surely_ours_is_not_signalled(changes: dict[str, Any], expected: str) -> None:
    """Nobody written down, another boot, another process of that pid, another run: the verdict says so; it lives."""
    with running("sleep", "60", LONGWATCH_RUN_ID="item-abcdef") as process:
        note = noted(process, **changes)
        assert scope.verdict(note) == expected
        # What carries the mark of the run itself may be ended without any note.
        assert scope.sweep({**note, "mark": "other-abcdef"}) == []
        assert helpers.alive(process.pid)


@pytest.mark.capability("CAP-49")
def test_a_stranger_with_the_pid_of_an_item_is_left_alone() -> None:
    """It carries no mark: whatever the note says of it, it lives; one that ended is dead."""
    with running("sleep", "60") as stranger:
        for changes in ({"start": 1}, {}, {"pid": None}, {"boot": "other"}, {"mark": None}):
            assert scope.sweep(noted(stranger, **changes)) == []
            assert helpers.alive(stranger.pid)
        note = noted(stranger)
        stranger.kill()
        helpers.wait_until(lambda: not helpers.alive(stranger.pid))
        assert scope.verdict(note) == scope.DEAD


@pytest.mark.capability("CAP-49", "CAP-50")
def test_who_is_ours_is_ended_however_old_the_note() -> None:
    """Its pid, its start, its boot and its mark are what was written down: it is swept, with what it started."""
    mark = "outer-123456/item-abcdef"
    with running("sh", "-c", "setsid sleep 60 & wait", LONGWATCH_RUN_ID=mark) as process:
        note = noted(process, mark=mark, created_at="2001-01-01T00:00:00Z")
        assert scope.verdict(note) == scope.OURS
        assert scope.sweep(note) == []
        assert process.wait(5) == -signal.SIGKILL


# Many items, killed at a random moment


def many(folder: Path, good: int, failing: int, hanging: int) -> Plan:
    """Return a plan of short items; each notes in a file of its own that it has ended."""
    ran = folder / "ran"
    ran.mkdir()
    items = []
    for number in range(good + failing + hanging):
        name = f"i{number}"
        if number % 20 == 3 and hanging:
            hanging -= 1
            items.append(sh(name, "exec sleep 300", idle="700ms"))
        elif number % 10 == 7 and failing:
            failing -= 1
            items.append(sh(name, f"echo {name} >> {ran}/{name}; echo {name} is wrong; exit 9"))
        else:
            items.append(sh(name, f"sleep 0.0{number % 7}; echo {name} >> {ran}/{name}"))
    assert (failing, hanging) == (0, 0)
    return Plan(folder, *items)


def interrupted_and_resumed(folder: Path, good: int, failing: int, hanging: int) -> None:
    """Kill a batch again and again at random moments, resume it, and look at what each item has come to."""
    plan = many(folder, good, failing, hanging)
    chance = random.Random(str(folder))
    finished: dict[str, str] = {}
    with plan.start() as live:
        for _ in range(2):
            time.sleep(chance.uniform(0.4, 1.0))
            live.kill()
            now = plan.lifecycles()
            assert {name: now[name] for name in finished} == finished
            finished = {name: end for name, end in now.items() if end in ("completed", "failed_terminal")}
            live.process = plan.start("--resume", "--heartbeat", "off").process
        assert live.finish(120).code == 1
    assert Counter(plan.lifecycles().values()) == {"completed": good, "failed_terminal": failing + hanging}
    ran = [(folder / "ran" / path.name).read_text() for path in (folder / "ran").iterdir()]
    assert len(ran) == good + failing
    assert [text for text in ran if text.count("\n") != 1] == []
    reasons = Counter(
        (plan.state(name)["reason"], plan.state(name)["exit_code"]) for name in plan.lifecycles()
    )
    assert reasons == {("exited", 0): good, ("exited", 9): failing, ("idle", None): hanging}


@pytest.mark.fault("R2")
@pytest.mark.capability("CAP-43")
def test_killed_at_a_random_moment_and_resumed_nothing_is_done_twice(tmp_path: Path) -> None:
    """Forty items, four failing, two hanging: each has its right state, and none that has finished ran again."""
    interrupted_and_resumed(tmp_path, 34, 4, 2)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_same_of_two_hundred(tmp_path: Path) -> None:
    """Two hundred, twenty failing, ten hanging."""
    interrupted_and_resumed(tmp_path, 170, 20, 10)
