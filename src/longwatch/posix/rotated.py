"""A log file that is never larger than its cap, with the older ones beside it: FILE, FILE.1, FILE.2 and so on.

It is opened when it is first needed and may be closed and opened again at any time. Whoever rotates it from outside,
by renaming, deleting or cutting it short, is noticed: the folder tells whether anything in it has moved, the end of
the file how large it is now. Everything here raises OSError.
"""

import os
import stat
import time

from longwatch.posix import now
from longwatch.posix.sink import is_moved

#: How often (ms) a folder is asked whether a file of it was moved.
LOOK = 250
#: Two changes within one tick of a file system's clock look like one: so young a change (ns) may hide another.
_TICK = 20_000_000
#: The room of a file without a cap.
ENDLESS = 1 << 62
# Non-blocking, so that a FIFO in its place cannot hold us up; it means nothing for a file.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Place:
    """A folder of logs, which tells all of them together whether a file of it may have been moved or deleted."""

    __slots__ = ("_looked", "_mtime", "_young", "changes", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        #: Another number whenever something may have moved.
        self.changes = 0
        self._looked = 0
        self._mtime = -1
        self._young = False

    def look(self) -> int:
        """Return `changes`, after a look at the folder if the last one is a while ago."""
        moment = now()
        if moment - self._looked >= LOOK:
            self._looked = moment
            self._compare()
        return self.changes

    def _compare(self) -> None:
        try:
            mtime = os.stat(self.path).st_mtime_ns
        except OSError:
            mtime = 0
        if mtime != self._mtime or self._young:
            self._mtime = mtime
            self.changes += 1
        self._young = abs(time.time_ns() - mtime) < _TICK


class Rotated:
    """One log of at most `limit` bytes a file (0: no cap) and `keep` files in all. Closed until `prepare`."""

    __slots__ = ("_fd", "_file", "_limit", "_place", "_regular", "_seen", "discarded", "keep", "path")

    def __init__(self, path: str, place: Place, limit: int = 0, keep: int = 1) -> None:
        self.path = path
        self.keep = max(keep, 1)
        self._limit = limit
        self._place = place
        self._fd = -1
        self._file = (0, 0)
        self._regular = True
        self._seen = 0
        #: How many bytes have gone with the oldest files.
        self.discarded = 0

    def fileno(self) -> int:
        """Return its descriptor, -1 while it is closed. It stands at the end of the file after `room`."""
        return self._fd

    def prepare(self) -> None:
        """Have that file open which is at the path now."""
        if self._fd < 0:
            self._open()
        elif self._seen != (changes := self._place.look()):
            if is_moved(self.path, self._file):
                self._open()
            self._seen = changes

    def room(self) -> int:
        """Return how many bytes still fit before the cap, and stand at the end. Only of a prepared file."""
        if not self._regular:
            return ENDLESS
        size = os.lseek(self._fd, 0, os.SEEK_END)
        return max(self._limit - size, 0) if self._limit else ENDLESS

    def fits(self, data: memoryview) -> int:
        """Return how many of these bytes belong into the file as it is; a new one is begun where none do."""
        room = self.room()
        if len(data) <= room:
            return len(data)
        # Between two lines if that is possible; a line longer than a whole file is cut.
        line = bytes(data[:room]).rfind(b"\n") + 1
        if line or room == self._limit:
            return line or room
        self.rotate()
        return self.fits(data)

    def write(self, data: memoryview) -> int:
        """Append what belongs into the file, and return how much that was."""
        data = data[: self.fits(data)]
        return os.write(self._fd, data)

    def rotate(self) -> None:
        """Begin a new file; the oldest one goes."""
        number = self.keep
        while _removed(self._older(number)):  # more than one only where `keep` was larger before
            number += 1
        self.discarded += _size(self._older(self.keep - 1))
        _removed(self._older(self.keep - 1))
        for number in range(self.keep - 1, 0, -1):
            try:
                os.replace(self._older(number - 1), self._older(number))
            except FileNotFoundError:
                continue
        self._open()

    def in_line(self) -> bool:
        """Whether the file ends in the middle of a line. Only of a prepared file."""
        if not self._regular:
            return False
        size = os.lseek(self._fd, 0, os.SEEK_END)
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"

    @property
    def splices(self) -> bool:
        """Whether it is a file that bytes may be moved into by the kernel."""
        return self._regular

    def close(self) -> None:
        """Hold no descriptor until the next `prepare`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        # Not for appending, which the kernel's own moving of bytes refuses: `room` goes to the end instead.
        fd = os.open(self.path, _FLAGS, 0o600)
        self.close()
        self._fd = fd
        found = os.fstat(fd)
        self._file = (found.st_dev, found.st_ino)
        self._regular = stat.S_ISREG(found.st_mode)
        self._seen = self._place.changes

    def _older(self, number: int) -> str:
        return f"{self.path}.{number}" if number else self.path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _removed(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
