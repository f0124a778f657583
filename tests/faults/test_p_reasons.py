"""Reasons: every end has its own cause, decided before the first signal, never guessed from a status."""

import os
import signal
from collections.abc import Callable

import pytest

import helpers
from longwatch.testing import children
from supervised import Live, Run, live, shell

SILENT = shell("echo up; exec sleep 60")


def stalls(run: Live) -> Run:
    """Wait until its limit ends it."""
    return run.finish()


def killed_from_outside(run: Live) -> Run:
    """Kill the program itself, as the kernel does when memory is short."""
    os.kill(run.tree()[0], signal.SIGKILL)
    return run.finish()


def told_to_stop(run: Live) -> Run:
    """Have a user stop it by the verb."""
    name = run.status()["run"]
    stopped = helpers.run_cli("stop", name)
    assert stopped.code == 0, stopped.err
    return run.finish()


def interrupted(run: Live) -> Run:
    """Interrupt longwatch itself."""
    run.send(signal.SIGINT)
    return run.finish()


ENDS: dict[str, tuple[Callable[[Live], Run], int, dict[str, object]]] = {
    "stall": (stalls, 124, {"termination_reason": "idle", "outcome": "failed", "origin": None}),
    "outside": (
        killed_from_outside,
        137,
        {"termination_reason": "signaled", "signal": "KILL", "stopped": None},
    ),
    "stop": (
        told_to_stop,
        143,
        {"termination_reason": "cancelled", "origin": "explicit", "outcome": "cancelled"},
    ),
    "interrupt": (
        interrupted,
        -2,
        {"termination_reason": "interrupted", "outcome": "interrupted", "verdict": None},
    ),
}


@pytest.mark.fault("P4")
@pytest.mark.parametrize("end", ENDS)
def test_each_end_has_its_own_cause(end: str) -> None:
    """A stall, a hard kill from outside, a stop by the user and an interrupt are told apart by status and record."""
    act, code, told = ENDS[end]
    window = "500ms" if end == "stall" else "2500ms"
    with live("--idle", window, "-k", "1s", program=SILENT) as run:
        run.wait_for("up")
        done = act(run)
    assert done.code == code
    assert {key: done.report[key] for key in told} == told
    assert (done.report["limit"] is not None) == (end == "stall")
    assert done.report["survivors"] == []


@pytest.mark.fault("P4")
def test_an_own_failure_is_nobody_elses() -> None:
    """A program that fails by itself is `exited` with its code; nothing is said on stderr."""
    with live("--idle", "20s", program=shell("echo up; exit 3")) as run:
        done = run.finish()
    assert (done.code, done.reason, done.err) == (3, "exited", "")
    assert (done.report["exit_code"], done.report["outcome"], done.report["limit"]) == (3, "failed", None)


@pytest.mark.fault("P4")
def test_the_cause_names_the_silent_source_and_since_when(state: object) -> None:
    """The record of a stall says which source was the last to move, and how long ago that was."""
    with live("--idle", "400ms", program=children.ticks_then_silent()) as run:
        done = run.finish()
    limit = done.report["limit"]
    assert (limit["name"], limit["window_ms"], limit["source"]) == ("idle", 400, "stdout")
    assert 400 <= done.report["idle_ms"] < 1_000
    rungs = [rung["rung"] for rung in done.report["rungs"]]
    assert rungs == ["limit_fired", "stop_began"]


@pytest.mark.fault("P4")
@pytest.mark.capability("CAP-62")
def test_the_cause_is_not_taken_from_the_status() -> None:
    """A program that answers our TERM with success was stopped by us all the same."""
    with live("--idle", "400ms", program=children.handles_term(0)) as run:
        done = run.finish()
    assert (done.code, done.reason, done.out) == (124, "idle", "ready\nbye\n")
    assert (done.report["exit_code"], done.report["outcome"]) == (0, "failed")
