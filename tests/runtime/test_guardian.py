"""The guardian: nothing of a run outlives a longwatch that is killed hard, and nothing is touched otherwise."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import helpers
from longwatch.posix.identity import identity, process
from longwatch.posix.tree import Tree
from longwatch.runtime import guardian

# What `longwatch run` does, in small: starts a program, has a guardian, waits for a word. Nothing can be imported
# from the moment of the fork on.
SUPERVISOR = """
import os, subprocess, sys
from longwatch.posix.identity import identity
from longwatch.posix.libc import become_subreaper
from longwatch.posix.tree import Tree
from longwatch.runtime import guardian

assert become_subreaper()
environ = {**os.environ, "LONGWATCH_RUN_ID": "guarded-1", "HELD": sys.argv[2]}
leader = subprocess.Popen(["sh", "-c", sys.argv[1]], env=environ, start_new_session=True)
tree = Tree(identity(leader.pid), "guarded-1", subreaper=True)
kept = os.pipe()
sys.meta_path.clear()
sys.path.clear()
guard = guardian.start(tree, 200)
print(leader.pid, guard.pid, flush=True)
sys.stdin.readline()
assert guard.pid not in [member.pid for member in tree.members()]
guard.dismiss()
guard.dismiss()
assert leader.poll() is None
print("dismissed", tree.kill(), flush=True)
"""


@contextlib.contextmanager
def supervisor(script: str, wanted: int) -> Iterator[tuple[subprocess.Popen[str], int, int, str]]:
    """Run a small supervisor; give its process, the pids of its program and guardian, and the program's own mark."""
    mark = os.urandom(8).hex()
    argv = [sys.executable, "-c", SUPERVISOR, script, mark]
    with helpers.ending(subprocess.Popen(argv, stdin=-1, stdout=-1, text=True)) as process:
        assert process.stdout is not None
        leader, guard = map(int, process.stdout.readline().split())
        held = f"HELD={mark}"
        helpers.wait_until(lambda: len(helpers.processes_with(held)) >= wanted)
        yield process, leader, guard, held


@pytest.mark.fault("G7")
@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("sleep 60; true", 2),
        ("trap '' TERM HUP INT; sleep 60; sleep 60", 2),
        ("setsid sleep 60 & (setsid sleep 60 &); sleep 60; true", 4),
        ("kill -STOP $$", 1),
        ("trap '' TERM; while :; do (setsid sleep 60 &); sleep 0.02; done", 4),
    ],
)
def test_a_hard_kill_takes_the_whole_tree_along(script: str, wanted: int) -> None:
    """When the supervisor is killed hard, no process of its run is left, and no guardian."""
    with supervisor(script, wanted) as (process, _, guard, held):
        process.kill()
        process.wait()
        helpers.wait_until(lambda: not helpers.processes_with(held) and not helpers.alive(guard))


def test_a_program_may_clean_up_after_a_hard_kill(tmp_path: object) -> None:
    """The guardian begins with TERM and gives a moment's grace."""
    script = f"trap 'sleep 0.05; echo clean >{tmp_path}/said; exit' TERM; while :; do sleep 0.01; done"
    with supervisor(script, 1) as (process, _, _, held):
        process.kill()
        helpers.wait_until(lambda: not helpers.processes_with(held))
        assert os.listdir(str(tmp_path)) == ["said"]


def test_a_dismissed_guardian_touches_nothing() -> None:
    """A dismissed guardian is gone and reaped while the program still runs; dismissing twice is no error."""
    with supervisor("sleep 60; true", 2) as (process, _, guard, _):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "dismissed []\n"
        assert not os.path.exists(f"/proc/{guard}")
        assert process.wait() == 0


def test_a_guardian_holds_nothing_and_is_deaf() -> None:
    """It lives in a session of its own with one pipe and no other descriptor, and no ordinary signal ends it."""
    with supervisor("sleep 60; true", 2) as (parent, leader, guard, held):
        helpers.wait_until(lambda: sorted(os.listdir(f"/proc/{guard}/fd"), key=int)[:3] == ["0", "1", "2"])
        helpers.wait_until(lambda: len(os.listdir(f"/proc/{guard}/fd")) == 4)
        links = sorted(os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd"))
        assert links[:3] == ["/dev/null"] * 3
        assert links[3].startswith("pipe:")
        info = process(guard)
        assert info is not None
        assert (info.sid, info.pgid) == (guard, guard)
        for signum in (
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGTSTP,
            signal.SIGUSR1,
        ):
            os.kill(guard, signum)
        parent.kill()
        parent.wait()
        # It did its duty after all of them.
        helpers.wait_until(lambda: not helpers.processes_with(held) and not helpers.alive(guard))
        assert not helpers.alive(leader)


@pytest.mark.slow
def test_a_stopped_guardian_does_not_hold_up_its_dismissal() -> None:
    """Dismissing a guardian that somebody has stopped ends it after a second."""
    with supervisor("sleep 60; true", 2) as (process, _, guard, _):
        assert process.stdin is not None
        assert process.stdout is not None
        os.kill(guard, signal.SIGSTOP)
        helpers.wait_until(lambda: helpers.stat(guard)[0] == "T")  # type: ignore[index]
        process.stdin.write("\n")
        process.stdin.flush()
        started = time.monotonic()
        assert process.stdout.readline() == "dismissed []\n"
        assert time.monotonic() - started < 5
        assert not os.path.exists(f"/proc/{guard}")


def test_a_guardian_that_was_killed_is_dismissed_all_the_same() -> None:
    """Dismissal reaps a guardian that is dead already."""
    with supervisor("sleep 60; true", 2) as (process, _, guard, _):
        assert process.stdin is not None
        assert process.stdout is not None
        os.kill(guard, signal.SIGKILL)
        helpers.wait_until(lambda: not helpers.alive(guard))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "dismissed []\n"


def test_without_a_process_to_spare_there_is_no_guardian(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no process can be forked the caller is told, and nothing stays open."""

    def refuse() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    who = identity(os.getpid())
    assert who is not None
    monkeypatch.setattr(os, "fork", refuse)
    before = helpers.descriptors()
    with pytest.raises(BlockingIOError):
        guardian.start(Tree(who, "none-1", subreaper=False))
    assert helpers.descriptors() <= before
