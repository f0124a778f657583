"""What ledger, notices, metrics and feeds see of harnesses: facts, in the past tense, `at` on the boot clock.

The set is closed, with what is told of firings (`firing_facts`) and of the daemon itself (`daemon_facts`); `FACTS` lists
it by wire name. Instants
that people read (`until`, `due`) are wall time in ms since 1970, spans are ms.
"""

from longwatch.core import daemon_facts, firing_facts
from longwatch.core.facts import Fact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class _OfRun(Fact):
    """Base of facts that say no more than which run."""

    __slots__ = ("at", "harness", "run")

    def __init__(self, at: int, harness: str, run: str) -> None:
        self.at = at
        self.harness = harness
        self.run = run


class RunOpened(Fact):
    """A run is written down and about to be started. `trigger`: autostart, restart, release, manual, a firing's."""

    __slots__ = ("at", "attempt", "harness", "run", "trigger")

    def __init__(self, at: int, harness: str, run: str, trigger: str, attempt: int) -> None:
        self.at = at
        self.harness = harness
        self.run = run
        self.trigger = trigger
        self.attempt = attempt


class RunClosed(Fact):
    """A run is over and its tree proven gone; `record` is what the ledger keeps of it."""

    __slots__ = ("at", "harness", "record", "run")

    def __init__(self, at: int, harness: str, run: str, record: "Mapping[str, Any]") -> None:
        self.at = at
        self.harness = harness
        self.run = run
        self.record = dict(record)


class StateChanged(Fact):
    """A harness went from one state to the next; `why` in a few words."""

    __slots__ = ("at", "before", "harness", "state", "why")

    def __init__(self, at: int, harness: str, state: str, before: str, why: str) -> None:
        self.at = at
        self.harness = harness
        self.state = state
        self.before = before
        self.why = why


class Stalled(Fact):
    """No successful call for a whole window. `stalls` in a row without progress, this one included.

    `action` is what the limit does about it now, `gave_up` whether nothing but reports will follow any more, `tree`
    the processes, root first (empty where the process table could not be read).
    """

    __slots__ = ("action", "at", "gave_up", "harness", "idle", "run", "stalls", "tree", "window")

    def __init__(
        self, at: int, harness: str, run: str, idle: int, window: int, action: str, stalls: int,
        gave_up: bool, tree: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.at = at
        self.harness = harness
        self.run = run
        self.idle = idle
        self.window = window
        self.action = action
        self.stalls = stalls
        self.gave_up = gave_up
        self.tree = tree


class RestartPlanned(Fact):
    """The next incarnation begins after so many ms."""

    __slots__ = ("after", "at", "cause", "harness")

    def __init__(self, at: int, harness: str, after: int, cause: str) -> None:
        self.at = at
        self.harness = harness
        self.after = after
        self.cause = cause


class Flapping(Fact):
    """So many lives in a row were shorter than ten seconds."""

    __slots__ = ("at", "harness", "quick")

    def __init__(self, at: int, harness: str, quick: int) -> None:
        self.at = at
        self.harness = harness
        self.quick = quick


class GaveUp(Fact):
    """Restarts are spent; a manual start clears that. `error` is its last error line, where there is one.

    `cause` is one of `restarts.CAUSES`; of `stalls` it runs on and is only reported about.
    """

    __slots__ = ("at", "cause", "error", "harness")

    def __init__(self, at: int, harness: str, cause: str, error: str = "") -> None:
        self.at = at
        self.harness = harness
        self.cause = cause
        self.error = error


class Recovered(Fact):
    """What was flapping, given up or held by a refusal is well again; told only after one of those. `cause` names it."""

    __slots__ = ("at", "cause", "harness")

    def __init__(self, at: int, harness: str, cause: str) -> None:
        self.at = at
        self.harness = harness
        self.cause = cause


class Parked(Fact):
    """A provider's limit holds the harness until an instant; None: until a human starts it. `cls` as in `parking`."""

    __slots__ = ("at", "cls", "group", "harness", "text", "until")

    def __init__(
        self, at: int, harness: str, group: str, until: int | None, cls: str, text: str = ""
    ) -> None:
        self.at = at
        self.harness = harness
        self.group = group
        self.until = until
        self.cls = cls
        self.text = text


class Unparked(Fact):
    """The wait for the provider is over, by its time or by hand."""

    __slots__ = ("at", "group", "harness")

    def __init__(self, at: int, harness: str, group: str) -> None:
        self.at = at
        self.harness = harness
        self.group = group


class HeldBack(Fact):
    """It would run, and may not: `holds` are the kinds, `reason` the first one's sentence, `until` its end if known."""

    __slots__ = ("at", "harness", "holds", "reason", "until")

    def __init__(
        self, at: int, harness: str, holds: tuple[str, ...], reason: str = "", until: int | None = None
    ) -> None:
        self.at = at
        self.harness = harness
        self.holds = holds
        self.reason = reason
        self.until = until


class LetGo(Fact):
    """Nothing holds it back any more."""

    __slots__ = ("at", "harness")

    def __init__(self, at: int, harness: str) -> None:
        self.at = at
        self.harness = harness


class LoopStopped(Fact):
    """The same call came `count` times in a row and the run was ended for it; it is not started again."""

    __slots__ = ("at", "count", "harness", "run", "tool")

    def __init__(self, at: int, harness: str, run: str, tool: str, count: int) -> None:
        self.at = at
        self.harness = harness
        self.run = run
        self.tool = tool
        self.count = count


class IntentLost(Fact):
    """Whether it is wanted could not be kept, so a new daemon may decide otherwise."""

    __slots__ = ("at", "error", "harness")

    def __init__(self, at: int, harness: str, error: str = "") -> None:
        self.at = at
        self.harness = harness
        self.error = error


class Unkillable(_OfRun):
    """Something of its tree survived KILL: no second copy is started beside it."""

    __slots__ = ("at", "harness", "run")


class AgentAsked(_OfRun):
    """Its agent waits for a human."""

    __slots__ = ("at", "harness", "run")


class AgentAnswered(_OfRun):
    """It waits no more."""

    __slots__ = ("at", "harness", "run")


class LimitNotice(Fact):
    """A limit other than `stall` passed its window and was told to humans."""

    __slots__ = ("at", "harness", "limit", "run", "window")

    def __init__(self, at: int, harness: str, run: str, limit: str, window: int) -> None:
        self.at = at
        self.harness = harness
        self.run = run
        self.limit = limit
        self.window = window


class Adopted(_OfRun):
    """A daemon that came after found it alive and looks after it."""

    __slots__ = ("at", "harness", "run")


class StaleDropped(Fact):
    """`what` was told of a run that has been replaced; nothing was done for it."""

    __slots__ = ("at", "harness", "run", "what")

    def __init__(self, at: int, harness: str, run: str, what: str) -> None:
        self.at = at
        self.harness = harness
        self.run = run
        self.what = what


_OURS = (
    RunOpened, RunClosed, StateChanged, Stalled, RestartPlanned, Flapping, GaveUp, Recovered, Parked, Unparked, HeldBack,
    LetGo, *firing_facts.OURS, LoopStopped, IntentLost, Unkillable, AgentAsked, AgentAnswered, LimitNotice, Adopted,
    StaleDropped,
)  # fmt: skip


def wire_name(kind: type) -> str:
    """Return the name of a kind of fact (or of a word) on the wire: `StateChanged` is `state_changed`."""
    return "".join("_" + c.lower() if c.isupper() else c for c in kind.__name__).lstrip("_")


#: All facts of harnesses and of the daemon, by their names on the wire.
FACTS: dict[str, type[Fact]] = {wire_name(kind): kind for kind in (*_OURS, *daemon_facts.OURS)}
