"""What ledger, events and subscribers see of a run: facts, in the past tense, each with its instant `at` (ms)."""

from longwatch.core.record import Plain


class Fact(Plain):
    """Base of all facts; `at` is the instant on the watch's clock."""

    __slots__: tuple[str, ...] = ("at",)
    #: The fact's name on the wire: `LimitFired` is `limit_fired`.
    name: str
    at: int

    def __init_subclass__(cls) -> None:
        cls.name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")


class RunStarted(Fact):
    """The program was started."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


class LimitNoted(Fact):
    """Half of a limit's window has passed."""

    __slots__ = ("at", "limit", "window")

    def __init__(self, at: int, limit: str, window: int) -> None:
        self.at = at
        self.limit = limit
        self.window = window


class LimitFired(Fact):
    """A limit's window has passed. `subject` names a call or question; `action` is the highest rung it may climb.

    `since` is the instant the clock counted from, `source` what moved it last (None: nothing ever did).
    """

    __slots__ = ("action", "at", "limit", "since", "source", "subject", "window")

    def __init__(
        self, at: int, limit: str, window: int, since: int, action: str,
        source: str | None = None, subject: str | None = None,
    ) -> None:  # fmt: skip
        self.at = at
        self.limit = limit
        self.window = window
        self.since = since
        self.action = action
        self.source = source
        self.subject = subject


class Nudged(Fact):
    """The nudge's text was asked to be typed into the program."""

    __slots__ = ("at", "limit")

    def __init__(self, at: int, limit: str) -> None:
        self.at = at
        self.limit = limit


class StopAverted(Fact):
    """A stop was called off before the first signal: `why` is `progress`, `veto`, `held` or `exited`."""

    __slots__ = ("at", "limit", "why")

    def __init__(self, at: int, limit: str, why: str) -> None:
        self.at = at
        self.limit = limit
        self.why = why


class StopBegan(Fact):
    """The first signal is about to be sent; from here on the cause of the end is ours."""

    __slots__ = ("at", "origin", "reason", "signal")

    def __init__(self, at: int, reason: str, signal: int, origin: str | None = None) -> None:
        self.at = at
        self.reason = reason
        self.signal = signal
        self.origin = origin


class KillSent(Fact):
    """The grace is over: KILL was asked for."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


class TreeUnkillable(Fact):
    """Some of the tree did not go within the wait after KILL."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


class ExtensionGranted(Fact):
    """The ceiling moved by pauses of the provider: this grant, the total so far, what is left of the cap."""

    __slots__ = ("at", "grant", "limit", "remaining", "total")

    def __init__(self, at: int, limit: str, grant: int, total: int, remaining: int) -> None:
        self.at = at
        self.limit = limit
        self.grant = grant
        self.total = total
        self.remaining = remaining


class HoldBegan(Fact):
    """Silence is expected from now on: `hold` is call, asked, paused, quiet or ready.

    `subject` is the call or question that the end will name again; `tool` what was called.
    """

    __slots__ = ("at", "hold", "subject", "tool", "until")

    def __init__(
        self, at: int, hold: str, subject: str = "", until: int | None = None, tool: str = ""
    ) -> None:
        self.at = at
        self.hold = hold
        self.subject = subject
        self.until = until
        self.tool = tool


class HoldEnded(Fact):
    """A hold is over."""

    __slots__ = ("at", "hold", "subject")

    def __init__(self, at: int, hold: str, subject: str = "") -> None:
        self.at = at
        self.hold = hold
        self.subject = subject


class Lapse(Fact):
    """Nobody watched for `span` ms; silence in it does not count."""

    __slots__ = ("at", "span")

    def __init__(self, at: int, span: int) -> None:
        self.at = at
        self.span = span


class SourceChanged(Fact):
    """A source became readable (`found`) or unreadable (`lost`)."""

    __slots__ = ("at", "source", "state")

    def __init__(self, at: int, source: str, state: str) -> None:
        self.at = at
        self.source = source
        self.state = state


class LoopSuspected(Fact):
    """The same call came again and again."""

    __slots__ = ("at", "count", "tool", "window")

    def __init__(self, at: int, tool: str, count: int, window: int) -> None:
        self.at = at
        self.tool = tool
        self.count = count
        self.window = window


class LeaderExited(Fact):
    """The program itself ended."""

    __slots__ = ("at", "code", "signal")

    def __init__(self, at: int, code: int | None, signal: int | None) -> None:
        self.at = at
        self.code = code
        self.signal = signal


class LeftoversStopped(Fact):
    """Processes that the program left behind; `kept` where the user wants them."""

    __slots__ = ("at", "kept", "processes")

    def __init__(self, at: int, processes: tuple[str, ...], kept: bool) -> None:
        self.at = at
        self.processes = processes
        self.kept = kept


class RunParked(Fact):
    """A provider's limit ended this incarnation; the next one begins at `until`, in ms since 1970. `cls`: rate, usage."""

    __slots__ = ("at", "cls", "until")

    def __init__(self, at: int, cls: str, until: int) -> None:
        self.at = at
        self.cls = cls
        self.until = until


class GaveUp(Fact):
    """Restarts are spent; only a human starts it again."""

    __slots__ = ("at", "cause")

    def __init__(self, at: int, cause: str) -> None:
        self.at = at
        self.cause = cause


class RunEnded(Fact):
    """The run is over. `termination_reason` is of the closed set in `outcomes`."""

    __slots__ = ("at", "code", "limit", "origin", "signal", "termination_reason")

    def __init__(
        self, at: int, termination_reason: str, code: int | None = None, signal: int | None = None,
        origin: str | None = None, limit: str | None = None,
    ) -> None:  # fmt: skip
        self.at = at
        self.termination_reason = termination_reason
        self.code = code
        self.signal = signal
        self.origin = origin
        self.limit = limit
