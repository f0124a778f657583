"""A lane takes what comes from many at once, when much comes; nobody else is held up by it."""

import os

import pytest

from longwatch.posix import lane as lane_module
from longwatch.posix.lane import BUSY, CALM, HURRY, PAUSE, Lane
from longwatch.posix.reactor import BATCH, Reactor


class Loop:
    """A reactor with a lane in it, on a clock that stands still."""

    def __init__(self):
        self.now = 10_000
        self.reactor = Reactor()
        self.timers = []
        self.pipes = []
        self.seen = []

    def later(self, instant, callback):
        self.timers.append((instant, callback))

    def add(self, answer=None):
        """Add a pipe to the lane; return its other end."""
        reading, writing = os.pipe()
        self.pipes += [reading, writing]

        def ready():
            self.seen.append(os.read(reading, 65536))
            return answer

        self.lane.add(reading, ready)
        return writing

    def turn(self):
        """Do what is due."""
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, callback in due:
            callback(self.now)
        self.reactor.poll(0)

    def write(self, writing, rate, span):
        """Write so many times a second for so many ms, turning each ms."""
        for _ in range(span):
            self.now += 1
            if self.now * rate // 1000 > (self.now - 1) * rate // 1000:
                os.write(writing, b"x")
            self.turn()


@pytest.fixture
def loop(monkeypatch):
    made = Loop()
    monkeypatch.setattr(lane_module, "now", lambda: made.now)
    made.lane = Lane(made.reactor, made.later)
    yield made
    made.lane.close()
    made.reactor.close()
    for fd in made.pipes:
        os.close(fd)


def test_little_is_taken_as_it_comes(loop):
    """Below the rate each event wakes the loop, and no timer is set."""
    writing = loop.add()
    for _ in range(20):
        os.write(writing, b"x")
        loop.now += 10
        loop.turn()
    assert loop.seen == [b"x"] * 20
    assert (loop.timers, loop.lane.paced) == ([], False)


@pytest.mark.capability("CAP-10")
def test_much_is_taken_in_batches(loop):
    """Above it, what came within 20 ms is taken at once; when less comes, each event wakes the loop again."""
    writing = loop.add()
    loop.write(writing, BUSY * 2, 400)
    assert loop.lane.paced
    loop.seen.clear()
    loop.write(writing, BUSY * 2, 100)
    assert 4 <= len(loop.seen) <= 6
    assert sum(map(len, loop.seen)) >= BUSY * 2 * 80 // 1000
    loop.write(writing, CALM // 4, 900)
    assert not loop.lane.paced
    assert loop.timers == []
    loop.seen.clear()
    os.write(writing, b"y")
    loop.turn()
    assert loop.seen == [b"y"]


def test_others_are_not_held_up(loop):
    """What is in the outer reactor itself is served at once while the lane waits."""
    writing = loop.add()
    loop.write(writing, BUSY * 2, 400)
    reading, other = os.pipe()
    loop.pipes += [reading, other]
    heard = []
    loop.reactor.add(reading, lambda: heard.append(os.read(reading, 9)))
    os.write(other, b"now")
    loop.reactor.poll(0)
    assert heard == [b"now"]
    loop.reactor.remove(reading)


def test_a_flood_does_not_wait(loop):
    """One who says that much came ends the waiting, for 200 ms after the last time."""
    quiet, flood = loop.add(), loop.add(True)
    loop.write(quiet, BUSY * 2, 400)
    assert loop.lane.paced
    os.write(flood, b"much")
    loop.now += PAUSE
    loop.turn()
    assert not loop.lane.paced
    loop.write(quiet, BUSY * 2, HURRY - 1)
    assert not loop.lane.paced
    loop.write(quiet, BUSY * 2, 300)
    assert loop.lane.paced


def test_more_than_a_batch_comes_without_a_pause(loop):
    """A full batch is followed by the next one at once."""
    ends = [loop.add() for _ in range(BATCH + 40)]
    loop.write(ends[0], BUSY * 2, 400)
    assert loop.lane.paced
    loop.seen.clear()
    for writing in ends:
        os.write(writing, b"z")
    loop.now += PAUSE
    loop.turn()
    loop.turn()
    assert len(loop.seen) >= BATCH + 40


def test_closing_while_it_waits(loop):
    """A timer that was set for a lane that is closed does nothing."""
    writing = loop.add()
    loop.write(writing, BUSY * 2, 400)
    assert loop.timers
    lane, loop.lane = loop.lane, Lane(loop.reactor, loop.later)
    lane.close()
    loop.now += PAUSE
    loop.turn()
    assert loop.timers == []
