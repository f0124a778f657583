"""Trees that somebody else adopts for, trees without a leader, and ends that are not ours to see."""

import os
import subprocess
import sys
import time

import pytest

import helpers
from longwatch.posix import child as children
from longwatch.posix import identity as identities
from longwatch.posix import kin
from longwatch.posix.child import UNKNOWN, adopt
from longwatch.posix.identity import Identity, identity, shown
from longwatch.posix.nursery import Kept, Nursery, Runs
from longwatch.posix.tree import NOBODY, Tree


def who(pid: int) -> Identity:
    found = identity(pid)
    assert found is not None
    return found


def test_a_nursery_that_is_gone_adopts_nobody() -> None:
    """The proof is the nursery's while it lives; then the tree is found as it would have been without one."""
    with helpers.ending(subprocess.Popen(["sleep", "60"])) as keeper:
        nursery = Nursery(who(keeper.pid), "r1", Runs())
        tree = Tree(NOBODY, "r1", subreaper=False, nursery=nursery)
        assert tree.proof == "subreaper"
        keeper.kill()
        keeper.wait()
        assert tree.proof == "group+marker"
        assert tree.members() == []


def test_a_tree_without_a_leader_is_found_by_its_mark() -> None:
    """Nobody leads it, so session and group 0, which are the kernel's own, say nothing."""
    env = {**os.environ, "LONGWATCH_RUN_ID": "marked-1"}
    with helpers.ending(subprocess.Popen(["sleep", "60"], env=env, start_new_session=True)) as process:
        helpers.wait_until(lambda: helpers.processes_with("LONGWATCH_RUN_ID=marked-1"))
        tree = Tree(NOBODY, "marked-1", subreaper=False)
        assert [member.pid for member in tree.members()] == [process.pid]
        assert tree.kill() == []
        process.wait()
        assert tree.survivors() == []


def test_a_look_that_met_only_the_dead_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends under our eyes may have left an orphan that was not there a moment before."""
    with (
        helpers.ending(subprocess.Popen(["sleep", "60"])) as living,
        helpers.ending(subprocess.Popen("true")) as dead,
    ):
        helpers.wait_until(lambda: not helpers.alive(dead.pid))
        tree = Tree(NOBODY, "r1", subreaper=False)
        looks = iter([[dead.pid], [dead.pid, living.pid]])
        monkeypatch.setattr(tree, "pids", lambda **_: next(looks))
        assert [info.pid for info in tree.infos()] == [living.pid]
        looks = iter([[dead.pid], [dead.pid]])
        assert tree.infos() == []
        living.kill()


def test_a_run_that_was_forgotten_has_only_its_mark() -> None:
    """Of a run that its nursery does not know any more, an orphan is told by the mark alone."""
    env = {**os.environ, "LONGWATCH_RUN_ID": "gone-1"}
    with helpers.ending(subprocess.Popen(["sleep", "60"], env=env)) as marked:
        helpers.wait_until(lambda: helpers.processes_with("LONGWATCH_RUN_ID=gone-1"))
        runs = Runs()
        runs.put("other", Kept(who(os.getppid()), 0))
        orphans = Nursery(who(os.getpid()), "gone-1", runs).orphans("LONGWATCH_RUN_ID")
        assert orphans == [marked.pid]
        assert marked.pid not in Nursery(who(os.getpid()), "gone-2", runs).orphans("LONGWATCH_RUN_ID")
        assert marked.pid in Nursery(who(os.getpid()), "", runs).orphans("LONGWATCH_RUN_ID")
        marked.kill()


@pytest.mark.parametrize(("seen", "end"), [(True, (7, None)), (False, UNKNOWN)])
def test_an_end_that_the_kernel_hides_is_unknown(
    seen: bool, end: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another user's process the kernel shows 0 for any exit status: that is no success."""
    script = "import os, sys; pid = os.fork() or os._exit(7); print(pid, flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", script]
    with helpers.ending(subprocess.Popen(argv, stdin=-1, stdout=-1, text=True)) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        helpers.wait_until(lambda: not helpers.alive(pid))
        monkeypatch.setattr(children, "_ask_kernel", lambda pidfd: UNKNOWN)
        if not seen:
            monkeypatch.setattr(identities, "shown", lambda pid: False)
        child = adopt(pid)
        assert child.peek() == end
        child.close()


def test_whose_process_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own processes are shown, and all to root; not those of others, nor who is gone."""
    assert shown(os.getpid())
    assert not shown(1 << 22)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not shown(os.getpid())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert shown(os.getpid())


def test_one_list_does_for_many_looks_but_for_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look may rest on a list made after an instant of its own; one that came before that, or no instant, needs a new one."""
    lists = iter([[b"5", b"7"], [b"7", b"9"], [b"9"]])
    monkeypatch.setattr(kin, "children_words", lambda _: next(lists))
    runs = Runs()
    runs.put("r1", Kept(Identity(7, 1, "boot"), 0))
    begun = time.monotonic_ns()
    assert runs.adopted(1, None) == [5]
    assert runs.adopted(1, begun) == [5]
    assert runs.adopted(1, time.monotonic_ns()) == [9]
    runs.drop("r1")
    assert runs.adopted(1, None) == [9]


def test_a_sweep_finds_an_orphan_that_the_list_before_its_leaders_end_has_not() -> None:
    """What one run's look has listed a moment ago proves nothing about another run that has ended since."""
    runs = Runs()
    me = who(os.getpid())
    listed = time.monotonic_ns()
    runs.adopted(me.pid, None)
    env = {**os.environ, "LONGWATCH_RUN_ID": "late-1"}
    with helpers.ending(subprocess.Popen(["sleep", "60"], env=env)) as orphan:
        helpers.wait_until(lambda: helpers.processes_with("LONGWATCH_RUN_ID=late-1"))
        over = time.monotonic_ns()
        tree = Tree(NOBODY, "late-1", subreaper=False, nursery=Nursery(me, "late-1", runs))
        # Ourselves and what is below us never belong to a tree, so the list is asked.
        assert orphan.pid not in tree.adopted(listed)
        assert orphan.pid in tree.adopted(over)
        orphan.kill()
