"""A stream of a kept program on its way into its log: whoever is killed on the way loses no byte of it.

Bytes move from pipe to file inside the kernel. Where somebody looks at them (a judge, a tap) a copy is made first, and
the original moves on after that. Only what has to be changed on the way, by a redactor, is written from the copy
before the original is let go of: after a crash some of that may come twice, none is missing. A terminal cannot be copied from, so its bytes go through the relay, a pipe that the keeper holds as well.
"""

import errno
import os

from longwatch.posix.libc import tee
from longwatch.posix.pump import Pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from longwatch.posix.capture import Captured
    from longwatch.posix.reactor import Reactor
    from longwatch.posix.sink import Sink

    class Log(Protocol):
        """Where a stream is written down; see `logfile`."""

        broken: bool
        failed: str | None
        splices: bool

        def fileno(self) -> int: ...
        def room(self) -> int: ...
        def fits(self, data: memoryview) -> int: ...
        def spliced(self, count: int) -> object: ...
        def write(self, data: memoryview) -> int: ...
        def fail(self, error: OSError) -> object: ...
        def close(self) -> object: ...


_NONBLOCK = getattr(os, "SPLICE_F_NONBLOCK", 2)
# One move; and moves of one turn, so that many streams share the loop fairly.
_CHUNK = 256 << 10
_TURN = 8
# After a move of less nothing more is there, most likely: asking costs as much as another line.
_LITTLE = 4 << 10
# So much in one turn, and waiting for more costs nobody anything; a terminal holds no more than 4 KiB.
_MUCH, _MUCH_SHOWN = 16 << 10, 2 << 10
#: What is kept in memory of a stream that is looked at: a log has the rest.
HEAD, TAIL = 2 << 10, 16 << 10


class Mirror:
    """A pipe for copies, and a place to let go of originals: one for all streams of a process."""

    __slots__ = ("_ends", "_null")

    def __init__(self) -> None:
        self._ends = os.pipe()
        self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def copy(self, source: int) -> int:
        """Copy what a pipe holds; return how many bytes, which have to be read before the next copy."""
        return tee(source, self._ends[1], _CHUNK, _NONBLOCK)

    def read(self, count: int) -> bytes:
        """Return the copy."""
        data = os.read(self._ends[0], count) if count else b""
        while len(data) < count:
            data += os.read(self._ends[0], count - len(data))
        return data

    def let_go(self, source: int, count: int) -> None:
        """Drop what was copied and looked at."""
        while count > 0:
            count -= os.splice(source, self._null, count)

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in (*self._ends, self._null):
            os.close(fd)


class Nowhere:
    """The log of a harness that keeps none."""

    __slots__ = ("_fd",)
    broken = False
    failed: str | None = None
    splices = True
    path = ""

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return a descriptor that takes everything."""
        return self._fd

    def room(self) -> int:
        """Return how much may be written now."""
        return _CHUNK

    def fits(self, data: memoryview) -> int:
        """Return how many of these bytes may be moved here."""
        return len(data)

    def spliced(self, count: int) -> None:
        """Nothing has to be counted."""

    def write(self, data: memoryview) -> int:
        """Take it all."""
        return len(data)

    def fail(self, error: OSError) -> None:
        """Nothing can fail here."""

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


class Conduit(Pump):
    """Moves one stream into its log. `moved_some()` is called after bytes came; `relay` (out, in) is for a terminal."""

    __slots__ = ("_mirror", "_moves", "_over", "_relay", "moved_some")

    def __init__(
        self, reactor: "Reactor", fd: int, log: "Log", mirror: Mirror, relay: tuple[int, int] | None = None, *,
        on_end: "Callable[[], object] | None" = None,
    ) -> None:  # fmt: skip
        sink: Sink = log  # type: ignore[assignment]
        super().__init__(reactor, fd, sink, head=HEAD, tail=TAIL, on_end=on_end)
        self._mirror = mirror
        self._relay = relay
        #: The terminal has ended, the relay may hold some of it still.
        self._over = False
        #: What is looked at is moved afterwards, and need not be written.
        self._moves = False
        self.moved_some: Callable[[], object] = _nobody_waits

    def ready(self) -> bool:
        """Move a bounded amount; return whether it was much. The reactor calls this; a spurious call does no harm."""
        before = self.bytes
        for _ in range(_TURN):
            was = self.bytes
            if self.ended or not self._move() or self.bytes - was < _LITTLE:
                break
        moved = self.bytes - before
        if moved:
            self.moved_some()
        return moved >= (_MUCH if self._relay is None else _MUCH_SHOWN)

    def finish(self) -> None:
        """Give the stream up: pass on what is there already, and end."""
        for _ in range(_TURN):
            if self.ended or not self._move():
                break
        self._end()

    def captured(self) -> "Captured":
        """Return what is kept in memory; of a stream that nobody looks at, what its log ends with."""
        head, tail, _ = self.capture.captured()
        if not self._looked_at():
            # The log has it all, also what an earlier supervisor has moved.
            head, tail = b"", _end_of(getattr(self.sink, "path", ""), min(self.bytes, TAIL))
        return head, tail, max(0, self.bytes - len(head) - len(tail))

    def _move(self) -> bool:
        """Do one move; False when nothing is there or the stream is over."""
        if self._relay is not None:
            self._fill(self._relay[1])
        count = self._pass_on(self.fd if self._relay is None else self._relay[0])
        if count is None and self._over:
            count = 0
        if count == 0:
            self._end()
        return bool(count)

    def _fill(self, relay: int) -> None:
        """Move what the terminal shows into the relay."""
        if self._over:
            return
        try:
            self._over = os.splice(self.fd, relay, _CHUNK, flags=_NONBLOCK) == 0
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.EINVAL:
                self._fill_by_hand(relay)
                return
            self._over = True  # so a terminal says that nobody has it open any more

    def _fill_by_hand(self, relay: int) -> None:
        """The same on a kernel that cannot move bytes out of a terminal. A kill between the two calls costs some."""
        try:
            data = os.read(self.fd, 4096)
            os.write(relay, data)
            self._over = not data
        except BlockingIOError:
            pass
        except OSError:
            self._over = True

    def _pass_on(self, source: int) -> int | None:
        """Move some bytes from a pipe to the log; 0 at the end of it, None when it is empty."""
        log: Log = self.sink  # type: ignore[assignment]
        if self._looked_at() or not log.splices or log.failed is not None or not (room := log.room()):
            return self._pass_copy(source)
        try:
            count = os.splice(source, log.fileno(), min(room, _CHUNK), flags=_NONBLOCK)
        except BlockingIOError:
            return None
        except OSError as error:
            log.fail(error)
            return self._pass_copy(source)
        if count:
            log.spliced(count)
            self.capture.skip(count)
            self.moved(count)
        return count

    def _pass_copy(self, source: int) -> int | None:
        """Look at a copy first; then move as much of the original into the log, or write the copy and let go of it."""
        log: Log = self.sink  # type: ignore[assignment]
        try:
            count = self._mirror.copy(source)
        except BlockingIOError:
            return None
        if not count:
            return 0  # the end of it is no sign of life
        data = memoryview(self._mirror.read(count))
        fitting = log.fits(data)
        if fitting:
            data = data[:fitting]
        self._moves = fitting > 0
        self.capture.append(data)
        self._took(data)
        if not fitting:
            self._mirror.let_go(source, count)
            return count
        while data:
            try:
                moved = os.splice(source, log.fileno(), len(data))
            except OSError as error:
                log.fail(error)
                self._pending = data
                self._moves = False
                self._deliver(self.sink)  # type: ignore[arg-type]
                self._mirror.let_go(source, len(data))
                break
            log.spliced(moved)
            data = data[moved:]
        return fitting

    def _deliver(self, sink: "Sink") -> bool:
        """Write what is pending; a log takes it or fails, and nobody waits for it."""
        pending, self._pending = self._pending, None
        while pending and not self._moves:
            count = sink.write(pending)
            if not count:
                self.lost += len(pending)
                break
            pending = pending[count:]
        return True


def _end_of(path: str, size: int) -> bytes:
    """Return the last bytes of a file; empty where there is none to read."""
    try:
        with open(path, "rb", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            return file.read(size) or b""
    except OSError:
        return b""


def _nobody_waits() -> None:
    """Nobody wants to know at once that something came."""


__all__ = ["HEAD", "TAIL", "Conduit", "Mirror", "Nowhere"]
