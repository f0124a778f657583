"""One table for outcome, verdict and exit status."""

import pytest

from longwatch.core.outcomes import NO_RUN, ORIGINS, OUTCOMES, REASONS, TABLE, exit_status, outcome

# The design's table. Columns: code, signal, the result's own status -> outcome, verdict, exit status.
ROWS = [
    ("exited", 0, None, None, "success", "success", 0),
    ("exited", 3, None, None, "failed", "failure", 3),
    ("signaled", None, 9, None, "failed", "failure", 137),
    ("signaled", None, 15, None, "failed", "failure", 143),
    ("idle", None, 15, None, "failed", "failure", 124),
    ("idle", 0, None, None, "failed", "failure", 124),  # the cause is ours, whatever it made of our TERM
    ("first", None, 9, None, "failed", "failure", 124),
    ("call", None, 15, None, "failed", "failure", 124),
    ("ceiling", None, 15, None, "failed", "failure", 124),
    ("effect", None, 15, None, "failed", "failure", 124),
    ("asked", None, 15, None, "failed", "failure", 124),
    ("looping", None, 15, None, "failed", "failure", 124),
    ("timeout", 0, None, None, "timed_out", "failure", 124),
    ("stalled", None, 15, None, "stalled", None, 124),  # a resident program: no verdict
    ("lingered", None, 15, True, "success", "success", 0),
    ("lingered", 0, None, False, "failed", "failure", 1),
    ("lingered", None, 15, None, "failed", "failure", 1),
    ("cancelled", None, 15, None, "cancelled", None, 143),
    ("interrupted", None, 2, None, "interrupted", None, 130),
    ("interrupted", 7, None, None, "interrupted", None, 7),  # the child's own answer to the signal
    ("spawn_failed", 127, None, None, "failed", "failure", 127),
    ("spawn_failed", 126, None, None, "failed", "failure", 126),
    ("unknown", None, None, None, "unknown", None, 125),
]


@pytest.mark.parametrize(("reason", "code", "signal", "ok", "word", "verdict", "status"), ROWS)
def test_row(
    reason: str,
    code: int | None,
    signal: int | None,
    ok: bool | None,
    word: str,
    verdict: str | None,
    status: int,
) -> None:
    """Outcome, verdict and exit status of every reason are the table's."""
    assert outcome(reason, code, result_ok=ok) == (word, verdict)
    assert exit_status(reason, code, signal, result_ok=ok) == status


def test_the_table_is_complete() -> None:
    """The set of reasons is closed, each has its rows, and each outcome is a word of the list."""
    assert set(REASONS) == set(TABLE) == {row[0] for row in ROWS}
    assert {row[4] for row in ROWS} | set(NO_RUN) == set(OUTCOMES)
    assert NO_RUN == ("skipped", "missed", "quota_parked", "budget_exceeded")
    assert ORIGINS == ("explicit", "cascade", "shutdown", "replaced", "hours", "budget")


def test_idle_and_stalled_stay_distinct() -> None:
    """Somebody waits for an idle child, which is a failure; a stalled resident program carries no verdict."""
    assert outcome("idle") == ("failed", "failure")
    assert outcome("stalled") == ("stalled", None)


def test_a_lost_code_is_never_a_success() -> None:
    """Where nobody could read how it ended the status is ours, not 0."""
    assert exit_status("exited") == 125
    assert exit_status("cancelled") == 125
    assert outcome("exited") == ("failed", "failure")


def test_an_unknown_reason_is_refused() -> None:
    """No word outside of the closed set has an outcome."""
    with pytest.raises(KeyError):
        outcome("bored")
