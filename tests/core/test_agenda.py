"""What becomes of windows that are due: fired, caught up, missed, and none of them twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.core.agenda import GRACE, KEPT, WRONG, Agenda, Looked
from longwatch.core.spec import HOUR, MINUTE, SECOND

NOW = 1_900_000_000_000 - 1_900_000_000_000 % HOUR


def hourly(agenda: Agenda, wall: int, catch_up: int = 0) -> Looked:
    """Look at an hourly schedule."""
    since = agenda.since(wall)
    first = since - since % HOUR + HOUR
    return agenda.look(range(first, wall + 1, HOUR), wall, catch_up)


@pytest.mark.capability("CAP-119")
@pytest.mark.parametrize(
    ("late", "fired"), [(0, True), (MINUTE - 1, True), (MINUTE, True), (MINUTE + 1, False)]
)
def test_the_grace(late: int, fired: bool) -> None:
    """A window is fired up to a minute after its instant; later it is missed, and told."""
    assert GRACE == MINUTE
    agenda = Agenda.begun(NOW - 1)
    looked = hourly(agenda, NOW + late)
    assert looked == (Looked(NOW, late) if fired else Looked(None, 0, 1, NOW, NOW))
    assert hourly(agenda, NOW + late) == Looked()


@pytest.mark.capability("CAP-119")
@pytest.mark.fault("L2")
def test_a_daemon_that_was_down_over_three_windows() -> None:
    """Without catch-up they are one miss; with it the newest is run once, late, and the others are one miss."""
    agenda = Agenda.begun(NOW)
    wall = NOW + 3 * HOUR + 20 * MINUTE
    assert hourly(agenda, wall) == Looked(None, 0, 3, NOW + HOUR, NOW + 3 * HOUR)
    agenda = Agenda.begun(NOW)
    looked = hourly(agenda, wall, catch_up=HOUR)
    assert looked == Looked(NOW + 3 * HOUR, 20 * MINUTE, 2, NOW + HOUR, NOW + 2 * HOUR)
    agenda = Agenda.begun(NOW)
    assert hourly(agenda, wall, catch_up=10 * MINUTE).fire is None


def test_what_lies_behind_is_no_window() -> None:
    """A schedule begins now; another one begins when it is made, and takes back nothing that was decided."""
    agenda = Agenda.begun(NOW)
    assert hourly(agenda, NOW + 1) == Looked()
    agenda.moved(NOW + 2 * HOUR)
    assert hourly(agenda, NOW + 2 * HOUR + 1) == Looked()
    agenda.moved(NOW + HOUR)
    assert agenda.since(NOW + HOUR) == NOW + 2 * HOUR


@pytest.mark.capability("CAP-119")
@pytest.mark.fault("L1")
def test_a_clock_that_steps_back() -> None:
    """What was fired is not fired again when the clock comes by once more."""
    agenda = Agenda.begun(NOW - 1)
    assert hourly(agenda, NOW).fire == NOW
    assert hourly(agenda, NOW - HOUR) == Looked()
    assert hourly(agenda, NOW - 1) == Looked()
    assert hourly(agenda, NOW) == Looked()
    assert hourly(agenda, NOW + HOUR).fire == NOW + HOUR


def test_a_clock_that_was_years_ahead() -> None:
    """It does not silence a schedule for years; what was fired under it is not fired again."""
    agenda = Agenda.begun(NOW - 1)
    assert hourly(agenda, NOW).fire == NOW
    assert hourly(agenda, NOW + 48 * HOUR).fire == NOW + 48 * HOUR
    assert hourly(agenda, NOW + HOUR).fire is None
    assert hourly(agenda, NOW + 2 * HOUR).fire == NOW + 2 * HOUR
    assert hourly(agenda, NOW + 48 * HOUR).fire is None
    assert hourly(agenda, NOW + 49 * HOUR).fire == NOW + 49 * HOUR


def test_how_far_ahead_is_wrong() -> None:
    """A day is still believed."""
    assert WRONG == 24 * HOUR
    agenda = Agenda(NOW + WRONG)
    assert agenda.since(NOW) == NOW + WRONG
    assert agenda.since(NOW - 1) == NOW - 1


@given(
    st.lists(st.integers(-20 * HOUR, 20 * HOUR) | st.integers(0, 90 * MINUTE), max_size=40),
    st.sampled_from((0, 2 * HOUR)),
    st.booleans(),
)
def test_no_window_is_decided_twice(steps: list[int], catch_up: int, restarts: bool) -> None:
    """Whatever the clock does within a day, and however often the daemon is started anew: each window once."""
    agenda, wall, decided = Agenda.begun(NOW), NOW, []
    earliest = NOW
    for step in steps:
        wall = min(max(wall + step, earliest - 12 * HOUR), earliest + 12 * HOUR)
        looked = hourly(agenda, wall, catch_up)
        if looked.missed:
            assert looked.first is not None
            assert looked.last is not None
            windows = range(looked.first, looked.last + 1, HOUR)
            assert len(windows) == looked.missed
            decided += windows
        if looked.fire is not None:
            assert looked.late == wall - looked.fire <= max(GRACE, catch_up)
            decided.append(looked.fire)
        if restarts:
            agenda = Agenda.of(json.loads(json.dumps(agenda.as_dict())))
    assert len(decided) == len(set(decided))


@given(st.lists(st.integers(1, 55 * SECOND), max_size=60))
def test_who_looks_often_misses_none(steps: list[int]) -> None:
    """Looked at within each minute, every window is fired at its time."""
    agenda, wall, fired = Agenda.begun(NOW), NOW, []
    for step in steps:
        wall += step
        minutely = range(NOW + MINUTE, wall + 1, MINUTE)
        looked = agenda.look(minutely, wall)
        assert looked.missed == 0
        fired += [looked.fire] if looked.fire is not None else []
    assert fired == list(range(NOW + MINUTE, wall + 1, MINUTE))
    assert len(agenda.fired) <= KEPT


def test_windows_of_others() -> None:
    """What lies ahead, or behind, or is named twice, is passed over."""
    agenda = Agenda.begun(NOW)
    assert agenda.look([NOW - 5, NOW, NOW + 1, NOW + 1, NOW + 9], NOW + 2) == Looked(NOW + 1, 1)
