"""What follows an end by a provider's limit: a wait and one resume, or a human."""

import itertools

import pytest

from longwatch.core.facts import LimitFired, LimitNoted
from longwatch.core.limits import NAMES
from longwatch.core.outcomes import REASONS
from longwatch.core.parking import (
    ENDS,
    HARNESS,
    JITTER,
    LASTING,
    LEAVE,
    LONGEST,
    PARK,
    PASSING,
    SAME,
    STALE,
    STAY,
    TRIES,
    WAIT_FIRST,
    WAIT_LAST,
    Halt,
    Used,
    Verdict,
    Windows,
    carried,
    decide,
    wait,
)
from longwatch.core.spec import HOUR, MINUTE, PAUSE_CREDIT, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch

#: A wall clock in ms since 1970, and instants around it.
NOW = 1_900_000_000_000
LATER = NOW + 3 * HOUR
FRESH = Windows()
DAY = 24 * HOUR
ONCE = Windows(NOW - MINUTE)


def verdict(
    until: int | None = LATER, windows: Windows = FRESH, *, reason: str = "exited", cls: str = "usage",
    drawn: float = 0.0, latest: int | None = None, **facts: bool,
) -> Verdict:  # fmt: skip
    """Return what follows an end by a limit."""
    halt = Halt(reason, cls, until, **facts)
    return decide(halt, windows, NOW, drawn, latest=latest)


@pytest.mark.fault("K2", "K5")
@pytest.mark.parametrize(
    ("until", "action", "why", "due"),
    [
        (LATER, PARK, "stated", LATER),
        (NOW + 1, PARK, "stated", NOW + 1),
        (NOW, PARK, "over", NOW),
        (NOW - 3 * MINUTE, PARK, "over", NOW),  # it has just passed: now, not tomorrow
        (NOW - STALE, PARK, "over", NOW),
        (NOW - STALE - 1, LEAVE, "unstated", 0),  # of another day: misread
        (0, LEAVE, "unstated", 0),
        (None, LEAVE, "unstated", 0),  # not stated, or not readable: nothing is guessed
        (NOW + LONGEST, PARK, "stated", NOW + LONGEST),
        (NOW + LONGEST + 1, PARK, "clamped", NOW + LONGEST),
        (1 << 62, PARK, "clamped", NOW + LONGEST),
    ],
)
def test_the_first_reset(until: int | None, action: str, why: str, due: int) -> None:
    """A stated reset is waited for, one that has just passed means now, an absurd one is clamped, none is invented."""
    found = verdict(until)
    assert (found.action, found.why, found.until) == (action, why, due)


@pytest.mark.fault("K7")
@pytest.mark.parametrize("drawn", [0.0, 0.25, 0.5, 0.999])
def test_the_spread(drawn: float) -> None:
    """Nobody comes before the reset, and all come within a minute after it, each at its own moment."""
    assert verdict(drawn=drawn).until == LATER + int(JITTER * drawn)
    assert LATER <= verdict(drawn=drawn).until < LATER + JITTER == LATER + 60 * SECOND
    assert verdict(drawn=drawn).windows == Windows(LATER, 0)


@pytest.mark.capability("NEW-11")
def test_classes() -> None:
    """What passes by itself is waited for; money and a refused login need a human; the rest is no such limit."""
    assert [verdict(cls=cls).action for cls in PASSING] == [PARK, PARK]
    assert [(verdict(cls=cls).action, verdict(cls=cls).why) for cls in LASTING] == [
        (LEAVE, "money"),
        (LEAVE, "auth"),
    ]
    assert {verdict(cls=cls).action for cls in ("", "overload", "context", "other")} == {STAY}


def test_reasons() -> None:
    """A run that somebody ended, or one of its limits of time, is not brought back."""
    parked = {reason for reason in REASONS if verdict(reason=reason).action == PARK}
    assert parked == set(ENDS) == {"exited", "lingered", "idle", "first", "stalled"}
    assert {verdict(reason=reason).action for reason in set(REASONS) - parked} == {STAY}


def test_a_conversation_that_nobody_knows() -> None:
    """Without its conversation a run would begin anew: it is left alone."""
    assert (verdict(resumable=False).action, verdict(resumable=False).why) == (LEAVE, "unknown")
    assert verdict(resumable=False, cls="money").why == "money"


def test_a_human_who_left() -> None:
    """Who quits an agent on the screen does not want it back; silence on the screen is no quitting."""
    assert (verdict(attended=True).action, verdict(attended=True).why) == (LEAVE, "left")
    assert verdict(attended=True, reason="idle").action == PARK


def test_the_time_of_the_run() -> None:
    """A run whose time would be over by then is not parked; one moment earlier it is."""
    assert (verdict(latest=LATER).action, verdict(latest=LATER).why) == (LEAVE, "late")
    assert verdict(latest=LATER + 1).action == PARK
    assert verdict(latest=LATER + 1, drawn=0.5).action == LEAVE


@pytest.mark.fault("K6")
@pytest.mark.parametrize("until", [None, NOW - 2 * MINUTE, ONCE.until, NOW - MINUTE + SAME])
def test_still_limited(until: int | None) -> None:
    """Where the limit holds after its own reset, whatever is said of it now, there is a wait of its own."""
    found = verdict(until, ONCE)
    due = max(NOW, until or 0) + WAIT_FIRST if until is None or until <= NOW else until
    assert (found.action, found.why, found.until) == (PARK, "again", due)
    assert found.windows == Windows(due, 1)


@pytest.mark.fault("K6")
def test_one_resume_for_each_window() -> None:
    """A limit that goes on and on is asked after growing waits, a handful of times, and then left to a human."""
    now, windows, waits = NOW, FRESH, []
    while (found := decide(Halt("exited", "usage", NOW), windows, now, 0.0)).action == PARK:
        waits.append((found.until - now) // MINUTE)
        now, windows = found.until, found.windows
    assert waits == [0, 5, 10, 20, 40]
    assert (found.action, found.why, len(waits)) == (LEAVE, "fruitless", TRIES)
    assert [wait(n) // MINUTE for n in range(8)] == [5, 5, 10, 20, 40, 60, 60, 60]
    assert wait(10_000) == WAIT_LAST


@pytest.mark.fault("K6")
def test_a_new_window_is_waited_for_however_many_there_were() -> None:
    """A later reset is another window; told anew with each answer it is not asked for every minute all the same."""
    many = Windows(NOW - HOUR, TRIES + 3)
    assert verdict(LATER, many).until == LATER
    assert verdict(LATER, many).action == PARK
    soon = verdict(NOW + 10 * SECOND, Windows(NOW - HOUR))
    assert (soon.why, soon.until) == ("again", NOW + WAIT_FIRST)
    assert verdict(1 << 62, Windows(NOW - HOUR)).until == NOW + LONGEST


def test_progress_begins_a_new_count() -> None:
    """A resume that got something done was not in vain, but the window that it was for is used up."""
    assert verdict(LATER, Windows(NOW, 3), progressed=True) == Verdict(
        PARK, Windows(LATER, 0), "stated", LATER
    )
    same = verdict(ONCE.until, ONCE, progressed=True)
    assert (same.why, same.until, same.windows.fruitless) == ("again", NOW + WAIT_FIRST, 0)
    assert verdict(None, ONCE, progressed=True).why == "unstated"
    later = Windows(NOW + HOUR)
    assert verdict(NOW + HOUR + SAME, later, progressed=True).why == "again"
    assert verdict(NOW + HOUR + SAME + 1, later, progressed=True).why == "stated"


def test_never_twice_in_a_window() -> None:
    """Whatever is stated, two resumes lie at least the shortest wait apart, and none lies before its reset."""
    offsets = [None, -STALE - 1, -HOUR, -MINUTE, 0, 1, 30 * SECOND, 4 * MINUTE, HOUR, 9 * 24 * HOUR]
    for path in itertools.product(offsets, repeat=3):
        for progressed in (False, True):
            now, windows, resumes = NOW, FRESH, []
            for offset in path:
                until = None if offset is None else now + offset
                found = decide(Halt("exited", "usage", until, progressed=progressed), windows, now, 0.0)
                if found.action != PARK:
                    break
                assert found.until >= now
                assert until is None or found.until >= min(until, now + LONGEST)
                resumes.append(found.until)
                now, windows = found.until, found.windows
            apart = [later - earlier for earlier, later in itertools.pairwise(resumes)]
            assert not progressed or all(gap > 0 for gap in apart)
            assert progressed or all(gap >= WAIT_FIRST for gap in apart)


@pytest.mark.capability("CAP-125")
@pytest.mark.fault("K2", "K5")
@pytest.mark.parametrize(
    ("until", "why", "due"),
    [
        (NOW + MINUTE, "stated", NOW + MINUTE),
        (NOW + MINUTE - 1, "guessed", NOW + 15 * MINUTE),
        (NOW, "guessed", NOW + 15 * MINUTE),
        (NOW - HOUR, "guessed", NOW + 15 * MINUTE),
        (None, "guessed", NOW + 15 * MINUTE),
        (NOW + 8 * DAY, "stated", NOW + 8 * DAY),
        (NOW + 8 * DAY + 1, "clamped", NOW + 8 * DAY),
    ],
)
def test_the_first_reset_of_a_harness(until: int | None, why: str, due: int) -> None:
    """A harness has time: what is not stated, or hardly ahead, is waited for a quarter of an hour."""
    found = decide(Halt("exited", "usage", until), FRESH, NOW, 0.0, terms=HARNESS)
    assert (found.action, found.why, found.until) == (PARK, why, due)


@pytest.mark.capability("CAP-125")
@pytest.mark.fault("K6")
def test_a_harness_is_never_left() -> None:
    """Its waits grow to six hours, and then it is asked every six hours for as long as it takes."""
    now, windows, waits = NOW, FRESH, []
    for _ in range(12):
        found = decide(Halt("exited", "usage", None), windows, now, 0.0, terms=HARNESS)
        waits.append((found.until - now) // MINUTE)
        now, windows = found.until, found.windows
    assert waits == [15, 30, 60, 120, 240, *[360] * 7]
    progressed = decide(Halt("exited", "usage", None, progressed=True), windows, now, 0.0, terms=HARNESS)
    assert (progressed.until - now, progressed.why) == (15 * MINUTE, "again")


def test_what_is_used_up() -> None:
    """`timeout` counts everything, `ceiling` and `soft` only work, pauses share one credit, a told soft limit is gone."""
    used = Used().and_life(3 * HOUR, HOUR, PAUSE_CREDIT)
    assert used == Used(0, 2 * HOUR, HOUR)
    assert used.and_life(HOUR, HOUR, 10 * MINUTE) == Used(0, 2 * HOUR + 50 * MINUTE, HOUR + 10 * MINUTE)
    limits = {name: LimitSpec(2 * HOUR) for name in NAMES}
    spec = carried(Spec(limits), Used(HOUR, 2 * HOUR, HOUR))
    assert {name: limit.spent for name, limit in spec.limits.items() if limit.spent} == {
        "timeout": HOUR,
        "ceiling": 2 * HOUR,
    }
    assert "soft" not in spec.limits
    assert spec.pause_credit == PAUSE_CREDIT - HOUR
    assert carried(Spec({"soft": LimitSpec(2 * HOUR)}), Used(0, HOUR, 7 * HOUR)).limits["soft"].spent == HOUR
    assert carried(Spec({}), Used(HOUR, HOUR, 7 * HOUR)).pause_credit == 0


@pytest.mark.parametrize("name", ["timeout", "ceiling", "soft"])
def test_time_that_was_spent_before(name: str) -> None:
    """A limit of time fires when the rest of its window is over, and still names the whole of it."""
    watch = Watch(Spec({name: LimitSpec(10_000, STOP, spent=4_000)}), 100_000)
    assert [c for c in watch.advance(105_999) if not _is_note(c)] == []
    fired = next(c.fact for c in watch.advance(106_000) if isinstance(getattr(c, "fact", None), LimitFired))
    assert (fired.at, fired.window) == (106_000, 10_000)


def _is_note(command: object) -> bool:
    return isinstance(getattr(command, "fact", None), LimitNoted)
