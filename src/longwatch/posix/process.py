"""One started program and its streams: what `run` holds while the rest of the house is not yet loaded."""

from longwatch.posix import now
from longwatch.posix.capture import HEAD, TAIL
from longwatch.posix.child import Child, End
from longwatch.posix.pump import Pump
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from longwatch.posix.sink import Sink

STDOUT, STDERR = "stdout", "stderr"


class Process:
    """A child, one pump per stream, and what has happened so far. `changed()` runs when it ends or runs dry.

    Of each stream the first `head` and the last `tail` bytes are kept. `make` makes the pump of a stream (name,
    descriptor, on_end) where an ordinary one would not do. A `shared` reactor is not closed with the process.
    """

    __slots__ = ("changed", "child", "ended", "ended_at", "merged", "pumps", "reactor", "shared")

    def __init__(
        self, child: Child, reactor: Reactor, sinks: "Mapping[str, Sink | None]", merged: bool, head: int = HEAD,
        tail: int = TAIL, *, make: "Callable[[str, int, Callable[[], object]], Pump] | None" = None,
        shared: bool = False,
    ) -> None:  # fmt: skip
        self.child = child
        self.reactor = reactor
        self.merged = merged
        self.shared = shared
        self.ended: End | None = None
        self.ended_at = 0
        self.changed: Callable[[], object] | None = None
        self.pumps: dict[str, Pump] = {}
        ends = (
            (STDOUT, child.stdout_fd if child.master_fd is None else child.master_fd),
            (STDERR, child.stderr_fd),
        )
        for name, fd in ends:
            if fd is not None and make is not None:
                self.pumps[name] = make(name, fd, self._changed)
            elif fd is not None:
                self.pumps[name] = Pump(
                    reactor, fd, sinks.get(name), head=head, tail=tail, on_end=self._changed
                )
        if child.pidfd is not None:
            reactor.add(child.pidfd, self.look)

    @property
    def drained(self) -> bool:
        """Whether every stream has ended."""
        return all(pump.ended for pump in self.pumps.values())

    @property
    def over(self) -> bool:
        """Whether the leader has ended and all of its output was read."""
        return self.ended is not None and self.drained

    def look(self) -> None:
        """Note whether the leader has ended. Where there is no pidfd somebody has to call this from time to time."""
        if self.ended is not None:
            return
        self.ended = self.child.peek()
        if self.ended is not None:
            self.ended_at = now()
            if self.child.pidfd is not None:
                self.reactor.remove(self.child.pidfd)
            self._changed()

    def run_until(self, instant: int) -> bool:
        """Move bytes until the process is over or `instant` (ms) has come; return whether it is over."""
        while not self.over:
            left = instant - now()
            if left <= 0:
                return False
            self.reactor.poll(left)
        return True

    def take(self) -> None:
        """Take what has come meanwhile, without waiting and for this process alone."""
        for pump in self.pumps.values():
            pump.ready()
        self.look()

    def blocked_since(self) -> int | None:
        """Return since when (ms) a reader of ours keeps the program waiting; None while none does."""
        return min(
            (p.blocked_since for p in self.pumps.values() if p.blocked_since is not None), default=None
        )

    def close(self) -> None:
        """Collect the leader and give every descriptor back."""
        for pump in self.pumps.values():
            pump.finish()
        if self.ended is not None:
            self.child.reap()
        elif self.child.pidfd is not None:
            self.reactor.remove(self.child.pidfd)
        self.child.close()
        if not self.shared:
            self.reactor.close()

    def _changed(self) -> None:
        if self.changed is not None:
            self.changed()


def start(launch: Launch, sinks: "Mapping[str, Sink | None]", reactor: Reactor) -> Process:
    """Spawn and begin to pump. Raises SpawnError; nothing is left open then."""
    merged = launch.output in ("merged", "pty") and not launch.apart
    return Process(spawn(launch), reactor, sinks, merged)
