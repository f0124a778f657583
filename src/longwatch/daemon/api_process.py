"""The process that serves the API, as the supervisor holds it: its connection, its last words, its end."""

import _socket
import fcntl
import os
import select
import sys

from longwatch.daemon.line import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

    from longwatch.posix.reactor import Reactor
else:
    import _signal

#: How often it is asked whether it is there, in ms, and how many answers may be missing before it is ended.
PING, MISSING = 30_000, 4
#: How long it may take to end, in ms.
_PATIENCE = 2_000
#: The same for one that may finish what it was asked.
_RETIREMENT = 10_000
#: Its descriptors: the connection to us, and the sockets that it serves behind it.
FIRST_FD = 3
#: Descriptors are lent from up here, so that none is in the way of where it goes.
_CLEAR_OF = 64
_TAIL = 4096
_NONE = -1


class Process:
    """One API process: its connection, what it says on stderr, its end."""

    def __init__(
        self, reactor: "Reactor", sockets: "dict[str, int]", hear: "Callable[[dict[str, Any]], object]",
        over: "Callable[[int | None, str], object]", at: int,
    ) -> None:  # fmt: skip
        said, stderr = os.pipe()
        ours, theirs = _pair(said, stderr)
        try:
            self.pid = _spawn([theirs.fileno(), *sockets.values()], stderr)
        except OSError:
            ours.close()
            os.close(said)
            raise
        finally:
            theirs.close()
            os.close(stderr)
        os.set_blocking(said, False)
        self._reactor = reactor
        self._over: Callable[[int | None, str], object] | None = over
        self._said: int = said
        self._tail = b""
        self._pidfd = _pidfd(self.pid)
        self.started = at
        self.ping_at = at + PING
        self.missing = 0
        self.retired = False
        self.line = Line(reactor, ours.detach(), hear, self._hung_up)
        reactor.add(said, self._listen)
        if self._pidfd >= 0:
            reactor.add(self._pidfd, self._look)

    def ping(self, at: int) -> bool:
        """Ask whether it is there; False when it has not answered for too long."""
        self.ping_at = at + PING
        self.missing += 1
        if self.line.closed:  # it hung up, and is about to end
            return self.missing < 2
        self.line.send({"ping": self.missing})
        return self.missing <= MISSING

    def retire(self, at: int) -> None:
        """Have it answer what it was asked, and end; `over` is told. It is ended where it does not."""
        self.retired = True
        self.line.send({"retire": True})
        self.ping_at, self.missing = at + _RETIREMENT, MISSING

    def kill(self) -> None:
        """End it at once; `over` is told."""
        os.kill(self.pid, _signal.SIGKILL)

    def end(self) -> None:
        """Let it end by itself: it does when we hang up; wait for that, and KILL it where it does not. Tells nobody."""
        self._over = None
        self.line.close()
        if self._pidfd >= 0:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if not poll.poll(_PATIENCE):
                self.kill()
            poll.poll()
        else:
            self.kill()
        self._bury()

    def _hung_up(self, why: str) -> None:
        """It has closed its end, or said nonsense: it is over soon, or by now."""
        del why
        self.kill()
        if self._pidfd < 0:
            self._bury()

    def _listen(self) -> None:
        try:
            chunk = os.read(self._said, 1 << 16)
        except BlockingIOError:
            return
        self._tail = (self._tail + chunk)[-_TAIL:]
        if not chunk:
            self._drop_words()

    def _drop_words(self) -> None:
        if self._said >= 0:
            self._reactor.remove(self._said)
            os.close(self._said)
            self._said = _NONE

    def _look(self) -> None:
        self._bury()

    def _bury(self) -> None:
        """Collect it, and give everything back."""
        if self._pidfd >= 0:
            self._reactor.remove(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = _NONE
        status = _status(self.pid)
        if self._said >= 0:
            self._listen()
        self._drop_words()
        self.line.close()
        over, self._over = self._over, None
        if over is not None:
            words = self._tail.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
            over(status, words)


def _pair(*given_up: int) -> "tuple[_socket.socket, _socket.socket]":
    try:
        return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError:
        for fd in given_up:
            os.close(fd)
        raise


def _spawn(sockets: list[int], stderr: int) -> int:
    """Start it with the descriptors as 3, 4 and so on. In a session of its own: Ctrl-C in `up` is not for it."""
    lent = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _CLEAR_OF) for fd in (*sockets, stderr)]
    places = [*range(FIRST_FD, FIRST_FD + len(sockets)), 2]
    words = [sys.executable, "-P", *(("-B",) if sys.dont_write_bytecode else ())]
    words += ["-m", "longwatch.api.server"]
    try:
        return os.posix_spawn(
            sys.executable, words, os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                *((os.POSIX_SPAWN_DUP2, fd, place) for fd, place in zip(lent, places, strict=True)),
            ],
            setsid=True, setsigmask=[], setsigdef=[_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGTERM, _signal.SIGINT],
        )  # fmt: skip
    finally:
        for fd in lent:
            os.close(fd)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):  # pragma: no cover - macOS, old kernels
        return _NONE


def _status(pid: int) -> int | None:
    """Collect our child; return its exit status, minus N after signal N, None when somebody else has collected it."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None
