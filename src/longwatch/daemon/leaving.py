"""How a daemon ends, in one of two ways.

INT (Ctrl-C) and `down` stop everything, proven. TERM, a crash and an upgrade stop nothing: the keeper holds all that
runs, and the next daemon goes on.
"""

from longwatch.core.daemon_facts import DaemonStopping
from longwatch.daemon.asking import NOT_NOW, Later, Refusal
from longwatch.posix import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.daemon.app import App


class Leaving:
    """The end of one daemon. Once it is `begun`, nothing is started and nothing is read any more."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self.begun = self._stopped = self._looking = False
        self._interrupted = False

    def interrupt(self) -> None:
        """Ctrl-C stops everything; once more, sooner."""
        if self._interrupted:
            self._app.supervisor.stop_all()
            return
        self._interrupted = True
        self._app.log.say("stopping everything; once more to be quicker, TERM to leave it all running")
        self.down(keep=False)

    def down(self, *, keep: bool) -> Later:
        """Stop everything and end; with `keep` leave it all running, and end."""
        supervisor, later = self._app.supervisor, Later()
        if keep:
            later.give({"stopped": [], "kept": supervisor.alive, "survivors": []})
            self.leave("down")
            return later
        if self.begun:
            later.refuse(Refusal(NOT_NOW, "the daemon is about to end already"))
            return later
        names = supervisor.alive
        self._begin("down")
        for service in supervisor.services.values():
            service.on_change.append(lambda: self._look_soon(names, later))
        supervisor.stop_all()
        self._look_soon(names, later)
        return later

    def leave(self, why: str) -> None:
        """End, and leave everything running."""
        if not self.begun:
            self._begin(why)
            self._close_soon()

    def _begin(self, why: str) -> None:
        self.begun = True
        self._app.systemd.stopping()
        self._app.supervisor.publish(DaemonStopping(now(), why))

    def _look_soon(self, names: list[str], later: Later) -> None:
        """Look once for all that changes now."""
        if not self._looking:
            self._looking = True
            self._app.host.soon(lambda at: self._look(names, later))

    def _look(self, names: list[str], later: Later) -> None:
        self._looking = False
        if not self._stopped and not self._app.supervisor.stoppable:
            self._stopped = True
            self._app.host.soon(lambda at: self._end(names, later))

    def _end(self, names: list[str], later: Later) -> None:
        """All has ended, or cannot be ended by us: the keeper's own kill is the last word."""
        survivors = self._app.supervisor.stop_keeper()
        later.give({"stopped": names, "kept": [], "survivors": survivors})
        self._close_soon()

    def _close_soon(self) -> None:
        """Let answers and last notices go out, then end the loop."""
        host, desk = self._app.host, self._app.parts.desk
        if desk is not None:
            desk.close(lambda: host.soon(lambda at: host.end()))
        else:
            host.soon(lambda at: host.end())
