"""A log file read as it grows: over rotations, by us or by others, each byte once.

What took the file's place is begun when it holds something: until then whoever writes may still write to the old one.
Files that were rotated away between two looks are read in between. A file that was cut short, or written anew, is
read from its beginning.
"""

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from longwatch.observe.alarm import Alarm

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_BLOCK = 64 * 1024
#: So many bytes before the place where we stopped tell whether the file is still the same.
_PROOF = 64
#: More older files than these no log has.
_MOST = 1000
#: How often (ms) a followed file is looked at: a reader's eye is not faster. Where we are woken, only to be sure.
LOOK, SURE = 200, 2_000


class Follower:
    """Reads one file; there need not be one yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: Why there is none, if there is none.
        self.error: OSError | None = None
        self._fd = -1
        self._at = self._written = 0
        self._proof = b""
        self._before: set[tuple[int, int]] = set()
        try:
            self._take(os.open(path, _FLAGS))
        except OSError as error:
            self.error = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def offset(self) -> int:
        """Up to where the newest file was read."""
        return self._at

    def last_lines(self, lines: int, *, older: bool = True) -> Iterator[bytes]:
        """Yield the last lines that are there, also those in older files; `read` goes on behind them."""
        before = _older(self.path, self._fd) if older else []
        files = [*reversed(before), *([self._fd] if self._fd >= 0 else [])]
        places = []
        for fd in reversed(files):
            begin, found = begin_of_last(fd, lines)
            places.append((fd, begin))
            lines -= found
            if lines <= 0:
                break
        try:
            for fd, begin in reversed(places):
                if fd == self._fd:
                    self._at = begin
                    yield from self.read()
                else:
                    yield from _all(fd, begin)
        finally:
            for fd in before:
                os.close(fd)

    def everything(self) -> Iterator[bytes]:
        """Yield all that is there, in older files too; `read` goes on behind it."""
        older = _older(self.path, self._fd)
        try:
            for fd in reversed(older):
                yield from _all(fd, 0)
        finally:
            for fd in older:
                os.close(fd)
        yield from self.read()

    def read(self) -> Iterator[bytes]:
        """Yield what is new. Never waits."""
        while True:
            following = self._following()
            if self._fd >= 0:
                yield from self._rest()
            if following < 0:
                return
            self.close()
            self._take(following)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _rest(self) -> Iterator[bytes]:
        found = os.fstat(self._fd)
        written, self._written = self._written, found.st_mtime_ns
        if written != found.st_mtime_ns and not self._is_same(found.st_size):
            self._at, self._proof = 0, b""
        while chunk := os.pread(self._fd, _BLOCK, self._at):
            self._at += len(chunk)
            self._proof = (self._proof + chunk)[-_PROOF:]
            yield chunk

    def _is_same(self, size: int) -> bool:
        known = len(self._proof)
        return size >= self._at and os.pread(self._fd, known, self._at - known) == self._proof

    def _following(self) -> int:
        """Return a descriptor of the file that came after ours; -1 while there is none."""
        try:
            found = os.open(self.path, _FLAGS)
        except OSError:
            return -1
        if self._fd < 0:
            return found
        if _same(found, self._fd):
            os.close(found)
            return -1
        written = os.fstat(self._fd).st_mtime_ns
        files = [found, *_older(self.path, found, until=self._fd)]
        while len(files) > 1 and self._ended_before(files[-1], written):
            os.close(files.pop())
        if len(files) == 1 and not os.fstat(found).st_size:
            os.close(found)
            return -1
        for fd in files[:-1]:
            os.close(fd)
        return files[-1]

    def _ended_before(self, fd: int, written: int) -> bool:
        """Whether an older file is older than ours, which then was removed and not rotated."""
        found = os.fstat(fd)
        known = (found.st_dev, found.st_ino) in self._before
        return found.st_mtime_ns < written or (known and found.st_mtime_ns == written)

    def _take(self, fd: int) -> None:
        """Begin with a file, and note which ones came before it."""
        self._fd, self._at, self._proof, self._written = fd, 0, b"", 0
        older = _older(self.path, fd)
        self._before = {(found.st_dev, found.st_ino) for found in map(os.fstat, older)}
        for other in older:
            os.close(other)


def begin_of_last(fd: int, lines: int) -> tuple[int, int]:
    """Return where the last lines of a file begin, reading it from its end, and how many of them it has."""
    begin = os.fstat(fd).st_size
    data = b""
    while begin > 0 and data[:-1].count(b"\n") < lines:
        step = min(_BLOCK, begin)
        begin -= step
        data = os.pread(fd, step, begin) + data
    at = begin_in(data, lines)
    return begin + at, data.count(b"\n", at) + (not data.endswith(b"\n") and bool(data[at:]))


def begin_in(data: bytes, lines: int) -> int:
    """Return where the last lines begin; the line break at the very end closes one, it begins none."""
    at = len(data) if lines == 0 else len(data) - 1
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1 if lines else at


class Waker:
    """Waits until one of some files may have changed, or a descriptor can be read."""

    def __init__(self, *paths: str) -> None:
        self._poll = select.poll()
        self._alarm = _alarm()
        watched = [self._alarm.watch(path) for path in paths] if self._alarm is not None else [False]
        self._pause = SURE if all(watched) else LOOK
        if self._alarm is not None:
            self._poll.register(self._alarm.fileno(), select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._alarm is not None:
            self._alarm.close()

    def add(self, fd: int) -> None:
        """Wake for this descriptor, too."""
        self._poll.register(fd, select.POLLIN)

    def drop(self, fd: int) -> None:
        """Do not wake for this descriptor until it is added again."""
        with suppress(KeyError):
            self._poll.unregister(fd)

    def wait(self, most: int | None = None) -> set[int]:
        """Wait, `most` ms if that is less than usual; return which of the added descriptors can be read."""
        pause = self._pause if most is None else min(most, self._pause)
        ready = {fd for fd, _ in self._poll.poll(pause)}
        if self._alarm is not None and self._alarm.fileno() in ready:
            ready.discard(self._alarm.fileno())
            self._alarm.changed()
        return ready


def _alarm() -> "Alarm | None":
    try:
        from longwatch.observe.alarm import Alarm  # noqa: PLC0415 - an extra, and slow to load

        return Alarm()
    except (ImportError, OSError):
        return None


def _older(path: str, newest: int, until: int = -1) -> list[int]:
    """Return descriptors of PATH.1, PATH.2 ..., newest first, up to the file `until`; none twice."""
    found: list[int] = []
    for number in range(1, _MOST):
        try:
            fd = os.open(f"{path}.{number}", _FLAGS)
        except OSError:
            break
        if until >= 0 and _same(fd, until):
            os.close(fd)
            break
        # Rotated while we looked, a file may be met again.
        if any(_same(fd, other) for other in (*found, newest) if other >= 0):
            os.close(fd)
        else:
            found.append(fd)
    return found


def _all(fd: int, at: int) -> Iterator[bytes]:
    while chunk := os.pread(fd, _BLOCK, at):
        at += len(chunk)
        yield chunk


def _same(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))
