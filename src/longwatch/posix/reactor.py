"""One loop: descriptors that are ready, and one deadline. Never a global.

Linux has epoll. Where there is none `posix.kqueue` gives the same five calls over kqueue.
"""

import os
import select
import time

from longwatch.posix import CLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
else:
    pass  # what `signal` wraps, without its enums

if TYPE_CHECKING or hasattr(select, "epoll"):
    from select import EPOLLIN, EPOLLOUT
    from select import epoll as Poller  # noqa: N812 - the class that kqueue's stand-in has to be, too
else:  # pragma: no cover - macOS
    from longwatch.posix.kqueue import EPOLLIN, EPOLLOUT, Poller

_MS = 1_000_000
#: So many descriptors are served in one turn at most, where nobody says otherwise.
BATCH = 256
# select(2) knows no descriptor above this.
_SELECTABLE = 1024


class Reactor:
    """Waits for descriptors and runs their callbacks, in one thread and in the process that made it.

    A descriptor has one callback and one direction. It has to be removed before it is closed. After a fork the
    child must not use its parent's reactor: every call but `close` raises RuntimeError there, since epoll would
    change the parent's set.
    """

    __slots__ = ("_always", "_batch", "_callbacks", "_fd", "_pid", "_poller")

    def __init__(self, batch: int = BATCH) -> None:
        self._batch = batch
        self._poller = Poller()
        self._fd = self._poller.fileno()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._always: list[int] = []
        self._pid = os.getpid()

    def fileno(self) -> int:
        """Return a descriptor that is readable while a callback is due, for a host's own loop."""
        return self._fd

    def add(self, fd: int, callback: "Callable[[], object]", *, write: bool = False) -> None:
        """Call `callback` whenever `fd` can be read, or written with `write`; regular files always can.

        Ends and errors count as ready, as in epoll. Raises FileExistsError for a descriptor already added.
        """
        self._check()
        try:
            self._poller.register(fd, EPOLLOUT if write else EPOLLIN)
        except PermissionError:
            self._always.append(fd)
        self._callbacks[fd] = callback

    def modify(self, fd: int, *, write: bool) -> None:
        """Turn an added descriptor from reading to writing, or back."""
        self._check()
        if fd not in self._always:
            self._poller.modify(fd, EPOLLOUT if write else EPOLLIN)

    def remove(self, fd: int) -> None:
        """Forget `fd`. No error when it was never added, so that every way out may call it."""
        self._check()
        if self._callbacks.pop(fd, None) is None:
            return
        if fd in self._always:
            self._always.remove(fd)
        else:
            self._poller.unregister(fd)

    def poll(self, timeout_ms: int | None) -> bool:
        """Wait until something is ready or `timeout_ms` have passed on the clock of `now`; run what is ready.

        None waits for ever, 0 not at all. Returns whether a callback ran. Never returns early without one: after
        `poll(n)` `now()` has advanced by n at least.
        """
        self._check()
        if self._always:
            timeout_ms = 0
        ready = self._wait(timeout_ms)
        for fd in self._always[:]:
            ready.append((fd, 0))
        ran = False
        for fd, _ in ready:
            # An earlier callback of this round may have removed it.
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback()
                ran = True
        return ran

    def close(self) -> None:
        """Give the kernel's object back. What was added stays open; it is its owner's. Allowed after a fork."""
        self._callbacks.clear()
        self._always.clear()
        self._poller.close()

    def _wait(self, timeout_ms: int | None) -> list[tuple[int, int]]:
        if timeout_ms is None or timeout_ms <= 0:
            return self._poller.poll(-1 if timeout_ms is None else 0, self._batch)
        # epoll counts whole milliseconds, so it would sleep up to one too long: it gets the whole ones
        # and select(2), which counts microseconds, the rest.
        start = time.clock_gettime_ns(CLOCK)
        end = (start // _MS + timeout_ms) * _MS
        whole = (end - start) // _MS
        ready = self._poller.poll(_seconds(whole), self._batch)
        while not ready:
            rest = end - time.clock_gettime_ns(CLOCK)
            if rest <= 0:
                break
            if self._fd < _SELECTABLE:
                select.select((self._fd,), (), (), rest / 1e9)
                ready = self._poller.poll(0, self._batch)
            else:
                ready = self._poller.poll(_seconds(rest // _MS + 1), self._batch)
        return ready

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("this reactor belongs to the process that forked this one")


def _seconds(ms: int) -> float:
    """Return what a poller rounds up to exactly `ms`: 5 / 1000 as a float is a little more, and would give 6."""
    return (ms - 0.5) / 1000 if ms > 0 else 0
