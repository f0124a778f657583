"""Harnesses one by one: the real loop, keeper and run of a daemon, without the daemon, for tests of what it is made of."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from longwatch.core.facts import Fact
from longwatch.core.harness import Harness
from longwatch.core.spec import LimitSpec
from longwatch.daemon.agents import Agents
from longwatch.daemon.parts import DaemonParts
from longwatch.daemon.supervisor import Supervisor
from longwatch.options import child_environment
from longwatch.paths import new_run_id
from longwatch.posix.spawn import NULL, Launch
from longwatch.runtime.host import Host
from longwatch.runtime.kept import Keeper
from longwatch.runtime.logs import Logs
from longwatch.runtime.making import Begun, Parts, output_of
from longwatch.runtime.rundir import RunDir
from longwatch.runtime.running import Running

SIZE = (24, 80)


class House:
    """A loop and a keeper; `agents` remembers in a folder of its own. Leaving it ends everything."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "daemon"
        self.folder.mkdir(exist_ok=True)
        self.state = home / "state"
        self.said: list[str] = []
        self.facts: list[Fact] = []
        self.host = Host()
        self.host.failed = self._failed
        self.defects: list[Exception] = []
        self.keeper = Keeper.start("keep", path=str(self.folder / "keeper.sock"))
        self.agents = Agents(str(self.folder), self.said.append)
        self.over: list[Running] = []

    def _failed(self, error: Exception) -> None:
        self.defects.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left = self.keeper.stop()
        self.host.close()
        if kind is None:
            assert (self.defects, left) == ([], [])

    def start(self, harness: Harness, attempt: int = 1) -> Running:
        """Start a harness as its next incarnation."""
        assert self.agents.configure([harness]) == []
        start = self.agents.launch(harness)
        run = new_run_id(harness.name)
        environ = child_environment({**os.environ, **harness.env}, run, attempt) | start.environment
        stdin, size = ("inherit", SIZE) if harness.pty else (NULL, None)
        child = self.keeper.spawn(
            Launch(start.argv, environ, harness.cwd, stdin, output_of(harness), size), run
        )
        return self._follow(harness, Begun(run, attempt), child)

    def adopt(self, running: Running) -> Running:
        """Let go of a run, and take it up again as another daemon would: with nothing but what is on the disk."""
        running.leave()
        assert running.keeping is not None
        folder = RunDir.reopen(str(self.state), running.run_id)
        self.agents = Agents(str(self.folder), self.said.append)
        self.agents.configure([running.harness])
        child = self.keeper.lend(running.run_id)
        return self._follow(
            running.harness, Begun(running.run_id, running.attempt, resumed=True), child, folder=folder
        )

    def _follow(self, harness: Harness, begun: Begun, child: Any, **more: Any) -> Running:
        parts = Parts(str(self.state), observer=self.agents)
        return Running(
            self.host, parts, harness, begun, child, on_over=self.over.append, heard=self.facts.append,
            warn=self.said.append, **more,
        )  # fmt: skip

    def until(self, came: Callable[[], object], deadline: float = 15.0, what: str = "") -> None:
        """Turn the loop until something is so."""
        end = time.monotonic() + deadline
        while not came():
            assert time.monotonic() < end, f"{what or came} did not come true; said: {self.said}"
            self.host.turn(20)

    def watch(self, running: Running) -> None:
        """Have all of its sources looked at, as a limit that comes due would."""
        running.effects.hurry()
        self.host.turn(20)

    def done(self, running: Running, deadline: float = 15.0) -> Running:
        """Turn the loop until a run is over."""
        self.until(lambda: running in self.over, deadline, f"the end of {running.run_id}")
        self.keeper.forget(running.run_id)
        return running

    def stop(self, running: Running) -> Running:
        """End a run by hand."""
        running.stop("cancelled", "explicit")
        return self.done(running)

    def told(self, kind: str) -> list[Fact]:
        """Return the facts of a kind."""
        return [fact for fact in self.facts if fact.name == kind]


class Daemon(House):
    """All that decides in a daemon, in this process: services, holds, parks; without a file, a portal and a ledger."""

    def __init__(self, home: Path, *harnesses: Harness) -> None:
        super().__init__(home)
        self.keeper.stop()
        self.logs = Logs(str(self.folder / "logs"))
        run = Parts(str(self.state), sinks=self.logs.sink, observer=self.agents)
        parts = DaemonParts(run, agents=self.agents)
        self.supervisor = Supervisor(
            self.host, parts, config=str(home / "longwatch.toml"), folder=str(self.folder), sockets=str(self.folder),
            state=str(self.state), log=self.said.append,
        )  # fmt: skip
        self.host.failed = self._failed
        self.supervisor.subscribe(self.facts.append)
        assert self.agents.configure(harnesses) == []
        for harness in harnesses:
            self.supervisor.add(harness)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.supervisor.stop_all()
        self.until(lambda: not self.supervisor.alive, what="the end of all")
        left = self.supervisor.stop_keeper()
        self.logs.close()
        self.host.close()
        if kind is None:
            assert (self.defects, left) == ([], [])

    def begin(self) -> None:
        """Start what is wanted."""
        self.supervisor.begin()

    def snapshot(self, name: str) -> dict[str, Any]:
        """Return how a harness stands."""
        service = self.supervisor.services[name]
        return service.machine.snapshot(self.supervisor.moment(service.harness))


def limit(window: int, action: str = "stop", **more: Any) -> LimitSpec:
    """Return a limit as a file would name it."""
    return LimitSpec(window, action, **more)
