"""Which items of a plan may start, what an end brings about, and when nothing more is started."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.core import workstream as w
from longwatch.core.plan import ALIKE, Item, Plan, faults


def items(*names: str, retries: int = 0) -> list[Item]:
    return [Item(name, retries=retries) for name in names]


def test_no_more_than_the_jobs_run_at_once() -> None:
    """Items start in the order of the plan, as places become free."""
    plan = Plan(items("a", "b", "c"), 2)
    assert plan.due(0) == ["a", "b"]
    for name in plan.due(0):
        plan.started(name)
    assert plan.due(0) == []
    plan.ended("a", w.COMPLETED, 1, span=1)
    assert plan.due(1) == ["c"]
    assert plan.running == ["b"]
    assert plan.left_out() == {}
    assert not plan.over


def test_an_item_waits_for_those_it_needs() -> None:
    """It starts when they are completed, and is left out when they cannot be."""
    plan = Plan([Item("b", ("a",)), Item("a"), Item("c", ("b",))])
    assert plan.due(0) == ["a"]
    plan.started("a")
    plan.ended("a", w.FAILED_TERMINAL, 1, span=1)
    assert plan.due(1) == []
    assert plan.over
    assert plan.left_out() == {"b": "needs a", "c": "needs b"}


def test_what_is_left_out_names_the_needs_that_were_not_met() -> None:
    """Not those that were."""
    plan = Plan([*items("a", "b"), Item("c", ("a", "b"))])
    for name, lifecycle in (("a", w.COMPLETED), ("b", w.FAILED_TERMINAL)):
        plan.started(name)
        plan.ended(name, lifecycle, 1, span=1)
    assert plan.left_out() == {"c": "needs b"}


def test_a_failure_is_tried_again_after_a_growing_delay() -> None:
    """As often as it may be, each time later; then it stays as it is."""
    plan = Plan(items("a", retries=2))
    waits = []
    for again in (True, True, False):
        now = plan.next_due(0) or 0
        assert plan.due(now) == ["a"]
        plan.started("a")
        assert plan.ended("a", w.FAILED_TERMINAL, now, span=20_000) is again
        waits.append((plan.next_due(now) or now) - now)
        assert plan.due(now) == []
    assert waits == [1_000, 2_000, 0]
    assert plan.over


def test_who_was_interrupted_is_not_tried_again_in_the_same_run() -> None:
    """Somebody wanted it to end; the next run resumes it."""
    plan = Plan(items("a", retries=5))
    plan.started("a")
    assert not plan.ended("a", w.INTERRUPTED, 1, span=1)
    assert plan.over


def test_who_waits_for_a_provider_is_taken_up_then() -> None:
    """At the instant that was stated, however often, and no retry is spent; a run that ends waits for nobody."""
    plan = Plan(items("a"))
    for until in (5_000, 9_000):
        plan.started("a")
        assert plan.ended("a", w.INTERRUPTED, 0, span=1, until=until)
        assert plan.due(until - 1) == []
        assert plan.next_due(0) == until
        assert plan.due(until) == ["a"]
    plan.started("a")
    plan.hold()
    assert not plan.ended("a", w.INTERRUPTED, 0, span=1, until=99)
    assert plan.over


def test_a_park_is_no_retry() -> None:
    """Who waited for a provider may fail as often as before."""
    plan = Plan(items("a", retries=1))
    ends = [(w.INTERRUPTED, 10), (w.INTERRUPTED, 20), (w.FAILED_RESUMABLE, None), (w.FAILED_RESUMABLE, None)]
    again = []
    for lifecycle, until in ends:
        plan.started("a")
        again.append(plan.ended("a", lifecycle, 0, span=20_000, until=until))
    assert again == [True, True, True, False]


def test_nothing_follows_a_failure_once_nothing_more_is_started() -> None:
    """Nobody is promised another try: the run was ended, or items failed alike."""
    held = Plan(items("a", retries=5))
    held.started("a")
    held.hold()
    assert not held.ended("a", w.FAILED_RESUMABLE, 0, span=20_000)
    broken = Plan(items("a", "b", retries=5), alike=2)
    for name in "ab":
        broken.started(name)
    assert broken.ended("a", w.FAILED_RESUMABLE, 0, span=1, words="no key")
    assert not broken.ended("b", w.FAILED_RESUMABLE, 0, span=1, words="no key")
    assert not broken.waits("b")


def test_who_needs_no_waking_is_not_due_next() -> None:
    """A delay that is over waits for a place, and one that nobody wants any more for nothing."""
    plan = Plan(items("a", "b", retries=1), 1)
    plan.put_off("b", 500)
    plan.started("a")
    assert plan.next_due(499) == 500
    assert plan.next_due(500) is None
    plan.leave("b")
    assert plan.next_due(0) is None


@pytest.mark.fault("J3")
def test_items_that_fail_alike_and_at_once_stop_the_batch() -> None:
    """Nothing more is started; what was not tried says why."""
    plan = Plan(items(*map(str, range(10))), 1)
    for _ in range(ALIKE):
        (name,) = plan.due(0)
        plan.started(name)
        plan.ended(name, w.FAILED_TERMINAL, 0, span=900, words="login refused")
    assert plan.due(0) == []
    assert plan.next_due(0) is None
    assert plan.over
    assert plan.left_out()["9"] == "items failed alike: login refused"


@pytest.mark.parametrize(
    "end",
    [
        (w.COMPLETED, 900, "login refused"),
        (w.FAILED_TERMINAL, 900, "something else"),
        (w.FAILED_TERMINAL, 60_000, "login refused"),
        (w.FAILED_TERMINAL, 900, ""),
        (w.INTERRUPTED, 900, "login refused"),
    ],
)
def test_one_that_ends_otherwise_breaks_the_row(end: tuple[str, int, str]) -> None:
    """A success, other words, a long life: the cause is not common to all."""
    plan = Plan(items(*map(str, range(2 * ALIKE))), 1)
    for number in range(2 * ALIKE - 1):
        name = plan.due(0)[0]
        plan.started(name)
        lifecycle, span, words = end if number == ALIKE - 1 else (w.FAILED_TERMINAL, 900, "login refused")
        plan.ended(name, lifecycle, 0, span=span, words=words)
        if number == ALIKE - 1:
            assert not plan.broken
    assert plan.due(0) != []


def test_a_row_of_any_length_is_fine_where_nobody_counts() -> None:
    """0 switches the breaker off."""
    plan = Plan(items(*map(str, range(9))), 1, alike=0)
    for _ in range(8):
        plan.started(plan.due(0)[0])
        plan.ended(plan.running[0], w.FAILED_TERMINAL, 0, span=1, words="x")
    assert plan.due(0) == ["8"]


@pytest.mark.capability("CAP-45", "CAP-46", "CAP-51")
@pytest.mark.parametrize(
    ("kept", "starts"),
    [
        (w.PENDING, True), (w.RUNNING, True), (w.COMPLETED, False), (w.FAILED_RESUMABLE, True),
        (w.FAILED_TERMINAL, False), (w.TIMED_OUT, True), (w.INTERRUPTED, True), (w.ABANDONED, False),
    ],
)  # fmt: skip
def test_a_resumed_run_goes_on_with_what_is_not_over(kept: str, starts: bool) -> None:
    """What is finished, well or for good, is not run a second time."""
    plan = Plan(items("a"), kept={"a": kept, "unknown": w.RUNNING})
    assert (plan.due(0) == ["a"]) is starts
    assert plan.over is not starts


def test_a_run_that_is_to_end_starts_nothing_more() -> None:
    """What runs is waited for; what was not tried says why."""
    plan = Plan(items("a", "b"), 1)
    plan.started("a")
    plan.hold()
    plan.ended("a", w.INTERRUPTED, 1, span=1)
    assert plan.due(1) == []
    assert plan.over
    assert plan.left_out() == {"b": "the run was ended"}
    assert plan.lifecycle("b") == w.PENDING


def test_what_makes_items_no_plan() -> None:
    """Ids given twice, unknown needs, circles: each is told with the item it is about."""
    assert faults([Item("a"), Item("a")]) == [("a", "the id a is given twice")]
    assert faults([Item("a", ("x",))]) == [("a", "a needs x, which is no item")]
    circle = [Item("c"), Item("a", ("b",)), Item("b", ("a", "c"))]
    assert faults(circle) == [("a", "items need each other in a circle: a, b")]
    assert faults([Item("b", ("a",)), Item("a")]) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_run_of_any_plan_comes_to_its_end(data: st.DataObject) -> None:
    """Never more than the jobs at once, never one before its needs, never one completed twice, and always an end."""
    count = data.draw(st.integers(1, 8))
    plan = Plan(
        [
            Item(str(n), tuple({str(m) for m in data.draw(st.lists(st.integers(0, n - 1), max_size=2))} if n else ()), n % 3)
            for n in range(count)
        ],
        data.draw(st.integers(1, 4)),
    )  # fmt: skip
    assert faults(plan.items.values()) == []
    now, completed = 0, set()
    for _ in range(200):
        for name in plan.due(now):
            assert name not in completed
            assert completed.issuperset(plan.items[name].needs)
            plan.started(name)
        assert len(plan.running) <= plan.jobs
        if not plan.running:
            following = plan.next_due(now)
            if following is None:
                break
            now = following
            continue
        name = data.draw(st.sampled_from(plan.running))
        lifecycle = data.draw(
            st.sampled_from([w.COMPLETED, w.FAILED_TERMINAL, w.FAILED_RESUMABLE, w.INTERRUPTED])
        )
        plan.ended(name, lifecycle, now, span=data.draw(st.sampled_from([5, 50_000])), words="x", drawn=0.5)
        completed |= {name} if lifecycle == w.COMPLETED else set()
    assert plan.over


@pytest.mark.fault("J3")
def test_an_item_that_fails_alike_is_not_tried_for_ever() -> None:
    """Three times at once and with the same words, and its other tries are saved; the batch itself goes on."""
    plan = Plan([Item("a", retries=9), Item("b")])
    plan.started("b")
    tries = []
    for _ in range(3):
        plan.started("a")
        tries.append(plan.ended("a", w.FAILED_TERMINAL, 0, span=5, words="login refused"))
    assert tries == [True, True, False]
    assert not plan.broken
    assert plan.lifecycle("a") == w.FAILED_TERMINAL


def test_other_words_are_another_failure() -> None:
    """Or a long life: then it is tried as often as it may be."""
    plan = Plan([Item("a", retries=9)])
    for number in range(9):
        plan.started("a")
        assert plan.ended("a", w.FAILED_TERMINAL, 0, span=5 if number % 2 else 99_999, words="login refused")


def test_only_some_are_run() -> None:
    """The others are left as they are, and say so; a need that is not completed is not run for it."""
    plan = Plan([Item("a"), Item("b", ("a",)), Item("c")], only=["b", "c"], kept={"a": w.PENDING})
    assert plan.due(0) == ["c"]
    plan.started("c")
    plan.ended("c", w.COMPLETED, 0, span=1)
    assert plan.over
    assert plan.left_out() == {"a": "nobody asked for it", "b": "needs a"}
    assert (plan.waits("b"), plan.waits("a")) == (True, False)


@pytest.mark.parametrize("kept", [w.COMPLETED, w.FAILED_TERMINAL, w.ABANDONED, w.INTERRUPTED])
def test_somebody_wants_an_item_again(kept: str) -> None:
    """Whatever became of it; what could be gone on with still can."""
    plan = Plan([Item("a", retries=1), Item("b")], kept={"a": kept})
    plan.started("b")
    plan.leave("a")
    assert plan.due(0) == []
    assert plan.again("a")
    assert plan.lifecycle("a") == (w.INTERRUPTED if kept == w.INTERRUPTED else w.PENDING)
    assert plan.due(0) == ["a"]
    plan.started("a")
    assert not plan.again("a")
    for _ in range(2):
        assert plan.ended(
            "a", w.FAILED_TERMINAL, 0, span=20_000
        )  # it may be tried again as often as a new one
        assert plan.again("a")
        assert plan.due(0) == ["a"]
        plan.started("a")
    plan.ended("a", w.FAILED_TERMINAL, 0, span=20_000)
    plan.hold()
    assert not plan.again("a")


def test_what_can_still_come_of_a_plan() -> None:
    """What waits, runs or can be gone on with, and no need of it is lost."""
    lifecycles = {"a": w.COMPLETED, "b": w.FAILED_TERMINAL, "d": w.INTERRUPTED, "f": w.ABANDONED}
    items = [
        Item("a"),
        Item("b"),
        Item("c", ("b",)),
        Item("e", ("c",)),
        Item("d"),
        Item("g", ("d", "a")),
        Item("f"),
    ]
    plan = Plan(items, kept=lifecycles)
    assert plan.to_come() == ["d", "g"]
    plan.started("d")
    assert plan.to_come() == ["d", "g"]
    plan.leave("g")
    assert plan.to_come() == ["d"]


def test_who_is_put_off_waits_until_then() -> None:
    """A run that is resumed before a provider's reset starts it no sooner."""
    plan = Plan(items("a", "b"), kept={"a": w.INTERRUPTED})
    plan.put_off("a", 500)
    assert plan.due(0) == ["b"]
    assert plan.next_due(0) == 500
    assert plan.due(500) == ["a", "b"]
