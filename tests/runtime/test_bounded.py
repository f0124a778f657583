"""Short commands beside a run: a real timeout, the end of the output, and nothing left behind."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

import helpers
from longwatch.posix import now
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import SpawnError
from longwatch.runtime import bounded as module
from longwatch.runtime.bounded import Bounded, sh


class Loop:
    """A host as small as can be."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.told: list[tuple[int | None, str]] = []

    def start(self, script: str, limit_ms: int = 10_000, **options: Any) -> Bounded:
        options = {"on_done": lambda code, text: self.told.append((code, text))} | options
        return Bounded(self.reactor, sh(script), limit_ms=limit_ms, **options)

    def run(self, script: str, limit_ms: int = 10_000, **options: Any) -> tuple[int | None, str]:
        return self.wait(self.start(script, limit_ms, **options))

    def wait(self, command: Bounded) -> tuple[int | None, str]:
        deadline = time.monotonic() + 10
        while not command.done and time.monotonic() < deadline:
            due = command.next_deadline()
            assert due is not None
            self.reactor.poll(max(0, due - now()))
            command.step(now())
        assert command.next_deadline() is None
        (answer,) = self.told
        return answer


@pytest.fixture
def loop() -> Iterator[Loop]:
    before = helpers.descriptors()
    loop = Loop()
    yield loop
    loop.reactor.close()
    assert helpers.descriptors() <= before


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo out; echo err >&2", (0, "out\nerr\n")),
        ("echo no; exit 75", (75, "no\n")),
        ("kill -KILL $$", (137, "")),
        ("cat", (0, "")),
        ("printf '\\377'", (0, "\ufffd")),
    ],
)
def test_a_command_is_told_with_its_status_and_output(
    script: str, answer: tuple[int, str], loop: Loop
) -> None:
    """Its code or 128+N and both streams in order are told once; without input there is nothing to read."""
    assert loop.run(script) == answer


def test_only_the_end_of_much_output_is_kept(loop: Loop) -> None:
    """Of any amount of output the last 4 KiB are told."""
    code, text = loop.run("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert code == 0
    assert len(text) == 4096
    assert text.endswith("xxx\nend\n")


def test_input_of_any_size_is_read(loop: Loop) -> None:
    """More input than a pipe holds reaches the command, and its end does too."""
    assert loop.run("wc -c", stdin=b"x" * 3_000_000) == (0, "3000000\n")


def test_environment_and_folder_are_the_callers(loop: Loop, tmp_path: Any) -> None:
    """The command sees the variables and the folder that it was given."""
    assert loop.run("echo $A; pwd", env={"A": "b", "PATH": os.defpath}, cwd=str(tmp_path)) == (
        0,
        f"b\n{tmp_path}\n",
    )


def test_the_limit_ends_a_command(loop: Loop) -> None:
    """At its limit the command is told to end; no code is told, and what it still says is."""
    started = time.monotonic()
    code, text = loop.run("trap 'echo bye; exit' TERM; while :; do sleep 0.01; done", 200)
    assert code is None
    assert text.endswith("bye\n")
    assert time.monotonic() - started < 5


def test_a_command_that_ignores_term_is_killed_with_its_tree(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment after TERM everything of the command is killed, also what has left its session."""
    monkeypatch.setattr(module, "GRACE", 50)
    mark = os.urandom(8).hex()
    env = {**os.environ, "HELD": mark}
    script = "trap '' TERM; (setsid sleep 60 &); echo on; sleep 60; sleep 60"
    assert loop.run(script, 300, env=env) == (None, "on\n")
    assert not helpers.processes_with(f"HELD={mark}")


@pytest.mark.parametrize(
    "leftover", ["sleep 60 &", "(setsid sleep 60 &);", "setsid sh -c 'trap \"\" TERM; sleep 60' &"]
)
def test_a_leftover_that_holds_the_output_delays_nothing(leftover: str, loop: Loop) -> None:
    """The command's end is told at once though something of it still holds its output, and that is ended."""
    mark = os.urandom(8).hex()
    started = time.monotonic()
    assert loop.run(f"{leftover} echo done; exit 3", env={**os.environ, "HELD": mark}) == (3, "done\n")
    assert time.monotonic() - started < 5
    assert not helpers.processes_with(f"HELD={mark}")


def test_a_command_that_closes_its_output_still_runs(loop: Loop) -> None:
    """The end of the output is not the end of the command."""
    assert loop.run("echo first; exec >&- 2>&-; sleep 0.1; exit 4") == (4, "first\n")


def test_a_cancelled_command_is_gone_and_silent(loop: Loop) -> None:
    """Cancelling ends the whole tree of the command without a word; cancelling twice is no error."""
    mark = os.urandom(8).hex()
    command = loop.start("sleep 60; true", env={**os.environ, "HELD": mark})
    helpers.wait_until(lambda: len(helpers.processes_with(f"HELD={mark}")) == 2)
    command.cancel()
    command.cancel()
    assert command.done
    assert not helpers.processes_with(f"HELD={mark}")
    assert loop.told == []


def test_a_command_is_kept_out_of_the_runs_tree_while_it_lives(loop: Loop) -> None:
    """Its pid is in the set that the run's tree ignores, and no longer once it is over."""
    ignore: set[int] = set()
    command = loop.start("exit 0", ignore=ignore)
    assert ignore == {command.pid}
    loop.wait(command)
    assert ignore == set()


def test_a_command_that_cannot_be_started_is_an_error(loop: Loop) -> None:
    """A program that is not there, or a folder, raises, and nothing stays open."""
    for options in ({"argv": ["/no/such/program"]}, {"argv": sh("true"), "cwd": "/no/such/folder"}):
        with pytest.raises(SpawnError):
            Bounded(loop.reactor, limit_ms=1000, on_done=print, stdin=b"x", **options)  # type: ignore[arg-type]


def test_a_command_that_cannot_be_killed_is_given_up(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """When KILL has no effect the end is told all the same, and the pid stays out of the run's tree."""
    ignore: set[int] = set()
    monkeypatch.setattr(module, "GRACE", 20)
    command = loop.start("trap '' TERM; sleep 60; sleep 60", 100, ignore=ignore)
    kill = command._tree.kill
    monkeypatch.setattr(command._tree, "kill", lambda patience: ["1 sh"])
    assert loop.wait(command) == (None, "")
    assert ignore == {command.pid}
    assert kill() == []
    os.waitpid(command.pid, 0)


def test_without_pidfds_the_end_is_noticed_by_looking(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing to wait on, the command asks to be looked at often."""

    def refuse(pid: int) -> int:
        raise OSError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert loop.run("sleep 0.1; echo over") == (0, "over\n")
