"""One stream of a child: read, stamped, captured, judged, logged and passed on unchanged.

It starts in a gear that reads into the capture's ring and writes from there. A stream that keeps the ring full is
handed to the fast gear, which moves the bytes inside the kernel; it costs a module and a C library call, so whoever
has time for it puts it into `Pump.gearbox` (see `posix.gears`).
"""

import errno
import os

from longwatch.posix import now
from longwatch.posix.capture import HEAD, TAIL, Capture, Captured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ClassVar, Protocol

    from longwatch.posix.reactor import Reactor
    from longwatch.posix.sink import Log, Sink

    class Gear(Protocol):
        """Moves bytes from source to sink inside the kernel."""

        def __init__(self, pump: "Pump") -> None: ...
        def shift(self) -> bool: ...
        def leave(self) -> None: ...
        def captured(self) -> Captured: ...

    class Judge(Protocol):
        """Tells progress from mere signs of life; `longwatch.posix.judge` has the usual one."""

        last: int
        count: int

        def feed(self, chunk: memoryview, now: int) -> bool: ...
        def settle(self) -> bool: ...


# Reads of one turn, so that two streams share the loop fairly.
_TURN = 16
# A read of this size says that the child writes faster than we wake; so many in a row are worth the fast gear.
_FULL = 32 << 10
_FULL_READS = 16

LAST, COUNT, BYTES, ALIVE = 0, 1, 2, 3


class Pump:
    """Moves one stream. It owns `fd`, a non-blocking pipe or PTY master, from its start to its end.

    `sink` None only captures. `judge` (feed, settle, last, count) decides which bytes are progress; without one all
    are. `log` (write) and each of `taps` get every chunk, a view valid for the call. `before_write` runs before anything
    reaches the sink. `on_end()` runs once, when the stream is over and all of it passed on; `on_broken()` once, when
    the sink's reader is gone; `on_warning(text)` once, when the sink failed otherwise. What a lost sink refuses is
    still read and captured, and counted in `lost`.

    `slot` holds four numbers: ms of the newest progress, times it came, bytes, ms of the newest byte (0: none).
    """

    #: The class of the fast gear, once there was time to load it.
    gearbox: "ClassVar[type[Gear] | None]" = None

    __slots__ = (
        "_full_reads", "_gear", "_pending", "_reactor", "_told", "before_write", "blocked_since", "capture", "ended", "fd",
        "judge", "log", "lost", "on_broken", "on_end", "on_warning", "sink", "slot", "steady", "taps",
    )  # fmt: skip

    def __init__(
        self, reactor: "Reactor", fd: int, sink: "Sink | None" = None, *, head: int = HEAD, tail: int = TAIL,
        on_end: "Callable[[], object] | None" = None, on_broken: "Callable[[], object] | None" = None,
        on_warning: "Callable[[str], object] | None" = None, judge: "Judge | None" = None, log: "Log | None" = None,
        taps: "Iterable[Callable[[memoryview], object]]" = (), before_write: "Callable[[], object] | None" = None,
    ) -> None:  # fmt: skip
        self._reactor = reactor
        self.fd = fd
        self.sink = sink
        self.capture = Capture(head, tail)
        self.slot: memoryview | list[int] = [0, 0, 0, 0]
        self.on_end = on_end
        self.on_broken = on_broken
        self.on_warning = on_warning
        self.judge = judge
        self.log = log
        self.taps = list(taps)
        self.before_write = before_write
        self.ended = False
        #: ms since when the sink takes nothing; None while it does. Its silence is not the child's.
        self.blocked_since: int | None = None
        #: Bytes that a broken or failed sink did not get.
        self.lost = 0
        #: Set where the fast gear has proved useless, as for a file opened to append.
        self.steady = False
        self._pending: memoryview | None = None
        self._full_reads = 0
        self._gear: Gear | None = None
        self._told = False
        reactor.add(fd, self.ready)

    @property
    def last(self) -> int:
        """When the newest progress came, in ms; 0 for never."""
        return self.slot[LAST]

    @property
    def count(self) -> int:
        """How often progress came."""
        return self.slot[COUNT]

    @property
    def bytes(self) -> int:
        """How many bytes came."""
        return self.slot[BYTES]

    @property
    def alive(self) -> int:
        """When the newest byte came, progress or not, in ms; 0 for never."""
        return self.slot[ALIVE]

    def ready(self) -> bool:
        """Take a bounded amount from the source. The reactor calls this; a spurious call does no harm.

        True would say that so much came that nobody may wait; nobody does here.
        """
        if self.ended or self.blocked_since is not None:
            return False
        if self._full_reads >= _FULL_READS and self._gear is None:
            self._engage()
        if self._gear is not None:
            if not self._looked_at() and self._gear.shift():
                return False
            self._leave_gear()
        for _ in range(_TURN):
            if self.ended or self.blocked_since is not None or not self._read():
                break
        return False

    def finish(self) -> None:
        """Give the stream up: read what is there already, pass on what the sink takes now, and end."""
        if self.ended:
            return
        if self._gear is not None:
            self._leave_gear()
        self._drop_pending()
        for _ in range(_TURN):
            if self.ended or not self._read():
                break
            self._drop_pending()
        self._end()

    def settle(self) -> None:
        """Judge a line that is not complete by what it has, before somebody acts on the silence."""
        if self.judge is not None and self.judge.settle():
            self._judged(self.judge)

    def captured(self) -> Captured:
        """Return the first bytes, the last bytes, and how many between them were dropped."""
        return self.capture.captured() if self._gear is None else self._gear.captured()

    def move_slot(self, view: memoryview) -> None:
        """Keep the stamps in `view` (four 64-bit numbers) from now on."""
        for index, number in enumerate(self.slot):
            view[index] = number
        self.slot = view

    def moved(self, count: int) -> None:
        """Stamp `count` bytes that came without being looked at."""
        slot = self.slot
        slot[LAST] = slot[ALIVE] = now()
        slot[COUNT] += 1
        slot[BYTES] += count

    def block(self) -> None:
        """Stop reading until the sink takes bytes again."""
        assert self.sink is not None
        self.blocked_since = now()
        self._reactor.remove(self.fd)
        self._reactor.add(self.sink.fileno(), self._unblocked, write=True)

    def sink_lost(self, count: int) -> None:
        """Count bytes that the sink will never get, and tell once why."""
        assert self.sink is not None
        self.lost += count
        if self._told:
            return
        self._told = True
        if self.sink.broken:
            if self.on_broken is not None:
                self.on_broken()
        elif self.on_warning is not None and self.sink.failed is not None:
            self.on_warning(self.sink.failed)

    def _read(self) -> bool:
        """Do one read; False when nothing is there or the stream is over."""
        space = self.capture.space()
        try:
            count = os.readv(self.fd, (space,))
        except BlockingIOError:
            return False
        except OSError as error:
            # The end of a terminal comes as an I/O error; any other leaves nothing to read either.
            if error.errno not in (errno.EIO, errno.ECONNRESET):
                self._warn(error)
            count = 0
        if not count:
            self._end()
            return False
        self._full_reads = self._full_reads + 1 if count >= _FULL or count == len(space) else 0
        self._took(self.capture.took(count))
        return True

    def _took(self, chunk: memoryview) -> None:
        if self.judge is None:
            self.moved(len(chunk))
        else:
            self.slot[ALIVE] = stamp = now()
            self.slot[BYTES] += len(chunk)
            if self.judge.feed(chunk, stamp):
                self._judged(self.judge)
        if self.log is not None:
            self.log.write(chunk)
        for tap in self.taps:
            tap(chunk)
        if self.sink is not None:
            self._pending = chunk
            if not self._deliver(self.sink):
                self.block()

    def _judged(self, judge: "Judge") -> None:
        self.slot[LAST] = judge.last
        self.slot[COUNT] = judge.count

    def _deliver(self, sink: "Sink") -> bool:
        """Write what is pending; False when the sink would block."""
        pending = self._pending
        if pending and self.before_write is not None:
            self.before_write()
        while pending:
            count = sink.write(pending)
            if sink.broken or sink.failed is not None:
                self._pending = None
                self.sink_lost(len(pending))
                return True
            pending = pending[count:]
            self._pending = pending
            if not count:
                return False
        self._pending = None
        return True

    def _unblocked(self) -> None:
        assert self.sink is not None
        if not self._deliver(self.sink):
            return
        self._resume()
        # The gear keeps bytes of its own that the sink has not had; it goes on where it stopped.
        self.ready()

    def _resume(self) -> None:
        if self.blocked_since is not None and self.sink is not None:
            self.blocked_since = None
            self._reactor.remove(self.sink.fileno())
            self._reactor.add(self.fd, self.ready)

    def _drop_pending(self) -> None:
        """Give a blocked sink up."""
        if self._pending:
            self.lost += len(self._pending)
            self._pending = None
        self._resume()

    def _looked_at(self) -> bool:
        return bool(self.judge is not None or self.log is not None or self.taps)

    def _engage(self) -> None:
        if (
            self.gearbox is not None
            and not self.steady
            and not self._looked_at()
            and self.capture.head_full
            and (
                self.sink is None or (self.sink.splices and not self.sink.broken and self.sink.failed is None)
            )
        ):
            self._full_reads = 0
            try:
                self._gear = self.gearbox(self)
            except OSError:
                # No descriptors or no pipe memory left: the way it went so far is always possible.
                self.steady = True

    def _leave_gear(self) -> None:
        if self._gear is not None:
            self._gear.leave()
            self._gear = None

    def _warn(self, error: OSError) -> None:
        if self.on_warning is not None:
            self.on_warning(error.strerror or str(error))

    def _end(self) -> None:
        if self.ended:
            return
        self.settle()
        self._resume()
        self.ended = True
        self._reactor.remove(self.fd)
        os.close(self.fd)
        if self.on_end is not None:
            self.on_end()


__all__ = ["ALIVE", "BYTES", "COUNT", "LAST", "Pump"]
