"""Many drivers behind one timer: who is stepped when, and what a late look means for each of them."""

import asyncio

import pytest

from longwatch.core.spec import LimitSpec, Spec
from longwatch.runtime.driver import NEVER, Lookout
from longwatch.runtime.rounds import _OF_LOOP, AsyncioRounds, Rounds, rounds_here
from longwatch.testing import FakeClock

START = 1_000_000


class FakeDriver:
    """Stands for a driver: it is due every `every` ms, and notes when it was stepped and what it missed."""

    def __init__(self, rounds, every, trouble=None):
        self.clock = rounds.clock
        self.every = every
        self.trouble = trouble
        self.steps = []
        self.lapses = []
        self.seat = rounds.join(Spec({"idle": LimitSpec(every * 8)}))
        self.seat.driver = self
        self.seat.plan(self.clock(), self.clock() + every)

    def step(self):
        self.steps.append(self.clock() - START)
        if self.trouble is not None:
            raise self.trouble
        self.seat.plan(self.clock(), self.clock() + self.every)

    def lapse(self, span, since):
        self.lapses.append((span, since - START))


class FakeRounds(Rounds):
    """Rounds that note how the timer is set."""

    def __init__(self):
        super().__init__(FakeClock(START))
        self.timers = []

    def arm(self, instant):
        self.timers.append(instant if instant is None else instant - START)

    def until(self, instant):
        """Be a good loop: step at each timer up to an instant."""
        while self.armed <= START + instant:
            self.clock.jump(max(self.clock(), self.armed))
            self.step()
        self.clock.jump(START + instant)


@pytest.fixture(autouse=True)
def _drivers_are_fakes(monkeypatch):
    monkeypatch.setattr("longwatch.runtime.seats.Driver.step", lambda driver: driver.step(), raising=True)


def test_each_at_its_time():
    """Each driver is stepped at its own deadlines, however many there are."""
    rounds = FakeRounds()
    quick, slow = FakeDriver(rounds, 1_500), FakeDriver(rounds, 4_000)
    rounds.until(9_000)
    assert quick.steps == [1_500, 3_000, 4_500, 6_000, 7_500, 9_000]
    assert slow.steps == [4_000, 8_000]


def test_the_timer_is_set_once_a_round():
    """A round of many drivers sets the timer once; one that is due later than the timer does not touch it."""
    rounds = FakeRounds()
    drivers = [FakeDriver(rounds, 9_000) for _ in range(50)]
    made = len(rounds.timers)
    assert made <= 2
    rounds.until(9_000)
    assert all(driver.steps == [9_000] for driver in drivers)
    assert len(rounds.timers) - made <= 2


def test_a_deadline_that_moves():
    """One that moves away is met and found early at most once; one that comes nearer is met in time."""
    rounds = FakeRounds()
    driver = FakeDriver(rounds, 9_000)
    driver.seat.plan(START, START + 20_000)
    rounds.until(12_000)
    assert driver.steps == []
    driver.seat.sooner(START + 13_000)
    driver.seat.sooner(START + 15_000)
    rounds.until(14_000)
    assert driver.steps == [13_000]
    driver.seat.plan(START + 14_000, NEVER)
    rounds.until(60_000)
    assert driver.steps == [13_000]
    assert driver.seat.missed(0) == 0


def test_who_leaves_is_not_stepped():
    """Nobody is stepped after he left; with the last one the timer goes."""
    rounds = FakeRounds()
    one, other = FakeDriver(rounds, 2_000), FakeDriver(rounds, 3_000)
    rounds.leave(one.seat)
    rounds.leave(one.seat)
    rounds.until(3_000)
    assert (one.steps, other.steps) == ([], [3_000])
    rounds.leave(other.seat)
    assert rounds.timers[-1] is None
    assert rounds.armed == NEVER
    again = FakeDriver(rounds, 1_000)
    rounds.until(4_000)
    assert again.steps == [4_000]


def test_a_late_look_is_told_to_all():
    """What nobody looked at is a lapse for each driver, due or not; who came meanwhile missed only his part."""
    rounds = FakeRounds()
    early = [FakeDriver(rounds, 2_000), FakeDriver(rounds, 100_000)]
    rounds.until(1_000)
    rounds.clock.jump(START + 61_000)
    late = FakeDriver(rounds, 2_000)
    rounds.clock.jump(START + 62_000)
    rounds.step()
    # The interval of the shortest window, two seconds, has not passed a first time yet.
    assert [driver.lapses for driver in early] == [[(62_000, 0)]] * 2
    assert late.lapses == [(1_000, 61_000)]


def test_a_late_look_is_noticed_before_others_come_and_go():
    """A lapse is not lost where the lookout changes before the timer goes off."""
    rounds = FakeRounds()
    slow = FakeDriver(rounds, 10_000)
    rounds.clock.jump(START + 60_000)
    quick = FakeDriver(rounds, 1_000)
    assert slow.lapses == [(60_000, 0)]
    assert quick.lapses == []
    rounds.clock.jump(START + 90_000)
    rounds.leave(quick.seat)
    assert [span for span, _ in slow.lapses] == [60_000, 30_000]


def test_a_defect_hits_its_own_stream():
    """What one step raises is told to its stream, and the others go on."""
    rounds = FakeRounds()
    defect = ZeroDivisionError("defect")
    bad, good = FakeDriver(rounds, 2_000, defect), FakeDriver(rounds, 2_000)
    told = []
    bad.seat.broken = told.append
    rounds.until(4_000)
    assert told == [defect]
    assert good.steps == [2_000, 4_000]
    good.trouble = defect
    rounds.clock.jump(START + 6_000)
    with pytest.raises(AssertionError, match="a seat without a stream"):
        rounds.step()


def test_the_base_has_no_timer():
    """What sets the timer is the loop's part."""
    with pytest.raises(NotImplementedError):
        Rounds().join(Spec({}))


def test_one_for_each_loop():
    """All streams of a loop share the rounds, which are forgotten with the last of them; a closed loop gets no timer."""

    async def main():
        rounds = rounds_here()
        assert rounds is rounds_here()
        assert isinstance(rounds, AsyncioRounds)
        seat = rounds.join(Spec({}))
        return rounds, seat

    rounds, seat = asyncio.run(main())
    other, one = asyncio.run(main())
    assert other is not rounds
    seat.plan(0, rounds.clock() + 1)
    rounds.leave(seat)
    other.leave(one)
    assert _OF_LOOP == {}
    with pytest.raises(RuntimeError):
        rounds_here()


def test_a_lookout():
    """A look up to a second late is one; later than that, it is told for how long nobody looked."""
    lookout = Lookout(4_000, START)
    assert lookout.plan(START, NEVER) == START + 4_000
    assert lookout.missed(START + 5_000) == 0
    assert lookout.missed(START + 5_001) == 5_001
    lookout.sooner(START + 1_000)
    assert lookout.missed(START + 2_001) == 2_001
    assert lookout.plan(START, START + 500) == START + 500
