"""Who may come in by a TCP port: who shows the token, names the port as it is, and is no page of a foreign site.

A browser on this machine reaches every loopback port. So a request has to name us as its Host (a foreign name that
was made to lead here does not), and an Origin, where there is one, has to be ours. On the private socket the kernel
has already said who is there.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from longwatch import __version__
from longwatch.api.problems import problem
from longwatch.api.wire import API, HEADER, VERSION
from longwatch.daemon.asking import NOT_NOW, REFUSED, USAGE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Door:
    """Lets requests with the token pass. `listen` is our own address; `origins` are others that pages may come from."""

    def __init__(self, app: App, *, token: str, listen: str, origins: list[str]) -> None:
        self._app = app
        self._token = token.encode()
        host, _, port = listen.rpartition(":")
        self._hosts = {f"{name}:{port}" for name in (*_LOCAL, host)}
        self._origins = {*origins, *(f"http://{name}" for name in self._hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on or refuse it."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, text = refusal
        more = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        await problem(REFUSED, text, status, headers=more)(scope, receive, send)

    def _refusal(self, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host", "").lower() not in self._hosts:
            return 403, "this Host is not the daemon's; use the address that it listens at"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return 403, "pages of other sites may not ask; [web] origins names those that may"
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._is_token(token.strip()):
            return 401, "the token of [web] is needed: Authorization: Bearer TOKEN"
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("latin-1", "replace"), self._token)


class Frame:
    """Around every request: the version in the answer, a bound on the body, and how many are under way."""

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self.busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        told = dict(scope["headers"])
        claimed = told.get(b"content-length", b"0")

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                ours = [
                    (HEADER.lower().encode(), str(API).encode()),
                    (VERSION.lower().encode(), __version__.encode()),
                ]
                message["headers"] = [*message.get("headers", ()), *ours]
            await send(message)

        wanted = told.get(HEADER.lower().encode())
        if wanted is not None and wanted != str(API).encode():
            await _other_version(wanted)(scope, receive, answer)
        elif claimed.isdigit() and int(claimed) > self._most:
            await problem(USAGE, f"a body has {self._most} bytes at most", 413)(scope, receive, answer)
        else:
            self.busy += 1
            try:
                await self._app(scope, _bounded(receive, self._most), answer)
            finally:
                self.busy -= 1


def _other_version(wanted: bytes) -> App:
    said = wanted.decode("latin-1")[:20]
    return problem(NOT_NOW, f"this daemon is longwatch {__version__} and speaks API {API}, not {said}", 409)


def _bounded(receive: Receive, most: int) -> Receive:
    """Cut off a body that does not say how long it is, and is too long."""
    taken = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            return {"type": "http.disconnect"}
        return message

    return bounded
