"""Webhooks: `POST /hooks/HARNESS/TRIGGER` on a port of their own. Who sends one proves it by the body's signature.

Nothing of the request reaches the program but by a file: see `daemon.payloads`.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from longwatch.api.bridge import Asks
from longwatch.api.problems import problem
from longwatch.api.service import body_of, document
from longwatch.daemon.asking import HOOK, NO_SUCH, NOT_NOW, REFUSED, USAGE, Caller, Refusal
from longwatch.daemon.deliveries import Rate
from longwatch.daemon.payloads import drop_payload, save_incoming
from longwatch.daemon.triggers import Hook, UnverifiedError, event_of, verify
from longwatch.posix import now

#: How long a sender may take over its body, in seconds.
PATIENCE = 10.0
#: All are answered here, so that all get an answer of the same shape.
_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]


class TooLongError(Exception):
    """The body is longer than the trigger takes."""


class TurnedAwayError(Exception):
    """A delivery that is not taken in."""

    def __init__(self, kind: str, status: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.status = status


class Hooks:
    """The webhooks of one daemon."""

    def __init__(self, asks: Asks, folder: str, triggers: list[Mapping[str, Any]]) -> None:
        self._asks = asks
        self._folder = folder
        hooks = [_hook(each) for each in triggers]
        self._hooks = {(hook.harness, hook.trigger): (hook, Rate(hook.rate)) for hook in hooks}

    async def take(self, request: Request) -> Response:
        """Take in one delivery."""
        found = self._hooks.get((request.path_params["harness"], request.path_params["trigger"]))
        if found is None:
            return problem(NO_SUCH, "no webhook is here")
        if request.method != "POST":
            return problem(USAGE, "a webhook is a POST", 405, headers={"Allow": "POST"})
        hook, rate = found
        try:
            delivery, body = await _verified(request, hook)
        except TurnedAwayError as refusal:
            return problem(refusal.kind, str(refusal), refusal.status)
        wait = rate.wait(now())
        if wait:
            after = {"Retry-After": str(wait // 1000 + 1)}
            return problem(
                NOT_NOW, f"{hook.trigger} takes {hook.rate} deliveries a minute", 429, headers=after
            )
        return await self._fire(hook, delivery, event_of(request.headers), body)

    async def _fire(self, hook: Hook, delivery: str | None, event: str | None, body: bytes) -> Response:
        path = await asyncio.to_thread(self._save, hook, delivery, event, body)
        args = {
            "name": hook.harness, "trigger": hook.trigger, "source": "webhook", "delivery": delivery,
            "payload_file": path, "wait": False,
        }  # fmt: skip
        try:
            answer = await self._asks.ask("trigger", args, Caller(via=HOOK))
        except Refusal as refusal:
            drop_payload(self._folder, path)
            if refusal.kind == NOT_NOW:  # it was decided: to send it again would not change that
                return JSONResponse({"run": None, "skipped": str(refusal)})
            return problem(refusal.kind, "it cannot be started")
        if answer.get("duplicate"):
            drop_payload(self._folder, path)
            return JSONResponse({"run": None, "duplicate": True})
        return JSONResponse({"run": answer.get("run"), "queued": answer.get("queued", False)}, 202)

    def _save(self, hook: Hook, delivery: str | None, event: str | None, body: bytes) -> str:
        kept = body_of(body)
        told = document(hook.harness, hook.trigger, "webhook", delivery=delivery, event=event, **kept)
        return save_incoming(self._folder, told)


def _hook(told: Mapping[str, Any]) -> Hook:
    known: dict[str, Any] = {key: told.get(key) for key in Hook.__slots__}
    return Hook(**known)


def hooks_for(hooks: Hooks) -> Starlette:
    """Return the application of the webhooks' port."""
    return Starlette(
        routes=[Route("/hooks/{harness}/{trigger}", hooks.take, methods=_METHODS)],
        exception_handlers={404: _nothing},
    )


async def _nothing(_request: Request, _error: Exception) -> Response:
    return problem(NO_SUCH, "no webhook is here")


async def _verified(request: Request, hook: Hook) -> tuple[str | None, bytes]:
    """Return the delivery's id and body. Raises TurnedAwayError."""
    try:
        body = await asyncio.wait_for(_body(request, hook.max_body), PATIENCE)
        return verify(hook, request.headers, body, int(time.time())), body
    except TooLongError:
        raise TurnedAwayError(
            USAGE, 413, f"a body of {hook.trigger} has {hook.max_body} bytes at most"
        ) from None
    except (TimeoutError, ClientDisconnect):
        raise TurnedAwayError(USAGE, 408, "the body did not come") from None
    except UnverifiedError as error:
        raise TurnedAwayError(REFUSED, 401, str(error)) from None


async def _body(request: Request, most: int) -> bytes:
    claimed = request.headers.get("content-length", "0")
    if claimed.isdigit() and int(claimed) > most:
        raise TooLongError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLongError
    return bytes(body)
