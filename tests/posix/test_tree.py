"""The whole tree and only it: found whichever way it got away, and ended with nothing left."""

import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import helpers
from longwatch.posix import identity as identity_module
from longwatch.posix import kin
from longwatch.posix import tree as tree_module
from longwatch.posix.identity import identity, parse_stat, process, read_stat
from longwatch.posix.reactor import Reactor
from longwatch.posix.tree import Tree

HERE = str(Path(__file__).parent)
TESTS = str(Path(__file__).parent.parent)
# Of this worker alone: another one may play with trees at the same time.
RUN = f"tree-{os.getpid()}"
REPEATS = 10
GRACE = 0.1
# Each shape, how many processes show that it is complete, and what it is in words.
SHAPES = {
    "child of a shell": (2, "sleep 60; true"),
    "TERM ignored": (2, "trap '' TERM; sleep 60; sleep 60"),
    "own session": (3, "setsid sleep 60 & sleep 60; true"),
    "double fork": (3, "(setsid sleep 60 &) ; sleep 60; true"),
    "ten own sessions": (12, "for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep 60 & done; sleep 60; true"),
    "fork storm": (4, "trap '' TERM; while :; do (setsid sleep 60 &); sleep 0.02; done"),
    "stopped": (2, "sleep 60 & kill -STOP $!; kill -STOP $$; sleep 60"),
    "leader goes first": (2, "(trap '' INT TERM; exec sleep 60) & wait"),
}


def count(mark: str) -> int:
    return len(helpers.processes_with(mark))


@contextlib.contextmanager
def running(script: str, wanted: int = 1, mark: str | None = RUN) -> Iterator[subprocess.Popen[bytes]]:
    """Run a shell script in a session of its own until `wanted` of its processes are there; kill it afterwards."""
    own = f"{helpers.MARKER}_SHAPE={os.urandom(8).hex()}"
    env = {**os.environ, **dict([own.split("=")]), **({"LONGWATCH_RUN_ID": mark} if mark else {})}
    leader = subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)
    try:
        with helpers.ending(leader):
            helpers.wait_until(lambda: count(own) >= wanted, what=f"{wanted} processes of {script}")
            yield leader
    finally:
        helpers.wait_until(lambda: not helpers.kill_all(left := helpers.processes_with(own)) and not left)


def tree_of(leader: subprocess.Popen[bytes], *, subreaper: bool = False, **options: object) -> Tree:
    who = identity(leader.pid)
    assert who is not None
    return Tree(who, RUN, subreaper=subreaper, **options)  # type: ignore[arg-type]


def stop(tree: Tree) -> tuple[list[str], float]:
    """Stop a tree as a run does: TERM, grace until it is gone, KILL. Return survivors and the seconds it took."""
    started = time.monotonic()
    tree.signal(signal.SIGTERM)
    reactor = Reactor()
    over: list[bool] = []
    while tree.watch(reactor, lambda: over.append(True)) is None:
        while not over and time.monotonic() < started + GRACE:
            reactor.poll(10)
        if not over:
            break
        over.clear()
    tree.unwatch()
    reactor.close()
    left = tree.kill()
    return left, time.monotonic() - started


def torture(shape: str, *, subreaper: bool) -> list[object]:
    """Start and stop a shape ten times; return what was wrong, with an own look at all environments."""
    wanted, script = SHAPES[shape]
    wrong: list[object] = []
    for _ in range(REPEATS):
        own = f"{helpers.MARKER}_TORTURE={os.urandom(8).hex()}"
        env = {**os.environ, **dict([own.split("=")]), "LONGWATCH_RUN_ID": RUN}
        leader = subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)
        helpers.wait_until(functools.partial(lambda own: count(own) >= wanted, own), what=shape)
        tree = tree_of(leader, subreaper=subreaper)
        left, seconds = stop(tree)
        leader.wait()
        seen = helpers.processes_with(own)
        helpers.kill_all(seen)
        zombies = [pid for pid in tree.pids() if subreaper]
        if left or seen or zombies or seconds > 10:
            wrong.append([left, seen, zombies, seconds])
    return wrong


def in_a_subreaper(call: str) -> object:
    """Evaluate something of this file in a process that adopts its orphans; return what it gave as JSON."""
    code = (
        "import sys, json; from longwatch.posix.libc import become_subreaper; import test_tree as t;"
        f"assert become_subreaper(); print(json.dumps({call}))"
    )
    env = {"PYTHONPATH": f"{HERE}:{TESTS}"}
    done = helpers.run_command([sys.executable, "-c", code], env=env)
    assert done.code == 0, done.err
    return json.loads(done.out)


# The torture shapes


@pytest.mark.slow
@pytest.mark.capability("NEW-4")
@pytest.mark.fault("F1", "F2", "F3")
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_survives_under_a_subreaper(shape: str) -> None:
    """Ten times of ten a stopped tree is gone, zombies included, whatever its processes did to get away."""
    assert in_a_subreaper(f"t.torture({shape!r}, subreaper=True)") == []


@pytest.mark.slow
@pytest.mark.capability("NEW-4")
@pytest.mark.fault("F1", "F2", "F3")
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_survives_without_a_subreaper(shape: str) -> None:
    """The same by session, group and mark alone, as in somebody else's program."""
    assert torture(shape, subreaper=False) == []


# Finding


def test_a_tree_is_found_without_looking_at_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a subreaper the table of all processes is never read, so its size does not matter."""

    def refuse() -> None:
        raise AssertionError("the whole table was read")

    with running("sleep 60 & sleep 60; true", 3) as leader:
        monkeypatch.setattr(kin, "table", refuse)
        tree = tree_of(leader, subreaper=True, ignore=set(kin.children(os.getpid())) - {leader.pid})
        assert len(tree.members()) == 3
        assert tree.proof == "subreaper"


def test_without_children_files_the_table_is_searched() -> None:
    """A kernel without children files gives the same tree by parents."""
    with running("sleep 60 & (setsid sleep 60 &); sleep 60; true", 4) as leader:
        tree = tree_of(leader)
        quick = sorted(tree.pids())
        tree._quick = False
        assert sorted(tree.pids()) == quick
        assert len(quick) == 4
        adopting = tree_of(leader, subreaper=True, ignore=set(kin.children(os.getpid())) - {leader.pid})
        adopting._quick = False
        assert sorted(adopting.pids()) == sorted([leader.pid, *helpers.descendants(leader.pid)])


def test_children_of_every_thread_are_found() -> None:
    """A child that another thread than the first has started is a child too."""
    code = """
import os, subprocess, threading, time
thread = threading.Thread(target=lambda: (subprocess.Popen(["sleep", "60"]), time.sleep(60)))
thread.start()
"""
    with helpers.ending(subprocess.Popen([sys.executable, "-c", code], start_new_session=True)) as leader:
        found = helpers.wait_until(lambda: kin.children(leader.pid))
        assert helpers.wait_until(lambda: process(found[0]).comm == "sleep")  # type: ignore[union-attr]
        assert tree_of(leader).kill() == []


@pytest.mark.fault("F3")
def test_the_group_is_found_after_its_leader_has_gone() -> None:
    """What is left of a session is found by its number when the leader is dead and reaped, and no mark is set."""
    with running("sleep 60 & sleep 60 & wait", 3, mark=None) as leader:
        tree = tree_of(leader)
        leader.kill()
        leader.wait()
        assert [info.comm for info in tree.infos()] == ["sleep", "sleep"]
        assert tree.kill() == []
        helpers.wait_until(lambda: tree.pids() == [])


@pytest.mark.fault("H1")
def test_a_session_once_seen_empty_is_never_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the run's session was over, a later session with the same number belongs to a stranger."""
    with running("exit 0", 0, mark=None) as leader, running("exec sleep 60", mark=None) as stranger:
        over, unaware = tree_of(leader), tree_of(leader)
        leader.wait()
        assert over.pids() == []
        later = process(stranger.pid)
        assert later is not None
        later.sid = leader.pid
        monkeypatch.setattr(kin, "table", lambda: {later.pid: later})
        assert unaware.pids() == [stranger.pid]
        assert over.pids() == []


@pytest.mark.fault("H1")
def test_the_session_of_a_reused_leader_is_not_taken() -> None:
    """When the leader's pid means another process by now, that one's session is none of ours."""
    with running("sleep 60; true", 2, mark=None) as leader:
        tree = tree_of(leader)
        tree.leader.start -= 1
        assert tree.pids() == []


@pytest.mark.parametrize(
    ("environ", "ours"),
    [
        (b"A=1\0RUN=x-1\0", True),
        (b"RUN=x-1", True),
        (b"RUN=x-1/y-2\0B=2\0", True),
        (b"RUN=x-12\0", False),
        (b"RUN=y-2/x-1\0", False),
        (b"OLDRUN=x-1\0", False),
        (b"A=RUN=x-1\0", False),
        (b"", False),
    ],
)
def test_the_mark_names_a_run_and_what_is_nested_in_it(environ: bytes, ours: bool) -> None:
    """A nested run's processes belong to the outer run too, those of a run with a longer or an outer name do not."""
    assert kin.marked(environ, b"RUN=x-1") is ours


def test_an_orphan_of_a_nested_run_is_found_by_its_mark() -> None:
    """A process that left session, group and parents is found by the outer run's id in its environment."""
    script = f"(LONGWATCH_RUN_ID={RUN}/inner-1 setsid sleep 60 &); sleep 60; true"
    with running(script, 3, mark=RUN) as leader:
        helpers.wait_until(lambda: len(tree_of(leader).members()) == 3)
        assert len(Tree(tree_of(leader).leader, "other-1", subreaper=False).members()) == 2


def test_strangers_and_what_is_ignored_stay_out() -> None:
    """Neither we nor our parent nor a process of our own session are found, nor what the owner excepts."""
    ours = identity(os.getpid())
    assert ours is not None
    with running("sleep 60", mark=None) as bystander, running("sleep 60; true", 2) as leader:
        everything = tree_of(leader, subreaper=True).pids()
        assert {leader.pid, bystander.pid} <= set(everything)
        excepted = tree_of(leader, subreaper=True, ignore={bystander.pid})
        assert bystander.pid not in excepted.pids()
        assert bystander.pid not in tree_of(leader).pids()
        above = Tree(ours, "none-1", subreaper=False)
        assert not {os.getpid(), os.getppid()} & set(above.pids())


def test_what_cannot_be_looked_at_does_not_pass_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free descriptor a tree is not declared gone: the error comes through."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with running("sleep 60; true", 2) as leader:
        tree = tree_of(leader, subreaper=True)
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            tree.members()
        monkeypatch.undo()


# Signalling


@pytest.mark.fault("H1")
@pytest.mark.parametrize("subreaper", [False, True])
def test_a_start_time_that_changes_during_the_grace_stops_the_kill(
    subreaper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the leader's pid means another process after TERM, that process gets no KILL."""
    with running("trap '' TERM; exec sleep 60", mark=None) as leader:
        helpers.wait_until(lambda: process(leader.pid).comm == "sleep")  # type: ignore[union-attr]
        tree = tree_of(leader, subreaper=subreaper, ignore=set(helpers.descendants()) - {leader.pid})
        assert tree.signal(signal.SIGTERM).sent == 1

        def reused(pid: int) -> bytes | None:
            line = read_stat(pid)
            if pid != leader.pid or line is None:
                return line
            head, _, rest = line.rpartition(b") ")
            fields = rest.split()
            fields[19] = b"%d" % (parse_stat(line).start + 500)
            return head + b") " + b" ".join(fields)

        monkeypatch.setattr(identity_module, "read_stat", reused)
        assert tree.kill() == []
        assert leader.poll() is None


def test_term_then_cont_reaches_a_stopped_process() -> None:
    """A stopped process cleans up and ends at TERM: no KILL is needed."""
    with running("trap 'exit 5' TERM; kill -STOP $$; sleep 60") as leader:
        helpers.wait_until(lambda: process(leader.pid).state == "T")  # type: ignore[union-attr]
        sweep = tree_of(leader).signal(signal.SIGTERM)
        assert (sweep.sent, sweep.refused) == (1, [])
        assert leader.wait() == 5


@pytest.mark.parametrize("signum", [signal.SIGSTOP, 0])
def test_some_signals_are_not_followed_by_cont(signum: int) -> None:
    """Stopping a tree leaves it stopped, and the null signal changes nothing."""
    with running("sleep 60; true", 2) as leader:
        tree = tree_of(leader)
        # Stopped between fork and exec the child would keep the shell waiting for it, in another state.
        helpers.wait_until(lambda: [info.comm for info in tree.infos()] == ["sh", "sleep"])
        assert tree.signal(signal.SIGSTOP).sent == 2
        helpers.wait_until(lambda: [info.state for info in tree.infos()] == ["T", "T"])
        tree.signal(signum)
        assert [info.state for info in tree.infos()] == ["T", "T"]


@pytest.mark.fault("G2")
@pytest.mark.parametrize("subreaper", [False, True])
def test_a_process_that_never_goes_is_named_after_a_bounded_wait(
    subreaper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When KILL has no effect the call comes back in its time and names what is left."""
    with running("sleep 60; true", 2) as leader:
        tree = tree_of(leader, subreaper=subreaper, ignore=set(helpers.descendants()) - {leader.pid})
        monkeypatch.setattr(tree, "_send", lambda pid, signum: True)
        started = time.monotonic()
        left = tree.kill(200)
        assert 0.2 <= time.monotonic() - started < 2
        assert left == tree.survivors()
        assert f"{leader.pid} sh" in left
        monkeypatch.undo()
        assert tree.kill() == []


def test_what_belongs_to_somebody_else_is_named_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that we may not signal is refused by name, survives by name, and does not keep the tree alive."""
    real = os.kill
    with running("sleep 60; true", 2) as leader:
        child = kin.children(leader.pid)[0]
        helpers.wait_until(lambda: helpers.command_line(child) == "sleep 60")

        def refuse(pid: int, signum: int) -> None:
            if pid == child:
                raise PermissionError
            real(pid, signum)

        monkeypatch.setattr(os, "kill", refuse)
        monkeypatch.setattr(tree_module, "signal_verified", lambda who, signum: refused(who.pid == child))

        def refused(it: bool) -> str:
            return identity_module.REFUSED if it else identity_module.SENT

        tree = tree_of(leader)
        assert tree.signal(signal.SIGTERM).refused == [f"{child} sleep"]
        started = time.monotonic()
        assert tree.kill() == [f"{child} sleep"]
        assert time.monotonic() - started < 1
        assert tree.members() == []
        assert tree.survivors() == tree.refused == [f"{child} sleep"]
        monkeypatch.undo()
        assert tree.kill() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process as somebody else")
def test_a_real_process_of_another_user_is_refused() -> None:
    """A member that runs as another user is named by the kernel's own refusal."""
    assert in_a_subreaper("t.stop_as_nobody()") == [["sleep"], ["sleep"], True]


def stop_as_nobody() -> list[object]:
    leader = subprocess.Popen(["sleep", "60"], start_new_session=True)
    helpers.wait_until(lambda: process(leader.pid).comm == "sleep")  # type: ignore[union-attr]
    tree = tree_of(leader, subreaper=True)
    os.setresuid(65534, 65534, 0)
    refused = tree.signal(signal.SIGTERM).refused
    left = tree.kill()
    os.setresuid(0, 0, 0)
    living = leader.poll() is None
    leader.kill()
    leader.wait()
    return [[name.split()[1] for name in names] for names in (refused, left)] + [living]  # type: ignore[list-item]


# Reaping


@pytest.mark.fault("G3")
def test_adopted_orphans_are_reaped_and_the_leader_is_not() -> None:
    """A subreaper's orphans leave no zombie, while the leader's own status is still there to be collected."""
    assert in_a_subreaper("t.leave_orphans()") == [[], 7]


def leave_orphans() -> list[object]:
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sleep 0.05 &) ; done; exit 7"
    leader = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    tree = tree_of(leader, subreaper=True)
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)

    def reaped() -> bool:
        tree.reap()
        return not tree.adopted()

    helpers.wait_until(reaped)
    mine = [pid for pid in kin.children(os.getpid()) if pid != leader.pid]
    return [mine, leader.wait()]


def test_without_being_a_subreaper_nothing_is_reaped() -> None:
    """In somebody else's program no child but the run's own is ever waited for."""
    with subprocess.Popen(["true"]) as other, running("sleep 60") as leader:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        tree = tree_of(leader)
        tree.reap()
        assert tree.adopted() == []
        assert other.wait() == 0


# Watching


def poll_until(reactor: Reactor, predicate: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5
    while not predicate() and time.monotonic() < deadline:
        reactor.poll(100)
    assert predicate()


def test_the_end_of_a_tree_is_told_once() -> None:
    """The callback runs when the last of the watched has ended, once, and not before."""
    called: list[bool] = []
    reactor = Reactor()
    with running("sleep 60 & sleep 60; true", 3) as leader:
        tree = tree_of(leader)
        assert tree.watch(reactor, lambda: called.append(True)) is None
        assert tree.watch(reactor, lambda: called.append(True)) is None
        child = kin.children(leader.pid)[0]
        os.kill(child, signal.SIGKILL)
        poll_until(reactor, lambda: len(tree._watched) == 2)
        assert not called
        assert tree.kill() == []
        poll_until(reactor, lambda: called)
        assert called == [True]
        assert tree.watch(reactor, lambda: called.append(True)) == 0
    reactor.close()


def test_a_tree_can_be_left_alone_again() -> None:
    """After `unwatch` no callback comes and no descriptor is kept."""
    called: list[bool] = []
    reactor = Reactor()
    with running("sleep 60; true", 2) as leader:
        tree = tree_of(leader)
        before = helpers.descriptors()
        tree.watch(reactor, lambda: called.append(True))
        assert len(helpers.descriptors() - before) == 2
        tree.unwatch()
        assert helpers.descriptors() <= before
        tree.kill()
        reactor.poll(0)
        assert not called
    reactor.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSYS])
def test_with_nothing_to_watch_with_the_tree_is_looked_at_again(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without descriptors for it the watch says when to look again, and killing still waits for the deaths."""

    def refuse(pid: int) -> int:
        raise OSError(code, os.strerror(code))

    reactor = Reactor()
    with running("sleep 60; true", 2) as leader:
        tree = tree_of(leader)
        monkeypatch.setattr(os, "pidfd_open", refuse)
        assert tree.watch(reactor, lambda: None) == 100
        assert tree.kill() == []
    reactor.close()
