"""The service manager's side channel: we are ready, this is what we do, and we are still alive.

The packages that speak it keep the address in the environment, where a child would find it and feed our watchdog
(and `WATCHDOG_PID` only tells a careful one), wait when the manager does not read, raise when it is gone, and load
a dozen modules. What is needed is one datagram.
"""

import os
from _socket import AF_UNIX, SOCK_DGRAM, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

ADDRESS, INTERVAL, PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
#: A status line longer than this is cut off by everybody who shows it.
LONGEST_STATUS = 200


class Systemd:
    """Tells the service manager how we are. Without one every call does nothing; none ever blocks or raises.

    `interval_ms` is how often `tick` has to be called at least: half of `WatchdogSec`, None without a watchdog.
    """

    def __init__(self, address: str = "", interval_ms: int | None = None) -> None:
        self._socket: socket | None = None
        self._address: str | bytes = "\0" + address[1:] if address.startswith("@") else address
        self.interval_ms = interval_ms if address else None
        self._next = 0
        self._said = ""
        if address:
            self._socket = socket(AF_UNIX, SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def taken(cls, environ: "MutableMapping[str, str]") -> "Systemd":
        """Read the manager's variables and take them out of the environment, so that no child can speak for us."""
        address, interval, pid = (environ.pop(name, "") for name in (ADDRESS, INTERVAL, PID))
        if len(address) < 2 or address[0] not in "/@":
            address = ""  # vsock and whatever comes after it are for machines, not for us
        meant = pid in ("", str(os.getpid()))
        usec = int(interval) if interval.isdecimal() else 0
        return cls(address, max(1, usec // 2000) if meant and usec else None)

    def ready(self, status: str = "") -> None:
        """We have started, or have read the file again."""
        self._say("READY=1", status)

    def status(self, text: str) -> None:
        """What `systemctl status` shows. The same text again is not sent again."""
        if text != self._said:
            self._say("", text)

    def reloading(self, now_usec: int) -> None:
        """We are reading the file again; `ready` ends that. `now_usec` is of the monotonic clock."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={now_usec}")

    def stopping(self, status: str = "") -> None:
        """We are on the way out."""
        self._say("STOPPING=1", status)

    def tick(self, now: int) -> None:
        """Tell the watchdog that the loop still turns; extra calls are free. Called by the loop itself, no thread."""
        if self.interval_ms is not None and now >= self._next:
            self._next = now + self.interval_ms
            self._say("WATCHDOG=1")

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _say(self, state: str, status: str = "") -> None:
        if self._socket is None:
            return
        if status:
            self._said = status
            words = "".join(c if c.isprintable() else " " for c in status)[:LONGEST_STATUS]
            state = f"{state}\nSTATUS={words}" if state else f"STATUS={words}"
        try:
            self._socket.sendto(state.encode("utf-8", "replace"), self._address)
        except OSError:
            pass  # a manager that does not read, or is gone, is nothing that we could help
