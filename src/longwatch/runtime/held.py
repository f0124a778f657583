"""One run as the keeper holds it: its leader, our ends of its pipes and its terminal, and how it ended."""

import _socket
import os

from longwatch.posix.child import Child, End
from longwatch.posix.identity import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.runtime.wire import Message

#: The name of what a lending makes; all else that is lent stays the keeper's as well.
LINE = "line"
#: Both ends of the pipe that a terminal's output goes through: a master that is killed on the way leaves it there.
RELAY_IN, RELAY_OUT = "relay_in", "relay_out"


class Held:
    """One run. `line` tells a master of its end that we will not outlive; `unwanted`: nobody will ask how it was.

    `relay` is the pipe between its terminal and wherever that is written down; a run without a terminal has none.
    """

    __slots__ = ("brand", "child", "end", "line", "program", "relay", "run", "token", "unwanted")

    def __init__(self, run: str, program: str, child: Child, brand: int, token: str) -> None:
        self.run = run
        self.program = program
        self.child = child
        self.brand = brand
        #: Names the request that it was started for.
        self.token = token
        self.end: End | None = None
        self.line: _socket.socket | None = None
        self.relay = None if child.master_fd is None else os.pipe()
        self.unwanted = False

    @property
    def leader(self) -> Identity:
        """Who it is. Raises OSError where nobody can look now."""
        assert self.child.identity is not None, "its pid is its own until we reap it"
        return self.child.identity

    @property
    def outputs(self) -> list[int]:
        """Our ends of what it writes to."""
        ends = (self.child.stdout_fd, self.child.stderr_fd, self.child.master_fd)
        return [fd for fd in ends if fd is not None]

    def record(self) -> "Message":
        """Return all there is to say of it."""
        return {
            "run": self.run,
            "program": self.program,
            "pid": self.leader.pid,
            "start": self.leader.start,
            "boot": self.leader.boot,
            "started": self.child.started,
            "brand": self.brand,
            "end": self.end,
        }

    def lend(self, *, line: bool) -> dict[str, int]:
        """Return what a master gets of it, by name. The far end of a `line` is to be closed once it was sent.

        There is one in any case where there is no pidfd. Each lending has a line of its own: what an earlier master has read from its own is gone with it.
        """
        child = self.child
        lent = {
            LINE: self._new_line() if line or child.pidfd is None else None, "leader": child.pidfd, "stdin": child.stdin_fd, "stdout": child.stdout_fd,
            "stderr": child.stderr_fd, "master": child.master_fd,
        }  # fmt: skip
        if self.relay is not None:
            lent[RELAY_OUT], lent[RELAY_IN] = self.relay
        self.tell()
        return {name: fd for name, fd in lent.items() if fd is not None}

    def _new_line(self) -> int:
        if self.line is not None:
            self.line.close()
        self.line, theirs = _socket.socketpair()
        return theirs.detach()

    def look(self) -> bool:
        """Return whether the leader has ended, leaving it unreaped; tell the master when that is news."""
        if self.end is None:
            self.end = self.child.peek()
            self.tell()
        return self.end is not None

    def tell(self) -> None:
        """Say on the line how it ended, if it has and there is a line."""
        if self.end is None or self.line is None:
            return
        code, signum = self.end
        word = "?" if code is signum is None else f"c{code}" if signum is None else f"s{signum}"
        try:
            self.line.send(word.encode(), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:
            pass  # nobody there: the next master gets a line of its own

    def shut_stdin(self) -> None:
        """Let go of its stdin, which is the end of it unless a master still holds it."""
        if self.child.stdin_fd is not None:
            os.close(self.child.stdin_fd)
            self.child.stdin_fd = None

    def close(self) -> None:
        """Collect the ended leader and give every descriptor back."""
        self.child.reap()
        for fd in (*self.outputs, *(self.relay or ())):
            os.close(fd)
        self.child.close()
        if self.line is not None:
            self.line.close()
