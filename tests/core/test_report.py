"""The report: one object from facts alone."""

import json

from longwatch.core.facts import (
    Fact,
    KillSent,
    LeaderExited,
    LeftoversStopped,
    LimitFired,
    LimitNoted,
    Nudged,
    RunEnded,
    RunStarted,
    StopBegan,
)
from longwatch.core.report import MAX_RUNGS, SCHEMA, Stream, build, signal_name

# The keys that the design promises; keys are only added within a schema number.
KEYS = {
    "schema", "run", "name", "attempt", "termination_reason", "origin", "outcome", "exit_code", "signal", "limit",
    "started_at", "duration_ms", "idle_ms", "progress", "pauses", "stdout", "stderr", "merged", "leftovers", "rungs",
    "survivors", "proof", "stopped", "post_mortem", "resume",
}  # fmt: skip


def report(*facts: Fact, last_progress: int | None = None, **more: object) -> dict[str, object]:
    """Return the report of a run that started at 1000."""
    words: dict[str, object] = {
        "run": "job-abc123", "name": "job", "attempt": 1, "started_at": "2026-01-01T00:00:00Z", "started": 1000,
        "facts": [RunStarted(1000), *facts], "progress": {}, "last_progress": last_progress, "streams": {},
        "merged": False, **more,
    }  # fmt: skip
    made = build(**words)  # type: ignore[arg-type]
    assert json.loads(json.dumps(made)) == made
    return made


def test_keys() -> None:
    """Every promised key is there, whatever the run was."""
    assert set(report()) >= KEYS
    assert report()["schema"] == SCHEMA == 1


def test_a_run_of_its_own() -> None:
    """A program that ended by itself: its code, no limit, nothing stopped, and silence up to its end."""
    made = report(LeaderExited(5000, 3, None), RunEnded(5200, "exited", 3), last_progress=4000)
    assert (made["termination_reason"], made["outcome"], made["exit_code"]) == ("exited", "failed", 3)
    assert (made["limit"], made["stopped"], made["signal"], made["origin"]) == (None, None, None, None)
    assert (made["duration_ms"], made["idle_ms"]) == (4200, 1200)
    assert made["leftovers"] == {"count": 0, "processes": [], "kept": False}


def test_a_stop_by_a_limit() -> None:
    """A limit's stop: which limit, its window and evidence, the rungs with their times, how it was stopped."""
    made = report(
        LimitNoted(6000, "idle", 10_000),
        LimitFired(11_000, "idle", 10_000, 1000, "stop", "stdout"),
        Nudged(11_000, "idle"),
        StopBegan(21_000, "idle", 15),
        KillSent(31_000),
        RunEnded(31_500, "idle", None, 9, limit="idle"),
        last_progress=1000,
    )
    assert made["limit"] == {"name": "idle", "window_ms": 10_000, "source": "stdout", "subject": None}
    rungs = made["rungs"]
    assert isinstance(rungs, list)
    assert [(rung["rung"], rung["after_ms"]) for rung in rungs] == [
        ("limit_fired", 10_000), ("nudged", 10_000), ("stop_began", 20_000), ("kill_sent", 30_000),
    ]  # fmt: skip
    assert made["stopped"] == {"how": "TERM, then KILL", "ms": 10_500}
    assert (made["signal"], made["outcome"], made["verdict"]) == ("KILL", "failed", "failure")
    # The silence is that before the first signal: what came after it is ours.
    assert made["idle_ms"] == 20_000


def test_a_stop_without_kill_and_without_progress() -> None:
    """Without any progress silence counts from the start; last words after the signal do not shorten it."""
    end = RunEnded(12_000, "timeout", 0, limit="timeout")
    assert report(StopBegan(11_000, "timeout", 15), end)["idle_ms"] == 10_000
    made = report(StopBegan(11_000, "timeout", 15), end, last_progress=11_500)
    assert made["idle_ms"] == 0
    assert made["stopped"] == {"how": "TERM", "ms": 1000}
    assert made["limit"] == {"name": "timeout"}


def test_no_end_is_unknown() -> None:
    """Facts without an end say so, and claim nothing."""
    made = report()
    assert (made["termination_reason"], made["outcome"], made["exit_code"]) == ("unknown", "unknown", None)


def test_a_program_that_never_was_has_no_code() -> None:
    """The shell's status for a program that could not be started is not the program's."""
    made = report(RunEnded(1001, "spawn_failed", 127))
    assert (made["exit_code"], made["outcome"]) == (None, "failed")


def test_leftovers_are_counted_and_named() -> None:
    """What the program left is named, and whether it was left alone."""
    made = report(LeftoversStopped(2000, ("7 sleep", "8 node"), kept=True), RunEnded(2000, "exited", 0))
    assert made["leftovers"] == {"count": 2, "processes": ["7 sleep", "8 node"], "kept": True}


def test_streams() -> None:
    """A stream is its bytes, head and tail as text with replacement, and whether something is missing between."""
    streams = {"stdout": Stream(9, b"caf\xc3\xa9\xff", b"", 0, 2), "stderr": Stream(70_000, b"a", b"z", 4464)}
    made = report(streams=streams)
    assert made["stdout"] == {"bytes": 9, "head": "café\ufffd", "tail": "", "truncated": False, "lost": 2}
    assert made["stderr"] == {"bytes": 70_000, "head": "a", "tail": "z", "truncated": True, "lost": 0}
    assert report(streams={})["stdout"] is None


def test_the_newest_rungs_are_kept() -> None:
    """A run of days that notified often has a report of bounded size."""
    fired = [LimitFired(at, "idle", 10, at - 10, "notify") for at in range(2000, 2000 + MAX_RUNGS + 50)]
    rungs = report(*fired)["rungs"]
    assert isinstance(rungs, list)
    assert len(rungs) == MAX_RUNGS
    assert rungs[-1]["after_ms"] == 1000 + MAX_RUNGS + 49


def test_what_was_handed_in_is_handed_on() -> None:
    """Post-mortem, survivors, proof, resume, notes and pauses come from those who know them."""
    made = report(
        RunEnded(2000, "lingered"), result_ok=True, survivors=["7 sleep"], proof="subreaper", resume="x --resume 1",
        notes=["a note"], post_mortem={"diagnosis": "waits"}, parked_ms=5,
    )  # fmt: skip
    assert made["outcome"] == "success"
    assert (made["survivors"], made["proof"], made["resume"]) == (["7 sleep"], "subreaper", "x --resume 1")
    assert (made["notes"], made["post_mortem"], made["pauses"]) == (
        ["a note"],
        {"diagnosis": "waits"},
        {"parked_ms": 5},
    )


def test_signals_by_name() -> None:
    """A signal is named as in `kill -l`; one without a name is its number."""
    assert [signal_name(number) for number in (15, 9, 64, None)] == ["TERM", "KILL", "64", None]
