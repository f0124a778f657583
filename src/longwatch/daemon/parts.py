"""The parts of a daemon beside its harnesses, each of which may be missing: ledger, agents, secrets, portal, notices."""

from longwatch.core.facts import Fact
from longwatch.runtime.running import Parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.daemon.agents import Agents
    from longwatch.daemon.portal import Portal
    from longwatch.notify.desk import Desk
    from longwatch.redaction import Redaction
    from longwatch.runtime.logs import Logs
    from longwatch.store.writer import LedgerWriter


class Plainly:
    """What is started where nobody knows better: the command as it stands in the file."""

    __slots__ = ("argv", "environment", "note", "resumed")

    def __init__(self, harness: "Harness") -> None:
        self.argv = list(harness.command)
        self.environment: dict[str, str] = {}
        self.note = ""
        self.resumed = False


class DaemonParts:
    """The parts, and what each is asked. One that is None is done without."""

    def __init__(
        self, run: Parts, *, ledger: "LedgerWriter | None" = None, agents: "Agents | None" = None,
        logs: "Logs | None" = None,
    ) -> None:  # fmt: skip
        self.run = run
        self.ledger: Any = ledger
        self.agents = agents
        self.logs = logs
        self.portal: Portal | None = None
        self.desk: Desk | None = None
        self.redaction: Redaction | None = None

    def launch(self, harness: "Harness") -> "Any":
        """Return what to start: argv, environment, note. Raises SpawnError."""
        return Plainly(harness) if self.agents is None else self.agents.launch(harness)

    def redacted(self, fact: Fact) -> Fact:
        """Return the fact without secrets."""
        return self.redaction.fact(fact) if self.redaction else fact

    def tell(self, fact: "dict[str, Any]", seq: int | None) -> None:
        """Hand an event to whoever follows them from outside."""
        if self.portal is not None:
            self.portal.tell(fact, seq)

    def forget(self, name: str) -> None:
        """A harness is gone for good."""
        if self.agents is not None:
            self.agents.forget(name)
