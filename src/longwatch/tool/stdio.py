"""The connection to an MCP client: one JSON message a line, on the stdin and stdout that it gave us.

The package has a transport of its own. This one differs in what a supervisor needs: no thread sits in a blocking
read, so that we can end while the client is silent; no descriptor of the client's is made non-blocking; a message
that cannot be read is answered instead of dropped; and a client that does not read holds up nothing but its answers.
"""

import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from longwatch.posix.sink import Sink
from longwatch.units import format_size

#: A message longer than this is no message: nothing that a model writes comes near.
LONGEST = 64 << 20
_CHUNK = 1 << 16
#: What was asked right before the end of input is answered, if it can be within so many seconds: a shell's pipe.
_LAST_WORDS = 0.05
#: How long the last answers may take to be read, once all is over.
_FAREWELL = 1.0

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


class Stdio:
    """Our stdin and stdout, taken away from everything else in this process.

    From here on descriptor 0 is empty and what anybody prints goes to stderr: a stray line would break the protocol.
    Raises OSError where one of the two is closed.
    """

    def __init__(self) -> None:
        self._in = _claimed(0)
        self._out = _claimed(1)
        _divert()
        self._sink = Sink(self._out)
        # Both belong to the event loop that `streams` runs in.
        self._listening: anyio.CancelScope
        self._refusals: MemoryObjectSendStream[SessionMessage]

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Give both directions, as the package's server wants them.

        A client that ends its side, or no longer reads ours, is gone: both are the end of what comes in.
        """
        to_server, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._listening = anyio.CancelScope()
        self._refusals = outgoing.clone()
        written = anyio.Event()

        async def write() -> None:
            await self._write(from_server)
            self._listening.cancel()
            written.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, to_server)
            tasks.start_soon(write)
            yield incoming, outgoing
            self._refusals.close()
            with anyio.move_on_after(_FAREWELL):
                await written.wait()
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Hang up: only now does the client see the end of our output."""
        self._sink.close()
        os.close(self._in)
        os.close(self._out)

    async def _read(self, to_server: MemoryObjectSendStream[Incoming]) -> None:
        with self._listening, suppress(anyio.BrokenResourceError):
            async with to_server:
                await self._listen(to_server)
                await anyio.sleep(_LAST_WORDS)

    async def _listen(self, to_server: MemoryObjectSendStream[Incoming]) -> None:
        parts: list[bytes] = []
        size = 0
        while data := await self._some():
            first, *others = data.split(b"\n")
            parts.append(first)
            size += len(first)
            for piece in others:
                await self._hand_over(b"".join(parts), to_server)
                parts, size = [piece], len(piece)
            if size > LONGEST:
                _note(f"a message of more than {format_size(LONGEST)}: no longer listening to this client")
                return

    async def _some(self) -> bytes:
        """Wait for bytes; none at the end. A regular file cannot be waited for, and need not be."""
        with suppress(PermissionError):
            await anyio.wait_readable(self._in)
        try:
            return os.read(self._in, _CHUNK)
        except OSError:  # a socket that was reset, a terminal that was hung up
            return b""

    async def _hand_over(self, line: bytes, to_server: MemoryObjectSendStream[Incoming]) -> None:
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            await self._refuse(line, error)
        else:
            await to_server.send(SessionMessage(message))

    async def _refuse(self, line: bytes, error: ValueError) -> None:
        """Answer what cannot be read, for somebody waits for it. Half a surrogate pair is the usual reason."""
        said = " ".join(str(error).split("[type=")[0].split("\n")[1:]).strip() or str(error)
        problem = types.ErrorData(
            code=types.PARSE_ERROR, message=f"this message cannot be read: {said[:200]}"
        )
        answer = types.JSONRPCError(jsonrpc="2.0", id=_id_in(line), error=problem)
        await self._refusals.send(SessionMessage(answer))

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write until there is nothing more to come, or nobody to read it."""
        async with from_server:
            async for outgoing in from_server:
                text = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
                if not await self._put(memoryview(text.encode() + b"\n")):
                    return

    async def _put(self, data: memoryview) -> bool:
        while data:
            data = data[self._sink.write(data) :]
            if self._sink.broken or self._sink.failed is not None:
                return False
            if data:
                await anyio.wait_writable(self._sink.fileno())
        return True


def _claimed(fd: int) -> int:
    """Return a copy of a standard descriptor, out of reach of whoever thinks he knows its number."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _divert() -> None:
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)


def _id_in(line: bytes) -> Any:
    """Return the id of a request that is no proper message; None where there is none to be found."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    number = found.get("id") if isinstance(found, dict) else None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def _note(text: str) -> None:
    print(f"longwatch: mcp: {text}", file=sys.stderr, flush=True)


__all__ = ["LONGEST", "Stdio", "Streams"]
