"""Many drivers behind one timer: guarded streams in an event loop, the harnesses of a daemon.

The timer is armed for the soonest deadline of all, and there is one lookout: a look that comes late tells each driver
the same lapse. A driver that has nothing due costs nothing, and neither does one whose program is busy: deadlines are
lazy, they are met, found to have moved, and set anew.
"""

import heapq

from longwatch.core.spec import Spec
from longwatch.posix import now
from longwatch.runtime.driver import NEVER, Driver, Lookout, look_interval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], int]

#: While the rounds are made no timer is set: no instant is before this one.
_BUSY = -1


class Seat:
    """One driver's place in the rounds; the driver takes it for its lookout."""

    __slots__ = ("_rounds", "broken", "driver", "due", "every", "joined")

    def __init__(self, rounds: "Rounds", every: int, joined: int) -> None:
        self._rounds = rounds
        self.every = every
        self.joined = joined
        self.due = NEVER
        self.driver: Driver | None = None
        #: Told what a defect of ours has raised in the timer, where nobody is there to hear it.
        self.broken: Callable[[Exception], object] = _unheard

    def missed(self, now: int) -> int:
        """Return 0: the rounds notice what was missed, once for all."""
        return 0

    def plan(self, now: int, soonest: int) -> int:
        """Note when the driver has to be stepped."""
        if soonest != self.due:
            self.due = soonest
            self._rounds.expect(self)
        return soonest

    def sooner(self, instant: int) -> None:
        """Note that the driver has to be stepped earlier."""
        if instant < self.due:
            self.due = instant
            self._rounds.expect(self)


class Rounds:
    """Steps each of many drivers when it is due. How the one timer is set is the loop's part: see `arm`."""

    def __init__(self, clock: "Clock" = now) -> None:
        self.clock = clock
        self.armed = NEVER
        self._seats: set[Seat] = set()
        self._intervals: dict[int, int] = {}
        self._lookout = Lookout(NEVER, clock())
        # While nobody is looked out for, nothing is missed.
        self._lookout.plan(clock(), NEVER)
        self._heap: list[tuple[int, int, Seat]] = []
        self._pushed = 0

    def join(self, spec: Spec) -> Seat:
        """Return a seat for the driver of a stream with these limits."""
        seat = Seat(self, look_interval(spec), self.clock())
        known = self._intervals.get(seat.every, 0)
        self._intervals[seat.every] = known + 1
        self._seats.add(seat)
        if not known:
            self._look_as_often_as_needed()
        return seat

    def leave(self, seat: Seat) -> None:
        """Forget a driver; no error when it is forgotten already."""
        if seat not in self._seats:
            return
        self._seats.discard(seat)
        seat.driver = None
        seat.due = NEVER
        self._intervals[seat.every] -= 1
        if not self._intervals[seat.every]:
            del self._intervals[seat.every]
            self._look_as_often_as_needed()
        if not self._seats:
            self._heap.clear()
            self.armed = NEVER
            self.arm(None)

    def _look_as_often_as_needed(self) -> None:
        every = min(self._intervals, default=NEVER)
        at = self.clock()
        missed = self._lookout.missed(at)
        if missed:
            self._lapse(missed, at)
        self._lookout = Lookout(every, at)
        self._expect(self._lookout.plan(at, NEVER))

    def expect(self, seat: Seat) -> None:
        """A seat's deadline has moved."""
        if seat.due < NEVER:
            self._pushed += 1
            heapq.heappush(self._heap, (seat.due, self._pushed, seat))
            self._expect(seat.due)

    def _expect(self, instant: int) -> None:
        """Have the timer go off at this instant, or earlier: then it finds nothing and is set anew."""
        if instant < self.armed:
            self.armed = instant
            self.arm(instant)

    def arm(self, instant: int | None) -> None:
        """Set the one timer to call `step` at an instant; None: there is nobody left to step."""
        raise NotImplementedError

    def step(self) -> None:
        """Step every driver that is due. Never raises: a defect of ours is told to the stream that it hit."""
        at = self.clock()
        self.armed = _BUSY
        missed = self._lookout.missed(at)
        if missed:
            self._lapse(missed, at)
        while self._heap and self._heap[0][0] <= at:
            due, _, seat = heapq.heappop(self._heap)
            if due == seat.due:
                seat.due = NEVER
                self._guarded(seat, Driver.step)
        self.armed = NEVER
        if self._seats:
            self._expect(self._lookout.plan(at, self._soonest()))

    def _soonest(self) -> int:
        """Return the soonest deadline; what was pushed and has moved since is dropped on the way."""
        while self._heap and self._heap[0][0] != self._heap[0][2].due:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def _lapse(self, span: int, at: int) -> None:
        """Tell everybody; who joined meanwhile has missed less."""
        for seat in list(self._seats):
            since = max(at - span, seat.joined)
            if since < at:
                self._guarded(seat, lambda driver, since=since: driver.lapse(at - since, since))  # type: ignore[misc]

    def _guarded(self, seat: Seat, act: "Callable[[Driver], object]") -> None:
        if seat.driver is None:
            return
        try:
            act(seat.driver)
        except Exception as error:  # noqa: BLE001 - the others go on
            seat.broken(error)


def _unheard(error: Exception) -> None:
    raise AssertionError("a seat without a stream") from error
