"""The screen as a source, lines typed into a silent program, and what a terminal does to buffers."""

import pytest

import helpers
from terminals import program, run

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
