"""Sockets that were handed to us, served by uvicorn's protocol: without its server, which wakes ten times a second."""

import asyncio
import socket
import struct
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from longwatch.api.access import App
from longwatch.api.service import PEER

_CREDENTIALS = struct.Struct("iII")
#: Connections by a port at the same time: whoever holds them open cannot touch the private socket.
MOST_BY_PORT = 64
_KEEP_ALIVE = 75


class Peer(H11Protocol):
    """HTTP on the private socket: only we and root are let in, and who it is goes with every request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look who is there."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, _ = _CREDENTIALS.unpack(raw)
        if not allowed(user):
            transport.abort()
        self.client = (f"{PEER}{user}", pid)


def allowed(user: int) -> bool:
    """Whether a user may use the private socket: the daemon's own, and root."""
    import os  # noqa: PLC0415

    return user in (0, os.geteuid())


class Listening:
    """One socket that is served."""

    def __init__(self, fd: int, app: App, *, private: bool) -> None:
        self._socket = socket.socket(fileno=fd)
        self._config = Config(
            app, http=Peer if private else H11Protocol, ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, proxy_headers=False, server_header=False, date_header=False,
            limit_concurrency=None if private else MOST_BY_PORT, timeout_keep_alive=_KEEP_ALIVE,
        )  # fmt: skip
        self._state = ServerState()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Serve from now on."""
        self._config.load()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, sock=self._socket, backlog=128)

    def close(self) -> None:
        """Take no new connection, and end those that wait for a request."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()

    def _protocol(self) -> Any:
        return self._config.http_protocol_class(self._config, self._state, {})  # type: ignore[call-arg]
