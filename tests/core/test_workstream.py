"""What the end of an attempt means for a workstream."""

import pytest

from longwatch.core import workstream as w
from longwatch.core.workstream import CONTINUE, INTERRUPT, End

ENDS = [
    (End("exited", 0), w.COMPLETED),
    (End("exited", 0, over_budget=True, policy=CONTINUE), w.COMPLETED),
    (End("exited", 0, over_budget=True, policy=INTERRUPT), w.COMPLETED),
    (End("lingered", result_ok=True), w.COMPLETED),
    (End("lingered", result_ok=False), w.FAILED_TERMINAL),
    (End("exited", 3), w.FAILED_TERMINAL),
    (End("exited", 3, anchored=True), w.FAILED_RESUMABLE),
    (End("signaled"), w.FAILED_TERMINAL),
    (End("idle"), w.FAILED_TERMINAL),
    (End("idle", anchored=True), w.FAILED_RESUMABLE),
    (End("idle", over_budget=True, policy=INTERRUPT), w.TIMED_OUT),
    (End("idle", over_budget=True, policy=CONTINUE), w.FAILED_TERMINAL),
    (End("call", anchored=True, over_budget=True, policy=INTERRUPT), w.FAILED_RESUMABLE),
    (End("exited", 1, over_budget=True, policy=CONTINUE, anchored=True), w.FAILED_RESUMABLE),
    (End("spawn_failed", anchored=True), w.FAILED_TERMINAL),
    (End("cancelled"), w.INTERRUPTED),
    (End("interrupted"), w.INTERRUPTED),
    (End("unknown"), w.INTERRUPTED),
    (End("exited", 1, parked=True), w.INTERRUPTED),
]


@pytest.mark.capability("CAP-36", "CAP-37", "CAP-41", "CAP-42", "CAP-51")
@pytest.mark.parametrize(("end", "lifecycle"), ENDS, ids=str)
def test_an_end_leaves_one_lifecycle(end: End, lifecycle: str) -> None:
    """Each end leaves exactly one of the eight states."""
    assert w.settle(end) == lifecycle
    assert lifecycle in w.LIFECYCLES


@pytest.mark.capability("CAP-41")
def test_only_what_nobody_can_go_on_with_may_be_removed() -> None:
    """Three of eight may be removed, and none of them can be resumed."""
    assert len(w.LIFECYCLES) == len(set(w.LIFECYCLES)) == 8
    assert {name for name in w.LIFECYCLES if w.removable(name)} == {
        "completed",
        "failed_terminal",
        "abandoned",
    }
    assert not any(w.resumable(name) and w.removable(name) for name in w.LIFECYCLES)


@pytest.mark.capability("CAP-45", "CAP-46")
@pytest.mark.parametrize("lifecycle", w.LIFECYCLES)
def test_the_attempts_of_what_goes_on_are_counted_on(lifecycle: str) -> None:
    """What is resumed has one attempt more; what is over begins a life of its own."""
    expected = 4 if lifecycle in (*w.RESUMABLE, w.RUNNING) else 1
    assert w.next_attempt(lifecycle, 3) == expected
    assert w.next_attempt(lifecycle, 3, again=True) == 4


@pytest.mark.capability("CAP-40")
def test_the_strongest_setter_wins() -> None:
    """Item, flag, defaults, variable, what was kept, what is built in: in this order, on resume too."""
    given: dict[str, object] = {name: name for name in w.PRECEDENCE}
    for name in w.PRECEDENCE:
        assert w.chosen(given) == (name, name)
        given[name] = None
    assert w.chosen(given) == (None, "built-in")


@pytest.mark.capability("CAP-39")
def test_the_policy_and_the_budget_that_hold_without_words() -> None:
    """Left alone for two hours, then marked."""
    assert (w.POLICIES[0], w.BUDGET) == ("continue-preserve", 7_200_000)
