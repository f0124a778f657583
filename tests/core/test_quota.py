"""Who waits for a provider: one park for a group, a place for each, and who is stuck."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.core.harness import Harness
from longwatch.core.parking import JITTER
from longwatch.core.quota import STUCK, STUCK_SPAN, Quota, Trouble, group_of
from longwatch.core.spec import HOUR, MINUTE, SECOND

NOW = 1_900_000_000_000
RESET = NOW + HOUR


def until(quota: Quota, name: str, group: str = "team", wall: int = NOW) -> int | None:
    hold = quota.hold(name, group, wall)
    return None if hold is None else hold.until


def test_groups() -> None:
    """Who names no group has its own."""
    assert group_of(Harness("web", ("x",))) == "web"
    assert group_of(Harness("web", ("x",), quota_group="team")) == "team"


@pytest.mark.capability("CAP-125")
def test_a_park_holds_its_group() -> None:
    """Everybody of the group waits, nobody else does, and the hold says why and until when."""
    quota = Quota()
    assert quota.hold("a", "team", NOW) is None
    quota.park("team", RESET, "usage", "limit reached")
    hold = quota.hold("a", "team", NOW)
    assert hold is not None
    assert (hold.kind, hold.reason, hold.until) == ("park", "usage limit of team: limit reached", RESET)
    assert quota.hold("a", "other", NOW) is None
    assert quota.hold("a", "team", RESET - 1) is not None
    assert quota.hold("a", "team", RESET) is None
    quota.park("plain", RESET, "rate")
    assert getattr(quota.hold("a", "plain", NOW), "reason", "") == "rate limit of plain"


@pytest.mark.fault("K7")
@pytest.mark.capability("CAP-125")
@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_nobody_comes_before_the_moment_and_not_all_at_once(count: int, drawn: float) -> None:
    """However many are parked to the same moment: none before it, all within a minute, evenly spread."""
    quota = Quota()
    quota.park("team", RESET, "usage", drawn=drawn)
    back = sorted(until(quota, f"agent-{n}") or 0 for n in range(count))
    assert back[0] >= RESET
    assert back[-1] < RESET + JITTER
    gaps = [later - earlier for earlier, later in itertools.pairwise(back)]
    assert all(gap >= JITTER // (3 * count) for gap in gaps)


@pytest.mark.fault("K7")
def test_eight_come_back_in_eight_seconds_of_their_own() -> None:
    """Eight harnesses that share a quota: no two in the same five seconds; who asks again keeps its place."""
    quota = Quota()
    quota.park("team", RESET, "usage")
    back = {f"agent-{n}": until(quota, f"agent-{n}") or 0 for n in range(8)}
    assert len({at // (5 * SECOND) for at in back.values()}) == 8
    assert {name: until(quota, name) for name in back} == back


def test_a_later_end_moves_the_park() -> None:
    """An earlier one does not; the places stay."""
    quota = Quota()
    quota.park("team", RESET, "usage")
    second = [until(quota, name) for name in "ab"][1]
    assert second is not None
    quota.park("team", RESET - MINUTE, "rate")
    assert until(quota, "b") == second
    quota.park("team", RESET + HOUR, "usage")
    assert until(quota, "b") == second + HOUR


def test_a_park_that_is_over() -> None:
    """After the minute in which all come back it is forgotten, so that a clock that steps back parks nobody."""
    quota = Quota()
    quota.park("team", RESET, "usage")
    until(quota, "a")
    assert until(quota, "b", wall=RESET + 1) is not None
    assert quota.hold("b", "team", RESET + JITTER) is None
    assert quota.hold("b", "team", NOW) is None
    assert quota.as_dict() == {}


def test_a_group_that_is_let_go() -> None:
    """By hand; one that is not parked is none."""
    quota = Quota()
    quota.park("team", RESET, "usage")
    quota.release("team")
    quota.release("team")
    assert quota.hold("a", "team", NOW) is None


@pytest.mark.capability("CAP-125")
def test_parks_survive() -> None:
    """What is written down and read again holds the same harnesses until the same moments."""
    quota = Quota()
    quota.park("team", RESET, "usage", "limit", 0.3)
    before = [until(quota, name) for name in "abc"]
    again = Quota(json.loads(json.dumps(quota.as_dict())))
    assert [until(again, name) for name in "abc"] == before


@pytest.mark.capability("CAP-125")
def test_stuck() -> None:
    """Three refusals within ten minutes and no success in between."""
    assert (STUCK, STUCK_SPAN) == (3, 10 * MINUTE)
    trouble = Trouble()
    assert [trouble.refused(at) for at in (0, 5 * MINUTE, 10 * MINUTE - 1)] == [False, False, True]
    assert trouble.refused(10 * MINUTE)
    trouble.served()
    assert [trouble.refused(at) for at in (0, 5 * MINUTE, 10 * MINUTE)] == [False, False, False]
