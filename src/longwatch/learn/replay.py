"""A session again, at its own times: what its agent did, where it was silent, and when each limit would have fired.

There is no second state machine: the records of a transcript are told to the very watch that supervises, by a clock
that stands at their times. Only what limits may do is left out, so that the session goes on as it did.
"""

from longwatch.core import facts as f
from longwatch.core import holds as h
from longwatch.core.commands import Command
from longwatch.core.commands import Record as Write
from longwatch.core.observations import ProgressSeen
from longwatch.core.record import Plain
from longwatch.core.sight import TRANSCRIPT
from longwatch.core.spec import NOTIFY, PAUSE_SLACK, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.learn.stretches import BY_HAND, Gap, Stretches
from longwatch.observe import events as e
from longwatch.observe.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What silence is put down to, the best excuse first; without any the model is at work.
STATES = (h.ASKED, h.PAUSED, h.CALL, h.READY)
WORKING = "working"
#: So many records without a time may come before the first one with it.
_EARLY = 1_000
#: Events that show that the agent lives, and nothing more: silence goes on through them.
_SIGNS = (e.Retry, e.Limited, e.Failed)


class Call(Plain):
    """A call: instants in ms since 1970, `ended` None where the file has no result; `ok` is what it truly came to."""

    __slots__ = ("began", "call", "ended", "exit_code", "ok", "sub", "tool", "why")

    def __init__(self, call: str, tool: str, began: int, sub: str = "") -> None:
        self.call = call
        self.tool = tool
        self.began = began
        self.sub = sub
        self.ended: int | None = None
        self.ok: bool | None = None
        self.exit_code: int | None = None
        self.why = ""


class Fired(Plain):
    """A limit that was reached. `quiet` is how long it stayed silent from then on, None where nothing came any more."""

    __slots__ = ("at", "limit", "quiet", "since", "subject", "window")

    def __init__(self, fact: f.LimitFired) -> None:
        self.limit = fact.limit
        self.at = fact.at
        self.since = fact.since
        self.window = fact.window
        self.subject = fact.subject or ""
        self.quiet: int | None = None


class Replay:
    """One session. Tell it records in the order of time, then `finish`; instants are ms since 1970.

    A record without a time is told at that of the one before it. `timed` tells whether there was any time at all:
    without one there are events and calls, and no silence that could be measured.
    """

    def __init__(self, limits: "Mapping[str, LimitSpec]") -> None:
        self.limits = dict(limits)
        self.first = self.last = 0
        self.timed = False
        self.records = 0
        self.kinds: dict[str, int] = {}
        self.calls: list[Call] = []
        self.gaps: list[Gap] = []
        self.fired: list[Fired] = []
        self.loops: list[f.LoopSuspected] = []
        self.left: dict[str, int | None] = {}
        self.stretches = Stretches()
        self._open: dict[str, Call] = {}
        self._watch: Watch | None = None
        self._moved = 0
        self._parked = 0
        #: What came before the first record with a time, as far as it may matter.
        self._early: list[Record] = []

    def tell(self, record: Record) -> int:
        """Take note of a record; return the instant at which it is told."""
        self.records += 1
        now = self._clock(record)
        watch = self._watch = self._watch or self._start(now)
        self._answered(watch.advance(now))
        if any(_moves(event, watch) for event in record.events):
            self._end_of_silence(watch, record, now)
        for event in record.events:
            self._note(event, record, now)
        for seen in record.observations(TRANSCRIPT):
            # Where no limit counts, progress is of no account but for what awaits it.
            if self.limits or type(seen) is not ProgressSeen or watch.eager:
                self._answered(watch.observe(seen, now))
        self.last = now
        return now

    def finish(self) -> None:
        """The file ends here; what would come next, if nothing else came, is in `left` (ms; None: not foreseeable)."""
        if self._watch is not None:
            self.left = self._watch.snapshot(self.last)["limits"]

    @property
    def open(self) -> list[Call]:
        """The calls without a result."""
        return list(self._open.values())

    def longest(self, count: int, *states: str) -> list[Gap]:
        """Return the longest silences, of all states or of some."""
        chosen = [gap for gap in self.gaps if not states or gap.state in states]
        return sorted(chosen, key=lambda gap: -gap.span)[:count]

    def _clock(self, record: Record) -> int:
        """Return when a record is told. The first one with a time begins the session: what came before came then."""
        if not self.timed and record.at is not None:
            self.timed, self.first = True, record.at
            watch = self._watch = self._start(record.at)
            for early in self._early:
                for seen in early.observations(TRANSCRIPT):
                    self._answered(watch.observe(seen, record.at))
            self._early.clear()
        elif not self.timed and len(self._early) < _EARLY:
            self._early.append(record)
        return max(self.last, record.at or 0)

    def _start(self, now: int) -> Watch:
        limits = {
            name: LimitSpec(limit.window, NOTIFY, limit.budgets, limit.derived, NOTIFY)
            for name, limit in self.limits.items()
        }
        self._moved = now
        return Watch(Spec(limits, sampled=(TRANSCRIPT,), observed=True), now)

    def _answered(self, commands: "Iterable[Command]") -> None:
        """Keep what the watch wrote down of limits, holds and repetitions."""
        for command in commands:
            fact = command.fact if isinstance(command, Write) else None
            if isinstance(fact, f.LimitFired):
                self.fired.append(Fired(fact))
            elif isinstance(fact, f.LoopSuspected):
                self.loops.append(fact)
            elif isinstance(fact, f.HoldBegan | f.HoldEnded) and self._watch is not None:
                self.stretches.hear(fact, self._watch.parked(fact.at))

    def _end_of_silence(self, watch: Watch, record: Record, now: int) -> None:
        span, parked = now - self._moved, watch.parked(now)
        if span > 0:
            state, subject = self._state(watch)
            gap = Gap(self._moved, span, state, subject, parked - self._parked, by_hand=_by_hand(record))
            self.gaps.append(gap)
        for fired in self.fired:
            if fired.quiet is None:
                fired.quiet = now - fired.at
        self._moved, self._parked = now, parked

    def _state(self, watch: Watch) -> tuple[str, str]:
        for state in STATES if watch.holds.all() else ():
            holds = [hold for hold in watch.holds.of(state) if not self._is_slack(hold)]
            if holds:
                return state, self.stretches.tool(holds[0].subject) if state == h.CALL else ""
        return WORKING, ""

    def _is_slack(self, hold: h.Hold) -> bool:
        """A pause holds limits for a while after its stated end, and explains no silence that began behind that."""
        return hold.kind == h.PAUSED and hold.end is not None and hold.end - PAUSE_SLACK <= self._moved

    def _note(self, event: e.Event, record: Record, now: int) -> None:
        self.kinds[event.kind] = self.kinds.get(event.kind, 0) + 1
        if isinstance(event, e.ToolCalled):
            call = self._open[event.call] = Call(event.call, event.tool, now, record.sub)
            self.calls.append(call)
        elif isinstance(event, e.ToolResult) and not event.partial and event.call in self._open:
            call = self._open.pop(event.call)
            call.ended, call.ok, call.exit_code, call.why = now, event.ok, event.exit_code, event.why
            self.stretches.result(event)
        elif isinstance(event, e.ToolResult | e.Heartbeat) and event.call and not _kept_alive(event):
            self.stretches.progressed(event.call, now, self._parked)
        elif isinstance(event, e.Restarted):
            self.stretches.forget()


def _moves(event: e.Event, watch: Watch) -> bool:
    """Whether an event ends a silence: signs of life do not, and no answer to what nobody asked."""
    if isinstance(event, e.Permission) and event.state != "waiting":
        return bool(watch.holds.of(h.ASKED))
    return not isinstance(event, _SIGNS) and not _kept_alive(event)


def _kept_alive(event: e.Event) -> bool:
    return isinstance(event, e.Heartbeat) and (event.what == "keep_alive" or not event.call)


def _by_hand(record: Record) -> bool:
    """Whether a human ended the silence before a record: with something new, by breaking off, by an answer."""
    return not record.sub and any(
        isinstance(event, e.SessionStarted)
        or (isinstance(event, e.TurnStarted) and event.by == "user")
        or (isinstance(event, e.TurnEnded) and event.reason == "aborted")
        or (isinstance(event, e.ToolResult) and event.why in BY_HAND)
        for event in record.events
    )
