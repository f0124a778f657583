"""The fast gear of a pump: bytes go from pipe to sink inside the kernel, and a private pipe keeps the last of them.

tee(2) copies references to the pages into the private pipe without consuming them, splice(2) then moves them on. No
byte passes through this process until somebody asks for the tail. Loaded when there is time: call `offer` once.
"""

import errno
import fcntl
import os
import sys
import termios

from longwatch.posix.libc import CAN_TEE, set_pipe_size, tee
from longwatch.posix.pump import Pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.posix.capture import Captured

_NONBLOCK = getattr(os, "SPLICE_F_NONBLOCK", 2)
_SIZE = 1 << 20
# Bytes of one turn, so that two streams share the loop fairly.
_TURN = 4 << 20
# The private pipe is cut back to a tail only once it holds so much more: each cut is a system call.
_SPARE = 128 << 10
# So many moves in a row below this size, and the slow gear does as well.
_SMALL = 16 << 10
_SMALL_MOVES = 64


def offer() -> None:
    """Let pumps shift into the fast gear from now on, where the system has it."""
    if CAN_TEE and hasattr(os, "splice"):
        Pump.gearbox = FastGear


class FastGear:
    """Moves one pump's stream. `shift` is called when there is something to read, `leave` when it stops paying.

    Invariants: the source's first `_ahead` bytes are already in the private pipe, at its end; the pump's capture
    holds what came before the private pipe's first byte, as far as a tail may still need it.
    """

    __slots__ = ("_ahead", "_held", "_in", "_null", "_out", "_pump", "_small")

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._out, self._in = os.pipe()
        try:
            self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._out)
            os.close(self._in)
            raise
        self._held = 0
        self._ahead = 0
        self._small = 0
        # A smaller one could not hold a tail; the sink's may stay as it is.
        if not set_pipe_size(self._in, _SIZE):
            self._close()
            raise OSError(errno.EPERM, "no more pipe memory")
        if pump.sink is not None:
            set_pipe_size(pump.sink.fileno(), _SIZE)

    def shift(self) -> bool:
        """Move a bounded amount; False when the slow gear should take over, for the end too."""
        budget = _TURN
        while budget > 0:
            count = self._advance()
            if count is None:
                break
            if count < 0:
                return False
            budget -= count
            self._small = self._small + 1 if count < _SMALL else 0
        return self._small < _SMALL_MOVES

    def leave(self) -> None:
        """Hand the tail to the pump's capture and close."""
        self._empty()
        self._close()

    def captured(self) -> "Captured":
        """Return head, tail and gap up to this moment."""
        self._empty()
        return self._pump.capture.captured()

    def _advance(self) -> int | None:
        """Do one move and return its bytes; None when nothing moves now, -1 when this gear cannot go on."""
        sink = self._pump.sink
        if sink is None:
            return self._take()
        if not self._ahead:
            copied = self._copy()
            if not copied:
                return copied if copied is None else -1
            self._ahead = copied
            self._held += copied
        if self._pump.before_write is not None:
            self._pump.before_write()
        try:
            count = os.splice(self._pump.fd, sink.fileno(), self._ahead, flags=_NONBLOCK)
        except BlockingIOError:
            self._pump.block()
            return None
        except OSError:
            # The slow gear's write meets the same error and knows what to do; an append-only file it can write.
            self._pump.steady = True
            return -1
        self._ahead -= count
        self._went(count)
        return count

    def _copy(self) -> int | None:
        """Copy what the source holds into the private pipe; 0 at the end of the source, None when it is empty."""
        try:
            return tee(self._pump.fd, self._in, _SIZE, _NONBLOCK)
        except BlockingIOError:
            pass
        except OSError:
            self._pump.steady = True
            return 0
        # Full or empty? The kernel says the same for both.
        if not _readable(self._pump.fd):
            return None
        self._empty()
        return tee(self._pump.fd, self._in, _SIZE, _NONBLOCK)

    def _take(self) -> int | None:
        """Move straight into the private pipe: there is no sink to serve."""
        try:
            count = os.splice(self._pump.fd, self._in, _SIZE, flags=_NONBLOCK)
        except BlockingIOError:
            if not _readable(self._pump.fd):
                return None
            self._empty()
            return 0
        except OSError:
            self._pump.steady = True
            return -1
        if not count:
            return -1
        self._held += count
        self._went(count)
        return count

    def _went(self, count: int) -> None:
        self._pump.moved(count)
        spare = self._held - self._ahead - self._pump.capture.size
        if spare > _SPARE:
            self._discard(spare)

    def _discard(self, count: int) -> None:
        """Forget the oldest bytes of the private pipe, which no tail needs any more."""
        self._held -= count
        self._pump.capture.skip(count)
        while count:
            count -= os.splice(self._out, self._null, count)

    def _empty(self) -> None:
        """Move what the private pipe holds into the capture, but for what the source still has."""
        capture = self._pump.capture
        rest = self._held - self._ahead
        while rest:
            count = os.readv(self._out, (capture.space()[:rest],))
            capture.took(count)
            rest -= count
        self._held = self._ahead

    def _close(self) -> None:
        for fd in (self._in, self._out, self._null):
            os.close(fd)


def _readable(fd: int) -> bool:
    """Return whether a pipe holds bytes."""
    answer = fcntl.ioctl(fd, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder) > 0
