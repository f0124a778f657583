"""The supervisor's side of the API: it owns the sockets and the process that serves them, and answers that process.

Nothing of the API can hold the supervisor up. Its process is started anew when it ends, and ended when it does not
answer for minutes; the sockets stay open meanwhile, so a client waits and is not refused. What is sent to it is
bounded: while it does not read, no question of its is read either, and facts are dropped and counted.
"""

import os

from longwatch import __version__
from longwatch.daemon import payloads
from longwatch.daemon.api_process import FIRST_FD, MISSING, Process
from longwatch.daemon.listening import Listener, private, tcp
from longwatch.daemon.questions import Questions
from longwatch.errors import UsageError
from longwatch.posix import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.daemon.deliveries import Deliveries
    from longwatch.daemon.questions import Ask
    from longwatch.posix.reactor import Reactor

#: What supervisor and API process have to agree on.
BRIDGE = 1
#: The status of an API process that a restart does not help: a package is missing.
UNABLE = 78
#: While so many bytes wait to be taken, no question is read; facts are dropped beyond the second.
BUSY, FULL = 256 << 10, 1 << 20
#: From an end to the next start, in ms: at first, at most; a life of a minute forgets it.
_BACKOFF, _MOST_BACKOFF, _WELL = 200, 30_000, 60_000


class Portal:
    """Sockets, API process and questions of one daemon. `ask` is the supervisor's `request`.

    `folder` is the daemon's, `sockets` the folder of the private socket, `log` takes a line for the daemon's log.
    The host calls `step` at `next_deadline`; all else happens in the reactor.
    """

    def __init__(
        self, reactor: "Reactor", ask: "Ask", *, folder: str, sockets: str, state: str,
        log: "Callable[[str], object]", clock: "Callable[[], int]" = now, deliveries: "Deliveries | None" = None,
    ) -> None:  # fmt: skip
        self._reactor = reactor
        self._folder = folder
        self._sockets = sockets
        self._state = state
        self._log = log
        self._clock = clock
        self._questions = Questions(ask, clock, log, deliveries)
        self._listeners: dict[str, Listener] = {}
        self._web: dict[str, Any] = {}
        self._process: Process | None = None
        self._start_at: int | None = None
        self._backoff = 0
        self._dropped = 0
        self._restarts = 0
        self._lost = 0
        #: What a human has to do before it can be served, one line; None while all is well.
        self.problem: str | None = None

    @property
    def path(self) -> str:
        """The private socket."""
        return os.path.join(self._sockets, "api.sock")

    @property
    def pid(self) -> int | None:
        """The API process, if there is one."""
        return None if self._process is None else self._process.pid

    def open(self, web: "dict[str, Any] | None" = None) -> list[str]:
        """Bind the sockets and start the API process; return what is wrong with the TCP ports, which are then not open.

        Raises StoreError where even the private socket cannot be had.
        """
        payloads.sweep(self._folder)
        self._listeners["unix"] = private(self._sockets)
        problems = self._bind(web or {})
        self._start()
        return problems

    def configure(self, web: "dict[str, Any]") -> list[str]:
        """Take a reloaded `[web]`; the API process is started anew if that changes anything. Returns problems, as `open`."""
        if web == self._web and self.problem is None:
            return []
        problems = self._bind(web)
        self._backoff = 0
        if self._process is None:
            self._start()
        else:
            self._process.retire(self._clock())
        return problems

    def tell(self, fact: "dict[str, Any]", seq: int | None = None) -> None:
        """Hand a fact to event streams; dropped and counted while nobody takes it."""
        line = None if self._process is None else self._process.line
        if line is None:
            return  # who follows events asks the ledger for those it missed
        if line.waiting > FULL:
            self._lost += 1
            self._dropped += 1
            return
        if self._lost:
            line.send({"dropped": self._lost})
            self._lost = 0
        line.send({"fact": fact, "seq": seq})

    def next_deadline(self) -> int | None:
        """Return the instant (ms) at which `step` has to be called; None for never."""
        if self._process is not None:
            return self._process.ping_at
        return self._start_at

    def step(self, at: int) -> None:
        """Start the API process if it is time, or ask whether it is there. Extra calls do nothing."""
        if self._process is not None:
            if at >= self._process.ping_at and not self._process.ping(at):
                self._log(f"the API process (pid {self._process.pid}) does not answer; it is ended")
                self._process.kill()
        elif self._start_at is not None and at >= self._start_at:
            self._restarts += 1
            self._start()

    def counts(self) -> "dict[str, int]":
        """Return how often the API process was started anew, facts it was not told, questions it asked."""
        return {"restarts": self._restarts, "dropped": self._dropped, "asked": self._questions.asked}

    def close(self) -> None:
        """End the API process, at most 2 s later, and remove the private socket. May be called again."""
        self._start_at = None
        self._end_process()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _bind(self, web: "dict[str, Any]") -> list[str]:
        problems = []
        for name, what, wanted in (("web", "[web]", web), ("hooks", "[web.hooks]", web.get("hooks") or {})):
            try:
                self._bind_one(name, what, wanted)
            except Exception as error:  # noqa: BLE001 - UsageError, StoreError: one port less is no reason to stop
                problems.append(str(error))
        self._web = dict(web)
        return problems

    def _bind_one(self, name: str, what: str, wanted: "dict[str, Any]") -> None:
        listen = wanted.get("listen")
        there = self._listeners.get(name)
        if there is not None and there.where != listen:
            self._listeners.pop(name).close()
        if not listen:
            return
        if name == "web" and not wanted.get("token"):
            self._forget(name)
            raise UsageError(
                f"{what}: listen needs a token, for anybody on this machine can connect; set token"
            )
        if name not in self._listeners:
            self._listeners[name] = tcp(listen, allow=wanted.get("allow") is True, what=what)

    def _forget(self, name: str) -> None:
        there = self._listeners.pop(name, None)
        if there is not None:
            there.close()

    def _start(self) -> None:
        self._start_at = None
        sockets = {name: listener.socket.fileno() for name, listener in self._listeners.items()}
        try:
            self._process = Process(self._reactor, sockets, self._hear, self._over, self._clock())
        except OSError as error:
            self._log(f"the API process cannot be started: {error.strerror}")
            self._plan(self._clock())
            return
        self._lost = 0
        self._process.line.drained = self._resume
        self._process.line.send({"hello": self._hello(list(sockets))})

    def _hello(self, listeners: list[str]) -> "dict[str, Any]":
        fds = {name: FIRST_FD + 1 + index for index, name in enumerate(listeners)}
        return {
            "bridge": BRIDGE, "version": __version__, "state": self._state, "folder": self._folder,
            "daemon": os.path.basename(self._folder), "listeners": fds, "web": self._web,
        }  # fmt: skip

    def _hear(self, message: "dict[str, Any]") -> None:
        process = self._process
        if process is None:
            return
        if "pong" in message:
            process.missing = MISSING if process.retired else 0
        elif "cancel" in message:
            self._questions.cancel(message["cancel"])
        else:
            self._questions.put(message, process.line.send)
            process.line.pause(process.line.waiting > BUSY)

    def _resume(self) -> None:
        if self._process is not None:
            self._process.line.pause(False)

    def _over(self, status: int | None, last_words: str) -> None:
        """The API process has ended: plan the next one."""
        process, self._process = self._process, None
        self._questions.drop()
        said = f": {last_words}" if last_words else ""
        if status == UNABLE:
            self.problem = last_words or "the API process cannot run"
            self._log(f"the API is not served{said}")
            return
        self.problem = None
        at = self._clock()
        if process is not None and process.retired:
            self._start()
            return
        if process is not None and at - process.started >= _WELL:
            self._backoff = 0
        self._plan(at)
        self._log(f"the API process ended with {status}{said}; started anew in {self._backoff} ms")

    def _plan(self, at: int) -> None:
        self._backoff = min(self._backoff * 2, _MOST_BACKOFF) or _BACKOFF
        self._start_at = at + self._backoff

    def _end_process(self) -> None:
        process, self._process = self._process, None
        self._questions.drop()
        if process is not None:
            process.end()
