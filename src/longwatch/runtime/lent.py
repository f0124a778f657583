"""A program that the keeper started, as its master holds it: a `Child` whose end somebody else tells.

The keeper leaves the ended leader unreaped until it is told to forget the run, so the pid stays its own, and its end
can be read there; of what another user's program ended with the keeper is asked. A keeper that will not outlive us
also says how the leader ended, on a line that this run has to itself, so runs never wait for each other.
"""

import os
import select

from longwatch.core.record import Plain
from longwatch.posix.child import UNKNOWN, Child, End
from longwatch.posix.identity import Identity
from longwatch.posix.nursery import Nursery
from longwatch.runtime.held import RELAY_IN, RELAY_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: How long the keeper's word is waited for once its program has ended, in ms. After that the kernel is asked, which
#: may know less: a keeper that somebody has stopped must not hold up the end of a run.
WORD_LIMIT = 1_000
_WORD = 16


class KeptRun(Plain):
    """What a keeper says of one of its runs. `end` is code and signal, or None while the leader runs."""

    __slots__ = ("brand", "end", "identity", "program", "run_id", "started")

    def __init__(
        self, run_id: str, program: str, identity: Identity, started: int, brand: int, end: End | None
    ) -> None:
        self.run_id = run_id
        self.program = program
        self.identity = identity
        self.started = started
        self.brand = brand
        self.end = end

    @property
    def pid(self) -> int:
        """The leader's pid."""
        return self.identity.pid

    @classmethod
    def of(cls, told: "dict[str, Any]") -> "KeptRun":
        """Read what a message says."""
        end = told["end"]
        who = Identity(told["pid"], told["start"], told["boot"])
        return cls(
            told["run"],
            told["program"],
            who,
            told["started"],
            told["brand"],
            None if end is None else (end[0], end[1]),
        )


class KeptChild(Child):
    """A program lent by a keeper. `pidfd` is readable once the leader has ended: wait for it, nothing else.

    `on_reaped()` is called by the first `reap`; `ask(limit_ms)` asks the keeper how the leader ended.
    """

    __slots__ = ("_ask", "_leader", "_line", "_on_reaped", "_signs", "nursery", "relay", "run_id")

    def __init__(
        self, run: KeptRun, lent: dict[str, int], nursery: Nursery | None,
        on_reaped: "Callable[[], object] | None" = None, ask: "Callable[[int], End | None] | None" = None,
    ) -> None:  # fmt: skip
        self.pid = run.pid
        self.run_id = run.run_id
        self.started = run.started
        self.nursery = nursery
        self.stdin_fd = lent.get("stdin")
        self.stdout_fd = lent.get("stdout")
        self.stderr_fd = lent.get("stderr")
        self.master_fd = lent.get("master")
        #: Both ends (out, in) of a pipe for the terminal's output, which the keeper holds as well.
        self.relay = (lent[RELAY_OUT], lent[RELAY_IN]) if RELAY_OUT in lent else None
        self._identity = run.identity
        self._end: End | None = None
        self._large = 0  # the keeper has made the pipes large, out of its own budget
        self._reaper = None
        self._on_reaped = on_reaped
        self._ask = ask
        self._line = lent.get("line")
        self._leader = lent.get("leader")
        self._signs: select.epoll | None = None
        self.pidfd = self._leader
        if self._line is not None:
            # Two things say that it is over, and a host wants one descriptor.
            self._signs = select.epoll()
            self.pidfd = self._signs.fileno()
            for fd in (self._line, self._leader):
                if fd is not None:
                    self._signs.register(fd, select.EPOLLIN)

    def reap(self) -> End:
        """Return how the leader ended, and let the keeper collect it where it need not wait for more than that.

        Raises RuntimeError while it still runs. May be called again.
        """
        end = self.peek()
        if end is None:
            raise RuntimeError(f"process {self.pid} still runs")
        if self._on_reaped is not None:
            on_reaped, self._on_reaped = self._on_reaped, None
            on_reaped()
        return end

    def stopped(self) -> bool:
        """Return whether the leader is in a job-control stop."""
        found = None if self._identity is None else self._identity.current()
        return found is not None and found.state == "T"

    def close(self) -> None:
        """Give back what was lent, except the output ends, which belong to their pumps. May be called again."""
        self._drop_line()
        for fd in (self._leader, self.stdin_fd, *(self.relay or ())):
            if fd is not None:
                os.close(fd)
        if self._signs is not None:
            self._signs.close()
        self._leader = self.stdin_fd = self.pidfd = self.relay = self._signs = None
        # A keeper that its owner has dropped hangs up: nobody who is done with it may hold it.
        self._ask = self._on_reaped = None

    def abandon(self) -> None:
        """Give back all that was lent, of a program that nobody has begun to follow."""
        for fd in (self.stdout_fd, self.stderr_fd, self.master_fd):
            if fd is not None:
                os.close(fd)
        self.close()

    def _look(self) -> End | None:
        end = self._word(0)
        if end is not None:
            return end
        end = self._lost(self._leader)
        if end is not None and self._signs is not None:
            # The leader is over: the keeper will say so any moment, and knows best.
            return self._word(WORD_LIMIT) or self._lost(self._leader)
        if end == UNKNOWN and self._ask is not None:
            return self._ask(WORD_LIMIT) or UNKNOWN
        return end

    def _word(self, limit_ms: int) -> End | None:
        """Return what the keeper says on the line, if it does so within the limit."""
        if self._line is None:
            return None
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        if not poll.poll(limit_ms):
            return None
        try:
            word = os.read(self._line, _WORD)
        except OSError:
            word = b""
        if not word:
            self._drop_line()  # the keeper is gone
            return None
        number = int(word[1:] or b"0")
        return {b"c": (number, None), b"s": (None, number)}.get(word[:1], (None, None))

    def _drop_line(self) -> None:
        if self._line is not None and self._signs is not None:
            self._signs.unregister(self._line)
            os.close(self._line)
            self._line = None
