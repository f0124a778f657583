"""The five calls of `select.epoll` that the reactor uses, over kqueue. Loaded only where there is no epoll."""

import select

EPOLLIN, EPOLLOUT = 1, 4
_FILTERS = {EPOLLIN: -1, EPOLLOUT: -2}  # EVFILT_READ, EVFILT_WRITE
_ADD, _DELETE = 1, 2  # EV_ADD, EV_DELETE


class Poller:
    """A kqueue that is called like an epoll object: seconds in, pairs of descriptor and mask out."""

    __slots__ = ("_events", "_queue")

    def __init__(self) -> None:
        self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        self._events: dict[int, int] = {}

    def fileno(self) -> int:
        """Return the queue's own descriptor."""
        return int(self._queue.fileno())

    def register(self, fd: int, mask: int) -> None:
        """Watch one direction of a descriptor."""
        self._change(fd, mask, _ADD)
        self._events[fd] = mask

    def modify(self, fd: int, mask: int) -> None:
        """Watch the other direction instead."""
        self.unregister(fd)
        self.register(fd, mask)

    def unregister(self, fd: int) -> None:
        """Stop watching."""
        self._change(fd, self._events.pop(fd), _DELETE)

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        """Wait for `timeout` seconds at most (-1: for ever) and return what is ready."""
        ready = self._queue.control(None, most, None if timeout < 0 else timeout)
        return [(event.ident, 0) for event in ready]

    def close(self) -> None:
        """Close the queue."""
        self._queue.close()

    def _change(self, fd: int, mask: int, flags: int) -> None:
        self._queue.control([select.kevent(fd, _FILTERS[mask], flags)], 0)  # type: ignore[attr-defined,unused-ignore]
