"""What follows the end of an incarnation: what somebody asked for, a wait for the provider, or what the policy says.

An end is told when the tree is proven gone, so whatever follows begins on clean ground.
"""

from longwatch.core import service_facts as facts
from longwatch.core import service_holds as holds
from longwatch.core import service_orders as orders
from longwatch.core import service_states as states
from longwatch.core.harness import QUEUE
from longwatch.core.parking import HARNESS, PARK, Halt, Limited, decide
from longwatch.core.parking import STAY as UNLIMITED
from longwatch.core.quota import group_of
from longwatch.core.restarts import FAILED, FLAPPING, GAVE_UP, LONGEST_ERROR, SPAWN, STALLED, STAY, Life
from longwatch.core.restarts import decide as restart
from longwatch.core.service_machine import AGAIN, BUDGET, FOLLOW, ITSELF, PARKING, REPLACE, STOP
from longwatch.core.service_words import MANUAL, RESTART, Firing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core import service_words as words
    from longwatch.core.service_machine import Incarnation, Machine
    from longwatch.core.service_words import Moment

    Orders = list[orders.Order]

#: What a limit that only a human can lift is called as a hold.
_KINDS = {"auth": holds.LOGIN, "money": holds.MONEY}


def not_spawned(machine: "Machine", life: "Incarnation", word: "words.SpawnFailed", at: "Moment") -> "Orders":
    """There is none, and trying again would not help."""
    machine.life = None
    memory, error = machine.memory, word.error[:LONGEST_ERROR]
    memory.reason, memory.error = "spawn_failed", error
    out: Orders = [machine.fact(facts.RunClosed, at, life.run, word.record)]
    if life.goal in (STOP, AGAIN, REPLACE):
        return [*out, *_as_asked(machine, life, at)]
    memory.failed, memory.gave_up, memory.alert = True, SPAWN, SPAWN
    return [*out, *machine.rest(states.FAILED, at, error), machine.fact(facts.GaveUp, at, SPAWN, error)]


def over(machine: "Machine", life: "Incarnation", word: "words.RunOver", at: "Moment") -> "Orders":
    """It is over, and nothing of it is left."""
    machine.life = None
    end, memory = word.life, machine.memory
    end.progressed = end.progressed or life.progressed
    memory.reason = end.reason
    if end.outcome in FAILED:
        memory.error = end.error[:LONGEST_ERROR]
    limited = life.limited or word.limited
    asked = life.goal in (STOP, AGAIN, REPLACE) or machine.closing or machine.removed
    follows = None if asked or limited is None else _limited(machine, life, end, limited, at)
    record = {**word.record, **_rewritten(life, follows)}
    out: Orders = [machine.fact(facts.RunClosed, at, life.run, record)]
    if asked:
        return [*out, *_as_asked(machine, life, at)]
    if follows is not None:
        return [*out, *follows]
    if life.goal == BUDGET:
        return [*out, *_budget(machine, life, at)]
    if end.reason == "looping":
        out.append(machine.fact(facts.LoopStopped, at, life.run, word.tool, word.count))
        return [*out, *_stays(machine, at, "looping")]
    return [*out, *_as_policy(machine, life, end, at)]


def _rewritten(life: "Incarnation", follows: "Orders | None") -> dict[str, object]:
    """Return what the record says of a run that was no failure of its own."""
    if follows is not None:
        return {"outcome": "quota_parked", "verdict": None}
    return {"outcome": "budget_exceeded", "verdict": None} if life.goal == BUDGET else {}


def _as_asked(machine: "Machine", life: "Incarnation", at: "Moment") -> "Orders":
    """Somebody wanted the end, and said what follows it."""
    ends = life.goal == STOP or machine.closing or machine.removed
    out = machine.rest(states.STOPPED, at, life.goal) if ends else []
    if ends:
        machine.memory.attempt = 0
        return out
    machine.backoff_until = 0
    machine.cause = MANUAL
    if life.goal == REPLACE:
        machine.front = life.successor
    elif not machine.resident:
        token = "" if life.firing is None else life.firing.token
        machine.front = Firing(MANUAL, None, token)
    return machine.rest(states.STOPPED, at, life.goal) if machine.state == states.STOPPING else []


def _limited(
    machine: "Machine", life: "Incarnation", end: Life, limited: Limited, at: "Moment"
) -> "Orders | None":
    """A provider's limit stood at its end: wait for it, or for a human. None where it is not the reason."""
    harness, memory = machine.harness, machine.memory
    # Who was ended because it was stuck did not get further than one that fell silent.
    reason = "stalled" if life.goal == PARKING else end.reason
    halt = Halt(reason, limited.cls, limited.until, progressed=end.progressed)
    verdict = decide(halt, memory.windows, at.wall, 0.0, terms=HARNESS)
    if verdict.action == UNLIMITED:
        return None
    group, cls = group_of(harness), limited.cls
    waits = verdict.action == PARK and harness.resume_on_limit
    kind = holds.PARK if waits else _KINDS.get(cls, holds.LIMIT)
    until = verdict.until if waits else None
    memory.hold = holds.Hold(kind, limited.text or f"{cls} limit of {group}", until)
    machine.parked = True
    machine.overruled -= {holds.PARK}
    out: Orders = []
    if until is not None:
        memory.windows = verdict.windows
        out.append(orders.ParkGroup(group, until, cls, limited.text, at.drawn))
    else:
        memory.alert = kind
    if harness.on_hold == QUEUE:
        memory.retry = _once_more(machine, life)
    out.append(machine.fact(facts.Parked, at, group, until, cls, limited.text))
    return [*out, *machine.rest(states.STOPPED, at, kind)]


def _budget(machine: "Machine", life: "Incarnation", at: "Moment") -> "Orders":
    if machine.resident:
        machine.memory.hold = holds.Hold(holds.BUDGET, life.spent)
    return machine.rest(states.STOPPED, at, "budget")


def _stays(machine: "Machine", at: "Moment", why: str) -> "Orders":
    """It is not started again; a resident is not wanted any more, one that fires comes when it is fired."""
    out = machine.intend(False) if machine.resident else []
    return [*out, *machine.rest(states.STOPPED, at, why)]


def _as_policy(machine: "Machine", life: "Incarnation", end: Life, at: "Moment") -> "Orders":
    """It ended by itself, or by a limit of ours: the policy says what follows."""
    harness, memory = machine.harness, machine.memory
    end.revive = life.goal == ITSELF or end.reason in machine.revived
    end.requested = end.reason == "cancelled" and life.goal == FOLLOW
    before = memory.history
    decision = restart(
        harness.restart, end, before, at.drawn,
        intensity=harness.intensity, period=harness.period, alike=harness.fail_alike,
    )  # fmt: skip
    if decision.action == STAY:
        well = [] if machine.resident or end.outcome != "success" else machine.recover(at)
        return [*well, *_stays(machine, at, end.outcome)]
    memory.history = decision.history
    if decision.action == GAVE_UP:
        memory.failed, memory.gave_up, memory.alert = True, decision.why, decision.why
        out = machine.rest(states.FAILED, at, decision.why)
        return [*out, machine.fact(facts.GaveUp, at, decision.why, memory.error)]
    memory.retry = _once_more(machine, life)
    machine.backoff_until = at.now + decision.after
    return [*_row(machine, at), *_planned(machine, end, decision.after, at)]


def _row(machine: "Machine", at: "Moment") -> "Orders":
    """Tell what a row of ends amounts to."""
    memory, out = machine.memory, []
    if memory.history.quick < FLAPPING:
        memory.flapping = False
    elif not memory.flapping:
        memory.flapping, memory.alert = True, "flapping"
        out.append(machine.fact(facts.Flapping, at, memory.history.quick))
    if memory.history.report_only and memory.gave_up != STALLED:
        memory.gave_up = memory.alert = STALLED
        out.append(machine.fact(facts.GaveUp, at, STALLED, memory.error))
    return out


def _planned(machine: "Machine", end: Life, after: int, at: "Moment") -> "Orders":
    state = states.DEGRADED if machine.memory.flapping and after else states.RESTARTING
    out: Orders = [machine.fact(facts.RestartPlanned, at, after, end.reason)]
    return [*out, *machine.rest(state, at, end.reason)]


def _once_more(machine: "Machine", life: "Incarnation") -> Firing | None:
    """Return the firing that is to be tried again; a resident has none."""
    return None if machine.resident else life.firing or Firing(RESTART)
