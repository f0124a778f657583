"""Facts in words. The table at the end is the whole of it: which fact is which notice, and what it says.

A title is a name and two or three words, a message is one sentence, a hint is the command that comes next.
"""
# ruff: noqa: ARG001 - the handlers of the table share one signature

import time

from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND
from longwatch.notify.word import Word
from longwatch.paths import rfc3339
from longwatch.units import ago, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.notify.incidents import Telling

VERSION = 1
#: A shorter absence of the supervisor changes nothing that anybody could see.
LATE = 10 * SECOND
#: How many names a sentence can hold; all of them are in `harnesses`.
NAMES = 40
_HINTED = 8
#: Holds that end by a human's hand alone.
REFUSALS = {
    "login": "was refused by its provider", "money": "was refused by its provider", "budget": "has spent its budget"
}  # fmt: skip
#: What begins a run of a harness that is meant to live; all else is a schedule, a trigger or a human.
LIVING = ("autostart", "restart", "release")
BAD = ("failed", "timed_out")
_DAY = 24 * 60 * MINUTE
_LIMITS = {
    "idle": "no progress for {}", "first": "no first progress within {}", "call": "a call has taken {}",
    "ceiling": "it has run for {}", "timeout": "it has run for {}", "soft": "it has run for {} and should wrap up",
    "ask": "a question has waited for {}", "linger": "it is still there {} after its result",
    "effect": "nothing has changed for {}",
}  # fmt: skip
#: Limits of silence: progress is their end.
_SILENCES = ("idle", "first", "call", "effect")
_CAUSES = {
    "intensity": "it was restarted too often", "quick": "each time it ended soon after its start",
    "alike": "each time it ended soon, with the same error", "spawn": "it could not be started",
}  # fmt: skip
_DOES = {"restart": "it is restarted", "stop": "it is stopped", "nudge": "it is nudged"}


class Known(Plain):
    """What earlier facts said of a harness, for the words of the next one."""

    __slots__ = ("exit_code", "held", "restarts", "run", "state", "trigger")

    def __init__(self) -> None:
        self.state = ""
        self.run = ""
        self.trigger = ""
        self.exit_code: int | None = None
        self.restarts = 0
        self.held = False

    def heard(self, fact: Fact) -> None:
        """Take in what may be asked for later."""
        if isinstance(fact, f.StateChanged):
            self.state = fact.state
        elif isinstance(fact, f.RunOpened):
            self.run, self.trigger = fact.run, fact.trigger
        elif isinstance(fact, f.RunClosed):
            code = fact.record.get("exit_code")
            self.exit_code = code if isinstance(code, int) else None
        elif isinstance(fact, f.RestartPlanned):
            self.restarts += 1
        elif isinstance(fact, f.HeldBack | f.LetGo):
            self.held = isinstance(fact, f.HeldBack)
        elif isinstance(fact, f.Recovered):
            self.restarts = 0


def word(fact: Fact, known: Known) -> Word | None:
    """Return what is to be said of a fact; None for those that are no news."""
    say = TABLE.get(type(fact))
    found = None if say is None else say(fact, known)
    if found is not None:
        found.state = found.state or known.state
    return found


def _failed(fact: f.StateChanged, known: Known) -> Word | None:
    if fact.state != "failed":
        return None
    return Word(
        "failed", fact.harness, "failed", many="failed", detail="and is not started again", cause=fact.why,
        hint="longwatch start {names}", exit_code=known.exit_code, opens=True,
    )  # fmt: skip


def _refused(fact: f.HeldBack, known: Known) -> Word | None:
    kind = next((kind for kind in fact.holds if kind in REFUSALS), None)
    if kind is None:
        return None
    return Word(
        "failed", fact.harness, REFUSALS[kind], many="were refused, or have spent their budget",
        detail="and is held until somebody starts it", cause=fact.reason, hint="longwatch start {names}", opens=True,
    )  # fmt: skip


def _flapping(fact: f.Flapping, known: Known) -> Word:
    return Word(
        "flapping", fact.harness, "is flapping", many="are flapping",
        detail=f"{fact.quick} times in a row it ended soon after its start", hint="longwatch why {names}",
        exit_code=known.exit_code, restarts=known.restarts, count=fact.quick, opens=True,
    )  # fmt: skip


def _gave_up(fact: f.GaveUp, known: Known) -> Word:
    if fact.cause == "stalls":
        return Word(
            "stalled", fact.harness, "stalled", detail=f"and restarts did not help; now it is only reported; longwatch restart {fact.harness} begins anew", run=known.run,
            hint="longwatch restart {names}", opens=True, key=_LAST_STALL,
        )  # fmt: skip
    return Word(
        "gave_up", fact.harness, "was given up", many="were given up",
        detail=f"{_CAUSES.get(fact.cause, fact.cause)}; it is not started again", cause=fact.error,
        hint="longwatch start {names}", exit_code=known.exit_code, restarts=known.restarts, opens=True,
    )  # fmt: skip


#: An ordinary stall before it must not keep the last one from being told.
_LAST_STALL = "stalled for good"


def _stalled(fact: f.Stalled, known: Known) -> Word:
    acts = _DOES.get(fact.action) if not fact.gave_up else None
    detail = f"no successful call for {ago(fact.idle)} (window {format_duration(fact.window)})"
    if fact.gave_up:
        detail += f", {fact.stalls} times in a row; now it is only reported; longwatch restart {fact.harness} begins anew"
    else:
        detail += f"; {acts or 'it runs on'}" + (
            f", for the {_nth(fact.stalls)} time" if fact.stalls > 1 else ""
        )
    return Word(
        "stalled", fact.harness, "stalled", detail=detail, hint="" if acts else "longwatch restart {names}",
        run=fact.run, restarts=known.restarts, count=fact.stalls, idle_ms=fact.idle, tree=fact.tree,
        opens=fact.gave_up or fact.action not in ("restart", "stop"), key=_LAST_STALL if fact.gave_up else "",
    )  # fmt: skip


def _limit(fact: f.LimitNotice, known: Known) -> Word:
    silence = fact.limit in _SILENCES
    words = _LIMITS.get(fact.limit, f"{fact.limit} of {{}}").format(format_duration(fact.window))
    return Word(
        "limit", fact.harness, f"reached its limit {fact.limit}", many=f"reached the limit {fact.limit}",
        detail=f"{words}; it runs on", hint="longwatch why {names}", run=fact.run,
        idle_ms=fact.window if silence else None, opens=silence, key=f"limit {fact.limit}",
    )  # fmt: skip


def _loop_stopped(fact: f.LoopStopped, known: Known) -> Word:
    return Word(
        "loop_stopped", fact.harness, "was stopped in a loop", many="were stopped in a loop",
        detail=f"the same call of {fact.tool} came {fact.count} times in a row", hint="longwatch start {names}",
        run=fact.run, tool=fact.tool, count=fact.count,
    )  # fmt: skip


def _run_failed(fact: f.RunClosed, known: Known) -> Word | None:
    record = fact.record
    if record.get("outcome") not in BAD or record.get("kind") == "resident" or known.trigger in LIVING:
        return None
    post_mortem = record.get("post_mortem") or {}
    idle = record.get("idle_ms")
    return Word(
        "run_failed", fact.harness, "had a bad run", many="had bad runs", detail=f"it {_ended(record)}",
        cause=str(post_mortem.get("diagnosis") or ""), hint="longwatch why {names}", run=fact.run,
        exit_code=known.exit_code, idle_ms=idle if isinstance(idle, int) else None,
    )  # fmt: skip


def _ended(record: "Mapping[str, Any]") -> str:
    reason = record.get("termination_reason")
    if reason == "exited":
        return f"exited with status {record.get('exit_code')}"
    if reason == "signaled":
        return f"died of signal {record.get('signal')}"
    return (
        f"was ended by its limit {reason}"
        if reason in _LIMITS
        else f"ended as {reason or record.get('outcome')}"
    )


def _intent_lost(fact: f.IntentLost, known: Known) -> Word:
    return Word(
        "intent_lost", fact.harness, "may be forgotten", detail="whether it is wanted could not be written down",
        cause=fact.error, hint="longwatch doctor",
    )  # fmt: skip


def _parked(fact: f.Parked, known: Known) -> Word:
    until = "until somebody starts it" if fact.until is None else f"until {_clock(fact.until)}"
    return Word(
        "parked", fact.harness, "is parked", many="are parked", detail=f"{until} by its provider's {fact.cls} limit",
        cause=fact.text, hint="longwatch start {names}", opens=True, episode=str(fact.until),
    )  # fmt: skip


def _asked(fact: f.AgentAsked, known: Known) -> Word:
    return Word(
        "asked", fact.harness, "asks a question", many="ask a question", detail="and waits for the answer",
        hint="longwatch attach {names}", run=fact.run,
    )  # fmt: skip


def _unkillable(fact: f.Unkillable, known: Known) -> Word:
    return Word(
        "unkillable", fact.harness, "does not end", many="do not end",
        detail="some of its processes are there after KILL; no second copy is started beside them",
        hint="longwatch why {names}", run=fact.run,
    )  # fmt: skip


def _ledger(fact: d.LedgerFailed, known: Known) -> Word:
    return Word(
        "ledger", "", "cannot be written", detail="runs go on, and what is not written yet is kept",
        cause=fact.error, hint="longwatch doctor", opens=True,
    )  # fmt: skip


def _late(fact: d.TickLate, known: Known) -> Word | None:
    if fact.span < LATE:
        return None
    return Word(
        "late", "", "was held up", detail=f"for {ago(fact.span)}; limits were not looked at in that time",
        hint="longwatch doctor", idle_ms=fact.span,
    )  # fmt: skip


#: Which fact is which notice.
TABLE: "dict[type[Fact], Callable[[Any, Known], Word | None]]" = {
    f.StateChanged: _failed,
    f.HeldBack: _refused,
    f.Flapping: _flapping,
    f.GaveUp: _gave_up,
    f.Stalled: _stalled,
    f.LimitNotice: _limit,
    f.LoopStopped: _loop_stopped,
    f.RunClosed: _run_failed,
    f.IntentLost: _intent_lost,
    f.Parked: _parked,
    f.AgentAsked: _asked,
    f.Unkillable: _unkillable,
    d.LedgerFailed: _ledger,
    d.TickLate: _late,
}


# -- the document


def document(telling: "Telling", host: str, wall: int, config: str = "") -> dict[str, object]:
    """Return what a channel is told: version 1, keys are only added. Times are RFC 3339, spans ms; not yet redacted.

    `harness` is null where the notice is of several, or of the daemon itself. `config` is the file
    that its commands have to name, if any.
    """
    words = telling.words
    one = words[0] if len(words) == 1 else None
    first, names = words[0], [word.harness for word in words if word.harness]
    return {
        "version": VERSION,
        "event": telling.event,
        "harness": (one.harness or None) if one else None,
        "harnesses": names,
        "host": host,
        "state": (one.state or None) if one else None,
        "title": f"{_subject(telling)} {first.what if one else first.many}",
        "message": _one(first, telling) if one else _several(telling, names),
        "cause": "; ".join(dict.fromkeys(word.cause for word in words if word.cause)) or None,
        "hint": _hint(first, names, config) or None,
        "time": rfc3339(wall),
        "exit_code": one.exit_code if one else None,
        "restarts": one.restarts if one else None,
        "tool": (one.tool or None) if one else None,
        "count": one.count if one else len(words),
        "run": (one.run or None) if one else None,
        "idle_ms": max((word.idle_ms for word in words if word.idle_ms is not None), default=None),
        "tree": list(one.tree) if one else [],
        "still_out": list(telling.still_out),
    }


_SUBJECTS = {"ledger": "the record of runs", "late": "the supervisor", "test": "a test notice"}


def _subject(telling: "Telling") -> str:
    words = telling.words
    if len(words) > 1:
        return f"{len(words)} harnesses"
    # The end of a trouble of the daemon itself can only be that of its record.
    return words[0].harness or _SUBJECTS.get(telling.event, _SUBJECTS["ledger"])


def _one(word: Word, telling: "Telling") -> str:
    joint = " " if word.detail.startswith(("and ", "until ", "after ", "for ")) else ": "
    return f"{_subject(telling)} {word.what}{joint * bool(word.detail)}{word.detail}{_others(telling)}"


def _several(telling: "Telling", names: list[str]) -> str:
    listed = ", ".join(names[:NAMES]) + (f" and {len(names) - NAMES} more" if len(names) > NAMES else "")
    together = "; what they share may be the cause: network, provider, disk" if telling.incident else ""
    return f"{_subject(telling)} {telling.words[0].many}: {listed}{together}{_others(telling)}"


def _others(telling: "Telling") -> str:
    return f"; not yet: {', '.join(telling.still_out[:NAMES])}" if telling.still_out else ""


def _hint(word: Word, names: list[str], config: str) -> str:
    many = len(names) > 1
    named = f" --config {_quoted(config)}" if config else ""
    if many and (not word.hint or len(names) > _HINTED or " why " in word.hint or " attach " in word.hint):
        return f"longwatch ls{named}"
    return word.hint.format(names=" ".join(names)) + named * bool(word.hint)


def _quoted(path: str) -> str:
    """Return a path as it can be typed."""
    plain = all(c.isalnum() or c in "/._-" for c in path)
    return path if plain else "'" + path.replace("'", "'\\''") + "'"


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _clock(wall: int) -> str:
    """Return a wall-clock instant as people here read it; the day is named unless it is near."""
    there = time.localtime(wall / 1000)
    near = abs(wall - time.time() * 1000) < _DAY / 2
    return time.strftime("%H:%M" if near else "%Y-%m-%d %H:%M", there)
