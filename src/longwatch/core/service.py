"""One harness across its incarnations: told what happened, it answers with what is to be done.

As a `Watch` follows one run, a service follows the row of them: what people want of it, what follows an end, what
holds it back. It does no I/O, asks no clock and draws no number; each word comes with its `Moment`. Telling the same
moment twice changes nothing, and what is told of an incarnation that was replaced is dropped, and that is told.
"""

from longwatch.core import service_asks as asks
from longwatch.core import service_ends as ends
from longwatch.core import service_facts as facts
from longwatch.core import service_lives as lives
from longwatch.core import service_states as states
from longwatch.core import service_words as words
from longwatch.core.service_machine import ALIVE, CLOSING, OPENING, SPAWNING, Machine
from longwatch.core.service_orders import Order, Remember, Tell
from longwatch.core.service_words import LifeWord, Moment, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from longwatch.core.harness import Harness
    from longwatch.core.service_memory import Memory

#: An instant like any other: what is remembered is compared as it is kept.
_ZERO = Moment(0, 0)
#: What must not be lost: whether it runs, what waits to be run, what holds it back.
_AT_ONCE = ("enabled", "failed", "queued", "retry", "hold")


class Service:
    """The decisions of one harness. Perform what it answers in the order given, and tell it what came of that."""

    def __init__(self, harness: "Harness", memory: "Memory") -> None:
        self.memory = memory
        self._machine = Machine(harness, memory)
        self._remembered = memory.kept(_ZERO)

    # -- the two verbs

    def tell(self, word: Word, at: Moment) -> list[Order]:
        """Take note of what happened; return what to do about it."""
        if self._machine.frozen:
            return []
        out = [*self._heard(word, at), *self._machine.settle(at)]
        before, after = self._remembered, self.memory.kept(_ZERO)
        self._remembered = after
        if after == before:
            return out
        return [*out, Remember(at_once=any(after[key] != before[key] for key in _AT_ONCE))]

    def advance(self, at: Moment) -> list[Order]:
        """Time has passed, or what holds it back may be another thing by now."""
        return self.tell(Word(), at)

    def kept(self, at: Moment) -> "dict[str, Any]":
        """Return what `Memory.kept` does, and do not look through it for that; it must not be changed."""
        history = self._remembered["history"]
        restarts = [at.wall - (at.now - restart) for restart in history["restarts"]]
        return {**self._remembered, "history": {**history, "restarts": restarts}}

    def _heard(self, word: Word, at: Moment) -> list[Order]:
        if isinstance(word, LifeWord):
            return self._heard_of(word, at)
        handler = self._ASKS.get(type(word))
        return [] if handler is None else handler(self._machine, word, at)

    def _heard_of(self, word: LifeWord, at: Moment) -> list[Order]:
        """Pass on what is told of the one that goes on, as far as it can be so; the rest is stale."""
        life = self._machine.life
        handler, phases = self._LIVES[type(word)]
        if life is None or life.generation != word.generation or life.phase not in phases:
            what = f"{facts.wire_name(type(word))} of generation {word.generation}"
            return [Tell(facts.StaleDropped(at.now, self.harness.name, self.run, what))]
        return handler(self._machine, life, word, at)

    # -- the questions

    @property
    def harness(self) -> "Harness":
        """What it is by the newest definition."""
        return self._machine.harness

    @property
    def state(self) -> str:
        """One of `service_states.STATES`."""
        return self._machine.state

    @property
    def generation(self) -> int:
        """The number of the newest incarnation."""
        return self._machine.generation

    @property
    def run(self) -> str:
        """The run that goes on; empty between two, and while it is being written down."""
        life = self._machine.life
        return "" if life is None else life.run

    @property
    def alive(self) -> bool:
        """Whether there is an incarnation: being written down, being started, or with a process that may exist."""
        return self._machine.life is not None

    @property
    def stuck(self) -> bool:
        """Whether something of the one that goes on survived KILL."""
        life = self._machine.life
        return life is not None and life.stuck

    @property
    def report_only(self) -> bool:
        """Whether stalls of the one that goes on are only reported."""
        life = self._machine.life
        return life is not None and life.report_only

    @property
    def gone(self) -> bool:
        """Whether the file does not name it any more and nothing of it is left."""
        return self._machine.removed and not self.alive

    def next_deadline(self) -> int | None:
        """Return the instant of the boot clock at which to `advance`; None: only a word helps."""
        return None if self._machine.frozen else self._machine.next_deadline()

    def snapshot(self, at: Moment) -> "dict[str, Any]":
        """Return what is shown of it."""
        machine, memory, life = self._machine, self.memory, self._machine.life
        held = machine.held if life is None else ()
        later = life is None and at.now < machine.backoff_until
        return {
            "state": machine.state,
            "intent": memory.enabled,
            "since": machine.since or None,
            "generation": machine.generation,
            "run": self.run,
            "attempt": memory.attempt,
            "ready": machine.state == states.RUNNING,
            "stuck": self.stuck,
            "holds": [hold.as_dict() for hold in held],
            "restarts": len(memory.history.restarts),
            "gave_up": memory.gave_up or None,
            "last_error": memory.error,
            "stalls": memory.history.stalls,
            "report_only": self.report_only,
            "pending_restart": life is not None and not life.launched.launched_alike(machine.harness),
            "queued": memory.queued is not None,
            "backoff_until": machine.backoff_until if later else None,
        }

    # -- who hears what

    _ASKS: "ClassVar[dict[type[Word], Callable[[Machine, Any, Moment], list[Order]]]]" = {
        words.Awoke: asks.awoke,
        words.Adopted: lives.adopted,
        words.StartAsked: asks.started,
        words.StopAsked: asks.stopped,
        words.RestartAsked: asks.restarted,
        words.Fired: asks.fired,
        words.Changed: asks.changed,
        words.Removed: asks.removed,
        words.ShutdownAsked: asks.shut_down,
    }
    #: With the phases in which such a thing can happen.
    _LIVES: "ClassVar[dict[type[LifeWord], tuple[Callable[[Machine, Any, Any, Moment], list[Order]], tuple[str, ...]]]]" = {
        words.Opened: (lives.opened, (OPENING,)),
        words.Spawned: (lives.spawned, (SPAWNING,)),
        words.SpawnFailed: (ends.not_spawned, (SPAWNING,)),
        words.BecameReady: (lives.became_ready, (ALIVE,)),
        words.TurnSeen: (lives.turn_seen, (ALIVE,)),
        words.StopStarted: (lives.stop_started, (ALIVE,)),
        words.TreeStuck: (lives.tree_stuck, (ALIVE,)),
        words.RunOver: (ends.over, (ALIVE, CLOSING)),
        words.CallSucceeded: (lives.call_succeeded, (ALIVE,)),
        words.Progressed: (lives.progressed, (ALIVE,)),
        words.LimitFound: (lives.limit_found, (ALIVE,)),
        words.StallFound: (lives.stall_found, (ALIVE,)),
        words.QuotaHit: (lives.quota_hit, (ALIVE,)),
        words.BudgetSpent: (lives.budget_spent, (ALIVE,)),
    }
