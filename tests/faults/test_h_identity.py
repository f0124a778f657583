"""Pids are used again: nobody is signalled who only has the number of somebody else."""

import json
import subprocess
from pathlib import Path

import pytest

import folders
import helpers
from longwatch.core.facts import KillSent
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix import identity as module
from longwatch.posix import now
from longwatch.posix.identity import Identity, identity
from longwatch.posix.process import start
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import block
from longwatch.testing import children
from supervised import shell, supervise


@pytest.mark.fault("H1")
def test_a_stale_folder_signals_nobody_and_blocks_nothing(state: Path) -> None:
    """A run folder whose pids are a stranger's by now: `stop` signals nobody, and the next run of the name starts."""
    with helpers.ending(subprocess.Popen(["sleep", "60"])) as stranger:
        who = identity(stranger.pid)
        assert who is not None
        stale = Identity(who.pid, who.start - 1, who.boot)
        run = folders.make(state, "build", supervisor=stale, child=stale).run
        assert helpers.run_cli("stop", run).code != 0
        assert helpers.run_cli("stop", "build").code != 0
        again = supervise("--name", "build", "--idle", "20s", program=shell("sleep 0.1; echo on"))
        assert (again.code, again.out, again.err) == (0, "on\n", "")
        listed = json.loads(helpers.run_cli("runs", "--json").out)
        assert stranger.poll() is None
    assert "interrupted" in json.dumps(listed)


def handed_on(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process table say that the pid is another process's from now on."""
    real = module.read_stat

    def read_stat(asked: int) -> bytes | None:
        raw = real(asked)
        if raw is None or asked != pid:
            return raw
        head, _, rest = raw.rpartition(b") ")
        fields = rest.split(b" ")
        fields[19] = str(int(fields[19]) + 100).encode()
        return head + b") " + b" ".join(fields)

    monkeypatch.setattr(module, "read_stat", read_stat)


@pytest.mark.fault("H1")
@pytest.mark.parametrize("reused", [False, True])
def test_a_pid_that_changed_hands_in_the_grace_is_not_killed(
    reused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identity is checked again before KILL: when the start time is another one by then, nobody is killed."""
    process = start(Launch(children.ignores_term()), {}, Reactor())
    pid, leader = process.child.pid, process.child.identity
    assert leader is not None
    effects = ProcessEffects(process, Tree(leader, "h1", subreaper=False), now)
    if reused:
        effects.sinks.append(lambda fact: handed_on(pid, monkeypatch) if isinstance(fact, KillSent) else None)
    # The window of idle begins when the program is ready to ignore TERM.
    limits = {"idle": LimitSpec(300, STOP), "first": LimitSpec(20_000, STOP)}
    spec = Spec(limits, ("stdout", "stderr"), grace=300)
    driver = Driver(Watch(spec, process.child.started), effects)
    effects.begin()
    block(driver)
    monkeypatch.undo()
    try:
        assert driver.watch.ending.reason == "idle"
        assert helpers.alive(pid) is reused
    finally:
        helpers.kill_all([pid])
        helpers.wait_until(lambda: not helpers.alive(pid))
        process.look()
        effects.end()
