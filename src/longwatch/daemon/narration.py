"""What happens to harnesses, a short line each: for the foreground of `up`, and for the daemon's own log."""

from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.how import in_short
from longwatch.paths import rfc3339
from longwatch.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Why restarts end, in words.
GAVE_UP = {
    "alike": "it fails at once, each time with the same words",
    "intensity": "its budget of restarts is spent",
    "quick": "it ends at once, again and again",
    "spawn": "it cannot be started",
    "stalls": "it stalls again and again without any progress",
}


def line(fact: Fact) -> str:
    """Return the line about a fact; empty for those that another one tells."""
    say = TABLE.get(type(fact))
    if say is None:
        return ""
    words = say(fact)
    name = getattr(fact, "harness", "")
    return f"{name}: {words}" if name and words else words


def _opened(fact: f.RunOpened) -> str:
    why = "" if fact.trigger in ("autostart", "restart", "release", "manual") else f" by {fact.trigger}"
    return f"starts as {fact.run}{why}"


def _closed(fact: f.RunClosed) -> str:
    record = fact.record
    reason = record.get("termination_reason")
    if reason == "cancelled":
        return f"stopped ({record.get('origin') or 'by hand'})"
    if reason == "spawn_failed":
        notes = record.get("notes") or ("it cannot be started",)
        return str(notes[0])
    told = {"limit": None, "signal": None, "exit_code": None, "termination_reason": reason, **record}
    over = "stopped: " if told["limit"] else ""
    return f"{over}{in_short(told)} after {format_duration(int(record.get('duration_ms') or 0))}"


def _stalled(fact: f.Stalled) -> str:
    does = {"stop": "it is stopped", "restart": "it is restarted", "nudge": "it is nudged"}.get(
        fact.action, "it runs on"
    )
    again = f", {fact.stalls} times in a row" if fact.stalls > 1 else ""
    return f"no successful call for {format_duration(fact.idle)}{again}; {'only reported' if fact.gave_up else does}"


def _planned(fact: f.RestartPlanned) -> str:
    return f"starts again in {format_duration(fact.after)}" if fact.after else "starts again"


def _gave_up(fact: f.GaveUp) -> str:
    error = f": {fact.error}" if fact.error else ""
    return (
        f"gave up: {GAVE_UP.get(fact.cause, fact.cause)}{error}; longwatch restart {fact.harness} begins anew"
    )


def _held(fact: f.HeldBack) -> str:
    until = f", until {rfc3339(fact.until)}" if fact.until else ""
    return f"held: {fact.reason}{until}"


def _parked(fact: f.Parked) -> str:
    until = f" until {rfc3339(fact.until)}" if fact.until else ""
    return f"its provider wants nothing of it{until}: {fact.text}"


def _missed(fact: f.FiringMissed) -> str:
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
    return f"the file was read again; {'; '.join(said) or 'nothing has changed'}"


TABLE: "dict[type[Fact], Callable[[Any], str]]" = {
    f.RunOpened: _opened,
    f.RunClosed: _closed,
    f.Stalled: _stalled,
    f.RestartPlanned: _planned,
    f.Flapping: lambda fact: f"ended at once {fact.quick} times in a row",
    f.GaveUp: _gave_up,
    f.Parked: _parked,
    f.Unparked: lambda fact: "its provider takes requests again",
    f.HeldBack: _held,
    f.LetGo: lambda fact: "held no longer",
    f.FiringQueued: lambda fact: f"a firing waits: {fact.why}",
    f.FiringSkipped: lambda fact: f"a firing was skipped: {fact.why}",
    f.FiringMissed: _missed,
    f.LoopStopped: lambda fact: f"stopped: the same call of {fact.tool} came {fact.count} times in a row",
    f.IntentLost: lambda fact: f"whether it should run was lost ({fact.error}); the file decides",
    f.Unkillable: lambda fact: f"something of {fact.run} survives KILL; nothing is started meanwhile",
    f.AgentAsked: lambda fact: "its agent asks a human",
    f.AgentAnswered: lambda fact: "its agent got an answer",
    f.LimitNotice: lambda fact: (
        f"its {fact.limit} limit of {format_duration(fact.window)} was reached; it runs on"
    ),
    f.Adopted: lambda fact: f"found running as {fact.run}, and followed again",
    d.Reloaded: _reloaded,
    d.TickLate: lambda fact: (
        f"nobody looked for {format_duration(fact.span)}: stopped, asleep, or starved; that silence counts for nobody"
    ),
    d.LedgerFailed: lambda fact: f"the ledger cannot be written: {fact.error}",
    d.LedgerBack: lambda fact: "the ledger can be written again",
    d.NotifyFailed: lambda fact: f"{fact.channel} could not be told: {fact.error}",
}
