"""What a service asks for, in the imperative; to be performed in the order given."""

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core.facts import Fact
    from longwatch.core.service_words import Firing


class Order(Plain):
    """Base of everything a service asks for."""

    __slots__ = ()


class OpenRun(Order):
    """Make an id, write the run down; answer `Opened`. `reason`: how the one before ended (empty: there was none).

    `report_only`: the stall limit of this incarnation may notify and do no more.
    """

    __slots__ = ("attempt", "firing", "generation", "reason", "report_only", "trigger")

    def __init__(
        self, generation: int, trigger: str, attempt: int = 1, reason: str = "", firing: "Firing | None" = None,
        report_only: bool = False,
    ) -> None:  # fmt: skip
        self.generation = generation
        self.trigger = trigger
        self.attempt = attempt
        self.reason = reason
        self.firing = firing
        self.report_only = report_only


class Spawn(Order):
    """Start the process; answer `Spawned` or `SpawnFailed`."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class CloseRun(Order):
    """It is not wanted any more and there was no process: make its record; answer `RunOver`."""

    __slots__ = ("generation", "origin", "reason")

    def __init__(self, generation: int, reason: str, origin: str) -> None:
        self.generation = generation
        self.reason = reason
        self.origin = origin


class StopRun(Order):
    """End it with its whole tree; answer `RunOver`. Asked again, the end comes sooner."""

    __slots__ = ("generation", "origin", "reason")

    def __init__(self, generation: int, reason: str, origin: str) -> None:
        self.generation = generation
        self.reason = reason
        self.origin = origin


class ArmStall(Order):
    """Its stall limit may act again as the file says."""

    __slots__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.generation = generation


class KeepIntent(Order):
    """Make durable whether it is wanted."""

    __slots__ = ("enabled",)

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled


class Remember(Order):
    """What the service remembers has changed: keep it when there is time, or (`at_once`) before anything else is done.

    The latter where a daemon that is killed now would let the next one run something twice, or not at all.
    """

    __slots__ = ("at_once",)

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once


class ParkGroup(Order):
    """Nobody of the group starts before the wall instant; `drawn` spreads those who wait."""

    __slots__ = ("cls", "drawn", "group", "text", "until")

    def __init__(self, group: str, until: int, cls: str, text: str, drawn: float) -> None:
        self.group = group
        self.until = until
        self.cls = cls
        self.text = text
        self.drawn = drawn


class Refuse(Order):
    """What was asked for cannot be done; `why` in a few words."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class Tell(Order):
    """Publish a fact."""

    __slots__ = ("fact",)

    def __init__(self, fact: "Fact") -> None:
        self.fact = fact
