"""`longwatch attach`: the terminal of a harness, opened and left."""

import os
import signal
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harnesses
import helpers
import terminals
from helpers import LONGWATCH, Screen
from longwatch.api import client
from longwatch.cli import attach as attaching
from longwatch.cli.leaving import Leaving
from terminals import CTRL_BACKSLASH, CTRL_C, FULL_SCREEN

harness, project = harnesses.harness_fixture, harnesses.project_fixture
TALKER = harnesses.TALKER


def attach(*words, **options):
    return Screen([LONGWATCH, "attach", "web", *words], **options)


def leave(screen):
    """Leave; return the status."""
    screen.send(CTRL_BACKSLASH)
    screen.send("d")
    return screen.wait()


@pytest.mark.capability("CAP-131")
class TestTyping:
    """What is typed goes to the program, and what it writes is shown."""

    def test_keys_go_in_and_output_comes_out(self, harness):
        """Lines and Ctrl-C are the program's; what it wrote before is there; leaving leaves it running."""
        running = harness(TALKER)
        with attach() as screen:
            before = screen.settings
            screen.wait_for("hello")
            screen.send("first\r")
            screen.wait_for("got first")
            screen.send(CTRL_C)
            screen.wait_for("interrupted")
            screen.send("second\r")
            screen.wait_for("got second")
            assert leave(screen) == 0
            assert screen.settings == before
            assert "left web, which runs on" in screen.text
        assert helpers.alive(running.program)

    @pytest.mark.fault("B1")
    def test_what_we_type_is_no_progress(self, harness):
        """The echo of the terminal moves no clock; the program's answer does."""
        running = harness("import sys\nprint('up', flush=True)\nfor line in sys.stdin: pass")
        with attach() as screen:
            screen.wait_for("up")
            count = running.ask("count")
            screen.send("typed \x7f by hand\r")
            screen.wait_for("by hand")
            assert running.ask("count") == count
            leave(screen)

    def test_two_may_be_attached(self, harness):
        """Each sees what the other typed and what came of it; one leaving does not touch the other."""
        harness(TALKER)
        with attach() as one, attach() as other:
            one.wait_for("hello")
            other.wait_for("hello")
            one.send("from one\r")
            other.wait_for("got from one")
            assert leave(one) == 0
            other.send("from the other\r")
            other.wait_for("got from the other")
            assert leave(other) == 0

    def test_a_program_that_does_not_read(self, harness):
        """More than it takes waits with us; what it writes is shown meanwhile, and one can leave."""
        harness(
            "import time, itertools\nfor n in itertools.count(): print('tick', n, flush=True); time.sleep(0.05)"
        )
        with attach() as screen:
            screen.wait_for("tick")
            screen.send(b"x" * 3000 + b"\r")
            last = screen.text.split()[-1]
            helpers.wait_until(lambda: screen.text.split()[-1] != last)
            assert leave(screen) == 0

    def test_keys_that_leave_are_not_behind_those_that_wait(self, monkeypatch):
        """Nobody has to wait for a program that does not read; what has room arrives whole, in pieces, in order."""
        typed, taken, room = [b"abc", b"\x1c", b"d"], [], False

        class Here:
            path = ""

            def send(self, name, keys):
                if not room:
                    raise client.NotNowError("no room")
                taken.append(keys)

        monkeypatch.setattr(attaching, "_read", lambda fd: typed.pop(0))
        attached = attaching.Attached(Here(), "web", {"run": "web-1", "log": ""}, read_only=False)
        silent = SimpleNamespace(read=list)
        for _ in range(3):
            attached._turn({0}, silent, -1)
        assert attached._keys.over
        attached._keys.over = False
        typed.append(b"x" * attaching._KEYS)
        attached._turn({0}, silent, -1)
        assert taken == []
        room = True
        attached._turn(set(), silent, -1)
        assert (b"".join(taken), len(taken)) == (b"abc" + b"x" * attaching._KEYS, 2)
        attached._turn(set(), silent, -1)
        assert len(taken) == 2

    def test_what_has_no_room_waits_with_us(self, harness, tmp_path):
        """Far more than a program and the daemon take is typed: all of it arrives when the program reads."""
        gate, size = tmp_path / "gate", 150_000
        harness(
            "import os, sys, time, tty\n"
            "tty.setraw(0); print('ready', flush=True); got = 0\n"
            f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
            f"while got < {size}: got += len(os.read(0, 65536))\n"
            "print('all of it', flush=True); time.sleep(60)"
        )
        with attach() as screen:
            screen.wait_for("ready")
            os.set_blocking(screen.master, False)
            left, stuck = size, 0
            while left:
                screen.read()
                try:
                    left -= os.write(screen.master, b"x" * min(left, 4000))
                    stuck = 0
                except BlockingIOError:
                    stuck += 1
                    time.sleep(0.01)
                    if stuck > 20:
                        gate.touch()
            assert gate.exists(), "nobody took so much at once"
            screen.wait_for("all of it")
            leave(screen)


@pytest.mark.fault("N3")
class TestSize:
    """The program's terminal has the size of ours."""

    def test_it_follows_ours(self, harness):
        """At the beginning and when ours changes."""
        harness(TALKER)
        harnesses.printed("hello")
        with attach(rows=30, columns=100) as screen:
            screen.wait_for("size 30 100")
            screen.resize(20, 90)
            screen.process.send_signal(signal.SIGWINCH)
            screen.wait_for("size 20 90")
            leave(screen)

    def test_the_same_size_draws_anew(self, harness):
        """Where it has that size already it is made smaller for a moment: a program draws when its size changes."""
        running = harness(TALKER)
        harnesses.printed("hello")
        with attach(rows=24, columns=80) as screen:
            text = screen.wait_for("size 24 80")
            assert text.index("size 23 80") < text.index("size 24 80")
            assert running.ask("rows") == 24
            leave(screen)

    def test_who_only_looks_changes_nothing(self, harness):
        """--read-only passes no key and no size on; Ctrl-C leaves."""
        running = harness(TALKER)
        with attach("--read-only", rows=30) as screen:
            screen.wait_for("hello")
            screen.send("text\r")
            screen.send(CTRL_C)
            assert screen.wait() == 0
        assert running.ask("rows") == 24
        assert "got" not in harnesses.log()
        assert "size" not in harnesses.log()


@pytest.mark.fault("N4")
class TestRestoring:
    """However it ends, our terminal is as it was."""

    @pytest.fixture
    def screen(self, harness):
        """Return a screen on which a full-screen program is shown that set what a shell would suffer from."""
        self.running = harness(FULL_SCREEN)
        with attach() as screen:
            self.before = screen.settings
            screen.wait_for("READY")
            helpers.wait_until(lambda: screen.text and screen.modes | {1006, 1049} >= terminals.BAD)
            yield screen

    def restored(self, screen):
        assert screen.settings == self.before
        assert not screen.modes & terminals.BAD
        assert terminals.VISIBLE_CURSOR in screen.modes

    def test_left(self, screen):
        """By the keys."""
        assert leave(screen) == 0
        self.restored(screen)

    @pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_ended_by_a_signal(self, screen, signum):
        """By a signal, of which it then dies; the program runs on."""
        screen.process.send_signal(signum)
        assert screen.wait() == -signum
        self.restored(screen)
        assert helpers.alive(self.running.program)

    def test_the_program_is_killed(self, screen):
        """By the end of the program, which is told."""
        os.kill(self.running.program, signal.SIGKILL)
        assert screen.wait() == 0
        self.restored(screen)
        assert "web ended: died of signal 9" in screen.text

    def test_the_daemon_is_gone(self, screen, monkeypatch):
        """By the end of the daemon, once it has been gone for longer than an upgrade takes."""
        # Before its program, so that it cannot say any more how that has ended.
        helpers.kill_all([self.running.process.pid, self.running.program])
        self.running.process.wait()
        assert screen.wait(20) == 3
        self.restored(screen)
        assert "the daemon of web is gone" in screen.text


class TestRefusing:
    """Where there is nothing to open, one line says what else there is."""

    def test_without_a_terminal_of_ours(self, harness):
        """From a pipe it is a mistake."""
        harness(TALKER)
        said = helpers.run_cli("attach", "web")
        assert (said.code, said.out) == (2, "")
        assert "attach needs a terminal; longwatch logs -f web" in said.err

    def test_a_harness_without_a_terminal(self, harness):
        """What else can be done is told."""
        harness(TALKER, "pipe")
        with attach(columns=200) as screen:
            assert screen.wait() == 1
            assert "web has no terminal" in screen.text
            assert (
                "longwatch logs -f web shows its output, longwatch send web TEXT types a line" in screen.text
            )

    def test_one_that_does_not_run(self, harness):
        """It has to be started first."""
        running = harness("print('over')")
        helpers.wait_until(lambda: not helpers.children(running.process.pid))
        with attach(columns=200) as screen:
            assert screen.wait() == 75
            assert "web does not run now" in screen.text

    def test_no_daemon_and_no_harness(self, harness, project, tmp_path):
        """Nobody to ask is status 3, a name that nobody has 4."""
        harness(TALKER)
        with Screen([LONGWATCH, "attach", "other"]) as screen:
            assert screen.wait() == 4
        folder = tmp_path / "o"
        folder.mkdir()
        (folder / "longwatch.toml").write_text("")
        with attach("--config", folder / "longwatch.toml") as screen:
            assert screen.wait() == 3, screen.text


class TestLeaving:
    """The keys."""

    @pytest.mark.parametrize(
        ("typed", "passed", "over"),
        [
            (b"abc", b"abc", False),
            (b"ab\x1cd", b"ab", True),
            (b"\x1c\x1c", b"\x1c", False),
            (b"\x1c\x1cd", b"\x1cd", False),
            (b"\x1cx", b"\x1cx", False),
            (b"\x1b[92;5ud", b"", True),
            (b"\x1b[92;5u\x1b[100u", b"", True),
            (b"\x1b[27;5;92~d", b"", True),
            (b"\x1b[92;5ux", b"\x1b[92;5ux", False),
            (b"d\x1c", b"d", False),
            (b"\x1cdmore", b"", True),
        ],
    )
    def test_which_keys_leave(self, typed, passed, over):
        r"""Ctrl-\ and d, in each way a terminal may send them; twice it is the program's."""
        leaving = Leaving()
        assert (leaving.feed(typed), leaving.over) == (passed, over)

    def test_who_only_looks(self):
        """Nothing passes; Ctrl-C leaves, too."""
        for typed, over in ((b"abc", False), (b"\x1cd", True), (b"a\x03", True), (b"\x1b[99;5u", True)):
            leaving = Leaving(read_only=True)
            assert (leaving.feed(typed), leaving.over) == (b"", over)

    @given(st.lists(st.sampled_from([b"\x1c", b"x", b"abc", b"\r"]), max_size=12))
    def test_keys_may_come_one_by_one(self, keys):
        """However they are cut, the same keys pass."""
        whole, single = Leaving(), Leaving()
        passed = whole.feed(b"".join(keys))
        assert b"".join(single.feed(bytes([key])) for key in b"".join(keys)) == passed
        assert whole.over == single.over
