"""What is told of firings, of a schedule or of somebody outside: facts, in the past tense, `at` on the boot clock."""

from longwatch.core.facts import Fact

#: Why a firing waits or comes to nothing: the last run lives, another one waits already, a newer one took its place;
#: it is not wanted, not in the file any more, or the daemon ends; it is resident.
BUSY, QUEUED, REPLACED, STOPPED, REMOVED, SHUTDOWN, UNASKED = WHYS = (
    "busy", "queued", "replaced", "stopped", "removed", "shutdown", "resident",
)  # fmt: skip


class _Firing(Fact):
    """Base of facts of a firing; `due` is None for what came by itself."""

    __slots__ = ("at", "due", "harness", "token", "trigger", "why")

    def __init__(
        self, at: int, harness: str, trigger: str, due: int | None, why: str, token: str = ""
    ) -> None:
        self.at = at
        self.harness = harness
        self.trigger = trigger
        self.due = due
        self.why = why
        self.token = token


class FiringQueued(_Firing):
    """A firing waits: `why` is `BUSY` or the kind of the hold."""

    __slots__ = ("at", "due", "harness", "token", "trigger", "why")


class FiringSkipped(_Firing):
    """A firing came to nothing: `why` is one of `WHYS` or the kind of a hold."""

    __slots__ = ("at", "due", "harness", "token", "trigger", "why")


class FiringMissed(Fact):
    """`count` windows passed while nobody could act on them, the first and the last of them at these instants."""

    __slots__ = ("at", "count", "due", "first", "harness")

    def __init__(self, at: int, harness: str, due: int, count: int, first: int) -> None:
        self.at = at
        self.harness = harness
        self.due = due
        self.count = count
        self.first = first


class TriggerReceived(Fact):
    """Somebody outside asked for a run."""

    __slots__ = ("at", "harness", "source", "trigger")

    def __init__(self, at: int, harness: str, trigger: str, source: str) -> None:
        self.at = at
        self.harness = harness
        self.trigger = trigger
        self.source = source


OURS = (FiringQueued, FiringSkipped, FiringMissed, TriggerReceived)
