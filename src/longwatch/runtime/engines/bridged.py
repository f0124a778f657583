"""A bridge as its supervisor has it: calls with an answer later, in the supervisor's loop. It is started anew when it dies."""

import base64
import json
import os
import socket
import sys

from longwatch.posix import now
from longwatch.runtime import birth
from longwatch.runtime.engines.protocol import FAILED, REFUSED, EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.runtime.driver import Timer
    from longwatch.runtime.host import Host

    Done = Callable[[Any, EngineError | None], object]
else:
    import _signal

#: Between two starts of a bridge, in ms: doubled up to the second.
_AGAIN, _AGAIN_MOST = 1_000, 30_000


class Bridge:
    """A bridge to one engine. `log` is where it says what nobody asks for; `words` are the engine's own."""

    def __init__(self, host: "Host", engine: str, words: "Mapping[str, object]", log: str) -> None:
        self.engine = engine
        #: How often a run is looked at of which nobody tells news, in ms; 0: there is who does.
        self.looks = 0
        self._host = host
        self._words = words
        self._log = log
        self._pid = 0
        self._line: socket.socket | None = None
        self._rest = b""
        self._number = 0
        self._waiting: dict[int, tuple[Done, Timer]] = {}
        self._unsaid: list[bytes] = []
        #: Whether it is there and has the engine.
        self.ready = False
        self._pause = _AGAIN
        #: Why the engine cannot be used at all, once it said so.
        self.refused: EngineError | None = None
        self.on_ready: list[Callable[[], object]] = []
        self._closed = False
        self._start(0)

    @property
    def pid(self) -> int:
        """The bridge's process; 0 while there is none."""
        return self._pid

    def call(self, op: str, args: "list[Any]", done: "Done", limit: int) -> None:
        """Have something done; `done(answer, error)` is called once, with an error after `limit` ms at the latest."""
        self._number += 1
        number = self._number
        late = EngineError(f"{op}: no answer")
        timer = self._host.at(now() + limit, lambda at: self._answer(number, None, late))
        self._waiting[number] = (done, timer)
        line = json.dumps({"id": number, "op": op, "args": args}).encode() + b"\n"
        if self.refused is not None:
            refused = self.refused
            self._host.soon(lambda at: self._answer(number, None, refused))
        elif self.ready:
            self._send(line)
        else:
            self._unsaid.append(line)

    def _answer(self, number: int, answer: "Any", error: EngineError | None) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._host.cancel(waiting[1])
            waiting[0](answer, error)

    # -- its process

    def _start(self, at: int) -> None:
        if self._closed:
            return
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        words = [
            sys.executable,
            "-m",
            "longwatch.runtime.engines.bridge",
            self.engine,
            json.dumps(self._words),
        ]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._pid = os.posix_spawn(
                sys.executable, words, os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True, setsigmask=[], setsigdef=[_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGINT],
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(log)
        self._host.reactor.add(self._line.fileno(), self._read)

    def _read(self) -> None:
        assert self._line is not None
        try:
            data = self._line.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def _heard(self, message: "Mapping[str, Any]") -> None:
        error = EngineError(message["error"], message["kind"]) if "error" in message else None
        if message["id"] == 0:
            self._begun(message, error)
            return
        answer = message.get("ok")
        if isinstance(answer, dict) and "data" in answer and "offset" in answer:
            answer = (answer["offset"], base64.b64decode(answer["data"]))
        self._answer(message["id"], answer, error)

    def _begun(self, message: "Mapping[str, Any]", error: EngineError | None) -> None:
        if error is not None:
            if error.kind == REFUSED:
                self.refused = error
            self._fail(error)
            return
        self.ready = True
        self._pause = _AGAIN
        self.looks = message["ok"]["looks"]
        unsaid, self._unsaid = self._unsaid, []
        for line in unsaid:
            self._send(line)
        for callback in self.on_ready:
            callback()

    def _send(self, line: bytes) -> None:
        assert self._line is not None
        self._line.setblocking(True)
        try:
            self._line.sendall(line)
        except OSError:
            self._host.soon(lambda at: self._lost())
        finally:
            self._line.setblocking(False)

    def _lost(self) -> None:
        """It is gone: nobody will answer what was asked. Another one is started after a while."""
        self._drop()
        self._fail(EngineError("the bridge to the engine is gone", FAILED))
        if not self._closed and self.refused is None:
            self._host.at(now() + self._pause, self._start)
            self._pause = min(2 * self._pause, _AGAIN_MOST)

    def _fail(self, error: EngineError) -> None:
        self._unsaid.clear()
        for number in list(self._waiting):
            self._answer(number, None, error)

    def _drop(self) -> None:
        self.ready = False
        if self._line is not None:
            self._host.reactor.remove(self._line.fileno())
            self._line.close()
            self._line, self._rest = None, b""
        if self._pid:
            birth.bury(self._pid)
            self._pid = 0

    def close(self) -> None:
        """Hang up; the bridge ends, and so does what is not detached."""
        self._closed = True
        self._drop()
