"""What a service is told, in the past tense. What it answers is in `service_orders`.

A generation is the number of an incarnation, given with `OpenRun`; what is told of an older one is dropped. Instants
are ms of the boot clock, except where wall time is named.
"""

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.core.parking import Limited
    from longwatch.core.restarts import Life
    from longwatch.core.service_holds import Hold

#: Why an incarnation was started where no firing says it.
AUTOSTART, RESTART, RELEASE, MANUAL = "autostart", "restart", "release", "manual"
#: What fires by the clock; everything else that fires was sent by somebody.
SCHEDULE = "schedule"


class Firing(Plain):
    """Something asks for one run: what, for which wall instant (None: for now), and an opaque word of the asker."""

    __slots__ = ("due", "token", "trigger")

    def __init__(self, trigger: str, due: int | None = None, token: str = "") -> None:
        self.trigger = trigger
        self.due = due
        self.token = token


class Moment(Plain):
    """When something is told: both clocks, a drawn number in [0, 1), and what holds the harness at this moment."""

    __slots__ = ("drawn", "holds", "now", "wall")

    def __init__(self, now: int, wall: int, drawn: float = 0.5, holds: "tuple[Hold, ...]" = ()) -> None:
        self.now = now
        self.wall = wall
        self.drawn = drawn
        self.holds = holds


class Word(Plain):
    """Base of everything a service is told."""

    __slots__ = ()


class Awoke(Word):
    """The daemon has begun and there is nothing to adopt."""

    __slots__ = ()


class Adopted(Word):
    """The daemon has begun and found it alive. `launched` is what it was started as, where that is known."""

    __slots__ = ("attempt", "began", "launched", "ready", "run", "turns")

    def __init__(
        self, run: str, began: int, attempt: int = 1, *, ready: bool = True, turns: bool = False,
        launched: "Harness | None" = None,
    ) -> None:  # fmt: skip
        self.run = run
        self.began = began
        self.attempt = attempt
        self.ready = ready
        self.turns = turns
        self.launched = launched


class StartAsked(Word):
    """A human wants it to run: everything that kept it from that is forgotten or overruled."""

    __slots__ = ("by",)

    def __init__(self, by: str = "") -> None:
        self.by = by


class StopAsked(Word):
    """Somebody wants it to end: for good, or (`keep`) only this run of one that fires. `run` names which, if given."""

    __slots__ = ("by", "keep", "origin", "run")

    def __init__(self, by: str = "", run: str = "", origin: str = "explicit", *, keep: bool = False) -> None:
        self.by = by
        self.run = run
        self.origin = origin
        self.keep = keep


class RestartAsked(Word):
    """Somebody wants a new incarnation; `inside`: its own tree does, and that clears nothing."""

    __slots__ = ("by", "inside", "run")

    def __init__(self, by: str = "", run: str = "", *, inside: bool = False) -> None:
        self.by = by
        self.run = run
        self.inside = inside


class Fired(Word):
    """A window is due or a trigger came; `manual`: a human sent it, and overrules holds."""

    __slots__ = ("firing", "manual")

    def __init__(self, firing: Firing, *, manual: bool = False) -> None:
        self.firing = firing
        self.manual = manual


class Changed(Word):
    """The file says something else of it; `restart`: launch keys are to take effect now."""

    __slots__ = ("harness", "restart")

    def __init__(self, harness: "Harness", *, restart: bool = False) -> None:
        self.harness = harness
        self.restart = restart


class Removed(Word):
    """The file does not name it any more: it may end by itself, or (`prune`) is ended."""

    __slots__ = ("prune",)

    def __init__(self, *, prune: bool = False) -> None:
        self.prune = prune


class ShutdownAsked(Word):
    """The daemon is about to end: with everything, or (`keep`) leaving all processes alone. Intent is kept."""

    __slots__ = ("keep",)

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep


class LifeWord(Word):
    """Base of what is told of one incarnation."""

    __slots__ = ("generation",)
    generation: int


class Opened(LifeWord):
    """The run has an id and its record is durable."""

    __slots__ = ("generation", "run")

    def __init__(self, generation: int, run: str) -> None:
        self.generation = generation
        self.run = run


class Spawned(LifeWord):
    """There is a process; `turns`: its turns are seen."""

    __slots__ = ("generation", "turns")

    def __init__(self, generation: int, *, turns: bool = False) -> None:
        self.generation = generation
        self.turns = turns


class SpawnFailed(LifeWord):
    """There is none; `error` says why in one line."""

    __slots__ = ("error", "generation", "record")

    def __init__(self, generation: int, error: str, record: "Mapping[str, Any] | None" = None) -> None:
        self.generation = generation
        self.error = error
        self.record = dict(record or {})


class BecameReady(LifeWord):
    """Its ready text was seen."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class TurnSeen(LifeWord):
    """A turn began (`busy`), or it waits for the next one."""

    __slots__ = ("busy", "generation")

    def __init__(self, generation: int, busy: bool) -> None:
        self.generation = generation
        self.busy = busy


class StopStarted(LifeWord):
    """A limit began to stop it."""

    __slots__ = ("generation", "reason")

    def __init__(self, generation: int, reason: str) -> None:
        self.generation = generation
        self.reason = reason


class TreeStuck(LifeWord):
    """Something of its tree survived KILL."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class RunOver(LifeWord):
    """It is over and its tree proven gone. `limited`: the provider's limit that stood at its end. `record`: for the ledger.

    `tool` and `count` say what was repeated where it looped.
    """

    __slots__ = ("count", "generation", "life", "limited", "record", "tool")

    def __init__(
        self, generation: int, life: "Life", limited: "Limited | None" = None,
        record: "Mapping[str, Any] | None" = None, tool: str = "", count: int = 0,
    ) -> None:  # fmt: skip
        self.generation = generation
        self.life = life
        self.limited = limited
        self.record = dict(record or {})
        self.tool = tool
        self.count = count


class CallSucceeded(LifeWord):
    """A call of its agent succeeded."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class QuotaHit(LifeWord):
    """Its provider refused a request because of a limit, and it runs on."""

    __slots__ = ("generation", "limited")

    def __init__(self, generation: int, limited: "Limited") -> None:
        self.generation = generation
        self.limited = limited


class StallFound(LifeWord):
    """Its stall limit fired, with this action; `tree` describes its processes, root first."""

    __slots__ = ("action", "generation", "idle", "tree", "window")

    def __init__(
        self, generation: int, idle: int, window: int, action: str, tree: tuple[str, ...] = ()
    ) -> None:
        self.generation = generation
        self.idle = idle
        self.window = window
        self.action = action
        self.tree = tree


class LimitFound(LifeWord):
    """Another limit fired and a human is told; whatever it stops is told apart."""

    __slots__ = ("generation", "limit", "window")

    def __init__(self, generation: int, limit: str, window: int) -> None:
        self.generation = generation
        self.limit = limit
        self.window = window


class Progressed(LifeWord):
    """It moved. Told once after a `LimitFound`, it says that the silence is over."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class BudgetSpent(LifeWord):
    """The tokens or the money of one run are spent; `why` is the sentence."""

    __slots__ = ("generation", "why")

    def __init__(self, generation: int, why: str) -> None:
        self.generation = generation
        self.why = why
