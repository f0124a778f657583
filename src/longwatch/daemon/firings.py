"""What makes scheduled and triggered harnesses run: the agenda of each, and who waits for which run."""

from longwatch import paths, vocabulary
from longwatch.core import service_words as w
from longwatch.core.agenda import Agenda
from longwatch.core.facts import Fact
from longwatch.core.firing_facts import FiringMissed, FiringSkipped, TriggerReceived
from longwatch.core.service_words import Firing
from longwatch.daemon.asking import NOT_NOW, Later, Refusal
from longwatch.posix import wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.daemon.supervisor import Supervisor

#: The wall clock may be set at any time, so it is looked at so often, in ms, where anybody goes by it.
LOOK = 60_000


class Waiting:
    """Somebody waits for what a firing leads to."""

    __slots__ = ("answer", "name", "payload", "run")

    def __init__(self, name: str, payload: str | None) -> None:
        self.name = name
        self.answer = Later()
        self.payload = payload
        self.run: str | None = None


class Firings:
    """The agendas of all harnesses of a daemon, and its open triggers."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor
        self._agendas: dict[str, Agenda] = {}
        self._waiting: dict[str, Waiting] = {}
        self._timer: Any = None
        supervisor.subscribe(self._heard)

    # -- schedules

    def add(self, harness: "Harness", told: "dict[str, Any] | None") -> None:
        """Go by the schedule of a harness from now on, or from where an earlier daemon was."""
        wall = wall_of(self._supervisor.host.now())
        if harness.schedule:
            self._agendas[harness.name] = Agenda.of(told) if told else Agenda.begun(wall)
        else:
            self._agendas.pop(harness.name, None)

    def change(self, harness: "Harness") -> None:
        """The schedule of a harness is another one from now on: what lies behind is none of its windows."""
        agenda = self._agendas.get(harness.name)
        if agenda is None or not harness.schedule:
            self.add(harness, None)
        else:
            agenda.moved(wall_of(self._supervisor.host.now()))

    def drop(self, name: str) -> None:
        """Forget a harness."""
        self._agendas.pop(name, None)

    def kept(self, name: str) -> "dict[str, Any] | None":
        """Return what the next daemon has to know of a harness's agenda."""
        agenda = self._agendas.get(name)
        return None if agenda is None else agenda.as_dict()

    def due(self, name: str) -> int | None:
        """Return when a harness is due next, in wall ms."""
        if name not in self._agendas:
            return None
        return self._supervisor.calendars[name].next_due(wall_of(self._supervisor.host.now()))

    def look(self, now: int = 0) -> None:
        """Fire what is due, tell what was missed, and let time pass for those with hours."""
        supervisor = self._supervisor
        wall = wall_of(supervisor.host.now())
        for name, agenda in list(self._agendas.items()):
            service = supervisor.services[name]
            looked = agenda.look(
                supervisor.calendars[name].between(agenda.since(wall), wall), wall, service.harness.catch_up
            )
            if looked.first is not None and looked.last is not None:
                supervisor.publish(
                    FiringMissed(supervisor.host.now(), name, looked.last, looked.missed, looked.first)
                )
            if looked.fire is not None:
                service.tell(w.Fired(Firing("schedule", looked.fire)))
            if looked.missed or looked.fire is not None:
                supervisor.remember(at_once=True)
        supervisor.look_again()
        self._set_timer()

    def _set_timer(self) -> None:
        """Wake up for the next due instant or change of hours; and now and then, for the clock may be set."""
        supervisor = self._supervisor
        now = supervisor.host.now()
        wall = wall_of(now)
        instants = []
        for name, calendar in supervisor.calendars.items():
            harness = supervisor.services[name].harness if name in supervisor.services else None
            if harness is None or not (harness.schedule or harness.hours):
                continue
            instants += [calendar.next_due(wall) if harness.schedule else None, calendar.next_change(wall)]
        soonest = min((at for at in instants if at is not None), default=wall + LOOK)
        wake_up = now + max(1, min(LOOK, soonest - wall))
        supervisor.host.cancel(self._timer)
        self._timer = supervisor.host.at(wake_up, self.look) if instants else None

    # -- triggers

    def trigger(
        self, name: str, trigger: str, source: str, *, wait: bool, payload: str | None
    ) -> "dict[str, Any] | Later":
        """Have a harness run now. Answers with its run, or that it waits for its turn; with `wait` at its end."""
        supervisor = self._supervisor
        service = supervisor.services[name]
        token = paths.new_run_id("firing")
        waiting = self._waiting[token] = Waiting(name, payload)
        supervisor.publish(TriggerReceived(supervisor.host.now(), name, trigger, source))
        service.tell(w.Fired(Firing(trigger, None, token), manual=source == "cli"))
        opening = service.opening
        if opening is not None and opening.firing is not None and opening.firing.token == token:
            waiting.run = opening.run
        if not waiting.answer.over and not wait:
            waiting.answer.give(
                {"name": name, "run": waiting.run, "queued": waiting.run is None, "attempt": 1}
            )
        return waiting.answer

    def begun(self, token: str, run: str) -> None:
        """A run of a firing begins."""
        if token in self._waiting:
            self._waiting[token].run = run

    def payload(self, token: str) -> str | None:
        """Return where what came with a firing lies."""
        waiting = self._waiting.get(token)
        return None if waiting is None else waiting.payload

    def _heard(self, fact: Fact) -> None:
        if isinstance(fact, FiringSkipped):
            self._skipped(fact)

    def _skipped(self, fact: FiringSkipped) -> None:
        waiting = self._waiting.pop(fact.token, None)
        if waiting is None:
            return
        waiting.answer.refuse(Refusal(NOT_NOW, f"{fact.harness}: not started: {vocabulary.firing(fact.why)}"))
        if waiting.payload is not None:
            self._supervisor.drop_payload(waiting.payload)

    def over(self, run: str, record: "dict[str, Any]") -> None:
        """A run is over: whoever waited for it is told how it went."""
        for token, waiting in list(self._waiting.items()):
            if waiting.run == run:
                del self._waiting[token]
                waiting.answer.give({"name": waiting.name, "run": run, "queued": False, "ended": record})
