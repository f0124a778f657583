"""The daemon: it wires all its parts, and hears signals. INT and TERM end it, see `daemon.leaving`; HUP reads the file again."""

import os
import resource

from longwatch import __version__, paths
from longwatch.daemon.compile import Compiled, read_file
from longwatch.daemon.inherit import take_over
from longwatch.daemon.leaving import Leaving
from longwatch.daemon.lock import Lock
from longwatch.daemon.log import DaemonLog
from longwatch.daemon.payloads import folder_of
from longwatch.daemon.portal import Portal
from longwatch.daemon.reload import Reloading
from longwatch.daemon.requests import Requests
from longwatch.daemon.state import Remembered
from longwatch.daemon.supervisor import Supervisor
from longwatch.daemon.systemd import Systemd
from longwatch.daemon.wiring import Wiring
from longwatch.errors import LongwatchError
from longwatch.posix import wall_of
from longwatch.posix.identity import identity
from longwatch.posix.signals import SignalPipe
from longwatch.runtime.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

else:
    import _signal

#: How often logs that nobody writes are closed, and old records removed, in ms.
TIDY, RETAIN = 60_000, 3_600_000
DAY = 86_400_000


class ConfigError(LongwatchError):
    """The file cannot be used; `str()` is all that is wrong with it, a line each."""

    __module__ = "longwatch.daemon"


class App:
    """One daemon from its start to its end. `run` returns the exit status."""

    def __init__(self, config: str, *, say: "Callable[[str], object] | None" = None) -> None:
        """Take the lock. Raises Taken where another daemon has it, StoreError where nothing can be written."""
        self.config = os.path.realpath(config)
        self.daemon = paths.daemon_id(self.config)
        self.state = paths.state()
        self.folder = paths.daemon_folder(self.state, self.daemon)
        self.lock = Lock(self.folder, self.config)
        self.sockets = paths.ensure(paths.sockets(self.daemon, self.state))
        self.log = DaemonLog(os.path.join(self.folder, "log.jsonl"), say)
        self.host = Host()
        self.host.mark = self.daemon
        self.systemd = Systemd.taken(os.environ)
        self.reloaded_at: str | None = None
        self.ready = False
        self.file: Compiled | None = None
        self.leaving = Leaving(self)
        self.reloading = Reloading(self)
        self._published = Remembered(self.folder, "daemon.json")
        self.supervisor: Supervisor

    # -- the start

    def start(self) -> None:
        """Read the file, take over what an earlier daemon left, start what is wanted. Raises LongwatchError."""
        prepare_process()
        self.host.sweep()
        self.signals = SignalPipe((_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGUSR2))
        self.host.reactor.add(self.signals.fileno(), self._signalled)
        file = self._read()
        if file.errors:
            raise ConfigError("\n".join(file.problems()))
        for warning in file.warnings:
            self.log.say(warning)
        self.file = file
        self.wiring = Wiring(self, file)
        self.parts, self.supervisor = self.wiring.parts, self.wiring.supervisor
        self.requests = Requests(self)
        self.supervisor.keeper()
        for harness in file.harnesses.values():
            self.supervisor.add(harness)
        take_over(self.supervisor, self.daemon)
        self._publish_place()
        self._open_portal(file)
        self.supervisor.begin()
        self._tidy(0)
        self._retain(0)
        self.ready = True
        self._greet(file)
        self.systemd.ready(f"{len(self.supervisor.services)} harnesses")
        if self.systemd.interval_ms is not None:
            self._watchdog(0)
        self.wiring.tell_outside(file)

    def _greet(self, file: Compiled) -> None:
        """Say what is bounded by what, and who is looked after."""
        for name, texts in (file.tables.get("notes") or {}).items():
            for text in texts:
                self.log.say(f"{name}: {text}")
        count = len(file.harnesses)
        self.log.say(
            f"{count} {'harness' if count == 1 else 'harnesses'}; longwatch ls shows how each stands"
        )

    def healthy(self) -> bool:
        """Whether the outside may hear that we live: what runs is looked after, and will be."""
        return self.ready and not self.leaving.begun and self.supervisor.keeper_pid is not None

    def _read(self) -> Compiled:
        found: list[Compiled] = []
        read_file(self.host, self.config, found.append)
        while not found:
            self.host.turn()
        return found[0]

    def _publish_place(self) -> None:
        """Say where we are, for whoever looks for us."""
        me = identity(os.getpid())
        assert me is not None
        self._published.write(
            {
                "schema": 1, "pid": me.pid, "start": me.start, "boot": me.boot, "version": __version__,
                "config": self.config, "host": os.uname().nodename, "id": self.daemon, "socket": os.path.join(self.sockets, "api.sock"),
                "started_at": paths.rfc3339(wall_of(self.supervisor.started)),
            }
        )  # fmt: skip

    def _open_portal(self, file: Compiled) -> None:
        portal = self.parts.portal = Portal(
            self.host.reactor, self.requests.ask, folder=self.folder, sockets=self.sockets, state=self.state,
            log=self.log.say, deliveries=self.wiring.deliveries,
        )  # fmt: skip
        for problem in portal.open(file.table("web")):
            self.supervisor.complain(problem)
        self.host.join(portal.next_deadline, portal.step)

    # -- while it runs

    def standing(self) -> "dict[str, Any]":
        """Return how the daemon itself stands."""
        supervisor = self.supervisor
        counts = {} if self.parts.ledger is None else self.parts.ledger.counts()
        problems = list(supervisor.problems)
        if self.parts.portal is not None and self.parts.portal.problem:
            problems.append(self.parts.portal.problem)
        if self.parts.desk is not None:
            problems += self.parts.desk.problems
        dead_man = self.wiring.dead_man
        if dead_man is not None and dead_man.failing:
            problems.append(f"[notify] dead_man: {dead_man.failing}")
        return {
            "id": self.daemon, "pid": os.getpid(), "version": __version__, "config": self.config, "ready": self.ready,
            "started_at": paths.rfc3339(wall_of(supervisor.started)), "reloaded_at": self.reloaded_at,
            "keeper_pid": supervisor.keeper_pid, "tick_late_ms": supervisor.late_most,
            "ledger": "failing" if counts.get("failing") else "ok", "removed": sorted(supervisor.removed),
            "notes": [] if self.file is None else list(self.file.warnings), "problems": problems,
        }  # fmt: skip

    def _signalled(self) -> None:
        for signum in self.signals.read():
            if signum == _signal.SIGINT:
                self.leaving.interrupt()
            elif signum == _signal.SIGTERM:
                self.leaving.leave("signal")
            elif signum == _signal.SIGUSR2:
                self.leaving.leave("replaced")
            elif signum == _signal.SIGHUP:
                self.reloading.ask()

    def _tidy(self, at: int) -> None:
        assert self.parts.logs is not None
        self.parts.logs.tidy()
        self.host.at(self.host.now() + TIDY, self._tidy)

    def _retain(self, at: int) -> None:
        table = {} if self.file is None else self.file.table("daemon")
        days = max(1, int(table.get("retention") or 90 * DAY) // DAY)
        size = int(table.get("ledger_max") or 256 << 20)
        self.parts.ledger.retain(wall_of(self.host.now()), days, size)
        keep = {name: service.harness.keep_runs for name, service in self.supervisor.services.items()}
        self.parts.ledger.keep_payloads(folder_of(self.folder), keep)
        self.host.at(self.host.now() + RETAIN, self._retain)

    def _watchdog(self, at: int) -> None:
        self.systemd.tick(self.host.now())
        if self.systemd.interval_ms is not None:
            self.host.at(self.host.now() + self.systemd.interval_ms, self._watchdog)

    # -- the end

    def run(self) -> int:
        """Go round until the end; give everything back."""
        try:
            self.host.loop()
        finally:
            self.close()
        return 0

    def close(self) -> None:
        """Let go of whatever still runs, and of all else. Allowed after a start that failed half-way."""
        if hasattr(self, "supervisor"):
            if self.wiring.dead_man is not None:
                self.wiring.dead_man.close()
            self.supervisor.leave()
            if self.parts.portal is not None:
                self.parts.portal.close()
            self.host.reactor.remove(self.parts.ledger.fileno())
            self.parts.ledger.stop()
            if self.parts.logs is not None:
                self.parts.logs.close()
        if self.ready:
            self._unpublish()
        if hasattr(self, "signals"):
            self.host.reactor.remove(self.signals.fileno())
            self.signals.restore()
        self.systemd.close()
        self.host.close()
        self.log.close()
        self.lock.release()

    def _unpublish(self) -> None:
        try:
            os.unlink(self._published.path)
        except OSError:
            pass  # whoever looks finds that we are gone


def prepare_process() -> None:
    """Be a daemon's process: as many descriptors as there may be, no folder kept busy, no run of anybody else's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            pass  # then there are fewer
    os.chdir("/")
    for name in ("LONGWATCH_RUN_ID", "LONGWATCH_ATTEMPT"):
        os.environ.pop(name, None)
