"""Channels as real processes: the hook's limit and leftovers, apprise, and a supervisor that is never held up."""

import http.server
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.core.redact import Redactor
from longwatch.notify import incidents
from longwatch.notify.desk import Desk, desk_for
from longwatch.runtime.host import Host
from noticed import failed, recovered


class Loop:
    """A supervisor that has nothing but a desk."""

    def __init__(self) -> None:
        self.host = Host()
        self.facts: list[Fact] = []

    def desk(self, config: str = "", **told: Any) -> Desk:
        return desk_for(
            {"timeout": 10_000, **told}, self.host, self.facts.append, redactor=Redactor(["hunter2hunter2"]),
            config=config,
        )  # fmt: skip

    def until(self, predicate: Any, deadline: float = 10.0) -> None:
        end = time.monotonic() + deadline
        while not predicate():
            assert time.monotonic() < end, "it did not come true"
            self.host.turn(20)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    monkeypatch.setattr(incidents, "QUIET", 10)
    before = helpers.descriptors()
    loop = Loop()
    yield loop
    loop.host.close()
    assert helpers.descriptors() <= before


def script(folder: Path, text: str) -> list[str]:
    """Return the argv of a shell script of the user's."""
    path = folder / "hook"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return [str(path), "an argument; with $(shell) in it"]


def hook(desk: Desk) -> dict[str, Any]:
    """Return what status says of the hook."""
    found: dict[str, Any] = desk.snapshot()["channels"][0]
    return found


@pytest.mark.parametrize("place", ["pro $(ject)", "gone"])
def test_the_hook_runs_beside_the_file_that_names_it(loop: Loop, tmp_path: Path, place: str) -> None:
    """A relative path in it means what it means in the file; where that folder is gone the notice goes out all the same."""
    (tmp_path / "pro $(ject)").mkdir()
    argv = script(tmp_path, f'{{ pwd; echo "$1"; }} >{tmp_path}/said')
    desk = loop.desk(str(tmp_path / place / "longwatch.toml"), hook=argv)
    desk.heard(failed())
    loop.until(lambda: hook(desk)["result"])
    # A daemon itself is in `/`.
    folder = os.getcwd() if place == "gone" else str(tmp_path / place)
    assert hook(desk)["result"] == "ok"
    assert (tmp_path / "said").read_text().splitlines() == [folder, argv[1]]


@pytest.mark.capability("CAP-128")
def test_the_hook_reads_the_notice_and_no_shell_reads_its_words(loop: Loop, tmp_path: Path) -> None:
    """A real command finds JSON on stdin, its words as they are in the file, and the variables."""
    argv = script(
        tmp_path, f'cat >{tmp_path}/in; echo "$1|$LONGWATCH_EVENT|$LONGWATCH_HARNESS" >{tmp_path}/said'
    )
    desk = loop.desk(hook=argv)
    desk.heard(failed())
    loop.until(lambda: hook(desk)["result"])
    assert hook(desk)["result"] == "ok"
    told = json.loads((tmp_path / "in").read_text())
    assert (told["version"], told["event"], told["harness"]) == (1, "failed", "w")
    assert (tmp_path / "said").read_text() == "an argument; with $(shell) in it|failed|w\n"


@pytest.mark.capability("CAP-128")
@pytest.mark.fault("P3")
def test_a_slow_hook_is_ended_with_its_tree_and_holds_nothing_up(loop: Loop, tmp_path: Path) -> None:
    """A hook that sleeps is stopped at its limit with what it started, in other sessions too; the next one runs meanwhile."""
    mark = f"HELD={os.urandom(8).hex()}"
    argv = script(
        tmp_path,
        f'[ "$LONGWATCH_HARNESS" = quick ] && exit 0\nexport {mark}\nsetsid sleep 600 &\necho on\nsleep 600',
    )
    desk = loop.desk(hook=argv, timeout=1_000)
    began = loop.host.now()
    desk.heard(failed("slow"))
    loop.until(lambda: helpers.processes_with(mark))
    desk.heard(failed("quick"))
    loop.until(lambda: hook(desk)["result"] == "ok")
    assert loop.host.now() - began < 1_000
    loop.until(lambda: hook(desk)["result"] == "timeout")
    assert hook(desk)["error"] == "took longer than 1s and was stopped; it said: on"
    assert not helpers.processes_with(mark)


def test_the_end_of_the_daemon_ends_a_hook_that_hangs(loop: Loop, tmp_path: Path) -> None:
    """A hook that still runs after the bound of the end is killed with what it started."""
    mark = f"HELD={os.urandom(8).hex()}"
    desk = loop.desk(hook=script(tmp_path, f"export {mark}; setsid sleep 600 & sleep 600"))
    ended: list[bool] = []
    desk.heard(failed())
    loop.until(lambda: helpers.processes_with(mark))
    desk.close(lambda: ended.append(True), bound=50)
    loop.until(lambda: ended)
    assert not helpers.processes_with(mark)


@pytest.mark.fault("P3")
def test_a_leftover_that_holds_the_output_does_not_hold_the_hook(loop: Loop, tmp_path: Path) -> None:
    """A hook is done when it exits; a sleeper on its output is gone then."""
    mark = f"HELD={os.urandom(8).hex()}"
    desk = loop.desk(hook=script(tmp_path, f"export {mark}; sleep 60 & exit 0"))
    desk.heard(failed())
    loop.until(lambda: hook(desk)["result"] == "ok", deadline=8)
    assert not helpers.processes_with(mark)


class Server(http.server.BaseHTTPRequestHandler):
    """Remembers what it was posted."""

    posts: list[Any]
    answer = 200

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posts.append((self.path, json.loads(self.rfile.read(length))))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[tuple[type[Server], str]]:
    handler = type("Handler", (Server,), {"posts": [], "answer": 200})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield handler, f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.fault("O4")
def test_apprise_sends_and_its_failure_holds_no_address(loop: Loop, server: tuple[type[Server], str]) -> None:
    """A notice arrives by apprise; when it does not, status says why without any part of the address."""
    pytest.importorskip("apprise")
    handler, address = server
    desk = loop.desk(urls=[f"json://user:topsecretword@{address}/hunter9hunter9"])
    desk.heard(failed())
    loop.until(lambda: hook(desk)["result"])
    assert hook(desk)["result"] == "ok"
    (path, body) = handler.posts[0]
    assert path == "/hunter9hunter9"
    assert body["title"].startswith("w failed (")
    assert body["type"] == "failure"
    handler.answer = 500
    desk.heard(recovered())
    loop.until(lambda: hook(desk)["result"] == "error")
    assert hook(desk)["error"].startswith("json: ")
    assert "500" in hook(desk)["error"]
    for secret in ("topsecretword", "hunter9", address):
        assert secret not in json.dumps(desk.snapshot())


@pytest.mark.parametrize(
    ("url", "hide", "status", "said"),
    [
        ("nosuch://token-token", "", 2, "nosuch: no service of apprise has an address of this form\n"),
        ("json://localhost", "apprise", 3, "apprise is not installed\n"),
        (
            "json://localhost:1/x",
            "",
            1,
            "json: A Connection error occurred sending JSON notification to [redacted].\n",
        ),
    ],
)
def test_what_apprise_cannot_do(url: str, hide: str, status: int, said: str) -> None:
    """An address of no service, and a missing package, end with a status and a line of their own."""
    told = json.dumps({"url": url, "title": "t", "body": "b", "kind": "info"})
    code = f"import sys; sys.modules.update({{{hide!r}: None}}); from longwatch.notify import by_apprise; sys.exit(by_apprise.main())"
    done = helpers.run_command([sys.executable, "-c", code], input=told)
    assert (done.code, done.out) == (status, said)


def test_the_desk_loads_nothing_heavy() -> None:
    """The supervisor imports the desk: no library of notices, no web, no sockets come with it."""
    code = "import sys, longwatch.notify.desk, longwatch.daemon.systemd, longwatch.daemon.dead_man; print(*sys.modules)"
    loaded = set(helpers.run_command([sys.executable, "-c", code], measured=False).out.split())
    assert not loaded & {
        "apprise",
        "asyncio",
        "socket",
        "re",
        "typing",
        "json",
        "urllib.request",
        "http.client",
        "logging",
    }


def test_a_fact_of_a_run_is_no_harnesss() -> None:
    """Facts without a harness that are not the daemon's are passed over."""
    loop = Loop()
    desk = loop.desk(hook=["/bin/true"])
    desk.heard(f.Adopted(0, "w", "w-1"))
    desk.heard(Fact())
    assert desk.snapshot()["queued"] == 0
    loop.host.close()
