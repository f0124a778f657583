"""The API process's connection to the supervisor: questions and answers, and the facts that are pushed."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from longwatch.daemon.asking import FAILED, NOT_NOW, Caller, Refusal

#: Longer lines than any answer: a thousand harnesses in full.
_LONGEST = 64 << 20
#: How long the supervisor may take over what it answers at once, in seconds. It answers within milliseconds.
PATIENCE = 20.0


class Asks(Protocol):
    """Who can be asked: the bridge, or what stands for it in a test."""

    async def ask(
        self, op: str, args: dict[str, Any], by: Caller, patience: float | None = PATIENCE
    ) -> dict[str, Any]:
        """Return the answer. Raises Refusal. `patience` in seconds, None for as long as it takes."""


class Bridge:
    """Asks the supervisor. `told` gets what it says by itself; `run` ends when the supervisor hangs up."""

    def __init__(self, told: Callable[[dict[str, Any]], object]) -> None:
        self._told = told
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0

    async def connect(self, fd: int) -> dict[str, Any]:
        """Take the connection, and return the supervisor's first words. Raises EOFError when it is gone."""
        connection = socket.socket(fileno=fd)
        connection.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=connection, limit=_LONGEST)
        line = await self._reader.readline()
        if not line:
            raise EOFError
        hello: dict[str, Any] = json.loads(line)["hello"]
        return hello

    async def run(self) -> None:
        """Hear the supervisor out. Returns when it hangs up."""
        assert self._reader is not None, "it was not connected"
        while line := await self._reader.readline():
            self._hear(json.loads(line))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Refusal(NOT_NOW, "the daemon has ended"))
        if self._writer is not None:
            self._writer.close()

    async def ask(
        self, op: str, args: dict[str, Any], by: Caller, patience: float | None = PATIENCE
    ) -> dict[str, Any]:
        """Return the answer. Raises Refusal; one that is given up is taken back at the supervisor."""
        self._count += 1
        number = self._count
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"id": number, "op": op, "args": args, "by": by.as_dict()})
        try:
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            raise Refusal(NOT_NOW, f"the daemon (pid {os.getppid()}) does not answer") from None
        finally:
            del self._waiting[number]
            if future.cancelled() or not future.done():
                self._send({"cancel": number})

    def _hear(self, message: dict[str, Any]) -> None:
        if "ping" in message:
            self._send({"pong": message["ping"]})
        elif "id" in message:
            future = self._waiting.get(message["id"])
            if future is not None and not future.done():
                _settle(future, message)
        else:
            self._told(message)

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")


def _settle(future: asyncio.Future[dict[str, Any]], message: dict[str, Any]) -> None:
    error = message.get("error")
    if error is None:
        future.set_result(message.get("ok") or {})
    else:
        text = str(error.get("text"))
        future.set_exception(Refusal(str(error.get("kind", FAILED)), text, error.get("nearest")))


async def until_gone(gone: Awaitable[object], asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer; give the question up, and raise ConnectionError, when its client is gone first."""
    question = asyncio.ensure_future(asked)
    leaving = asyncio.ensure_future(gone)
    try:
        await asyncio.wait((question, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not question.done():
            raise ConnectionError("the client is gone")
        return question.result()
    finally:
        question.cancel()
        leaving.cancel()
