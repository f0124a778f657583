"""How a run ended, said three ways from one table: outcome, verdict, exit status.

`termination_reason` is a closed set. `idle` (somebody waits for this program: a failure) and `stalled` (a
resident program: no verdict) stay distinct; a run stopped by its owner carries no verdict either.
"""

#: GNU timeout's words, known to every shell script: a limit stopped it, we failed, not runnable, not found.
LIMIT, OURS, NOT_EXECUTABLE, NOT_FOUND = 124, 125, 126, 127

SUCCESS, FAILURE = "success", "failure"

#: reason -> (outcome, verdict, exit status); None: it depends on the child's own end.
TABLE: dict[str, tuple[str | None, str | None, int | None]] = {
    "exited": (None, None, None),
    "signaled": ("failed", FAILURE, None),
    "idle": ("failed", FAILURE, LIMIT),
    "first": ("failed", FAILURE, LIMIT),
    "stalled": ("stalled", None, LIMIT),
    "call": ("failed", FAILURE, LIMIT),
    "ceiling": ("failed", FAILURE, LIMIT),
    "timeout": ("timed_out", FAILURE, LIMIT),
    "effect": ("failed", FAILURE, LIMIT),
    "asked": ("failed", FAILURE, LIMIT),
    "looping": ("failed", FAILURE, LIMIT),
    "lingered": (None, None, None),
    "cancelled": ("cancelled", None, None),
    "interrupted": ("interrupted", None, None),
    "spawn_failed": ("failed", FAILURE, None),
    "unknown": ("unknown", None, OURS),
}
REASONS = tuple(TABLE)
#: Those that mean that one of our limits stopped the run.
LIMITED = (*(reason for reason, row in TABLE.items() if row[2] == LIMIT), "lingered")
#: Outcomes without a run.
NO_RUN = ("skipped", "missed", "quota_parked", "budget_exceeded")
OUTCOMES = ("success", "failed", "timed_out", "stalled", "cancelled", "interrupted", "unknown", *NO_RUN)
ORIGINS = ("explicit", "cascade", "shutdown", "replaced", "hours", "budget")


def outcome(reason: str, code: int | None = None, *, result_ok: bool | None = None) -> tuple[str, str | None]:
    """Return outcome and verdict (None: no verdict). `lingered` goes by the result that was seen."""
    fixed, verdict, _ = TABLE[reason]
    if fixed is not None:
        return fixed, verdict
    good = result_ok if reason == "lingered" else code == 0
    return ("success", SUCCESS) if good else ("failed", FAILURE)


def exit_status(
    reason: str, code: int | None = None, signal: int | None = None, *, result_ok: bool | None = None
) -> int:
    """Return what `run` exits with: the child's own, 128+N, or the table's. A lost code is 125, never 0."""
    fixed = TABLE[reason][2]
    if fixed is not None:
        return fixed
    if reason == "lingered":
        return 0 if result_ok else 1
    if signal is not None:
        return 128 + signal
    return OURS if code is None else code
