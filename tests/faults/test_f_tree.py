"""Ending the whole tree, and only it: whoever hides, whoever is born meanwhile, whoever ignores signals."""

import os
import subprocess
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from supervised import gone, live, numbers, python, shell, supervise

STOP = ("--idle", "300ms", "-k", "300ms")

HIDING = {
    "session": children.setsid_child(),
    "daemon": children.double_fork(),
    "background": shell("sleep 60 & echo ready $!; wait"),
    "disowned": shell("(setsid sleep 60 >/dev/null 2>&1 & echo ready $!); sleep 60"),
}


@pytest.mark.fault("F1")
@pytest.mark.parametrize("way", HIDING)
def test_nobody_hides(way: str) -> None:
    """A descendant in a session of its own, orphaned or not, does not survive the stop of its run."""
    run = supervise(*STOP, program=HIDING[way])
    assert (run.code, run.reason) == (124, "idle")
    (hidden,) = numbers(run.out)
    assert not helpers.alive(hidden)
    assert (run.report["survivors"], run.report["proof"]) == ([], "subreaper")
    assert run.said[-1].startswith("longwatch: ")
    assert "nothing left" in run.said[-1]


# Every 50 ms a sleeper in a session of its own is born, orphaned at once; whoever is told to end goes on bearing.
BEARER = python(
    "import os, signal, time",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "print('ready', flush=True)",
    "while True:",
    "    if os.fork() == 0:",
    "        os.setsid()",
    "        if os.fork() == 0: os.close(1); os.close(2); time.sleep(60)",
    "        os._exit(0)",
    "    os.wait(); time.sleep(0.05)",
)


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    "turn", [pytest.param(turn, marks=() if turn < 3 else pytest.mark.soak) for turn in range(20)]
)
def test_nobody_born_during_the_sweep_escapes(turn: int) -> None:
    """A program that bears a hidden sleeper every 50 ms, also while it is being stopped, leaves none."""
    run = supervise(*STOP, program=BEARER)
    assert (run.code, run.report["survivors"]) == (124, [])
    assert run.report["stopped"]["how"] == "TERM, then KILL"


@pytest.mark.fault("F3")
def test_the_end_of_the_leader_is_not_the_end_of_the_tree() -> None:
    """A leader that goes at the first signal does not save a grandchild that ignores it: gone after the grace."""
    run = supervise(
        *STOP, program=shell("(trap '' INT TERM; while :; do sleep 1; done) & echo $!; exec sleep 60")
    )
    assert (run.code, run.reason) == (124, "idle")
    gone(*numbers(run.out), deadline=0.1)
    assert run.report["survivors"] == []
    assert run.report["stopped"]["how"] == "TERM, then KILL"
    assert run.report["stopped"]["ms"] >= 300


@pytest.mark.fault("F3")
def test_a_chain_of_shells_is_stopped_to_its_last() -> None:
    """What npm-like wrappers start is stopped with them, without any setting."""
    run = supervise(*STOP, program=shell("sh -c 'sh -c \"sleep 60; true\"; true'; true"))
    assert (run.code, run.report["survivors"]) == (124, [])
    assert run.report["stopped"]["how"] == "TERM"
    assert len(run.report["post_mortem"]["processes"]) == 4


@pytest.mark.fault("F4")
def test_a_stop_command_runs_before_the_first_signal(tmp_path: Path) -> None:
    """A server that works for a client is told to quit by the hook, and is gone before the client gets TERM."""
    bell, seen = tmp_path / "bell", tmp_path / "seen"
    os.mkfifo(bell)
    server = subprocess.Popen(["sh", "-c", f"read word <{bell}; exit 7"])
    with helpers.ending(server):
        client = f"trap 'kill -0 {server.pid} 2>/dev/null && echo up >{seen} || echo down >{seen}; exit 0' TERM; sleep 60 & wait"
        # The server is a child of ours and stays a zombie until we reap it, so the hook waits for its state.
        hook = f"echo quit >{bell}; until grep -q '^State:.Z' /proc/{server.pid}/status; do :; done; echo told >{tmp_path}/told"
        run = supervise(*STOP, "--before-stop", hook, program=shell(client))
        assert server.wait(5) == 7
    assert (run.code, run.reason) == (124, "idle")
    assert (tmp_path / "told").read_text() == "told\n"
    assert seen.exists()


@pytest.mark.fault("F4")
def test_work_that_may_go_on_elsewhere_is_named(tmp_path: Path) -> None:
    """Stopping the client of a container says, on stderr and in the report, that the container may go on."""
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nsleep 60\n")
    client.chmod(0o755)
    run = supervise(*STOP, program=[client, "run", "image"])
    assert run.code == 124
    assert any("work may continue in a container (docker)" in note for note in run.report["notes"])
    assert "work may continue in a container" in run.said[1]
    assert len(run.said) == 3


LEAVES = shell("sleep 60 >/dev/null 2>&1 & echo $!")


@pytest.mark.fault("F6")
def test_what_a_finished_program_leaves_is_ended_and_counted() -> None:
    """A helper that outlives a clean exit is ended, told, and counted; the exit status stays the program's."""
    run = supervise("--idle", "20s", program=LEAVES)
    (helper,) = numbers(run.out)
    assert (run.code, run.reason) == (0, "exited")
    assert not helpers.alive(helper)
    assert run.report["leftovers"] == {"count": 1, "processes": [f"{helper} sleep"], "kept": False}
    assert run.said == [f"longwatch: sh: it left 1 process behind, now stopped: {helper} sleep"]


@pytest.mark.fault("F6")
def test_a_helper_may_clean_up(tmp_path: Path) -> None:
    """A leftover is asked to end before it is killed."""
    tidy, ready = tmp_path / "tidy", tmp_path / "ready"
    helper = f"trap 'echo x >{tidy}; exit 0' TERM; echo x >{ready}; while :; do sleep 0.05; done"
    run = supervise(program=shell(f"({helper}) >/dev/null 2>&1 & until [ -s {ready} ]; do sleep 0.02; done"))
    assert (run.code, run.report["survivors"]) == (0, [])
    assert tidy.read_text() == "x\n"


@pytest.mark.fault("F6")
def test_a_helper_that_ignores_term_is_ended_too() -> None:
    """A leftover that ignores TERM is killed after a second."""
    run = supervise(
        "--idle",
        "20s",
        program=shell("(trap '' TERM; while :; do sleep 1; done) >/dev/null 2>&1 & sleep 0.2"),
    )
    assert (run.code, run.report["survivors"]) == (0, [])
    assert run.seconds < 5


@pytest.mark.fault("F6")
def test_a_wanted_helper_is_kept_and_listed() -> None:
    """With --keep-leftovers the helper lives on, and the report lists it."""
    run = supervise("--keep-leftovers", program=LEAVES)
    (helper,) = numbers(run.out)
    try:
        assert helpers.alive(helper)
        assert (run.code, run.said) == (0, [])
        assert run.report["leftovers"] == {"count": 1, "processes": [f"{helper} sleep"], "kept": True}
        assert run.report["survivors"] == [f"{helper} sleep"]
    finally:
        helpers.kill_all([helper])


@pytest.mark.fault("F7")
def test_the_next_attempt_finds_the_place_empty(tmp_path: Path) -> None:
    """A grandchild that holds a lock and ignores TERM is gone when longwatch returns: the next one takes the lock."""
    lock = tmp_path / "lock"
    lock.touch()
    hold = f"exec 9<{lock}; flock -n 9 || exit 9; (trap '' TERM; while :; do sleep 1; done) & echo held; wait"
    first = supervise(*STOP, program=shell(hold))
    assert (first.code, first.out) == (124, "held\n")
    second = supervise("--idle", "20s", program=shell(f"exec 9<{lock}; flock -n 9 && echo mine"))
    assert (second.code, second.out) == (0, "mine\n")


# All at once: a session, a daemon, somebody who ignores TERM, and a storm of forks.
WILD = python(
    "import os, signal, time",
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "end = time.monotonic() + 20",
    "if os.fork() == 0: os.setsid(); time.sleep(20); os._exit(0)",
    "if os.fork() == 0:",
    "    os.setsid()",
    "    if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(20)",
    "    os._exit(0)",
    "for chain in range(3):",
    "    if os.fork() == 0:",
    "        signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "        while time.monotonic() < end:",
    "            if os.fork(): os._exit(0)",
    "            time.sleep(0.002)",
    "        os._exit(0)",
    "print('ready', flush=True); time.sleep(20)",
)


@pytest.mark.slow
@pytest.mark.capability("NEW-4")
@pytest.mark.parametrize(
    "turn", [pytest.param(turn, marks=() if turn < 10 else pytest.mark.soak) for turn in range(100)]
)
def test_nothing_survives_and_the_report_says_so(turn: int) -> None:
    """A tree with a session, a daemon, a deaf one and a fork storm is gone when longwatch returns, every time."""
    run = supervise("--idle", "300ms", "-k", "200ms", program=WILD)
    assert (run.code, run.out, run.reason) == (124, "ready\n", "idle")
    assert run.report["survivors"] == []
    assert run.report["stopped"]["how"] == "TERM, then KILL"
    assert not helpers.processes_with(f"LONGWATCH_RUN_ID={run.report['run']}")


@pytest.mark.fault("F1")
def test_a_stranger_is_left_alone(tmp_path: Path) -> None:
    """A process beside the run, a child that longwatch had before it among them, is not the run's to end."""
    with helpers.ending(subprocess.Popen(["sleep", "60"])) as beside:
        script = f"sleep 60 >/dev/null 2>&1 & echo $! >{tmp_path}/before; exec {helpers.LONGWATCH} run --idle 300ms sleep 60"
        done = helpers.run_command(["sh", "-c", script])
        (before,) = numbers((tmp_path / "before").read_text())
        try:
            assert done.code == 124
            assert beside.poll() is None
            assert helpers.alive(before)
        finally:
            helpers.kill_all([before])


@pytest.mark.fault("F3")
def test_told_to_stop_the_whole_tree_goes() -> None:
    """The same holds when longwatch is told to stop: the deaf grandchild goes after the grace."""
    script = "(trap '' INT TERM; echo up; while :; do sleep 1; done) & wait"
    with live("-k", "300ms", program=shell(script)) as run:
        run.wait_for("up")
        tree = run.tree()
        run.send(15)
        done = run.finish()
    assert done.code == -15
    gone(*tree, deadline=0.2)
