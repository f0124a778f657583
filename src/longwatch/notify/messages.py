"""Facts in words. The table at the end is the whole of it: which fact is which notice, and what it says."""
# ruff: noqa: ARG001 - the handlers of the table share one signature

import time

from longwatch import how, vocabulary
from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.core.limits import SILENCES
from longwatch.core.record import Plain
from longwatch.core.restarts import STALLED
from longwatch.core.service_holds import BUDGET, LOGIN, MONEY
from longwatch.core.spec import NONE, NOTIFY, RESTART, SECOND, STOP
from longwatch.notify.word import Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: A shorter absence of the supervisor changes nothing that anybody could see.
LATE = 10 * SECOND
#: Holds that end by a human's hand alone.
REFUSALS = {
    LOGIN: "was refused by its provider", MONEY: "was refused by its provider", BUDGET: "has spent its budget"
}  # fmt: skip
#: What begins a run of a harness that is meant to live; all else is a schedule, a trigger or a human.
LIVING = ("autostart", "restart", "release")
BAD = ("failed", "timed_out")


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
        "failed", fact.harness, "failed", many="failed", detail="and is not started again",
        cause=vocabulary.GAVE_UP.get(fact.why, fact.why), hint="restart", exit_code=known.exit_code,
        opens=True,
    )  # fmt: skip


def _refused(fact: f.HeldBack, known: Known) -> Word | None:
    kind = next((kind for kind in fact.holds if kind in REFUSALS), None)
    if kind is None:
        return None
    return Word(
        "failed", fact.harness, REFUSALS[kind], many="were refused, or have spent their budget",
        detail="and is held until somebody starts it", cause=fact.reason, hint="start", opens=True,
    )  # fmt: skip


def _flapping(fact: f.Flapping, known: Known) -> Word:
    return Word(
        "flapping", fact.harness, "is flapping", many="are flapping",
        detail=f"{fact.quick} times in a row it ended soon after its start", hint="why",
        exit_code=known.exit_code, restarts=known.restarts, count=fact.quick, opens=True,
    )  # fmt: skip


def _gave_up(fact: f.GaveUp, known: Known) -> Word:
    if fact.cause == STALLED:
        return Word(
            "stalled", fact.harness, "stalled", detail=f"restarts did not help; {vocabulary.ONLY_TOLD}",
            run=known.run, hint="restart", opens=True, key=_LAST_STALL,
        )  # fmt: skip
    return Word(
        "gave_up", fact.harness, "was given up", many="were given up",
        detail=f"{vocabulary.GAVE_UP[fact.cause]}; it is not started again", cause=fact.error,
        hint="restart", exit_code=known.exit_code, restarts=known.restarts, opens=True,
    )  # fmt: skip


#: An ordinary stall before it must not keep the last one from being told.
_LAST_STALL = "stalled for good"


def _stalled(fact: f.Stalled, known: Known) -> Word:
    acts = not fact.gave_up and fact.action not in (NONE, NOTIFY)
    return Word(
        "stalled", fact.harness, "stalled", detail=vocabulary.stall(fact), hint="why" if acts else "restart",
        run=fact.run, restarts=known.restarts, count=fact.stalls, idle_ms=fact.idle, tree=fact.tree,
        opens=fact.gave_up or fact.action not in (RESTART, STOP), key=_LAST_STALL if fact.gave_up else "",
    )  # fmt: skip


def _limit(fact: f.LimitNotice, known: Known) -> Word:
    silence = fact.limit in SILENCES
    return Word(
        "limit", fact.harness, f"reached its {fact.limit} limit", many=f"reached their {fact.limit} limit",
        detail=f"{vocabulary.limit(fact.limit, fact.window)}; it runs on", hint="why", run=fact.run,
        idle_ms=fact.window if silence else None, opens=silence, key=f"limit {fact.limit}",
    )  # fmt: skip


def _loop_stopped(fact: f.LoopStopped, known: Known) -> Word:
    return Word(
        "loop_stopped", fact.harness, "was stopped in a loop", many="were stopped in a loop",
        detail=f"the same call of {fact.tool} came {fact.count} times in a row", hint="start",
        run=fact.run, tool=fact.tool, count=fact.count,
    )  # fmt: skip


def _run_failed(fact: f.RunClosed, known: Known) -> Word | None:
    record = fact.record
    if record.get("outcome") not in BAD or record.get("kind") == "resident" or known.trigger in LIVING:
        return None
    idle = record.get("idle_ms")
    return Word(
        "run_failed", fact.harness, "had a bad run", many="had bad runs", detail=how.told(record),
        cause=str(record.get("diagnosis") or ""), hint="why", run=fact.run,
        exit_code=known.exit_code, idle_ms=idle if isinstance(idle, int) else None,
    )  # fmt: skip


def _intent_lost(fact: f.IntentLost, known: Known) -> Word:
    return Word(
        "intent_lost", fact.harness, "may be forgotten", detail="whether it is wanted could not be written down",
        cause=fact.error, hint="doctor",
    )  # fmt: skip


def _parked(fact: f.Parked, known: Known) -> Word:
    until = (
        "somebody starts it"
        if fact.until is None
        else vocabulary.clock(fact.until, time.time_ns() // 1_000_000)
    )
    return Word(
        "parked", fact.harness, "is parked", many="are parked",
        detail=f"until {until}, because of {vocabulary.PROVIDER.get(fact.cls, 'a limit')} of its provider",
        cause=fact.text, hint="start", opens=True, episode=str(fact.until),
    )  # fmt: skip


def _asked(fact: f.AgentAsked, known: Known) -> Word:
    return Word(
        "asked", fact.harness, "asks a question", many="ask a question", detail="and waits for the answer",
        hint="attach", run=fact.run,
    )  # fmt: skip


def _unkillable(fact: f.Unkillable, known: Known) -> Word:
    return Word(
        "unkillable", fact.harness, "does not end", many="do not end",
        detail="some of its processes survive KILL; no second copy is started beside them",
        hint="why", run=fact.run,
    )  # fmt: skip


def _ledger(fact: d.LedgerFailed, known: Known) -> Word:
    return Word(
        "ledger", "", "cannot be written", detail="runs go on, and what is not written yet is kept",
        cause=fact.error, hint="doctor", opens=True,
    )  # fmt: skip


def _late(fact: d.TickLate, known: Known) -> Word | None:
    if fact.span < LATE:
        return None
    return Word(
        "late", "", "was held up", detail=vocabulary.late(fact.span),
        hint="doctor", idle_ms=fact.span,
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
