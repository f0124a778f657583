"""The wait of a parked run: for an instant of the wall clock, and for whoever ends it."""

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from longwatch.cli import again, waiting
from longwatch.cli.waiting import Wait
from longwatch.posix.signals import Ear

NOW = 1_900_000_000_000


@pytest.fixture
def ear() -> Iterator[Ear]:
    """Return an ear for two signals; at the end they are as they were."""
    ear = Ear((signal.SIGTERM, signal.SIGUSR1))
    yield ear
    ear._pipe.restore()


@pytest.fixture
def front(ear: Ear) -> Any:
    """Return as much of a run as its wait needs."""
    return SimpleNamespace(ear=ear, values=SimpleNamespace(still_running=0))


RUN: Any = SimpleNamespace(keeping=None)


def clock(monkeypatch: pytest.MonkeyPatch, *instants: int) -> None:
    """Let the wall clock show these, one at each look, and stay at the last."""
    shown = iter(instants)
    last = instants[-1]
    monkeypatch.setattr(waiting, "wall", lambda: next(shown, last))
    monkeypatch.setattr(waiting, "LOOK_EVERY", 1)


@pytest.mark.fault("L1")
def test_a_clock_that_is_stepped(front: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step back lengthens the wait and a step ahead ends it: it is for what the clock shows."""
    clock(monkeypatch, NOW - 2, NOW - 1, NOW - 3_600_000, NOW - 1, NOW + 3_600_000)
    assert Wait(front, RUN, NOW).over() is None


def test_the_instant_itself(front: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for at the instant, nor behind it."""
    clock(monkeypatch, NOW)
    assert Wait(front, RUN, NOW).over() is None


def test_signals_wait_for_the_next_incarnation(front: Any, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind the wait is for whoever acts next, and what comes within it is acted on."""
    clock(monkeypatch, NOW - 1, NOW)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert Wait(front, RUN, NOW).over() is None
    os.kill(os.getpid(), signal.SIGTERM)
    assert ear.caught == []
    ear._read()
    assert ear.caught == [signal.SIGTERM]
    clock(monkeypatch, NOW - 1, NOW - 1, NOW)
    assert Wait(front, RUN, NOW).over() == signal.SIGTERM


def test_what_is_drawn_is_a_chance() -> None:
    """From nothing up to just below one."""
    assert all(0 <= again.drawn() < 1 for _ in range(100))
