"""How a harness stands, in one line and in the cells of a table: what is told first, and what is left out."""

from typing import Any

import pytest

from longwatch.cli import at_daemon, harnesses
from longwatch.vocabulary import GAVE_UP, ONLY_TOLD

UNTIL = "2025-03-09T01:00:00Z"
BUSY = {
    "name": "a", "state": "running", "pid": 7, "age_ms": 61_000, "alive_ms": 1_000, "progress_ms": 130_000,
    "limits": {"idle": {"window_ms": 60_000, "left_ms": 5_000}, "call": {"window_ms": 3_600_000}, "first": {"window_ms": 0}},
}  # fmt: skip


def test_the_cells_of_what_runs() -> None:
    """Pid, age, both clocks, the limits that are set with what is left of them."""
    assert harnesses.row(BUSY) == [
        "a", "7", "1m1s", "1s ago", "2m10s ago", "running", "idle 1m (5s left), call 1h", "-",
    ]  # fmt: skip


def test_the_cells_of_what_does_not_run() -> None:
    """No clocks of a run that is over, but how it ended, when it comes next, and that one waits."""
    idle = {**BUSY, "pid": None, "state": "stopped", "limits": {}}
    assert harnesses.row(idle)[1:] == ["-", "-", "-", "-", "stopped", "-", "-"]
    ended = {"outcome": "failed", "ended_at": UNTIL}
    following = harnesses.row({**idle, "next_due": UNTIL, "queued": True, "last_run": ended})[-1]
    assert following.split(", ")[1] == "one queued"
    assert following.split(", ")[2].startswith("last: failed 2025-03-09")
    assert "last" not in harnesses.row({**BUSY, "last_run": ended})[-1]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"state": "running"}, "running"),
        ({"state": "stopped", "intent": True, "kind": "triggered"}, "waits to be fired"),
        ({"state": "stopped", "intent": True, "kind": "scheduled", "next_due": UNTIL}, "waits for 2025-03-09"),
        ({"state": "stopped", "intent": False, "kind": "triggered"}, "stopped"),
        ({"state": "stopped", "intent": True, "kind": "resident"}, "stopped"),
        ({"state": "failed", "gave_up": "intensity"}, f"gave up: {GAVE_UP['intensity']}"),
        ({"state": "failed", "gave_up": "alike", "last_error": "boom"}, f"gave up: {GAVE_UP['alike']}: boom"),
        ({"state": "failed", "gave_up": "spawn", "last_error": "boom"}, f"gave up: {GAVE_UP['spawn']}: boom"),
        ({"state": "failed", "gave_up": "intensity", "last_error": "boom"}, f"gave up: {GAVE_UP['intensity']}"),
        ({"state": "running", "gave_up": "intensity", "pid": 7}, "running"),
        ({"state": "stopped", "holds": [{"reason": "one"}, {"reason": "two", "until": UNTIL}]}, "stopped, held: one, two, until 2025-03-09"),
        ({"state": "degraded", "backoff_until": UNTIL}, "degraded, tries again at 2025-03-09"),
        ({"state": "running", "report_only": True}, f"running, {ONLY_TOLD}"),
        ({"state": "running", "pending_restart": ["env"], "blind": "no records"}, "running, no records, pending restart"),
    ],
)  # fmt: skip
def test_a_state_in_a_few_words(told: dict[str, Any], words: str) -> None:
    """The most telling of what is known."""
    assert harnesses.state({"name": "a", **told}) == words


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "a: ?"),
        ({"state": "running", "pending_restart": ["env", "cwd"]}, "a: running, pending restart (env, cwd)"),
        ({"state": "running", "pending_restart": True}, "a: running, pending restart (the file has changed)"),
        ({"state": "stopped", "holds": [{"reason": "one"}], "backoff_until": UNTIL}, "a: stopped, held: one"),
        ({"state": "degraded", "backoff_until": UNTIL}, "a: degraded, tries again at 2025-03-09"),
    ],
)
def test_a_state_in_one_line(told: dict[str, Any], words: str) -> None:
    """Its name, its state, and what keeps it from going on."""
    assert at_daemon.harness_line({"name": "a", **told}) == words


@pytest.mark.parametrize("told", [{"report_only": True}, {"gave_up": "intensity"}])
def test_what_nobody_starts_again_says_who_could(told: dict[str, Any]) -> None:
    """The command is there to be copied."""
    line = at_daemon.harness_line({"name": "a", "state": "failed", "holds": [{"reason": "one"}], **told})
    assert "longwatch restart a" in line
    assert "held" not in line
