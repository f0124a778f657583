"""One harness across incarnations: carries out what its state machine says, and tells it what happened.

The record of a run is durable before the program starts; a run is over when its tree is proven gone; and the keeper
forgets it only when its end is written down. Whoever is killed between two of these steps leaves enough behind.
"""

from longwatch import paths
from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.restarts import Life
from longwatch.core.service import Service as Machine
from longwatch.core.service_facts import RunClosed, RunOpened, StateChanged
from longwatch.posix import wall_of
from longwatch.posix.refusal import explain
from longwatch.posix.spawn import INHERIT, NULL, Launch, SpawnError
from longwatch.posix.tree import Tree
from longwatch.runtime.hearing import Hearing, await_text, over
from longwatch.runtime.kept import NoKeeper
from longwatch.runtime.making import launch_mark, output_of
from longwatch.runtime.marks import started
from longwatch.runtime.openings import Opening, blank
from longwatch.runtime.running import Begun, Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar

    from longwatch.core.harness import Harness
    from longwatch.core.service_memory import Memory
    from longwatch.posix.child import Child
    from longwatch.runtime.driver import Timer
    from longwatch.runtime.household import Household
    from longwatch.runtime.rundir import RunDir


class Service:
    """One harness of a daemon. `machine` decides; `running` is its incarnation, while there is one."""

    def __init__(self, house: "Household", harness: "Harness", memory: "Memory") -> None:
        self.house = house
        self.harness = harness
        self.machine = Machine(harness, memory)
        self.running: Running | None = None
        self.opening: Opening | None = None
        #: Called with each record of a run that is over, and after each change of state.
        self.on_closed: list[Callable[[str, dict[str, Any]], object]] = []
        self.on_change: list[Callable[[], object]] = []
        self.counts: dict[str, int] = {"restarts": 0, "transitions": 0, "sessions": 0}
        self.outcomes: dict[str, int] = {}
        self.run_ms = 0
        self.last_run: dict[str, Any] | None = None
        self.refused = ""
        self._timer: Timer | None = None

    # -- words in

    def tell(self, word: "w.Word") -> str:
        """Tell the machine what happened, and do what it says; return why it refused, or nothing."""
        self.refused = ""
        self._perform(self.machine.tell(word, self.house.moment(self.harness)))
        return self.refused

    def advance(self, now: int = 0) -> None:
        """Time has passed, or what holds it back may have changed."""
        self._perform(self.machine.advance(self.house.moment(self.harness)))

    def change(self, harness: "Harness", *, restart: bool = False) -> None:
        """It has another definition now. Limits of what runs are applied by the next incarnation's watch, or at once."""
        self.harness = harness
        if self.running is not None:
            self.running.redefine(harness)
        self.tell(w.Changed(harness, restart=restart))

    # -- words out

    def _perform(self, words: "Iterable[orders.Order]") -> None:
        for word in words:
            self._PERFORM[type(word)](self, word)
        self._set_timer()
        for callback in list(self.on_change):
            callback()

    def _set_timer(self) -> None:
        due = self.machine.next_deadline()
        if self._timer is not None and self._timer.at == due:
            return
        self.house.host.cancel(self._timer)
        self._timer = None if due is None else self.house.host.at(due, self._woken)

    def _woken(self, now: int) -> None:
        self._timer = None
        self.advance(now)

    def _open(self, word: "orders.OpenRun") -> None:
        """Write down that a run is about to begin; it begins when that is durable."""
        moment = wall_of(self.house.host.now())
        opening = self.opening = Opening(word, paths.new_run_id(self.harness.name), paths.rfc3339(moment))
        self.house.opened(self.harness, opening.run, "" if word.firing is None else word.firing.token)
        record = opening.record(self.harness, self.house.parts.recorded(self.harness.command))
        self.counts["sessions"] += 1
        self.counts["restarts"] += word.trigger == w.RESTART
        self.house.publish(
            RunOpened(self.house.host.now(), self.harness.name, opening.run, word.trigger, word.attempt)
        )
        self.house.open(record, lambda error: self._durable(opening))

    def _durable(self, opening: Opening) -> None:
        if self.opening is opening:
            self.tell(w.Opened(opening.generation, opening.run))

    def _spawn(self, word: "orders.Spawn") -> None:
        """Have the keeper start the program."""
        opening = self.opening
        assert opening is not None
        try:
            launched = self.house.next_launch(self.harness)
        except SpawnError as error:
            self._not_started(opening, error.message, error.status)
            return
        if launched.note:
            self.house.warn(self.harness.name, launched.note)
        launch = self._launch(opening, launched.argv, launched.environment)
        mark = launch_mark(self.harness)
        begun = Begun(
            opening.run, opening.attempt, opening.trigger, report_only=opening.report_only, launched=mark
        )
        self._ask_for(word, launch, begun)

    def _ask_for(self, word: "orders.Spawn", launch: Launch, begun: Begun, *, again: bool = False) -> None:
        opening = self.opening

        def answered(told: "Child | SpawnError") -> None:
            if self.opening is not opening:
                return
            if isinstance(told, NoKeeper) and not again:
                # It died this moment, and ended what it had begun.
                self._ask_for(word, launch, begun, again=True)
            else:
                self._spawned(word, launch, begun, told)

        self.house.start(launch, begun.run, answered)

    def _spawned(
        self, word: "orders.Spawn", launch: Launch, begun: Begun, told: "Child | SpawnError"
    ) -> None:
        opening = self.opening
        assert opening is not None
        if isinstance(told, SpawnError):
            why = explain(told, launch)
            self._not_started(opening, why.message, why.status)
        elif self.follow(begun, told):
            assert self.running is not None
            self._note(started(opening.run, opening.attempt))
            self.tell(w.Spawned(word.generation, turns=self.running.watch.spec.observed))
            if self.harness.ready:
                ready = w.BecameReady(word.generation)
                await_text(self.running, self.harness.ready.encode(), lambda: self.tell(ready))
        else:
            self._not_started(opening, "a defect of longwatch, see the daemon's log", 125)

    def _launch(self, opening: Opening, argv: "list[str]", added: "dict[str, str]") -> Launch:
        """Return what is started. The next incarnation is told its number and how the last one ended."""
        harness = self.harness
        token = opening.firing.token if opening.firing is not None else ""
        payload = self.house.payload(harness, opening.run, token) if token else None
        environ = opening.environment(harness, self.house.parts, payload)
        size = (24, 80) if harness.pty else None
        stdin = INHERIT if harness.pty else NULL
        return Launch(argv, {**environ, **added}, harness.cwd, stdin, output_of(harness), size)

    def _not_started(self, opening: Opening, why: str, status: int) -> None:
        self._note(f"could not be started: {why}")
        record = {
            **blank(self.harness, opening), "termination_reason": "spawn_failed", "outcome": "failed", "verdict": "failure",
            "exit_code": status, "notes": [why],
        }  # fmt: skip
        self.opening = None
        self.tell(w.SpawnFailed(opening.generation, why, record))

    def follow(self, begun: Begun, child: "Child", folder: "RunDir | None" = None) -> bool:
        """Follow a program from now on; False where a defect of ours kept us from it, and it is ended then."""
        house, hearing = self.house, Hearing(self)
        try:
            self.running = Running(
                house.host, house.parts, self.harness, begun, child, on_over=self._over, heard=hearing.heard,
                noticed=hearing.noticed, warn=lambda text: house.warn(self.harness.name, text), folder=folder,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - nothing may run that nobody follows
            house.host.failed(error)
            if child.identity is not None:
                Tree(child.identity, begun.run, subreaper=False, nursery=child.nursery).kill()
            house.forget(begun.run)
            return False
        hearing.listen(self.running, resumed=begun.resumed)
        return True

    def _close_opened(self, word: "orders.CloseRun") -> None:
        """What was written down is not wanted any more, and was not begun."""
        opening, self.opening = self.opening, None
        if opening is None:
            return
        now = self.house.host.now()
        record = {
            **blank(self.harness, opening), "termination_reason": word.reason, "origin": word.origin, "outcome": word.reason,
        }  # fmt: skip
        life = Life(now, now, word.reason, reason=word.reason, requested=True)
        self.tell(w.RunOver(word.generation, life, record=record))

    def _stop(self, word: "orders.StopRun") -> None:
        if self.running is not None:
            self.running.stop(word.reason, word.origin, self.grace)
            self.grace = None

    #: What the next stop was given, in ms, when it was asked for.
    grace: int | None = None

    def _arm_stall(self, word: "orders.ArmStall") -> None:
        if self.running is not None:
            self.running.arm_stall()

    def _keep_intent(self, word: "orders.KeepIntent") -> None:
        self.house.remember(at_once=True)

    def _remember(self, word: "orders.Remember") -> None:
        self.house.remember(at_once=word.at_once)

    def _park_group(self, word: "orders.ParkGroup") -> None:
        self.house.parked(word.group, word.until, word.cls, word.text, word.drawn)

    def _refuse(self, word: "orders.Refuse") -> None:
        self.refused = word.why

    def _publish(self, word: "orders.Tell") -> None:
        fact = word.fact
        if isinstance(fact, RunClosed):
            self._closed(fact)
        elif isinstance(fact, StateChanged):
            self.counts["transitions"] += 1
        self.house.publish(fact)

    def _closed(self, fact: RunClosed) -> None:
        """Write the end down; then the keeper may forget the run."""
        record = {**fact.record, "run": fact.run, "harness": self.harness.name}
        self.last_run = record
        outcome = str(record.get("outcome"))
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.run_ms += int(record.get("duration_ms") or 0)
        self.house.closed(self.harness, record)
        self.house.close(record, lambda error: None if error else self.house.forget(fact.run))
        for callback in list(self.on_closed):
            callback(fact.run, record)

    # -- what happens to a run

    def _over(self, running: Running) -> None:
        """Nothing is left of it, and its log is open for the last words about it."""
        self.running = self.opening = None
        self.tell(over(self.machine.generation, running))
        if not self.machine.alive:
            self.house.freed(self.harness)

    def _note(self, text: str) -> None:
        if self.running is not None:
            self.running.note(text)

    def leave(self) -> None:
        """Let go of what runs; another supervisor will go on with it."""
        self.house.host.cancel(self._timer)
        running, self.running = self.running, None
        if running is not None:
            running.leave()

    @property
    def stuck(self) -> bool:
        """Whether something of its tree survived KILL."""
        return self.machine.stuck

    def differs(self, harness: "Harness") -> bool:
        """Whether a process of another definition would be another one than what runs."""
        return self.running is not None and self.running.launched != launch_mark(harness)

    @property
    def pending(self) -> bool:
        """Whether what runs was started by another definition."""
        return self.running is not None and self.running.launched != launch_mark(self.harness)

    _PERFORM: "ClassVar[dict[type[orders.Order], Callable[[Service, Any], None]]]" = {
        orders.OpenRun: _open,
        orders.Spawn: _spawn,
        orders.CloseRun: _close_opened,
        orders.StopRun: _stop,
        orders.ArmStall: _arm_stall,
        orders.KeepIntent: _keep_intent,
        orders.Remember: _remember,
        orders.ParkGroup: _park_group,
        orders.Refuse: _refuse,
        orders.Tell: _publish,
    }
