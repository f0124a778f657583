"""What happens to harnesses, a short line each: for the foreground of `up`, and for the daemon's own log."""

import time

from longwatch import vocabulary
from longwatch.core import daemon_facts as d
from longwatch.core import firing_facts as firings
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.core.outcomes import LIMITED
from longwatch.core.restarts import STALLED
from longwatch.core.service_words import AUTOSTART, MANUAL, RELEASE, RESTART
from longwatch.how import in_short
from longwatch.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Starts that need no reason.
_USUAL = (AUTOSTART, RESTART, RELEASE, MANUAL)


def line(fact: Fact) -> str:
    """Return the line about a fact; empty for those that another one tells."""
    say = TABLE.get(type(fact))
    if say is None:
        return ""
    words = say(fact)
    name = getattr(fact, "harness", "")
    return f"{name}: {words}" if name and words else words


def _opened(fact: f.RunOpened) -> str:
    why = "" if fact.trigger in _USUAL else f", {vocabulary.trigger(fact.trigger)}"
    return f"starts as {fact.run}{why}"


def _closed(fact: f.RunClosed) -> str:
    record = fact.record
    if record.get("termination_reason") == "spawn_failed":
        return str((record.get("notes") or (in_short(record),))[0])
    took = format_duration(int(record.get("duration_ms") or 0))
    if record.get("termination_reason") in LIMITED:
        return f"stopped after {took}: {in_short(record)}"
    return f"{in_short(record)} after {took}"


def _planned(fact: f.RestartPlanned) -> str:
    return f"starts again in {format_duration(fact.after)}" if fact.after else "starts again"


def _gave_up(fact: f.GaveUp) -> str:
    error = f": {fact.error}" if fact.error else ""
    follows = f"; {vocabulary.ONLY_TOLD}" if fact.cause == STALLED else ""
    again = vocabulary.command("restart", (fact.harness,))
    return f"gave up: {vocabulary.GAVE_UP[fact.cause]}{error}{follows}; to begin anew: {again}"


def _held(fact: f.HeldBack) -> str:
    return f"held: {fact.reason or vocabulary.HOLDS[fact.holds[0]]}{_until(fact.until)}"


def _parked(fact: f.Parked) -> str:
    limit = f"{vocabulary.PROVIDER.get(fact.cls, 'a limit')} of its provider"
    return f"parked because of {limit}{_until(fact.until)}" + (f": {fact.text}" if fact.text else "")


def _until(wall: int | None) -> str:
    return "" if wall is None else f", until {vocabulary.clock(wall, time.time_ns() // 1_000_000)}"


def _missed(fact: firings.FiringMissed) -> str:
    return f"{fact.count} due {'time was' if fact.count == 1 else 'times were'} missed"


def _reloaded(fact: d.Reloaded) -> str:
    if fact.errors:
        return "the file has errors; what was stays"
    parts = (
        ("applied", fact.applied),
        ("pending restart", fact.pending),
        ("gone from the file", fact.removed),
    )
    said = [f"{head}: {', '.join(names)}" for head, names in parts if names]
    return "; ".join(["the file was read again", *said])


TABLE: "dict[type[Fact], Callable[[Any], str]]" = {
    f.RunOpened: _opened,
    f.RunClosed: _closed,
    f.Stalled: vocabulary.stall,
    f.RestartPlanned: _planned,
    f.Flapping: lambda fact: f"ended soon after its start {fact.quick} times in a row",
    f.GaveUp: _gave_up,
    f.Parked: _parked,
    f.Unparked: lambda fact: "its provider takes requests again",
    f.HeldBack: _held,
    f.LetGo: lambda fact: "held no longer",
    firings.FiringQueued: lambda fact: f"a firing waits: {vocabulary.firing(fact.why)}",
    firings.FiringSkipped: lambda fact: f"a firing was skipped: {vocabulary.firing(fact.why)}",
    firings.FiringMissed: _missed,
    f.LoopStopped: lambda fact: f"stopped: the same call of {fact.tool} came {fact.count} times in a row",
    f.IntentLost: lambda fact: f"whether it should run was lost ({fact.error}); the file decides",
    f.Unkillable: lambda fact: (
        f"some processes of {fact.run} survive KILL; no second copy is started beside them"
    ),
    f.AgentAsked: lambda fact: "its agent asks a human",
    f.AgentAnswered: lambda fact: "its agent got an answer",
    f.LimitNotice: lambda fact: f"{vocabulary.limit(fact.limit, fact.window)}; it runs on",
    f.Adopted: lambda fact: f"found running as {fact.run}, and followed again",
    d.Reloaded: _reloaded,
    d.TickLate: lambda fact: f"the supervisor was held up {vocabulary.late(fact.span)}",
    d.LedgerFailed: lambda fact: f"the ledger cannot be written: {fact.error}",
    d.LedgerBack: lambda fact: "the ledger can be written again",
    d.NotifyFailed: lambda fact: f"{fact.channel} could not be told: {fact.error}",
}
