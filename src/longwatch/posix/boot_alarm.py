"""An alarm on the clock that counts sleep: it rings as soon as the machine wakes up, however late that is.

The timeouts of epoll and its like stand still while a laptop sleeps. Who must be the first to act after that needs
timerfd(2), which Python wraps from 3.13 on only.
"""

import os
import struct
import time

from longwatch.posix.libc import _find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.reactor import Reactor

_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_create, _settime = _find("timerfd_create"), _find("timerfd_settime")


class BootAlarm:
    """Calls back when an instant has come, once for each time that it is set. Where there is none it never rings."""

    def __init__(self, reactor: "Reactor", ring: "Callable[[], object]") -> None:
        self._reactor = reactor
        self._ring = ring
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        self._fd = -1
        if _create is not None and _settime is not None and clock is not None:
            self._fd = int(_create(clock, os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd >= 0:
            reactor.add(self._fd, self._rung)

    def set(self, instant: int) -> None:
        """Have it ring at an instant (ms of CLOCK_BOOTTIME), and not at an earlier one that it was set to."""
        if self._fd >= 0:
            assert _settime is not None
            seconds, rest = divmod(max(instant, 1), 1000)
            _settime(self._fd, _ABSOLUTE, struct.pack("4q", 0, 0, seconds, rest * 1_000_000), None)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            self._reactor.remove(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _rung(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._ring()
