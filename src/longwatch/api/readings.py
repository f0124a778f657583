"""The routes that only look: at harnesses now, at past runs and their output, at events as they happen."""

import asyncio
import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from longwatch.api import models
from longwatch.api.history import piece
from longwatch.api.models import MOST_LOG, Bytes, Instant, Limit, Name, Offset, Outcome, RunId, Tail
from longwatch.api.problems import MISSING, problem
from longwatch.api.service import PULSE, Service, caller
from longwatch.api.streaming import READERS
from longwatch.api.wire import EVENTS, OFFSET, SIZE
from longwatch.daemon.asking import NOT_NOW, Refusal
from longwatch.metrics import CONTENT_TYPE
from longwatch.store.listing import Wanted

_TEXT: Any = {
    200: {
        "content": {"text/plain": {}},
        "headers": {name: {"schema": {"type": "integer"}} for name in (OFFSET, SIZE)},
    },
    **MISSING,
}


def harnesses(service: Service) -> APIRouter:
    """Return the routes that show harnesses as they are now."""
    routes = APIRouter(tags=["harnesses"])

    @routes.get("/v1/harnesses", response_model=models.Status)
    async def harnesses(request: Request) -> Response:
        """List all harnesses as they are now."""
        return JSONResponse(await service.ask(request, "status"))

    @routes.get("/v1/harnesses/{name}", response_model=models.Snapshot, responses=MISSING)
    async def harness(request: Request, name: Name) -> Response:
        """Tell all about one harness."""
        return JSONResponse(await service.ask(request, "describe", name=name))

    @routes.get("/v1/harnesses/{name}/log", responses=_TEXT, response_class=Response)
    async def log(
        request: Request, name: Name, tail: Tail = None, offset: Offset = None, limit: Bytes = MOST_LOG
    ) -> Response:
        """Return a harness's output, as it was printed."""
        found = await service.ask(request, "describe", name=name)
        return await _log(found.get("log"), tail, offset, limit)

    return routes


def runs_of(service: Service) -> APIRouter:
    """Return the routes that show runs, from the ledger."""
    routes = APIRouter(tags=["runs"])

    @routes.get("/v1/runs", response_model=models.Runs)
    async def runs(
        name: Annotated[list[str], Query(max_length=50, description="Of these harnesses.")] = [],  # noqa: B006
        since: Annotated[Instant | None, Query(description="Started then or later.")] = None,
        until: Annotated[Instant | None, Query(description="Started before.")] = None,
        outcome: Annotated[list[Outcome], Query(max_length=20, description="Any of these.")] = [],  # noqa: B006
        trigger: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006
        limit: Limit = 20,
        everything: Annotated[
            bool, Query(description="Runs of other daemons and of `longwatch run`, too.")
        ] = False,
    ) -> Response:
        """List runs, newest first."""
        wanted = Wanted(
            names=tuple(name), since=_wall(since), until=_wall(until), outcomes=tuple(outcome), triggers=tuple(trigger),
            daemon=None if everything else service.history.daemon, limit=limit,
        )  # fmt: skip
        return JSONResponse(await asyncio.to_thread(service.history.runs, wanted))

    @routes.get("/v1/runs/{run}", response_model=models.Run, responses=MISSING)
    async def one_run(run: RunId) -> Response:
        """Tell what is kept of a run."""
        return JSONResponse(await asyncio.to_thread(service.history.run, run))

    @routes.get("/v1/runs/{run}/log", responses=_TEXT, response_class=Response)
    async def run_log(
        run: RunId, tail: Tail = None, offset: Offset = None, limit: Bytes = MOST_LOG
    ) -> Response:
        """Return the output of a scheduled or triggered run."""
        return await _log(await asyncio.to_thread(service.history.log_of_run, run), tail, offset, limit)

    return routes


def events_of(service: Service) -> APIRouter:
    """Return the route that tells what happens."""
    routes = APIRouter(tags=["events"])

    @routes.get("/v1/events", responses={200: {"content": {EVENTS: {}}}}, response_class=StreamingResponse)
    async def events(
        since: Annotated[
            int | None, Query(ge=0, le=1 << 53, description="After the event of this number.")
        ] = None,
        since_time: Annotated[Instant | None, Query(description="From then on.")] = None,
        harness: Annotated[list[str], Query(max_length=50, description="Only of these.")] = [],  # noqa: B006
        follow: Annotated[bool, Query(description="Go on as they happen.")] = True,
        last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    ) -> Response:
        """Follow what happens, as server-sent events; those of the past first, where `since` asks for them."""
        if len(service.readers) >= READERS:
            return problem(NOT_NOW, f"{READERS} clients follow events by now; that is the most", 409)
        begin = int(last_event_id) if last_event_id and last_event_id.isdecimal() else since
        if begin is None and since_time is not None:
            begin = await asyncio.to_thread(service.history.since, _wall(since_time) or 0)
        if begin is None:
            begin = await asyncio.to_thread(service.history.newest) if follow else 0
        wanted = frozenset(harness)
        stream = service.readers.follow(
            begin, wanted, lambda last: service.history.events(last, wanted), follow=follow
        )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream, media_type=EVENTS, headers=headers)

    return routes


def health_of(service: Service) -> APIRouter:
    """Return the routes that programs watch the daemon by."""
    routes = APIRouter(tags=["health"])

    @routes.get("/v1/health", response_model=models.Health, responses={503: {"model": models.Health}})
    async def health(request: Request) -> Response:
        """Say whether the supervisor answers, and what it has to complain about."""
        try:
            answer = await service.asks.ask("ping", {}, caller(request), PULSE)
        except Refusal as refusal:
            return JSONResponse({"ok": False, "problems": [str(refusal)]}, 503)
        problems = answer.get("problems") or []
        return JSONResponse({**answer, "ok": not problems, "problems": problems})

    async def metrics(request: Request) -> Response:
        """Give the numbers that Prometheus scrapes."""
        return Response(await service.samples(request), media_type=CONTENT_TYPE)

    text: Any = {200: {"content": {"text/plain": {}}}}
    for path in ("/metrics", "/v1/metrics"):
        routes.add_api_route(path, metrics, responses=text, response_class=Response)
    return routes


def _wall(moment: dt.datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


async def _log(path: str | None, tail: int | None, offset: int | None, limit: int) -> Response:
    found = await asyncio.to_thread(piece, path, tail, offset, limit)
    headers = {OFFSET: str(found.offset), SIZE: str(found.size)}
    return Response(found.data, media_type="text/plain; charset=utf-8", headers=headers)
