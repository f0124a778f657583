"""The scripted children do what their names say."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children


@pytest.fixture
def start() -> Iterator:
    """Return a way to start a child whose whole session is killed when the test is over."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(argv: list[str], **options: object) -> "subprocess.Popen[bytes]":
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        child = subprocess.Popen(argv, start_new_session=True, **piped)  # type: ignore[call-overload]
        started.append(child)
        return child

    yield begin
    for child in started:
        own = helpers.descendants(child.pid)
        helpers.kill_all([child.pid, *own])
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        child.wait()


def first_line(child: "subprocess.Popen[bytes]") -> list[str]:
    """Return the words of a child's first line."""
    assert child.stdout is not None
    return child.stdout.readline().decode().split()


def test_ticker(start) -> None:
    """Prints its text, on the stream, as many times as asked for."""
    assert start(children.ticker(0.001, count=3)).communicate()[0] == b"tick\n" * 3
    assert start(children.ticker(0.001, count=2, stream="stderr", text=".")).communicate()[1] == b".."
    assert first_line(start(children.ticker(0.001))) == ["tick"]


def test_silent(start) -> None:
    """Says nothing and ends by itself."""
    assert start(children.silent(0.01)).communicate() == (b"", b"")


def test_ticks_then_silent(start) -> None:
    """Ticks, then says nothing more."""
    child = start(children.ticks_then_silent(2, 0.001, 0.05))
    assert child.communicate()[0] == b"tick 0\ntick 1\n"


def test_ignores_term(start) -> None:
    """Hears TERM, INT and HUP and stays; only KILL ends it."""
    child = start(children.ignores_term())
    assert first_line(child) == ["ready"]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child.send_signal(number)
    lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
    assert ignored & (1 << (signal.SIGTERM - 1))
    assert child.poll() is None
    child.kill()
    assert child.wait() == -signal.SIGKILL


def test_handles_term(start) -> None:
    """Answers TERM with a word and a code of its own."""
    child = start(children.handles_term(7))
    assert first_line(child) == ["ready"]
    child.terminate()
    assert child.communicate()[0] == b"bye\n"
    assert child.returncode == 7


def test_holds_pipe(start) -> None:
    """Is gone at once with its code, while its output stays open."""
    child = start(children.holds_pipe(0.5, code=4))
    assert child.wait() == 4
    assert first_line(child) == ["done"]
    begun = time.monotonic()
    assert child.stdout.read() == b""
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "argv", [children.setsid_child(1.0), children.double_fork(1.0)], ids=["setsid", "double fork"]
)
def test_runaways_leave_the_session(start, argv: list[str]) -> None:
    """The runaway that is named lives in a session that is not the child's."""
    child = start(argv)
    word, pid = first_line(child)
    assert word == "ready"
    runaway = int(pid)
    helpers.wait_until(lambda: os.getsid(runaway) != child.pid)
    helpers.kill_all([runaway])


def test_fork_storm(start) -> None:
    """Processes come and go too fast to be listed, all in the child's group, and are over in time."""
    child = start(children.fork_storm(2, seconds=0.6))
    assert first_line(child) == ["ready"]

    def seen() -> set[int]:
        return {pid for pid in helpers.all_pids() if helpers.stat(pid) and group(pid) == child.pid}

    first = helpers.wait_until(lambda: len(seen()) >= 2 and seen())
    helpers.wait_until(lambda: seen() - first - {child.pid})
    assert child.wait() == 0
    helpers.wait_until(lambda: not seen())


def group(pid: int) -> int:
    """Return a process's group, 0 when it has gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def test_flood(start) -> None:
    """Writes exactly so many bytes, or never ends."""
    assert len(start(children.flood(200_001)).communicate()[0]) == 200_001
    child = start(children.flood())
    assert len(child.stdout.read(1_000_000)) == 1_000_000
    assert child.poll() is None


def test_reads_stdin(start) -> None:
    """Waits for the end of its input and says how much it was."""
    child = start(children.reads_stdin(), stdin=subprocess.PIPE)
    assert child.communicate(b"x" * 1234)[0] == b"1234\n"


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exits(start, code: int) -> None:
    """Exits with its code, after its text."""
    child = start(children.exits(code, "text"))
    assert child.communicate()[0] == b"text"
    assert child.returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_dies(start, number: int) -> None:
    """Ends by its signal, not by a code."""
    assert start(children.dies(int(number))).wait() == -number


def test_stopped(start) -> None:
    """Stops itself, and goes on when continued."""
    child = start(children.stopped())
    assert first_line(child) == ["ready"]
    helpers.wait_until(lambda: (helpers.stat(child.pid) or "?")[0] == "T")
    child.send_signal(signal.SIGCONT)
    assert first_line(child) == ["back"]
