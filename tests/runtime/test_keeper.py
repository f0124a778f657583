"""The keeper as a parent: what it starts is started as if we had done it ourselves, and belongs to its run."""

import os
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

import helpers
import keepers
from keepers import Ended, give_back, keeping, launch, shell
from longwatch.posix import kin, nursery
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import INHERIT, MERGED, PIPE, PTY, Launch, SpawnError
from longwatch.posix.spawn_in import spawn_in
from longwatch.posix.tree import Tree
from longwatch.runtime import birth
from longwatch.runtime.kept import Keeper, KeeperError

# What no process of ours loads that stays small.
BARRED = {
    "re", "enum", "typing", "functools", "contextlib", "collections", "dataclasses", "subprocess", "json", "signal",
    "argparse", "pathlib", "logging", "asyncio", "threading", "socket", "ctypes", "selectors", "shutil", "tempfile",
    "inspect", "importlib.metadata",
}  # fmt: skip
RLIMIT_LOCKS = 10


@pytest.fixture
def keeper():
    with keeping() as keeper:
        yield keeper


def tree_of(child) -> Tree:
    return Tree(child.identity, child.run_id, subreaper=False, nursery=child.nursery)


# Starting


def test_a_kept_program_is_like_any_other(keeper: Keeper) -> None:
    """Streams, exit code and identity of a program are those that it would have as a child of ours."""
    child = keeper.spawn(shell("echo out; echo err >&2; exit 7"), "k1")
    assert child.identity is not None
    assert child.identity.pid == child.pid
    done = Ended(child)
    assert (done.code, done.signal, done.out, done.err) == (7, None, "out\n", "err\n")


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("exit 0", (0, None)),
        ("exit 255", (255, None)),
        ("kill -9 $$", (None, 9)),
        ("kill -TERM $$", (None, 15)),
    ],
)
def test_the_end_is_the_real_one(keeper: Keeper, script: str, end: tuple[int | None, int | None]) -> None:
    """Exit codes and signals come through, and the leader is collected only when we have said that we know."""
    child = keeper.spawn(shell(script), "k1")
    helpers.wait_until(lambda: child.peek() is not None)
    assert keepers.state(child.pid) == "Z"
    assert child.peek() == child.reap() == child.reap() == end
    helpers.wait_until(lambda: not keepers.state(child.pid))
    give_back(child)


def test_a_program_that_runs_cannot_be_reaped(keeper: Keeper) -> None:
    """To reap what still runs is an error, as for any child."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    assert child.peek() is None
    with pytest.raises(RuntimeError, match="still runs"):
        child.reap()
    give_back(child)


def test_a_program_in_a_job_control_stop_says_so(keeper: Keeper) -> None:
    """Whether the leader is stopped can be asked although it is no child of ours."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    assert not child.stopped()
    os.kill(child.pid, signal.SIGSTOP)
    helpers.wait_until(child.stopped)
    give_back(child)


def test_a_terminal_is_made_and_lent(keeper: Keeper) -> None:
    """A program on a terminal has it as its controlling one, in the size that was asked for."""
    child = keeper.spawn(shell("stty size; test -t 0 -a -t 2 && echo all >/dev/tty", output=PTY, size=(33, 44),
                               stdin=INHERIT), "k1")  # fmt: skip
    assert Ended(child, merged=True).out == "33 44\r\nall\r\n"


def test_a_terminal_beside_a_pipe(keeper: Keeper) -> None:
    """With stderr apart the terminal has stdout alone."""
    child = keeper.spawn(shell("echo out; echo err >&2", output=PTY, apart=True), "k1")
    done = Ended(child)
    assert (done.out, done.err) == ("out\r\n", "err\n")


def test_a_terminal_is_made_like_ours(keeper: Keeper) -> None:
    """The settings of a terminal of ours are those of the program's."""
    with helpers.Screen(["sh", "-c", "stty erase '#'; echo set; exec sleep 60"]) as screen:
        screen.wait_for("set")
        child = keeper.spawn(shell("stty -a", output=PTY, stdin=INHERIT, like=screen.terminal), "k1")
        assert "erase = #" in Ended(child, merged=True).out


def test_one_pipe_for_both_streams(keeper: Keeper) -> None:
    """Merged streams keep their order."""
    child = keeper.spawn(shell("echo 1; echo 2 >&2; echo 3", output=MERGED), "k1")
    assert child.stderr_fd is None
    assert Ended(child, merged=True).out == "1\n2\n3\n"


def test_stdin_is_a_descriptor_of_ours(keeper: Keeper, tmp_path: Path) -> None:
    """A program reads from a descriptor that we have open, and has no other of ours or of the keeper's."""
    (tmp_path / "given").write_text("words\n")
    with (tmp_path / "given").open() as given:
        child = keeper.spawn(shell("cat; ls /proc/self/fd", stdin=given.fileno()), "k1")
        assert Ended(child).out.split() == [
            "words",
            "0",
            "1",
            "2",
            "3",
        ]  # the last one is the folder that `ls` reads


def test_stdin_and_output_of_our_own(keeper: Keeper, capfd: pytest.CaptureFixture[str]) -> None:
    """What is inherited is ours, not the keeper's."""
    child = keeper.spawn(
        shell("echo out; echo err >&2; readlink /proc/self/fd/0", output=INHERIT, stdin=INHERIT), "k1"
    )
    helpers.wait_until(lambda: child.peek() is not None)
    give_back(child)
    out, err = capfd.readouterr()
    assert (out, err) == (f"out\n{os.readlink('/proc/self/fd/0')}\n", "err\n")


def test_stdin_that_we_have_closed_is_empty(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose stdin would be inherited where there is none reads nothing."""
    real = os.fstat

    def fstat(fd: int) -> os.stat_result:
        if fd == 0:
            raise OSError(9, "Bad file descriptor")
        return real(fd)

    monkeypatch.setattr(os, "fstat", fstat)
    child = keeper.spawn(shell("cat; readlink /proc/self/fd/0", stdin=INHERIT), "k1")
    monkeypatch.undo()
    assert Ended(child).out == "/dev/null\n"


def test_a_stdin_pipe_ends_when_we_close_it(keeper: Keeper) -> None:
    """A keeper that stops with us holds no end of a stdin pipe: ours is the only one."""
    child = keeper.spawn(launch("cat", stdin=PIPE), "k1")
    assert child.stdin_fd is not None
    os.write(child.stdin_fd, b"words\n")
    os.close(child.stdin_fd)
    child.stdin_fd = None
    assert Ended(child).out == "words\n"


def test_folders_are_ours(keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative folders and programs mean what they mean here, also in a folder that has been deleted."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "tool").write_text("#!/bin/sh\npwd\n")
    (folder / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert Ended(keeper.spawn(shell("pwd"), "k1")).out == f"{tmp_path}\n"
    assert Ended(keeper.spawn(launch("./tool", cwd="a"), "k2")).out == f"{folder}\n"
    monkeypatch.chdir(folder)
    assert Ended(keeper.spawn(launch("./tool"), "k3")).out == f"{folder}\n"
    (folder / "tool").unlink()
    folder.rmdir()
    assert Ended(keeper.spawn(launch("readlink", "/proc/self/cwd"), "k4")).out == f"{folder} (deleted)\n"
    assert os.readlink(f"/proc/{keeper.pid}/cwd") == "/"


def test_words_are_passed_byte_by_byte(keeper: Keeper) -> None:
    """Arguments and environment may hold what is no text, and megabytes of it."""
    word, long = os.fsdecode(b"\xff\xfe \n'"), "x" * 100_000
    env = {"ODD": word, **{f"LONG{n}": long for n in range(15)}}
    child = keeper.spawn(
        launch("sh", "-c", 'printf "%s|%s|%s" "$1" "$ODD" "${#LONG14}"', "sh", word, env=env), "k1"
    )
    assert Ended(child).out == f"{word}|{word}|100000"


def test_what_a_program_starts_with_is_clean(keeper: Keeper) -> None:
    """Signals and parent are as they should be, though the keeper itself is deaf to much."""
    done = Ended(keeper.spawn(launch("cat", "/proc/self/status"), "k1"))
    said = dict(line.split(":\t") for line in done.out.splitlines())
    assert int(said["PPid"]) == keeper.pid
    standard = (1 << 31) - 1  # the C library has two more for itself
    assert int(said["SigIgn"], 16) & standard & ~_ignored_here() == 0
    assert (int(said["SigBlk"], 16), int(said["SigCgt"], 16)) == (0, 0)


def _ignored_here() -> int:
    """Return what was ignored before us: HUP, INT and QUIT stay so."""
    lines = Path("/proc/self/status").read_text().splitlines()
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    return ignored & sum(1 << n - 1 for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT))


def test_many_threads_share_a_keeper(keeper: Keeper) -> None:
    """Each of many threads gets its own program, its own output and its own end."""
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(5):
            done = Ended(keeper.spawn(shell(f"echo {number}.{turn}; exit {number}"), f"k{number}.{turn}"))
            if (done.code, done.out) != (number, f"{number}.{turn}\n"):
                wrong.append((number, turn, done.code, done.out))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_is_kept_of_what_is_over(keeper: Keeper) -> None:
    """After a hundred runs, some of which never came to be, both sides have as many descriptors as after one."""
    Ended(keeper.spawn(shell("echo"), "first"))
    ours, theirs = helpers.descriptors(), _settled(keeper)
    for number in range(100):
        options = ({}, {"output": PTY, "stdin": INHERIT}, {"stdin": PIPE, "output": MERGED})[number % 3]
        Ended(keeper.spawn(shell("echo", **options), f"k{number}"))
        with pytest.raises(SpawnError):
            keeper.spawn(launch("no-such-program", cwd="/usr"), f"s{number}")
    assert helpers.descriptors() <= ours
    helpers.wait_until(lambda: _settled(keeper) == theirs)
    assert keeper.runs() == []


def _settled(keeper: Keeper) -> int:
    keeper.runs()  # it has done by then what it was told before
    return len(os.listdir(f"/proc/{keeper.pid}/fd"))


# What cannot be started


def refused(tmp_path: Path, why: str) -> Launch:
    plain = tmp_path / "plain"
    plain.write_text("#!/nowhere/interpreter\n")
    plain.chmod(0o755 if why == "interpreter" else 0o644)
    return {
        "unknown": launch("no-such-program"),
        "missing": launch("./no-such-program"),
        "empty": launch(),
        "plain": launch(str(plain)),
        "interpreter": launch(str(plain)),
        "folder": launch("/usr"),
        "cwd": launch("true", cwd="no/such/folder"),
        "cwd is a file": launch("true", cwd=str(plain)),
        "long": launch("true", "x" * 200_000),
        "stdin": launch("true", stdin=999),
    }[why]


@pytest.mark.parametrize(
    "why",
    [
        "unknown",
        "missing",
        "empty",
        "plain",
        "interpreter",
        "folder",
        "cwd",
        "cwd is a file",
        "long",
        "stdin",
    ],
)
def test_a_start_fails_in_the_same_words(keeper: Keeper, tmp_path: Path, why: str) -> None:
    """What cannot be started says the same, with the same status and cause, as without a keeper."""
    what = refused(tmp_path, why)
    with pytest.raises(SpawnError) as usual:
        spawn_in(what)
    with pytest.raises(SpawnError) as kept:
        keeper.spawn(what, "k1")
    assert (kept.value.message, kept.value.status) == (usual.value.message, usual.value.status)
    assert not isinstance(kept.value, KeeperError)
    causes = [error.value.__cause__ for error in (kept, usual)]
    assert len({cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno}) <= 1
    assert Ended(keeper.spawn(launch("true"), "k1")).code == 0


def test_a_folder_that_may_not_be_entered(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that vanishes into somebody else's hands between us and the keeper is named."""
    given = os.open(tmp_path / "..", os.O_PATH)
    (tmp_path / "file").touch()
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest: real(str(tmp_path / "file"), os.O_PATH | os.O_CLOEXEC)
    )
    with pytest.raises(SpawnError, match=r"^some/folder: not a directory$") as error:
        keeper.spawn(launch("true", cwd="some/folder"), "k1")
    assert error.value.status == 126
    os.close(given)


def test_what_a_keeper_cannot_do_is_said_at_once(keeper: Keeper) -> None:
    """A run has an id and a session of its own; a keeper either stops or keeps, and then has a path."""
    with pytest.raises(ValueError, match="have an id"):
        keeper.spawn(Launch(["true"], {}))
    with pytest.raises(ValueError, match="session of its own"):
        keeper.spawn(Launch(["true"], {}, new_session=False), "k1")
    for words in [("keep",), ("linger",)]:
        with pytest.raises(ValueError, match="write 'stop', or 'keep' and a path"):
            Keeper.start(*words)


def test_the_id_is_taken_from_the_environment(keeper: Keeper) -> None:
    """A program that is marked with its run's id needs no other; one that is not is marked with the given one."""
    child = keeper.spawn(launch("printenv", "LONGWATCH_RUN_ID", env={"LONGWATCH_RUN_ID": "outer/inner"}))
    assert child.run_id == "outer/inner"
    assert Ended(child).out == "outer/inner\n"
    assert Ended(keeper.spawn(launch("printenv", "LONGWATCH_RUN_ID"), "k1")).out == "k1\n"


def test_asking_twice_gives_one_program(keeper: Keeper) -> None:
    """A start that is asked for again by the same id returns the program that runs."""
    first = keeper.spawn(shell("echo $$; exec sleep 60"), "k1")
    second = keeper.spawn(shell("echo $$; exec sleep 60"), "k1")
    assert (first.pid, first.identity, first.started) == (second.pid, second.identity, second.started)
    assert second.stdout_fd is not None
    assert keepers.read_line(second.stdout_fd) == f"{first.pid}\n"
    assert [run.pid for run in keeper.runs()] == [first.pid]
    os.kill(first.pid, signal.SIGKILL)
    give_back(first)
    assert Ended(second).signal == 9


def test_a_keeper_out_of_descriptors_says_so_and_goes_on(keeper: Keeper) -> None:
    """A keeper that can open nothing more refuses the next start, and works again when it can."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    usual = resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE)
    said: list[str] = []
    for spare in range(8):
        used = max(int(name) for name in os.listdir(f"/proc/{keeper.pid}/fd"))
        resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, (used + 1 + spare, usual[1]))
        try:
            Ended(keeper.spawn(shell("echo"), f"s{spare}"))
        except SpawnError as error:
            said.append(str(error))
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, usual)
    assert said
    assert all("open files" in words for words in said), said
    assert Ended(keeper.spawn(shell("echo"), "k2")).out == "\n"
    assert [run.run_id for run in keeper.runs()] == ["k1"]
    give_back(child)


# The tree

ESCAPES = {
    "session": "setsid sleep 60 & sleep 60",
    "double fork": "(setsid sh -c '(sleep 60; true) & exit' &); sleep 60",
    "no environment": "(setsid env -i sleep 60 &); sleep 60",
    "no parent": "(sleep 60 &); (sleep 61 &); sleep 60",
    "stubborn": "trap '' TERM HUP; (setsid sh -c 'trap \"\" TERM; sleep 60; sleep 60' &); sleep 60; sleep 60",
    "stopped": "setsid sh -c 'kill -STOP $$' & sleep 60",
}


@pytest.mark.capability("CAP-59", "CAP-72")
@pytest.mark.parametrize("way", ESCAPES)
@pytest.mark.parametrize("alone", [True, False])
def test_nothing_leaves_the_tree(keeper: Keeper, way: str, alone: bool) -> None:
    """Whatever a program starts belongs to its run, also beside another run, and the tree's end is proven."""
    other = None if alone else keeper.spawn(shell("(setsid env -i sleep 60 &); exec sleep 60"), "other")
    if other is not None:
        helpers.wait_until(lambda: sorted(_names(keeper)) == ["sleep", "sleep"])
    before = set(helpers.descendants(keeper.pid))
    child = keeper.spawn(shell(ESCAPES[way]), "k1")
    wanted = 2 if way in ("session", "stopped") else 3
    tree = tree_of(child)
    assert tree.proof == "subreaper"
    helpers.wait_until(lambda: len(tree.members()) >= wanted, what=f"{wanted} processes")
    assert not before & {member.pid for member in tree.members()}
    tree.signal(signal.SIGTERM)
    assert tree.kill() == []
    helpers.wait_until(lambda: set(helpers.descendants(keeper.pid)) == before)
    give_back(child)
    if other is not None:
        assert len(tree_of(other).members()) == 2
        give_back(other)


def _names(keeper: Keeper) -> list[str]:
    return [helpers.command_line(pid).partition(" ")[0] for pid in helpers.descendants(keeper.pid)]


def test_an_orphan_without_brand_is_told_by_session_or_mark(keeper: Keeper) -> None:
    """Who has shed the number that it was born with still belongs to its run by session, group or mark."""
    scripts = {
        "other": "read x; (setsid env -i sleep 60 &); exec sleep 60",
        "k1": "read x; (setsid sleep 61 &); (env -i sleep 62 &); exec sleep 63",
    }
    children = {name: keeper.spawn(shell(script, stdin=PIPE), name) for name, script in scripts.items()}
    for child in children.values():
        resource.prlimit(child.pid, RLIMIT_LOCKS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert child.stdin_fd is not None
        os.write(child.stdin_fd, b"\n")
    helpers.wait_until(lambda: sorted(_names(keeper)) == ["sleep"] * 5)
    words = [helpers.command_line(member.pid) for member in tree_of(children["k1"]).members()]
    assert sorted(words) == ["sleep 61", "sleep 62", "sleep 63"]
    # The one without session, mark and brand is nobody's while there are two, and the other's once it is alone.
    assert len(tree_of(children["other"]).members()) == 1
    assert tree_of(children["k1"]).kill() == []
    helpers.wait_until(lambda: children["k1"].peek() is not None)
    children["k1"].reap()
    assert len(tree_of(children["other"]).members()) == 2
    assert tree_of(children["k1"]).members() == []
    for child in children.values():
        give_back(child)


def test_a_brand_says_more_than_a_mark(keeper: Keeper) -> None:
    """A run within a run carries the marks of both, and still belongs to one of them."""
    script = "(setsid sleep 60 &); exec sleep 61"
    outer = keeper.spawn(shell(script, env={"LONGWATCH_RUN_ID": "outer"}))
    inner = keeper.spawn(shell(script, env={"LONGWATCH_RUN_ID": "outer/inner"}))
    helpers.wait_until(lambda: sorted(_names(keeper)) == ["sleep"] * 4)
    members = [{member.pid for member in tree_of(child).members()} for child in (outer, inner)]
    assert [len(found) for found in members] == [2, 2]
    assert not members[0] & members[1]
    for child in (outer, inner):
        give_back(child)


def test_what_a_forgotten_run_left_is_nobody_elses(keeper: Keeper) -> None:
    """Leftovers of a run that was forgotten do not belong to the next one, though it is alone."""
    left = keeper.spawn(shell("(setsid env -i sleep 60 >/dev/null 2>&1 &)"), "left")
    assert Ended(left).code == 0
    child = keeper.spawn(launch("sleep", "61"), "k1")
    helpers.wait_until(lambda: len(helpers.descendants(keeper.pid)) == 2)
    assert [member.pid for member in tree_of(child).members()] == [child.pid]
    give_back(child)


def test_where_limits_are_limited_runs_have_no_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel refuses the number, and for a process that is gone, there is none."""

    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert not nursery.wear(nursery.new_brand())
    assert nursery.brand_of(1 << 22) == 0
    assert nursery.brand_of(os.getpid()) == 0


def test_a_kernel_without_lists_of_children(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the whole table is read, and the tree of a run is the same."""
    child = keeper.spawn(shell("(setsid env -i sleep 60 &); exec sleep 61"), "k1")
    helpers.wait_until(lambda: sorted(_names(keeper)) == ["sleep"] * 2)
    usual = sorted(member.pid for member in tree_of(child).members())
    monkeypatch.setattr(kin, "has_children_files", lambda: False)
    tree = tree_of(child)
    assert tree.proof == "subreaper"
    assert sorted(member.pid for member in tree.members()) == usual
    assert tree.kill() == []
    give_back(child)


def test_orphans_are_reaped(keeper: Keeper) -> None:
    """A keeper collects the orphans that it adopted, while the leader stays until we say so."""
    child = keeper.spawn(shell("for n in 1 2 3 4 5; do (sleep 0.05 &); done; exit 3"), "k1")
    helpers.wait_until(lambda: child.peek() is not None)

    def children() -> list[int]:
        listed = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    helpers.wait_until(lambda: children() == [child.pid])
    assert child.reap() == (3, None)
    helpers.wait_until(lambda: children() == [])
    give_back(child)


def test_a_storm_beside_a_quiet_run(keeper: Keeper) -> None:
    """A storm of short-lived processes is ended, and the run beside it is not touched."""
    from longwatch.testing.children import fork_storm

    quiet = keeper.spawn(launch("sleep", "60"), "quiet")
    child = keeper.spawn(launch(*fork_storm(3, 20)), "storm")
    assert child.stdout_fd is not None
    keepers.read_line(child.stdout_fd)
    assert tree_of(child).kill() == []
    helpers.wait_until(lambda: helpers.descendants(keeper.pid) == [quiet.pid])
    give_back(child)
    give_back(quiet)


# The process itself


def test_a_keeper_holds_nothing_by_chance() -> None:
    """It lives in a session of its own, in the root folder, under its own name, with no descriptor of ours."""
    chance = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(chance, True)
    with keeping() as keeper:
        keeper.runs()
        links = {os.readlink(f"/proc/{keeper.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{keeper.pid}/fd")}
        assert "/dev/zero" not in links
        assert os.readlink(f"/proc/{keeper.pid}/fd/1") == "/dev/null"
        assert os.getsid(keeper.pid) == keeper.pid
        assert Path(f"/proc/{keeper.pid}/comm").read_text() == "longwatch-keep\n"
    os.close(chance)


def test_a_keeper_is_deaf_to_what_is_sent_to_everybody(keeper: Keeper) -> None:
    """Signals of terminals and of impatient humans neither end nor stop it."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    names = ("HUP", "INT", "QUIT", "TSTP", "TTIN", "TTOU", "ALRM", "USR1", "USR2", "PIPE")
    for number in [getattr(signal, f"SIG{name}") for name in names]:
        os.kill(keeper.pid, number)
    assert keeper.alive
    assert [run.run_id for run in keeper.runs()] == ["k1"]
    give_back(child)


def test_a_keeper_that_is_told_to_end_ends_everything() -> None:
    """TERM stops all runs in order, and then the keeper."""
    keeper = Keeper.start()
    child = keeper.spawn(
        shell("trap 'echo clean; exit 5' TERM; echo ready; while :; do sleep 0.01; done"), "k1"
    )
    assert child.stdout_fd is not None
    keepers.read_line(child.stdout_fd)
    os.kill(keeper.pid, signal.SIGTERM)
    helpers.wait_until(lambda: keepers.ended(keeper.pid))
    assert keepers.read_line(child.stdout_fd) == "clean\n"
    assert child.peek() == (5, None)
    assert not keeper.alive
    with pytest.raises(KeeperError, match=r"^keeper \d+ is gone; what it held is found by its marks only$"):
        keeper.spawn(launch("true"), "k2")
    give_back(child)
    assert keeper.close() == []


def test_garbage_does_not_hurt(keeper: Keeper) -> None:
    """A request that makes no sense is answered with what was wrong, and the next one is served."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    for nonsense in (
        {},
        {"op": "dance"},
        {"op": "spawn"},
        {"op": "spawn", "run": "k2"},
        {"op": "lend", "run": "k3"},
    ):
        with pytest.raises(KeeperError):
            keeper._ask(nonsense)
    keeper._talk.wire._socket.send(b"no message at all")
    keeper.forget("nobody")
    keeper.shut_stdin("nobody")
    assert [run.run_id for run in keeper.runs()] == ["k1"]
    give_back(child)


def test_a_keeper_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No interpreter, none that works, and another system are one line each."""
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(KeeperError, match=r"^no keeper could be started: no such file or directory$"):
        Keeper.start()
    monkeypatch.setattr("sys.executable", "/bin/false")
    keeper = Keeper.start()
    with pytest.raises(
        KeeperError, match=r"^keeper \d+ ended at its start; is /bin/false the Python that runs this\?$"
    ):
        keeper.spawn(launch("true"), "k1")
    assert keeper.close() == []
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(KeeperError, match=r"^a keeper needs Linux"):
        Keeper.start()


def test_closing_ends_all_that_is_left(keeper: Keeper) -> None:
    """Closing a keeper ends whatever runs below it, first in order, and returns when nothing is left."""
    child = keeper.spawn(shell("trap 'echo clean; exit' TERM; (setsid env -i sleep 60 &); echo ready; "
                               "while :; do sleep 0.01; done"), "k1")  # fmt: skip
    assert child.stdout_fd is not None
    keepers.read_line(child.stdout_fd)
    below = helpers.descendants(keeper.pid)
    assert len(below) >= 2
    assert keeper.close() == keeper.close() == []
    assert not [pid for pid in below if helpers.alive(pid)]
    assert not os.path.exists(f"/proc/{keeper.pid}")
    assert keepers.read_line(child.stdout_fd) == "clean\n"
    with pytest.raises(KeeperError, match="was closed"):
        keeper.spawn(launch("true"), "k2")
    give_back(child)


def test_a_keeper_that_is_forgotten_goes(recwarn: pytest.WarningsRecorder) -> None:
    """Nobody has to close a keeper: when its object is gone so is everything, quietly, and the next one buries it."""
    keeper = Keeper.start()
    script = "trap 'head -c 300000 /dev/zero; exit' TERM; echo ready; while :; do sleep 0.01; done"
    pid, child = keeper.pid, keeper.spawn(shell(script), "k1")
    terminal = keeper.spawn(shell(script, output=PTY, stdin=INHERIT), "k2")
    for one in (child.stdout_fd, terminal.master_fd):
        assert one is not None
        keepers.read_line(one)
    leader = child.pid
    give_back(terminal)
    give_back(child)
    del keeper, child, terminal
    helpers.wait_until(lambda: keepers.ended(pid) and keepers.ended(leader))
    with keeping():
        assert not os.path.exists(f"/proc/{pid}")
    assert not list(recwarn)


def test_a_fork_of_ours_is_not_the_master(keeper: Keeper) -> None:
    """In a fork a keeper can be closed, which harms nothing, and not used."""
    child = keeper.spawn(launch("sleep", "60"), "k1")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            keeper.runs()
        except KeeperError:
            status = 0 if keeper.close() == [] and not keeper.alive else 2
        os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert keeper.alive
    assert [run.run_id for run in keeper.runs()] == ["k1"]
    give_back(child)


def test_a_process_drives_it_without_a_special_case(keeper: Keeper) -> None:
    """A run that is over late is noticed by the same descriptor as any other."""
    child = keeper.spawn(shell("sleep 0.2; exit 4"), "k1")
    process = Process(child, Reactor(), {}, merged=False)
    changed: list[object] = []
    process.changed = lambda: changed.append(process.ended)
    helpers.wait_until(lambda: process.run_until(0) or process.reactor.poll(50) is None)
    assert process.ended == (4, None)
    assert changed[-1] == (4, None)
    process.close()


def test_a_keeper_loads_nothing_expensive() -> None:
    """The process that stays for as long as its programs do loads no module that costs more than it needs."""
    code = (
        "import sys; sys.path.append('src'); before = set(sys.modules)\n"
        "import longwatch.runtime.keeper; print(*(set(sys.modules) - before))"
    )
    done = helpers.run_command(
        [sys.executable, *birth.INTERPRETER, "-c", code], measured=False, cwd=helpers.ROOT
    )
    loaded = set(done.out.split())
    assert "longwatch.runtime.masters" in loaded, done.err
    assert not loaded & BARRED
    assert len([name for name in loaded if name.startswith("longwatch")]) <= 32
