"""The fake clock."""

import pytest

from longwatch.testing import FakeClock


def test_it_moves_only_when_told() -> None:
    """Reading the clock does not move it; advancing does, by whole milliseconds."""
    clock = FakeClock(5)
    assert [clock(), clock()] == [5, 5]
    assert clock.advance(10) == 15
    assert clock.jump(100) == clock() == 100
    assert clock.advance(0) == 100


@pytest.mark.parametrize("span", [-1, 0.5])
def test_it_refuses_what_time_does_not_do(span: float) -> None:
    """Time neither goes backwards nor has fractions of a millisecond."""
    with pytest.raises(ValueError, match="time"):
        FakeClock().advance(span)  # type: ignore[arg-type]


def test_it_does_not_jump_back() -> None:
    """An instant in the past is refused, and the clock stays where it is."""
    clock = FakeClock(10)
    with pytest.raises(ValueError, match="9 ms is before 10 ms"):
        clock.jump(9)
    assert clock() == 10
