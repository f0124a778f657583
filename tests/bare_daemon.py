"""A daemon as it is, but for two processes that tests can do without: its file is the JSON that compiling gives, and
questions come as lines on its socket. Run as a script: FILE READY_FD [--replace].
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import measure

if measure.CHOSEN in os.environ:
    measure.start()


from longwatch.daemon import __main__ as entry
from longwatch.daemon import app, reload
from longwatch.daemon.asking import UNIX, Caller, Later, Refusal
from longwatch.daemon.compile import Compiled


class Lines:
    """One client: a question a line, an answer a line."""

    def __init__(self, daemon: "Bare", connection: socket.socket) -> None:
        self.daemon = daemon
        self.connection = connection
        self.heard = b""
        pid, uid, _ = (
            int.from_bytes(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[i : i + 4], sys.byteorder
            )
            for i in (0, 4, 8)
        )
        self.caller = Caller(pid, uid, UNIX)
        daemon.host.reactor.add(connection.fileno(), self.read)

    def read(self) -> None:
        data = self.connection.recv(1 << 16)
        if not data:
            self.daemon.host.reactor.remove(self.connection.fileno())
            self.connection.close()
            return
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            self.ask(json.loads(line))

    def ask(self, question: dict[str, Any]) -> None:
        try:
            found = self.daemon.requests.ask(question.pop("op"), question, self.caller)
        except Refusal as refusal:
            self.say(None, refusal)
        else:
            if isinstance(found, Later):
                found.then(self.say)
            else:
                self.say(found, None)

    def say(self, good: dict[str, Any] | None, refusal: Refusal | None) -> None:
        answer = {"ok": good} if refusal is None else {"error": refusal.as_dict()}
        self.connection.sendall(json.dumps(answer).encode() + b"\n")


class Bare(app.App):
    """A daemon without compiler and API process."""

    def _read(self) -> Compiled:
        return read(self.config)

    def _open_portal(self, file: Compiled) -> None:
        path = Path(self.sockets) / "api.sock"
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(16)
        self.host.reactor.add(self.listener.fileno(), lambda: Lines(self, self.listener.accept()[0]))
        self.supervisor.subscribe(
            lambda fact: sys.stdout.write(
                json.dumps({"event": fact.name, **fact.as_dict()}, default=str) + "\n"
            )
        )


def read(path: str) -> Compiled:
    return Compiled(json.loads(Path(path).read_text()))


if __name__ == "__main__":
    app.read_file = reload.read_file = lambda host, path, done, argv=None: done(read(path))
    entry.App = Bare  # type: ignore[misc]
    config, ready, *more = sys.argv[1:]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    entry.main(["--config", config, "--ready-fd", ready, "--foreground", *more])
