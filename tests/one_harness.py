"""The least of a daemon: one program with its log, its keyboard, and a socket for what verbs ask.

python one_harness.py CONFIG NAME pty|pipe|null COMMAND...    speaks as the API does; a line on stdin is the name of
an attribute of its output to print: count, bytes, rows. It ends with its stdin.
"""

import heapq
import json
import os
import sys
from base64 import b64decode
from http.server import BaseHTTPRequestHandler
from socket import AF_UNIX, socket

from longwatch.core.harness import Harness
from longwatch.paths import daemon_folder, daemon_id, ensure, sockets, state
from longwatch.posix import now
from longwatch.posix.identity import identity
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import Launch, spawn
from longwatch.runtime.conduit import Conduit, Mirror
from longwatch.runtime.keys import Keys, KeysError
from longwatch.runtime.logs import Logs
from longwatch.runtime.marks import ended, started

RUN = "web-aaaaaa"


class Daemon:
    """One harness, followed in one loop."""

    def __init__(self, config: str, name: str, stdin: str, argv: list[str]) -> None:
        daemon = daemon_id(config)
        folder = ensure(daemon_folder(state(), daemon))
        self.name = name
        self.reactor = Reactor()
        self.timers: list[tuple[int, int, object]] = []
        self.logs = Logs(os.path.join(folder, "logs"))
        self.pty = stdin == "pty"
        self.sink = self.logs.sink(Harness(name, tuple(argv), pty=self.pty), RUN, False, self.warn)
        self.sink.note(started(RUN, 1))
        mirror, relay = Mirror(), os.pipe() if self.pty else None
        launch = (
            Launch(argv, output="pty", size=(24, 80))
            if self.pty
            else Launch(argv, stdin=stdin, output="merged")
        )
        self.process = Process(
            spawn(launch), self.reactor, {}, True, shared=True,
            make=lambda _, fd, on_end: Conduit(self.reactor, fd, self.sink, mirror, relay, on_end=on_end),
        )  # fmt: skip
        self.process.changed = self.changed
        self.keys = Keys(self.process, self.reactor, self.at, now)
        self.running = True
        self.listen(ensure(sockets(daemon, state())), folder, config)
        self.reactor.add(0, self.asked)

    def warn(self, text: str) -> None:
        """Say that the log cannot be written."""
        print(text, file=sys.stderr)

    def listen(self, folder: str, place: str, config: str) -> None:
        """Open the socket, and say where it is."""
        path = os.path.join(folder, "api.sock")
        self.socket = socket(AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(8)
        self.reactor.add(self.socket.fileno(), self.serve)
        me = identity(os.getpid())
        assert me is not None
        told = {
            "pid": me.pid,
            "start": me.start,
            "boot": me.boot,
            "host": os.uname().nodename,
            "socket": path,
        }
        with open(os.path.join(place, "daemon.json"), "w", encoding="utf-8") as file:
            json.dump({**told, "config": config}, file)

    def at(self, instant: int, callback: object) -> None:
        """Call back at an instant."""
        heapq.heappush(self.timers, (instant, id(callback), callback))

    def changed(self) -> None:
        """Write down the end of the program."""
        if self.process.over and self.running:
            self.running = False
            self.keys.close()
            code, signum = self.process.ended or (None, None)
            self.sink.note(ended(RUN, f"exited {code}" if signum is None else f"died of signal {signum}"))

    def serve(self) -> None:
        """Answer one request."""
        connection, _ = self.socket.accept()
        with connection:
            handler = type("Handler", (Handler,), {"daemon": self})
            handler(connection, "", None)

    def asked(self) -> None:
        """Answer the test, or end with it."""
        words = os.read(0, 100).decode().split()
        for word in words:
            pump = self.process.pumps["stdout"]
            pump.settle()
            value = self.keys.size if word == "rows" else getattr(pump, word)
            print(value[0] if isinstance(value, tuple) else value, flush=True)
        if not words:
            os.killpg(self.process.child.pid, 9)
            os._exit(0)

    def loop(self) -> None:
        """Go on for ever."""
        print("ready", flush=True)
        while True:
            while self.timers and self.timers[0][0] <= now():
                heapq.heappop(self.timers)[2](now())  # type: ignore[operator]
            self.reactor.poll(self.timers[0][0] - now() if self.timers else None)


class Handler(BaseHTTPRequestHandler):
    """The three requests of the verbs."""

    daemon: Daemon

    def do_GET(self) -> None:
        """Describe the harness."""
        daemon = self.daemon
        if not self.path.endswith(f"/{daemon.name}"):
            self.refuse(404, "no_such", "no such harness")
            return
        pid = daemon.process.child.pid if daemon.running else None
        about = {"name": daemon.name, "pty": daemon.pty, "pid": pid, "run": RUN, "log": daemon.sink.path}
        self.answer(200, {**about, "state": "running" if daemon.running else "stopped"}, "application/json")

    def do_POST(self) -> None:
        """Type, or change the size."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path.endswith("/send"):
                self.daemon.keys.send(b64decode(body["data"]), body["newline"])
            else:
                self.daemon.keys.resize(body["rows"], body["cols"])
        except KeysError as error:
            self.refuse(409 if error.busy else 422, "not_now" if error.busy else "usage", str(error))
        else:
            self.answer(200, {}, "application/json")

    def refuse(self, status: int, kind: str, text: str) -> None:
        """Say no."""
        self.answer(
            status, {"kind": kind, "detail": f"{self.daemon.name} {text}"}, "application/problem+json"
        )

    def answer(self, status: int, body: dict[str, object], kind: str) -> None:
        """Send an answer."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(data))),
            ("Longwatch-Api", "1"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Daemon(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]).loop()
