"""One loop for all that a daemon does: every run's descriptors and deadlines, short commands, timers for anybody.

One reactor and one timer, whatever there is to follow. Nothing here decides, and nothing here waits.
"""

import heapq
import os

from longwatch.posix import now
from longwatch.posix.identity import identity
from longwatch.posix.lane import Lane
from longwatch.posix.reactor import Reactor
from longwatch.posix.tree import NOBODY, Tree
from longwatch.runtime.bounded import TAIL, Bounded
from longwatch.runtime.conduit import Mirror, Nowhere
from longwatch.runtime.driver import NEVER, Timer
from longwatch.runtime.seats import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


COMMAND_OF = "LONGWATCH_COMMAND_OF"


#: Of a thousand programs that end in one moment each is known to be over before any deadline is looked at.
BATCH = 4_096


class ReactorRounds(Rounds):
    """The rounds of a loop that asks when it has to step. `late(span)` hears of every look that came too late."""

    def __init__(self, clock: "Callable[[], int]", late: "Callable[[int], object]") -> None:
        super().__init__(clock)
        self._late = late

    def arm(self, instant: int | None) -> None:
        """Nothing has to be set: the loop asks."""

    def _lapse(self, span: int, at: int) -> None:
        super()._lapse(span, at)
        self._late(span)


class Host:
    """The loop of one process. `failed(error)` hears of what a callback raised: the others go on."""

    def __init__(self, clock: "Callable[[], int]" = now) -> None:
        self.clock = clock
        me = identity(os.getpid())
        assert me is not None
        #: Who we are.
        self.me = me
        self.reactor = Reactor(BATCH)
        self.rounds = ReactorRounds(clock, self._late)
        self.mirror = Mirror()
        self.nowhere = Nowhere()
        #: The reactor of the streams: chatty ones wake us together.
        self.lane = Lane(self.reactor, self.at)
        self.failed: Callable[[Exception], object] = _unheard
        #: What short commands carry in their environment: after a crash of ours they are found, and ended, by it.
        self.mark = ""
        #: Told when we looked too late, and after every round.
        self.on_late: list[Callable[[int], object]] = []
        self.on_round: list[Callable[[int], object]] = []
        self._members: list[tuple[Callable[[], int | None], Callable[[int], object]]] = []
        self._timers: list[tuple[int, int, Timer]] = []
        self._set = 0
        self._over = False

    def now(self) -> int:
        """Return the instant, in ms."""
        return self.clock()

    # -- timers

    def at(self, instant: int, callback: "Callable[[int], object]") -> Timer:
        """Call back at an instant, once."""
        timer = Timer(instant, callback, None)
        self._set += 1
        heapq.heappush(self._timers, (instant, self._set, timer))
        return timer

    def soon(self, callback: "Callable[[int], object]") -> Timer:
        """Call back when whatever goes on now is over."""
        return self.at(self.clock(), callback)

    def cancel(self, timer: Timer | None) -> None:
        """Forget a timer; no error when it is gone already."""
        if timer is not None:
            timer.callback = _nothing

    def join(self, next_deadline: "Callable[[], int | None]", step: "Callable[[int], object]") -> None:
        """Have `step` called whenever `next_deadline` has come: it is asked at every turn."""
        self._members.append((next_deadline, step))

    def part(self, step: "Callable[[int], object]") -> None:
        """Forget who has joined."""
        self._members = [member for member in self._members if member[1] != step]

    # -- short commands

    def command(
        self, argv: "Sequence[str]", *, limit_ms: int, on_done: "Callable[[int | None, str], object]",
        env: "Mapping[str, str] | None" = None, cwd: str | None = None, stdin: bytes | None = None,
        ignore: set[int] | None = None, tail: int = TAIL, sweep: bool = True,
    ) -> Bounded:  # fmt: skip
        """Start a short command, see `Bounded`; it is ended with its group at its limit. Raises SpawnError."""
        # Our own folder is that of all threads: a shell goes where the command is to run.
        words = argv if cwd is None else ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', cwd, *argv]
        env = {**(os.environ if env is None else env), COMMAND_OF: self.mark}
        command = Bounded(
            self.reactor, words, limit_ms=limit_ms, on_done=on_done, env=env, stdin=stdin, ignore=ignore, tail=tail,
            sweep=sweep,
        )  # fmt: skip
        self.attend(command)
        return command

    def sweep(self) -> list[str]:
        """End the short commands that an earlier process with our mark has left; return who survived."""
        return Tree(NOBODY, self.mark, subreaper=False, variable=COMMAND_OF).kill() if self.mark else []

    def attend(self, command: Bounded) -> None:
        """See to a command's limit until it is over."""
        due = command.next_deadline()
        if due is not None:
            self.at(due, lambda now: self._attended(command, now))

    def _attended(self, command: Bounded, now: int) -> None:
        command.step(now)
        self.attend(command)

    # -- the loop

    def loop(self) -> None:
        """Go round until `end`."""
        while not self._over:
            self.turn()

    def end(self) -> None:
        """Let `loop` return after this turn."""
        self._over = True

    def turn(self, limit: int | None = None) -> None:
        """Wait for what comes first, at most `limit` ms, and do it."""
        soonest = self._next()
        wait = None if soonest >= NEVER else max(0, soonest - self.clock())
        wait = limit if wait is None else wait if limit is None else min(wait, limit)
        self._guarded(lambda: self.reactor.poll(wait))
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            self._guarded(lambda timer=timer: timer.callback(now))  # type: ignore[misc]
        for deadline, step in list(self._members):
            due = deadline()
            if due is not None and due <= now:
                self._guarded(lambda step=step: step(now))  # type: ignore[misc]
        if now >= self.rounds.armed:
            self._guarded(self.rounds.step)
            for callback in self.on_round:
                self._guarded(lambda callback=callback: callback(now))  # type: ignore[misc]

    def _next(self) -> int:
        while self._timers and self._timers[0][2].callback is _nothing:
            heapq.heappop(self._timers)
        own = self._timers[0][0] if self._timers else NEVER
        theirs = (due for deadline, _ in self._members if (due := deadline()) is not None)
        return min(self.rounds.armed, own, *theirs)

    def _guarded(self, act: "Callable[[], object]") -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a defect of ours must not take the others along
            self.failed(error)

    def _late(self, span: int) -> None:
        for callback in self.on_late:
            callback(span)

    def close(self) -> None:
        """Give the descriptors back."""
        self.lane.close()
        self.mirror.close()
        self.nowhere.close()
        self.reactor.close()


def _nothing(now: int) -> None:
    """What a cancelled timer does."""


def _unheard(error: Exception) -> None:
    raise error


__all__ = ["Host", "ReactorRounds"]
