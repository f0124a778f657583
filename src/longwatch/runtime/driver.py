"""THE loop of one run: tell the watch what happened, let it advance, perform its commands, sleep until it is due.

A host needs three things: `fileno()`, `next_deadline()` and `step()`. Progress is coalesced: sources keep their
own stamps, and the watch hears of them only when one of its deadlines comes due or something else happens, so a
chatty program costs the watch nothing. Everything is told in the order in which it happened.

Idle means *watched* silence. A look that comes late by more than a second was not a look: the span since the last
one is told as a lapse, stamped when we last looked. While our own output has no reader the program may be blocked
by us, and that silence is told as a lapse too.
"""

from longwatch.core.commands import Command
from longwatch.core.observations import AliveSeen, Lapsed, Observation, Prepared, ProgressSeen, StopRequested
from longwatch.core.spec import SECOND, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now
from longwatch.posix.reactor import Reactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.runtime.effects import Effects

#: A look later than this was none: the machine slept, we were stopped, the host's loop was blocked.
LATE = 1 * SECOND
LOOK_MAX = 10 * SECOND


def look_interval(spec: Spec) -> int:
    """Return how often to look at least, in ms: often enough to notice a lapse well within the shortest window."""
    windows = [limit.window for limit in spec.limits.values() if limit.window > 0]
    return min(LOOK_MAX, max(SECOND, min(windows, default=8 * LOOK_MAX) // 8))


class Timer:
    """A callback due at an instant, once or again every `period` ms."""

    __slots__ = ("at", "callback", "period")

    def __init__(self, at: int, callback: "Callable[[int], object]", period: int | None) -> None:
        self.at = at
        self.callback = callback
        self.period = period


class Driver:
    """One watch, its effects, and the reactor whose descriptors wake them."""

    def __init__(
        self, watch: Watch, effects: "Effects", reactor: Reactor, clock: "Callable[[], int]" = now
    ) -> None:
        self.watch = watch
        self.effects = effects
        self.reactor = reactor
        self.clock = clock
        self._inbox: list[tuple[int, Observation]] = []
        self._timers: list[Timer] = []
        self._every = look_interval(watch.spec)
        self._looked = watch.started
        self._lapsed = watch.started
        self._told: dict[str, tuple[int, int]] = {}
        self._soonest = watch.started
        self._eager = False
        effects.tell = self.tell
        effects.later = self.at

    # -- what the surroundings may do

    def tell(self, observation: Observation, at: int | None = None) -> None:
        """Queue an observation that happened at `at` (now); the next step hands it to the watch."""
        self._inbox.append((self.clock() if at is None else at, observation))

    def at(self, instant: int, callback: "Callable[[int], object]", period: int | None = None) -> Timer:
        """Call back at an instant, and every `period` ms after it; a period that is missed is not made up for."""
        timer = Timer(instant, callback, period)
        self._timers.append(timer)
        self._soonest = min(self._soonest, instant)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; no error when it is gone already."""
        if timer in self._timers:
            self._timers.remove(timer)

    # -- what a host needs

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.watch.over

    def fileno(self) -> int:
        """Return the descriptor that is readable when `step` has something to read."""
        return self.reactor.fileno()

    def next_deadline(self) -> int:
        """Return the instant (ms) at which `step` must be called, even if nothing became readable."""
        return self._looked if self._inbox else self._soonest

    def start(self) -> None:
        """Begin: perform what the watch says to a fresh run."""
        self._perform(self.watch.start())
        self._plan(self.clock())

    def step(self) -> None:
        """Tell, advance, perform. Never blocks; the host has polled the reactor, or lets this call do it."""
        now = self.clock()
        if not self._inbox and now < self._soonest and not self._eager:
            return
        self._notice_lapse(now)
        self._run_timers(now)
        due: int | None = now
        while self._inbox or (due is not None and due <= now):
            self._tell_blocked(now)
            self._tell_inbox()
            self._tell_evidence()
            self._perform(self.watch.advance(now))
            due = self.watch.next_deadline()
        self.effects.looked(self.watch, now)
        self._looked = now
        self._plan(now)

    # -- one step, in parts

    def _plan(self, now: int) -> None:
        waits = [now + self._every, *(timer.at for timer in self._timers)]
        due = self.watch.next_deadline()
        self._soonest = min(waits) if due is None else min(due, *waits)
        # Progress that no deadline awaits (it opens an episode, ends a hold) is told as it comes.
        self._eager = self.watch.eager

    def _notice_lapse(self, now: int) -> None:
        if now - self._soonest > LATE:
            self._tell_evidence(until=self._looked)
            self._observe(Lapsed(now - self._looked), self._looked)
            self._lapsed = now

    def _tell_blocked(self, now: int) -> None:
        """While nobody reads what we pass on, the program's silence is ours."""
        since = self.effects.blocked_since()
        if since is None:
            return
        since = max(since, self._lapsed)
        if now > since:
            self._observe(Lapsed(now - since), since)
        self._lapsed = now

    def _tell_inbox(self) -> None:
        told, self._inbox = self._inbox, []
        fresh = [item for item in told if not isinstance(item[1], Prepared)]
        for at, observation in sorted(fresh, key=_in_order):
            self._tell_evidence(until=at)
            self._observe(observation, at)
        if len(fresh) < len(told):
            self._tell_prepared()

    def _tell_prepared(self) -> None:
        """Right before the first signal look again: what arrived while we prepared may save the program."""
        self.reactor.poll(0)
        late, self._inbox = self._inbox, []
        for at, observation in late:
            self._tell_evidence(until=at)
            self._observe(observation, at)
        self._tell_evidence()
        self._observe(Prepared(), self.clock())

    def _tell_evidence(self, until: int | None = None) -> None:
        """Tell what the sources stamped since we last asked them, oldest stamp first."""
        news: list[tuple[int, Observation]] = []
        for name, last, count, alive in self.effects.stamps():
            seen, had = self._told.get(name, (0, 0))
            if count > had and (until is None or last <= until):
                news.append((last, ProgressSeen(name, count - had)))
                self._told[name] = (max(seen, last), count)
            elif alive > max(seen, last) and (until is None or alive <= until):
                news.append((alive, AliveSeen(name)))
                self._told[name] = (alive, had)
        if until is None:
            news += self.effects.evidence()
        for at, observation in sorted(news, key=lambda item: item[0]):
            self._observe(observation, at)

    def _observe(self, observation: Observation, at: int) -> None:
        self._perform(self.watch.observe(observation, at))

    def _perform(self, commands: "list[Command]") -> None:
        for command in commands:
            self.effects.perform(command)

    def _run_timers(self, now: int) -> None:
        for timer in [timer for timer in self._timers if timer.at <= now]:
            if timer.period is None:
                self.cancel(timer)
            else:
                timer.at = now + timer.period
            timer.callback(now)


def _in_order(item: "tuple[int, Observation]") -> "tuple[bool, int]":
    """Oldest first; but who is told to stop while the program dies of the same signal was told first.

    A supervisor above us signals its whole tree: us, and a moment later what we watch.
    """
    return not isinstance(item[1], StopRequested), item[0]
