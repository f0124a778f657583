"""Where a stream goes: a descriptor we inherited. It is never made non-blocking, for others share it.

A stuck reader downstream must not stop the loop that owns the clocks, so each kind of descriptor has its own way of
writing what fits and no more.
"""

import errno
import os
import select
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# A pipe or terminal that polls as writable takes this much without blocking.
_SURE = 4096
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE)


class Sink:
    """A descriptor of ours to pass bytes to; `write` never blocks on a reader.

    `broken`: nobody reads any more. `failed`: the text of the first other error; from then on everything is refused
    at once. `splices`: whether it is worth trying splice(2) on `fileno()`.
    """

    __slots__ = ("_fd", "_original", "_put", "broken", "failed", "splices")

    def __init__(self, fd: int) -> None:
        self._original = fd
        self._fd = fd
        self.broken = False
        self.failed: str | None = None
        self._put: Callable[[memoryview], int] = self._put_plain
        mode = os.fstat(fd).st_mode
        terminal = stat.S_ISCHR(mode) and os.isatty(fd)
        self.splices = not (terminal or stat.S_ISSOCK(mode))
        if stat.S_ISFIFO(mode) or terminal:
            self._open_private()
        elif stat.S_ISSOCK(mode):
            self._put = self._put_nowait

    def fileno(self) -> int:
        """Return the descriptor to watch or splice to; not necessarily the one given."""
        return self._fd

    def write(self, data: memoryview) -> int:
        """Write what fits and return how much; 0 means that it would block, or `broken` or `failed`."""
        if self.broken or self.failed is not None:
            return 0
        try:
            return self._put(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.fail(error)
            return 0

    def fail(self, error: OSError) -> None:
        """Note an error of writing, here or by splice."""
        if error.errno in (errno.EPIPE, errno.ECONNRESET):
            self.broken = True
        elif self.failed is None:
            self.failed = error.strerror or str(error)

    def close(self) -> None:
        """Close what was opened here; the descriptor given stays open."""
        if self._fd != self._original:
            os.close(self._fd)
            self._fd = self._original

    def _open_private(self) -> None:
        """Open the same pipe or terminal anew, with flags that nobody shares; not possible after `su`."""
        try:
            self._fd = reopen(self._original, os.O_WRONLY)
            self._put = self._put_plain
        except OSError:
            self._put = self._put_nowait

    def _put_plain(self, data: memoryview) -> int:
        return os.write(self._fd, data)

    def _put_nowait(self, data: memoryview) -> int:
        try:
            return os.pwritev(self._fd, (data,), -1, _NOWAIT)
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", errno.ENOSYS) not in _UNSUPPORTED:
                raise
        self._put = self._put_polled
        return self._put_polled(data)

    def _put_polled(self, data: memoryview) -> int:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return os.write(self._fd, data[:_SURE]) if poll.poll(0) else 0


def reopen(fd: int, mode: int) -> int:
    """Open the pipe or terminal behind `fd` once more, non-blocking, as a description of our own."""
    return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


class Log:
    """A file that gets a copy of everything, of at most `limit` bytes (0: no limit) and one older one beside it.

    When it is full it becomes FILE.1 and a new one begins, between two lines where that is possible. A file that was
    moved away is opened anew. Raises OSError when it cannot be opened at first; after that nothing raises: a file
    that cannot be written costs its bytes, counted in `lost`, and one call of `on_warning` with the reason.
    """

    __slots__ = ("_fd", "_file", "_limit", "_regular", "_size", "failed", "lost", "on_warning", "path")

    def __init__(
        self, path: str, limit: int = 0, on_warning: "Callable[[str], object] | None" = None
    ) -> None:
        # Absolute, for the process may change its directory before the file is full.
        self.path = os.path.abspath(path)
        self.on_warning = on_warning
        self.lost = 0
        #: Why the file could not be written the first time it could not.
        self.failed: str | None = None
        self._limit = limit
        self._fd = -1
        self._open()

    def write(self, data: memoryview) -> None:
        """Append bytes; a log shared by two streams takes them in the order they came."""
        try:
            if self._regular and is_moved(self.path, self._file):
                self._open()
            while data:
                data = data[self._some(data) :]
        except OSError as error:
            self.lost += len(data)
            self._warn(error)

    def close(self) -> None:
        """Close the file. Later writes are lost."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        # Non-blocking, so that a FIFO without a reader is refused; it means nothing for a file.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o666)
        self.close()
        self._fd = fd
        found = os.fstat(fd)
        self._file = (found.st_dev, found.st_ino)
        self._regular = stat.S_ISREG(found.st_mode)
        self._size = found.st_size

    def _some(self, data: memoryview) -> int:
        """Write what belongs into the file as it is, and rotate when it is full."""
        if self._limit and self._regular:
            room = self._limit - self._size
            if len(data) > room:
                line = bytes(data[: max(room, 0)]).rfind(b"\n") + 1
                # A line longer than a whole file is cut.
                room = line if line or self._size else room
                if room <= 0:
                    self._rotate()
                    return 0
                data = data[:room]
        count = os.write(self._fd, data)
        self._size += count
        return count

    def _rotate(self) -> None:
        os.replace(self.path, self.path + ".1")
        self._open()

    def _warn(self, error: OSError) -> None:
        if self.failed is None:
            self.failed = error.strerror or str(error)
            if self.on_warning is not None:
                self.on_warning(f"{self.path}: {self.failed}")


def is_moved(path: str, file: tuple[int, int]) -> bool:
    """Return whether a path no longer leads to the file (device, inode) that was opened by it: rotated by others, or gone."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return True
    return (found.st_dev, found.st_ino) != file
