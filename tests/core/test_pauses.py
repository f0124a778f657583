"""What a provider's pauses are worth: each credited until it ends, all together capped, nothing else credited."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify
from longwatch.core.facts import ExtensionGranted, HoldBegan, HoldEnded, LimitFired, LimitNoted, RunEnded
from longwatch.core.pauses import Credit, Pauses
from longwatch.core.spec import HOUR, MINUTE, PAUSE_CREDIT_GUARD, PAUSE_SLACK, SECOND, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

QUIETLY = (LimitNoted, HoldBegan, HoldEnded)
GUARD = PAUSE_CREDIT_GUARD


def ceiling(window: int = 45 * MINUTE, credit: int = GUARD) -> Spec:
    """Return a run with nothing but a ceiling."""
    return Spec({"ceiling": LimitSpec(window)}, held=("events",), pause_credit=credit)


def fired_at(watch: Watch, until: int = 24 * HOUR) -> int | None:
    """Let time pass and return when the ceiling fired."""
    return next((c.fact.at for c in watch.advance(until) if isinstance(c, Notify)), None)


# The arithmetic by itself


def test_a_pause_ends_thirty_seconds_after_its_stated_end() -> None:
    """A stated end is the provider's word; clocks differ, so the pause lasts a slack longer."""
    assert Pauses().open(10 * SECOND, 60 * SECOND) == 10 * SECOND + 60 * SECOND + PAUSE_SLACK
    assert PAUSE_SLACK == 30 * SECOND


@pytest.mark.parametrize("span", [None, 0, -5])
def test_a_pause_without_a_usable_end_is_none(span: int | None) -> None:
    """Without a stated end a pause credits nothing."""
    pauses = Pauses()
    assert pauses.open(0, span) is None
    assert pauses.parked(HOUR) == 0


def test_of_overlapping_pauses_the_later_end_wins() -> None:
    """A second pause neither shortens the first nor counts its time twice."""
    pauses = Pauses()
    pauses.open(0, 100 * SECOND)
    assert pauses.open(10 * SECOND, 5 * SECOND) == 130 * SECOND
    assert pauses.open(20 * SECOND, 200 * SECOND) == 250 * SECOND
    assert pauses.parked(HOUR) == 250 * SECOND


def test_resumed_banks_what_passed() -> None:
    """A pause that ends early is credited up to there, and no longer."""
    pauses = Pauses()
    pauses.open(0, HOUR)
    assert pauses.parked(5 * MINUTE) == 5 * MINUTE
    pauses.close(10 * MINUTE)
    pauses.close(11 * MINUTE)
    assert pauses.parked(HOUR) == 10 * MINUTE


def test_an_expired_pause_is_closed_by_the_next() -> None:
    """A throttle never says that it is over: its own end closes it, so work after it is not credited as waiting."""
    pauses = Pauses()
    pauses.open(0, 5 * SECOND)
    pauses.close(20 * SECOND, only_expired=True)
    pauses.open(10 * MINUTE, 5 * SECOND)
    assert pauses.parked(HOUR) == 70 * SECOND


@pytest.mark.parametrize(
    ("parked", "granted", "cap", "expected"),
    [
        (0, 0, GUARD, 0),  # nothing parked
        (10 * SECOND, 10 * SECOND, GUARD, 0),  # all of it granted already
        (10 * SECOND, 4 * SECOND, GUARD, 6 * SECOND),  # the rest
        (1, 0, GUARD, 1 * SECOND),  # never less than a second
        (3 * HOUR, 0, GUARD, GUARD),  # never more than the cap
        (3 * HOUR, GUARD - 300, GUARD, 300),  # nor than what is left of it
        (3 * HOUR, GUARD, GUARD, 0),  # exhausted
        (1 * HOUR, 0, 0, 0),  # no cap, no credit
        (1 * HOUR, 0, -5, 0),
    ],
)
def test_grant(parked: int, granted: int, cap: int, expected: int) -> None:
    """A grant is what was parked and not yet granted, at least a second, at most what is left."""
    pauses, credit = Pauses(), Credit(cap)
    pauses.open(0, parked)
    pauses.close(parked)
    credit.granted = granted
    assert credit.grant(pauses, parked) == expected
    assert credit.granted == granted + expected


@pytest.mark.parametrize(
    ("cap", "granted", "expected"),
    [
        (HOUR, 0, 130 * SECOND),  # until its end
        (130 * SECOND, 0, 130 * SECOND),
        (60 * SECOND, 0, 60 * SECOND),  # until the cap is spent
        (60 * SECOND, 60 * SECOND, None),  # it is
        (40 * SECOND, 0, None),
        (60 * SECOND, 50 * SECOND, 50 * SECOND),  # rounded-up grants count against it too
    ],
)
def test_an_open_pause_extends_until_its_end_or_the_cap(cap: int, granted: int, expected: int | None) -> None:
    """While a pause is open its end is when to look again; a spent cap does not wait."""
    pauses, credit = Pauses(), Credit(cap)
    credit.granted = granted
    assert credit.open_until(pauses, 40 * SECOND) is None
    pauses.open(0, 100 * SECOND)
    assert credit.open_until(pauses, 40 * SECOND) == expected
    assert credit.open_until(pauses, 130 * SECOND) is None


# The seed's cases, with a ceiling of 45 minutes


def test_the_incident() -> None:
    """A run that was parked for 43 m 38 s of its 45 minutes goes on past them, and gets its working time whole."""
    parked = 43 * MINUTE + 38 * SECOND
    book = Playbook(ceiling(), ignore=QUIETLY)
    book.tell(1 * MINUTE, o.Paused(113 * MINUTE))
    book.tell(1 * MINUTE + parked, o.Resumed())
    book.expect(45 * MINUTE, ExtensionGranted(45 * MINUTE, "ceiling", parked, parked, GUARD - parked))
    book.expect(
        45 * MINUTE + parked, like(LimitFired, limit="ceiling"), like(Notify), CapturePostMortem("ceiling")
    )
    book.play()


def test_four_throttles_credit_their_own_length() -> None:
    """Four throttles of 5 s over 40 minutes are worth 140 s, not 40 minutes."""
    watch = Watch(ceiling(), 0)
    for minute in (0, 10, 20, 30):
        watch.observe(o.Paused(5 * SECOND), minute * MINUTE)
        watch.observe(o.ProgressSeen("events"), minute * MINUTE + 50 * SECOND)
    assert watch.parked(40 * MINUTE) == 140 * SECOND
    assert fired_at(watch) == 45 * MINUTE + 140 * SECOND


def test_a_pause_open_at_the_ceiling_is_waited_for() -> None:
    """At the ceiling in the middle of a pause nothing fires: when it ends, all of it is granted at once."""
    book = Playbook(ceiling(), ignore=QUIETLY)
    book.tell(40 * MINUTE, o.Paused(19 * MINUTE + 30 * SECOND))
    book.expect(60 * MINUTE, ExtensionGranted(60 * MINUTE, "ceiling", 20 * MINUTE, 20 * MINUTE, 100 * MINUTE))
    book.expect(65 * MINUTE, like(LimitFired, limit="ceiling"), like(Notify), CapturePostMortem("ceiling"))
    book.play()


def test_the_cap_is_the_worst_case() -> None:
    """With the guard's numbers a run that is parked for ever fires at 2 h 45 min, in the middle of its pause."""
    watch = Watch(ceiling(), 0)
    watch.observe(o.Paused(100 * HOUR), 1 * MINUTE)
    assert fired_at(watch, 200 * HOUR) == 2 * HOUR + 45 * MINUTE


def test_the_cap_holds_over_many_pauses() -> None:
    """Pauses one after the other spend the same cap."""
    watch = Watch(ceiling(credit=10 * MINUTE), 0)
    for minute in range(0, 40, 10):
        watch.observe(o.Paused(4 * MINUTE), minute * MINUTE)
        watch.observe(o.Resumed(), (minute + 4) * MINUTE)
    assert fired_at(watch) == 55 * MINUTE


def test_no_credit_no_extension() -> None:
    """Where nothing may be credited a pause changes nothing."""
    watch = Watch(ceiling(credit=0), 0)
    watch.observe(o.Paused(10 * HOUR), 1 * MINUTE)
    assert fired_at(watch) == 45 * MINUTE


def test_a_grant_is_at_least_a_second() -> None:
    """A pause of a moment is worth a second, so that grants come to an end."""
    watch = Watch(ceiling(), 0)
    watch.observe(o.Paused(10 * SECOND), 1 * MINUTE)
    watch.observe(o.Resumed(), 1 * MINUTE + 1)
    assert fired_at(watch) == 45 * MINUTE + 1 * SECOND


def test_rounded_grants_do_not_outrun_the_cap() -> None:
    """Seconds given for moments count against the cap, so the ceiling never moves by more than that."""
    watch = Watch(ceiling(credit=5 * SECOND), 0)
    watch.observe(o.Paused(10 * SECOND), 1 * MINUTE)
    watch.observe(o.Resumed(), 1 * MINUTE + 1)
    watch.observe(o.Paused(HOUR), 45 * MINUTE + 500)
    assert fired_at(watch) == 45 * MINUTE + 5 * SECOND


def test_a_moment_after_a_rounded_grant_is_not_granted_twice() -> None:
    """What a rounded grant gave too much is taken from what comes next."""
    watch = Watch(ceiling(credit=1200), 0)
    watch.observe(o.Paused(10 * SECOND), 1 * MINUTE)
    watch.observe(o.Resumed(), 1 * MINUTE + 1)
    watch.observe(o.Paused(HOUR), 45 * MINUTE + 500)
    assert fired_at(watch) == 45 * MINUTE + 1200


def test_a_pause_longer_than_a_lapse_credits_by_the_clock() -> None:
    """A lapse shifts silence, not the ceiling: what a pause is worth there ends where the provider said."""
    watch = Watch(ceiling(), 0)
    watch.observe(o.Paused(5 * MINUTE - PAUSE_SLACK), 0)
    watch.observe(o.Lapsed(20 * MINUTE), 2 * MINUTE)
    assert fired_at(watch) == 50 * MINUTE


def test_timeout_is_moved_by_nothing() -> None:
    """The named time is up when it is up: pauses, holds and lapses change nothing."""
    watch = Watch(Spec({"timeout": LimitSpec(10 * MINUTE)}, held=("output",)), 0)
    watch.observe(o.Paused(HOUR), 1 * MINUTE)
    watch.observe(o.CallBegan("1"), 2 * MINUTE)
    watch.observe(o.Asked("q"), 2 * MINUTE)
    watch.observe(o.QuietBegan(HOUR), 3 * MINUTE)
    watch.observe(o.TurnEnded(), 4 * MINUTE)
    watch.observe(o.Lapsed(2 * MINUTE), 5 * MINUTE)
    assert fired_at(watch) == 10 * MINUTE


def test_parked_is_reported_while_it_lasts() -> None:
    """The time in pauses is a number at every moment, for the report."""
    watch = Watch(ceiling(), 0)
    watch.observe(o.Paused(HOUR), 0)
    assert watch.parked(10 * MINUTE) == 10 * MINUTE


def test_a_run_that_ends_in_a_pause_is_over() -> None:
    """A program that leaves while parked is not waited for."""
    watch = Watch(ceiling(), 0)
    watch.observe(o.Paused(HOUR), 1 * MINUTE)
    watch.observe(o.Exited(0), 2 * MINUTE)
    watch.observe(o.Drained(), 2 * MINUTE)
    assert any(like(RunEnded, code=0).matches(c) for c in watch.observe(o.TreeGone(), 2 * MINUTE))
