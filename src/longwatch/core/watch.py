"""The decision: one state machine for one incarnation of one watched thing.

Two verbs and two questions: `observe` and `advance` answer with commands, `next_deadline` and `snapshot` with
values. A deadline fires at the deadline, not at the moment somebody looked: `observe` first advances to the
instant of the observation, so extra ticks change nothing. At the same millisecond the deadline comes first.

A stop has two halves. When a limit fires, the watch asks for the post-mortem and waits; told `Prepared`, it
looks at its clocks again, and only if the silence still stands does it command the first signal.
"""

from longwatch.core import observations as o
from longwatch.core.commands import Command, Notify, Record
from longwatch.core.ending import Ending
from longwatch.core.facts import ExtensionGranted, Fact, LoopSuspected, RunStarted, StopAverted
from longwatch.core.ladder import climb
from longwatch.core.limits import VETOES, Credited, Limit, Soft, Stall
from longwatch.core.sight import TRANSCRIPT
from longwatch.core.spec import ACTIONS, NOTIFY, STOP, Spec
from longwatch.core.timekeeper import Timekeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar


class Watch:
    """Follows one run: told observations, holds limits, answers with commands. No I/O, no clock of its own."""

    def __init__(self, spec: Spec, now: int) -> None:
        self.spec = spec
        self.started = now
        self.ending = Ending(spec)
        self._clocks = Timekeeper(spec, now)
        self.sight = self._clocks.sight
        self.holds = self._clocks.holds
        self._now = now
        self._pending: Limit | None = None

    # -- the two verbs

    def start(self) -> list[Command]:
        """The program runs: the first fact of its events."""
        return [Record(RunStarted(self.started))]

    def observe(self, observation: o.Observation, now: int) -> list[Command]:
        """Take note of what happened at `now` (not before anything told earlier); return what to do."""
        out = self.advance(now)
        if self.over:
            return out
        facts = self._clocks.hear(observation, self._now)
        out += [command for fact in facts for command in self._told(fact)]
        handler = self._HANDLERS.get(type(observation))
        if handler is not None:
            out += handler(self, observation, self._now)
        return out

    def _told(self, fact: Fact) -> list[Command]:
        """Write a fact down. A loop is told to a human where one asked for an end of it: first warn, then act."""
        if isinstance(fact, LoopSuspected) and self.spec.loop:
            return [Record(fact), Notify(fact)]
        return [Record(fact)]

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

    def resume(self, told: "Iterable[tuple[int, o.Observation]]", until: int) -> None:
        """Take up a run that another watch has followed up to `until`.

        `told` is what is known of that time, in order: it moves the clocks, and nothing comes of it a second time.
        """
        for at, observation in told:
            self._clocks.hear(observation, min(at, until))
        self._clocks.settled(until)
        self._now = max(self._now, until)

    def redefine(self, spec: Spec) -> None:
        """Go on with other limits: clocks keep what they have counted, and a changed window is a new episode."""
        self.spec = self.ending.spec = spec
        self._clocks.redefine(spec, self.started)

    def allow(self, name: str, action: str | None = None) -> None:
        """Let a limit climb up to `action` from now on; None: as far as its own spec says."""
        for limit in self._clocks.limits:
            spec = self.spec.limits.get(limit.name)
            if limit.name == name and spec is not None:
                limit.action = min(action or spec.action, limit.highest, key=ACTIONS.index)

    # -- the two questions

    @property
    def over(self) -> bool:
        """Whether the run has ended and nothing will be commanded any more."""
        return self.ending.over

    def next_deadline(self) -> int | None:
        """Return the next instant at which `advance` has something to do; None: only an observation helps."""
        if self.ending.over or self.ending.began:
            return self.ending.next_deadline()
        return self._clocks.next_deadline(limits=self._pending is None)

    @property
    def eager(self) -> bool:
        """Whether progress must be told at once: it would end a hold or open an episode, which no deadline awaits."""
        return self._clocks.eager

    @property
    def result_ok(self) -> bool | None:
        """The status of the run's own final result; None when none was seen."""
        return self._clocks.result_ok

    def parked(self, now: int) -> int:
        """Return the ms spent in pauses of the provider up to now."""
        return self._clocks.pauses.parked(now)

    def snapshot(self, now: int) -> "dict[str, Any]":
        """Return what `ls`, `why` and metrics show: both clocks, sources, open holds, what is left of each limit."""
        return {
            "age_ms": now - self.started,
            **self.sight.snapshot(now),
            "holds": [hold.as_dict() for hold in self.holds.all()],
            "limits": self._clocks.left(now),
        }

    # -- the end

    def _prepared(self, prepared: o.Prepared, now: int) -> list[Command]:
        limit, self._pending = self._pending, None
        if limit is None or self.ending.began:
            return []
        limit.spent = False
        due = limit.deadline(self.holds)
        gone = limit not in self._clocks.limits
        if gone or due is None or due > now:
            moved = gone or limit.since + limit.window > now
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

    def _sign(self, seen: o.ProgressSeen | o.AliveSeen, now: int) -> list[Command]:
        self.ending.bytes_seen(now)
        return []

    def _lapsed(self, lapse: o.Lapsed, now: int) -> list[Command]:
        self.ending.shift(lapse.span)
        return []

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
        out: list[Command] = [Record(fact) for fact in self._clocks.pass_time(now)]
        if out or self._pending is not None:
            return out
        limit = self._clocks.reached(now)
        return [] if limit is None else self._reached(limit, now)

    def _reached(self, limit: Limit, now: int) -> list[Command]:
        if isinstance(limit, Credited) and (grant := limit.credit.grant(limit.pauses, now)):
            total, cap = limit.credit.granted, limit.credit.cap
            return [Record(ExtensionGranted(now, limit.name, grant, total, cap - total))]
        action = limit.action
        if self._blind(limit):
            # What is not seen may go on all the same: nothing is stopped for it.
            action = min(action, NOTIFY, key=ACTIONS.index)
        out = climb(limit, action, self.spec.nudge, self.sight.newest, now)
        if isinstance(limit, Soft):
            out += [Record(fact) for fact in self._clocks.arm(now)]
        if action == STOP and limit.spent:
            self._pending = limit
        return out

    def _blind(self, limit: Limit) -> bool:
        """Whether a limit rests on records of which none was ever read, or none can be read any more."""
        if not self.spec.observed or not (limit.sighted or isinstance(limit, Stall)):
            return False
        return not self.sight.records or (limit.sighted and self.sight.is_lost(TRANSCRIPT))

    _HANDLERS: "ClassVar[dict[type[o.Observation], Callable[[Watch, Any, int], list[Command]]]]" = {
        o.ProgressSeen: _sign,
        o.AliveSeen: _sign,
        o.Lapsed: _lapsed,
        o.Prepared: _prepared,
        o.Vetoed: _vetoed,
        o.StopRequested: _stop_requested,
        o.SpawnFailed: _spawn_failed,
        o.Exited: _exited,
        o.Drained: _drained,
        o.LeftoversFound: _leftovers_found,
        o.TreeGone: _tree_gone,
    }
