"""`longwatch run` in a terminal: one for the program, nothing of ours in it, and all as it was afterwards."""

import os
import signal

import pytest

import helpers
from helpers import LONGWATCH, Screen
from terminals import (
    BAD,
    CTRL_BACKSLASH,
    CTRL_C,
    CTRL_D,
    FULL_SCREEN,
    VISIBLE_CURSOR,
    program,
    quoted,
    run,
    typed_fixture,
)

__all__ = ["typed_fixture"]

COUNTS_INTERRUPTS = r"""
import os, signal, sys, time
def count(*_):
    global seen
    seen += 1
    print("interrupts:", seen, flush=True)
seen = 0
signal.signal(signal.SIGINT, count)
print("READY", flush=True)
end = time.monotonic() + 1.0
while not seen: time.sleep(0.01)
while time.monotonic() < end: time.sleep(0.01)
print("in all:", seen, flush=True)
"""
COUNTS_SIZES = r"""
import os, signal, sys, time
def told(*_):
    global seen
    seen += 1
    columns, rows = os.get_terminal_size()
    print("told", seen, rows, columns, flush=True)
columns, rows = os.get_terminal_size()
print("first", rows, columns, flush=True)
seen = 0
signal.signal(signal.SIGWINCH, told)
print("READY", flush=True)
sys.stdin.readline()
print("in all:", seen, flush=True)
"""


def below(screen):
    """Return the pid of the program that longwatch runs on a screen."""
    return helpers.wait_until(lambda: helpers.descendants(screen.process.pid))[0]


class TestOwnTerminal:
    """Terminal in, terminal out."""

    @pytest.mark.capability("NEW-18")
    def test_the_program_has_a_terminal_of_its_own(self):
        """All three streams are one terminal, not ours; status and output are the program's; nothing of ours is seen."""
        with run("sh", "-c", "tty; stty -a >&2; test -t 0 && test -t 1 && test -t 2 && exit 7") as screen:
            before = screen.settings
            assert screen.wait() == 7
            name = screen.text.splitlines()[0]
            assert name.startswith("/dev/")
            assert name != os.ttyname(screen.terminal)
            assert b"longwatch" not in screen.raw
            assert screen.settings == before

    @pytest.mark.capability("NEW-18")
    @pytest.mark.parametrize("where", ["</dev/null", "| cat"])
    def test_no_terminal_where_one_end_is_none(self, where):
        """With stdin or stdout somewhere else the program gets what we have."""
        test = "if test -t 0 && test -t 1; then echo both; else echo pipes; fi"
        with Screen(["sh", "-c", f"{quoted(LONGWATCH, 'run', 'sh', '-c', test)} {where}"]) as screen:
            assert screen.wait() == 0
            assert screen.text == "pipes"

    def test_no_pty(self):
        """With --no-pty the program reads our terminal itself, and writes through a pipe."""
        with run("--no-pty", "sh", "-c", "tty; test -t 1 || echo pipe") as screen:
            assert screen.wait() == 0
            assert screen.text.splitlines() == [os.ttyname(screen.terminal), "pipe"]

    def test_redirected_stderr_stays_apart(self, tmp_path):
        """What the user sends somewhere else goes there, also when the program has a terminal."""
        line = quoted(LONGWATCH, "run", "sh", "-c", "tty >&2; test -t 1 && echo out; echo err >&2")
        with Screen(["sh", "-c", f"{line} 2>{tmp_path}/err"]) as screen:
            assert screen.wait() == 0
            assert screen.text == "out"
        assert (tmp_path / "err").read_text().splitlines()[-1] == "err"

    @pytest.mark.fault("N1")
    def test_the_end_of_a_terminal_is_no_error(self):
        """A program on a terminal that says a word and exits 3 has that word and that status, also without ours."""
        with run("sh", "-c", "echo word; exit 3") as screen:
            assert screen.wait() == 3
            assert screen.text == "word"
        done = helpers.run_cli("run", "--pty", "sh", "-c", "echo word; exit 3")
        assert (done.code, done.out, done.err) == (3, "word\r\n", "")

    @pytest.mark.fault("N3")
    def test_sizes(self):
        """The first size is ours already; a new one is told once."""
        with run(*program(COUNTS_SIZES), rows=33, columns=99) as screen:
            screen.wait_for("READY")
            assert "first 33 99" in screen.text
            screen.resize(35, 101)
            screen.wait_for("told 1 35 101")
            screen.send("\n")
            assert screen.wait() == 0
            assert "in all: 1" in screen.text

    @pytest.mark.fault("N3")
    def test_a_sane_size_without_a_terminal(self):
        """A terminal for a program whose output goes elsewhere has the usual size."""
        assert helpers.run_cli("run", "--pty", "stty", "size").out == "24 80\r\n"

    def test_settings_of_the_user(self):
        """The program's terminal has the settings of ours, such as another erase key."""
        with Screen(["sh", "-c", f"stty erase ^H; {quoted(LONGWATCH, 'run', 'stty', '-a')}"]) as screen:
            assert screen.wait() == 0
            assert "erase = ^H" in screen.text


def end_by_exit(screen):
    """Let the program end by itself, by a signal of somebody."""
    os.kill(below(screen), signal.SIGTERM)
    return 128 + signal.SIGTERM


def end_by_limit(screen):
    """Let the limit end it."""
    return 124


def end_by_term(screen):
    """End longwatch."""
    screen.process.terminate()
    return -signal.SIGTERM


def end_by_ctrl_c(screen):
    """Press Ctrl-C."""
    screen.send(CTRL_C)
    return -signal.SIGINT


def end_by_hangup(screen):
    """Hang up."""
    screen.process.send_signal(signal.SIGHUP)
    return -signal.SIGHUP


class TestRestored:
    """Screen and settings are as they were, however it ends."""

    @pytest.mark.capability("NEW-18")
    @pytest.mark.fault("N4")
    @pytest.mark.parametrize("end", [end_by_exit, end_by_limit, end_by_term, end_by_ctrl_c, end_by_hangup])
    def test_modes_and_settings(self, end):
        """Mouse, paste mode and alternate screen are off, the cursor is there, and the settings are ours again."""
        idle = "1s" if end is end_by_limit else "60s"
        with run("--idle", idle, *program(FULL_SCREEN)) as screen:
            before = screen.settings
            screen.wait_for("READY")
            assert screen.modes >= BAD
            assert VISIBLE_CURSOR not in screen.modes
            assert screen.settings != before
            status = end(screen)
            assert screen.wait() == status
            assert not screen.modes & BAD
            assert VISIBLE_CURSOR in screen.modes
            assert screen.settings == before

    @pytest.mark.fault("N4")
    def test_a_stop_is_told_on_the_restored_screen(self):
        """The three lines come when the screen is given back, each at the left edge, and none before."""
        with run("--idle", "500ms", *program(FULL_SCREEN, "raw")) as screen:
            screen.wait_for("READY")
            assert screen.wait() == 124
            modes, said = screen.raw.split(b"\x1b[?1049l")
            assert b"longwatch:" not in modes
            lines = [line for line in screen.text.splitlines() if "longwatch:" in line]
            assert len(lines) >= 3
            assert all(line.find("longwatch:") in (0, 5) for line in lines), screen.text
            assert said.count(b"longwatch:") == len(lines)

    @pytest.mark.capability("NEW-18")
    def test_after_a_defect_of_ours(self, tmp_path):
        """Even where longwatch itself fails the terminal is given back when the program ends."""
        (tmp_path / "sitecustomize.py").write_text(
            "import sys\n"
            "if any('longwatch' in word for word in sys.orig_argv[1:2]):\n"
            "    import longwatch.runtime.driver as d, longwatch.posix.reactor as r\n"
            "    step = d.Driver.step\n"
            "    def broken(self):\n"
            "        if r.now() - self.watch.started > 1500: raise ZeroDivisionError('defect')\n"
            "        step(self)\n"
            "    d.Driver.step = broken\n"
        )
        with run("--idle", "8s", *program(FULL_SCREEN), env={"PYTHONPATH": str(tmp_path)}) as screen:
            before = screen.settings
            pid = below(screen)
            screen.wait_for("READY")
            screen.wait_for("unwatched")
            os.kill(pid, signal.SIGKILL)
            assert screen.wait() == 128 + signal.SIGKILL
            assert "defect" in screen.text
            assert not screen.modes & BAD
            assert screen.settings == before
            assert not helpers.alive(pid)

    @pytest.mark.capability("NEW-18")
    def test_in_tmux(self, tmux, typed):
        """A full-screen program stopped in tmux leaves a shell that can be worked with."""
        tmux.type(typed(FULL_SCREEN, "--idle", "1s"), "Enter")
        tmux.wait_for("READY")
        assert tmux.show("#{alternate_on} #{mouse_any_flag} #{cursor_flag}") == "1 1 0"
        tmux.wait_for("longwatch why")
        assert tmux.show("#{alternate_on} #{mouse_any_flag} #{cursor_flag}") == "0 0 1"
        tmux.type("echo $((6 * 7)).", "Enter")
        tmux.wait_for("42.")


class TestNotices:
    """What is said while the program has the terminal."""

    @pytest.mark.capability("NEW-18")
    def test_a_notice_is_one_line(self):
        """A limit that only notifies says one line, from the left edge to its end, rings, and goes on."""
        code = "import time; print('one', flush=True); time.sleep(1); print('two')"
        with run("--idle", "400ms", "--idle-action", "notify", *program(code), columns=200) as screen:
            assert screen.wait() == 0
            lines = screen.text.splitlines()
            assert [line.split(":")[0] for line in lines if line] == ["one", "longwatch", "two"], screen.text
            assert b"\x1b]9;longwatch: " in screen.raw
            assert b"\x07" in screen.raw

    @pytest.mark.slow
    @pytest.mark.capability("NEW-18")
    def test_no_status_line(self):
        """However long it is silent, nothing is drawn."""
        with run("--idle", "60s", "sleep", "7", env={"LONGWATCH_STILL_RUNNING": None}) as screen:
            assert screen.wait(15) == 0
            assert screen.raw == b""


class TestKeys:
    """What is typed."""

    @pytest.mark.fault("G6")
    @pytest.mark.parametrize("mode", ["--pty", "--no-pty"])
    def test_one_ctrl_c_is_one_signal(self, mode):
        """The program counts exactly one interrupt for one key; without a terminal of its own longwatch ends by it."""
        with run(mode, *program(COUNTS_INTERRUPTS)) as screen:
            screen.wait_for("READY")
            screen.send(CTRL_C)
            status = screen.wait()
            assert "in all: 1" in screen.text, screen.text
            assert status == (0 if mode == "--pty" else -signal.SIGINT)

    @pytest.mark.parametrize("mode", ["--pty", "--no-pty"])
    @pytest.mark.parametrize("sh", ["sh", "bash"])
    def test_ctrl_c_ends_a_loop(self, mode, sh):
        """A shell's loop around longwatch ends with it."""
        if not helpers.have(sh):
            pytest.skip(f"{sh} is not installed")
        loop = f"while :; do {quoted(LONGWATCH, 'run', mode, 'sh', '-c', 'echo READY; exec sleep 60')}; done; echo no"
        with Screen([sh, "-c", loop]) as screen:
            screen.wait_for("READY")
            screen.send(CTRL_C)
            assert screen.wait() in (-signal.SIGINT, 128 + signal.SIGINT)
            assert screen.text.count("READY") == 1

    def test_ctrl_backslash_ends_by_quit(self):
        """A program that a key ended by QUIT makes longwatch end by QUIT."""
        with run("sh", "-c", "echo READY; exec sleep 60") as screen:
            screen.wait_for("READY")
            screen.send(CTRL_BACKSLASH)
            assert screen.wait() == -signal.SIGQUIT

    def test_lines_and_the_end_of_input(self):
        """What is typed reaches the program, and so does the key that ends the input."""
        with run("sh", "-c", "echo READY; cat") as screen:
            screen.wait_for("READY")
            screen.send("hello\n")
            helpers.wait_until(lambda: screen.text.count("hello") == 2)
            screen.send(CTRL_D)
            assert screen.wait() == 0

    @pytest.mark.parametrize("text", ["a\nb\n", "a\nb", "", "x\n" * 20_000])
    def test_piped_input_with_a_terminal(self, text):
        """Piped input is typed, all of it, and its end ends the program's input."""
        code = "import sys, tty, termios; print(len(sys.stdin.read()))"
        done = helpers.run_cli("run", "--pty", *program(code), input=text)
        assert done.code == 0
        assert done.out.endswith(f"{len(text)}\r\n")

    def test_input_null(self):
        """With --stdin null the program has a terminal, and nobody types at it."""
        with run("--stdin", "null", "sh", "-c", "test -t 1 && cat && echo end") as screen:
            assert screen.wait() == 0
            assert screen.text == "end"
