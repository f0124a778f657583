"""The table of limits, as code: one small class a row. Where this file and the table differ, the table is right.

    limit    counts from             restarted by                               held while
    idle     run start or first      progress, a call ends, Resumed,            call, asked, paused, quiet, ready
                                     an answer, a quiet ends
    first    run start               first progress (then gone)                 asked, paused, quiet, ready
    stall    run start               successful call, an answer, Resumed,       asked, paused, ready
                                     the end of a pause longer than the window
    call     each call's start       the call's own progress, an answer         asked, paused, quiet
    ceiling  run start               never                                      never (moved by pause credit)
    timeout  run start               never                                      never
    soft     run start               never                                      never (moved by the ceiling's credit)
    ask      each question           its answer                                 -
    linger   final result            progress other than bytes (gone with the   call, asked
                                     next turn: that result was not the final one)
    effect   run start               the effect changed                         asked, paused, ready
    loop     no clock: due when the same call came so many times in a row

The end of `ready` restarts what it held: after a long rest the first word of a turn must not find the limit
overdue. For the same reason a hold that outlasted the window of `first` or `effect` gives them another.
Comparison is `>=`; at the same millisecond the order of the table decides.
"""

from longwatch.core.holds import ASKED, BLIND, CALL, PAUSED, QUIET, READY, UNARMED, Holds
from longwatch.core.observations import (
    Answered,
    CallBegan,
    CallEnded,
    CallProgressed,
    EffectChanged,
    Observation,
    ProgressSeen,
    QuietEnded,
    ResultSeen,
    Resumed,
)
from longwatch.core.pauses import Credit, Pauses
from longwatch.core.repeats import Latch
from longwatch.core.spec import ACTIONS, NOTIFY, STOP, LimitSpec, Spec

VETOES = 3


class Limit:
    """One clock: when it counts from, what masks it, how far it may climb.

    `since` is the last restart, `floor` the end of the last hold, `extended` what a nudge or a veto added.
    An episode is one continuous silence: it begins with a restart, and each rung acts at most once in it.
    """

    name = ""
    reason = ""
    holds: frozenset[str] = frozenset()
    lapses = True
    vetoable = True
    highest = STOP

    def __init__(self, spec: LimitSpec, now: int, subject: str = "", tool: str = "") -> None:
        self.window = spec.budgets.get(tool, spec.window)
        named = tool in spec.budgets and tool not in spec.lent
        action = spec.budget_action if named else spec.action
        self.action = min(action, self.highest, key=ACTIONS.index)
        self.sighted = spec.sighted
        self.subject = subject
        self.tool = tool
        self.since = now
        self.floor = now
        self.extended = now
        self.vetoes = 0
        self.noted = self.fired = self.nudged = self.spent = False

    def restarts(self, observation: Observation) -> bool:
        """Whether what happened is a restart of this clock."""
        return False

    def restart(self, now: int) -> None:
        """Something moved the clock: a new episode begins."""
        self.since = max(self.since, now)
        self.vetoes = 0
        self.noted = self.fired = self.nudged = self.spent = False

    def hold_ended(self, kind: str, began: int, now: int) -> None:
        """A hold of this kind is over: from here on the limit may fire again."""
        if kind in self.holds:
            self.floor = max(self.floor, now)
            if kind == READY:
                self.restart(now)

    def shift(self, span: int) -> None:
        """Nobody watched for `span` ms: clocks of silence skip it, clocks of time do not."""
        if self.lapses:
            self.since += span
            self.floor += span
            self.extended += span

    def take_over(self, old: "Limit | None", last: int | None) -> None:
        """Go on where a limit of the same name was; where there was none, with the last sign of life it would heed."""
        if old is None:
            if last is not None and self.restarts(ProgressSeen("")):
                self.restart(last)
            return
        self.since, self.floor = old.since, old.floor
        if self.window == old.window:
            self.extended, self.vetoes = old.extended, old.vetoes
            self.noted, self.fired, self.nudged, self.spent = old.noted, old.fired, old.nudged, old.spent

    def deadline(self, holds: Holds) -> int | None:
        """Return the instant at which the limit fires; None while that cannot be foreseen or it has acted."""
        if self.spent:
            return None
        return self._masked(holds, max(self.since + self.window, self.extended))

    def note_at(self, holds: Holds) -> int | None:
        """Return the instant at which half of the window has passed; None when noted or fired."""
        if self.noted or self.fired:
            return None
        return self._masked(holds, self.since + (self.window + 1) // 2)

    def _masked(self, holds: Holds, due: int) -> int | None:
        mask = holds.mask(self.holds, self.floor)
        return None if mask is None else max(due, mask)

    def extend(self, now: int) -> None:
        """Give one more window."""
        self.extended = now + self.window


class Silence(Limit):
    """A limit of declared sources: silence that nobody could see does not count when sight comes back."""

    def hold_ended(self, kind: str, began: int, now: int) -> None:
        super().hold_ended(kind, began, now)
        if kind == BLIND:
            self.restart(now)


class Patient(Limit):
    """A limit that nothing but its own sign restarts: a hold that outlasted the window must not leave it overdue."""

    def hold_ended(self, kind: str, began: int, now: int) -> None:
        super().hold_ended(kind, began, now)
        if kind in self.holds and self.since + self.window <= now:
            self.restart(now)


class Idle(Silence):
    """No declared progress, although nothing explains the silence."""

    name = reason = "idle"
    holds = frozenset((CALL, ASKED, PAUSED, QUIET, READY, BLIND, UNARMED))
    _restarts = (ProgressSeen, CallBegan, CallProgressed, CallEnded, Resumed, Answered, QuietEnded)

    def restarts(self, observation: Observation) -> bool:
        return isinstance(observation, self._restarts)


class First(Patient, Silence):
    """No first sign of life; gone for good once there was one."""

    name = reason = "first"
    holds = frozenset((ASKED, PAUSED, QUIET, READY, BLIND))


class Stall(Limit):
    """No successful call, whatever else the program says."""

    name = "stall"
    reason = "stalled"
    holds = frozenset((ASKED, PAUSED, READY))

    def restarts(self, observation: Observation) -> bool:
        if isinstance(observation, CallEnded):
            return observation.ok
        return isinstance(observation, Answered | Resumed)

    def hold_ended(self, kind: str, began: int, now: int) -> None:
        super().hold_ended(kind, began, now)
        if kind == PAUSED and now - began > self.window:
            self.restart(now)


class StrictStall(Stall):
    """The same where `stall_when_ready` asks for the stricter clock: a finished turn is no excuse."""

    holds = frozenset((ASKED, PAUSED))


class Call(Limit):
    """One open call took too long; its own progress is the only thing that helps."""

    name = reason = "call"
    holds = frozenset((ASKED, PAUSED, QUIET))

    def restarts(self, observation: Observation) -> bool:
        if isinstance(observation, CallProgressed):
            return observation.call == self.subject
        return isinstance(observation, Answered)


class Credited(Limit):
    """A limit of time, not of silence: only the provider's pauses move it."""

    lapses = False

    def __init__(self, spec: LimitSpec, now: int, pauses: Pauses, cap: int) -> None:
        super().__init__(spec, now - spec.spent)
        self.pauses = pauses
        self.credit = Credit(cap)

    def take_over(self, old: Limit | None, last: int | None) -> None:
        super().take_over(old, last)
        if isinstance(old, Credited):
            self.credit.granted = min(old.credit.granted, self.credit.cap)

    def due(self) -> int:
        """Return the instant at which the limit is reached by what has been granted so far."""
        return self.since + self.window + self.credit.granted

    def deadline(self, holds: Holds) -> int | None:
        if self.spent:
            return None
        due = max(self.due(), self.extended)
        waiting = self.credit.open_until(self.pauses, due)
        return due if waiting is None else max(due, waiting)


class Ceiling(Credited):
    """The backstop: no run takes longer than this, its provider's pauses aside."""

    name = reason = "ceiling"


class Timeout(Limit):
    """A limit of elapsed time that the user asked for by name. Nothing moves it, no hook talks it away."""

    name = reason = "timeout"
    lapses = False
    vetoable = False

    def __init__(self, spec: LimitSpec, now: int) -> None:
        super().__init__(spec, now - spec.spent)


class Soft(Credited):
    """Past it a run is marked resumable and told once to wrap up; it is never stopped by it."""

    name = "soft"
    highest = NOTIFY


class Ask(Limit):
    """A human was asked and did not answer."""

    name = "ask"
    reason = "asked"


class Linger(Limit):
    """The final result is out, and the program stays."""

    name = "linger"
    reason = "lingered"
    holds = frozenset((CALL, ASKED))
    _restarts = (CallBegan, CallProgressed, CallEnded, ResultSeen)

    def __init__(self, spec: LimitSpec, now: int, byte_sources: tuple[str, ...]) -> None:
        super().__init__(spec, now)
        self.byte_sources = byte_sources

    def restarts(self, observation: Observation) -> bool:
        if isinstance(observation, ProgressSeen):
            return observation.source not in self.byte_sources
        return isinstance(observation, self._restarts)


class Effect(Patient):
    """Nothing of the work changed."""

    name = reason = "effect"
    holds = frozenset((ASKED, PAUSED, READY))

    def restarts(self, observation: Observation) -> bool:
        return isinstance(observation, EffectChanged)


class Loop(Limit):
    """The same call with the same result, again and again. It has no clock: it is due when its latch closes.

    Its `window` is how long the repeats took; any other call opens the latch and begins a new episode.
    """

    name = "loop"
    reason = "looping"

    def __init__(self, spec: LimitSpec, now: int, count: int) -> None:
        super().__init__(spec, now)
        self.latch = Latch(count)
        self.closed: int | None = None

    def take_over(self, old: Limit | None, last: int | None) -> None:
        super().take_over(old, last)
        if isinstance(old, Loop) and old.latch.count == self.latch.count:
            self.latch, self.closed, self.window = old.latch, old.closed, old.window

    def call_seen(self, mark: str, tool: str, now: int) -> None:
        """A call is over."""
        if not self.latch.saw(mark):
            if self.latch.run == 1:
                self.tool, self.closed = tool, None
                self.restart(now)
        elif self.closed is None:
            self.closed, self.window = now, now - self.since

    def spoken_to(self, now: int) -> None:
        """A user's word opens the latch: what comes now is asked for anew."""
        self.latch.reset()
        self.closed = None
        self.restart(now)

    def deadline(self, holds: Holds) -> int | None:
        return None if self.spent or self.closed is None else max(self.closed, self.extended)

    def note_at(self, holds: Holds) -> int | None:
        return None


RULES: tuple[type[Limit], ...] = (Idle, First, Stall, Call, Ceiling, Timeout, Soft, Ask, Linger, Effect)
NAMES = tuple(rule.name for rule in RULES)
_ALL: tuple[type[Limit], ...] = (*RULES, Loop)
ORDER = {rule.name: place for place, rule in enumerate(_ALL)}
REASON_OF = {rule.name: rule.reason for rule in _ALL if rule.reason}
#: Limits of silence whose notice any progress answers; that of `stall` takes a successful call.
SILENCES = (Idle.name, First.name, Call.name, Effect.name)


def at_start(spec: Spec, now: int, pauses: Pauses) -> list[Limit]:
    """Return the limits that count from the start of the run, in the order of the table."""
    found: list[Limit] = []
    for rule in RULES:
        limit = spec.limits.get(rule.name)
        if limit is None or limit.window <= 0 or rule in (Call, Ask, Linger):
            continue
        if issubclass(rule, Credited):
            cap = spec.pause_credit if rule is Ceiling or limit.derived else 0
            found.append(rule(limit, now, pauses, cap))
        else:
            found.append((StrictStall if rule is Stall and spec.stall_when_ready else rule)(limit, now))
    if spec.loop:
        found.append(Loop(LimitSpec(0), now, spec.loop))
    return found
