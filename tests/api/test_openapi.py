"""The API against its own document: schemathesis sends what it allows and what it does not, and reads the answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from helpers import ROOT
from longwatch.api.access import Frame
from longwatch.api.app import app_for
from longwatch.api.history import History
from longwatch.api.service import Service
from longwatch.daemon.asking import Caller
from portals import Supervisor

QUICK, LONG = 6, 300


class Direct:
    """Asks a supervisor without a process in between."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def ask(
        self, op: str, args: dict[str, Any], by: Caller, patience: float | None = 20
    ) -> dict[str, Any]:
        # What goes over the wire is JSON, so whatever is none would be found here.
        answer = self._supervisor.ask(op, json.loads(json.dumps(args)), by)
        assert isinstance(answer, dict)
        return answer


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    """Return the application, served from memory."""
    state = tmp_path_factory.mktemp("state")
    folder = state / "daemons" / "x-00000001"
    folder.mkdir(parents=True)
    supervisor = Supervisor()
    log = Path(folder / "alpha.log")
    log.write_text("one\ntwo\n")
    supervisor.harnesses["alpha"]["log"] = str(log)
    return Frame(
        app_for(Service(Direct(supervisor), History(str(state), str(folder)), str(folder))), 36 << 20
    )


@pytest.fixture(scope="module")
def document(app: Frame) -> Any:
    """Return the document as schemathesis reads it; event streams have no end, and tests of their own."""
    return schemathesis.openapi.from_asgi("/v1/openapi.json", app).exclude(path="/v1/events")


LIMITED = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}
VERBS = ("start", "stop", "restart", "send", "resize", "trigger")
GETS = (
    "/v1/harnesses", "/v1/harnesses/{name}", "/v1/harnesses/{name}/log", "/v1/runs", "/v1/runs/{run}", "/v1/runs/{run}/log",
    "/v1/health", "/v1/metrics", "/metrics",
)  # fmt: skip
POSTS = (
    *(f"/v1/harnesses/{{name}}/{verb}" for verb in VERBS), "/v1/reload", "/v1/down", "/v1/notify-test", "/v1/handover",
)  # fmt: skip
ROUTES = [("GET", path) for path in GETS] + [("POST", path) for path in POSTS]
#: They take nothing, so nothing wrong can be sent.
PLAIN = {"/v1/harnesses", "/v1/health", "/v1/metrics", "/metrics", "/v1/notify-test", "/v1/handover"}


def check(document: Any, verb: str, path: str, most: int) -> None:
    """Send what the document allows, and what it does not; every answer has to be one that it tells of."""
    operation = document[path][verb]
    for mode in GenerationMode:
        if mode == GenerationMode.NEGATIVE and path in PLAIN:
            continue

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=most, phases=[Phase.generate], **LIMITED)
        def ask(case: Any) -> None:
            case.call_and_validate()

        ask()


@pytest.mark.parametrize(("verb", "path"), ROUTES)
def test_the_api_keeps_what_its_document_says(document, verb, path):
    """No server error, no other status, type or shape than documented, nothing wrong accepted, nothing right refused."""
    check(document, verb, path, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("verb", "path"), ROUTES)
def test_the_api_keeps_what_its_document_says_at_length(document, verb, path):
    """The same with many more questions."""
    check(document, verb, path, LONG)


def test_the_document_is_openapi_3_1_and_names_every_route(document):
    """Generators of clients read it."""
    assert document.raw_schema["openapi"].startswith("3.1")
    paths = {*GETS, *POSTS, "/v1/events"}
    assert set(document.raw_schema["paths"]) == paths


def test_the_reference_names_every_route():
    """As it is asked for."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    told = set(re.findall(r"`(GET|POST) (/[^`]*)`", page))
    assert told == {*ROUTES, ("GET", "/v1/events")}
