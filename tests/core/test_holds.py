"""Holds: masks that overlap freely and end one by one."""

import itertools

import pytest

from longwatch.core import holds as h
from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify, Record
from longwatch.core.facts import HoldBegan, HoldEnded, LimitFired, LimitNoted, SourceChanged
from longwatch.core.holds import Hold, Holds
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

IDLE = Spec({"idle": LimitSpec(5 * SECOND)}, held=("output",))
MASK = frozenset((h.CALL, h.PAUSED))


def test_a_hold_is_opened_once() -> None:
    """A second start of the same call is nothing new; a call of another id is another hold."""
    holds = Holds()
    assert holds.begin(h.CALL, 1, "a") == Hold(h.CALL, "a", 1)
    assert holds.begin(h.CALL, 2, "a") is None
    assert holds.begin(h.CALL, 3, "b") == Hold(h.CALL, "b", 3)
    assert [hold.subject for hold in holds.of(h.CALL)] == ["a", "b"]
    assert holds.all() == holds.of(h.CALL)


def test_an_end_only_moves_later() -> None:
    """Of two stated ends the later wins, whichever came last; an open end stays open."""
    holds = Holds()
    holds.begin(h.PAUSED, 0, end=100)
    assert holds.begin(h.PAUSED, 10, end=50) is None
    assert holds.begin(h.PAUSED, 20, end=None) is None
    assert holds.begin(h.PAUSED, 30, end=200) == Hold(h.PAUSED, "", 0, 200)
    holds.begin(h.READY, 0)
    assert holds.begin(h.READY, 1, end=5) is None
    assert holds.next_end() == 200


def test_ending_what_is_not_open_is_harmless() -> None:
    """A result without a start closes nothing."""
    assert Holds().end(h.CALL, "never") is None


def test_holds_end_in_the_order_of_their_ends() -> None:
    """All holds that are over are given back, earliest end first, and are gone."""
    holds = Holds()
    holds.begin(h.QUIET, 0, end=20)
    holds.begin(h.PAUSED, 0, end=10)
    holds.begin(h.ASKED, 0, "q")
    assert [hold.kind for hold in holds.expired(20)] == [h.PAUSED, h.QUIET]
    assert holds.expired(20) == []
    assert holds.next_end() is None


@pytest.mark.parametrize(
    ("opened", "floor", "expected"),
    [
        ([], 7, 7),  # nothing masks: the floor
        ([(h.PAUSED, 50)], 7, 50),  # a stated end
        ([(h.PAUSED, 5)], 7, 7),  # the floor is later
        ([(h.PAUSED, 50), (h.CALL, None)], 7, None),  # an open end cannot be foreseen
        ([(h.READY, None)], 7, 7),  # not of these kinds
    ],
)
def test_mask(opened: list[tuple[str, int | None]], floor: int, expected: int | None) -> None:
    """A limit may fire at its floor or at the end of the last hold that masks it; with an open end, never."""
    holds = Holds()
    for kind, end in opened:
        holds.begin(kind, 0, end=end)
    assert holds.mask(MASK, floor) == expected


def test_a_lapse_moves_ends_and_ages() -> None:
    """A stated end guards the silence after it, so it moves by what nobody watched, and the age counts without it."""
    holds = Holds()
    holds.begin(h.PAUSED, 10, end=100)
    holds.begin(h.READY, 20)
    holds.shift(1000)
    assert [(hold.began, hold.end) for hold in holds.all()] == [(1010, 1100), (1020, None)]


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "q"])))
def test_holds_overlap_freely(order: tuple[str, ...]) -> None:
    """Two calls and a question held at once: the limit counts from the end of the last, in whatever order they end."""
    watch = Watch(IDLE, 0)
    for observation in (o.CallBegan("a"), o.CallBegan("b"), o.Asked("q")):
        watch.observe(observation, 1 * SECOND)
    for place, name in enumerate(order):
        assert watch.next_deadline() is None
        watch.observe(o.Answered("q") if name == "q" else o.CallEnded(name), (10 + place) * MINUTE)
    assert watch.snapshot(12 * MINUTE)["limits"] == {"idle": 5 * SECOND}


def test_each_hold_is_recorded_once() -> None:
    """Begin and end of every hold are facts, with what is held and until when; repeated ones are not."""
    book = Playbook(Spec({}, held=("output",)))
    book.tell(1, o.CallBegan("a", "Bash")).expect(1, HoldBegan(1, "call", "a", tool="Bash"))
    book.tell(2, o.CallBegan("a", "Bash"))
    book.tell(3, o.CallEnded("a")).expect(3, HoldEnded(3, "call", "a"))
    book.tell(4, o.CallEnded("a")).play()
    book = Playbook(Spec({}, held=("output",)))
    book.tell(1, o.Asked("q")).expect(1, HoldBegan(1, "asked", "q"))
    book.tell(2, o.Asked("q"))
    book.tell(3, o.TurnEnded()).expect(3, HoldBegan(3, "ready"))
    book.tell(4, o.TurnEnded())
    book.tell(5, o.Paused(60 * SECOND)).expect(5, HoldBegan(5, "paused", until=90_005))
    book.tell(6, o.Paused(1 * SECOND), o.Paused())
    book.tell(7, o.QuietBegan(1 * SECOND)).expect(7, HoldBegan(7, "quiet", until=1007))
    book.tell(8, o.Answered("q")).expect(8, HoldEnded(8, "asked", "q"))
    book.tell(9, o.TurnBegan()).expect(9, HoldEnded(9, "ready"))
    book.tell(10, o.TurnBegan(), o.Answered("q"))
    book.expect(1007, HoldEnded(1007, "quiet"))
    book.tell(2000, o.QuietEnded())
    book.expect(90_005, HoldEnded(90_005, "paused"))
    book.tell(90_006, o.Resumed())
    book.play()


def test_a_call_without_a_tool_is_named_by_its_id() -> None:
    """The fact of a held call has its tool, or where that is unknown its id."""
    book = Playbook(Spec({}, held=("output",)))
    book.tell(1, o.CallBegan("toolu_1")).expect(1, HoldBegan(1, "call", "toolu_1")).play()


# Quiet: the human's allowance


def quiet(allow: int, idle: int = 10 * SECOND) -> Watch:
    """Return a watch that allows so much quiet in all."""
    return Watch(Spec({"idle": LimitSpec(idle)}, held=("output",), allow_quiet=allow), 0)


def held_until(watch: Watch) -> int | None:
    """Return the end of the open quiet."""
    open_now = watch.holds.of(h.QUIET)
    return open_now[0].end if open_now else None


def test_quiet_is_cut_to_the_allowance() -> None:
    """A wish beyond the allowance gets the allowance."""
    watch = quiet(allow=60 * MINUTE)
    watch.observe(o.QuietBegan(3 * HOUR), 1 * SECOND)
    assert held_until(watch) == 60 * MINUTE + 1 * SECOND


def test_each_quiet_costs_what_it_used() -> None:
    """What one quiet used is not there for the next; what it gave back is."""
    watch = quiet(allow=60 * MINUTE)
    watch.observe(o.QuietBegan(50 * MINUTE), 0)
    watch.observe(o.QuietEnded(), 20 * MINUTE)
    watch.observe(o.QuietBegan(50 * MINUTE), 30 * MINUTE)
    assert held_until(watch) == 70 * MINUTE


def test_each_quiet_costs_at_least_an_idle_window() -> None:
    """Its end restarts the clock, so a short one costs a whole window: a loop of them is bounded."""
    watch = quiet(allow=25 * SECOND, idle=10 * SECOND)
    granted = 0
    for at in range(0, 60_000, 1000):
        watch.observe(o.QuietBegan(1), at)
        granted += held_until(watch) is not None
        watch.observe(o.QuietEnded(), at)
    assert granted == 3


def test_a_quiet_that_is_renewed_never_outlasts_the_allowance() -> None:
    """Asked for again while it runs, a quiet gets longer, but all in all never longer than allowed."""
    watch = quiet(allow=60 * MINUTE)
    for minute in range(0, 180, 5):
        watch.observe(o.QuietBegan(20 * MINUTE), minute * MINUTE)
        end = held_until(watch)
        assert end is None or end <= 60 * MINUTE
    assert watch.holds.of(h.QUIET) == []


@pytest.mark.parametrize("span", [0, -5])
def test_no_quiet_for_nothing(span: int) -> None:
    """A quiet of nothing holds nothing and costs nothing."""
    watch = quiet(allow=60 * MINUTE)
    assert watch.observe(o.QuietBegan(span), 1) == []
    assert held_until(watch) is None


def test_quiet_without_an_idle_limit() -> None:
    """Where no idle window is set, a quiet costs its own length."""
    watch = Watch(Spec({"call": LimitSpec(HOUR)}, held=("output",), allow_quiet=20 * SECOND), 0)
    watch.observe(o.QuietBegan(5 * SECOND), 0)
    watch.observe(o.QuietEnded(), 5 * SECOND)
    watch.observe(o.QuietBegan(1 * MINUTE), 10 * SECOND)
    assert held_until(watch) == 25 * SECOND


def test_no_allowance_no_quiet() -> None:
    """`--allow-quiet 0` takes the verb away."""
    book = Playbook(
        Spec({"idle": LimitSpec(5 * SECOND)}, held=("output",), allow_quiet=0), ignore=(LimitNoted,)
    )
    book.tell(1 * SECOND, o.QuietBegan(1 * HOUR))
    book.expect(5 * SECOND, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle")).play()


# Ready


def test_a_session_before_its_first_turn_is_ready() -> None:
    """A resident program at its prompt owes nothing; its clocks start with its first turn."""
    limits = {name: LimitSpec(10 * SECOND, NOTIFY) for name in ("idle", "first", "stall", "effect")}
    watch = Watch(Spec(limits, held=("output",), resident=True), 0)
    assert watch.next_deadline() is None
    watch.observe(o.TurnBegan(), 8 * HOUR)
    left = watch.snapshot(8 * HOUR)["limits"]
    assert left == {"idle": None, "first": 10 * SECOND, "stall": 10 * SECOND, "effect": 10 * SECOND}


def test_the_first_word_after_a_long_rest_finds_nothing_overdue() -> None:
    """Progress that comes before the news of the turn ends `ready` too, and restarts all that it held."""
    limits = {"stall": LimitSpec(10 * MINUTE, NOTIFY), "effect": LimitSpec(10 * MINUTE, NOTIFY)}
    watch = Watch(Spec(limits, held=("output",), resident=True), 0)
    watch.observe(o.ProgressSeen("output"), 8 * HOUR)
    watch.observe(o.TurnBegan(), 8 * HOUR + 1)
    assert watch.snapshot(8 * HOUR)["limits"] == {"stall": 10 * MINUTE, "effect": 10 * MINUTE}


# Sources that cannot be seen


def test_an_unknown_source_is_no_ground_for_an_action() -> None:
    """A file that nobody ever wrote is unknown, not silent: the limit is held, and the snapshot says so."""
    watch = Watch(Spec({"idle": LimitSpec(5 * SECOND)}, sampled=("file:beat",)), 0)
    assert watch.advance(HOUR) == []
    view = watch.snapshot(HOUR)
    assert [hold["kind"] for hold in view["holds"]] == ["blind"]
    assert view["sources"] == {"file:beat": {"last_ms": None, "count": 0}}


def test_no_source_at_all_holds_what_needs_one() -> None:
    """Without any declared source `idle` and `first` are held; `stall` counts from the start all the same."""
    limits = {name: LimitSpec(10 * SECOND, NOTIFY) for name in ("idle", "first", "stall")}
    watch = Watch(Spec(limits), 0)
    fired = [c.fact.limit for c in watch.advance(HOUR) if isinstance(c, Notify)]  # type: ignore[attr-defined]
    assert fired == ["stall"]


def test_a_source_counts_from_when_it_first_appears() -> None:
    """Once seen, a sampled source's silence counts, from then on."""
    watch = Watch(Spec({"idle": LimitSpec(5 * SECOND)}, sampled=("file:log",)), 0)
    watch.observe(o.ProgressSeen("file:log"), 60 * SECOND)
    assert watch.next_deadline() == 62_500
    assert watch.snapshot(60 * SECOND)["limits"] == {"idle": 5 * SECOND}


def test_a_lost_source_is_unknown_until_found() -> None:
    """While a source cannot be read its silence means nothing; found again it counts anew."""
    spec = Spec({"idle": LimitSpec(5 * SECOND)}, sampled=("file:log",))
    book = Playbook(spec, ignore=(LimitNoted,))
    book.tell(1 * SECOND, o.SourceFound("file:log")).expect(
        1 * SECOND, SourceChanged(1 * SECOND, "file:log", "found")
    )
    book.tell(2 * SECOND, o.SourceFound("file:log"), o.SourceFound("other"))
    book.tell(3 * SECOND, o.SourceLost("file:log")).expect(
        3 * SECOND, SourceChanged(3 * SECOND, "file:log", "lost")
    )
    book.tell(4 * SECOND, o.SourceLost("file:log"))
    book.tell(60 * SECOND, o.SourceFound("file:log"))
    book.expect(60 * SECOND, SourceChanged(60 * SECOND, "file:log", "found"))
    book.expect(
        65 * SECOND, like(LimitFired, limit="idle", since=60 * SECOND), like(Notify), like(CapturePostMortem)
    )
    book.play()


def test_one_source_lost_leaves_the_others() -> None:
    """With one of two sources lost the other one's silence still counts."""
    spec = Spec({"idle": LimitSpec(5 * SECOND)}, held=("output",), sampled=("file:log",))
    watch = Watch(spec, 0)
    watch.observe(o.SourceFound("file:log"), 1 * SECOND)
    assert watch.observe(o.SourceLost("file:log"), 2 * SECOND) == [
        Record(SourceChanged(2 * SECOND, "file:log", "lost"))
    ]
    assert watch.snapshot(2 * SECOND)["limits"] == {"idle": 3 * SECOND}
