"""The routes that do something. Each is one question to the supervisor; what takes long waits as long as its client."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from longwatch.api import models
from longwatch.api.models import Name
from longwatch.api.problems import MISSING, RESPONSES, problem
from longwatch.api.service import Service, caller, document
from longwatch.api.wire import TOO_LONG
from longwatch.daemon.asking import UNIX, USAGE, Refusal
from longwatch.daemon.payloads import drop_payload, save_incoming

_SENT: dict[int | str, dict[str, Any]] = {status: RESPONSES[status] for status in (400, 413)}


def harnesses(service: Service) -> APIRouter:
    """Return the routes that act on one harness."""
    routes = APIRouter(tags=["commands"], responses=_SENT)

    @routes.post("/v1/harnesses/{name}/start", response_model=models.Done, responses=MISSING)
    async def start(request: Request, name: Name) -> Response:
        """Start it; answered when its run is on record."""
        return JSONResponse(await service.wait(request, "start", name=name))

    @routes.post("/v1/harnesses/{name}/stop", response_model=models.Done, responses=MISSING)
    async def stop(request: Request, name: Name, body: models.Stop | None = None) -> Response:
        """Stop it with its whole tree; answered when that is proven."""
        return JSONResponse(await service.wait(request, "stop", name=name, **_given(body)))

    @routes.post("/v1/harnesses/{name}/restart", response_model=models.Done, responses=MISSING)
    async def restart(request: Request, name: Name, body: models.Stop | None = None) -> Response:
        """Stop it and start it anew; clears what has given up."""
        return JSONResponse(await service.wait(request, "restart", name=name, **_given(body)))

    @routes.post("/v1/harnesses/{name}/send", response_model=models.Done, responses=MISSING)
    async def send(request: Request, name: Name, body: models.Send) -> Response:
        """Type something into its terminal."""
        if len(body.data) > models.MOST_INPUT:
            return problem(USAGE, f"data: {models.MOST_INPUT} characters at most at a time", TOO_LONG)
        return JSONResponse(await service.ask(request, "send", name=name, **body.model_dump()))

    @routes.post("/v1/harnesses/{name}/resize", response_model=models.Done, responses=MISSING)
    async def resize(request: Request, name: Name, body: models.Resize) -> Response:
        """Set the size of its terminal."""
        return JSONResponse(await service.ask(request, "resize", name=name, **body.model_dump()))

    @routes.post("/v1/harnesses/{name}/trigger", response_model=models.Done, responses=MISSING)
    async def trigger(request: Request, name: Name, body: models.Trigger | None = None) -> Response:
        """Fire it now; with `wait` answered when the run is over."""
        asked = body or models.Trigger()
        source = "cli" if caller(request).via == UNIX else "api"
        path = await asyncio.to_thread(_saved, service.folder, name, source, asked)
        fired = {
            "trigger": asked.trigger,
            "source": source,
            "delivery": None,
            "payload_file": path,
            "wait": asked.wait,
        }
        try:
            return JSONResponse(await service.wait(request, "trigger", name=name, **fired))
        except Refusal:
            if path is not None:
                drop_payload(service.folder, path)
            raise

    return routes


def daemon(service: Service) -> APIRouter:
    """Return the routes that act on the daemon as a whole."""
    routes = APIRouter(tags=["daemon"], responses=_SENT)

    @routes.post("/v1/reload", response_model=models.Done)
    async def reload(request: Request, body: models.Reload | None = None) -> Response:
        """Apply the file as it is now."""
        return JSONResponse(await service.wait(request, "reload", **(body or models.Reload()).model_dump()))

    @routes.post("/v1/down", response_model=models.Done)
    async def down(request: Request, body: models.Down | None = None) -> Response:
        """End the daemon, with all harnesses unless they are kept."""
        return JSONResponse(await service.wait(request, "down", **(body or models.Down()).model_dump()))

    @routes.post("/v1/notify-test", response_model=models.Done)
    async def notify_test(request: Request) -> Response:
        """Send a notice by every channel, and tell how that went."""
        return JSONResponse(await service.wait(request, "notify_test"))

    @routes.post("/v1/handover", response_model=models.Done)
    async def handover(request: Request) -> Response:
        """Let go of all harnesses, which run on, and end: a new daemon takes over."""
        return JSONResponse(await service.wait(request, "handover"))

    return routes


def _given(body: models.Stop | None) -> dict[str, Any]:
    return {} if body is None else body.model_dump(exclude_none=True)


def _saved(folder: str, name: str, source: str, asked: models.Trigger) -> str | None:
    """Write what a trigger brings to a file, if it brings anything."""
    if "payload" not in asked.model_fields_set and asked.base64 is None:
        return None
    kept = {"payload": asked.payload} if asked.base64 is None else {"base64": asked.base64}
    return save_incoming(folder, document(name, asked.trigger, source, **kept))
