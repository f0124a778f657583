"""What one process waits for, in words that follow its name: `reads a pipe from 2313 `yes``.

The kernel says in which system call each thread sits and with which arguments. Where it may not tell (another
user's process, a hardened kernel) the name of the kernel's wait function is what remains.
"""

import os
import struct

from longwatch.core.record import Plain
from longwatch.posix.descriptors import (
    CONNECTING,
    ESTABLISHED,
    Descriptors,
    descriptors,
    is_terminal,
    link,
)
from longwatch.posix.identity import ProcessInfo, process, read

#: Kinds of waits. Those of STRONG explain a silence by themselves; the others are also how idle servers look.
STOPPED, INPUT, STDIN, PIPE, TCP, LOCK, DISK, SLEEPS, RUNS = (
    "stopped", "input", "stdin", "pipe", "tcp", "lock", "disk", "sleeps", "runs",
)  # fmt: skip
CHILD, EVENTS, SOCKET, INSIDE, SIGNAL, ENDED, OTHER = (
    "child", "events", "socket", "inside", "signal", "ended", "other",
)  # fmt: skip
STRONG = (STOPPED, INPUT, STDIN, PIPE, TCP, LOCK, DISK, SLEEPS, RUNS)

# System calls that block, and their numbers on x86-64 and on 64-bit ARM (None: it has no such call).
_CALLS = {
    "read": (0, 63), "readv": (19, 65), "recvfrom": (45, 207), "recvmsg": (47, 212), "splice": (275, 76),
    "write": (1, 64), "writev": (20, 66), "sendto": (44, 206), "sendmsg": (46, 211),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441),
    "futex": (202, 98), "futex_waitv": (449, 449), "wait4": (61, 260), "waitid": (247, 95),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "flock": (73, 32), "fcntl": (72, 25),
    "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "open": (2, None), "openat": (257, 56),
    "pause": (34, None), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
}  # fmt: skip
_READS = ("read", "readv", "recvfrom", "recvmsg", "splice")
_WRITES = ("write", "writev", "sendto", "sendmsg")
_SIMPLE = {
    "nanosleep": (SLEEPS, "sleeps"),
    "clock_nanosleep": (SLEEPS, "sleeps"),
    "futex": (INSIDE, "waits for a lock inside the process"),
    "futex_waitv": (INSIDE, "waits for a lock inside the process"),
    "accept": (SOCKET, "waits for connections"),
    "accept4": (SOCKET, "waits for connections"),
    "pause": (SIGNAL, "waits for a signal"),
    "rt_sigsuspend": (SIGNAL, "waits for a signal"),
    "rt_sigtimedwait": (SIGNAL, "waits for a signal"),
}
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
_NAMES = {numbers[_COLUMN]: name for name, numbers in _CALLS.items()} if _COLUMN is not None else {}

# The wait functions of the kernel, by a part of their names.
_CHANNELS = (
    ("signal_stop", STOPPED, "is stopped (SIGSTOP)"),
    ("nanosleep", SLEEPS, "sleeps"),
    ("pipe_read", PIPE, "reads a pipe"),
    ("pipe_write", PIPE, "writes to a full pipe"),
    ("wait_for_partner", PIPE, "opens a named pipe whose other end nobody opens"),
    ("n_tty_read", INPUT, "waits for input from the terminal (input wait)"),
    ("lock_inode_wait", LOCK, "waits for a file lock"),
    ("fcntl_setlk", LOCK, "waits for a file lock"),
    ("do_wait", CHILD, "waits for its child"),
    ("kernel_clone", CHILD, "waits for the child it is starting"),
    ("futex", INSIDE, "waits for a lock inside the process"),
    ("ep_poll", EVENTS, "waits for events"),
    ("poll_schedule", EVENTS, "waits for events"),
    ("skb_wait", SOCKET, "waits for data on a socket"),
    ("unix_stream_read", SOCKET, "waits for data on a Unix socket"),
    ("sk_wait", SOCKET, "waits for data on a socket"),
    ("sigsuspend", SIGNAL, "waits for a signal"),
    ("sigtimedwait", SIGNAL, "waits for a signal"),
)

#: More threads, or more descriptors in one wait, are not looked at.
MOST_THREADS = 64
MOST_WAITED = 64
_SETLKW = (7, 38)  # F_SETLKW and F_OFD_SETLKW


class Wait(Plain):
    """What one process waits for: a kind, words that follow its name, and the processes of the run it waits for."""

    __slots__ = ("kind", "peers", "text")

    def __init__(self, kind: str, text: str, peers: list[int] | None = None) -> None:
        self.kind = kind
        self.text = text
        self.peers = peers or []


class Waits:
    """Says of each of some processes what it waits for; they know each other as peers."""

    def __init__(self, infos: list[ProcessInfo]) -> None:
        self._infos = {info.pid: info for info in infos}
        self._open = Descriptors(list(self._infos))

    def of(self, info: ProcessInfo) -> Wait:
        """Return what a process waits for. Of many threads the first one counts, unless another tells more."""
        if info.state in "Tt":
            text = "is stopped (SIGSTOP)" if info.state == "T" else "is stopped by a debugger"
            return Wait(STOPPED, text)
        if not info.alive:
            return Wait(ENDED, "has ended and is not yet reaped")
        wait = self._thread(info, info.pid)
        if info.threads > 1 and wait.kind not in STRONG:
            others = (self._thread(info, thread) for thread in _threads(info.pid))
            return next((other for other in others if other.kind in STRONG), wait)
        return wait

    def _thread(self, info: ProcessInfo, thread: int) -> Wait:
        folder = f"/proc/{info.pid}/task/{thread}"
        own = info if thread == info.pid else process(thread) or info
        if own.state == "R":
            return Wait(RUNS, f"runs and burns CPU ({own.cpu // os.sysconf('SC_CLK_TCK')} s so far)")
        channel = (read(f"{folder}/wchan") or b"").decode()
        known = next(((kind, text) for part, kind, text in _CHANNELS if part in channel), None)
        field = (read(f"{folder}/syscall") or b"").split()
        name = _NAMES.get(int(field[0])) if len(field) > 6 else None
        if name is not None:
            wait = self._call(info.pid, name, [int(argument, 16) for argument in field[1:7]], channel)
            if wait is not None:
                return wait
        if known is not None:
            return Wait(*known)
        if own.state == "D":
            return Wait(DISK, f"is stuck in the kernel ({channel or 'unknown'}), where no signal reaches it")
        if not field and channel in ("", "0"):
            return Wait(OTHER, "may not be looked at")
        where = name or (channel if channel not in ("", "0") else "")
        return Wait(OTHER, f"waits in {where}" if where else "waits")

    def _call(self, pid: int, name: str, args: list[int], channel: str) -> Wait | None:
        """Say what a system call with these arguments waits for; None where the wait channel says it better."""
        fd = args[0] & 0xFFFFFFFF
        if name in _SIMPLE:
            return Wait(*_SIMPLE[name])
        if name in _READS or name in _WRITES:
            return self._reading(pid, fd, channel) if name in _READS else self._writing(pid, fd)
        if name in ("wait4", "waitid"):
            return self._child(pid)
        if name == "connect":
            return self._socket(pid, link(pid, fd))
        if name == "flock" or (name == "fcntl" and args[1] in _SETLKW):
            return self._lock(pid, fd)
        waited = self._waited(pid, name, args)
        return None if waited is None else self._events(pid, waited)

    def _reading(self, pid: int, fd: int, channel: str = "") -> Wait | None:
        name = link(pid, fd)
        if is_terminal(name):
            return Wait(INPUT, "waits for input from the terminal (input wait)")
        if name.startswith("socket:"):
            return self._socket(pid, name)
        if name.startswith("pipe:") or (name and "pipe" in channel):
            return self._pipe(pid, fd, name)
        return None

    def _pipe(self, pid: int, fd: int, name: str) -> Wait:
        writers = self._likeliest(pid, self._open.others(name, pid, writing=True))
        if writers:
            return Wait(PIPE, f"reads a pipe from {self._name(writers[0])}", writers)
        if self._open.holds(name, pid, writing=True):
            return Wait(INSIDE, "reads a pipe that only it can write to")
        if fd == 0:
            return Wait(STDIN, "is reading stdin, which nobody closes")
        return Wait(PIPE, "reads a pipe whose writer is outside the run")

    def _writing(self, pid: int, fd: int) -> Wait | None:
        name = link(pid, fd)
        if is_terminal(name):
            return Wait(OTHER, "writes to the terminal, which takes nothing")
        if name.startswith("socket:"):
            peer = self._open.connection(pid, name)
            return Wait(TCP, f"sends to {peer.remote}, which takes nothing") if peer else None
        if not name.startswith("pipe:"):
            return None
        readers = self._likeliest(pid, self._open.others(name, pid, writing=False))
        if readers:
            return Wait(PIPE, f"writes to a full pipe that {self._name(readers[0])} does not read", readers)
        return Wait(PIPE, "writes to a full pipe whose reader is outside the run")

    def _socket(self, pid: int, name: str) -> Wait:
        peer = self._open.connection(pid, name)
        if peer is None:
            return Wait(SOCKET, "waits for data on a socket")
        if peer.state == CONNECTING:
            return Wait(TCP, f"connects to {peer.remote}, which does not answer")
        return Wait(TCP, f"waits for data from {peer.remote} (TCP)")

    def _lock(self, pid: int, fd: int) -> Wait:
        name = link(pid, fd)
        text = f"waits for the lock on {name}" if name else "waits for a file lock"
        holder = self._open.holder(pid, name)
        if holder is None:
            return Wait(LOCK, text)
        return Wait(LOCK, f"{text} held by {self._name(holder)}", [holder] if holder in self._infos else [])

    def _child(self, pid: int) -> Wait:
        children = [info.pid for info in self._infos.values() if info.ppid == pid and info.alive]
        if not children:
            return Wait(CHILD, "waits for a child")
        return Wait(CHILD, f"waits for its child {self._name(children[-1])}", children)

    def _waited(self, pid: int, name: str, args: list[int]) -> list[int] | None:
        """Return the descriptors that a call waits for events on; None for another call or where that is hidden."""
        if name.startswith("epoll"):
            lines = (read(f"/proc/{pid}/fdinfo/{args[0]}") or b"").splitlines()
            return [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")][:MOST_WAITED]
        if name in ("poll", "ppoll"):
            count = min(args[1], MOST_WAITED)
            array = _memory(pid, args[0], 8 * count)
            entries = struct.iter_unpack("ihh", array[: len(array) // 8 * 8])
            return [fd for fd, events, _ in entries if fd >= 0 and events]
        if name in ("select", "pselect6"):
            bits = _memory(pid, args[1], (args[0] + 7) // 8) if args[1] else b""
            return [fd for fd in range(min(args[0], 8 * len(bits))) if bits[fd // 8] >> fd % 8 & 1]
        return None

    def _events(self, pid: int, waited: list[int]) -> Wait | None:
        if len(waited) == 1 and (single := self._reading(pid, waited[0])) is not None:
            return single
        names = [link(pid, fd) for fd in waited or descriptors(pid)]
        peers = [self._open.connection(pid, name) for name in names if name.startswith("socket:")]
        live = [peer.remote for peer in peers if peer is not None and peer.state == ESTABLISHED]
        if len(live) == 1:
            return Wait(TCP, f"waits for data from {live[0]} (TCP)")
        if not waited:
            return Wait(EVENTS, "waits for events")
        also = ", the terminal among them" if any(is_terminal(name) for name in names) else ""
        return Wait(EVENTS, f"waits for events on {len(waited)} descriptors{also}")

    def _likeliest(self, pid: int, others: list[int]) -> list[int]:
        """Order the holders of a pipe's other end: the stopped, then the youngest; forebears may just have kept it."""
        forebears = []
        info = self._infos.get(pid)
        while info is not None and info.pid not in forebears:
            forebears.append(info.pid)
            info = self._infos.get(info.ppid)
        known = [self._infos[other] for other in others]
        known.sort(
            key=lambda other: (other.state not in "Tt", other.pid in forebears, -other.start, -other.pid)
        )
        return [other.pid for other in known]

    def _name(self, pid: int) -> str:
        info = self._infos.get(pid) or process(pid)
        return f"{pid} `{info.comm}`" if info is not None else str(pid)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")[:MOST_THREADS] if int(name) != pid]
    except OSError:
        return []


def _memory(pid: int, address: int, size: int) -> bytes:
    """Read some bytes of a process's memory; empty where that is not allowed."""
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = os.pread(fd, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(fd)
    return data
