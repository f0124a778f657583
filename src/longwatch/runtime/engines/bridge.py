"""The bridge: a process that holds an engine's client, and serves its calls as lines of JSON on a socket.

An engine's client may end the process that it is in (Ray does, when its head is lost), and starts threads as it likes:
neither may happen to who supervises. This one may be killed and started anew at any moment; it knows nothing that the
engine does not. It ends when the socket does.

    -> {"id": 1, "op": "renew", "args": [...]}
    <- {"id": 1, "ok": ...}   or   {"id": 1, "error": "one line", "kind": "refused | gone | failed"}
"""

import base64
import json
import os
import socket
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from longwatch.runtime.engines.protocol import FAILED, EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO, NoReturn

    from longwatch.runtime.engines.protocol import Engine

CALLS = {name: name for name in ("nodes", "place", "renew", "stop", "read", "locate")}
#: Calls that wait for something at the same time; those that wait for news do so without a thread, or briefly.
THREADS = 32


class Server:
    """Serves one engine on one socket."""

    def __init__(self, engine: "Engine", line: socket.socket) -> None:
        self._engine = engine
        self._line = line
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS)

    def serve(self) -> None:
        """Take calls until nobody is there any more."""
        with self._line.makefile("rb") as lines:
            while line := self._next(lines):
                call = json.loads(line)
                self._pool.submit(self._carry_out, call["id"], call["op"], call.get("args", []))

    def _next(self, lines: "BinaryIO") -> bytes:
        try:
            return lines.readline()
        except OSError:
            return b""  # it died, with answers of ours unread

    def _carry_out(self, number: int, name: str, args: "list[Any]") -> None:
        try:
            answer = getattr(self._engine, CALLS[name])(*args)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is an answer
            self._failed(number, error)
            return
        if isinstance(answer, Future):
            answer.add_done_callback(lambda future: self._settled(number, future))
        else:
            self._say({"id": number, "ok": told(answer)})

    def _settled(self, number: int, future: "Future[Any]") -> None:
        error = future.exception()
        if error is not None:
            self._failed(number, error)
        else:
            self._say({"id": number, "ok": told(future.result())})

    def _failed(self, number: int, error: BaseException) -> None:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        kind = error.kind if isinstance(error, EngineError) else FAILED
        self._say({"id": number, "error": lines[0][:500], "kind": kind})

    def _say(self, message: "Mapping[str, Any]") -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            try:
                self._line.sendall(data)
            except OSError:
                os._exit(0)  # nobody is there any more


def told(answer: "Any") -> "Any":
    """Return an answer as JSON has it: a piece of a stream as its beginning and base64."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], bytes):
        return {"offset": answer[0], "data": base64.b64encode(answer[1]).decode()}
    return answer


def main(words: list[str]) -> "NoReturn":
    """Be a bridge: the engine's name, and its words as JSON. The socket is our stdin."""
    line = socket.socket(fileno=os.dup(0))
    line.set_inheritable(False)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        engine = _engine(words[0], json.loads(words[1]))
    except Exception as error:  # noqa: BLE001 - it is told, and nothing else can be done
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        kind = error.kind if isinstance(error, EngineError) else FAILED
        line.sendall(json.dumps({"id": 0, "error": text, "kind": kind}).encode() + b"\n")
        os._exit(1)
    line.sendall(json.dumps({"id": 0, "ok": {"looks": getattr(engine, "looks", 0)}}).encode() + b"\n")
    Server(engine, line).serve()
    engine.close()
    os._exit(0)


def _engine(name: str, words: "Mapping[str, Any]") -> "Engine":
    if name == "local":
        from longwatch.runtime.engines.local import Local  # noqa: PLC0415 - one of them is needed

        return Local()
    from longwatch.runtime.engines.ray_driver import Ray  # noqa: PLC0415

    return Ray(**words)


if __name__ == "__main__":
    main(sys.argv[1:])
