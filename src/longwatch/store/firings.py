"""What the history keeps of a firing that became no run: the outcome without a run that its fact means."""

from longwatch.core.firing_facts import FiringMissed, FiringSkipped
from longwatch.paths import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core.facts import Fact

#: The kinds of holds that have an outcome of their own; whatever else was in the way, the firing was skipped.
_OUTCOMES = {
    "park": "quota_parked", "limit": "quota_parked", "cost": "budget_exceeded", "runs": "budget_exceeded",
    "budget": "budget_exceeded", "money": "budget_exceeded",
}  # fmt: skip


def decision(fact: "Fact") -> "dict[str, Any] | None":
    """Return the record for `LedgerWriter.decided`; None for a fact of anything else. A firing that waits has none yet."""
    if isinstance(fact, FiringMissed):
        return {
            "harness": fact.harness, "outcome": "missed", "trigger": "schedule", "count": fact.count,
            "why": "nobody could act on it in time", "due_at": rfc3339(fact.due), "first_at": rfc3339(fact.first),
        }  # fmt: skip
    if isinstance(fact, FiringSkipped):
        return {
            "harness": fact.harness, "outcome": _OUTCOMES.get(fact.why, "skipped"), "trigger": fact.trigger,
            "why": fact.why, "due_at": None if fact.due is None else rfc3339(fact.due),
        }  # fmt: skip
    return None
