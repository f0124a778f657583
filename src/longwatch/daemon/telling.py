"""What a daemon says: facts to whoever subscribed, lines to its log, and what a human has to know to both."""

import os

from longwatch import paths
from longwatch.core.daemon_facts import LedgerBack, LedgerFailed, TickLate
from longwatch.core.facts import Fact
from longwatch.daemon.parts import DaemonParts
from longwatch.posix import wall_of
from longwatch.runtime.host import Host
from longwatch.store.firings import decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: So many problems are shown, the newest.
MOST = 20


class Telling:
    """Everybody who listens, and what they are told. `log(text)` takes a line for the daemon's log."""

    def __init__(self, host: Host, parts: DaemonParts, log: "Callable[[str], object]") -> None:
        self.host = host
        self.daemon = parts
        self.log = log
        self.problems: list[str] = []
        self.late_most = self.late_times = 0
        self._subscribers: list[Callable[[Fact], object]] = []
        self._ledger_fails = False
        host.failed = self.defect
        host.on_late.append(self._late)

    # -- what is said

    def complain(self, text: str) -> None:
        """Say what a human has to know, in the log and in every status."""
        self.log(text)
        if text not in self.problems:
            self.problems = [*self.problems[1 - MOST :], text]

    def warn(self, name: str, text: str) -> None:
        """Say something about one harness."""
        self.log(f"{name}: {text}")

    def defect(self, error: Exception) -> None:
        """Something of ours failed; all else goes on."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = (
            ""
            if trace is None
            else f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
        )
        self.complain(f"a defect of longwatch{where}: {type(error).__name__}: {error}")

    # -- facts

    def subscribe(self, hear: "Callable[[Fact], object]") -> "Callable[[], object]":
        """Have every fact of harnesses and of the daemon told, in order; return what ends that."""
        self._subscribers.append(hear)
        return lambda: self._subscribers.remove(hear) if hear in self._subscribers else None

    def publish(self, fact: Fact) -> None:
        """Tell everybody; one that raises is dropped."""
        fact = self.daemon.redacted(fact)
        for hear in list(self._subscribers):
            try:
                hear(fact)
            except Exception as error:  # noqa: BLE001 - nobody who listens may hold the others up
                self._subscribers.remove(hear)
                self.defect(error)
        self._feed(fact)

    def _feed(self, fact: Fact) -> None:
        told = {**fact.as_dict(), "event": fact.name}
        if self.daemon.ledger is None:
            self.daemon.tell(told, None)
            return
        decided = decision(fact)
        if decided is not None:
            self.daemon.ledger.decided(decided)
        event = {**told, "at": paths.rfc3339(wall_of(fact.at)), "at_ms": wall_of(fact.at)}
        self.daemon.ledger.feed(told, lambda seq: self.daemon.tell(event, seq))

    # -- what it notices of itself

    def ledger_failed(self, error: str) -> None:
        """Records do not become durable."""
        self._ledger_fails = True
        self.complain(f"the ledger: {error}; records wait, and runs go on")
        self.publish(LedgerFailed(self.host.now(), error))

    def ledger_back(self) -> None:
        """They do again."""
        if not self._ledger_fails:
            return
        self._ledger_fails = False
        self.log("the ledger is written again")
        self.publish(LedgerBack(self.host.now()))

    def _late(self, span: int) -> None:
        self.late_times += 1
        self.late_most = max(self.late_most, span)
        self.publish(TickLate(self.host.now(), span))
