"""The parts of a daemon, made for one file and made anew where a reload says so."""

import os

from longwatch.daemon.agents import Agents
from longwatch.daemon.dead_man import DeadMan
from longwatch.daemon.deliveries import Deliveries
from longwatch.daemon.narration import line
from longwatch.daemon.parts import DaemonParts
from longwatch.daemon.state import Remembered
from longwatch.daemon.supervisor import Supervisor
from longwatch.notify.desk import desk_for
from longwatch.options import child_environment, recorded
from longwatch.redaction import Redaction
from longwatch.runtime.logs import Logs
from longwatch.runtime.making import Parts
from longwatch.store.writer import LedgerWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.core.facts import Fact
    from longwatch.core.harness import Harness
    from longwatch.daemon.app import App
    from longwatch.daemon.compile import Compiled


class Wiring:
    """Makes the parts; then there are `parts` and `supervisor`."""

    def __init__(self, app: "App", file: "Compiled") -> None:
        self._app = app
        host, log = app.host, app.log
        ledger = LedgerWriter(
            app.state, app.daemon, failed=self._ledger_failed, back=self._ledger_back, note=log.say
        )
        logs = Logs(os.path.join(app.folder, "logs"))
        agents = Agents(app.folder, log.say)
        run = Parts(
            app.state, sinks=self._sink, observer=agents.__call__, redact=self._clean,
            described={"daemon": app.daemon}, environment=child_environment, recorded=recorded,
        )  # fmt: skip
        self.parts = parts = DaemonParts(run, ledger=ledger, agents=agents, logs=logs)
        redaction = self._hide(file)
        ledger.start()
        for warning in agents.configure(file.harnesses.values()):
            log.say(warning)
        self.supervisor = Supervisor(
            host,
            parts,
            config=app.config,
            folder=app.folder,
            sockets=app.sockets,
            state=app.state,
            log=log.say,
        )
        self._bound(file)
        self._taken = Remembered(app.folder, "deliveries.json")
        #: Deliveries of webhooks that this daemon or an earlier one has taken in.
        self.deliveries = Deliveries(self._taken.read(), self._keep_taken)
        if self._taken.problem:
            self.supervisor.complain(self._taken.problem)
        self._told = Remembered(app.folder, "notify.json")
        parts.desk = desk_for(
            file.table("notify"), host, self.supervisor.publish, redactor=redaction.redactor,
            state=self._told.read() or None, keep=self._keep_told, config=app.config,
        )  # fmt: skip
        self.supervisor.subscribe(parts.desk.heard)
        self.supervisor.subscribe(self._narrate)
        self.dead_man: DeadMan | None = None

    def _narrate(self, fact: "Fact") -> None:
        text = line(fact)
        if text:
            self._app.log.say(text)

    def tell_outside(self, file: "Compiled") -> None:
        """From now on somebody outside may hear that we live."""
        host = self._app.host
        self.dead_man = DeadMan(
            file.table("notify"), host.command, host.at, host.now, self._app.healthy, self.supervisor.publish
        )

    def again(self, file: "Compiled") -> list[str]:
        """Apply what another version of the file says of all but the harnesses; return what is to be said of it."""
        parts = self.parts
        redaction = self._hide(file)
        self._bound(file)
        warnings = [] if parts.agents is None else list(parts.agents.configure(file.harnesses.values()))
        if parts.desk is not None:
            parts.desk.reload(file.table("notify"), redaction.redactor)
        if self.dead_man is not None:
            self.dead_man.reload(file.table("notify"))
        if parts.portal is not None:
            warnings += parts.portal.configure(file.table("web"))
        return warnings

    def _hide(self, file: "Compiled") -> Redaction:
        """Take this file's secrets out of whatever is written down from now on."""
        extra = [str(value) for value in file.tables.get("secrets") or ()]
        redaction = self.parts.redaction = Redaction.of(file.harnesses.values(), os.environ, extra)
        self._app.log.clean = redaction.text
        self.parts.ledger.redactor = redaction.redactor if redaction else None
        return redaction

    def _bound(self, file: "Compiled") -> None:
        table, admission = file.table("daemon"), self.supervisor.admission
        admission.places = int(table.get("max_concurrent") or 0)
        admission.daily_cost = float(table.get("daily_cost_usd") or 0)

    def _clean(self, value: "Any") -> "Any":
        return self.parts.redaction.value(value) if self.parts.redaction else value

    def _sink(self, harness: "Harness", run: str, resumed: bool, warn: "Callable[[str], object]") -> "Any":
        assert self.parts.logs is not None
        redactor = Redaction.of([harness], os.environ).stream() if harness.secrets else None
        return self.parts.logs.sink(harness, run, resumed, warn, redactor)

    def _keep_told(self, told: "dict[str, Any]") -> None:
        self.supervisor.scribe.write(self._told, told)

    def _keep_taken(self, told: "dict[str, Any]", done: "Callable[[], object]") -> None:
        self.supervisor.scribe.write(self._taken, told, done)

    def _ledger_failed(self, text: str) -> None:
        self.supervisor.ledger_failed(text)

    def _ledger_back(self) -> None:
        self.supervisor.ledger_back()
