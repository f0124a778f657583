"""THE loop of one run: tell the watch what happened, let it advance, perform its commands, sleep until it is due.

A host needs three things: `fileno()`, `next_deadline()` and `step()`. Progress is coalesced: sources keep their
own stamps, and the watch hears of them only when one of its deadlines comes due or something else happens, so a
chatty program costs the watch nothing. Everything is told in the order in which it happened.

Idle means *watched* silence. A look that comes late by more than a second was not a look: the span since the last
one is told as a lapse, stamped when we last looked. Who looks is the `Lookout`: a driver's own, or one that many
share. While our own output has no reader the program may be blocked by us, and that silence is told as a lapse too.

What is driven, a process or a stream of events, is the effects' business: the driver knows no descriptor.
"""

from longwatch.core.commands import Command
from longwatch.core.observations import AliveSeen, Lapsed, Observation, Prepared, ProgressSeen, StopRequested
from longwatch.core.spec import SECOND, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from longwatch.runtime.effects import Effects

    class Looking(Protocol):
        """Who notices that nobody looked: a `Lookout`, or a host that looks for many drivers at once."""

        def missed(self, now: int) -> int:
            """Return for how many ms up to now nobody looked."""

        def plan(self, now: int, soonest: int) -> int:
            """Note that we looked; return when to look again."""

        def sooner(self, instant: int) -> None:
            """Somebody wants to be woken at this instant, too."""


#: A look later than this was none: the machine slept, we were stopped, the host's loop was blocked.
LATE = 1 * SECOND
LOOK_MAX = 10 * SECOND
#: No timer is set for an instant that does not come (a timer of 2^62 ms is one for 146 million years).
NEVER = 1 << 62


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


class Lookout:
    """Looks often enough that nothing is missed unnoticed."""

    __slots__ = ("_due", "_every", "_looked")

    def __init__(self, every: int, now: int) -> None:
        self._every = every
        self._looked = self._due = now

    def missed(self, now: int) -> int:
        """Return for how many ms up to now nobody looked; 0 unless this look comes too late to be one."""
        return now - self._looked if now - self._due > LATE else 0

    def plan(self, now: int, soonest: int) -> int:
        """Note that we looked; return when to look again, `soonest` at the latest."""
        self._looked = now
        self._due = min(now + self._every, soonest)
        return self._due

    def sooner(self, instant: int) -> None:
        """Somebody wants to be woken at this instant, too."""
        self._due = min(self._due, instant)


class Driver:
    """One watch, the effects that carry out what it says, and whoever looks out for them."""

    def __init__(
        self,
        watch: Watch,
        effects: "Effects",
        clock: "Callable[[], int]" = now,
        lookout: "Looking | None" = None,
    ) -> None:
        self.watch = watch
        self.effects = effects
        self.clock = clock
        self.lookout = lookout or Lookout(look_interval(watch.spec), watch.started)
        self._inbox: list[tuple[int, Observation]] = []
        self._timers: list[Timer] = []
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
        self.lookout.sooner(instant)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; no error when it is gone already."""
        if timer in self._timers:
            self._timers.remove(timer)

    # -- what a host needs

    @property
    def eager(self) -> bool:
        """Whether a step is wanted as soon as something has come: no deadline awaits it."""
        return self._eager

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.watch.over

    def fileno(self) -> int:
        """Return the descriptor that is readable when `poll` of the effects has something to do."""
        return self.effects.fileno()

    def next_deadline(self) -> int:
        """Return the instant (ms) at which `step` must be called, even if nothing became readable."""
        return self.watch.started if self._inbox else self._soonest

    def start(self) -> None:
        """Begin: perform what the watch says to a fresh run."""
        self._perform(self.watch.start())
        self._plan(self.clock())

    def resume(self, until: int) -> None:
        """Begin with a run that somebody else has followed up to an instant; since then nobody has looked."""
        told: list[tuple[int, Observation]] = []
        for name, last, count, alive in self.effects.stamps():
            if count:
                told.append((last, ProgressSeen(name, count)))
            self._told[name] = (max(last, alive), count)
        told += self.effects.evidence()
        told.sort(key=lambda item: item[0])
        self.watch.resume([item for item in told if item[0] <= until], until)
        now = self.clock()
        if now > until:
            self.lapse(now - until, until)
        self._inbox += [(at, seen) for at, seen in told if at > until]
        self._plan(now)

    def step(self) -> None:
        """Tell, advance, perform. Never blocks; the host has polled the effects before."""
        now = self.clock()
        if self._inbox or now >= self._soonest or self._eager:
            self.look(now)

    def look(self, now: int) -> None:
        """Do the same although nothing may be due: what has been stamped until now is told."""
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
        self._plan(now)

    def lapse(self, span: int, since: int) -> None:
        """Nobody looked for `span` ms since an instant. What was seen until then is told first."""
        self._tell_evidence(until=since)
        self._observe(Lapsed(span), since)
        # Whatever blocked us meanwhile is part of it.
        self.effects.blocked(since + span)

    # -- one step, in parts

    def _plan(self, now: int) -> None:
        waits = [timer.at for timer in self._timers]
        if self._inbox:  # of a beginning, which comes to something before anything was looked at
            waits.append(now)
        due = self.watch.next_deadline()
        self._soonest = self.lookout.plan(now, min(waits if due is None else [due, *waits], default=NEVER))
        # Progress that no deadline awaits (it opens an episode, ends a hold) is told as it comes.
        self._eager = self.watch.eager

    def _notice_lapse(self, now: int) -> None:
        span = self.lookout.missed(now)
        if span:
            self.lapse(span, now - span)

    def _tell_blocked(self, now: int) -> None:
        """While nobody reads what we pass on, the program's silence is ours."""
        span = self.effects.blocked(now)
        if span > 0:
            self._observe(Lapsed(span), now - span)

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
        self.effects.poll(0)
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
