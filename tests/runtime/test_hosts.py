"""Hosts without processes: when they step a driver, when they sleep, and what they do when something is raised."""

import asyncio
import os

import pytest
import trio

from longwatch.core.observations import StopRequested
from longwatch.posix import now
from longwatch.posix.reactor import Reactor
from longwatch.runtime.hosts import block
from longwatch.runtime.hosts_async import drive


class FakeWatch:
    """Says how long the grace is."""

    class spec:  # noqa: D106
        grace = 60_000


class FakeDriver:
    """Stands for a driver: counts its steps, is over after `last` of them, and notes what it was told."""

    clock = staticmethod(now)

    def __init__(self, last=3, span=20):
        self.watch = FakeWatch()
        self.effects = self.reactor = Reactor()
        self.steps = 0
        self.last = last
        self.span = span
        self.told = []
        self.started = False
        self.trouble = {}
        self._due = now() + span

    @property
    def over(self):
        return self.steps >= self.last

    def start(self):
        self.started = True

    def fileno(self):
        return self.reactor.fileno()

    def next_deadline(self):
        return self._due

    def tell(self, observation, at=None):
        self.told.append(observation)

    def step(self):
        self.steps += 1
        self._due = now() + self.span
        if self.steps in self.trouble:
            raise self.trouble.pop(self.steps)


def under_asyncio(driver):
    asyncio.run(drive(driver), debug=True)


def under_trio(driver):
    trio.run(drive, driver)


HOSTS = pytest.mark.parametrize("host", [block, under_asyncio, under_trio])


@HOSTS
def test_steps_come_at_the_deadline(host):
    """A host that nothing wakes steps at each deadline, not before, until the run is over."""
    driver = FakeDriver(last=4, span=50)
    begun = now()
    host(driver)
    assert driver.started
    assert driver.steps == 4
    assert now() - begun >= 100
    driver.reactor.close()


@HOSTS
def test_readiness_wakes(host):
    """What becomes readable is taken at once, however far the deadline is."""
    driver = FakeDriver(last=2, span=60_000)
    read, write = os.pipe()

    def take():
        os.read(read, 1)
        driver.last = driver.steps + 1

    driver.last = 99
    driver.reactor.add(read, take)
    os.write(write, b"x")
    host(driver)
    assert driver.steps <= 3
    driver.reactor.remove(read)
    os.close(read)
    os.close(write)
    driver.reactor.close()


@pytest.mark.parametrize("host", [block, under_trio])
def test_what_is_raised_stops_first(host):
    """An exception out of the loop asks for the stop, drives it to its end, and then goes on.

    Under asyncio a callback has no caller to raise in; the cancellations are in tests/contract.
    """
    driver = FakeDriver(last=5, span=10)
    driver.trouble = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        host(driver)
    assert driver.over
    [ask] = driver.told
    assert isinstance(ask, StopRequested)
    assert (ask.reason, ask.origin, ask.grace) == ("cancelled", "cascade", 5_000)
    driver.reactor.close()


@HOSTS
def test_what_is_raised_again_goes_through(host):
    """A second exception is not waited with: whoever owns the run has the last word."""
    driver = FakeDriver(last=9, span=10)
    driver.trouble = {2: ValueError("one"), 3: ValueError("two"), 4: ValueError("three")}
    with pytest.raises(ValueError, match=r"one|two"):
        host(driver)
    assert not driver.over
    driver.reactor.close()


def test_asyncio_moves_no_timer_for_the_same_deadline():
    """A chatty program makes no new timer at each word."""
    driver = FakeDriver(last=99, span=0)
    driver._due = now() + 60_000
    read, write = os.pipe()
    timers = []

    def step():
        driver.steps += 1

    driver.step = step
    driver.reactor.add(read, lambda: os.read(read, 1))

    async def main():
        loop = asyncio.get_running_loop()
        later = loop.call_later
        loop.call_later = lambda *words: timers.append(words) or later(*words)
        task = asyncio.create_task(drive(driver))
        while driver.steps < 30:
            os.write(write, b"x")
            await asyncio.sleep(0)
        driver.last = 0
        os.write(write, b"x")
        await task

    asyncio.run(main())
    assert len([timer for timer in timers if "step" in repr(timer)]) == 1
    driver.reactor.remove(read)
    os.close(read)
    os.close(write)
    driver.reactor.close()
