"""The decision: one state machine for one incarnation of one watched thing.

Two verbs and two questions: `observe` and `advance` answer with commands, `next_deadline` and `snapshot` with
values. A deadline fires at the deadline, not at the moment somebody looked: `observe` first advances to the
instant of the observation, so extra ticks change nothing. At the same millisecond the deadline comes first.

A stop has two halves. When a limit fires, the watch asks for the post-mortem and waits; told `Prepared`, it
looks at its clocks again, and only if the silence still stands does it command the first signal.
"""

from longwatch.core import holds as h
from longwatch.core import observations as o
from longwatch.core.commands import Command, Record
from longwatch.core.ending import Ending
from longwatch.core.facts import (
    ExtensionGranted,
    HoldBegan,
    HoldEnded,
    Lapse,
    RunStarted,
    SourceChanged,
    StopAverted,
)
from longwatch.core.holds import Hold, Holds
from longwatch.core.ladder import climb, note
from longwatch.core.limits import (
    ORDER,
    VETOES,
    Ask,
    Call,
    Credited,
    First,
    Limit,
    Linger,
    Soft,
    Stall,
    at_start,
)
from longwatch.core.pauses import Pauses
from longwatch.core.sight import Sight
from longwatch.core.spec import NOTIFY, STOP, LimitSpec, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Watch:
    """Follows one run: told observations, holds limits, answers with commands. No I/O, no clock of its own."""

    def __init__(self, spec: Spec, now: int) -> None:
        self.spec = spec
        self.started = now
        self.sight = Sight(spec)
        self.holds = Holds()
        self.ending = Ending(spec)
        self.result_ok: bool | None = None
        self._now = now
        self._pauses = Pauses()
        self._limits = at_start(spec, now, self._pauses)
        self._pending: Limit | None = None
        self._quiet_used = 0
        self._hold_at_start(now)

    def _hold_at_start(self, now: int) -> None:
        if self.spec.resident:
            self.holds.begin(h.READY, now)
        if not self.sight.known:
            self.holds.begin(h.BLIND, now)
        if self.spec.armed_by_soft:
            self.holds.begin(h.UNARMED, now, "soft")
        if self._find(First) is not None:
            self.holds.begin(h.UNARMED, now, "first")

    # -- the two verbs

    def start(self) -> list[Command]:
        """The program runs: the first fact of its events."""
        return [Record(RunStarted(self.started))]

    def observe(self, observation: o.Observation, now: int) -> list[Command]:
        """Take note of what happened at `now` (not before anything told earlier); return what to do."""
        out = self.advance(now)
        handler = _HANDLERS.get(type(observation))
        if handler is not None and not self.over:
            out += handler(self, observation, self._now)
        return out

    def advance(self, now: int) -> list[Command]:
        """Let time pass up to `now`: everything due by then happens, each at its own instant.

        Waits of the end are waits for what we did, so they count from when we did it: a late KILL gets its wait.
        """
        out: list[Command] = []
        while (due := self.next_deadline()) is not None and due <= now:
            self._now = max(self._now, now if self.ending.began else due)
            out += self._due(self._now)
        self._now = max(self._now, now)
        return out

    # -- the two questions

    @property
    def over(self) -> bool:
        """Whether the run has ended and nothing will be commanded any more."""
        return self.ending.over

    def next_deadline(self) -> int | None:
        """Return the next instant at which `advance` has something to do; None: only an observation helps."""
        if self.ending.over or self.ending.began:
            return self.ending.next_deadline()
        times = [self.holds.next_end(), *(limit.note_at(self.holds) for limit in self._limits)]
        if self._pending is None:
            times += [limit.deadline(self.holds) for limit in self._limits]
        return min((at for at in times if at is not None), default=None)

    @property
    def eager(self) -> bool:
        """Whether progress must be told at once: it would end a hold or open an episode, which no deadline awaits."""
        awaited = self._find(First) is not None or bool(self.holds.of(h.READY) or self.holds.of(h.BLIND))
        return awaited or any(limit.fired and limit.restarts(_ANY_PROGRESS) for limit in self._limits)

    def parked(self, now: int) -> int:
        """Return the ms spent in pauses of the provider up to now."""
        return self._pauses.parked(now)

    def snapshot(self, now: int) -> "dict[str, Any]":
        """Return what `ls`, `why` and metrics show: both clocks, sources, open holds, what is left of each limit."""
        return {
            "age_ms": now - self.started,
            **self.sight.snapshot(now),
            "holds": [hold.as_dict() for hold in self.holds.all()],
            "limits": self._left(now),
        }

    def _left(self, now: int) -> dict[str, int | None]:
        """Return what is left of each limit; of several calls or questions, of the nearest."""
        left: dict[str, int | None] = {}
        for limit in self._limits:
            at, known = limit.deadline(self.holds), left.setdefault(limit.name, None)
            if at is not None:
                left[limit.name] = max(0, at - now) if known is None else min(known, max(0, at - now))
        return left

    # -- what happened

    def _progress(self, seen: o.ProgressSeen, now: int) -> list[Command]:
        declared, first_sign = self.sight.progress(seen.source, seen.count, now)
        self.ending.bytes_seen(now)
        out = self._end_hold(h.BLIND, now) if first_sign else []
        if not declared:
            return out
        return out + self._moved(seen, now)

    def _moved(self, observation: o.Observation, now: int) -> list[Command]:
        """Something the program did: its turn is running, its first sign is there, clocks restart."""
        self._limits = [limit for limit in self._limits if not isinstance(limit, First)]
        out = self._end_hold(h.READY, now) + self._end_hold(h.UNARMED, now, "first")
        return out + self._restart(observation, now)

    def _restart(self, observation: o.Observation, now: int) -> list[Command]:
        for limit in self._limits:
            if limit.restarts(observation):
                limit.restart(now)
        return []

    def _alive(self, seen: o.AliveSeen, now: int) -> list[Command]:
        self.sight.sign_of_life(seen.source, now)
        self.ending.bytes_seen(now)
        return []

    def _call_began(self, call: o.CallBegan, now: int) -> list[Command]:
        self.sight.record(now)
        out = self._moved(call, now)
        if self.holds.begin(h.CALL, now, call.call) is None:
            return out
        self._add(Call, "call", now, call.call, call.tool)
        return [*out, Record(HoldBegan(now, h.CALL, call.tool or call.call))]

    def _call_progressed(self, call: o.CallProgressed, now: int) -> list[Command]:
        self.sight.record(now)
        return self._moved(call, now)

    def _call_ended(self, call: o.CallEnded, now: int) -> list[Command]:
        self.sight.record(now)
        self._drop(Call, call.call)
        return self._end_hold(h.CALL, now, call.call) + self._moved(call, now)

    def _paused(self, pause: o.Paused, now: int) -> list[Command]:
        self.sight.record(now, progress=False)
        end = self._pauses.open(now, pause.span)
        if end is None or self.holds.begin(h.PAUSED, now, end=end) is None:
            return []
        return [Record(HoldBegan(now, h.PAUSED, until=end))]

    def _resumed(self, resumed: o.Resumed, now: int) -> list[Command]:
        self.sight.record(now, progress=False)
        self._pauses.close(now)
        out = self._end_hold(h.PAUSED, now)
        self._restart(resumed, now)
        return out

    def _asked(self, asked: o.Asked, now: int) -> list[Command]:
        self.sight.record(now)
        if self.holds.begin(h.ASKED, now, asked.question) is None:
            return []
        self._add(Ask, "ask", now, asked.question)
        return [Record(HoldBegan(now, h.ASKED, asked.question))]

    def _answered(self, answered: o.Answered, now: int) -> list[Command]:
        self.sight.record(now)
        self._drop(Ask, answered.question)
        out = self._end_hold(h.ASKED, now, answered.question)
        return out + self._restart(answered, now) if out else []

    def _quiet_began(self, quiet: o.QuietBegan, now: int) -> list[Command]:
        running = self.holds.of(h.QUIET)
        began = running[0].began if running else now
        end = min(now + quiet.span, began + self.spec.allow_quiet - self._quiet_used)
        if end <= now or self.holds.begin(h.QUIET, now, end=end) is None:
            return []
        return [Record(HoldBegan(now, h.QUIET, until=end))]

    def _quiet_ended(self, ended: o.QuietEnded, now: int) -> list[Command]:
        return self._end_hold(h.QUIET, now)

    def _turn_ended(self, ended: o.TurnEnded, now: int) -> list[Command]:
        self.sight.record(now)
        return [Record(HoldBegan(now, h.READY))] if self.holds.begin(h.READY, now) else []

    def _turn_began(self, began: o.TurnBegan, now: int) -> list[Command]:
        self.sight.record(now, progress=False)
        return self._end_hold(h.READY, now)

    def _result_seen(self, result: o.ResultSeen, now: int) -> list[Command]:
        self.sight.record(now)
        if self.result_ok is None and (spec := self._spec("linger")) is not None:
            self._insert(Linger(spec, now, self.spec.held))
        self.result_ok = result.ok
        return self._restart(result, now)

    def _effect_changed(self, changed: o.EffectChanged, now: int) -> list[Command]:
        return self._restart(changed, now)

    def _source_lost(self, lost: o.SourceLost, now: int) -> list[Command]:
        if not self.sight.lost(lost.source):
            return []
        if not self.sight.known:
            self.holds.begin(h.BLIND, now)
        return [Record(SourceChanged(now, lost.source, "lost"))]

    def _source_found(self, found: o.SourceFound, now: int) -> list[Command]:
        if not self.sight.found(found.source):
            return []
        return [Record(SourceChanged(now, found.source, "found")), *self._end_hold(h.BLIND, now)]

    def _stream_restarted(self, restarted: o.StreamRestarted, now: int) -> list[Command]:
        """Calls of the old stream will never end: closing them is an end of calls, the restart itself is nothing."""
        out: list[Command] = []
        for hold in self.holds.of(h.CALL):
            self._drop(Call, hold.subject)
            out += self._end_hold(h.CALL, now, hold.subject)
            self._restart(o.CallEnded(hold.subject, ok=False), now)
        return out

    def _lapsed(self, lapse: o.Lapsed, now: int) -> list[Command]:
        for limit in self._limits:
            limit.shift(lapse.span)
        self.holds.shift(lapse.span)
        self.ending.shift(lapse.span)
        return [Record(Lapse(now, lapse.span))]

    # -- the end

    def _prepared(self, prepared: o.Prepared, now: int) -> list[Command]:
        limit, self._pending = self._pending, None
        if limit is None or self.ending.began:
            return []
        limit.spent = False
        due = limit.deadline(self.holds)
        if limit not in self._limits or due is None or due > now:
            moved = limit not in self._limits or limit.since + limit.window > now
            why = "progress" if moved else "held"
            return [Record(StopAverted(now, limit.name, why))]
        return self.ending.stop(limit.reason, now, limit=limit.name)

    def _vetoed(self, veto: o.Vetoed, now: int) -> list[Command]:
        limit = self._pending
        if limit is None or not limit.vetoable or limit.vetoes >= VETOES:
            return self._prepared(o.Prepared(), now)
        self._pending = None
        limit.vetoes += 1
        limit.spent = False
        limit.extend(now)
        return [Record(StopAverted(now, limit.name, "veto"))]

    def _stop_requested(self, ask: o.StopRequested, now: int) -> list[Command]:
        self._pending = None
        return self.ending.requested(ask, now)

    def _spawn_failed(self, failed: o.SpawnFailed, now: int) -> list[Command]:
        return self.ending.failed_to_spawn(failed.status, now)

    def _exited(self, exited: o.Exited, now: int) -> list[Command]:
        averted, self._pending = self._pending, None
        out: list[Command] = []
        if averted is not None:
            out.append(Record(StopAverted(now, averted.name, "exited")))
        return out + self.ending.leader_exited(exited, now)

    def _drained(self, drained: o.Drained, now: int) -> list[Command]:
        return self.ending.streams_ended(now)

    def _leftovers_found(self, found: o.LeftoversFound, now: int) -> list[Command]:
        return self.ending.leftovers(found.processes, now)

    def _tree_gone(self, gone: o.TreeGone, now: int) -> list[Command]:
        return self.ending.tree_gone(now)

    # -- time

    def _due(self, now: int) -> list[Command]:
        """Do the first thing that is due: waits of the end, ends of holds, notes, then limits in their order."""
        if self.ending.began:
            return self.ending.advance(now)
        out: list[Command] = []
        for hold in self.holds.expired(now):
            out += self._hold_over(hold, now)
        for limit in self._limits:
            at = limit.note_at(self.holds)
            if at is not None and at <= now:
                out += note(limit, now)
        if out or self._pending is not None:
            return out
        return self._fire(now)

    def _fire(self, now: int) -> list[Command]:
        for limit in self._limits:
            due = limit.deadline(self.holds)
            if due is not None and due <= now:
                return self._reached(limit, now)
        return []

    def _reached(self, limit: Limit, now: int) -> list[Command]:
        if isinstance(limit, Credited) and (grant := limit.credit.grant(self._pauses, now)):
            total, cap = limit.credit.granted, limit.credit.cap
            return [Record(ExtensionGranted(now, limit.name, grant, total, cap - total))]
        action = limit.action
        if isinstance(limit, Stall) and self.spec.observed and not self.sight.records:
            action = min(action, NOTIFY, key=_ACTION_ORDER)
        out = climb(limit, action, self.spec.nudge, self.sight.newest, now)
        if isinstance(limit, Soft):
            out += self._end_hold(h.UNARMED, now, "soft")
        if action == STOP and limit.spent:
            self._pending = limit
        return out

    # -- holds and limits

    def _end_hold(self, kind: str, now: int, subject: str = "") -> list[Command]:
        hold = self.holds.end(kind, subject)
        return [] if hold is None else self._hold_over(hold, now)

    def _hold_over(self, hold: Hold, now: int) -> list[Command]:
        for limit in self._limits:
            limit.hold_ended(hold.kind, hold.began, now)
        if hold.kind == h.PAUSED:
            self._pauses.close(now, only_expired=True)
        if hold.kind == h.QUIET:
            idle = self._spec("idle")
            self._quiet_used += max(now - hold.began, idle.window if idle else 0)
            self._restart(o.QuietEnded(), now)
        if hold.kind in (h.BLIND, h.UNARMED):
            return []
        return [Record(HoldEnded(now, hold.kind, hold.subject))]

    def _spec(self, name: str) -> LimitSpec | None:
        spec = self.spec.limits.get(name)
        return spec if spec is not None and spec.window > 0 else None

    def _find(self, rule: type[Limit]) -> Limit | None:
        return next((limit for limit in self._limits if isinstance(limit, rule)), None)

    def _add(self, rule: type[Limit], name: str, now: int, subject: str, tool: str = "") -> None:
        spec = self.spec.limits.get(name)
        if spec is not None and spec.budgets.get(tool, spec.window) > 0:
            self._insert(rule(spec, now, subject, tool))

    def _insert(self, limit: Limit) -> None:
        self._limits.append(limit)
        self._limits.sort(key=lambda each: ORDER[each.name])

    def _drop(self, rule: type[Limit], subject: str) -> None:
        self._limits = [x for x in self._limits if not (isinstance(x, rule) and x.subject == subject)]


_ANY_PROGRESS = o.ProgressSeen("")
_ACTION_ORDER = ("none", "notify", "nudge", "stop").index
_HANDLERS: "dict[type[o.Observation], Callable[[Watch, Any, int], list[Command]]]" = {
    o.ProgressSeen: Watch._progress,
    o.AliveSeen: Watch._alive,
    o.CallBegan: Watch._call_began,
    o.CallProgressed: Watch._call_progressed,
    o.CallEnded: Watch._call_ended,
    o.Paused: Watch._paused,
    o.Resumed: Watch._resumed,
    o.Asked: Watch._asked,
    o.Answered: Watch._answered,
    o.QuietBegan: Watch._quiet_began,
    o.QuietEnded: Watch._quiet_ended,
    o.TurnEnded: Watch._turn_ended,
    o.TurnBegan: Watch._turn_began,
    o.ResultSeen: Watch._result_seen,
    o.EffectChanged: Watch._effect_changed,
    o.SourceLost: Watch._source_lost,
    o.SourceFound: Watch._source_found,
    o.StreamRestarted: Watch._stream_restarted,
    o.Lapsed: Watch._lapsed,
    o.Prepared: Watch._prepared,
    o.Vetoed: Watch._vetoed,
    o.StopRequested: Watch._stop_requested,
    o.SpawnFailed: Watch._spawn_failed,
    o.Exited: Watch._exited,
    o.Drained: Watch._drained,
    o.LeftoversFound: Watch._leftovers_found,
    o.TreeGone: Watch._tree_gone,
}
