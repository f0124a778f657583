"""From facts of the core to events of a trace: one table, so that a fact without a name is seen.

Facts speak of any run; a trace speaks of streams. Those that only a process can cause have no name here.
"""

from collections.abc import Callable
from typing import Any, cast

from longwatch.core import facts as f
from longwatch.core.holds import PAUSED
from longwatch.streams.trace import Child, Name, Scalar, Trace
from longwatch.units import format_duration

Fields = dict[str, Scalar]
Told = tuple[str, Fields]

#: A stream has no screen to type into, no process, no leftovers, and is not restarted by us.
NAMELESS = (f.Nudged, f.KillSent, f.LeaderExited, f.LeftoversStopped, f.RunParked, f.GaveUp)


class Teller:
    """Tells one stream's facts to a trace; it remembers what several facts say together.

    `last_event` is kept by whoever reads the stream: the kind of the newest event, `none` before the first.
    """

    def __init__(self, trace: Trace | Child) -> None:
        self.last_event = "none"
        self._trace = trace
        self._grants: dict[str, int] = {}
        self._pause_end: int | None = None

    def tell(self, fact: f.Fact) -> None:
        """Emit what a fact says; nothing for one without a name."""
        table = self._TABLE.get(type(fact))
        if table is not None:
            name, fields = table(self, fact)
            self._trace.emit(cast("Name", name), **fields)

    def _fired(self, fact: f.LimitFired) -> Told:
        fields: Fields = {
            "action": fact.action, "window_ms": fact.window, "elapsed_ms": max(0, fact.at - fact.since),
            "last_event": self.last_event,
        }  # fmt: skip
        return f"{fact.limit}_fired", fields | _given(subject=fact.subject, source=fact.source)

    def _granted(self, fact: f.ExtensionGranted) -> Told:
        count = self._grants[fact.limit] = self._grants.get(fact.limit, 0) + 1
        return "extension_granted", {
            "limit": fact.limit, "grant_ms": fact.grant, "total_ms": fact.total, "remaining_ms": fact.remaining,
            "count": count, "pause": self._pause(fact.at),
        }  # fmt: skip

    def _pause(self, now: int) -> str:
        """Describe the newest pause: a reader of one grant should not have to look for it."""
        if self._pause_end is None or self._pause_end <= now:
            return "over"
        return f"open, {format_duration(self._pause_end - now)} left"

    def _hold_began(self, fact: f.HoldBegan) -> Told:
        span: Fields = {} if fact.until is None else {"span_ms": max(0, fact.until - fact.at)}
        if fact.hold == PAUSED:
            self._pause_end = fact.until
            return "pause_began", {"span_ms": 0} | span
        given = _given(subject=fact.subject, tool=fact.tool)
        return "hold_began", {"hold": fact.hold} | given | span

    def _hold_ended(self, fact: f.HoldEnded) -> Told:
        if fact.hold == PAUSED:
            self._pause_end = None
            return "pause_ended", {}
        return "hold_ended", {"hold": fact.hold} | _given(subject=fact.subject)

    def _ended(self, fact: f.RunEnded) -> Told:
        given = _given(origin=fact.origin, limit=fact.limit)
        return "stream_ended", {"reason": fact.termination_reason} | given

    _TABLE: dict[type[f.Fact], "Callable[[Teller, Any], Told]"] = {
        f.RunStarted: lambda _, fact: ("stream_started", {}),
        f.LimitNoted: lambda _, fact: ("limit_noted", {"limit": fact.limit, "window_ms": fact.window}),
        f.LimitFired: _fired,
        f.StopAverted: lambda _, fact: ("stop_averted", {"limit": fact.limit, "why": fact.why}),
        f.StopBegan: lambda _, fact: ("stop_began", {"reason": fact.reason} | _given(origin=fact.origin)),
        f.TreeUnkillable: lambda _, fact: ("stream_stuck", {}),
        f.ExtensionGranted: _granted,
        f.HoldBegan: _hold_began,
        f.HoldEnded: _hold_ended,
        f.Lapse: lambda _, fact: ("lapse", {"span_ms": fact.span}),
        f.SourceChanged: lambda _, fact: ("source_changed", {"source": fact.source, "state": fact.state}),
        f.LoopSuspected: lambda _, fact: (
            "loop_suspected", {"tool": fact.tool, "count": fact.count, "window": fact.window},
        ),
        f.RunEnded: _ended,
    }  # fmt: skip


def _given(**fields: str | None) -> Fields:
    """Leave out what is empty: a scalar is never None."""
    return {name: value for name, value in fields.items() if value}


__all__ = ["NAMELESS", "Teller"]
