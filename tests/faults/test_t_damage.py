"""Stops that damage work: time to clean up, and a hook that may save or veto."""

import os
import time
from pathlib import Path

import pytest

import helpers
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now
from longwatch.posix.process import start
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch
from longwatch.posix.tree import Tree
from longwatch.runtime import hook as module
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hook import Hook
from longwatch.runtime.hosts import block
from longwatch.testing import children
from supervised import live, shell, supervise

IDLE = ("--idle", "300ms")


@pytest.mark.slow
@pytest.mark.fault("T1")
def test_three_seconds_of_clean_up_are_no_problem(tmp_path: Path) -> None:
    """A program that needs 3 s after TERM to remove its lock gets them without any flag: removed, no KILL."""
    lock = tmp_path / "index.lock"
    program = shell(
        f"touch {lock}; trap 'sleep 3; rm {lock}; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    )
    run = supervise(*IDLE, program=program)
    assert (run.code, run.reason) == (124, "idle")
    assert not lock.exists()
    assert run.report["stopped"]["how"] == "TERM"
    assert "KILL" not in run.err


@pytest.mark.fault("T1")
def test_a_kill_is_noted() -> None:
    """Where KILL was needed the last line and the report say so."""
    run = supervise(*IDLE, "-k", "200ms", program=children.ignores_term())
    assert run.report["stopped"]["how"] == "TERM, then KILL"
    assert "kill_sent" in [rung["rung"] for rung in run.report["rungs"]]
    assert "TERM, then KILL" in run.said[2]


@pytest.mark.fault("T2")
def test_a_snapshot_is_complete_before_the_first_signal(tmp_path: Path) -> None:
    """A hook that saves the work tree has finished when TERM comes, however long it took."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("110 minutes")
    hook = f"cp -r {tmp_path}/work {tmp_path}/saved; sleep 0.4; touch {tmp_path}/saved/complete"
    program = shell(
        f"trap 'test -e {tmp_path}/saved/complete && echo saved; exit 0' TERM; while :; do sleep 0.05; done"
    )
    run = supervise(*IDLE, "--before-stop", hook, program=program)
    assert (run.code, run.out) == (124, "saved\n")
    assert (tmp_path / "saved" / "file").read_text() == "110 minutes"


@pytest.mark.fault("T2")
def test_a_hook_knows_whom_it_is_called_for(tmp_path: Path) -> None:
    """A hook finds run, program and limit in its environment."""
    hook = f"echo $LONGWATCH_RUN_ID $LONGWATCH_NAME $LONGWATCH_PID $LONGWATCH_LIMIT >{tmp_path}/known"
    run = supervise(*IDLE, "--name", "job", "--before-stop", hook, program=shell("echo $$; exec sleep 60"))
    assert (tmp_path / "known").read_text().split() == [run.report["run"], "job", run.out.strip(), "idle"]


@pytest.mark.fault("T2")
def test_a_veto_gives_one_more_window_and_is_told() -> None:
    """A hook that exits 75 saves the program; its words are told, and the record has the veto."""
    hook = "echo a compiler is at work; exit 75"
    run = supervise(*IDLE, "--before-stop", hook, program=shell("sleep 0.8; echo done"))
    assert (run.code, run.out, run.reason) == (0, "done\n", "exited")
    vetoes = [rung for rung in run.report["rungs"] if rung["rung"] == "stop_averted"]
    assert next(veto["why"] for veto in vetoes) == "veto"
    assert "no output for 300ms (--idle 300ms)" in run.said[0]
    assert "vetoed it: a compiler is at work" in run.said[0]
    assert any("a compiler is at work" in note for note in run.report["notes"])


@pytest.mark.fault("T2")
def test_after_three_vetoes_the_limit_wins(tmp_path: Path) -> None:
    """A hook that always vetoes does so three times; the fourth time the program is stopped."""
    run = supervise(*IDLE, "--before-stop", f"echo x >>{tmp_path}/asked; exit 75", program=children.silent())
    assert (run.code, run.reason) == (124, "idle")
    assert (tmp_path / "asked").read_text() == "x\n" * 4
    assert run.report["idle_ms"] >= 4 * 300


@pytest.mark.fault("T2")
def test_a_limit_of_time_is_not_vetoed() -> None:
    """Nothing talks --timeout away."""
    run = supervise("--timeout", "300ms", "--before-stop", "exit 75", program=children.ticker())
    assert (run.code, run.reason) == (124, "timeout")


@pytest.mark.fault("T2")
def test_a_hook_that_fails_delays_nothing_and_is_noted() -> None:
    """Any other end of the hook goes on with the stop; the failure is told with the cause."""
    run = supervise(*IDLE, "--before-stop", "exit 3", program=children.silent())
    assert (run.code, run.reason) == (124, "idle")
    assert "the hook before the stop exited 3" in run.said[1]
    assert len(run.said) == 3


@pytest.mark.fault("T2")
def test_a_hook_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that does not end is ended with all that it started, and the stop goes on."""
    monkeypatch.setattr(module, "HOOK_LIMIT", 300)
    process = start(Launch(children.silent()), {}, Reactor())
    leader = process.child.identity
    assert leader is not None
    tree = Tree(leader, "t2", subreaper=False)
    effects = ProcessEffects(process, tree, now)
    effects.hook = Hook(effects, process.reactor, "sleep 60 & sleep 60")
    spec = Spec({"idle": LimitSpec(200, STOP)}, ("stdout", "stderr"), grace=500)
    driver = Driver(Watch(spec, process.child.started), effects)
    effects.begin()
    began = time.monotonic()
    block(driver)
    effects.end()
    assert time.monotonic() - began < 0.2 + 0.3 + 3
    assert driver.watch.ending.reason == "idle"
    assert effects.story.notes == ["the hook before the stop took longer than 60 s and was stopped"]


@pytest.mark.fault("T2")
def test_a_hook_that_nobody_needs_any_more_ends_in_order(tmp_path: Path) -> None:
    """When the program ends by itself meanwhile, the hook is asked to end, can clean up, and nothing of it stays."""
    hook = f"trap 'echo tidy >{tmp_path}/end; exit 0' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.05; done"
    program = shell(f"until [ -s {tmp_path}/pid ]; do sleep 0.02; done; exit 4")
    with live(*IDLE, "--before-stop", hook, program=program) as run:
        done = run.finish()
    assert (done.code, done.reason) == (4, "exited")
    assert (tmp_path / "end").read_text() == "tidy\n"
    assert not helpers.alive(int((tmp_path / "pid").read_text()))


@pytest.mark.fault("T2")
def test_a_work_tree_is_never_touched(tmp_path: Path) -> None:
    """After a stop the folder of the program is as it left it."""
    (tmp_path / "a").write_text("a")
    run = supervise(*IDLE, program=shell("echo b >b; sleep 60"), cwd=tmp_path)
    assert run.code == 124
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
