"""Leases and fences: whatever the network does, the next attempt begins after the last one must have ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.core.fencing import MARGIN_LEAST, MARGIN_MOST, Fence, Lease, grace, margin


def test_a_lease_lapses_once_and_for_all() -> None:
    """A renewal moves it, never back; one that comes too late changes nothing any more."""
    lease = Lease(1_000, 1_000)
    assert lease.renew(1_500, 999)
    assert lease.renew(1_200, 1_000)
    assert (lease.until, lease.lapsed(1_499), lease.lapsed(1_500)) == (1_500, False, True)
    assert (lease.renew(9_000, 1_500), lease.until, lease.late(1_700), lease.late(1_000)) == (
        False,
        1_500,
        200,
        0,
    )
    assert lease.lapsed(0), "a clock that is told wrongly revives nothing"


@pytest.mark.parametrize(
    ("span", "expected"), [(1_000, MARGIN_LEAST), (60_000, 12_000), (600_000, MARGIN_MOST)]
)
def test_the_margin_grows_with_the_lease(span: int, expected: int) -> None:
    """It has room for the grace, of which the later it is the less is left."""
    assert margin(span) == expected
    assert grace(span) == expected // 2
    assert grace(span, expected // 2 - 1) == 1
    assert grace(span, expected) == 0


def test_a_fence_opens_by_proof_or_by_time() -> None:
    """Before anything was granted it is open; then until the lease and the margin are over, or until it is proven."""
    fence = Fence(10_000)
    assert (fence.earliest(), fence.may_follow(0)) == (None, True)
    fence.heard(500)
    fence.heard(400)
    assert fence.earliest() == 500 + 10_000 + margin(10_000)
    assert (fence.may_follow(12_499), fence.may_follow(12_500)) == (False, True)
    fence.over()
    assert fence.may_follow(501)


@given(
    span=st.integers(1_000, 60_000),
    offset=st.integers(0, 1_000_000),
    steps=st.lists(
        st.tuples(st.integers(0, 30_000), st.integers(0, 90_000), st.integers(0, 90_000), st.booleans()),
        max_size=30,
    ),
)
def test_no_renewal_outlives_its_fence(
    span: int, offset: int, steps: list[tuple[int, int, int, bool]]
) -> None:
    """Requests and answers are delayed, lost and reordered at will: the lease ends before the fence opens.

    The two sides have clocks `offset` apart. Each step sends a renewal with the newest stamp after a while; it arrives
    after a delay, and its answer, unless it is lost, after another.
    """
    fence, sent, here = Fence(span), [], 0
    fence.heard(0)
    stamps = [(0, offset)]  # when an answer came, on our clock, and the instant of theirs that it holds
    lease = Lease(offset + span, span)
    for pause, there, back, lost in steps:
        here += pause
        come = [stamp for at, stamp in stamps if at <= here]
        sent.append((here + there + offset, max(come) + span))
        if not lost:
            stamps.append((here + there + back, here + there + offset))
    for arrives, until in sorted(sent):
        lease.renew(until, arrives)
    for at, _ in stamps:
        if at <= here:
            fence.heard(at)
    earliest = fence.earliest()
    assert earliest is not None
    assert earliest >= lease.until - offset + margin(span)
