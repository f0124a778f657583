"""The machine of one harness: its state, its incarnation, its goals, and how the next incarnation begins.

What people ask is in `service_asks`, what becomes of incarnations in `service_lives`; both turn the wheels that are
here. Beginning is level-triggered: whenever nothing runs and something is wanted, free of holds and not too early, it
begins; so nothing that was once missed stays undone.
"""

from longwatch.core import firing_facts as firings
from longwatch.core import service_facts as facts
from longwatch.core import service_orders as orders
from longwatch.core import service_states as states
from longwatch.core.harness import RESIDENT
from longwatch.core.limits import REASON_OF
from longwatch.core.quota import Trouble
from longwatch.core.restarts import HEALTHY, STALLED
from longwatch.core.service_holds import HOURS, PARK, PROVIDERS, Hold
from longwatch.core.service_words import AUTOSTART, RELEASE, RESTART, Firing
from longwatch.core.spec import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core.facts import Fact
    from longwatch.core.harness import Harness
    from longwatch.core.parking import Limited
    from longwatch.core.service_memory import Memory
    from longwatch.core.service_words import Moment

#: How far an incarnation is: written down, being started, a process, or nothing that could be stopped any more.
OPENING, SPAWNING, ALIVE, CLOSING = "opening", "spawning", "alive", "closing"
#: What follows the end of an incarnation: what the policy says, nothing, another one because somebody wants it, another
#: one because it wants that itself, another firing, a park, a human.
FOLLOW, STOP, AGAIN, ITSELF, REPLACE, PARKING, BUDGET = (
    "",
    "stop",
    "again",
    "itself",
    "replace",
    "parking",
    "budget",
)
#: At the end of its hours a turn may be finished, for so long.
CLOSING_TIME = 15 * MINUTE
#: Holds end by the wall clock, which may be set meanwhile: so often it is looked at.
LOOK = 10 * MINUTE


class Incarnation:
    """One try, from the decision to make it until its tree is proven gone.

    `goal` is what follows and `origin` who wanted the end. `over` are the kinds of hold it was started
    against and that are not over yet, `began` is when there was a process. `busy`: in a turn. `close_by`: when it is ended at the latest because of its hours.
    """

    def __init__(
        self, generation: int, harness: "Harness", firing: Firing | None, over: frozenset[str]
    ) -> None:
        self.generation = generation
        self.launched = harness
        self.firing = firing
        self.over = over
        self.phase = OPENING
        self.run = ""
        self.goal = FOLLOW
        self.origin = ""
        self.successor: Firing | None = None
        self.began: int | None = None
        self.turns = self.busy = self.progressed = self.stuck = self.report_only = False
        self.close_by: int | None = None
        self.limited: Limited | None = None
        self.spent = ""
        self.trouble = Trouble()


class Machine:
    """All that is known of one harness; changed by the words of `service_asks` and `service_lives`."""

    def __init__(self, harness: "Harness", memory: "Memory") -> None:
        self.harness = harness
        self.memory = memory
        self.state = states.FAILED if memory.failed else states.STOPPED
        self.since = 0
        self.generation = 0
        self.life: Incarnation | None = None
        #: Why the next incarnation of a resident begins.
        self.cause = AUTOSTART
        #: A human's firing, which goes first.
        self.front: Firing | None = None
        self.backoff_until = 0
        #: Kinds of hold that a human overruled, until each of them is over.
        self.overruled: frozenset[str] = frozenset()
        #: What was told of holds last, and when to look at them again.
        self.held: tuple[Hold, ...] = ()
        self.look_at = 0
        self.parked = memory.hold is not None and memory.hold.kind in PROVIDERS
        self.awake = self.closing = self.frozen = self.removed = False

    @property
    def resident(self) -> bool:
        """Whether it is to live all the time, and not only when it is fired."""
        return self.harness.kind == RESIDENT

    @property
    def revived(self) -> tuple[str, ...]:
        """The termination reasons after which it is started again whatever the policy says."""
        return tuple(REASON_OF[name] for name in self.harness.revive)

    # -- steps

    def fact(self, kind: "type[Fact]", at: "Moment", *fields: object) -> "orders.Order":
        """Return a fact of this harness, to be told."""
        return orders.Tell(kind(at.now, self.harness.name, *fields))  # type: ignore[call-arg]

    def go(self, state: str, at: "Moment", why: str) -> "list[orders.Order]":
        """Go to a state, where it is not that already. Raises IllegalEdge."""
        if state == self.state:
            return []
        states.check(self.state, state)
        before, self.state, self.since = self.state, state, at.now
        return [self.fact(facts.StateChanged, at, state, before, why)]

    def rest(self, state: str, at: "Moment", why: str) -> "list[orders.Order]":
        """Nothing runs any more: go to a state of rest. From `stopping` only one leads out."""
        out = self.go(states.STOPPED, at, why) if self.state == states.STOPPING else []
        return out if out or state == self.state else self.go(state, at, why)

    def intend(self, enabled: bool) -> "list[orders.Order]":
        """Note whether it is wanted; what is so already is not told."""
        if self.memory.enabled == enabled:
            return []
        self.memory.enabled = enabled
        return [orders.KeepIntent(enabled)]

    def end(self, life: Incarnation, goal: str, origin: str, at: "Moment", why: str) -> "list[orders.Order]":
        """End what runs, and keep in mind what follows. What is not a process yet ends when it would become one."""
        life.goal, life.origin = goal, origin
        ends = goal in (AGAIN, ITSELF, REPLACE)
        state = states.RESTARTING if ends else states.STOPPING
        out = self.go(state, at, why) if self.state != states.STOPPING else []
        if life.phase == ALIVE:
            out.append(orders.StopRun(life.generation, "cancelled", origin))
        return out

    def skip(self, firing: Firing, at: "Moment", why: str) -> "list[orders.Order]":
        """A firing comes to nothing."""
        return [self.fact(firings.FiringSkipped, at, firing.trigger, firing.due, why, firing.token)]

    def queue(self, firing: Firing, at: "Moment", why: str) -> "list[orders.Order]":
        """A firing waits, if none does."""
        if self.memory.queued is not None:
            return self.skip(firing, at, firings.QUEUED)
        self.memory.queued = firing
        return [self.fact(firings.FiringQueued, at, firing.trigger, firing.due, why, firing.token)]

    def drop_queued(self, at: "Moment", why: str) -> "list[orders.Order]":
        """Whatever waited to be run comes to nothing."""
        waiting = [firing for firing in (self.front, self.memory.queued) if firing is not None]
        self.front = self.memory.queued = self.memory.retry = None
        self.backoff_until = 0
        return [order for firing in waiting for order in self.skip(firing, at, why)]

    def overrule(self, at: "Moment") -> None:
        """A human wants it to run against everything that holds it back now."""
        self.overruled |= {hold.kind for hold in at.holds}
        self.memory.hold = None
        self.backoff_until = 0

    # -- beginning

    def holding(self, at: "Moment") -> tuple[Hold, ...]:
        """Return what holds it back at this moment: its own doing first, then the admission's that nobody overruled."""
        own = self.memory.hold
        if own is not None and own.until is not None and own.until <= at.wall:
            own = self.memory.hold = None
        others = tuple(hold for hold in at.holds if hold.kind not in self.overruled)
        # Of a park the admission knows more: the place in it.
        if own is None or any(hold.kind == own.kind for hold in others):
            return others
        return (own, *others)

    def settle(self, at: "Moment") -> "list[orders.Order]":
        """Do what the moment asks for: end what has no hours any more, begin what is wanted."""
        kinds = {hold.kind for hold in at.holds}
        self.overruled &= kinds
        if self.life is not None:
            self.life.over &= kinds
            return [*self._health(self.life, at), *self._hours(self.life, at)]
        if not self._wanted():
            self.held = ()
            return self._unparked(at, frozenset())
        holds = self.holding(at)
        out = self._unparked(at, frozenset(hold.kind for hold in holds))
        if at.now < self.backoff_until:
            return out
        return [*out, *(self._hold(holds, at) if holds else self._begin(at))]

    def _wanted(self) -> bool:
        if not self.awake or self.closing or self.removed:
            return False
        if self.resident:
            return self.memory.enabled and not self.memory.failed
        return any(firing is not None for firing in (self.front, self.memory.retry, self.memory.queued))

    def _hold(self, holds: tuple[Hold, ...], at: "Moment") -> "list[orders.Order]":
        """It may not begin; that is told when what keeps it changes."""
        kinds, told = tuple(hold.kind for hold in holds), tuple(hold.kind for hold in self.held)
        self.held = holds
        ends = (at.now + hold.until - at.wall for hold in holds if hold.until is not None)
        self.look_at = max(at.now + SECOND, min((at.now + LOOK, *ends)))
        out = self.rest(states.STOPPED, at, f"held: {kinds[0]}") if self.state != states.FAILED else []
        if kinds != told:
            out.append(self.fact(facts.HeldBack, at, kinds, holds[0].reason, holds[0].until))
        return out

    def _unparked(self, at: "Moment", kinds: frozenset[str]) -> "list[orders.Order]":
        if not self.parked or PARK in kinds or self.memory.hold is not None:
            return []
        self.parked = False
        return [self.fact(facts.Unparked, at, self.harness.quota_group or self.harness.name)]

    def _begin(self, at: "Moment") -> "list[orders.Order]":
        out = [self.fact(facts.LetGo, at)] if self.held else []
        firing, cause = (None, self.cause) if self.resident else self._firing()
        if self.held and cause in (AUTOSTART, RESTART):
            cause = RELEASE
        memory, self.held, self.cause = self.memory, (), RESTART
        memory.attempt = memory.attempt + 1 if cause in (RESTART, RELEASE) else 1
        if not self.resident and cause not in (RESTART, RELEASE):
            memory.afresh()
        life = self.bear(self.harness, firing)
        if not self.resident:
            self.overruled = frozenset()
        opening = orders.OpenRun(
            life.generation, cause, memory.attempt, memory.reason, firing, life.report_only
        )
        return [*out, *self.go(states.STARTING, at, cause), opening]

    def bear(self, harness: "Harness", firing: Firing | None) -> Incarnation:
        """There is another incarnation from now on."""
        self.memory.failed = False
        self.generation += 1
        life = self.life = Incarnation(self.generation, harness, firing, self.overruled)
        life.report_only = self.memory.history.report_only
        return life

    def _firing(self) -> tuple[Firing | None, str]:
        """Take what is to be run next: a human's firing, the last one once more, the one that waits; and say why."""
        memory, firing = self.memory, self.front
        if firing is not None:
            self.front = None
        elif memory.retry is not None:
            firing, memory.retry = memory.retry, None
            return firing, RESTART
        else:
            firing, memory.queued = memory.queued, None
        return firing, AUTOSTART if firing is None else firing.trigger

    # -- what time does to the one that runs

    def next_deadline(self) -> int | None:
        """Return when something is to be done though nobody says anything; None: not foreseen."""
        if self.life is not None:
            instants = (self.healthy_at(), None if self.life.goal else self.life.close_by)
            return min((at for at in instants if at is not None), default=None)
        if not self._wanted():
            return None
        return self.look_at if self.held else self.backoff_until

    def _hours(self, life: Incarnation, at: "Moment") -> "list[orders.Order]":
        """Outside its hours it may finish what it is at, within bounds; what has no turns is ended at once."""
        against = self.overruled | life.over
        if life.goal or not any(hold.kind == HOURS and hold.kind not in against for hold in at.holds):
            life.close_by = None
            return []
        if life.close_by is None:
            waits = life.turns or not self.resident
            life.close_by = at.now + CLOSING_TIME if waits else at.now
        if at.now < life.close_by and (life.busy or not life.turns):
            return []
        return self.end(life, STOP, "hours", at, "outside its hours")

    def _health(self, life: Incarnation, at: "Moment") -> "list[orders.Order]":
        """Five minutes without an end are health, for all that does not ask for progress."""
        if self.healthy_at() is None or life.began is None or at.now - life.began < HEALTHY:
            return []
        self.memory.history.quick = 0
        self.memory.flapping = False
        return self.recover(at)

    def healthy_at(self) -> int | None:
        """Return when what was told of it is over, if it lives on; None where nothing was, or only progress helps."""
        life, alert = self.life, self.memory.alert
        if life is None or life.began is None or alert in ("", "stalled", STALLED, "silence"):
            return None
        return life.began + HEALTHY

    def recover(self, at: "Moment") -> "list[orders.Order]":
        """It is well again; told where something was wrong."""
        alert, self.memory.alert = self.memory.alert, ""
        return [self.fact(facts.Recovered, at, alert)] if alert else []
