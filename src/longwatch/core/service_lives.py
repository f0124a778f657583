"""What becomes of one incarnation, from its first record to its end. What follows that is in `service_ends`.

Nothing here speaks of an incarnation that was replaced: `service` drops that.
"""
# ruff: noqa: ARG001 - the handlers of a table share one signature

from longwatch.core import service_facts as facts
from longwatch.core import service_orders as orders
from longwatch.core import service_states as states
from longwatch.core import spec
from longwatch.core.limits import SILENCES
from longwatch.core.outcomes import outcome
from longwatch.core.parking import LASTING
from longwatch.core.restarts import STALLED, Life, wanted
from longwatch.core.service_holds import PROVIDERS
from longwatch.core.service_machine import ALIVE, BUDGET, CLOSING, PARKING, SPAWNING, STOP
from longwatch.core.service_words import RESTART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core import service_words as words
    from longwatch.core.service_machine import Incarnation, Machine
    from longwatch.core.service_words import Moment

    Orders = list[orders.Order]


# -- its beginning


def opened(machine: "Machine", life: "Incarnation", word: "words.Opened", at: "Moment") -> "Orders":
    """It is written down: now it may begin, if it is still wanted."""
    life.run = word.run
    if life.goal:
        life.phase = CLOSING
        return [orders.CloseRun(life.generation, "cancelled", life.origin)]
    life.phase, life.launched = SPAWNING, machine.harness
    return [orders.Spawn(life.generation)]


def spawned(machine: "Machine", life: "Incarnation", word: "words.Spawned", at: "Moment") -> "Orders":
    """There is a process."""
    life.phase, life.began = ALIVE, at.now
    life.turns = life.busy = word.turns
    if life.goal:
        return [orders.StopRun(life.generation, "cancelled", life.origin)]
    return [] if machine.harness.ready else machine.go(states.RUNNING, at, "started")


def adopted(machine: "Machine", word: "words.Adopted", at: "Moment") -> "Orders":
    """It was alive when the daemon came: it is looked after as if it had been started just so."""
    machine.awake = True
    life = machine.bear(word.launched or machine.harness, None)
    life.run, life.phase, life.began = word.run, ALIVE, word.began
    life.turns = life.busy = word.turns
    machine.memory.attempt, machine.cause = word.attempt, RESTART
    out = machine.go(states.STARTING, at, "adopted")
    out.append(machine.fact(facts.Adopted, at, word.run))
    if word.ready:
        out += machine.go(states.RUNNING, at, "adopted")
    if machine.resident and not machine.memory.enabled:
        out += machine.end(life, STOP, "explicit", at, "not wanted")
    return out


# -- its life


def became_ready(
    machine: "Machine", life: "Incarnation", word: "words.BecameReady", at: "Moment"
) -> "Orders":
    """Its ready text was seen."""
    return machine.go(states.RUNNING, at, "ready") if machine.state == states.STARTING else []


def turn_seen(machine: "Machine", life: "Incarnation", word: "words.TurnSeen", at: "Moment") -> "Orders":
    """A turn began or ended."""
    life.busy = word.busy
    return []


def stop_started(
    machine: "Machine", life: "Incarnation", word: "words.StopStarted", at: "Moment"
) -> "Orders":
    """A limit ends it: another one follows, or none, as far as can be seen."""
    if life.goal or machine.state not in (states.STARTING, states.RUNNING):
        return []
    end = Life(at.now, at.now, outcome(word.reason)[0], word.reason)
    another = word.reason in machine.revived or wanted(machine.harness.restart, end)
    another = another and word.reason != "looping"
    another = another and not (machine.removed or machine.closing)
    return machine.go(states.RESTARTING if another else states.STOPPING, at, word.reason)


def tree_stuck(machine: "Machine", life: "Incarnation", word: "words.TreeStuck", at: "Moment") -> "Orders":
    """Something of it cannot be ended: no other copy begins before it is gone."""
    if life.stuck:
        return []
    life.stuck = True
    out = machine.go(states.STOPPING, at, "unkillable")
    return [machine.fact(facts.Unkillable, at, life.run), *out]


def call_succeeded(
    machine: "Machine", life: "Incarnation", word: "words.CallSucceeded", at: "Moment"
) -> "Orders":
    """It gets something done: stalls are forgotten, and a refusal by its provider."""
    memory = machine.memory
    life.progressed = True
    life.trouble.served()
    memory.history.stalls = 0
    out: Orders = []
    if memory.alert in ("stalled", STALLED, "silence", *PROVIDERS):
        out += machine.recover(at)
    if memory.gave_up == STALLED:
        memory.gave_up = ""
    if life.report_only:
        life.report_only = False
        out.append(orders.ArmStall(life.generation))
    return out


def progressed(machine: "Machine", life: "Incarnation", word: "words.Progressed", at: "Moment") -> "Orders":
    """It moves again, which answers a notice of its silence."""
    return machine.recover(at) if machine.memory.alert == "silence" else []


def limit_found(machine: "Machine", life: "Incarnation", word: "words.LimitFound", at: "Moment") -> "Orders":
    """A limit other than `stall` was told."""
    if word.limit in SILENCES:
        machine.memory.alert = machine.memory.alert or "silence"
    return [machine.fact(facts.LimitNotice, at, life.run, word.limit, word.window)]


def stall_found(machine: "Machine", life: "Incarnation", word: "words.StallFound", at: "Moment") -> "Orders":
    """No successful call for a whole window; what is done about it is the watch's."""
    memory, given_up = machine.memory, life.report_only
    memory.alert = memory.alert or "stalled"
    action = spec.NOTIFY if given_up else word.action
    if action == spec.STOP and "stalled" in machine.revived:
        action = spec.RESTART
    fields = (life.run, word.idle, word.window, action, memory.history.stalls + 1, given_up, word.tree)
    return [machine.fact(facts.Stalled, at, *fields)]


def quota_hit(machine: "Machine", life: "Incarnation", word: "words.QuotaHit", at: "Moment") -> "Orders":
    """Its provider refuses. Who is refused again and again will not get through by trying."""
    stuck = life.trouble.refused(at.now)
    if not stuck or life.goal or not machine.harness.resume_on_limit or word.limited.cls in LASTING:
        return []
    life.limited = word.limited
    return machine.end(life, PARKING, "budget", at, "parked")


def budget_spent(
    machine: "Machine", life: "Incarnation", word: "words.BudgetSpent", at: "Moment"
) -> "Orders":
    """What one run may cost is spent."""
    if life.goal:
        return []
    life.spent = word.why
    return machine.end(life, BUDGET, "budget", at, "budget")
