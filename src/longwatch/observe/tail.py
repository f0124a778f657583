"""Follows one file that grows, and finds the newest of something in it from its end.

A file is looked at when somebody asks, never by a thread of ours. Each look opens the path anew: that tells a file
put in another's place, and on a network file system it is what makes the client ask the server at all. The file
that was open before stays open beside it, so what was renamed away is read to its end, and its inode cannot be given
to another file meanwhile.

Whether a file that still has its inode has also kept its content is told by a checksum of its first bytes and of
those before the place where we stopped: shorter than that place, or other bytes there, is a file written anew.
"""

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from longwatch.core.record import Plain
from longwatch.observe.lines import Splitter
from longwatch.posix.libc import memmem

Told = TypeVar("Told")

_BLOCK = 256 << 10
#: One look reads so much of a file at most: what comes with a resumed conversation must not hold up a supervisor.
MOST = 32 << 20
#: What the checksum covers: the head names the conversation, the end the last record.
_HEAD, _END = 256, 64
#: A backward search starts with little, for the newest is mostly near the end, and doubles it up to a block.
_FIRST_BLOCK = 4 << 10
#: A longer record is not judged from behind.
_LONGEST = 8 << 20
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Mark(Plain):
    """Where a reader stopped, to go on there later, also as another process.

    `offset` is the byte after the last whole line; `proof` the checksum of what stood before it, None where only the
    size was seen; `inode` names the file beside its path.
    """

    __slots__ = ("inode", "offset", "proof")

    def __init__(self, inode: int, offset: int, proof: int | None = None) -> None:
        self.inode = inode
        self.offset = offset
        self.proof = proof


class Tail:
    """Follows the file at a path, from its beginning or from a mark; each whole line comes once.

    What a file held that was gone, or cut short, before anybody looked at it cannot be read. A line that never got
    its end does not come: half a record is none. There need not be a file yet.
    """

    def __init__(self, path: str, mark: Mark | None = None) -> None:
        self.path = path
        self._mark = mark
        self._file: _File | None = None
        #: What took the path meanwhile.
        self._next: _File | None = None

    def read(self, most: int = MOST) -> Iterator[tuple[int, bytes]]:
        """Yield the new whole lines, and the offset of each, of about `most` bytes; to be read to the end.

        Blank lines and runs of zero bytes are left out, of a line that is too long both ends come (see `lines`).
        Raises FileNotFoundError when there is no file and the one that was there has nothing new, and OSError while
        it may not be read; a later call goes on where this one stopped.
        """
        there = self._look()
        came = False
        for line in self._lines(most):
            came = True
            yield line
        if not there and not came:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    @property
    def behind(self) -> bool:
        """Whether the last look left something for the next."""
        return self._file is not None and self._file.behind

    @property
    def mark(self) -> Mark | None:
        """Where to go on: after the last whole line that was read. None while no file was seen."""
        return self._mark if self._file is None else self._file.mark

    def close(self) -> None:
        """Hold no descriptor until the next `read`, which goes on after the last whole line."""
        self._mark = self.mark
        for file in (self._file, self._next):
            if file is not None:
                file.close()
        self._file = self._next = None

    def _look(self) -> bool:
        """Open what is at the path now; return whether there is anything."""
        try:
            descriptor = os.open(self.path, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if self._file is None:
            self._file = _File(descriptor, self._mark)
        elif self._file.is_same(descriptor):
            self._file.reopen(descriptor)
        else:
            if self._next is not None:
                self._next.close()
            self._next = _File(descriptor)
        return True

    def _lines(self, most: int) -> Iterator[tuple[int, bytes]]:
        if self._file is None:
            return
        try:
            yield from self._file.read(most)
        except OSError:
            # Of a file in whose place there is another one, the server of a network file system may know nothing more.
            if self._next is None:
                raise
        # While the new file is empty its writer may not know yet that the old one was renamed.
        if self._next is not None and not self._file.behind and self._next.size:
            self._file.close()
            self._file, self._next = self._next, None
            yield from self._file.read(most)


class _File:
    """One open file, how far it was read (`_at`), and where its last whole line ended (`mark`)."""

    __slots__ = ("_at", "_descriptor", "_proof", "_splitter", "behind", "inode", "mark")

    def __init__(self, descriptor: int, mark: Mark | None = None) -> None:
        self._descriptor = descriptor
        self.inode = _inode(descriptor)
        self.behind = False
        fits = mark is not None and mark.inode == self.inode[1]
        self.mark = mark if fits and mark is not None else Mark(self.inode[1], 0)
        self._go_on(self.mark.offset)

    @property
    def size(self) -> int:
        """How large it is now."""
        return os.fstat(self._descriptor).st_size

    def is_same(self, descriptor: int) -> bool:
        """Whether another descriptor is of this file."""
        return _inode(descriptor) == self.inode

    def reopen(self, descriptor: int) -> None:
        """Go on with a fresh descriptor of the same file."""
        self.close()
        self._descriptor = descriptor

    def read(self, most: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that ended since the last time; of a file written anew, from its first one."""
        if not self._holds(self._at, self._proof):
            # Perhaps only an unfinished line was taken back.
            self._go_on(self.mark.offset if self._holds(self.mark.offset, self.mark.proof) else 0)
        left = most
        try:
            while left > 0 and (chunk := os.pread(self._descriptor, _BLOCK, self._at)):
                self._at += len(chunk)
                left -= len(chunk)
                yield from self._splitter.places(chunk)
        finally:
            self.behind = left <= 0
            self._remember()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def _go_on(self, offset: int) -> None:
        self._at = offset
        self._proof: int | None = self.mark.proof if offset else None
        self._splitter = Splitter(offset)

    def _remember(self) -> None:
        offset = self._splitter.offset
        self._proof = _proof(self._descriptor, self._at)
        proof = self._proof if offset == self._at else _proof(self._descriptor, offset)
        self.mark = Mark(self.inode[1], offset, proof)

    def _holds(self, offset: int, proof: int | None) -> bool:
        """Whether the file still has what it had before an offset."""
        return self.size >= offset and (proof is None or _proof(self._descriptor, offset) == proof)


def _inode(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _proof(descriptor: int, offset: int) -> int:
    """Return a checksum of the first bytes of a file and of those before an offset."""
    begin = max(0, offset - _END)
    head = os.pread(descriptor, min(_HEAD, offset), 0)
    return zlib.crc32(os.pread(descriptor, offset - begin, begin), zlib.crc32(head))


# From the end


def last_time(
    path: str, predicate: Callable[[bytes], Told | None], needle: bytes = b"", end: int | None = None
) -> Told | None:
    """Return what `predicate` tells of the newest line of which it tells anything; None when there is no such line.

    It gets whole lines without their line break, newest first, and of those only the ones that hold `needle`: a few
    characters that no wanted line lacks, the longer the faster. Lines over 8 MiB are passed over, and all that stands
    behind `end`. Raises OSError.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        return _newest(_Backward(descriptor, end), predicate, needle)
    finally:
        os.close(descriptor)


def _newest(file: "_Backward", predicate: Callable[[bytes], Told | None], needle: bytes) -> Told | None:
    end = file.before(b"\n", file.size) + 1  # what comes behind the last line break is no record yet
    while end > 0:
        hit = file.before(needle, end) if needle else end - 1
        if hit < 0:
            return None
        begin = file.before(b"\n", hit) + 1
        stop = file.behind(b"\n", hit, end)
        if stop - begin <= _LONGEST:
            told = predicate(os.pread(file.descriptor, stop - begin, begin))
            if told is not None:
                return told
        end = begin
    return None


class _Backward:
    """Searches an open file from an offset towards its beginning, in blocks of one buffer."""

    def __init__(self, descriptor: int, end: int | None = None) -> None:
        self.descriptor = descriptor
        size = os.fstat(descriptor).st_size
        self.size = size if end is None else min(size, end)
        self._buffer = bytearray(_FIRST_BLOCK)

    def before(self, wanted: bytes, end: int) -> int:
        """Return where `wanted` begins last, lying whole before `end`; -1: nowhere."""
        size = _FIRST_BLOCK
        while end >= len(wanted):
            begin = max(0, end - size)
            length = self._read(begin, end)
            # Searching forward is faster, and mostly it is not there.
            if memmem(self._buffer, length, wanted) >= 0:
                return begin + self._buffer.rfind(wanted, 0, length)
            # It may lie across the border of two blocks.
            end = begin + len(wanted) - 1 if begin else 0
            size = min(2 * size, _BLOCK)
        return -1

    def behind(self, wanted: bytes, begin: int, end: int) -> int:
        """Return where one character comes first from `begin` on; `end` if not before it."""
        size = _FIRST_BLOCK
        while begin < end:
            length = self._read(begin, min(begin + size, end))
            found = self._buffer.find(wanted, 0, length)
            if found >= 0:
                return begin + found
            if not length:
                break  # cut short meanwhile
            begin += length
            size = min(2 * size, _BLOCK)
        return end

    def _read(self, begin: int, end: int) -> int:
        if len(self._buffer) < end - begin:
            self._buffer = bytearray(_BLOCK)
        return os.preadv(self.descriptor, [memoryview(self._buffer)[: end - begin]], begin)
