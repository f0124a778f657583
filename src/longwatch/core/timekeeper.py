"""Keeps the limits of one run in step with what the program did: what restarts a clock, what masks it.

Here are all observations of the program itself. Each answers with facts; whether a limit may act, and how a run
ends, is the watch's. Only what really happened moves a clock, and it is moved here or nowhere.
"""

from longwatch.core import holds as h
from longwatch.core import observations as o
from longwatch.core.facts import Fact, HoldBegan, HoldEnded, Lapse, LoopSuspected, SourceChanged
from longwatch.core.holds import Hold, Holds
from longwatch.core.ladder import note
from longwatch.core.limits import ORDER, Ask, Call, First, Limit, Linger, Loop, at_start
from longwatch.core.pauses import Pauses
from longwatch.core.repeats import Detector
from longwatch.core.sight import TRANSCRIPT, Sight
from longwatch.core.spec import STOP, LimitSpec, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

_ANY_PROGRESS = o.ProgressSeen("")


class Timekeeper:
    """The clocks of one run: its limits, the holds that mask them, pauses, and what was seen."""

    def __init__(self, spec: Spec, now: int) -> None:
        self.spec = spec
        self.sight = Sight(spec)
        self.holds = Holds()
        self.pauses = Pauses()
        self.limits = at_start(spec, now, self.pauses)
        self.result_ok: bool | None = None
        self._quiet_used = 0
        self._detector = Detector()
        self._marks: dict[str, tuple[str, str]] = {}
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

    # -- questions

    @property
    def eager(self) -> bool:
        """Whether progress must be told at once: it would end a hold or open an episode, which no deadline awaits."""
        awaited = self._find(First) is not None or bool(self.holds.of(h.READY) or self.holds.of(h.BLIND))
        return awaited or any(limit.fired and limit.restarts(_ANY_PROGRESS) for limit in self.limits)

    def next_deadline(self, *, limits: bool) -> int | None:
        """Return the next instant at which a hold ends, a note is due or, with `limits`, a limit is reached."""
        times = [self.holds.next_end(), *(limit.note_at(self.holds) for limit in self.limits)]
        if limits:
            times += [limit.deadline(self.holds) for limit in self.limits]
        return min((at for at in times if at is not None), default=None)

    def reached(self, now: int) -> Limit | None:
        """Return the first limit, in the order of the table, whose deadline has come."""
        due = ((limit, limit.deadline(self.holds)) for limit in self.limits)
        return next((limit for limit, at in due if at is not None and at <= now), None)

    def left(self, now: int) -> dict[str, int | None]:
        """Return what is left of each limit; of several calls or questions, of the nearest."""
        left: dict[str, int | None] = {}
        for limit in self.limits:
            at, known = limit.deadline(self.holds), left.setdefault(limit.name, None)
            if at is not None:
                left[limit.name] = max(0, at - now) if known is None else min(known, max(0, at - now))
        return left

    # -- time and what happened

    def pass_time(self, now: int) -> list[Fact]:
        """End the holds that are over by themselves, and note the limits whose half has passed."""
        out: list[Fact] = []
        for hold in self.holds.expired(now):
            out += self._hold_over(hold, now)
        for limit in self.limits:
            at = limit.note_at(self.holds)
            if at is not None and at <= now:
                out.append(note(limit, now))
        return out

    def redefine(self, spec: Spec, started: int) -> None:
        """Go on with other limits of the same program; what it has done so far holds on."""
        self.spec = spec
        before = {(limit.name, limit.subject): limit for limit in self.limits}
        fresh = [limit for limit in at_start(spec, started, self.pauses) if not self._had_its_day(limit)]
        named = {Call: "call", Ask: "ask"}
        for old in self.limits:
            rule = spec.limits.get(named.get(type(old), ""))
            if rule is not None and rule.budgets.get(old.tool, rule.window) > 0:
                fresh.append(type(old)(rule, old.since, old.subject, old.tool))
            elif isinstance(old, Linger) and "linger" in spec.limits:
                fresh.append(Linger(spec.limits["linger"], old.since, spec.held))
        for limit in fresh:
            limit.take_over(before.get((limit.name, limit.subject)), self.sight.last)
        self.limits = sorted(fresh, key=lambda each: ORDER[each.name])

    def _had_its_day(self, limit: Limit) -> bool:
        return isinstance(limit, First) and self.sight.last is not None

    def settled(self, until: int) -> None:
        """Whatever was due by then was done by whoever watched: notes and notices are not told twice.

        A stop is: it did not end the run, or was not begun.
        """
        self.pass_time(until)
        for limit in self.limits:
            due = limit.deadline(self.holds)
            if limit.action != STOP and due is not None and due <= until:
                limit.noted = limit.fired = limit.spent = True

    def hear(self, observation: o.Observation, now: int) -> list[Fact]:
        """Take note of what the program did; nothing for what is none of its doing."""
        handler = self._HANDLERS.get(type(observation))
        return [] if handler is None else handler(self, observation, now)

    def arm(self, now: int) -> list[Fact]:
        """The soft limit is over: an `idle` that waited for it may act."""
        return self._end_hold(h.UNARMED, now, "soft")

    def _progress(self, seen: o.ProgressSeen, now: int) -> list[Fact]:
        declared, first_sign = self.sight.progress(seen.source, seen.count, now)
        out = self._end_hold(h.BLIND, now) if first_sign else []
        if not declared:
            return out
        if self.spec.observed and seen.source != TRANSCRIPT:
            # A prompt that blinks is still a prompt: where records are read, they say when a turn begins.
            return out + self._stirred(seen, now)
        return out + self._moved(seen, now)

    def _moved(self, observation: o.Observation, now: int) -> list[Fact]:
        """Something the program did: its turn is running, its first sign is there, clocks restart."""
        return self._end_hold(h.READY, now) + self._stirred(observation, now)

    def _stirred(self, observation: o.Observation, now: int) -> list[Fact]:
        """The program gave a sign: its first is there, clocks restart."""
        self.limits = [limit for limit in self.limits if not isinstance(limit, First)]
        return self._end_hold(h.UNARMED, now, "first") + self._restart(observation, now)

    def _restart(self, observation: o.Observation, now: int) -> list[Fact]:
        for limit in self.limits:
            if limit.restarts(observation):
                limit.restart(now)
        return []

    def _alive(self, seen: o.AliveSeen, now: int) -> list[Fact]:
        self.sight.sign_of_life(seen.source, now)
        return []

    def _call_began(self, call: o.CallBegan, now: int) -> list[Fact]:
        self.sight.record(now)
        out = self._moved(call, now)
        if self.holds.begin(h.CALL, now, call.call) is None:
            return out
        if call.mark:
            self._marks[call.call] = (call.mark, call.tool)
        self._add(Call, "call", now, call.call, call.tool)
        return [*out, HoldBegan(now, h.CALL, call.call, tool=call.tool)]

    def _call_progressed(self, call: o.CallProgressed, now: int) -> list[Fact]:
        self.sight.record(now)
        return self._moved(call, now)

    def _call_ended(self, call: o.CallEnded, now: int) -> list[Fact]:
        self.sight.record(now)
        self._drop(Call, call.call)
        return self._end_hold(h.CALL, now, call.call) + self._moved(call, now) + self._repeated(call, now)

    def _repeated(self, call: o.CallEnded, now: int) -> list[Fact]:
        """Compare the call with those before it, by what was asked and what came back: polling is no loop."""
        mark, tool = self._marks.pop(call.call, ("", ""))
        if not mark:
            return []
        same = f"{mark}\x1f{call.mark}"
        loop = self._find(Loop)
        if isinstance(loop, Loop):
            loop.call_seen(same, tool, now)
        found = self._detector.saw(same)
        return [] if found is None else [LoopSuspected(now, tool, found.count, found.window)]

    def _paused(self, pause: o.Paused, now: int) -> list[Fact]:
        self.sight.record(now, progress=False)
        end = self.pauses.open(now, pause.span)
        if end is None or self.holds.begin(h.PAUSED, now, end=end) is None:
            return []
        return [HoldBegan(now, h.PAUSED, until=end)]

    def _resumed(self, resumed: o.Resumed, now: int) -> list[Fact]:
        self.sight.record(now, progress=False)
        self.pauses.close(now)
        out = self._end_hold(h.PAUSED, now)
        self._restart(resumed, now)
        return out

    def _asked(self, asked: o.Asked, now: int) -> list[Fact]:
        self.sight.record(now)
        if self.holds.begin(h.ASKED, now, asked.question) is None:
            return []
        self._add(Ask, "ask", now, asked.question)
        return [HoldBegan(now, h.ASKED, asked.question)]

    def _answered(self, answered: o.Answered, now: int) -> list[Fact]:
        self.sight.record(now)
        self._drop(Ask, answered.question)
        out = self._end_hold(h.ASKED, now, answered.question)
        return out + self._restart(answered, now) if out else []

    def _quiet_began(self, quiet: o.QuietBegan, now: int) -> list[Fact]:
        running = self.holds.of(h.QUIET)
        began = running[0].began if running else now
        end = min(now + quiet.span, began + self.spec.allow_quiet - self._quiet_used)
        if end <= now or self.holds.begin(h.QUIET, now, end=end) is None:
            return []
        return [HoldBegan(now, h.QUIET, until=end)]

    def _quiet_ended(self, ended: o.QuietEnded, now: int) -> list[Fact]:
        return self._end_hold(h.QUIET, now)

    def _turn_ended(self, ended: o.TurnEnded, now: int) -> list[Fact]:
        self.sight.record(now)
        return [HoldBegan(now, h.READY)] if self.holds.begin(h.READY, now) else []

    def _turn_began(self, began: o.TurnBegan, now: int) -> list[Fact]:
        self.sight.record(now, progress=False)
        self._detector.new_turn()
        loop = self._find(Loop)
        if isinstance(loop, Loop):
            loop.spoken_to(now)
        # What was taken for the final result was that of a turn.
        self.limits = [limit for limit in self.limits if not isinstance(limit, Linger)]
        self.result_ok = None
        return self._end_hold(h.READY, now)

    def _result_seen(self, result: o.ResultSeen, now: int) -> list[Fact]:
        self.sight.record(now)
        if self.result_ok is None and (spec := self._spec("linger")) is not None:
            self._insert(Linger(spec, now, self.spec.held))
        self.result_ok = result.ok
        return self._restart(result, now)

    def _effect_changed(self, changed: o.EffectChanged, now: int) -> list[Fact]:
        return self._restart(changed, now)

    def _source_lost(self, lost: o.SourceLost, now: int) -> list[Fact]:
        if not self.sight.lost(lost.source):
            return []
        if not self.sight.known:
            self.holds.begin(h.BLIND, now)
        return [SourceChanged(now, lost.source, "lost")]

    def _source_found(self, found: o.SourceFound, now: int) -> list[Fact]:
        if not self.sight.found(found.source):
            return []
        return [SourceChanged(now, found.source, "found"), *self._end_hold(h.BLIND, now)]

    def _stream_restarted(self, restarted: o.StreamRestarted, now: int) -> list[Fact]:
        """Calls of the old stream will never end: closing them is an end of calls, the restart itself is nothing."""
        out: list[Fact] = []
        for hold in self.holds.of(h.CALL):
            self._drop(Call, hold.subject)
            self._marks.pop(hold.subject, None)
            out += self._end_hold(h.CALL, now, hold.subject)
            self._restart(o.CallEnded(hold.subject, ok=False), now)
        return out

    def _lapsed(self, lapse: o.Lapsed, now: int) -> list[Fact]:
        for limit in self.limits:
            limit.shift(lapse.span)
        self.holds.shift(lapse.span)
        return [Lapse(now, lapse.span)]

    # -- holds and limits

    def _end_hold(self, kind: str, now: int, subject: str = "") -> list[Fact]:
        hold = self.holds.end(kind, subject)
        return [] if hold is None else self._hold_over(hold, now)

    def _hold_over(self, hold: Hold, now: int) -> list[Fact]:
        for limit in self.limits:
            limit.hold_ended(hold.kind, hold.began, now)
        if hold.kind == h.PAUSED:
            self.pauses.close(now, only_expired=True)
        if hold.kind == h.QUIET:
            idle = self._spec("idle")
            self._quiet_used += max(now - hold.began, idle.window if idle else 0)
            self._restart(o.QuietEnded(), now)
        if hold.kind in (h.BLIND, h.UNARMED):
            return []
        return [HoldEnded(now, hold.kind, hold.subject)]

    def _spec(self, name: str) -> LimitSpec | None:
        spec = self.spec.limits.get(name)
        return spec if spec is not None and spec.window > 0 else None

    def _find(self, rule: type[Limit]) -> Limit | None:
        return next((limit for limit in self.limits if isinstance(limit, rule)), None)

    def _add(self, rule: type[Limit], name: str, now: int, subject: str, tool: str = "") -> None:
        spec = self.spec.limits.get(name)
        if spec is not None and spec.budgets.get(tool, spec.window) > 0:
            self._insert(rule(spec, now, subject, tool))

    def _insert(self, limit: Limit) -> None:
        self.limits.append(limit)
        self.limits.sort(key=lambda each: ORDER[each.name])

    def _drop(self, rule: type[Limit], subject: str) -> None:
        self.limits = [x for x in self.limits if not (isinstance(x, rule) and x.subject == subject)]

    _HANDLERS: "ClassVar[dict[type[o.Observation], Callable[[Timekeeper, Any, int], list[Fact]]]]" = {
        o.ProgressSeen: _progress,
        o.AliveSeen: _alive,
        o.CallBegan: _call_began,
        o.CallProgressed: _call_progressed,
        o.CallEnded: _call_ended,
        o.Paused: _paused,
        o.Resumed: _resumed,
        o.Asked: _asked,
        o.Answered: _answered,
        o.QuietBegan: _quiet_began,
        o.QuietEnded: _quiet_ended,
        o.TurnEnded: _turn_ended,
        o.TurnBegan: _turn_began,
        o.ResultSeen: _result_seen,
        o.EffectChanged: _effect_changed,
        o.SourceLost: _source_lost,
        o.SourceFound: _source_found,
        o.StreamRestarted: _stream_restarted,
        o.Lapsed: _lapsed,
    }
