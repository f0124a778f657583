"""What a loop has its keeper do: programs start side by side, and a keeper that does not answer holds nobody up."""

import contextlib
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers
import keepers
from keepers import Ended, launch, shell
from longwatch.posix.child import UNKNOWN, Child
from longwatch.posix.spawn import PIPE, SpawnError
from longwatch.runtime import errands, talk
from longwatch.runtime.errands import DEPTH, HANDED, Errands
from longwatch.runtime.host import Host
from longwatch.runtime.kept import Keeper, KeptChild, NoKeeper
from longwatch.runtime.talk import KeeperError


class Loop:
    """A host, a keeper that outlives its master, and what it answered."""

    def __init__(self, path: Path) -> None:
        self.host = Host()
        self.keeper = Keeper.at(str(path))
        self.keeper.runs()
        self.errands = Errands(self.host, self.keeper)
        self.told: dict[str, Any] = {}

    def start(self, run: str, what: Any) -> None:
        """Ask for a start."""
        self.errands.start(what, run, lambda told: self.told.__setitem__(run, told))

    def until(self, true: Callable[[], object], deadline: float = 10.0) -> None:
        """Go round until something is true."""

        def turned() -> bool:
            self.host.turn(20)
            return bool(true())

        helpers.wait_until(turned, deadline)

    def end_of(self, run: str) -> Ended:
        """Wait for the end of a program, and have it forgotten."""
        done = Ended(self.told[run])
        self.errands.forget(run)
        return done

    def stop_keeper(self) -> None:
        """Have the keeper stand still."""
        os.kill(self.keeper.pid, signal.SIGSTOP)
        helpers.wait_until(lambda: keepers.state(self.keeper.pid) == "T")


@contextlib.contextmanager
def looping(path: Path) -> Iterator[Loop]:
    loop = Loop(path)
    try:
        yield loop
    finally:
        loop.errands.close()
        loop.keeper.stop()
        loop.host.close()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with looping(tmp_path / "k") as made:
        yield made


def test_many_starts_are_under_way_at_once(loop: Loop) -> None:
    """Each of more programs than fit on the way is started once, in its order, and is known by its own output and end."""
    gc.collect()
    before = helpers.descriptors()
    for number in range(3 * DEPTH):
        loop.start(f"e{number}", shell(f"echo {number}; exit {number}"))
    loop.until(lambda: len(loop.told) == 3 * DEPTH)
    for number in range(3 * DEPTH):
        done = loop.end_of(f"e{number}")
        assert (done.code, done.out) == (number, f"{number}\n")
    helpers.wait_until(lambda: not loop.keeper.runs())
    assert helpers.descriptors() <= before


def test_a_kept_program_costs_a_descriptor_for_its_end_and_one_for_its_output(loop: Loop) -> None:
    """Thousands of programs fit into the limit of open files."""
    loop.start("warm", launch("true"))
    loop.until(lambda: loop.told)
    loop.end_of("warm")
    gc.collect()
    before = helpers.descriptors()
    loop.start("e1", launch("sleep", "60", output="merged"))
    loop.until(lambda: "e1" in loop.told)
    assert len(helpers.descriptors() - before) <= 2
    child = loop.told["e1"]
    os.close(child.stdout_fd)
    child.close()


def test_what_cannot_be_started_is_told_in_the_usual_words(loop: Loop) -> None:
    """No folder, no program: each is told to whoever asked, and the next one starts."""
    loop.start("e1", launch("true", cwd="/no/such"))
    loop.start("e2", launch("no-such-program", cwd="/usr"))
    loop.start("e3", shell("echo here"))
    loop.until(lambda: len(loop.told) == 3)
    assert str(loop.told["e1"]) == "/no/such: no such file or directory"
    assert isinstance(loop.told["e2"], SpawnError)
    assert loop.told["e2"].status == 127
    assert loop.end_of("e3").out == "here\n"


def test_a_question_in_between_takes_no_answer_away(loop: Loop) -> None:
    """Who asks the keeper and waits meets the answers to others, which are handed on."""
    loop.start("e1", shell("echo one"))
    assert [run.run_id for run in loop.keeper.runs()] == ["e1"]
    loop.until(lambda: loop.told)
    assert loop.end_of("e1").out == "one\n"


def answered(loop: Loop, count: int) -> None:
    """Have the keeper's answers taken, and nobody told yet."""

    def taken() -> bool:
        loop.errands.heard()
        return len(loop.errands._answered) == count

    helpers.wait_until(taken)


def test_programs_are_handed_on_in_portions(loop: Loop) -> None:
    """Between two portions the loop sees to what has come, and to timers: a burst of starts holds nothing else up."""
    before: list[int] = []
    for number in range(3 * HANDED):
        loop.start(f"e{number}", launch("true"))
    answered(loop, 3 * HANDED)
    assert not loop.told
    while len(loop.told) < 3 * HANDED:
        before.append(len(loop.told))
        loop.host.turn(20)
    assert [seen for seen in before if seen] == [HANDED, 2 * HANDED]
    assert list(loop.told) == [f"e{number}" for number in range(3 * HANDED)]
    for run in loop.told:
        loop.end_of(run)


def test_whoever_raises_keeps_no_program_from_others(loop: Loop) -> None:
    """A defect of one that waits is told to the host; the others get their programs."""
    failed: list[Exception] = []
    loop.host.failed = failed.append
    loop.errands.start(launch("true"), "bad", lambda told: 1 // 0)
    for number in range(HANDED):
        loop.start(f"e{number}", launch("true"))
    loop.until(lambda: len(loop.told) == HANDED)
    assert [type(error) for error in failed] == [ZeroDivisionError]
    for run in loop.told:
        loop.end_of(run)


def test_what_was_not_handed_on_is_given_back_at_the_end(loop: Loop) -> None:
    """Whoever closes is told nothing more; the program runs on under its keeper, and no descriptor of it is kept."""
    loop.start("warm", launch("true"))
    loop.until(lambda: loop.told)
    loop.end_of("warm")
    gc.collect()
    before = helpers.descriptors()
    loop.start("e1", launch("sleep", "60", output="merged"))
    loop.start("e2", launch("no-such-program", cwd="/usr"))
    answered(loop, 2)
    loop.errands.close()
    assert helpers.descriptors() <= before
    loop.host.turn(20)
    assert list(loop.told) == ["warm"]
    assert [run.run_id for run in loop.keeper.runs() if run.end is None] == ["e1"]


# A keeper that is stopped


def test_a_stopped_keeper_holds_no_loop_up(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is not answered in time has failed and never runs; the loop goes on meanwhile; then all is well."""
    monkeypatch.setattr(talk, "ANSWER_LIMIT", 400)
    loop.stop_keeper()
    ticks: list[int] = []
    for number in range(DEPTH + 2):
        loop.start(f"e{number}", shell("setsid sleep 60 & sleep 61"))
    for step in range(10):
        loop.host.at(loop.host.now() + 30 * step, ticks.append)
    loop.until(lambda: len(ticks) == 10)
    assert not loop.told
    loop.until(lambda: len(loop.told) == DEPTH + 2)
    assert {type(told) for told in loop.told.values()} == {KeeperError}
    assert "does not answer" in str(loop.told["e0"])
    os.kill(loop.keeper.pid, signal.SIGCONT)
    loop.until(lambda: not loop.keeper.runs() and not helpers.descendants(loop.keeper.pid))
    loop.start("again", shell("echo again"))
    loop.until(lambda: "again" in loop.told)
    assert loop.end_of("again").out == "again\n"


def test_what_a_stopped_keeper_takes_no_more_is_said_later(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full socket makes nobody wait: what could not be said, a start or that a run may go, is said afterwards."""
    monkeypatch.setattr(errands, "AGAIN", 10)
    loop.start("e1", launch("true"))
    loop.until(lambda: loop.told)
    Ended(loop.told["e1"])
    loop.stop_keeper()
    while loop.keeper.forget("nobody", 0):
        pass
    loop.errands.forget("e1")
    loop.start("e2", shell("echo two"))
    loop.host.turn(20)
    assert "e2" not in loop.told
    os.kill(loop.keeper.pid, signal.SIGCONT)
    loop.until(lambda: "e2" in loop.told)
    loop.until(lambda: [run.run_id for run in loop.keeper.runs()] == ["e2"])
    assert loop.end_of("e2").out == "two\n"


@pytest.mark.parametrize(("code", "end"), [("exit 7", (7, None)), ("kill -9 $$", (None, 9))])
def test_an_end_under_a_stopped_keeper_is_known_at_once(
    loop: Loop, code: str, end: tuple[int | None, int | None]
) -> None:
    """Nobody waits for the keeper's word: the leader that it has not collected says how it ended."""
    loop.start("e1", shell(f"read x; {code}", stdin=PIPE))
    loop.until(lambda: loop.told)
    loop.stop_keeper()
    os.write(loop.told["e1"].stdin_fd, b"\n")
    before = time.monotonic()
    done = loop.end_of("e1")
    assert (done.code, done.signal) == end
    assert time.monotonic() - before < 0.9
    os.kill(loop.keeper.pid, signal.SIGCONT)


def test_of_an_end_that_the_kernel_does_not_tell_the_keeper_is_asked(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is with a program that runs as another user."""
    monkeypatch.setattr(Child, "_of_zombie", lambda _: UNKNOWN)
    loop.start("e1", shell("exit 5"))
    loop.until(lambda: loop.told)
    assert loop.end_of("e1").code == 5
    helpers.wait_until(lambda: not loop.keeper.runs())
    loop.start("e2", shell("exit 5"))
    loop.until(lambda: "e2" in loop.told)
    helpers.wait_until(lambda: keepers.state(loop.told["e2"].pid) == "Z")
    loop.keeper.forget("e2")
    assert loop.keeper.runs() == []
    assert Ended(loop.told["e2"]).code in (5, None)


# A keeper that dies


def test_whoever_waits_for_a_keeper_that_dies_is_told(loop: Loop) -> None:
    """What was under way and what was not even asked for: all are told, and nothing of it runs."""
    loop.stop_keeper()
    for number in range(DEPTH + 2):
        loop.start(f"e{number}", launch("sleep", "60"))
    os.kill(loop.keeper.pid, signal.SIGKILL)
    loop.until(lambda: len(loop.told) == DEPTH + 2)
    assert {type(told) for told in loop.told.values()} == {NoKeeper}
    loop.start("late", launch("sleep", "60"))
    assert not helpers.processes_with("LONGWATCH_RUN_ID=e0")


def test_an_answer_that_came_before_the_death_counts(loop: Loop) -> None:
    """The program runs, so it is handed over, though its keeper is gone by now."""
    loop.start("e1", launch("sleep", "60"))
    helpers.wait_until(lambda: helpers.processes_with("LONGWATCH_RUN_ID=e1"))
    assert loop.keeper.talk.wire.wait(loop.host.now() + 5_000)
    os.kill(loop.keeper.pid, signal.SIGKILL)
    helpers.wait_until(lambda: not loop.keeper.alive)
    loop.until(lambda: loop.told)
    child = loop.told["e1"]
    assert isinstance(child, KeptChild)
    os.kill(child.pid, signal.SIGKILL)
    assert Ended(child).signal in (9, None)


def test_a_keeper_is_buried_with_its_last_words(loop: Loop) -> None:
    """Who finds it dead while others wait has all of them told: those that it has answered, and those that it has not."""
    loop.start("e1", launch("sleep", "60"))
    assert loop.keeper.talk.wire.wait(loop.host.now() + 5_000)
    loop.stop_keeper()
    loop.start("e2", launch("sleep", "60"))
    os.kill(loop.keeper.pid, signal.SIGKILL)
    helpers.wait_until(lambda: not loop.keeper.alive)
    loop.errands.bury()
    assert {run: type(told) for run, told in loop.told.items()} == {"e1": KeptChild, "e2": NoKeeper}
    child = loop.told["e1"]
    os.kill(child.pid, signal.SIGKILL)
    assert Ended(child).signal in (9, None)


def test_whoever_is_told_may_bury_the_keeper(loop: Loop) -> None:
    """The first one that hears of its program finds that the keeper is gone: the others are told once, and nothing fails."""

    def first(told: Any) -> None:
        loop.told["first"] = told
        os.kill(loop.keeper.pid, signal.SIGKILL)
        helpers.wait_until(lambda: not loop.keeper.alive)
        loop.errands.bury()

    loop.errands.start(launch("true"), "first", first)
    loop.start("e1", launch("true"))
    answered(loop, 2)
    loop.until(lambda: len(loop.told) == 2)
    assert {type(told) for told in loop.told.values()} == {KeptChild}
    for child in loop.told.values():
        Ended(child)


def test_what_a_dying_keeper_began_without_saying_so_is_ended(loop: Loop) -> None:
    """Nobody knows of the program but by its mark: it must not run beside the one that is started in its place."""
    loop.start("lost-1", launch("sleep", "60"))
    helpers.wait_until(lambda: helpers.processes_with("LONGWATCH_RUN_ID=lost-1"))
    os.kill(loop.keeper.pid, signal.SIGKILL)
    helpers.wait_until(lambda: not loop.keeper.alive)
    while loop.keeper.talk.wire.wait(0):  # its answer does not reach us
        try:
            message = loop.keeper.talk.wire.receive()
        except EOFError:
            break
        if message is not None:
            for fd in message[1]:
                os.close(fd)
    loop.until(lambda: loop.told)
    assert isinstance(loop.told["lost-1"], NoKeeper)
    assert not helpers.processes_with("LONGWATCH_RUN_ID=lost-1")
