"""What people, schedules and the daemon ask of a harness, and what becomes of it in each state.

    asked     stopped   starting, running     restarting (ends)   restarting, degraded (waits)   stopping            failed
    start     start     forget what was       start anew then     start now                      start then          start
    stop      -         stopping              stopping            stopped                        the end is sooner   -
    restart   start     restarting            (only once)         start now                      start then          start
    fired     start     overlap rule          overlap rule        overlap rule                   overlap rule        start
    shutdown  -         stopping              stopping            stopped                        the end is sooner   -

Start and restart want it from then on, stop does not; a shutdown leaves that as it is. `start` and `restart` clear what
was counted and overrule what holds it back, `fired` by hand the latter; asked from inside the own tree they do neither.
"""
# ruff: noqa: ARG001 - the handlers of a table share one signature

from longwatch.core import firing_facts as firings
from longwatch.core import service_facts as facts
from longwatch.core import service_orders as orders
from longwatch.core import service_states as states
from longwatch.core.harness import QUEUE, SKIP
from longwatch.core.service_machine import AGAIN, FOLLOW, ITSELF, REPLACE, STOP
from longwatch.core.service_words import MANUAL, SCHEDULE, Firing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core import service_words as words
    from longwatch.core.service_machine import Incarnation, Machine
    from longwatch.core.service_words import Moment

    Orders = list[orders.Order]


def awoke(machine: "Machine", word: "words.Awoke", at: "Moment") -> "Orders":
    """The daemon has begun: whatever is wanted may begin."""
    machine.awake = True
    return []


def started(machine: "Machine", word: "words.StartAsked", at: "Moment") -> "Orders":
    """A human wants it to run."""
    if why := _ending(machine):
        return [orders.Refuse(why)]
    out = [*machine.intend(True), *_forget(machine, at)]
    life = machine.life
    if life is None:
        _next_by_hand(machine)
    elif machine.state in (states.RESTARTING, states.STOPPING) and life.goal != REPLACE:
        life.goal = AGAIN
    return out


def restarted(machine: "Machine", word: "words.RestartAsked", at: "Moment") -> "Orders":
    """Somebody wants another incarnation."""
    life = machine.life
    if _other_run(machine, word.run):
        return [machine.fact(facts.StaleDropped, at, word.run, "restart")]
    if word.inside:
        # Its own wish: what it is on the way to anyway stays as it is.
        wished = life is not None and life.goal == FOLLOW and machine.state != states.STOPPING
        return machine.end(life, ITSELF, "explicit", at, "wants it itself") if life and wished else []
    if why := _ending(machine):
        return [orders.Refuse(why)]
    out = [*machine.intend(True), *_forget(machine, at)]
    return [*out, *again(machine, at)]


def again(machine: "Machine", at: "Moment") -> "Orders":
    """End what runs, if something does, and begin anew."""
    life = machine.life
    if life is None:
        _next_by_hand(machine)
        return []
    if life.goal == FOLLOW and machine.state != states.STOPPING:
        return machine.end(life, AGAIN, "explicit", at, "restart")
    if life.goal != REPLACE:
        life.goal = AGAIN
    return []


def stopped(machine: "Machine", word: "words.StopAsked", at: "Moment") -> "Orders":
    """Somebody wants it to end, and to stay down; of one that fires perhaps only this run."""
    if _other_run(machine, word.run):
        return [machine.fact(facts.StaleDropped, at, word.run, "stop")]
    if word.keep and not machine.resident:
        return _stop(machine, word.origin, at, "stop")
    out = [*machine.intend(False), *machine.drop_queued(at, firings.STOPPED)]
    return [*out, *_stop(machine, word.origin, at, "stop")]


def _stop(machine: "Machine", origin: str, at: "Moment", why: str) -> "Orders":
    machine.memory.attempt = 0
    life = machine.life
    if life is not None:
        out = _drop_successor(machine, life, at)
        return [*out, *machine.end(life, STOP, origin, at, why)]
    machine.memory.retry, machine.backoff_until = None, 0
    waits = machine.state in (states.RESTARTING, states.DEGRADED)
    return machine.rest(states.STOPPED, at, why) if waits else []


def fired(machine: "Machine", word: "words.Fired", at: "Moment") -> "Orders":
    """A window is due, or a trigger came."""
    firing = word.firing
    if why := _unwanted(machine, word):
        # Windows of a schedule that is off are none.
        return [] if why == firings.STOPPED and firing.trigger == SCHEDULE else machine.skip(firing, at, why)
    if machine.life is not None:
        return _overlapped(machine, firing, at)
    if word.manual:
        machine.overrule(at)
        return _to_the_front(machine, firing, at)
    waits = machine.memory.retry is not None or machine.memory.queued is not None
    if holds := machine.holding(at):
        queues = machine.harness.on_hold == QUEUE and not waits
        return (machine.queue if queues else machine.skip)(firing, at, holds[0].kind)
    if waits:
        return _overlapped(machine, firing, at)
    machine.memory.queued = firing
    return []


def _unwanted(machine: "Machine", word: "words.Fired") -> str:
    """Return why no firing is taken; empty where it is."""
    if why := _ending(machine):
        return why
    if machine.resident:
        return firings.UNASKED
    return "" if machine.memory.enabled or word.manual else firings.STOPPED


def _overlapped(machine: "Machine", firing: Firing, at: "Moment") -> "Orders":
    """Another run is not over yet."""
    rule, life = machine.harness.on_overlap, machine.life
    if rule == SKIP:
        return machine.skip(firing, at, firings.BUSY)
    if rule == QUEUE:
        return machine.queue(firing, at, firings.BUSY)
    if life is None:
        return _to_the_front(machine, firing, at)
    out = _drop_successor(machine, life, at)
    if life.goal not in (REPLACE, STOP):
        out += machine.end(life, REPLACE, "replaced", at, "replaced")
    life.goal, life.successor = REPLACE, firing
    return out


def _to_the_front(machine: "Machine", firing: Firing, at: "Moment") -> "Orders":
    """It is run now, and what was to be tried once more is not."""
    dropped, machine.memory.retry = machine.memory.retry, None
    machine.front, machine.backoff_until = firing, 0
    return machine.skip(dropped, at, firings.REPLACED) if dropped is not None else []


def changed(machine: "Machine", word: "words.Changed", at: "Moment") -> "Orders":
    """The file says something else of it."""
    machine.harness, machine.removed = word.harness, False
    life = machine.life
    if word.restart and life is not None and not life.launched.launched_alike(word.harness):
        return again(machine, at)
    return []


def removed(machine: "Machine", word: "words.Removed", at: "Moment") -> "Orders":
    """The file does not name it any more."""
    machine.removed = True
    out = machine.drop_queued(at, firings.REMOVED)
    if word.prune or machine.life is None:
        out += _stop(machine, "explicit", at, "removed")
    return out


def shut_down(machine: "Machine", word: "words.ShutdownAsked", at: "Moment") -> "Orders":
    """The daemon is about to end."""
    machine.closing, machine.frozen = True, word.keep
    return [] if word.keep else _stop(machine, "shutdown", at, "shutdown")


def _ending(machine: "Machine") -> str:
    """Return why nothing is begun any more; empty where it is."""
    return firings.SHUTDOWN if machine.closing else firings.REMOVED if machine.removed else ""


def _other_run(machine: "Machine", run: str) -> bool:
    """Whether somebody means a run that is not the one that goes on."""
    return run not in ("", "" if machine.life is None else machine.life.run)


def _forget(machine: "Machine", at: "Moment") -> "Orders":
    """A human wants it: whatever was counted, told or held against it is forgotten."""
    machine.memory.clear()
    machine.overrule(at)
    life = machine.life
    if life is None or not life.report_only:
        return []
    life.report_only = False
    return [orders.ArmStall(life.generation)]


def _next_by_hand(machine: "Machine") -> None:
    machine.cause = MANUAL
    if machine.resident:
        return
    # What waits to be run is run now; else there is nothing to run but what the human wants.
    if machine.memory.queued is not None:
        machine.front, machine.memory.queued = machine.memory.queued, None
    else:
        machine.front = Firing(MANUAL)


def _drop_successor(machine: "Machine", life: "Incarnation", at: "Moment") -> "Orders":
    firing, life.successor = life.successor, None
    return machine.skip(firing, at, firings.REPLACED) if firing is not None else []
