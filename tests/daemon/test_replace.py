"""Having another daemon let go: asked first, woken where it was stopped, killed where it does not hear."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import helpers
from longwatch import paths
from longwatch.daemon import replace
from longwatch.daemon.lock import Taken
from longwatch.posix.identity import identity

# A daemon as whoever replaces it sees one: it ends when it is asked, or ignores that.
HOLDER = """
import signal, sys
signal.signal(signal.SIGUSR2, signal.SIG_IGN if sys.argv[1] == "deaf" else lambda *_: sys.exit(7))
print(flush=True)
while True:
    signal.pause()
"""


class Place:
    """A file whose daemon says of itself what the test wants."""

    def __init__(self, state: Path) -> None:
        self.config = str(state / "longwatch.toml")
        self.folder = Path(paths.daemon_folder(paths.state(), paths.daemon_id(self.config)))
        self.folder.mkdir(parents=True)
        self.taken = Taken(self.config, None, None)

    def says(self, **told: object) -> None:
        (self.folder / "daemon.json").write_text(json.dumps(told))

    def begin(self, how: str) -> "subprocess.Popen[str]":
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, how], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        holder.stdout.readline()
        who = identity(holder.pid)
        assert who is not None
        self.says(pid=who.pid, start=who.start, boot=who.boot)
        return holder

    def replaced(self) -> None:
        replace.replaced(self.config, self.taken)


@pytest.fixture
def place(state: Path) -> Place:
    return Place(state)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_daemon_that_is_asked_lets_go(place: Place, stopped: bool) -> None:
    """One that somebody stopped is woken for it; it ends by itself, as it wants to."""
    with helpers.ending(place.begin("hears")) as holder:
        if stopped:
            holder.send_signal(signal.SIGSTOP)
            helpers.wait_until(lambda: (helpers.stat(holder.pid) or "?")[0] == "T")
        place.replaced()
        assert holder.wait(0) == 7


def test_a_daemon_that_does_not_hear_is_killed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that it holds is harmed by that: it is its keeper's."""
    monkeypatch.setattr(replace, "PATIENCE", 0.05)
    with helpers.ending(place.begin("deaf")) as holder:
        place.replaced()
        assert holder.wait(0) == -signal.SIGKILL


def test_a_process_that_took_its_number_is_left_alone(place: Place) -> None:
    """The one that said this of itself is gone."""
    with helpers.ending(place.begin("hears")) as other:
        who = identity(other.pid)
        assert who is not None
        place.says(pid=who.pid, start=who.start - 1, boot=who.boot)
        place.replaced()
        assert helpers.alive(other.pid)


@pytest.mark.parametrize(
    "told", [{}, {"pid": "x", "start": 1, "boot": "b"}, {"pid": os.getpid(), "boot": "b"}]
)
def test_who_has_not_said_who_it_is_cannot_be_replaced(
    place: Place, told: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins or ends at this moment: that it is there is all that can be said."""
    monkeypatch.setattr(replace, "_UNSAID", 0.0)
    if told:
        place.says(**told)
    with pytest.raises(Taken):
        place.replaced()
