"""The keeper and its master part: by death, by stop, by upgrade, by another master."""

import contextlib
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
import keepers
import longwatch
from keepers import Ended, give_back, keeping, launch, shell
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import INHERIT, PIPE, PTY
from longwatch.posix.tree import Tree
from longwatch.runtime import kept, talk, wire
from longwatch.runtime.kept import Keeper, KeeperError, NoKeeper
from longwatch.runtime.wire import Wire

# A master in small: starts a keeper and a program in it, says both pids, waits for words on stdin and obeys them.
MASTER = """
import os, sys
sys.path[:0] = sys.argv[4:]
from longwatch.posix.spawn import INHERIT, NULL, PIPES, PTY, Launch
from longwatch.runtime import birth
from longwatch.runtime.kept import Keeper
{more}
keeper = Keeper.start(sys.argv[1], path=sys.argv[2] or None, grace={grace})
child = keeper.spawn(Launch(["sh", "-c", sys.argv[3]], None, None, NULL), "o1")
print(keeper.pid, child.pid, flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@contextlib.contextmanager
def master(
    script: str,
    on_orphan: str = "stop",
    path: str = "",
    more: str = "",
    folder: str = "src",
    grace: int = 400,
) -> Iterator[tuple["subprocess.Popen[str]", int, int]]:
    """Run a master; give its process, and the pids of its keeper and its program."""
    argv = [sys.executable, "-c", MASTER.format(more=more, grace=grace), on_orphan, path, script, folder]
    env = helpers.environment(measured=False)
    with helpers.ending(subprocess.Popen(argv, stdin=-1, stdout=-1, text=True, env=env)) as process:
        assert process.stdout is not None
        keeper, program = map(int, process.stdout.readline().split())
        yield process, keeper, program


def obey(process: "subprocess.Popen[str]", words: str) -> str:
    """Have a master do something; return what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()
    said = ""
    while (line := process.stdout.readline()) != "done\n":
        assert line, "the master died"
        said += line
    return said


def tree_of(child) -> Tree:
    return Tree(child.identity, child.run_id, subreaper=False, nursery=child.nursery)


# on_orphan = stop

ESCAPES = [
    "sleep 60",
    "setsid sleep 60 & (setsid env -i sleep 61 &); sleep 62",
    "(setsid sh -c '(sleep 60; true) & exit' &); sleep 60",
    "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 60; sleep 60' & sleep 60; sleep 60",
    "setsid sh -c 'kill -STOP $$; sleep 60' & kill -STOP $$",
    "while :; do (setsid env -i sleep 5 &); sleep 0.02; done",
]


@pytest.mark.fault("G7")
@pytest.mark.parametrize("script", ESCAPES)
def test_with_its_master_everything_goes(script: str) -> None:
    """When a master is killed hard, its keeper leaves no process of any run, and goes too."""
    with master(script) as (process, keeper, _):
        helpers.wait_until(lambda: len(helpers.descendants(keeper)) >= script.count("sleep 6") or None)
        below = [keeper, *helpers.descendants(keeper)]
        process.kill()
        process.wait()
        helpers.wait_until(lambda: keepers.ended(keeper), what="the end of the keeper")
        assert not [pid for pid in below if helpers.alive(pid)]


def test_a_program_may_clean_up_after_its_master(tmp_path: Path) -> None:
    """A program that prints more than a pipe holds while it cleans up is neither stuck nor broken by that."""
    said, ready = tmp_path / "said", tmp_path / "ready"
    script = f"""trap 'head -c 3000000 /dev/zero; echo $? >{said}; exit' TERM
    echo >{ready}; while :; do sleep 0.01; done"""
    with master(script, grace=8000) as (process, keeper, _):
        helpers.wait_until(ready.exists)
        process.kill()
        process.wait()
        helpers.wait_until(lambda: keepers.ended(keeper))
    assert said.read_text() == "0\n"


def test_a_fork_of_the_master_does_not_keep_it_alive() -> None:
    """A keeper knows its master's process: a fork that holds the connection open is not its master."""
    more = "import time"
    with master("sleep 60", more=more) as (process, keeper, program):
        obey(process, "os.fork() or (os.close(0), os.close(1), time.sleep(30), os._exit(0))")
        [fork] = [pid for pid in helpers.descendants(process.pid) if helpers.command_line(pid).find("sys.path") > 0
                  and pid != keeper]  # fmt: skip
        process.kill()
        process.wait()
        helpers.wait_until(lambda: keepers.ended(keeper) and keepers.ended(program))
        assert helpers.alive(fork)
        os.kill(fork, signal.SIGKILL)


def test_a_master_that_ends_before_its_keeper_begins() -> None:
    """A keeper that finds its master gone at its start goes at once."""
    connection, pid = kept.birth.start("keep", 100)
    connection.close()
    helpers.wait_until(lambda: keepers.ended(pid))
    kept.birth.bury(pid)


# The keeper is killed


@pytest.mark.parametrize("code", ["exit 7", "kill -9 $$"])
def test_a_keeper_is_killed_hard(code: str) -> None:
    """The run goes on without a parent: its end is still noticed, and its true status where the kernel tells."""
    with keeping() as keeper:
        child = keeper.spawn(shell(f"read x; {code}", stdin=PIPE), "o1")
        process = Process(child, Reactor(), {}, merged=False)
        tree = tree_of(child)
        os.kill(keeper.pid, signal.SIGKILL)
        helpers.wait_until(lambda: not keeper.alive)
        assert not process.run_until(0)
        # The word of its death must not keep the loop busy.
        assert not process.reactor.poll(50) or not process.reactor.poll(50)
        assert process.ended is None
        assert tree.proof == "group+marker"
        assert child.stdin_fd is not None
        os.write(child.stdin_fd, b"\n")
        helpers.wait_until(lambda: process.run_until(0) or process.reactor.poll(20) is None)
        wanted = (7, None) if code == "exit 7" else (None, 9)
        assert process.ended in (wanted, (None, None))
        process.close()
        with pytest.raises(NoKeeper, match="is gone"):
            keeper.spawn(launch("true"), "o2")
        with pytest.raises(NoKeeper):
            keeper.runs()


def test_the_runs_of_a_killed_keeper_are_ended_by_their_marks() -> None:
    """Closing a keeper that has been killed ends its runs, also what has left the session."""
    with keeping() as keeper:
        child = keeper.spawn(shell("setsid sleep 60 & (setsid sleep 61 &); sleep 62"), "o1")
        tree = tree_of(child)
        wanted = ["sh -c", "sleep 60", "sleep 61", "sleep 62"]
        helpers.wait_until(lambda: sorted(_two_words(m.pid) for m in tree.members()) == wanted)
        members = [member.pid for member in tree.members()]
        os.kill(keeper.pid, signal.SIGKILL)
        helpers.wait_until(lambda: not tree.nursery.alive())
        helpers.wait_until(lambda: sorted(member.pid for member in tree.members()) == sorted(members))
        assert keeper.close() == []
        assert not [pid for pid in members if helpers.alive(pid)]
        give_back(child)


def _two_words(pid: int) -> str:
    return " ".join(helpers.command_line(pid).split()[:2])


def test_a_start_that_nobody_answered_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that dies in the middle of a start leaves a program that nobody knows of: it is ended by its mark."""
    with keeping() as keeper:
        keeper.runs()
        real = keeper._talk._read
        started: list[int] = []

        def answer(number: int, deadline: int) -> object:
            message, lent = real(number, deadline)
            started.append(message["pid"])
            wire.close(lent.values())
            os.kill(keeper.pid, signal.SIGKILL)
            raise NoKeeper("gone")

        monkeypatch.setattr(talk.Talk, "_read", lambda self, *words: answer(*words))
        with pytest.raises(NoKeeper):
            keeper.spawn(shell("setsid sleep 60 & sleep 61"), "o1")
        assert not helpers.alive(started[0])
        assert not helpers.processes_with("LONGWATCH_RUN_ID=o1")


def test_an_interrupted_start_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while we wait for the keeper's answer: the program is ended, and the id is free."""
    with keeping() as keeper:
        keeper.runs()
        with monkeypatch.context() as patch:

            def interrupted(self: object, number: int, deadline: int) -> object:
                raise KeyboardInterrupt

            patch.setattr(talk.Talk, "_read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                keeper.spawn(shell("setsid sleep 60 & sleep 61"), "o1")
        assert keeper.runs() == []
        assert helpers.descendants(keeper.pid) == []
        assert Ended(keeper.spawn(shell("echo"), "o1")).out == "\n"


# The keeper is stopped


def test_a_stopped_keeper_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks a stopped keeper is told so in time; what was asked for never runs."""
    with keeping() as keeper:
        keeper.runs()
        os.kill(keeper.pid, signal.SIGSTOP)
        helpers.wait_until(lambda: keepers.state(keeper.pid) == "T")
        monkeypatch.setattr(talk, "ANSWER_LIMIT", 300)
        with pytest.raises(KeeperError, match=r"^keeper (\d+) does not answer; .* kill -CONT \1$") as error:
            keeper.spawn(shell("setsid sleep 60 & sleep 61"), "o1")
        assert error.value.status == 125
        monkeypatch.undo()
        os.kill(keeper.pid, signal.SIGCONT)
        assert keeper.runs() == []
        assert helpers.descendants(keeper.pid) == []
        assert Ended(keeper.spawn(shell("echo"), "o1")).out == "\n"


def test_a_late_answer_to_somebody_else_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after its limit is not taken for the answer to the next question, and its descriptors are closed."""
    with keeping() as keeper:
        child = keeper.spawn(launch("sleep", "60"), "o1")
        before = helpers.descriptors()
        os.kill(keeper.pid, signal.SIGSTOP)
        monkeypatch.setattr(talk, "ANSWER_LIMIT", 100)
        with pytest.raises(KeeperError):
            keeper.lend("o1")
        monkeypatch.undo()
        os.kill(keeper.pid, signal.SIGCONT)
        assert [run.run_id for run in keeper.runs()] == ["o1"]
        assert helpers.descriptors() <= before
        give_back(child)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "end"), [("exit 7", (7, None)), ("kill -9 $$", (None, 9))])
def test_a_run_ends_while_its_keeper_is_stopped(code: str, end: tuple[int | None, int | None]) -> None:
    """Its end is known a second later, from the kernel, and no loop is kept busy or held up until then."""
    with keeping() as keeper:
        child = keeper.spawn(shell(f"read x; {code}", stdin=PIPE), "o1")
        os.kill(keeper.pid, signal.SIGSTOP)
        assert child.stdin_fd is not None
        os.write(child.stdin_fd, b"\n")
        done = Ended(child)
        assert (done.code, done.signal) == end
        os.kill(keeper.pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_stopped_keeper_can_be_closed() -> None:
    """Closing lets a stopped keeper go on, and it ends what it holds."""
    keeper = Keeper.start()
    child = keeper.spawn(shell("(setsid env -i sleep 60 &); sleep 61"), "o1")
    below = helpers.descendants(keeper.pid)
    os.kill(keeper.pid, signal.SIGSTOP)
    assert keeper.close() == []
    assert not [pid for pid in below if helpers.alive(pid)]
    give_back(child)


def test_a_keeper_that_hangs_is_ended_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the keeper does not stop what it holds, we do, whatever has left the session; and then the keeper."""
    keeper = Keeper.start(grace=0)
    child = keeper.spawn(shell("(setsid env -i sleep 60 &); sleep 61"), "o1")
    helpers.wait_until(lambda: len(helpers.descendants(keeper.pid)) == 3)
    below = helpers.descendants(keeper.pid)
    monkeypatch.setattr(kept, "STOP_LIMIT", 100)
    monkeypatch.setattr(kept, "signal_verified", _no_continuing(kept.signal_verified))
    os.kill(keeper.pid, signal.SIGSTOP)
    assert keeper.close() == []
    assert not [pid for pid in below if helpers.alive(pid)]
    assert keepers.ended(keeper.pid)
    give_back(child)


def _no_continuing(real):
    return lambda who, signum: None if signum == signal.SIGCONT else real(who, signum)


def test_a_keeper_that_will_not_end_is_killed() -> None:
    """One that has lost us and does not go is ended hard when it is collected."""
    with keeping() as keeper:
        keeper.runs()
        os.kill(keeper.pid, signal.SIGSTOP)
        kept.birth.END_LIMIT, usual = 100, kept.birth.END_LIMIT
        try:
            kept.birth.bury(keeper.pid)
        finally:
            kept.birth.END_LIMIT = usual
        assert not os.path.exists(f"/proc/{keeper.pid}")


# on_orphan = keep


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


def test_the_next_master_gets_everything(path: str) -> None:
    """Runs, ends, lines, terminals and stdin of a master that was killed are all there for the next one."""
    with master("echo one; read x; exit 3", "keep", path) as (process, keeper, program):
        script = "echo two; read x; echo $x; exit 4"
        obey(
            process, f"other = keeper.spawn(Launch(['sh', '-c', {script!r}], None, None, INHERIT, PTY), 'o2')"
        )
        process.kill()
        process.wait()
    helpers.wait_until(lambda: keepers.ended(program))
    with contextlib.closing(Keeper.connect(path)) as next_one:
        assert next_one.pid == keeper
        runs = {run.run_id: run for run in next_one.runs()}
        assert runs["o1"].pid == program
        helpers.wait_until(lambda: next_one.runs()[0].end == (3, None))
        assert (runs["o2"].program, runs["o2"].end) == ("sh", None)
        first = Ended(next_one.lend("o1"))
        assert (first.code, first.out) == (3, "one\n")
        second = next_one.lend("o2")
        assert tree_of(second).proof == "subreaper"
        assert second.master_fd is not None
        os.write(second.master_fd, b"word\n")
        done = Ended(second, merged=True)
        assert (done.code, done.out) == (4, "two\r\nword\r\nword\r\n")
        # What is not forgotten is told again, and forgotten it is gone.
        assert len(next_one.runs()) == 2
        assert keepers.state(program) == "Z"
        next_one.forget("o1")
        next_one.forget("o2")
        assert next_one.runs() == []
    helpers.wait_until(lambda: keepers.ended(keeper))
    assert not os.path.exists(path)


def test_a_full_pipe_waits_for_the_next_master(path: str) -> None:
    """A program that nobody reads is blocked by its full pipe, and loses nothing."""
    with keeping("keep", path=path) as keeper:
        child = keeper.spawn(shell("seq 1000000"), "o1")
        helpers.wait_until(lambda: keepers.state(child.pid) in "SZ" and _children_of(child.pid) in ("S", ""))
        give_back(child)
        keeper.close()
        with contextlib.closing(Keeper.connect(path)) as next_one:
            process = Process(next_one.lend("o1"), Reactor(), {}, False, 8 << 20, 1 << 16)
            assert process.run_until(keepers._now() + 20_000)
            assert process.pumps["stdout"].captured()[0].split() == [b"%d" % n for n in range(1, 1_000_001)]
            process.close()
            assert next_one.stop() == []


def _children_of(pid: int) -> str:
    found = helpers.children(pid)
    return keepers.state(found[0]) if found else ""


def test_stdin_stays_open_for_the_next_master(path: str) -> None:
    """A keeper that keeps holds the stdin pipe too: its end comes when it is asked for."""
    with keeping("keep", path=path) as keeper:
        child = keeper.spawn(launch("cat", stdin=PIPE), "o1")
        give_back(child)
        keeper.close()
        with contextlib.closing(Keeper.connect(path)) as next_one:
            child = next_one.lend("o1")
            assert child.stdin_fd is not None
            os.write(child.stdin_fd, b"words\n")
            os.close(child.stdin_fd)
            child.stdin_fd = None
            assert child.peek() is None
            next_one.shut_stdin("o1")
            assert Ended(child).out == "words\n"
            next_one.stop()


def test_one_master_at_a_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second master is refused, and told who the first is; it may take the keeper away from that one.

    Whoever has lost it so has no say any more, not even in its end.
    """
    with keeping("keep", path=path) as first:
        child = first.spawn(launch("sleep", "60"), "o1")
        with pytest.raises(
            KeeperError, match=rf"^the keeper serves process {os.getpid()}; end that, or replace it$"
        ):
            Keeper.connect(path)
        assert first.alive
        second = Keeper.connect(path, replace=True)
        helpers.wait_until(lambda: not first.alive)
        with pytest.raises(KeeperError):
            first.runs()
        monkeypatch.setattr(kept.birth, "END_LIMIT", 100)
        assert first.stop() == []
        assert [run.run_id for run in second.runs()] == ["o1"]
        assert helpers.alive(child.pid)
        assert second.stop() == []
        assert keepers.ended(child.pid)
        give_back(child)


def test_a_stopped_master_does_not_hold_up_the_next_one(path: str) -> None:
    """A keeper whose master is stopped, and has asked for much, serves whoever replaces it."""
    with master("sleep 60", "keep", path) as (process, _, program):
        process.send_signal(signal.SIGSTOP)
        with contextlib.closing(Keeper.connect(path, replace=True)) as keeper:
            assert [run.pid for run in keeper.runs()] == [program]
            keeper.stop()


def test_a_keeper_with_nothing_to_hold_goes(path: str) -> None:
    """Without runs and without a master there is nothing to keep."""
    with keeping("keep", path=path) as keeper:
        Ended(keeper.spawn(shell("echo"), "o1"))
        keeper.forget("o1")
        keeper.close()
        helpers.wait_until(lambda: keepers.ended(keeper.pid))
        with pytest.raises(NoKeeper, match=r"^nobody listens at .*socket; start a keeper there$"):
            Keeper.connect(path)


def test_a_forgotten_run_goes_on_to_its_end(path: str) -> None:
    """A run that is forgotten while it runs is not touched, and collected at its end."""
    with keeping("keep", path=path) as keeper:
        child = keeper.spawn(shell("read x; exit 3", stdin=PIPE), "o1")
        keeper.forget("o1")
        assert len(keeper.runs()) == 1
        assert child.stdin_fd is not None
        os.write(child.stdin_fd, b"\n")
        assert Ended(child).code == 3
        helpers.wait_until(lambda: keeper.runs() == [])


def test_a_keeper_is_found_or_started(path: str) -> None:
    """Whoever comes first starts the keeper, and whoever comes next is connected to it."""
    with keeping("keep", path=path) as first:
        child = first.spawn(launch("sleep", "60"), "o1")
        with pytest.raises(KeeperError, match="address already in use"):
            Keeper.start("keep", path=path)
        first.close()
        second = Keeper.at(path)
        assert second.pid == first.pid
        second.stop()
        give_back(child)
        third = Keeper.at(path)
        assert third.runs() == []
        assert third.pid != first.pid
        third.stop()


def test_keepers_that_come_and_go(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a path never settles, that is said instead of trying for ever."""

    def nobody(*words: object, **named: object) -> None:
        raise NoKeeper("nobody")

    def taken(*words: object, **named: object) -> None:
        raise kept.PathTaken("taken")

    monkeypatch.setattr(Keeper, "connect", nobody)
    monkeypatch.setattr(Keeper, "start", taken)
    with pytest.raises(KeeperError, match=r"^keepers come and go at .*; is another program using it"):
        Keeper.at(path)


def test_the_socket_is_nobody_elses(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A left-over socket is replaced, a file of another kind is not, and a path may be long."""
    Path(path).touch()
    with pytest.raises(KeeperError, match="already in use"):
        Keeper.start("keep", path=path)
    os.unlink(path)
    wire.listen(path).close()
    with keeping("keep", path=path) as keeper:
        keeper.runs()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(KeeperError, match="no such file or directory"):
        Keeper.start("keep", path=f"{path}/socket")
    with pytest.raises(NoKeeper):
        Keeper.connect(f"{path}-no/socket")
    deep = Path(path).parent / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with keeping("keep", path=str(deep / "socket")) as keeper:
        child = keeper.spawn(launch("sleep", "60"), "o1")
        keeper.close()
        Keeper.connect(str(deep / "socket")).stop()
        give_back(child)


def test_somebody_elses_socket_is_not_removed(path: str) -> None:
    """A keeper that ends leaves a socket alone that was put in the place of its own."""
    with keeping("keep", path=path) as keeper:
        keeper.runs()
        os.unlink(path)
        Path(path).touch()
        keeper.stop()
    assert os.path.exists(path)


def test_strangers_are_not_trusted(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that another user listens at is not talked to."""
    with keeping("keep", path=path) as keeper:
        child = keeper.spawn(launch("sleep", "60"), "o1")
        keeper.close()
        with monkeypatch.context() as patch:
            patch.setattr(Wire, "peer", lambda self: (4711, os.geteuid() + 1))
            with pytest.raises(KeeperError, match="of another user, and not to be trusted"):
                Keeper.connect(path)
        Keeper.connect(path).stop()
        give_back(child)


def test_another_version_is_not_understood(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper of another version is told apart, and left as it is."""
    with keeping("keep", path=path) as keeper:
        child = keeper.spawn(launch("sleep", "60"), "o1")
        keeper.close()
        with monkeypatch.context() as patch:
            patch.setattr(wire, "VERSION", 2)
            with pytest.raises(KeeperError, match=r"is of another longwatch \(speaks 1, not 2\)"):
                Keeper.connect(path)
        Keeper.connect(path).stop()
        give_back(child)


# Upgrades


@pytest.mark.slow
@pytest.mark.capability("NEW-20")
def test_the_package_is_deleted_under_a_keeper(tmp_path: Path, path: str) -> None:
    """A keeper needs nothing that it has not loaded: starts, refusals, terminals, handovers and stops still work."""
    folder = tmp_path / "site"
    shutil.copytree(Path(longwatch.__file__).parent, folder / "longwatch")
    more = "assert birth._home() == sys.argv[4], birth._home()"
    with master("sleep 60", "keep", path, more, str(folder)) as (process, keeper, _):
        assert str(folder) in helpers.command_line(keeper)
        shutil.rmtree(folder)
        process.kill()
        process.wait()
        with contextlib.closing(Keeper.connect(path)) as next_one:
            assert next_one.pid == keeper
            pty = next_one.spawn(shell("test -t 1 && echo yes; exit 6", output=PTY, stdin=INHERIT), "o2")
            done = Ended(pty, merged=True)
            assert (done.code, done.out) == (6, "yes\r\n")
            with pytest.raises(kept.SpawnError, match=r"^no-such-program: not found$"):
                next_one.spawn(launch("no-such-program"), "o3")
            with pytest.raises(KeeperError):
                next_one._ask({"op": "spawn"})
            next_one._talk.wire._socket.send(b"{no message")
            long = next_one.spawn(
                shell("(setsid env -i sleep 60 &); exec sleep 61", env={"LONG": "x" * 100_000}), "o4"
            )
            helpers.wait_until(lambda: len(tree_of(long).members()) == 2)
            assert tree_of(long).kill() == []
            give_back(long)
            next_one.forget("o4")
            assert next_one.stop() == []
        helpers.wait_until(lambda: keepers.ended(keeper))


# The other side, in this process


class Stranger(Wire):
    """A connection from another user."""

    def peer(self) -> tuple[int, int]:
        return 4711, os.geteuid() + 1


def test_a_keeper_hears_its_own_user_only(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects as another user is hung up on before a word is read; root may not come in by mistake either."""
    from longwatch.runtime.masters import Masters

    reactor = Reactor()
    first, theirs = wire.pair()
    lost: list[bool] = []
    masters = Masters(
        reactor, Wire(theirs), serve=lambda message, lent: ({}, {}), greeting=lambda: {"version": 1},
        sent=lambda answer: None, lost=lambda: lost.append(True),
    )  # fmt: skip
    listener = wire.listen(path)
    message = {"op": "attend", "id": 1, "lent": ["listener"], "path": path}
    first.send(message, [listener.fileno()], limit_ms=100)
    listener.close()
    reactor.poll(100)
    assert masters.listens
    real = wire.accept
    monkeypatch.setattr(
        wire, "accept", lambda listener: Stranger(guest._socket) if (guest := real(listener)) else None
    )
    stranger = wire.connect(path, 100)
    stranger.send({"op": "attend", "id": 1, "replace": True}, limit_ms=100)
    reactor.poll(100)
    with pytest.raises(EOFError):
        stranger.receive()
    monkeypatch.undo()
    # One of ours may come in, but wants nothing before it attends.
    guest = wire.connect(path, 100)
    guest.send({"op": "spawn", "id": 7}, limit_ms=100)
    reactor.poll(100)
    reactor.poll(100)
    heard = guest.receive()
    assert heard is not None
    assert "has to attend" in heard[0]["error"]
    guest.close()
    stranger.close()
    first.close()
    while not lost:
        assert reactor.poll(1000)
    masters.close()
    assert not os.path.exists(path)
    reactor.close()


def test_a_message_is_whole_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wire that nobody reads fills up, and says so in time; one whose end is gone says that."""
    ours, theirs = wire.pair()
    numbers = itertools.count()
    with pytest.raises(TimeoutError, match="nobody takes the message"):  # noqa: PT012 - one of many sends
        while True:
            ours.send({"number": next(numbers), "text": "x" * 1000}, limit_ms=20)
    other = Wire(theirs)
    first = other.receive()
    assert first is not None
    assert first[0]["number"] == 0
    other.close()
    with pytest.raises(ConnectionError):
        ours.send({}, limit_ms=20)
    assert ours.ended()
    ours.close()


def test_descriptors_that_cannot_be_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no descriptor left for those that come with a message it is an error, and none of them leaks."""
    import resource

    ours, theirs = wire.pair()
    other = Wire(theirs)
    ours.send({"text": "x"}, [0, 1, 2], limit_ms=20)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = helpers.descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 2, usual[1]))
    spare = []
    try:
        with contextlib.suppress(OSError):
            while True:
                spare.append(os.dup(0))
        with pytest.raises(OSError, match="open files"):
            other.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        wire.close(spare)
    assert helpers.descriptors() <= before
    ours.close()
    other.close()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (False, r"^the keeper does not answer$"),
        (True, r"^the keeper is gone; what it held is found by its marks only$"),
    ],
)
def test_somebody_who_listens_and_says_nothing(
    answers: bool, words: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens where a keeper should, and is none, makes an error in time."""
    monkeypatch.setattr(talk, "ANSWER_LIMIT", 300)
    listener = wire.listen(path)

    def hang_up() -> None:
        helpers.wait_until(lambda: (guest := wire.accept(listener)) and (guest.close() or True))

    thread = threading.Thread(target=hang_up)
    if answers:
        thread.start()
    with pytest.raises(KeeperError, match=words):
        Keeper.connect(path)
    if answers:
        thread.join()
    listener.close()
