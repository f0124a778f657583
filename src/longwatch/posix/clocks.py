"""The clocks of a run: a small mapped file of integers, stored by the supervisor, read by `ls` and `why`.

Storing costs what storing into memory costs, so every chunk of output may move a clock, and no reader can make
the supervisor wait. Only the header and the layout are versioned; a reader takes what it finds at that instant.
"""

import errno
import mmap
import os
import sys

from longwatch.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The slots of the clocks file, native 64-bit integers, times in ms of CLOCK_BOOTTIME, 0 for never.
MAGIC, STARTED, ALIVE, PROGRESS, LOOKED, STATE = range(6)
HEADER_SLOTS = 6
#: The four slots of each source, in the order of `sources` in meta.json.
LAST, COUNT, BYTES, SOURCE_ALIVE = range(4)
SOURCE_SLOTS = 4
MAX_SOURCES = 8
CLOCKS_BYTES = 8 * (HEADER_SLOTS + SOURCE_SLOTS * MAX_SOURCES)
CLOCKS_VERSION = 1
_MAGIC_BASE = int.from_bytes(b"lwclk", "big") << 16

#: The STATE slot: what the supervisor is about in the low byte, a bit for each kind of open hold above it.
STATES = ("running", "stopping", "ended", "parked")
RUNNING, STOPPING, ENDED, PARKED = range(4)
HOLDS = ("call", "asked", "paused", "quiet", "ready", "blind")


class Clocks:
    """The clocks of one run: `header` and `source(i)` are views into the mapped file, ready to be stored into."""

    __slots__ = ("_map", "_slots", "header")

    def __init__(self, slots: memoryview, mapped: mmap.mmap | None = None) -> None:
        self._slots = slots
        self._map = mapped
        self.header = slots[:HEADER_SLOTS]

    @classmethod
    def create(cls, path: str, started: int) -> "Clocks":
        """Make the file and map it. Raises OSError; a disk too full for it says so here, not at a later store."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Written, not truncated to size: a store into a hole of a full disk would kill us by SIGBUS.
            if os.write(descriptor, bytes(CLOCKS_BYTES)) < CLOCKS_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            mapped = _mapped(descriptor)
        finally:
            os.close(descriptor)
        clocks = cls(memoryview(mapped).cast("q"), mapped)
        clocks.header[STARTED] = started
        clocks.header[MAGIC] = _MAGIC_BASE | CLOCKS_VERSION
        return clocks

    @classmethod
    def remap(cls, path: str) -> "Clocks":
        """Map the file of a run that goes on, to store into. Raises OSError, also where it is none of ours."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size < CLOCKS_BYTES:
                raise OSError(errno.EINVAL, "it is too short")
            mapped = _mapped(descriptor)
        finally:
            os.close(descriptor)
        clocks = cls(memoryview(mapped).cast("q"), mapped)
        if clocks.header[MAGIC] != _MAGIC_BASE | CLOCKS_VERSION:
            clocks.close()
            raise OSError(errno.EINVAL, "it is of another version")
        return clocks

    @classmethod
    def open(cls, path: str) -> "Clocks | None":
        """Read the file as it is now; None when it is missing, short or not ours.

        Raises StoreError with one line when a newer longwatch wrote it.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            data = os.read(descriptor, CLOCKS_BYTES)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        magic = memoryview(data[:8].ljust(8, b"\0")).cast("q")[0]
        if magic >> 16 == _MAGIC_BASE >> 16 and magic & 0xFFFF > CLOCKS_VERSION:
            raise StoreError(
                f"{path} was written by a newer longwatch (clocks {magic & 0xFFFF}); upgrade to read it"
            )
        if len(data) < CLOCKS_BYTES or magic != _MAGIC_BASE | CLOCKS_VERSION:
            return None
        return cls(memoryview(data).cast("q"))

    def source(self, index: int) -> memoryview:
        """Return the four slots LAST, COUNT, BYTES, SOURCE_ALIVE of a source, 0 <= index < MAX_SOURCES."""
        begin = HEADER_SLOTS + SOURCE_SLOTS * index
        return self._slots[begin : begin + SOURCE_SLOTS]

    @property
    def state(self) -> str:
        """What the supervisor is about: one of STATES; `running` for a number that is unknown here."""
        number = self.header[STATE] & 0xFF
        return STATES[number] if number < len(STATES) else STATES[RUNNING]

    @property
    def holds(self) -> tuple[str, ...]:
        """The kinds of hold that are open, in the order of HOLDS."""
        bits = self.header[STATE] >> 8
        return tuple(kind for bit, kind in enumerate(HOLDS) if bits >> bit & 1)

    def set_state(self, number: int, holds: "Sequence[str]" = ()) -> None:
        """Store RUNNING, STOPPING, ENDED or PARKED and the kinds of the open holds."""
        bits = 0
        for kind in holds:
            bits |= 1 << HOLDS.index(kind)
        self.header[STATE] = bits << 8 | number

    def restart(self, started: int) -> None:
        """Begin anew for the next incarnation: nothing was seen of it yet."""
        for slot in range(ALIVE, len(self._slots)):
            self._slots[slot] = 0
        self.header[STARTED] = started

    def close(self) -> None:
        """Unmap. Views still held by a pump stay valid: the mapping then lives as long as they do."""
        self.header.release()
        self._slots.release()
        if self._map is not None:
            try:
                self._map.close()
            except BufferError:
                self._map = None


def _mapped(descriptor: int) -> mmap.mmap:
    """Map the file. Before Python 3.13 that holds a descriptor of its own for as long as it is mapped."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, CLOCKS_BYTES, trackfd=False)
    return mmap.mmap(descriptor, CLOCKS_BYTES)
