"""From the first signal, or the program's own exit, to the proof that nothing is left.

The cause is set when we act, never inferred from an exit status: a child that exits by itself before the first
signal was not killed by us, and one that answers our TERM with status 0 was. Exit, end of the output and an
empty tree are three events; each wait for one of them is bounded, so the end of a run is bounded too.
"""

from longwatch.core.commands import (
    AbandonPipes,
    CancelStream,
    Command,
    Notify,
    Record,
    SignalTree,
    SweepTree,
)
from longwatch.core.facts import (
    KillSent,
    LeaderExited,
    LeftoversStopped,
    RunEnded,
    StopBegan,
    TreeUnkillable,
)
from longwatch.core.observations import Exited, StopRequested
from longwatch.core.spec import (
    DRAIN_QUIET,
    DRAIN_TOTAL,
    GRACE_LEFTOVERS,
    GRACE_WHEN_TOLD,
    KILL_WAIT,
    Spec,
)

TERM, KILL = 15, 9


class Ending:
    """How one run ends. Instants are None while what they wait for has not begun."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.reason: str | None = None
        self.origin: str | None = None
        self.limit: str | None = None
        self.exited: Exited | None = None
        self.stopping = self.told = self.drained = self.swept = self.gone = self.over = False
        self.term_at: int | None = None
        self.kill_at: int | None = None
        self.give_up_at: int | None = None
        self.drain_until: int | None = None
        self.quiet_until: int | None = None

    @property
    def began(self) -> bool:
        """Whether limits are out of the game: a signal was sent or the leader has ended."""
        return self.reason is not None or self.gone

    def stop(self, reason: str, now: int, *, limit: str | None = None) -> list[Command]:
        """A limit stops the run."""
        return self._signal(reason, self.spec.signal, self.spec.grace, None, limit, now)

    def requested(self, ask: StopRequested, now: int) -> list[Command]:
        """Somebody told us to stop. Told twice, or while a limit's grace runs, the end comes sooner."""
        if self.stopping:
            return self._requested_again(ask, now)
        if self.began:
            return self._enough(now)
        self.told = True
        grace = self._grace_when_told(ask)
        if grace is not None and ask.signal != TERM:
            # A shell's background jobs ignore INT; they get a chance to hear TERM before KILL.
            self.term_at = now + grace // 2
        return self._signal(ask.reason, ask.signal, grace, ask.origin, None, now)

    def _enough(self, now: int) -> list[Command]:
        """The program is gone and only its output is waited for: whoever tells us to stop wants no more of it."""
        if self.exited is None or self.drained:
            return []
        return [AbandonPipes(), *self.streams_ended(now)]

    def _requested_again(self, ask: StopRequested, now: int) -> list[Command]:
        grace = self._grace_when_told(ask)
        if grace is None:
            # Without a KILL to come all that can be done is to say it again.
            return [self._signalled(ask.signal)]
        if self.kill_at is not None:
            self.kill_at = now if self.told else min(self.kill_at, now + grace)
        self.told = True
        return []

    def _grace_when_told(self, ask: StopRequested) -> int | None:
        if ask.grace is not None or self.spec.grace is None:
            return ask.grace
        return min(self.spec.grace, GRACE_WHEN_TOLD)

    def _signal(
        self, reason: str, signal: int, grace: int | None, origin: str | None, limit: str | None, now: int
    ) -> list[Command]:
        self.stopping = True
        self.reason, self.origin, self.limit = reason, origin, limit
        self.kill_at = None if grace is None else now + grace
        return [Record(StopBegan(now, reason, signal, origin)), self._signalled(signal)]

    def _signalled(self, signal: int) -> Command:
        """Return what ends the program; a stream has nobody to signal and nothing but its own end."""
        return CancelStream() if self.spec.streamed else SignalTree(signal)

    def leader_exited(self, exited: Exited, now: int) -> list[Command]:
        """The leader ended, by itself or because of us; its streams get a bounded time to run dry."""
        self.exited = exited
        out: list[Command] = [Record(LeaderExited(now, exited.code, exited.signal))]
        if self.reason is None:
            lost = exited.code is None and exited.signal is None
            self.reason = "unknown" if lost else "signaled" if exited.signal is not None else "exited"
        if self.gone:
            self.give_up_at = None
            return [*out, *(self._finish(now) if self.drained else self._drain(now))]
        if self.stopping:
            # The others have their grace, and may still have last words.
            self.swept = True
            if self.spec.grace is None and self.kill_at is None:
                self.kill_at = now + GRACE_LEFTOVERS
                out.append(self._signalled(TERM))
            return [*out, SweepTree()]
        return [*out, *(self._sweep(now) if self.drained else self._drain(now))]

    def _drain(self, now: int) -> list[Command]:
        self.quiet_until = now + DRAIN_QUIET
        self.drain_until = now + DRAIN_TOTAL
        return []

    def bytes_seen(self, now: int) -> None:
        """Output still arrives: the streams have not run dry."""
        if self.quiet_until is not None:
            self.quiet_until = now + DRAIN_QUIET

    def shift(self, span: int) -> None:
        """Our own reader kept the streams from running dry for `span` ms; in a stop the wait stays bounded."""
        if self.limit is not None or self.told:
            return
        if self.quiet_until is not None and self.drain_until is not None:
            self.quiet_until += span
            self.drain_until += span

    def streams_ended(self, now: int) -> list[Command]:
        """All output has been read."""
        self.drained = True
        self.quiet_until = self.drain_until = None
        return self._sweep(now) if self.exited is not None else []

    def _sweep(self, now: int) -> list[Command]:
        if self.swept or self.gone:
            return self._finish(now)
        self.swept = True
        return [SweepTree()]

    def leftovers(self, processes: tuple[str, ...], now: int) -> list[Command]:
        """The leader is gone, these are not. In a stop they are part of it; else they get a short grace."""
        if self.stopping:
            return []
        out: list[Command] = [Record(LeftoversStopped(now, processes, self.spec.keep_leftovers))]
        if self.spec.keep_leftovers:
            self.gone = True
            return [*out, *self._finish(now)]
        self.stopping = True
        self.kill_at = now + GRACE_LEFTOVERS
        return [*out, self._signalled(TERM)]

    def tree_gone(self, now: int) -> list[Command]:
        """A sweep found nothing alive."""
        self.gone = True
        self.term_at = self.kill_at = None
        # The news of the leader's own end may come after that of its tree's, but not much later.
        self.give_up_at = None if self.exited is not None else now + KILL_WAIT
        return self._finish(now) if self.drained else self._drain(now)

    def next_deadline(self) -> int | None:
        """Return the next instant at which a wait is over."""
        waits = (self.term_at, self.kill_at, self.give_up_at, self.drain_until, self.quiet_until)
        return None if self.over else min((at for at in waits if at is not None), default=None)

    def advance(self, now: int) -> list[Command]:
        """Act on the waits that are over by now."""
        if self._run_dry(now):
            return [AbandonPipes(), *self.streams_ended(now)]
        if self.kill_at is not None and self.kill_at <= now:
            self.term_at = self.kill_at = None
            self.give_up_at = now + KILL_WAIT
            return [Record(KillSent(now)), self._signalled(KILL)]
        if self.term_at is not None and self.term_at <= now:
            self.term_at = None
            return [self._signalled(TERM)]
        return self._give_up(now)

    def _run_dry(self, now: int) -> bool:
        waits = (self.drain_until, self.quiet_until)
        return any(at is not None and at <= now for at in waits)

    def _give_up(self, now: int) -> list[Command]:
        self.give_up_at = None
        fact = TreeUnkillable(now)
        out: list[Command] = [] if self.gone else [Record(fact), Notify(fact)]
        self.gone = True
        self.exited = self.exited or Exited()
        if not self.drained:
            self.drained = True
            self.quiet_until = self.drain_until = None
            out.append(AbandonPipes())
        return [*out, *self._finish(now)]

    def failed_to_spawn(self, status: int, now: int) -> list[Command]:
        """There was never a process."""
        self.reason = "spawn_failed"
        self.exited = Exited(code=status)
        self.drained = self.gone = True
        return self._finish(now)

    def _finish(self, now: int) -> list[Command]:
        end = self.exited
        if self.over or end is None or not (self.drained and self.gone):
            return []
        self.over = True
        reason = self.reason or "unknown"
        return [Record(RunEnded(now, reason, end.code, end.signal, self.origin, self.limit))]
