"""A supervisor that answers by a table, behind the real portal, with its loop in a thread of its own."""

import os
import select
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longwatch.api.client import Daemon
from longwatch.daemon.asking import NO_SUCH, NOT_NOW, Caller, Later, Refusal
from longwatch.daemon.portal import Portal
from longwatch.posix import now
from longwatch.posix.reactor import Reactor

Answer = dict[str, Any]


def snapshot(name: str) -> Answer:
    """Return a harness as the supervisor tells of it."""
    return {
        "name": name, "kind": "resident", "state": "running", "intent": True, "since": "2026-01-02T03:04:05.000Z",
        "run": f"{name}-abc123", "attempt": 1, "pid": 1, "pty": False, "ready": False, "holds": [], "restarts": 0,
        "gave_up": None, "stalls": 0, "alive_ms": 10, "progress_ms": None, "limits": {}, "log": None,
    }  # fmt: skip


class Supervisor:
    """What the routes stand for. `later` are the answers that somebody waits for, `asked` all questions."""

    def __init__(self, names: tuple[str, ...] = ("alpha", "beta")) -> None:
        self.harnesses = {name: snapshot(name) for name in names}
        self.asked: list[tuple[str, Answer, Caller]] = []
        self.later: list[Later] = []
        self.samples: Answer = {}
        #: op -> what happens instead.
        self.instead: dict[str, Callable[[Answer], Answer | Later]] = {}

    def ask(self, op: str, args: Answer, by: Caller) -> Answer | Later:
        self.asked.append((op, args, by))
        if op in self.instead:
            return self.instead[op](args)
        if "name" in args and args["name"] not in self.harnesses:
            raise Refusal(NO_SUCH, f"no harness {args['name']}; did you mean alpha?", "alpha")
        return getattr(self, f"_{op}")(args)

    def wait(self, _args: Answer) -> Later:
        later = Later()
        self.later.append(later)
        return later

    def refuse(self, _args: Answer) -> Answer:
        raise Refusal(NOT_NOW, "it is held: hours until 08:00")

    def _status(self, _args: Answer) -> Answer:
        return {"harnesses": list(self.harnesses.values()), "daemon": {"pid": os.getpid(), "problems": []}}

    def _describe(self, args: Answer) -> Answer:
        return self.harnesses[args["name"]]

    def _start(self, args: Answer) -> Answer:
        return {"name": args["name"], "state": "running", "run": f"{args['name']}-abc123"}

    _stop = _restart = _start

    def _trigger(self, args: Answer) -> Answer:
        return {"name": args["name"], "run": f"{args['name']}-abc124", "queued": False}

    def _send(self, args: Answer) -> Answer:
        return {"sent": len(args["data"])}

    def _resize(self, _args: Answer) -> Answer:
        return {}

    def _down(self, args: Answer) -> Answer:
        return {"stopped": list(self.harnesses), "kept": []}

    def _reload(self, _args: Answer) -> Answer:
        return {"applied": [], "pending": [], "removed": [], "added": [], "errors": [], "warnings": []}

    def _handover(self, _args: Answer) -> Answer:
        return {"pid": os.getpid()}

    def _notify_test(self, _args: Answer) -> Answer:
        return {"channels": []}

    def _ping(self, _args: Answer) -> Answer:
        return {"version": "0", "pid": os.getpid()}

    def _metrics(self, _args: Answer) -> Answer:
        return {"samples": self.samples}


class House:
    """A portal that is open. Everything that touches it from outside its loop goes by `do`."""

    def __init__(self, folder: Path, supervisor: Supervisor, web: Answer | None = None) -> None:
        self.state = folder
        self.folder = folder / "daemons" / "house-00000001"
        self.folder.mkdir(parents=True, mode=0o700)
        self.supervisor = supervisor
        self.log: list[str] = []
        self.reactor = Reactor()
        self.portal = Portal(
            self.reactor, supervisor.ask, folder=str(self.folder), sockets=str(folder / "s"), state=str(folder),
            log=self.log.append,
        )  # fmt: skip
        self._asked: list[Callable[[], object]] = []
        self._read, self._write = os.pipe()
        self._over = False
        self.reactor.add(self._read, self._called)
        self.problems = self.portal.open(web)
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()

    def daemon(self, patience: float = 30.0) -> Daemon:
        return Daemon(self.portal.path, patience)

    def do(self, call: Callable[[], Any]) -> Any:
        """Call something in the loop and return what it returned."""
        done = threading.Event()
        found: list[Any] = []

        def there() -> None:
            found.append(call())
            done.set()

        self._asked.append(there)
        os.write(self._write, b"x")
        assert done.wait(20)
        return found[0]

    def close(self) -> None:
        self._over = True
        os.write(self._write, b"x")
        self._thread.join()
        self.portal.close()
        self.reactor.close()
        os.close(self._read)
        os.close(self._write)

    def _called(self) -> None:
        os.read(self._read, 1)
        while self._asked:
            self._asked.pop(0)()

    def _loop(self) -> None:
        while not self._over:
            due = self.portal.next_deadline()
            self.reactor.poll(None if due is None else max(0, due - now()))
            self.portal.step(now())


def quiet(fd: int) -> bool:
    """Whether nothing is to be read."""
    return not select.select([fd], [], [], 0)[0]
