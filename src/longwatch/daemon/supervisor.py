"""All harnesses of one daemon: who is told what, what is written down, what holds whom back.

Everything happens in one thread and one loop. Facts flow out to subscribers, one way; whoever asks for something
comes by `request`.
"""

import os

from longwatch import __version__
from longwatch.core import service_words as w
from longwatch.core.admission import Admission, Standing
from longwatch.core.daemon_facts import DaemonStarted
from longwatch.core.service_facts import IntentLost
from longwatch.core.service_memory import Memory
from longwatch.core.service_words import Moment
from longwatch.daemon.calendar import Calendar
from longwatch.daemon.firings import Firings
from longwatch.daemon.parts import DaemonParts
from longwatch.daemon.payloads import drop_payload, keep_payload
from longwatch.daemon.spending import Spending
from longwatch.daemon.state import Remembered, Scribe
from longwatch.daemon.telling import Telling
from longwatch.posix import wall_of
from longwatch.posix.spawn import SpawnError
from longwatch.runtime.errands import Errands
from longwatch.runtime.host import Host
from longwatch.runtime.kept import Keeper
from longwatch.runtime.rundir import gc
from longwatch.runtime.service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.posix.child import Child
    from longwatch.posix.spawn import Launch
    from longwatch.runtime.running import Parts

#: How soon what is remembered is written, in ms, where it need not be at once.
REMEMBER_AFTER = 500
#: How soon old run folders go after the end of a run, in ms.
PRUNE_AFTER = 5_000


class Supervisor(Telling):
    """The services of one daemon, and all they share. `log(text)` takes a line for the daemon's log."""

    def __init__(
        self, host: Host, parts: DaemonParts, *, config: str, folder: str, sockets: str, state: str,
        log: "Callable[[str], object]", max_concurrent: int = 0, daily_cost: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(host, parts, log)
        self.parts: Parts = parts.run
        self.config = config
        self.folder = folder
        self.sockets = sockets
        self.state = state
        self.started = host.now()
        self.services: dict[str, Service] = {}
        self.calendars: dict[str, Calendar] = {}
        #: Harnesses that run on though the file does not name them any more.
        self.removed: set[str] = set()
        self.keeper_losses = 0
        self.reloads = self.config_errors = 0
        self._intent = Remembered(folder, "intent.json")
        self._holds = Remembered(folder, "holds.json")
        self._memories = self._intent.read()
        self.scribe = Scribe(host, self._not_kept)
        self.admission = Admission(max_concurrent, self._holds.read(), daily_cost=daily_cost)
        self.spending = Spending(self.admission, self._day, lambda: self.remember(at_once=False))
        if parts.agents is not None:
            parts.agents.costs = self.spending.costs
        self._keeper: Keeper | None = None
        self._errands: Errands | None = None
        self._saving = self._saving_now = self._pruning = self._looking = False
        self.firings = Firings(self)
        host.on_round.append(self._round)
        if parts.ledger is not None:
            host.reactor.add(parts.ledger.fileno(), parts.ledger.collect)
            host.join(parts.ledger.next_deadline, parts.ledger.collect)
        for remembered in (self._intent, self._holds):
            if remembered.problem:
                self.complain(remembered.problem)

    # -- the ledger

    def open(self, record: "dict[str, Any]", done: "Callable[[str | None], object]") -> None:
        """Have a run written down before it starts; `done` comes in the loop, also where the disk does not answer."""
        if self.daemon.ledger is None:
            self.host.soon(lambda now: done(None))
            return
        self.daemon.ledger.open(record, done)

    def close(self, record: "dict[str, Any]", done: "Callable[[str | None], object]") -> None:
        """Have the end of a run written down."""
        if self.daemon.ledger is None:
            self.host.soon(lambda now: done(None))
            return
        self.daemon.ledger.close(record, done)

    # -- the keeper

    def keeper(self) -> Keeper:
        """Return the keeper; where it has died, a new one. Raises KeeperError."""
        if self._keeper is None or not self._keeper.alive:
            lost, errands, self._keeper = self._keeper, self._errands, None
            if lost is not None:
                self.keeper_losses += 1
                self.complain("the keeper is gone; what it held runs on, and a new one is started")
            self._keeper = Keeper.at(os.path.join(self.sockets, "keeper.sock"))
            self._errands = Errands(self.host, self._keeper)
            if errands is not None and lost is not None:
                errands.bury()
                lost.close()
        return self._keeper

    def start(self, launch: "Launch", run: str, done: "Callable[[Child | SpawnError], object]") -> None:
        """Have the keeper start a program; `done` is given it, or why there is none."""
        try:
            self.keeper()
        except SpawnError as error:
            done(error)
            return
        assert self._errands is not None
        self._errands.start(launch, run, done)

    @property
    def keeper_pid(self) -> int | None:
        """The keeper's process, where there is one."""
        return self._keeper.pid if self._keeper is not None and self._keeper.alive else None

    def forget(self, run: str) -> None:
        """The end of a run is written down: the keeper need not know of it any more."""
        if self._errands is not None:
            self._errands.forget(run)

    # -- what holds back, and what is remembered

    def moment(self, harness: "Harness") -> Moment:
        """Return the time, a random number, and what holds a harness back right now."""
        now = self.host.now()
        wall = wall_of(now)
        calendar = self.calendars.get(harness.name)
        standing = Standing() if calendar is None else calendar.standing(wall)
        drawn = int.from_bytes(os.urandom(4), "big") / (1 << 32)
        return Moment(now, wall, drawn, self.admission.holds(harness, standing, wall))

    def opened(self, harness: "Harness", run: str, token: str) -> None:
        """A run of it begins."""
        self.firings.begun(token, run)
        self.admission.opened(harness.name, self._day(harness))
        self.remember(at_once=False)

    def closed(self, harness: "Harness", record: "dict[str, Any]") -> None:
        """A run of it is over."""
        self.firings.over(str(record.get("run")), record)
        self.spending.closed(harness, record)
        self.remember(at_once=False)
        self._prune()

    def _prune(self) -> None:
        """Let go of old run folders, when there is time for it."""
        if not self._pruning:
            self._pruning = True
            self.host.at(self.host.now() + PRUNE_AFTER, self._pruned)

    def _pruned(self, now: int) -> None:
        self._pruning = False
        live = sum(service.running is not None for service in self.services.values())
        self.scribe.do(lambda: gc(self.state, live=live))

    def freed(self, harness: "Harness") -> None:
        """The place it had is free, unless it goes on in it; and it may be gone from the file."""
        self.admission.closed(harness.name)
        service = self.services.get(harness.name)
        if self.admission.places or (service is not None and service.machine.gone):
            self._look_soon()

    def _day(self, harness: "Harness") -> str:
        calendar = self.calendars.get(harness.name)
        return "" if calendar is None else calendar.standing(wall_of(self.host.now())).day

    def parked(self, group: str, until: int, cls: str, text: str, drawn: float) -> None:
        """A provider's limit holds a group back."""
        self.admission.quota.park(group, until, cls, text, drawn)
        self.remember(at_once=True)
        self._look_soon()

    def _look_soon(self) -> None:
        """Look at all of them, once for whatever goes on now: a thousand may end together."""
        if not self._looking:
            self._looking = True
            self.host.soon(lambda now: self.look_again())

    def look_again(self) -> None:
        """Something may hold a harness back no more, or does now; and one that is gone from the file may be over."""
        self._looking = False
        for name, service in list(self.services.items()):
            service.advance()
            if service.machine.gone:
                self.drop(name)

    def remember(self, *, at_once: bool) -> None:
        """Write down what the next daemon has to know."""
        if at_once:
            # Once for all that goes on now: a thousand may be told to start.
            if not self._saving_now:
                self._saving_now = True
                self.host.soon(self._save)
        elif not self._saving:
            self._saving = True
            self.host.at(self.host.now() + REMEMBER_AFTER, self._save)

    def _save(self, now: int) -> None:
        self._saving = self._saving_now = False
        self.scribe.write(self._intent, {**self._memories, **self._kept()})
        self.scribe.write(self._holds, self.admission.as_dict())

    def _not_kept(self, error: str) -> None:
        self.complain(error)
        for name in self.services:
            self.publish(IntentLost(self.host.now(), name, error))

    def _kept(self) -> "dict[str, Any]":
        kept = {}
        now = self.host.now()
        moment = Moment(now, wall_of(now))
        for name, service in self.services.items():
            kept[name] = service.machine.kept(moment)
            agenda = self.firings.kept(name)
            if agenda is not None:
                kept[name] = {**kept[name], "agenda": agenda}
        return kept

    # -- harnesses

    def add(self, harness: "Harness") -> Service:
        """Have a harness looked after; it begins with `Awoke` or `Adopted`."""
        self.calendars[harness.name] = Calendar(harness.schedule, harness.hours, harness.timezone)
        told = self._memories.get(harness.name)
        moment = self.moment(harness)
        memory = Memory.of(harness, told, moment) if isinstance(told, dict) else Memory.fresh(harness)
        service = self.services[harness.name] = Service(self, harness, memory)
        self.firings.add(harness, told.get("agenda") if isinstance(told, dict) else None)
        return service

    def define(self, harness: "Harness", *, restart: bool = False) -> None:
        """Give a harness another definition."""
        self.calendars[harness.name] = Calendar(harness.schedule, harness.hours, harness.timezone)
        service = self.services[harness.name]
        before = service.harness
        service.change(harness, restart=restart)
        if (before.schedule, before.timezone) != (harness.schedule, harness.timezone):
            self.firings.change(harness)

    def drop(self, name: str) -> None:
        """Forget a harness that is gone from the file, and over."""
        service = self.services.pop(name, None)
        self.calendars.pop(name, None)
        self._memories.pop(name, None)
        self.firings.drop(name)
        self.spending.drop(name)
        if service is not None:
            service.leave()
        self.daemon.forget(name)
        self.remember(at_once=False)

    def begin(self) -> None:
        """Start whatever is wanted and was not taken over."""
        self.publish(DaemonStarted(self.host.now(), __version__))
        for service in list(self.services.values()):
            if not service.machine.alive:
                service.tell(w.Awoke())
        self.firings.look()
        self.remember(at_once=False)

    def next_launch(self, harness: "Harness") -> "Any":
        """Return what is to be started, and what is told to it."""
        return self.daemon.launch(harness)

    def payload(self, harness: "Harness", run: str, token: str) -> str | None:
        """Give what came with a firing the name of its run; return where it lies."""
        incoming = self.firings.payload(token)
        if incoming is None:
            return None
        try:
            return keep_payload(self.folder, incoming, run)
        except (OSError, ValueError) as error:
            self.warn(harness.name, f"what came with its trigger is gone: {error}")
            return None

    def drop_payload(self, path: str) -> None:
        """Remove what no run will read."""
        try:
            drop_payload(self.folder, path)
        except (OSError, ValueError) as error:
            self.log(f"{path}: {error}")

    # -- time

    def _round(self, now: int) -> None:
        for service in self.services.values():
            if service.running is not None:
                service.running.watched(now)

    # -- the end

    def leave(self) -> None:
        """Let go of everything as it is; the keeper holds it for the next daemon."""
        for service in self.services.values():
            if service.machine.alive or service.running is not None:
                service.tell(w.ShutdownAsked(keep=True))
        self._save(0)
        for service in self.services.values():
            service.leave()
        self.services.clear()
        self.scribe.close()
        keeper = self._let_go_of_keeper()
        if keeper is not None:
            keeper.close()

    @property
    def alive(self) -> list[str]:
        """The harnesses of which a process may exist."""
        return [name for name, service in self.services.items() if service.machine.alive]

    @property
    def stoppable(self) -> list[str]:
        """Those of them that may still end by themselves: not what survived KILL."""
        return [name for name in self.alive if not self.services[name].stuck]

    def stop_all(self) -> None:
        """Stop every harness; asked again, sooner."""
        for service in list(self.services.values()):
            service.tell(w.ShutdownAsked(keep=False))

    def stop_keeper(self) -> list[str]:
        """End the keeper, and with it what nobody knew of; return what could not be ended."""
        keeper = self._let_go_of_keeper()
        self._save(0)
        return [] if keeper is None else keeper.stop()

    def _let_go_of_keeper(self) -> Keeper | None:
        if self._errands is not None:
            self._errands.close()
        keeper, self._keeper, self._errands = self._keeper, None, None
        return keeper
