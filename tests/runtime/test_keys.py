"""What is typed from outside: it goes to the program, waits for it up to a bound, and is no progress."""

import os
import termios
import tty

import pytest

import helpers
from longwatch.posix.echo import Echo, echo_of, expect
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import INHERIT, MERGED, NULL, PIPE, PTY, Launch, spawn
from longwatch.runtime.keys import MOST, WIGGLE, Keys, KeysError


class Board:
    """A program with a keyboard."""

    def __init__(self, argv, stdin=NULL, output=MERGED):
        self.reactor = Reactor()
        self.timers = []
        self.now = 1_000
        if output == PTY:
            stdin = INHERIT  # of the terminal
        child = spawn(Launch(argv, stdin=stdin, output=output, size=(24, 80) if output == PTY else None))
        self.process = Process(child, self.reactor, {}, True, shared=True)
        self.keys = Keys(
            self.process, self.reactor, lambda *timer: self.timers.append(timer), lambda: self.now
        )

    @property
    def pump(self):
        return self.process.pumps["stdout"]

    def wait_for(self, text):
        """Wait until the program has printed this."""

        def printed():
            self.reactor.poll(10)
            head, tail, _ = self.pump.captured()
            return text in head + tail

        helpers.wait_until(printed, 10, str(text))

    def close(self):
        self.keys.close()
        self.keys.close()
        if self.process.ended is None:
            os.killpg(self.process.child.pid, 9)
        helpers.wait_until(lambda: self.reactor.poll(10) or self.process.over)
        self.process.close()
        self.reactor.close()


@pytest.fixture
def board():
    """Return a starter of programs with keyboards."""
    boards = []

    def start(script, **options):
        boards.append(Board(["sh", "-c", script], **options))
        return boards[-1]

    yield start
    for each in boards:
        each.close()


def test_a_line_for_a_terminal(board):
    """Enter is a carriage return; the echo is no progress, the answer is."""
    sh = board("read line; echo; echo got $line; cat", output=PTY)
    assert sh.keys.send(b"some words", newline=True) == 11
    sh.wait_for(b"got some words")
    head, _, _ = sh.pump.captured()
    assert head == b"some words\r\n\r\ngot some words\r\n"
    count = sh.pump.count
    assert count >= 1
    sh.keys.send(b"more", newline=False)
    sh.wait_for(b"more")
    assert sh.pump.count == count


def test_a_terminal_that_does_not_echo(board):
    """Where the program has switched the echo off nothing is expected: what comes is its own."""
    sh = board("stty -echo; echo ready; read line; echo $line", output=PTY)
    sh.wait_for(b"ready")
    count = sh.pump.count
    sh.keys.send(b"same", newline=True)
    sh.wait_for(b"same")
    assert sh.pump.count > count


def test_a_line_for_a_pipe(board):
    """A pipe gets the line with a line feed."""
    sh = board("read line; echo got $line", stdin=PIPE)
    assert sh.keys.send(b"go", newline=True) == 3
    sh.wait_for(b"got go")
    assert sh.keys.size is None
    with pytest.raises(KeysError, match="has no terminal"):
        sh.keys.resize(24, 80)


def test_no_input_at_all(board):
    """With neither it is refused, and that is no matter of time."""
    sh = board("echo ready; cat >/dev/null; sleep 60")
    sh.wait_for(b"ready")
    with pytest.raises(KeysError, match="reads no input: neither") as refused:
        sh.keys.send(b"x")
    assert not refused.value.busy


def test_a_program_that_does_not_read(board):
    """What it does not read waits up to a bound, then no more is taken; when it reads, all comes in order."""
    sh = board("while ! test -e go; do sleep 0.01; done; rm go; cksum; sleep 60", stdin=PIPE)
    piece = b"x" * 60_000
    assert sh.keys.send(piece) == len(piece)
    sh.keys.send(piece)
    with pytest.raises(KeysError, match="does not read its input") as refused:
        sh.keys.send(piece)
    assert refused.value.busy
    assert len(piece) < MOST
    with open("go", "w", encoding="ascii"):
        pass
    helpers.wait_until(lambda: sh.reactor.poll(10) and not sh.keys._waiting, 10)
    assert sh.keys.send(b"end") == 3


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_after_the_end(board):
    """What is typed at a program that has ended is refused, or lost with it, and never an error of ours."""
    sh = board("exit 0", stdin=PIPE)
    helpers.wait_until(lambda: sh.reactor.poll(10) or sh.process.over)
    sh.keys.send(b"nobody reads this")
    sh.keys.close()
    with pytest.raises(KeysError, match="has ended"):
        sh.keys.send(b"x")
    later = Keys(sh.process, sh.reactor, lambda *_: None, lambda: 0)
    with pytest.raises(KeysError, match="has ended"):
        later.send(b"x")
    later.close()


@pytest.mark.fault("N3")
class TestSize:
    """The size of a terminal."""

    def test_another_size_is_set_at_once(self, board):
        """And the program hears of it."""
        sh = board("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done", output=PTY)
        sh.wait_for(b"ready")
        sh.keys.resize(30, 100)
        sh.wait_for(b"30 100")
        assert sh.keys.size == (30, 100)
        assert sh.timers == []

    def test_the_same_size_is_a_wish_to_see_it_drawn(self, board):
        """It is a row less for a moment; a size that comes meanwhile wins."""
        sh = board("sleep 60", output=PTY)
        master = sh.process.child.master_fd
        for rows, less in ((24, 23), (1, 2)):
            sh.keys.resize(rows, 80)
            if rows == 1:
                sh.keys.resize(rows, 80)
            assert termios.tcgetwinsize(master) == (less, 80)
            assert sh.keys.size == (rows, 80)
            ((instant, settle),) = sh.timers
            assert instant == sh.now + WIGGLE
            settle(instant)
            assert termios.tcgetwinsize(master) == (rows, 80)
            sh.timers.clear()
        sh.keys.resize(1, 80)
        sh.keys.resize(40, 90)
        sh.timers[0][1](0)
        assert termios.tcgetwinsize(master) == (40, 90)
        sh.keys.resize(40, 90)
        sh.keys.close()
        sh.timers[-1][1](0)

    @pytest.mark.parametrize("size", [(0, 80), (24, 0), (-1, 80), (24, 100_000)])
    def test_what_is_no_size(self, board, size):
        """Numbers that are no size are refused."""
        with pytest.raises(ValueError, match="no size of a terminal"):
            board("sleep 60", output=PTY).keys.resize(*size)


class TestEcho:
    """What a terminal shows of keys."""

    @pytest.mark.parametrize(
        "typed", [b"plain text", b"tab\there", b"\x01\x02", "é€".encode(), b"a\rb\n", b"ab\x7fc"]
    )
    def test_it_is_what_the_kernel_echoes(self, typed):
        """The kernel says what it is."""
        master, slave = os.openpty()
        tty.setcbreak(slave)
        settings = termios.tcgetattr(slave)
        settings[3] |= termios.ECHO | termios.ICANON
        settings[0] |= termios.ICRNL
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        os.write(master, typed)
        assert os.read(master, 1000) == echo_of(typed)
        os.close(master)
        os.close(slave)

    def test_keys_one_by_one(self, board):
        """What is typed while the echo of earlier keys is still to come is expected behind it."""
        sh = board("sleep 60", output=PTY)
        for key in (b"a", b"b", b"\r"):
            expect(sh.pump, key)
        judge = sh.pump.judge
        assert isinstance(judge, Echo)
        assert not judge.feed(memoryview(b"ab"), 5)
        assert not judge.feed(memoryview(b"\r\n"), 6)
        assert judge.feed(memoryview(b"own"), 7)
        assert (judge.count, judge.last) == (1, 7)
