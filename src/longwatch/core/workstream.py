"""A workstream: one item of a batch that survives its attempts. What an end means for it, what may be resumed, what removed.

Elapsed time alone never ends one: over its budget it is marked, and it goes on. What may be removed is what nobody can
go on with any more.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR

PENDING, RUNNING, COMPLETED = "pending", "running", "completed"
FAILED_RESUMABLE, FAILED_TERMINAL = "failed_resumable", "failed_terminal"
TIMED_OUT, INTERRUPTED, ABANDONED = "timed_out_resumable", "interrupted_resumable", "abandoned"
LIFECYCLES = (
    PENDING, RUNNING, COMPLETED, FAILED_RESUMABLE, FAILED_TERMINAL, TIMED_OUT, INTERRUPTED, ABANDONED,
)  # fmt: skip
RESUMABLE = (FAILED_RESUMABLE, TIMED_OUT, INTERRUPTED)
FAILED = (FAILED_RESUMABLE, FAILED_TERMINAL, TIMED_OUT, INTERRUPTED)
#: Whose work tree may be removed: nothing in it is waited for. `abandoned` is said by the clean-up verb alone.
REMOVABLE = (COMPLETED, FAILED_TERMINAL, ABANDONED)

#: Over budget: marked and left alone, or stopped once it is silent as well.
CONTINUE, INTERRUPT = "continue-preserve", "interrupt-preserve"
POLICIES = (CONTINUE, INTERRUPT)
#: Seed and field agree: agents were cut at two hours right after their last review, so from then on one is marked.
BUDGET = 2 * HOUR

#: Ends that say nothing against the work: somebody stopped it, or it waits for a provider.
_ASKED = ("cancelled", "interrupted", "unknown")


class End(Plain):
    """How an attempt ended: reason and exit code, and what an attempt after it could start from.

    `over_budget` where it was marked, `policy` what that meant; `anchored` where there is a named checkpoint or a
    conversation to go on with; `parked` where a provider's limit ended it.
    """

    __slots__ = ("anchored", "code", "over_budget", "parked", "policy", "reason", "result_ok")

    def __init__(
        self, reason: str, code: int | None = None, *, anchored: bool = False, over_budget: bool = False,
        policy: str = CONTINUE, parked: bool = False, result_ok: bool | None = None,
    ) -> None:  # fmt: skip
        self.reason = reason
        self.code = code
        self.anchored = anchored
        self.over_budget = over_budget
        self.policy = policy
        self.parked = parked
        self.result_ok = result_ok


def settle(end: End) -> str:
    """Return the lifecycle that an end leaves behind. A slow run that finishes is a success."""
    if (end.reason == "exited" and end.code == 0) or (end.reason == "lingered" and end.result_ok):
        return COMPLETED
    if end.reason in _ASKED or end.parked:
        return INTERRUPTED
    if end.over_budget and end.policy == INTERRUPT and end.reason == "idle":
        return TIMED_OUT
    return FAILED_RESUMABLE if end.anchored and end.reason != "spawn_failed" else FAILED_TERMINAL


def resumable(lifecycle: str) -> bool:
    """Whether the next attempt may go on in the same folder. One found `running` was left by a supervisor that died."""
    return lifecycle in (*RESUMABLE, RUNNING)


def removable(lifecycle: str) -> bool:
    """Whether the folder may be removed."""
    return lifecycle in REMOVABLE


def next_attempt(lifecycle: str, attempt: int, *, again: bool = False) -> int:
    """Return the number of the next attempt: one more where it goes on, or is tried `again`; else the first of a new life."""
    return attempt + 1 if again or resumable(lifecycle) else 1


#: Who sets a value, strongest first. It holds on resume too: what is newly given beats what was kept.
PRECEDENCE = ("item", "flag", "defaults", "variable", "kept", "built-in")


def chosen(candidates: "dict[str, object]") -> "tuple[object, str]":
    """Return the value of the strongest setter that has one (not None), and who that is."""
    for setter in PRECEDENCE:
        if candidates.get(setter) is not None:
            return candidates[setter], setter
    return None, PRECEDENCE[-1]
