"""What a read leaves for those who look: a stamp, a count, and whose turn it is.

A read costs some hundred nanoseconds, so it does no more than that. Everything else is worked out when somebody
looks: an event restarts the clock of silence, and what the consumer did between two reads is no silence of the
source. So the silence after an event begins where the next read begins, and while the consumer is busy there is none.
"""

import time
from collections.abc import Callable
from typing import Any

#: The one source of a guarded stream.
EVENTS = "events"
#: The stamp of no read.
RESTING = -1.0


class Pulse:
    """The books of one stream. All spans and instants are ms on the watch's clock, but for `since`.

    since     when the pending read began, as `stamp` gives it. None: it brought an event, and the consumer has its
              turn; RESTING: he has it, and that is known
    reader    who reads (asyncio: the task), what `who(loop)` gives; `who` raises where reading has to stop
    dull      the class of events that say no more than that they came
    count     events that were progress; of the dull ones as often as somebody saw that some had come
    last      where the silence after the newest of them begins; `alive`: the newest sign
    left      up to when the consumer's time has been accounted for
    away      the consumer's time that was not told yet
    """

    __slots__ = (
        "alive", "away", "count", "dull", "eager", "instant", "last", "left", "loop", "reader", "seen",
        "since", "source", "stamp", "who",
    )  # fmt: skip

    def __init__(self, source: Any, began: int, clock: Callable[[], int] | None = None) -> None:
        self.source = source
        self.stamp: Callable[[], float] = clock or time.monotonic
        self.instant: Callable[[float, int], int] = _aged if clock is None else _as_it_is
        self.who: Callable[[Any], Any] = _nobody
        self.loop: Any = None
        self.reader: Any = None
        self.since: float | None = RESTING
        self.seen: float | None = RESTING
        self.dull: type | None = None
        self.eager = False
        self.count = 0
        self.last = self.alive = self.left = began
        self.away = 0

    @property
    def resting(self) -> bool:
        """Whether the consumer has his turn: nothing of the source runs."""
        return self.since is None or self.since is RESTING

    def settle(self, at: int) -> None:
        """Bring the books up to an instant: dull events that came meanwhile, and the consumer's time."""
        since, seen = self.since, self.seen
        until = at if since is None or since is RESTING else self.instant(since, at)
        if since is None:
            self.since = RESTING
        self.seen = self.since
        if self.dull is not None and since is not seen and since is not RESTING:
            # Something came, and was progress. How much of the time since was the consumer's nobody knows, and what
            # would depend on it (calls, questions) is not seen in such a stream.
            self.count += 1
            self.last = max(self.last, until)
        elif until > self.left:
            self.away += until - self.left
            self.last += until - self.left
        self.left = max(self.left, until)

    def arrived(self, at: int) -> None:
        """A read is over, and the consumer has its turn."""
        self.settle(at)
        self.since = self.seen = RESTING
        self.left = at

    def progress(self, at: int) -> None:
        """An event that was looked at is progress."""
        self.count += 1
        self.last = self.alive = at

    def take_away(self) -> int:
        """Return the consumer's time that was not told yet, and forget it."""
        away, self.away = self.away, 0
        return away


def _aged(stamp: float, at: int) -> int:
    """Return the instant of a stamp of the monotonic clock, which does not count sleep: at `at` it is so old."""
    return at - round((time.monotonic() - stamp) * 1000)


def _as_it_is(stamp: float, at: int) -> int:
    """Return the instant of a stamp of the watch's own clock, no later than `at`."""
    return min(round(stamp), at)


def _nobody(loop: object) -> object:
    raise AssertionError(f"nobody has opened the stream in {loop}")


__all__ = ["EVENTS", "RESTING", "Pulse"]
