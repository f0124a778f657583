"""Who a process is: pid, start time and boot id.

A pid alone names a stranger sooner or later: numbers are handed out again, and a file may outlive a reboot. Start
times are clock ticks since boot and never change, so the three together name one process for good.
"""

import os
import sys

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # what `signal` wraps, without its enums
if sys.platform != "linux":
    from longwatch.posix import portable

SENT, GONE, REFUSED = "sent", "gone", "refused"
#: Of a stat line the field of the start time, counted from behind the name.
START = 19

_boot: list[str] = []


class ProcessInfo(Plain):
    """One process as the table shows it.

    `state` is the kernel's letter, `start` and `cpu` (user and system time together) are clock ticks, `tty` is the
    device number of its terminal (0: none).
    """

    __slots__ = ("comm", "cpu", "pgid", "pid", "ppid", "sid", "start", "state", "threads", "tty")

    def __init__(
        self, pid: int, ppid: int, pgid: int, sid: int, state: str, start: int, comm: str,
        threads: int = 1, cpu: int = 0, tty: int = 0,
    ) -> None:  # fmt: skip
        self.pid = pid
        self.ppid = ppid
        self.pgid = pgid
        self.sid = sid
        self.state = state
        self.start = start
        self.comm = comm
        self.threads = threads
        self.cpu = cpu
        self.tty = tty

    @property
    def alive(self) -> bool:
        """False for a zombie. A process whose first thread has ended looks like one but has other threads."""
        return self.state not in "ZXx" or self.threads > 1

    @property
    def identity(self) -> "Identity":
        """What stays true of this process."""
        return Identity(self.pid, self.start, boot_id())

    @property
    def label(self) -> str:
        """How a report names it: `2314 sort`."""
        return f"{self.pid} {self.comm}"


class Identity(Plain):
    """One process for good. `start` is in clock ticks since the boot that `boot` names."""

    __slots__ = ("boot", "pid", "start")

    def __init__(self, pid: int, start: int, boot: str) -> None:
        self.pid = pid
        self.start = start
        self.boot = boot

    def current(self) -> ProcessInfo | None:
        """Return what the table says of this very process (a zombie too); None once the pid is free or another's."""
        found = process(self.pid)
        return found if found is not None and found.start == self.start and self.boot == boot_id() else None

    def alive(self) -> bool:
        """Return whether it still runs: not gone, not a zombie, not another process with its pid."""
        found = self.current()
        return found is not None and found.alive


def boot_id() -> str:
    """Return the kernel's name for this boot; empty where it has none."""
    if not _boot:
        _boot.append((read("/proc/sys/kernel/random/boot_id") or b"").decode().strip())
    return _boot[0]


def read(path: str, size: int = 4096, limit: int = 1 << 20) -> bytes | None:
    """Return a /proc file's content up to about `limit` bytes; None when it is gone or not ours to read.

    Raises OSError for what says nothing about the process, such as no descriptor left: a tree that could not be
    looked at must not pass for one that is gone.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        data = chunk = os.read(fd, size)
        # A list is given out in whole entries: only an empty answer says that it is over.
        while chunk and len(data) < limit:
            chunk = os.read(fd, 65536)
            data += chunk
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # gone since it was opened: a process, or the descriptor that an `fdinfo` is about
    finally:
        os.close(fd)
    return data


def read_stat(pid: int) -> bytes | None:
    """Return the raw line of one process. All knowledge of start times comes through here; tests put a fake in."""
    return read(f"/proc/{pid}/stat", limit=1)


def shown(pid: int) -> bool:
    """Return whether the kernel shows us all of a process's line: ours is, another user's only to root."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return False
    return os.geteuid() in (0, owner)


def ignores(pid: int, signum: int) -> bool:
    """Return whether a process ignores a signal; False when nobody can tell."""
    _, found, rest = (read(f"/proc/{pid}/status") or b"").partition(b"\nSigIgn:\t")
    return bool(found) and bool(int(rest.partition(b"\n")[0], 16) >> (signum - 1) & 1)


def process(pid: int) -> ProcessInfo | None:
    """Return one process, zombies included; None when there is none with this pid."""
    if sys.platform != "linux":
        return portable.process(pid)
    raw = read_stat(pid)
    return parse_stat(raw) if raw else None


def parse_stat(raw: bytes) -> ProcessInfo:
    """Parse a stat line. A program may call itself `a) R 1 (b`: only the last parenthesis ends its name."""
    head, _, rest = raw.rpartition(b") ")
    pid, _, comm = head.partition(b" (")
    field = rest.split(None, START + 1)
    return ProcessInfo(
        int(pid), int(field[1]), int(field[2]), int(field[3]), field[0].decode(), int(field[START]),
        comm.decode(errors="replace"), int(field[17]), int(field[11]) + int(field[12]), int(field[4]),
    )  # fmt: skip


def identity(pid: int) -> Identity | None:
    """Return the identity of the process that has this pid now; None when there is none."""
    found = process(pid)
    return found.identity if found is not None else None


def cmdline(pid: int) -> list[str]:
    """Return a process's arguments; empty for a zombie, a kernel thread, or one that is not ours to read."""
    if sys.platform != "linux":
        return portable.cmdline(pid)
    raw = read(f"/proc/{pid}/cmdline") or b""
    return [os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")] if raw else []


def signal_verified(who: Identity, signum: int) -> str:
    """Send a signal to exactly this process: `sent`, `gone` (also a zombie), or `refused` (another user's).

    The pidfd is opened first and the identity read after: from then on the descriptor can only mean the process
    that was just recognised, whatever becomes of its number. Without pidfds the check comes right before the kill.
    """
    try:
        fd = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return GONE
    except (OSError, AttributeError):
        return kill_checked(who, signum)
    try:
        if not who.alive():
            return GONE
        _signal.pidfd_send_signal(fd, signum)
    except ProcessLookupError:
        return GONE
    except PermissionError:
        return REFUSED
    finally:
        os.close(fd)
    return SENT


def kill_checked(who: Identity, signum: int) -> str:
    """Send a signal by pid right after the identity was read: what is left where pidfds are missing or spent."""
    if not who.alive():
        return GONE
    try:
        os.kill(who.pid, signum)
    except ProcessLookupError:
        return GONE
    except PermissionError:
        return REFUSED
    return SENT
