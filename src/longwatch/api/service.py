"""What all routes work with: whom they ask and as whom, what they read, who follows, and what a trigger brings."""

import base64
import datetime as dt
import json
from typing import Any

from fastapi import Request

from longwatch.api.bridge import Asks, until_gone
from longwatch.api.history import History
from longwatch.api.streaming import Readers
from longwatch.daemon.asking import TCP, UNIX, Caller, Refusal
from longwatch.metrics import exposition
from longwatch.paths import rfc3339

#: What the protocol of the private socket writes in front of the user id, in the place of an address.
PEER = "unix:"
#: How long the supervisor may take to say that it is well, in seconds.
PULSE = 2.0


class Service:
    """What the routes work with: whom they ask, what they read, who follows."""

    def __init__(self, asks: Asks, history: History, folder: str) -> None:
        self.asks = asks
        self.history = history
        self.folder = folder
        self.readers = Readers()
        self.errors = 0

    async def ask(self, request: Request, op: str, **args: Any) -> dict[str, Any]:
        """Ask what is answered at once."""
        return await self.asks.ask(op, args, caller(request))

    async def wait(self, request: Request, op: str, **args: Any) -> dict[str, Any]:
        """Ask what may take long, for as long as the client stays. The route has read the body by now."""
        asked = self.asks.ask(op, args, caller(request), None)
        return await until_gone(_hung_up(request), asked)

    async def samples(self, request: Request) -> bytes:
        """Return the metrics; without an answer of the supervisor they say just that."""
        try:
            answer = await self.asks.ask("metrics", {}, caller(request), PULSE)
        except Refusal:
            self.errors += 1
            return exposition(None, self.errors)
        return exposition(answer.get("samples", answer), self.errors)


def caller(request: Request) -> Caller:
    """Return who asks: by what the kernel said on the private socket, or that it came by a port."""
    host, number = (request.client.host, request.client.port) if request.client else ("", 0)
    if host.startswith(PEER):
        return Caller(number, int(host.removeprefix(PEER)), UNIX)
    return Caller(via=TCP)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def document(harness: str, trigger: str | None, source: str, **kept: Any) -> dict[str, Any]:
    """Return what a run finds in the file of its payload."""
    moment = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    return {
        "schema": 1,
        "harness": harness,
        "trigger": trigger,
        "source": source,
        "received_at": rfc3339(moment),
        **kept,
    }


def body_of(data: bytes) -> dict[str, Any]:
    """Return a body as it goes into that file: `payload` if it is JSON, `text` if it is text, else `base64`."""
    try:
        return {"payload": json.loads(data)}
    except (ValueError, RecursionError):
        pass
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
