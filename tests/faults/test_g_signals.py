"""Signals, dispositions, exit codes, and processes that cannot be ended."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.core.facts import TreeUnkillable
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now
from longwatch.posix.identity import SENT, ProcessInfo, process, signal_verified
from longwatch.posix.process import start
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import block
from longwatch.testing import children
from supervised import gone, live, numbers, python, shell, supervise

# G2


class Undying(Tree):
    """A tree with one process that no signal reaches, as one in an uninterruptible sleep."""

    stuck: int

    def infos(self, *, since: int | None = None) -> list[ProcessInfo]:
        found = process(self.stuck)
        return super().infos(since=since) + ([] if found is None else [found])


@pytest.mark.fault("G2")
def test_what_cannot_be_killed_is_given_up_and_told() -> None:
    """After KILL the wait is bounded: the run ends as unkillable, with an alert and the survivor's name."""
    with helpers.ending(subprocess.Popen(["sleep", "60"])) as stuck:
        program = start(Launch(children.silent()), {}, Reactor())
        leader = program.child.identity
        assert leader is not None
        tree = Undying(leader, "g2", subreaper=False)
        tree.stuck = stuck.pid
        tree._send_verified = lambda info, signum: (
            info.pid != stuck.pid and signal_verified(info.identity, signum) == SENT
        )  # type: ignore[method-assign]
        effects = ProcessEffects(program, tree, now)
        alerts: list[Any] = []
        effects.notify = alerts.append
        spec = Spec({"idle": LimitSpec(200, STOP)}, ("stdout", "stderr"), grace=200)
        driver = Driver(Watch(spec, program.child.started), effects)
        effects.begin()
        began = time.monotonic()
        block(driver)
        effects.end()
        assert stuck.poll() is None
    # Window, grace, what KILL itself tries, the wait after it.
    assert time.monotonic() - began < 0.2 + 0.2 + 2 + 2 + 3
    assert [alert.name for alert in alerts] == ["limit_fired", "tree_unkillable"]
    assert any(isinstance(fact, TreeUnkillable) for fact in effects.story.facts)
    assert effects.story.survivors == [f"{stuck.pid} sleep"]
    assert driver.watch.ending.reason == "idle"
    assert not helpers.alive(leader.pid)


# G3

ORPHANS = python(
    "import os, sys, time",
    "for number in range(100):",
    "    if os.fork() == 0:",
    "        if os.fork() == 0: time.sleep(0.05 + number % 10 / 100); os._exit(0)",
    "        os._exit(0)",
    "    os.wait()",
    "time.sleep(0.5)",
    "states = []",
    "for name in os.listdir('/proc'):",
    "    try: states.append(name.isdigit() and open(f'/proc/{name}/stat').read().rpartition(')')[2].split()[0])",
    "    except OSError: pass",
    "print('zombies', states.count('Z'), flush=True)",
    "sys.exit(7)",
)


def in_pid_namespace(*argv: str | Path) -> helpers.Finished:
    """Run a command as pid 1 of a pid namespace of its own."""
    isolated = ["unshare", "--pid", "--fork", "--mount-proc"]
    probe = subprocess.run([*isolated, "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no pid namespace here: {probe.stderr.strip()}")
    return helpers.run_command([*isolated, *argv], deadline=40)


@pytest.mark.skipif(not helpers.have("unshare"), reason="unshare is not installed")
@pytest.mark.fault("G3")
def test_as_pid_1_orphans_are_reaped_and_the_code_is_the_programs() -> None:
    """As pid 1 a hundred orphans leave no zombie, and the program's 7 is 7."""
    done = in_pid_namespace(helpers.LONGWATCH, "run", "--idle", "20s", *ORPHANS)
    assert (done.code, done.out) == (7, "zombies 0\n")


@pytest.mark.slow
@pytest.mark.skipif(not helpers.have("unshare"), reason="unshare is not installed")
@pytest.mark.fault("G3")
@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_as_pid_1_a_hundred_sevens_are_a_hundred_sevens(count: int) -> None:
    """In a container whose pid 1 is longwatch each of many runs that exit 7 and leave an orphan reports 7."""
    job = f'{helpers.LONGWATCH} run sh -c "(sleep 0.05 &) >/dev/null 2>&1; exit 7"'
    # Many at a time, for most of a job is waiting.
    loop = f"seq {count} | xargs -P 4 -I@ sh -c '{job} 2>/dev/null; echo $?' | sort | uniq -c"
    done = in_pid_namespace(helpers.LONGWATCH, "run", "--idle", "30s", "sh", "-c", loop)
    assert done.code == 0
    assert done.out.split() == [str(count), "7"]


@pytest.mark.fault("G3")
def test_a_code_that_was_lost_is_unknown_never_success() -> None:
    """Where somebody else has collected the status, and the kernel does not tell it, the end is `unknown`: 125."""
    from longwatch.core.outcomes import exit_status, outcome

    assert outcome("unknown", None)[0] == "unknown"
    assert exit_status("unknown", None, None) == 125


# G4, NEW-19


def careless() -> None:
    """Leave a child what a careless parent would: signals ignored, and signals blocked."""
    for name in ("SIGCHLD", "SIGPIPE", "SIGHUP", "SIGINT", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1])


def signal_sets(status: str) -> dict[str, set[int]]:
    """Return the signal sets of a /proc/PID/status."""
    rows = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    return {
        k: {n + 1 for n in range(31) if int(v, 16) >> n & 1}
        for k, v in rows.items()
        if k in ("SigBlk", "SigIgn")
    }


@pytest.mark.fault("G4")
@pytest.mark.capability("NEW-19")
@pytest.mark.parametrize("pause", ["", "sleep 0.2; "], ids=["fast", "slow"])
def test_careless_dispositions_are_put_right(pause: str) -> None:
    """Started with CHLD and PIPE ignored and signals blocked, 7 is 7 and the child is clean; HUP stays ignored."""
    run = supervise(program=shell(f"{pause}cat /proc/self/status; exit 7"), preexec_fn=careless)
    assert run.code == 7
    sets = signal_sets(run.out)
    assert sets["SigBlk"] == set()
    assert sets["SigIgn"] & {1, 2, 3, 13, 17, 25} == {1, 2, 3}


@pytest.mark.capability("NEW-19")
@pytest.mark.fault("G4")
@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_what_was_ignored_stays_ignored(signum: int) -> None:
    """Under nohup, or in a script's background, HUP, INT and QUIT mean nothing to longwatch and its child."""
    with live("--idle", "20s", program=shell("echo up; sleep 0.7; echo down"), preexec_fn=careless) as run:
        run.wait_for("up")
        for pid in (run.pid, *run.tree()):
            os.kill(pid, signum)
        done = run.finish()
    assert (done.code, done.out, done.reason) == (0, "up\ndown\n", "exited")


@pytest.mark.capability("NEW-19")
@pytest.mark.skipif(not helpers.have("nohup"), reason="nohup is not installed")
def test_nohup_survives_the_end_of_its_terminal(tmp_path: Path) -> None:
    """`nohup longwatch run ... &` goes on when its terminal is hung up, to its own end."""
    out = tmp_path / "out"
    script = f"nohup {helpers.LONGWATCH} run --idle 20s -- sh -c 'sleep 1; echo done' >{out} 2>&1 & echo $!; sleep 60"
    with helpers.Screen(["sh", "-c", script]) as screen:
        helpers.wait_until(lambda: numbers(screen.text))
        pid = numbers(screen.text)[0]
        helpers.wait_until(lambda: helpers.descendants(pid), what="the program")
        screen.process.send_signal(signal.SIGHUP)
        os.kill(pid, signal.SIGHUP)
        screen.process.wait(5)
    assert helpers.alive(pid)
    helpers.wait_until(lambda: "done" in out.read_text())
    gone(pid)


# G5


@pytest.mark.fault("G5")
@pytest.mark.capability("CAP-61")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
@pytest.mark.parametrize("pause", [0, 0.1], ids=["fast", "slow"])
def test_a_death_by_signal_is_told_as_one(signum: int, pause: float) -> None:
    """A child that ends by a signal of its own is 128+N; the record has signal and cause, and no limit."""
    run = supervise("--idle", "20s", program=shell(f"sleep {pause}; ulimit -c 0; kill -{signum} $$"))
    assert run.code == 128 + signum
    assert (run.reason, run.report["exit_code"], run.report["limit"]) == ("signaled", None, None)
    assert run.report["signal"] == signal.Signals(signum).name[3:]
    assert run.report["stopped"] is None
    assert run.said == []


# G7

DEAF = shell("trap '' TERM INT HUP; (setsid sleep 60 &); echo up; while :; do sleep 1; done")


@pytest.mark.fault("G7")
@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_the_tree_goes_first(signum: int) -> None:
    """HUP, INT and TERM each stop a deaf tree within its grace, and longwatch then ends by that very signal."""
    with live("-k", "500ms", program=DEAF) as run:
        run.wait_for("up")
        tree = run.tree()
        began = time.monotonic()
        run.send(signum)
        done = run.finish()
        assert time.monotonic() - began < 0.5 + 2
    assert len(tree) >= 3
    assert (done.code, done.reason) == (-signum, "interrupted")
    gone(*tree, deadline=0.5)
    assert done.report["survivors"] == []


@pytest.mark.fault("G7")
def test_told_to_stop_the_grace_is_five_seconds_at_most() -> None:
    """Whoever tells longwatch to stop gets an end well within the 10 s that a CI service gives, by default."""
    with live(program=DEAF) as run:
        run.wait_for("up")
        began = time.monotonic()
        run.send(signal.SIGTERM)
        done = run.finish()
    assert 4.5 < time.monotonic() - began < 8
    assert (done.code, done.report["stopped"]["how"]) == (-15, "TERM, then KILL")


@pytest.mark.fault("G7")
def test_told_twice_the_end_comes_at_once() -> None:
    """An impatient second signal does not wait for the grace."""
    with live("-k", "30s", program=DEAF) as run:
        run.wait_for("up")
        run.send(signal.SIGTERM)
        helpers.wait_until(lambda: "up" in run.out)
        time_of_second = time.monotonic()
        run.send(signal.SIGINT)
        done = run.finish(15)
    assert time.monotonic() - time_of_second < 7
    assert done.report["survivors"] == []


@pytest.mark.fault("G7")
def test_killed_hard_during_its_stop_nothing_stays() -> None:
    """A hard kill in the middle of the grace leaves nobody behind."""
    with live("-k", "5s", program=DEAF) as run:
        run.wait_for("up")
        run.wait_for_guardian()
        tree = run.tree()
        run.send(signal.SIGTERM)
        run.send(signal.SIGKILL)
        run.finish()
    gone(*tree)


@pytest.mark.fault("G7")
def test_killed_hard_the_tree_goes_too() -> None:
    """When longwatch is killed hard, its guardian ends the tree, the hidden and the deaf included."""
    with live(program=DEAF) as run:
        run.wait_for("up")
        run.wait_for_guardian()
        tree = run.tree()
        assert len(tree) >= 4
        run.send(signal.SIGKILL)
        assert run.finish().code == -9
    gone(*tree)


@pytest.mark.fault("G7")
@pytest.mark.capability("NEW-19")
def test_a_program_gets_the_signals_meant_for_it() -> None:
    """USR1 is for the program: it is handed on, and stops nothing."""
    script = "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done"
    with live(program=shell(script)) as run:
        run.wait_for("up")
        run.send(signal.SIGUSR1)
        done = run.finish()
    assert (done.code, done.out, done.reason) == (5, "up\ngot\n", "exited")
