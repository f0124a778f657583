"""What tests of terminals share: programs that draw and tick, lines for a shell, and a shell on a terminal."""

import os
import shlex
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
TICKS = "import itertools, time\nfor n in itertools.count(): print('tick', n, flush=True); time.sleep(0.05)"


def program(code, *words):
    """Return the argv of a Python program."""
    return [sys.executable, "-c", code, *words]


def run(*words, **options):
    """Start `longwatch run` on a terminal of its own."""
    return Screen([LONGWATCH, "run", *words], **options)


def quoted(*words):
    """Return words as a line for a shell."""
    return shlex.join(map(str, words))


@pytest.fixture(name="shell")
def shell_fixture():
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


@pytest.fixture(name="typed")
def typed_fixture(tmp_path):
    """Return a maker of a line for a shell that runs a Python program under longwatch without showing its text."""

    def line(code, *options):
        path = tmp_path / "program.py"
        path.write_text(code)
        return quoted(LONGWATCH, "run", *options, sys.executable, path)

    return line
