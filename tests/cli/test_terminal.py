"""`longwatch run` in a terminal: one for the program, nothing of ours in it, and all as it was afterwards."""

import os
import signal
import subprocess
import sys

import pytest

import helpers
from helpers import LONGWATCH, Screen

#: Modes that a shell afterwards would suffer from.
BAD = {1000, 1006, 2004, 1049}
VISIBLE_CURSOR = 25
CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"

FULL_SCREEN = r"""
import os, sys, termios, time, tty
if "raw" in sys.argv: tty.setraw(0)
sys.stdout.write("\033[?1049h\033[?1000h\033[?1006h\033[?2004h\033[?25l\033[2J\033[HREADY")
sys.stdout.flush()
time.sleep(60)
"""
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
TICKS = "import itertools, time\nfor n in itertools.count(): print('tick', n, flush=True); time.sleep(0.05)"


def program(code, *words):
    """Return the argv of a Python program."""
    return [sys.executable, "-c", code, *words]


def run(*words, **options):
    """Start `longwatch run` on a terminal of its own."""
    return Screen([LONGWATCH, "run", *words], **options)


def below(screen):
    """Return the pid of the program that longwatch runs on a screen."""
    return helpers.wait_until(lambda: helpers.descendants(screen.process.pid))[0]


@pytest.fixture
def typed(tmp_path):
    """Return a maker of a line for a shell that runs a Python program under longwatch without showing its text."""

    def line(code, *options):
        path = tmp_path / "program.py"
        path.write_text(code)
        return quoted(LONGWATCH, "run", *options, sys.executable, path)

    return line


def quoted(*words):
    """Return words as a line for a shell."""
    import shlex

    return shlex.join(map(str, words))


@pytest.fixture
def shell():
    """Return an interactive bash on a terminal of its own."""
    if not helpers.have("bash"):
        pytest.skip("bash is not installed")
    env = {"PS1": "$ ", "HISTFILE": None, "INPUTRC": os.devnull}
    with Screen(
        ["bash", "--norc", "--noprofile", "--noediting", "-i"], rows=40, columns=150, env=env
    ) as screen:
        screen.wait_for("$")
        yield screen
        helpers.kill_all(helpers.descendants(screen.process.pid))


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
        """Even where longwatch itself fails the terminal is given back, and the program is gone."""
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
            assert screen.wait() == 125
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


def is_program(pid):
    """Whether a process is the program of `typed`, not longwatch or a fork of it."""
    return helpers.command_line(pid).endswith("program.py") and "longwatch" not in helpers.command_line(pid)


def newest(screen):
    """Return the number of the last tick on a screen."""
    return max(int(line.split()[1]) for line in screen.text.splitlines() if line.startswith("tick "))


def stopped(pid):
    """Whether a process is in a job-control stop."""
    found = helpers.stat(pid)
    return found is not None and found[0] == "T"


class TestJobControl:
    """Stopping, going on, and the background."""

    @pytest.mark.parametrize("mode", ["--pty", "--no-pty"])
    def test_ctrl_z_and_fg(self, shell, typed, mode):
        """Ctrl-Z stops the run with its program and gives the shell its terminal; fg brings both back."""
        shell.send(typed(TICKS, mode, "--idle", "20s") + "\n")
        shell.wait_for("tick 3")
        supervisor = helpers.descendants(shell.process.pid)[0]
        ticker = helpers.wait_until(
            lambda: [pid for pid in helpers.descendants(supervisor) if is_program(pid)]
        )[0]
        shell.send(CTRL_Z)
        shell.wait_for("Stopped")
        assert stopped(supervisor)
        helpers.wait_until(lambda: stopped(ticker))
        shell.send("echo $((6 * 7)).\n")
        shell.wait_for("42.")
        last = newest(shell)
        shell.send("fg\n")
        helpers.wait_until(lambda: not stopped(ticker) and not stopped(supervisor))
        helpers.wait_until(lambda: newest(shell) > last + 2)
        shell.send(CTRL_C)
        helpers.wait_until(lambda: not helpers.alive(supervisor))

    @pytest.mark.parametrize("mode", ["--pty", "--no-pty"])
    def test_ctrl_z_stops_a_script_too(self, shell, typed, mode):
        """A script around longwatch stops with it, else its shell would wait for what cannot go on."""
        shell.send(quoted("sh", "-c", typed(TICKS, mode, "--idle", "20s") + "; echo after-$((6 * 7))") + "\n")
        shell.wait_for("tick 3")
        shell.send(CTRL_Z)
        shell.wait_for("Stopped")
        shell.send("echo $((5 * 5)).\n")
        shell.wait_for("25.")
        last = newest(shell)
        shell.send("fg\n")
        helpers.wait_until(lambda: newest(shell) > last + 2)
        helpers.kill_all([pid for pid in helpers.descendants(shell.process.pid) if is_program(pid)])
        shell.wait_for("after-42")

    def test_a_program_that_stops_itself(self, shell, typed):
        """Who handles the key himself and stops gives the shell its terminal, and goes on with fg."""
        code = "import os, signal\nprint('READY', flush=True)\nos.kill(0, signal.SIGSTOP)\nprint('back')\ninput()"
        shell.send(typed(code, "--idle", "20s") + "\n")
        shell.wait_for("Stopped")
        shell.send("fg\n")
        shell.wait_for("back")
        shell.send("\n")
        helpers.wait_until(lambda: not helpers.descendants(shell.process.pid))
        shell.send("echo $((6 * 7)).\n")
        shell.wait_for("42.")

    def test_no_shell_no_stop(self, typed):
        """Where no shell could say fg, Ctrl-Z stops nothing, as without longwatch."""
        with Screen(["sh", "-c", "exec " + typed(TICKS, "--idle", "20s")]) as screen:
            screen.wait_for("tick 3")
            screen.send(CTRL_Z)
            last = newest(screen)
            helpers.wait_until(lambda: newest(screen) > last + 5)
            screen.send(CTRL_C)
            assert screen.wait() == -signal.SIGINT

    def test_modes_while_stopped(self, shell, typed):
        """A full-screen program that is stopped leaves the shell a sane terminal, and has its own back with fg."""
        shell.send(typed(FULL_SCREEN, "--idle", "20s") + "\n")
        shell.wait_for("READY")
        shell.send(CTRL_Z)
        shell.wait_for("Stopped")
        assert not shell.modes & BAD
        assert VISIBLE_CURSOR in shell.modes
        shell.send("fg\n")
        helpers.wait_until(lambda: shell.modes >= BAD)
        shell.send(CTRL_C)
        helpers.wait_until(lambda: not shell.modes & BAD)
        shell.send("echo $((6 * 7)).\n")
        shell.wait_for("42.")

    def test_background(self, shell):
        """In the background a run neither stops nor takes the terminal from the shell."""
        line = quoted(
            LONGWATCH, "run", "--idle", "20s", "sh", "-c", "sleep 0.3; echo word-$((40 + 2)); sleep 0.3"
        )
        shell.send(line + " &\n")
        shell.wait_for("word-42")
        shell.send("echo $((6 * 7)).\n")
        shell.wait_for("42.")
        shell.send("wait; jobs; echo over-$((6 * 7))\n")
        shell.wait_for("over-42")
        assert "Stopped" not in shell.text

    def test_a_background_program_does_not_read_the_shell_s_keys(self, shell):
        """What is typed is the shell's while the run is in the background."""
        shell.send(quoted(LONGWATCH, "run", "--idle", "20s", "cat") + " &\n")
        for number in range(5):
            shell.send(f"echo $(({number} + 40)).\n")
            shell.wait_for(f"{number + 40}.")
        shell.send("kill %1 2>/dev/null; wait; echo over-$((6 * 7))\n")
        shell.wait_for("over-42")

    def test_a_terminal_in_the_background(self, shell):
        """With --pty in the background the shell's terminal is not touched; fg joins the two."""
        before = shell.settings
        shell.send(
            quoted(LONGWATCH, "run", "--pty", "--idle", "20s", "sh", "-c", "read a; echo got-$a") + " &\n"
        )
        shell.send("echo $((6 * 7)).\n")
        shell.wait_for("42.")
        helpers.wait_until(lambda: len(helpers.descendants(shell.process.pid)) >= 2)
        assert shell.settings == before
        shell.send("fg\n")
        helpers.wait_until(lambda: shell.settings != before)
        shell.send("word\n")
        shell.wait_for("got-word")
        helpers.wait_until(lambda: shell.settings == before)


SPINNER = r"""
import itertools, sys, time
sys.stdout.write("\033[2J")
for n in itertools.count():
    sys.stdout.write("\033[H" + "|/-\\"[n % 4] + f" working {n // 10} s")
    if "work" in sys.argv and n % 4 == 0: sys.stdout.write(f"\033[{3 + n // 80};{1 + n // 4 % 20}Hx")
    sys.stdout.flush(); time.sleep(0.05)
"""


class TestScreenSource:
    """The screen as a sign of progress."""

    LIMITS = ("--pty", "--progress", "screen", "--idle", "800ms", "--poll", "100ms")

    @pytest.mark.fault("B1")
    def test_a_spinner_is_no_progress(self):
        """A spinner and a counter that run in place for ever are acted on within two windows."""
        done = helpers.run_cli("run", *self.LIMITS, *program(SPINNER), deadline=20)
        assert done.code == 124
        assert "screen" in done.err
        assert done.seconds < 10

    @pytest.mark.fault("A4")
    def test_a_change_is_progress(self):
        """A screen that changes otherwise keeps the run alive for four windows."""
        done = helpers.run_cli(
            "run", *self.LIMITS, "--timeout", "3200ms", *program(SPINNER, "work"), deadline=20
        )
        assert done.code == 124
        assert "the timeout of" in done.err

    def test_large_screens(self):
        """What changes far to the right or below, beyond the usual size, is seen as well."""
        code = r"""
import itertools, sys, time
for n in itertools.count():
    sys.stdout.write(f"\033[{30 + n % 9};150H{chr(97 + n % 26)}"); sys.stdout.flush(); time.sleep(0.1)
"""
        limits = ("--progress", "screen", "--idle", "800ms", "--poll", "100ms", "--timeout", "2500ms")
        with run(*limits, *program(code), rows=40, columns=160) as screen:
            assert screen.wait(15) == 124
            assert "the timeout of" in screen.text

    def test_without_a_terminal(self):
        """Without a terminal for the program there is no screen: that is said before anything starts."""
        done = helpers.run_cli("run", "--progress", "screen", "touch", "no-such-place/x")
        assert done.code == 125
        assert "--pty" in done.err
        assert done.err.count("\n") == 1


ECHOES = """
import os, sys, time, tty
print("READY", flush=True)
if "raw" in sys.argv:
    tty.setraw(0)
    while True: os.write(1, os.read(0, 100))
time.sleep(60)
"""


class TestNudge:
    """A line that is typed into a program that idles."""

    @pytest.mark.parametrize("mode", ["", "raw"])
    def test_its_echo_is_no_progress(self, mode, tmp_path):
        """A program that is stuck is nudged once and stopped one window later, whoever echoes the line."""
        report = tmp_path / "report.json"
        words = ("--pty", "--idle", "700ms", "--nudge", "go on", "--report", str(report))
        done = helpers.run_cli("run", *words, *program(ECHOES, mode), stdin=None, deadline=20)
        assert done.code == 124, done.out
        assert "go on" in done.out
        assert report.read_text().count('"nudged"') == 1

    def test_who_wakes_up_is_not_stopped(self):
        """A program that the line wakes goes on to its end."""
        code = "import sys, time\nsys.stdin.readline()\nfor n in range(20): print(n, flush=True); time.sleep(0.1)"
        done = helpers.run_cli(
            "run", "--pty", "--idle", "800ms", "--nudge", "go on", *program(code), stdin=None, deadline=20
        )
        assert done.code == 0, done.err
        assert done.out.split()[-1] == "19"

    def test_its_picture_is_no_progress(self):
        """The line on the screen is no change of the program's."""
        words = ("--pty", "--progress", "screen", "--idle", "700ms", "--poll", "100ms", "--nudge", "go on")
        done = helpers.run_cli(
            "run",
            *words,
            *program("import time; print('x', flush=True); time.sleep(60)"),
            stdin=None,
            deadline=20,
        )
        assert done.code == 124
        assert done.out.count("go on") == 1

    def test_without_a_terminal(self):
        """Where there is nothing to type into a nudge is refused before anything starts."""
        done = helpers.run_cli("run", "--nudge", "x", "true")
        assert done.code == 125
        assert "--pty" in done.err


@pytest.mark.fault("A6")
@pytest.mark.slow
def test_a_terminal_unbuffers():
    """A program that prints without flushing is acted on with the hint on a pipe, and alive on a terminal."""
    code = "import time\nfor n in range(12): print('tick', n); time.sleep(0.1)"
    limits = ("--idle", "600ms")
    piped = helpers.run_cli("run", *limits, *program(code))
    assert piped.code == 124
    assert "PYTHONUNBUFFERED=1" in piped.err
    assert helpers.run_cli("run", *limits, "--pty", *program(code)).code == 0
    unbuffered = helpers.run_cli("run", *limits, *program(code), env={"PYTHONUNBUFFERED": "1"})
    assert unbuffered.code == 0


def test_nobody_is_left(shell, typed):
    """Closing the terminal ends the run and its program."""
    shell.send(typed(TICKS, "--idle", "20s") + "\n")
    shell.wait_for("tick 3")
    left = helpers.descendants(shell.process.pid)
    shell.process.send_signal(signal.SIGHUP)
    helpers.wait_until(lambda: not [pid for pid in left if helpers.alive(pid)])
    assert subprocess.Popen.poll(shell.process) is not None or shell.wait()
