"""Refusals as HTTP answers: one shape for all of them, with one line that can be shown to a human as it is."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from longwatch.api.models import Problem
from longwatch.api.wire import HTTP, PROBLEM, TITLES, WRONG
from longwatch.daemon.asking import FAILED, NO_SUCH, NOT_NOW, REFUSED, USAGE, Refusal
from longwatch.errors import LongwatchError, UsageError

_KIND_OF = {401: REFUSED, 403: REFUSED, 404: NO_SUCH, 405: USAGE, 413: USAGE, 429: NOT_NOW, 503: NOT_NOW}
#: For the OpenAPI document: what may come beside the good answer.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text, "content": {PROBLEM: {}}}
    for status, text in (
        (400, "The body is no JSON"),
        (401, "The token is missing or wrong (TCP only)"),
        (403, "This caller may not do that"),
        (404, "There is no such thing"),
        (409, "It cannot be done now, or was tried and failed"),
        (413, "The body is too long"),
        (422, "The question is wrong"),
    )
}


MISSING: dict[int | str, dict[str, Any]] = {404: RESPONSES[404]}


def problem(kind: str, text: str, status: int | None = None, **more: Any) -> JSONResponse:
    """Return a refusal as an answer."""
    code = HTTP[kind] if status is None else status
    headers = more.pop("headers", None)
    content = {
        "type": "about:blank", "title": TITLES[kind], "status": code, "detail": _one_line(text), "kind": kind, **more,
    }  # fmt: skip
    return JSONResponse(content, code, headers=headers, media_type=PROBLEM)


def install(app: FastAPI) -> None:
    """Let everything that goes wrong in an app be told in this shape."""
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(LongwatchError, _ours)
    app.add_exception_handler(ConnectionError, _gone)
    app.add_exception_handler(Exception, _defect)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    kind = error.kind if error.kind in HTTP else FAILED
    return problem(kind, str(error), nearest=error.nearest)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    why = first["msg"]
    if place == "body" and not _says_json(request):
        # A page in a browser can send a body without saying what it is to any address, and one of JSON only to its own.
        why = "it is not said to be JSON; send the header Content-Type: application/json"
    return problem(USAGE, f"{place}: {why}", WRONG)


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = _KIND_OF.get(error.status_code, USAGE)
    return problem(kind, str(error.detail), error.status_code, headers=error.headers)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    return problem(USAGE, str(error), WRONG) if isinstance(error, UsageError) else problem(FAILED, str(error))


async def _gone(_request: Request, error: Exception) -> JSONResponse:
    return problem(NOT_NOW, str(error))


async def _defect(_request: Request, error: Exception) -> JSONResponse:
    return problem(FAILED, f"a defect of longwatch: {type(error).__name__}: {error}", 500)


def _one_line(text: str) -> str:
    return " ".join(text.split())
