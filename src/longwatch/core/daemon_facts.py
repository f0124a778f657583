"""What the daemon tells of itself: facts, in the past tense, `at` on the boot clock."""

from longwatch.core.facts import Fact


class DaemonStarted(Fact):
    """It looks after its harnesses from now on."""

    __slots__ = ("at", "version")

    def __init__(self, at: int, version: str = "") -> None:
        self.at = at
        self.version = version


class DaemonStopping(Fact):
    """It is about to end; `why` is down, signal, replaced or failed."""

    __slots__ = ("at", "why")

    def __init__(self, at: int, why: str) -> None:
        self.at = at
        self.why = why


class Reloaded(Fact):
    """The file was read again: names it applied to, those with launch keys that wait for a restart, those gone."""

    __slots__ = ("applied", "at", "errors", "pending", "removed")

    def __init__(
        self, at: int, applied: tuple[str, ...] = (), pending: tuple[str, ...] = (),
        removed: tuple[str, ...] = (), errors: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.at = at
        self.applied = applied
        self.pending = pending
        self.removed = removed
        self.errors = errors


class TickLate(Fact):
    """The daemon itself was absent for `span` ms."""

    __slots__ = ("at", "span")

    def __init__(self, at: int, span: int) -> None:
        self.at = at
        self.span = span


class LedgerFailed(Fact):
    """A record could not be made durable; it is kept and tried again."""

    __slots__ = ("at", "error")

    def __init__(self, at: int, error: str) -> None:
        self.at = at
        self.error = error


class LedgerBack(Fact):
    """Records are durable again."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


class NotifyFailed(Fact):
    """A notice did not get through."""

    __slots__ = ("at", "channel", "error")

    def __init__(self, at: int, channel: str, error: str) -> None:
        self.at = at
        self.channel = channel
        self.error = error


class NotifyDelivered(Fact):
    """A notice got through."""

    __slots__ = ("at", "channel")

    def __init__(self, at: int, channel: str) -> None:
        self.at = at
        self.channel = channel


OURS = (
    DaemonStarted, DaemonStopping, Reloaded, TickLate, LedgerFailed, LedgerBack, NotifyFailed, NotifyDelivered
)  # fmt: skip
