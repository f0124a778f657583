"""Stopping, going on, and the background: `longwatch run` under an interactive shell."""

import signal
import subprocess

import pytest

import helpers
from helpers import LONGWATCH, Screen
from terminals import (
    BAD,
    CTRL_C,
    CTRL_Z,
    FULL_SCREEN,
    TICKS,
    VISIBLE_CURSOR,
    quoted,
    shell_fixture,
    typed_fixture,
)

__all__ = ["shell_fixture", "typed_fixture"]


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


def test_nobody_is_left(shell, typed):
    """Closing the terminal ends the run and its program."""
    shell.send(typed(TICKS, "--idle", "20s") + "\n")
    shell.wait_for("tick 3")
    left = helpers.descendants(shell.process.pid)
    shell.process.send_signal(signal.SIGHUP)
    helpers.wait_until(lambda: not [pid for pid in left if helpers.alive(pid)])
    assert subprocess.Popen.poll(shell.process) is not None or shell.wait()
