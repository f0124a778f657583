"""The API itself: all routes in one application, whose OpenAPI document says what each takes and gives."""

from fastapi import FastAPI

from longwatch import __version__
from longwatch.api import commands, readings
from longwatch.api.problems import RESPONSES, install
from longwatch.api.service import Service

_PARTS = (
    readings.harnesses, commands.harnesses, commands.daemon, readings.runs_of, readings.events_of, readings.health_of,
)  # fmt: skip


def app_for(service: Service) -> FastAPI:
    """Return the application."""
    app = FastAPI(
        title="longwatch",
        version=__version__,
        summary="Harnesses of one daemon: what they do, and what shall be done with them.",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={status: RESPONSES[status] for status in (401, 403, 409, 422)},
        swagger_ui_oauth2_redirect_url=None,
    )
    install(app)
    for part in _PARTS:
        app.include_router(part(service))
    return app
