"""Our terminal while the child has one: modes undone, settings restored, keys and sizes passed on."""

import os
import signal
import sys
import termios
from types import SimpleNamespace

import pyte
import pytest

import helpers
from longwatch.posix import now
from longwatch.posix import terminal as terminal_module
from longwatch.posix.modes import ModeTracker
from longwatch.posix.pump import Pump
from longwatch.posix.reactor import Reactor
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import PTY, Launch, spawn
from longwatch.posix.terminal import Terminal, is_foreground, raw, window_size

CHANGES = {
    "mouse": (b"\x1b[?1000h\x1b[?1006h", b"\x1b[?1000l\x1b[?1006l"),
    "several at once": (b"\x1b[?1002;1004;2004h", b"\x1b[?1002l\x1b[?1004l\x1b[?2004l"),
    "old mouse": (b"\x1b[?9h", b"\x1b[?9l"),
    "alternate screen": (b"\x1b[?1049h", b"\x1b[?1049l"),
    "older screens": (b"\x1b[?47h\x1b[?1047h", b"\x1b[?1047l\x1b[?47l"),
    "hidden cursor": (b"\x1b[?25l", b"\x1b[?25h"),
    "no wrapping": (b"\x1b[?7l", b"\x1b[?7h"),
    "cursor keys": (b"\x1b[?1h", b"\x1b[?1l"),
    "keypad": (b"\x1b=", b"\x1b>"),
    "keyboard pushed twice": (b"\x1b[>1u\x1b[>3u", b"\x1b[<2u"),
    "keyboard flags": (b"\x1b[=5;1u", b"\x1b[=0u"),
    "modified keys": (b"\x1b[>4;2m", b"\x1b[>4m"),
    "colours": (b"\x1b[1;31m", b"\x1b[m"),
    "line drawing": (b"\x1b(0", b"\x1b(B"),
    "cursor shape": (b"\x1b[5 q", b"\x1b[0 q"),
    "scroll region": (b"\x1b[2;10r", b"\x1b7\x1b[r\x1b8"),
    "synchronised": (b"\x1b[?2026h", b"\x1b[?2026l"),
}
HARMLESS = {
    "switched off again": b"\x1b[?1049h\x1b[?1000hx\x1b[?1000l\x1b[?1049l",
    "off without on": b"\x1b[?1000l\x1b[?2004l\x1b[?25h\x1b>",
    "popped": b"\x1b[>1u\x1b[>1u\x1b[<u\x1b[<1u",
    "popped too often": b"\x1b[>1u\x1b[<9u",
    "colours off": b"\x1b[31mred\x1b[0m\x1b[1m\x1b[m",
    "full reset": b"\x1b[?1049h\x1b[>1u\x1b[31m\x1b=\x1b[?25l\x1bc",
    "soft reset": b"\x1b[?25l\x1b=\x1b[?1h\x1b[31m\x1b[!p",
    "title": b"\x1b]0;?1049h\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "queries": b"\x1b[c\x1b[?u\x1b[6n\x1b[>c\x1b[?2026$p\x1b[>q",
    "unknown modes": b"\x1b[?12345h\x1b[?99999999999h\x1b[?h\x1b[4h",
    "plain text": "ä€😀 no escapes".encode(),
    "broken": b"\x1b[?25\x1b[?25h\x1b[\x00\x1b\x01\x1b[?x",
    "cursor and region back": b"\x1b[5 q\x1b[2;3r\x1b[0 q\x1b[r\x1b(0\x1b(B\x1b[>4;1m\x1b[>4m",
}


def track(data):
    tracker = ModeTracker()
    tracker.feed(data)
    return tracker


class TestModeTracker:
    """What was switched on is undone; what was not is left alone."""

    @pytest.mark.fault("N4")
    @pytest.mark.parametrize("name", CHANGES)
    def test_undoes(self, name):
        """Each mode has its undoing sequence, and undoing leaves nothing to undo."""
        done, undone = CHANGES[name]
        tracker = track(b"text" + done + b"text")
        assert tracker.resets() == undone
        tracker.feed(tracker.resets())
        assert tracker.resets() == b""

    @pytest.mark.parametrize("name", [name for name in CHANGES if name != "colours"])
    def test_redoes(self, name):
        """What redoes a mode brings the same state about again."""
        tracker = track(CHANGES[name][0])
        assert track(tracker.sets()).resets() == tracker.resets()

    @pytest.mark.parametrize("name", HARMLESS)
    def test_leaves_alone(self, name):
        """What a program has tidied up itself, or never changed, gives no reset at all."""
        assert track(HARMLESS[name]).resets() == b""

    @pytest.mark.fault("N4")
    def test_cut_anywhere(self):
        """Sequences split over chunks, even byte by byte, count the same."""
        data = b"".join(done for done, _ in CHANGES.values()) + "ä".encode()
        whole = track(data).resets()
        for size in (1, 2, 3, 7):
            tracker = ModeTracker()
            for at in range(0, len(data), size):
                tracker.feed(memoryview(data)[at : at + size])
            assert tracker.resets() == whole

    def test_order(self):
        """Keyboard stacks are popped before the screen they belong to is left, the cursor is shown last."""
        undone = track(b"\x1b[?1049h\x1b[>1u\x1b[?25l\x1b[?1000h").resets()
        assert undone == b"\x1b[<1u\x1b[?1000l\x1b[?1049l\x1b[?25h"

    def test_bounded(self):
        """Neither endless sequences nor endless pushes grow anything."""
        tracker = ModeTracker()
        for _ in range(100):
            tracker.feed(b"\x1b[" + b"1;" * 5000)
            tracker.feed(b"\x1b[>1u" * 100)
        tracker.feed(b"".join(b"\x1b[?%dh" % n for n in range(5000)))
        assert len(tracker._rest) <= 128
        assert len(tracker._flags) <= 17
        assert len(tracker.modes) < 25

    @pytest.mark.fault("N4")
    def test_a_real_terminal_is_as_before(self):
        """A terminal that shows all of it and then the resets has the modes it began with."""
        screen = pyte.Screen(80, 24)
        stream = pyte.ByteStream(screen)
        before = set(screen.mode)
        data = b"\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1049h\x1b[?2004h\x1b[31m"
        stream.feed(data)
        assert set(screen.mode) != before
        stream.feed(track(data).resets())
        assert set(screen.mode) == before


class Outer:
    """A terminal as the user has it: the test holds the master, and `tty` is what our program would inherit."""

    def __init__(self, rows=30, columns=90):
        self.master, self.tty = os.openpty()
        os.set_blocking(self.master, False)
        self.resize(rows, columns)
        self.shown = b""

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.master, (rows, columns))

    def type(self, keys):
        os.write(self.master, keys)

    def read(self):
        try:
            while data := os.read(self.master, 65536):
                self.shown += data
        except BlockingIOError:
            pass
        return self.shown

    @property
    def settings(self):
        return termios.tcgetattr(self.tty)

    def close(self):
        os.close(self.master)
        os.close(self.tty)


@pytest.fixture
def outer(monkeypatch):
    made = Outer()
    # The test is no session leader on it; what it would answer for a foreground job is this.
    monkeypatch.setattr(terminal_module, "is_foreground", os.isatty)
    yield made
    made.close()


class Session:
    """A child on a PTY, joined to a terminal, with a loop."""

    def __init__(self, script, tty_in, tty_out, **options):
        self.reactor = Reactor()
        argv = [sys.executable, "-c", script] if "\n" in script else ["sh", "-c", script]
        self.child = spawn(Launch(argv, output=PTY, size=window_size(tty_out), like=tty_in))
        self.sink = Sink(tty_out)
        pump = Pump(self.reactor, self.child.master_fd, self.sink)
        process = SimpleNamespace(reactor=self.reactor, child=self.child, pumps={"stdout": pump})
        self.pump = pump
        self.terminal = Terminal.over(process, tty_in, tty_out, **options)

    def until(self, predicate, deadline=10_000):
        end = now() + deadline
        while not predicate():
            assert now() < end, f"{predicate} did not come true; captured {self.pump.captured()[0]!r}"
            self.reactor.poll(20)

    @property
    def text(self):
        return self.pump.captured()[0]

    def close(self):
        self.until(lambda: self.pump.ended)
        helpers.wait_until(self.child.peek)
        self.terminal.close()
        end = self.child.reap()
        self.child.close()
        self.sink.close()
        self.reactor.close()
        return end


@pytest.mark.fault("N4")
def test_killed_full_screen_program(outer):
    """A program that turned on mouse, paste and alternate screen and is killed leaves no trace on our terminal."""
    before = outer.settings
    session = Session("printf '\\033[?1000h\\033[?2004h\\033[?1049h'; exec sleep 60", outer.tty, outer.tty)
    session.until(lambda: b"1049h" in session.text)
    assert outer.settings != before
    os.kill(session.child.pid, signal.SIGKILL)
    assert session.close() == (None, signal.SIGKILL)
    shown = outer.read()
    assert shown.endswith(b"\x1b[?1000l\x1b[?2004l\x1b[?1049l")
    assert outer.settings == before


@pytest.mark.fault("N3")
def test_size_and_resize(outer):
    """The child begins with our terminal's size, and a resize of ours reaches it once."""
    script = (
        "import os, signal\n"
        "told = []\n"
        "signal.signal(signal.SIGWINCH, lambda *a: told.append(1))\n"
        "size = os.get_terminal_size()\n"
        "print('size', size.lines, size.columns, flush=True)\n"
        "input()\n"
        "size = os.get_terminal_size()\n"
        "print('now', size.lines, size.columns, len(told), flush=True)\n"
    )
    session = Session(script, outer.tty, outer.tty)
    session.until(lambda: b"size 30 90" in session.text)
    outer.resize(40, 100)
    session.terminal.resized()
    session.terminal.resized()
    outer.type(b"\r")
    session.until(lambda: b"now 40 100 1" in session.text)
    assert session.close() == (0, None)


def test_keys_pass_as_they_are(outer):
    """In raw mode each key arrives at once and unchanged, and nothing is echoed by our own terminal."""
    session = Session("stty raw -echo; printf ready; exec dd bs=1 count=5 2>/dev/null", outer.tty, outer.tty)
    session.until(lambda: b"ready" in session.text)
    outer.type(b"\x03\x1a\r\x1b\xff")
    session.until(lambda: b"\x03\x1a\r\x1b\xff" in session.text)
    assert session.close() == (0, None)
    assert outer.read() == b"ready\x03\x1a\r\x1b\xff"


@pytest.mark.fault("G6")
def test_interrupt_key_is_one_signal(outer):
    """Ctrl-C typed at our terminal is exactly one interrupt for the child, made by its own terminal."""
    script = (
        "import signal, time\n"
        "told = []\n"
        "signal.signal(signal.SIGINT, lambda *a: told.append(1))\n"
        "print('ready', flush=True)\n"
        "input()\n"
        "print('told', len(told), flush=True)\n"
    )
    session = Session(script, outer.tty, outer.tty)
    session.until(lambda: b"ready" in session.text)
    outer.type(b"\x03")
    outer.type(b"\r")
    session.until(lambda: b"told 1" in session.text)
    session.close()


def test_keys_wait_for_a_child_that_does_not_read(outer):
    """More keys than the child's terminal takes are kept back, not dropped, and the loop goes on."""
    session = Session(
        "stty raw -echo; printf ready; read x; exec head -c 20000 | wc -c", outer.tty, outer.tty
    )
    session.until(lambda: b"ready" in session.text)
    outer.type(b"\n")
    keys = b"k" * 20_000
    sent = 0
    while sent < len(keys) or b"20000" not in session.text:
        try:
            sent += os.write(outer.master, keys[sent : sent + 500])
        except BlockingIOError:
            pass
        session.reactor.poll(1)
        assert session.pump.ended is False or b"20000" in session.text
    assert session.close() == (0, None)


def test_suspend_and_resume(outer):
    """For a job-control stop the terminal is given back as it was; afterwards the child's modes are on again."""
    before = outer.settings
    session = Session("printf '\\033[?2004h'; read x; echo $x", outer.tty, outer.tty)
    session.until(lambda: b"2004h" in session.text)
    session.terminal.suspend()
    session.terminal.suspend()
    assert outer.settings == before
    assert outer.read().endswith(b"\x1b[?2004l")
    outer.resize(20, 50)
    session.terminal.resume()
    session.terminal.resume()
    assert outer.settings != before
    assert outer.read().endswith(b"\x1b[?2004h")
    outer.type(b"word\r")
    session.until(lambda: b"word" in session.text)
    session.close()
    session.terminal.close()
    assert outer.settings == before


def test_background_is_left_alone(outer, monkeypatch):
    """In the background our terminal is another's: neither settings nor keys are touched until we come to the front."""
    monkeypatch.setattr(terminal_module, "is_foreground", lambda fd: False)
    before = outer.settings
    session = Session("read x; echo got $x", outer.tty, outer.tty)
    assert outer.settings == before
    monkeypatch.setattr(terminal_module, "is_foreground", lambda fd: True)
    session.terminal.resume()
    outer.type(b"key\r")
    session.until(lambda: b"got key" in session.text)
    session.close()
    assert outer.settings == before


def test_settings_of_another_job_are_not_restored(outer, monkeypatch):
    """When the terminal was taken from us, we do not change it any more."""
    session = Session("read x", outer.tty, outer.tty)
    made_raw = outer.settings
    monkeypatch.setattr(terminal_module, "is_foreground", lambda fd: False)
    session.terminal.suspend()
    assert outer.settings == made_raw
    os.kill(session.child.pid, signal.SIGKILL)
    session.close()


def test_piped_stdin_is_typed_and_ended(outer):
    """Where stdin is a pipe its bytes are typed into the child's terminal, and its end becomes the end-of-file key."""
    for given in (b"two\nlines\n", b"no end of line"):
        reader, writer = os.pipe()
        session = Session("stty -echo; printf ready; exec cat", reader, outer.tty)
        session.until(lambda session=session: b"ready" in session.text)
        os.write(writer, given)
        os.close(writer)
        assert session.close() == (0, None)
        assert session.text == b"ready" + given.replace(b"\n", b"\r\n")
        os.close(reader)


def test_without_keys(outer):
    """Told to pass no keys, ours stay in our terminal."""
    session = Session("echo done", outer.tty, outer.tty, keys=False)
    outer.type(b"mine")
    session.until(lambda: b"done" in session.text)
    session.close()
    termios.tcflush(outer.tty, termios.TCIFLUSH)


def test_typed_for_the_human(outer):
    """A line that longwatch types arrives with its Enter key, also where no keys are passed."""
    session = Session("read x; echo got $x", outer.tty, outer.tty, keys=False)
    session.terminal.type("go on")
    session.until(lambda: b"got go on" in session.text)
    assert session.close() == (0, None)


def test_hung_up_terminal(outer):
    """A terminal that went away is no error, and costs no time."""
    session = Session("printf '\\033[?1049h'; exec sleep 60", outer.tty, outer.tty)
    session.until(lambda: b"1049h" in session.text)
    os.close(outer.master)
    outer.master = os.open(os.devnull, os.O_RDONLY)
    session.until(lambda: not session.reactor.poll(20))
    os.kill(session.child.pid, signal.SIGKILL)
    session.close()


def test_raw_settings():
    """Raw settings are those of cfmakeraw, and the list given is not changed."""
    master, slave = os.openpty()
    before = termios.tcgetattr(slave)
    made = raw(before)
    assert before == termios.tcgetattr(slave)
    assert not made[3] & (termios.ECHO | termios.ICANON | termios.ISIG)
    assert not made[1] & termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, made)
    assert termios.tcgetattr(slave) == made
    os.close(master)
    os.close(slave)


def test_window_size_and_foreground():
    """What is no terminal has no size and no foreground; one without a size has none either."""
    null = os.open(os.devnull, os.O_RDONLY)
    master, slave = os.openpty()
    assert window_size(null) is window_size(slave) is None
    termios.tcsetwinsize(slave, (5, 6))
    assert window_size(slave) == (5, 6)
    assert not is_foreground(null)
    assert not is_foreground(slave)
    for fd in (null, master, slave):
        os.close(fd)
    code = "from longwatch.posix.terminal import is_foreground; print(is_foreground(0))"
    with helpers.Screen([sys.executable, "-c", code]) as screen:
        screen.wait_for("True")
        screen.wait()


@pytest.mark.fault("N4")
def test_on_a_real_session(tmp_path):
    """As the foreground job of a session of its own: raw while it runs, restored and reset when it is over."""
    code = (
        "import os, sys\n"
        "from types import SimpleNamespace as N\n"
        "from longwatch.posix.pump import Pump\n"
        "from longwatch.posix.reactor import Reactor\n"
        "from longwatch.posix.sink import Sink\n"
        "from longwatch.posix.spawn import Launch, spawn\n"
        "from longwatch.posix.terminal import Terminal, window_size\n"
        "r = Reactor()\n"
        "c = spawn(Launch(['sh', '-c', sys.argv[1]], output='pty', size=window_size(1), like=0))\n"
        "p = Pump(r, c.master_fd, Sink(1))\n"
        "t = Terminal.over(N(reactor=r, child=c, pumps={'stdout': p}), 0, 1)\n"
        "while not p.ended: r.poll(1000)\n"
        "t.close()\n"
    )
    script = "printf '\\033[?1049h\\033[?25l\\033[?1002h'; stty size; read x; kill -9 $$"
    with helpers.Screen([sys.executable, "-c", code, script], rows=31, columns=77) as screen:
        before = screen.settings
        screen.wait_for("31 77")
        assert screen.settings != before
        assert 1002 in screen.modes
        screen.send("\r")
        assert screen.wait() == 0
        assert screen.settings == before
        assert screen.modes == {7, 25}
