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


class Held:
    """One run. `line` tells the master of its end; `unwanted` says that nobody will ask how it was."""

    __slots__ = ("brand", "child", "end", "line", "program", "run", "token", "unwanted")

    def __init__(self, run: str, program: str, child: Child, brand: int, token: str) -> None:
        self.run = run
        self.program = program
        self.child = child
        self.brand = brand
        #: Names the request that it was started for.
        self.token = token
        self.end: End | None = None
        self.line: _socket.socket | None = None
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

    def lend(self) -> dict[str, int]:
        """Return what a master gets of it, by name. The line's far end is to be closed once it was sent.

        Each lending has a line of its own: what an earlier master has read from its own is gone with it.
        """
        if self.line is not None:
            self.line.close()
        self.line, theirs = _socket.socketpair()
        child = self.child
        lent = {
            LINE: theirs.detach(), "leader": child.pidfd, "stdin": child.stdin_fd, "stdout": child.stdout_fd,
            "stderr": child.stderr_fd, "master": child.master_fd,
        }  # fmt: skip
        self.tell()
        return {name: fd for name, fd in lent.items() if fd is not None}

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
        for fd in self.outputs:
            os.close(fd)
        self.child.close()
        if self.line is not None:
            self.line.close()
