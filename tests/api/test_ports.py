"""What comes in by a port: who is let in, and what a webhook's answer is."""

import asyncio
import hashlib
import hmac
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from longwatch.api import access, hooks, serving
from longwatch.api.access import Door, Frame
from longwatch.api.app import app_for
from longwatch.api.bridge import Bridge
from longwatch.api.history import History
from longwatch.api.hooks import Hooks, hooks_for
from longwatch.api.service import Service
from longwatch.api.streaming import WAITING, Page, Reader, Readers
from longwatch.daemon.asking import HOOK, NO_SUCH, NOT_NOW, Caller, Refusal
from longwatch.daemon.payloads import folder_of
from portals import Supervisor

TOKEN = "let me \u00e4in"
SECRET = "s3cret"
BODY = b'{"ref": "main"}'


class Direct:
    """Asks a supervisor without a process in between."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor

    async def ask(
        self, op: str, args: dict[str, Any], by: Caller, patience: float | None = 20
    ) -> dict[str, Any]:
        answer = self.supervisor.ask(op, args, by)
        assert isinstance(answer, dict)
        return answer


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor()


@pytest.fixture
def service(supervisor: Supervisor, tmp_path: Path) -> Service:
    return Service(Direct(supervisor), History(str(tmp_path), str(tmp_path / "d")), str(tmp_path / "d"))


@pytest.fixture
def web(service: Service) -> TestClient:
    """Return a browser on this machine, in front of the door."""
    door = Door(
        Frame(app_for(service), 1000), token=TOKEN, listen="127.0.0.1:7180", origins=["https://mine.example"]
    )
    return TestClient(door, base_url="http://127.0.0.1:7180", raise_server_exceptions=False)


GOOD = {"Authorization": f"Bearer {TOKEN}".encode()}
HEADS = [
    ({}, 401),
    ({"Authorization": "Bearer let me in"}, 401),
    ({"Authorization": "Bearer "}, 401),
    ({"Authorization": b"Basic " + TOKEN.encode()}, 401),
    (GOOD, 200),
    ({**GOOD, "Host": "localhost:7180"}, 200),
    ({**GOOD, "Host": "[::1]:7180"}, 200),
    ({**GOOD, "Host": "evil.example:7180"}, 403),
    ({**GOOD, "Host": "127.0.0.1"}, 403),
    ({**GOOD, "Host": "127.0.0.1:80"}, 403),
    ({**GOOD, "Origin": "http://127.0.0.1:7180"}, 200),
    ({**GOOD, "Origin": "https://mine.example"}, 200),
    ({**GOOD, "Origin": "https://evil.example"}, 403),
    ({**GOOD, "Origin": "null"}, 403),
    ({**GOOD, "Origin": ""}, 403),
]


@pytest.mark.fault("O4")
@pytest.mark.capability("CAP-130")
@pytest.mark.parametrize(("headers", "status"), HEADS)
@pytest.mark.parametrize("path", ["/v1/harnesses", "/metrics"])
def test_a_port_lets_in_who_has_the_token_and_is_no_foreign_page(web: TestClient, headers, status, path):
    """Neither a name that was made to lead here nor a page of another site gets further than the door."""
    answer = web.get(path, headers=headers)
    assert answer.status_code == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert "\n" not in answer.json()["detail"]
        assert TOKEN not in answer.text


def test_by_a_port_nobody_is_a_process(web: TestClient, supervisor: Supervisor):
    """The supervisor is told that the question came by a port, and no pid."""
    web.get("/v1/harnesses", headers=GOOD)
    assert supervisor.asked[0][2] == Caller(None, None, "tcp")


def test_tokens_are_compared_in_constant_time(web: TestClient, monkeypatch):
    """By the function that is made for it, and by no other."""
    compared: list = []
    monkeypatch.setattr(access.hmac, "compare_digest", lambda *pair: compared.append(pair) or False)
    assert web.get("/v1/harnesses", headers=GOOD).status_code == 401
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


def test_a_body_has_a_bound(web: TestClient, supervisor: Supervisor):
    """Said beforehand it is 413; where it is not said it is cut off. The supervisor hears nothing of either."""
    big = b'{"data": "' + b"A" * 2000 + b'"}'
    assert web.post("/v1/harnesses/alpha/send", content=big, headers=GOOD).status_code == 413
    assert web.post("/v1/harnesses/alpha/send", content=iter([big]), headers=GOOD).status_code == 400
    assert supervisor.asked == []


@pytest.mark.parametrize("kind", [{}, {"Content-Type": "text/plain"}])
def test_a_body_says_that_it_is_json(web: TestClient, supervisor: Supervisor, kind):
    """One that does not is refused: so a foreign page cannot send it. The answer says what is missing."""
    told = web.post("/v1/harnesses/alpha/send", content=b'{"data": "QQ=="}', headers={**GOOD, **kind})
    assert told.status_code == 422
    assert told.json()["detail"] == (
        "body: it is not said to be JSON; send the header Content-Type: application/json"
    )
    wrong = web.post("/v1/harnesses/alpha/send", json=["QQ=="], headers=GOOD)
    assert (wrong.status_code, "Content-Type" in wrong.text) == (422, False)
    assert supervisor.asked == []


def test_an_unforeseen_error_is_one_line(web: TestClient, service: Service, monkeypatch):
    """A defect of ours is 500, in the shape of every refusal."""
    monkeypatch.setattr(service, "ask", lambda *_args, **_more: 1 / 0)
    answer = web.get("/v1/harnesses", headers=GOOD)
    assert (answer.status_code, answer.json()["detail"]) == (
        500,
        "a defect of longwatch: ZeroDivisionError: division by zero",
    )


def test_health_tells_what_the_supervisor_complains_of(web: TestClient, supervisor: Supervisor):
    """And that it does not answer."""
    supervisor.instead["ping"] = lambda _: {"problems": ["the ledger cannot be written"]}
    assert web.get("/v1/health", headers=GOOD).json() == {
        "ok": False,
        "problems": ["the ledger cannot be written"],
    }
    supervisor.instead["ping"] = supervisor.refuse
    answer = web.get("/v1/health", headers=GOOD)
    assert (answer.status_code, answer.json()["ok"]) == (503, False)


def test_metrics_say_that_the_supervisor_did_not_answer(web: TestClient, supervisor: Supervisor):
    """A scrape never fails for it: the alert needs the number."""
    supervisor.instead["metrics"] = supervisor.refuse
    web.get("/metrics", headers=GOOD)
    text = web.get("/v1/metrics", headers=GOOD).text
    assert "longwatch_supervisor_up 0.0" in text
    assert "longwatch_metrics_collection_errors_total 2.0" in text


def test_only_we_and_root_use_the_private_socket(monkeypatch):
    """Another user who got hold of it is hung up on."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [serving.allowed(user) for user in (0, 1000, 1001, 65534)] == [True, True, False, False]


def test_another_user_is_hung_up_on(tmp_path: Path, monkeypatch):
    """Before a byte of the request is read."""
    served: list = []

    async def app(scope, _receive, _send) -> None:
        served.append(scope["client"])

    async def play(path: str) -> bytes:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listening = serving.Listening(listener.detach(), app, private=True)
        await listening.open()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
            listening.close()

    assert b"HTTP/1.1" in asyncio.run(play(str(tmp_path / "1")))
    assert served == [(f"unix:{os.geteuid()}", os.getpid())]
    monkeypatch.setattr(serving, "allowed", lambda user: user == os.geteuid() + 1)
    assert asyncio.run(play(str(tmp_path / "2"))) == b""
    assert len(served) == 1


# Webhooks

TRIGGERS = [
    {
        "harness": "alpha",
        "trigger": "push",
        "verify": "github",
        "secret": SECRET,
        "max_body": 1000,
        "rate": 3,
    },
    {"harness": "alpha", "trigger": "any", "verify": "bearer", "secret": SECRET},
]


@pytest.fixture
def hook(supervisor: Supervisor, tmp_path: Path) -> TestClient:
    """Return a sender of webhooks."""
    return TestClient(
        hooks_for(Hooks(Direct(supervisor), str(tmp_path / "d"), TRIGGERS)), raise_server_exceptions=False
    )


def signed(body: bytes = BODY, **more: str) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={digest}",
        "X-GitHub-Delivery": "d1",
        "X-GitHub-Event": "push",
        **more,
    }


@pytest.mark.capability("CAP-121")
def test_a_good_webhook_fires_and_its_payload_is_a_private_file(hook: TestClient, supervisor: Supervisor):
    """The supervisor gets the path, the delivery and nothing else of the request; no secret is in the file."""
    answer = hook.post("/hooks/alpha/push", content=BODY, headers=signed(Authorization="Bearer other"))
    assert (answer.status_code, answer.json()) == (202, {"run": "alpha-abc124", "queued": False})
    ((op, args, by),) = supervisor.asked
    path = Path(args.pop("payload_file"))
    assert (op, by) == ("trigger", Caller(via=HOOK))
    assert args == {"name": "alpha", "trigger": "push", "source": "webhook", "delivery": "d1", "wait": False}
    assert path.stat().st_mode & 0o777 == 0o600
    told = json.loads(path.read_text())
    assert (told["payload"], told["event"], told["delivery"]) == ({"ref": "main"}, "push", "d1")
    assert "other" not in path.read_text()
    assert signed()["X-Hub-Signature-256"] not in path.read_text()


@pytest.mark.fault("O4")
@pytest.mark.capability("CAP-121")
@pytest.mark.parametrize(
    ("verb", "path", "body", "headers", "status"),
    [
        ("POST", "/hooks/alpha/push", BODY, {}, 401),
        ("POST", "/hooks/alpha/push", BODY + b" ", signed(), 401),
        ("POST", "/hooks/alpha/any", BODY, {"Authorization": "Bearer wrong"}, 401),
        ("POST", "/hooks/alpha/nothing", BODY, signed(), 404),
        ("POST", "/hooks/beta/push", BODY, signed(), 404),
        ("POST", "/elsewhere", BODY, signed(), 404),
        ("GET", "/hooks/alpha/push", None, {}, 405),
        ("PUT", "/hooks/alpha/push", BODY, signed(), 405),
        ("POST", "/hooks/alpha/push", b"x" * 1001, signed(b"x" * 1001), 413),
        ("POST", "/hooks/alpha/push", [b"x" * 600] * 2, signed(b"x" * 1200), 413),
    ],
)
def test_any_other_request_is_refused_and_nothing_is_kept(
    hook, supervisor, tmp_path, verb, path, body, headers, status
):
    """The supervisor hears nothing of it, and no file is made."""
    content = iter(body) if isinstance(body, list) else body
    answer = hook.request(verb, path, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert SECRET not in answer.text
    assert supervisor.asked == []
    assert not os.path.exists(folder_of(str(tmp_path / "d")))


@pytest.mark.capability("CAP-121")
def test_more_than_so_many_a_minute_wait_and_bad_ones_use_up_nothing(
    hook: TestClient, supervisor: Supervisor
):
    """Whoever has no secret cannot keep those out who have it."""
    for _ in range(10):
        assert hook.post("/hooks/alpha/push", content=BODY).status_code == 401
    codes = [hook.post("/hooks/alpha/push", content=BODY, headers=signed()).status_code for _ in range(4)]
    assert codes == [202, 202, 202, 429]
    late = hook.post("/hooks/alpha/push", content=BODY, headers=signed())
    assert 50 <= int(late.headers["retry-after"]) <= 61
    assert len(supervisor.asked) == 3


@pytest.mark.parametrize(
    ("instead", "status", "answer"),
    [
        (lambda _: {"duplicate": True}, 200, {"run": None, "duplicate": True}),
        (Supervisor().refuse, 200, {"run": None, "skipped": "it is held: hours until 08:00"}),
    ],
)
def test_what_is_decided_is_told_as_done_and_its_payload_goes(
    hook, supervisor, tmp_path, instead, status, answer
):
    """A sender that tries again would change nothing: a delivery that was seen, one that is skipped."""
    supervisor.instead["trigger"] = instead
    got = hook.post("/hooks/alpha/push", content=BODY, headers=signed())
    assert (got.status_code, got.json()) == (status, answer)
    assert os.listdir(folder_of(str(tmp_path / "d"))) == []


def test_a_harness_that_is_gone_is_not_found(hook: TestClient, supervisor: Supervisor):
    """The file was changed meanwhile; the sender is told no more than that."""
    supervisor.harnesses.clear()
    got = hook.post("/hooks/alpha/push", content=BODY, headers=signed())
    assert (got.status_code, got.json()["kind"]) == (404, NO_SUCH)


def test_a_body_that_does_not_come_is_not_waited_for(supervisor: Supervisor, tmp_path: Path, monkeypatch):
    """Who holds a connection open gets an end."""
    monkeypatch.setattr(hooks, "PATIENCE", 0.01)
    app = hooks_for(Hooks(Direct(supervisor), str(tmp_path), TRIGGERS))
    said: list = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message) -> None:
        said.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/hooks/alpha/push", "headers": [], "query_string": b"", "root_path": "",
        "scheme": "http", "server": ("x", 1), "client": ("y", 2), "http_version": "1.1", "app": app,
    }  # fmt: skip
    asyncio.run(app(scope, never, send))
    assert said[0]["status"] == 408


# Event streams


def page(*seqs: int, dropped: int = 0, renewed: bool = False) -> Page:
    return Page([{"seq": seq, "event": "e"} for seq in seqs], max(seqs, default=0), dropped, renewed)


async def told(readers: Readers, replay, since: int, more=()) -> list[str]:
    stream = readers.follow(since, frozenset(), replay, follow=bool(more))
    found = []
    async for text in stream:
        found.append(text)
        if text == f"id: {since}\n\n":
            for message in more:
                readers.told(message)
        if more and '"last"' in text:
            break
    await stream.aclose()
    assert len(readers) == 0
    return [text for text in found if text]


def test_an_event_is_in_the_ledger_or_told_live_and_never_both():
    """What happens while the ledger is read is in both; its number says so."""
    pages = [page(2, 3), page(4), Page([], 4)]
    live = [{"fact": {"event": "e"}, "seq": seq} for seq in (3, 4, 5)] + [
        {"fact": {"event": "last"}, "seq": None}
    ]
    found = asyncio.run(told(Readers(), lambda _: pages.pop(0), 1, live))
    assert [text.split("\n")[0] for text in found] == [
        "id: 1",
        "id: 2",
        "id: 3",
        "id: 4",
        "id: 5",
        "event: last",
    ]


def test_what_is_lost_is_told():
    """Kept no more, or not taken by the API: a number each time. A new ledger is said, too: its numbers begin anew."""
    pages = [page(8, dropped=5, renewed=True), Page([], 8)]
    found = asyncio.run(told(Readers(), lambda _: pages.pop(0), 100))
    assert found[1:3] == [
        'id: 0\n\nevent: renewed\ndata: {"event": "renewed"}\n\n',
        'event: dropped\ndata: {"event": "dropped", "count": 5}\n\n',
    ]
    assert found[3].startswith("id: 8\n")
    live = [{"dropped": 3}, {"fact": {"event": "last"}, "seq": None}, {"dropped": None}]
    found = asyncio.run(told(Readers(), lambda last: Page([], last), 1, live))
    assert found[1:] == ['event: last\ndata: {"event": "last"}\n\n']


def test_a_reader_gets_only_what_it_wants_and_is_bounded():
    """Of some harnesses; a slow one loses what it does not take, and is told how much after what it got."""

    async def play() -> list[str]:
        reader = Reader(frozenset({"alpha"}))
        assert not await reader.wait(0.001)
        reader.put({"event": "e", "harness": "beta"}, 1)
        for seq in range(WAITING + 7):
            reader.put({"event": "e\n\rdata: x", "harness": "alpha"}, seq)
        assert await reader.wait(1)
        return reader.take(0)

    found = asyncio.run(play())
    assert len(found) == WAITING
    assert json.loads(found[-1].split("data: ")[1]) == {"event": "dropped", "count": 7}
    assert found[0].split("\n")[1] == "event: edata: x"


# The bridge


def test_a_question_that_is_not_answered_is_given_up_and_taken_back():
    """And when the supervisor hangs up, everybody who waits is told."""

    async def play() -> list:
        ours, theirs = socket.socketpair()
        theirs.sendall(b'{"hello": {"a": 1}}\n{"ping": 4}\n{"fact": {}, "seq": 1}\n{"id": 99, "ok": {}}\n')
        heard: list = []
        bridge = Bridge(heard.append)
        assert await bridge.connect(ours.detach()) == {"a": 1}
        running = asyncio.ensure_future(bridge.run())
        with pytest.raises(Refusal, match="does not answer"):
            await bridge.ask("x", {}, Caller(), 0.01)
        waiting = asyncio.ensure_future(bridge.ask("y", {}, Caller(), None))
        await asyncio.sleep(0)
        said = theirs.recv(65536)
        theirs.close()
        with pytest.raises(Refusal, match="has ended") as ended:
            await waiting
        assert ended.value.kind == NOT_NOW
        await running
        assert heard == [{"fact": {}, "seq": 1}]
        return [json.loads(line) for line in said.splitlines()]

    started = time.monotonic()
    said = asyncio.run(play())
    assert time.monotonic() - started < 10
    assert {"pong": 4} in said
    assert {"cancel": 1} in said
    assert next(message["op"] for message in said if "op" in message) == "x"
