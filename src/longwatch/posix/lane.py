"""A part of a reactor for streams that can wait a moment: when much comes from many, it is taken all at once.

A thousand programs that write a line a second wake a loop a thousand times a second. Up to that everything is taken
as it comes; above, the lane leaves the reactor alone and looks itself, every 20 ms. What else the reactor watches,
ends of programs and requests, is not held up by that.
"""

from longwatch.posix import now
from longwatch.posix.reactor import BATCH, Reactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: From so many events in a second on they are taken in batches, every so many ms. Of a batch one event may stand for
#: many, so it goes on until half of the batches are empty: by then waking for each event costs no more.
BUSY, CALM = 500, 25
PAUSE = 20
#: For how long (ms) nobody waits after a stream has brought so much that its pipe might fill up meanwhile.
HURRY = 200
_SPAN = 200


class Lane(Reactor):
    """Watches descriptors inside another reactor. `later(instant, callback(now))` is that loop's timer.

    A callback that returns True says that much came: the lane does not wait then.
    """

    __slots__ = ("_count", "_hurried", "_later", "_outer", "_paced", "_since")

    def __init__(self, outer: Reactor, later: "Callable[[int, Callable[[int], object]], object]") -> None:
        super().__init__()
        self._outer = outer
        self._later = later
        self._count = 0
        self._since = now()
        self._hurried = 0
        #: Whether a timer, and not the reactor, wakes us.
        self._paced = False
        outer.add(self.fileno(), self._woken)

    @property
    def paced(self) -> bool:
        """Whether events wait for the next batch now."""
        return self._paced

    def close(self) -> None:
        """Leave the outer reactor. What was added stays open; it is its owner's."""
        if not self._paced:
            self._outer.remove(self.fileno())
        self._later = _never
        super().close()

    def _woken(self) -> None:
        moment = now()
        self._turn()
        if self._is_busy(moment):
            self._paced = True
            self._outer.remove(self.fileno())
            self._later(moment + PAUSE, self._again)

    def _again(self, moment: int) -> None:
        if self._later is _never:
            return
        # A full batch is not all there is: the others come as soon as the outer reactor has had its turn.
        pause = 0 if self._turn() == BATCH else PAUSE
        if self._is_busy(moment):
            self._later(moment + pause, self._again)
        else:
            self._paced = False
            self._outer.add(self.fileno(), self._woken)

    def _turn(self) -> int:
        """Run what is ready, a batch at most; return how much it was."""
        callbacks = self._callbacks
        ready = self._wait(0)
        for fd, _ in ready:
            callback = callbacks.get(fd)
            if callback is not None and callback() is True:
                self._hurried = now() + HURRY
        self._count += len(ready)
        return len(ready)

    def _is_busy(self, moment: int) -> bool:
        """Return whether so much comes, and from so many, that it should be taken in batches."""
        if moment < self._hurried:
            return False
        span = moment - self._since
        if span < _SPAN:
            return self._paced
        rate = self._count * 1000 // span
        self._count, self._since = 0, moment
        return rate >= (CALM if self._paced else BUSY)


def _never(instant: int, callback: "Callable[[int], object]") -> None:
    """Nobody is to be woken any more."""
