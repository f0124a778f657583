"""A harness with a program, a log and a socket, for tests of the verbs that open it: see `one_harness`."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

HERE = Path(__file__).parent
#: Echoes what it reads in its own words, and says when it is interrupted or gets another size.
TALKER = r"""
import os, signal, sys
def size(*_): print("size", *os.get_terminal_size(0)[::-1], flush=True)
signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
print("hello", flush=True)
for line in iter(sys.stdin.readline, ""):
    if line == "exit\n": sys.exit(3)
    print("got", line.strip(), flush=True)
"""


class Harness:
    """A running harness in a project's folder."""

    def __init__(self, process):
        self.process = process

    def ask(self, word):
        """Ask for a number about its output."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    @property
    def program(self):
        """The pid of the program."""
        return helpers.children(self.process.pid)[0]


@pytest.fixture(name="project")
def project_fixture(tmp_path, monkeypatch):
    """Return a folder with a configuration file, and be in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "longwatch.toml").write_text("")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(name="harness")
def harness_fixture(project):
    """Return a starter of a harness with a program."""
    with contextlib.ExitStack() as stack:

        def start(code, stdin="pty"):
            argv = [sys.executable, HERE / "one_harness.py", project / "longwatch.toml", "web", stdin]
            process = subprocess.Popen(
                [*argv, sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.enter_context(helpers.ending(process))
            stack.callback(process.wait, 10)
            stack.callback(process.stdin.close)
            assert process.stdout.readline() == "ready\n"
            return Harness(process)

        yield start


def log():
    """Return what the harness has printed."""
    return next(Path(os.environ["XDG_STATE_HOME"]).glob("longwatch/daemons/*/logs/web.log")).read_text()


def printed(text):
    """Wait until the harness has printed this."""
    return helpers.wait_until(lambda: text in log(), what=text)
