"""Clocks: a sleep of the machine, or of longwatch, and a step of the wall clock."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now
from longwatch.posix.process import start
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import block
from longwatch.testing import children
from supervised import Live, live, shell

WINDOW = 600


def suspend(run: Live, span: int) -> int:
    """Stop longwatch and all below it for `span` ms, as a laptop's sleep would; return when they went on."""
    everybody = [run.pid, *run.tree()]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    end = now() + span
    helpers.wait_until(lambda: now() >= end, what="the end of the sleep")
    woken = now()
    for pid in reversed(everybody):
        os.kill(pid, signal.SIGCONT)
    return woken


@pytest.mark.slow
@pytest.mark.fault("L1")
@pytest.mark.capability("NEW-9")
def test_a_sleep_of_five_windows_stops_nothing(state: Path) -> None:
    """Asleep for five windows and woken, a program that works goes on to its own end, and the gap is on record."""
    with live("--idle", f"{WINDOW}ms", program=children.ticker(0.1, count=25)) as run:
        run.wait_for("tick\n" * 5)
        run.status()
        suspend(run, 5 * WINDOW)
        done = run.finish()
    assert (done.code, done.reason, done.err) == (0, "exited", "")
    assert done.out == "tick\n" * 25
    events = (state / "runs" / done.report["run"] / "events.jsonl").read_text().splitlines()
    spans = [event["span"] for event in map(json.loads, events) if event["event"] == "lapse"]
    assert sum(spans) == pytest.approx(5 * WINDOW, abs=1_500)


@pytest.mark.slow
@pytest.mark.fault("L1")
@pytest.mark.capability("NEW-9")
def test_after_the_sleep_a_silence_counts_anew() -> None:
    """What was silent before the sleep gets the rest of its window after it, no less, and is then stopped."""
    with live("--idle", f"{WINDOW}ms", "-v", program=shell("sleep 0.3; echo up; sleep 60")) as run:
        run.wait_for("up")
        woken = suspend(run, 5 * WINDOW)
        done = run.finish()
        ended = now()
    assert (done.code, done.reason) == (124, "idle")
    # Of the window at most the moment between the word and the sleep was spent before it.
    assert ended - woken >= WINDOW / 2
    assert "nobody watched for" in done.err


def drive(program: list[str], tell: Any) -> tuple[Driver, int]:
    """Drive a program in this process with an idle window; `tell` is called at each look. Returns when it ended."""
    process = start(Launch(program), {}, Reactor())
    leader = process.child.identity
    assert leader is not None
    effects = ProcessEffects(process, Tree(leader, "l1", subreaper=False), now)
    effects.on_look.append(tell)
    spec = Spec({"idle": LimitSpec(WINDOW, STOP)}, ("stdout", "stderr"), grace=500)
    driver = Driver(Watch(spec, process.child.started), effects)
    effects.begin()
    block(driver)
    effects.end()
    return driver, now()


@pytest.mark.fault("L1")
@pytest.mark.capability("NEW-9")
@pytest.mark.parametrize("step", [3_600, -3_600])
def test_a_step_of_the_wall_clock_changes_nothing(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour forward or back in the middle of a run neither stops a working program nor saves a silent one."""
    wall, nanoseconds, offset = time.time, time.time_ns, [0]
    monkeypatch.setattr(time, "time", lambda: wall() + offset[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + offset[0] * 10**9)

    def jump(watch: Watch, at: int) -> None:
        offset[0] = step if watch.sight.alive else 0

    working, _ = drive(children.ticker(0.1, count=12), jump)
    assert working.watch.ending.reason == "exited"
    silent, ended = drive(children.ticks_then_silent(), jump)
    assert silent.watch.ending.reason == "idle"
    assert silent.watch.sight.last is not None
    assert WINDOW <= ended - silent.watch.sight.last < WINDOW + 2_000


@pytest.mark.fault("L1")
def test_only_the_clock_that_counts_sleep_is_read() -> None:
    """The core's time is CLOCK_BOOTTIME in whole milliseconds, which no step and no sleep disturbs."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    assert before <= now() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
