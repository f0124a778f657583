"""What we hold of a started program: its pid, a pidfd, our ends of its pipes, and in the end how it ended."""

import errno
import os
import select
import sys

from longwatch.posix import libc, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.identity import Identity
    from longwatch.posix.nursery import Nursery

#: How a process ended: code and signal, one of them None; both None where nobody could read it.
End = tuple[int | None, int | None]
UNKNOWN: End = (None, None)

# _IOWR(0xFF, 11, struct pidfd_info); the 64 bytes of its first version begin with a mask and end with the status.
_PIDFD_GET_INFO = 0xC040FF0B
_INFO_SIZE, _INFO_MASK_SIZE, _INFO_STATUS_AT = 64, 8, 60
_INFO_EXIT = 8


class PipeBudget:
    """How many more pipes may be made to hold 1 MiB: agents in node lose what does not fit when they exit.

    Past 64 MiB of pipes in all, every new pipe of an unprivileged user holds 8 KiB. The kernel counts per user, and
    we cannot; so there is one budget for the process.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def enlarge(self, fd: int | None) -> int:
        """Enlarge a pipe while the budget lasts; return how many (0 or 1) to give back some day."""
        if fd is None or self.left <= 0 or not libc.set_pipe_size(fd, 1 << 20):
            return 0
        self.left -= 1
        return 1


large_pipes = PipeBudget(24)


class Child:
    """A started program. The leader stays a zombie after its end until `reap`, and so pins its process group.

    `stdout_fd`, `stderr_fd` and `master_fd` are our non-blocking ends (None: no such); each belongs to the pump
    built on it. `stdin_fd` is ours to write without blocking, and `pidfd` is readable once the leader has ended.
    """

    __slots__ = (
        "_end", "_identity", "_large", "_reaper", "master_fd", "pid", "pidfd", "started", "stderr_fd", "stdin_fd",
        "stdout_fd",
    )  # fmt: skip

    #: Who adopts its orphans, where that is neither us nor the system.
    nursery: "Nursery | None" = None

    def __init__(
        self, pid: int, started: int, stdout: int | None = None, stderr: int | None = None,
        stdin: int | None = None, master: int | None = None, reaper: "Callable[[], int | None] | None" = None,
    ) -> None:  # fmt: skip
        self.pid = pid
        self.pidfd = _open_pidfd(pid)
        self.stdin_fd = stdin
        self.stdout_fd = stdout
        self.stderr_fd = stderr
        self.master_fd = master
        self.started = started
        self._identity: Identity | None = None
        self._large = large_pipes.enlarge(stdout) + large_pipes.enlarge(stderr)
        self._reaper = reaper
        self._end: End | None = None

    @property
    def identity(self) -> "Identity | None":
        """Who the leader is; None when it was gone before anybody looked.

        Asked for the first time before the leader is reaped: until then its pid is its own.
        """
        if self._identity is None:
            # Loaded when somebody asks: a child that is over at once needs no name.
            from longwatch.posix.identity import identity  # noqa: PLC0415

            self._identity = identity(self.pid)
        return self._identity

    def peek(self) -> End | None:
        """Return how the leader ended, leaving it unreaped; None while it runs.

        Both parts are None when somebody else has collected the status and the kernel does not tell it again.
        """
        if self._end is None:
            self._end = self._look()
        return self._end

    def reap(self) -> End:
        """Collect the ended leader, by its own pid only, and return how it ended. May be called again.

        Raises RuntimeError while it still runs: nothing here ever waits.
        """
        end = self.peek()
        if end is None:
            raise RuntimeError(f"process {self.pid} still runs")
        if self._reaper is None:
            self._reaper = _reaped
            try:
                os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pass
        self._reaper()
        return end

    def stopped(self) -> bool:
        """Return whether the leader is in a job-control stop. False for one that is no child of ours."""
        try:
            return os.waitid(*self._which(), os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

    def close(self) -> None:
        """Close the pidfd and our end of its stdin. The output ends belong to their pumps."""
        for fd in (self.pidfd, self.stdin_fd):
            if fd is not None:
                os.close(fd)
        self.pidfd = self.stdin_fd = None
        large_pipes.left += self._large
        self._large = 0

    def _which(self) -> tuple[int, int]:
        return (os.P_PID, self.pid) if self.pidfd is None else (os.P_PIDFD, self.pidfd)

    def _look(self) -> End | None:
        if not hasattr(os, "waitid"):  # pragma: no cover - macOS before 3.13: the group is not pinned there
            return self._collect()
        try:
            found = os.waitid(*self._which(), os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._lost(self.pidfd)
        if found is None:
            return None
        return (found.si_status, None) if found.si_code == os.CLD_EXITED else (None, found.si_status)

    def _lost(self, pidfd: int | None) -> End | None:
        """Answer for a process that is not ours to wait for: it was reaped elsewhere, or never was our child."""
        if pidfd is None:
            return None if self.identity is not None and self.identity.alive() else UNKNOWN
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(0):
            return None
        end = _ask_kernel(pidfd)
        if end == UNKNOWN:
            end = self._of_zombie()
        # Its owner may have collected it. 0 is also what `subprocess` says where there was nothing to collect.
        code = self._reaper() if end == UNKNOWN and self._reaper is not None else None
        return _from_exitcode(code) if code else end

    def _of_zombie(self) -> End:
        """Read the status that the process's own parent has not collected yet: the last field of its line.

        Of another user's process the kernel shows 0 there, whatever it was.
        """
        from longwatch.posix.identity import START, boot_id, read_stat, shown  # noqa: PLC0415 - only for what is no child of ours

        line, known = read_stat(self.pid), self.identity
        if line is None or known is None or known.boot != boot_id():
            return UNKNOWN
        fields = line[line.rindex(b")") + 2 :].split()
        if fields[0] != b"Z" or int(fields[START]) != known.start or not shown(self.pid):
            return UNKNOWN
        return _from_exitcode(os.waitstatus_to_exitcode(int(fields[-1])))

    def _collect(self) -> End | None:  # pragma: no cover - macOS before 3.13
        if self._reaper is not None:
            code = self._reaper()
        else:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
        return None if code is None else _from_exitcode(code)


def adopt(
    pid: int, stdout_fd: int | None = None, stderr_fd: int | None = None,
    reaper: "Callable[[], int | None] | None" = None,
) -> Child:  # fmt: skip
    """Wrap a process that somebody else started, child of ours or not.

    The descriptors are opened anew, so that their owner's stay his, and blocking. `reaper` collects the status when
    the owner does (`popen.poll`): a return code as in subprocess, or None while it runs. Raises ProcessLookupError
    when there is no such process.
    """
    child = Child(pid, now(), reaper=reaper)
    if child.identity is None:
        child.close()
        raise ProcessLookupError(errno.ESRCH, f"there is no process {pid}")
    child.stdout_fd = _private(stdout_fd)
    child.stderr_fd = _private(stderr_fd)
    return child


def _reaped() -> None:
    """Stand for a status that was collected: the pid may be another's by now."""


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def _private(fd: int | None) -> int | None:
    """Return a non-blocking read end of the same pipe whose flags nobody shares."""
    if fd is None:
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        # A socket cannot be opened anew: its flags are shared, and it has to be non-blocking.
        copy = os.dup(fd)
        os.set_blocking(copy, False)
        return copy


def _from_exitcode(code: int) -> End:
    return (code, None) if code >= 0 else (None, -code)


def _ask_kernel(pidfd: int) -> End:
    """Ask a pidfd for a status that somebody else collected (Linux 6.15). Never guesses."""
    import fcntl  # noqa: PLC0415 - a C module, which every start would have to pay for

    request = bytearray(_INFO_EXIT.to_bytes(_INFO_MASK_SIZE, sys.byteorder).ljust(_INFO_SIZE, b"\0"))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, request)
    except OSError:
        return UNKNOWN
    if not int.from_bytes(request[:_INFO_MASK_SIZE], sys.byteorder) & _INFO_EXIT:
        return UNKNOWN
    status = int.from_bytes(request[_INFO_STATUS_AT:], sys.byteorder)
    return _from_exitcode(os.waitstatus_to_exitcode(status))
