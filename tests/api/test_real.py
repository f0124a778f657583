"""The API in front of a real supervisor: it cannot hold that up, and keeps what its document says."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

import helpers
from helpers import wait_until
from longwatch.api.client import Daemon
from longwatch.api.finding import find

TOKEN = "a-token-that-nobody-guesses"
QUIET = """
[harness.quiet]
command = ["sleep", "600"]
stall_timeout = "500ms"
stall_action = "restart"
"""
SEVERAL = """
[web]
listen = "127.0.0.1:%d"
token = "${TOKEN}"
[harness.alpha]
command = ["cat"]
pty = true
[harness.beta]
command = ["sleep", "600"]
[harness.job]
command = ["true"]
[[harness.job.trigger]]
name = "now"
kind = "channel"
"""
HOOKED = """
[web]
webhooks = "127.0.0.1:%d"
[harness.job]
command = ["true"]
[[harness.job.trigger]]
name = "push"
verify = "bearer"
secret = "${TOKEN}"
"""
Start = Callable[[str], Daemon]


@pytest.fixture
def start(tmp_path: Path, state: Path) -> Iterator[Start]:
    """Return what starts a daemon by a file's text; it is brought down at the end, with everything."""
    begun: list[tuple[subprocess.Popen[bytes], Daemon]] = []

    def start_it(text: str) -> Daemon:
        config = tmp_path / "d" / "longwatch.toml"  # a short folder: its name is part of a socket's path
        config.parent.mkdir(exist_ok=True)
        config.write_text(text)
        ready, told = os.pipe()
        words = [
            sys.executable,
            "-P",
            "-m",
            "longwatch.daemon",
            "--config",
            str(config),
            "--ready-fd",
            str(told),
        ]
        process = subprocess.Popen(
            words, pass_fds=[told], start_new_session=True, env={**os.environ, "TOKEN": TOKEN}
        )
        os.close(told)
        with os.fdopen(ready) as line:
            assert '"ready": true' in line.read()
        daemon = find(str(config), str(state))
        daemon._patience = 60
        begun.append((process, daemon))
        return daemon

    yield start_it
    for process, daemon in begun:
        if process.poll() is None:
            daemon.down()
        process.wait(30)


def api_process(daemon: Daemon) -> int:
    """Return the pid of the process that serves the API."""
    supervisor = daemon.health()["pid"]
    (found,) = [
        pid for pid in helpers.descendants(supervisor) if "longwatch.api.server" in helpers.command_line(pid)
    ]
    return found


def named(daemon: Daemon, name: str) -> dict[str, Any]:
    return next(each for each in daemon.status()["harnesses"] if each["name"] == name)


@pytest.mark.fault("P3")
@pytest.mark.slow
def test_a_stopped_api_does_not_delay_the_handling_of_a_stall(start: Start, state: Path):
    """With clients waiting in front of it: the silent harness is found, stopped and started again meanwhile."""
    daemon = start(QUIET)
    first = named(daemon, "quiet")["pid"]
    api = api_process(daemon)
    os.kill(api, signal.SIGSTOP)
    answered: list[Any] = []
    clients = [threading.Thread(target=lambda: answered.append(daemon.status())) for _ in range(4)]
    try:
        for client in clients:
            client.start()
        wait_until(lambda: not os.path.exists(f"/proc/{first}"), 30)
    finally:
        os.kill(api, signal.SIGCONT)
    for client in clients:
        client.join(30)
    assert len(answered) == 4
    events = daemon.events(since=0)
    assert next(event for event in events if event["event"] == "stalled")["harness"] == "quiet"
    assert api_process(daemon) == api
    events.close()


@pytest.mark.fault("A3")
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_nobody_is_cut_off_by_a_limit_that_no_policy_has(start: Start):
    """Longer than any of our own pauses: a follower hears nothing, another polls, a third waits for a stop."""
    daemon = start(SEVERAL % free_port())
    follower = daemon.events()
    heard: list[Any] = []
    thread = threading.Thread(
        target=lambda: heard.append(next(event for event in follower if event.get("harness") == "beta"))
    )
    thread.start()
    pid = named(daemon, "beta")["pid"]
    end = time.monotonic() + 100
    while time.monotonic() < end:
        assert named(daemon, "beta")["pid"] == pid
        time.sleep(1)
    assert heard == []
    daemon.restart("beta")
    thread.join(30)
    assert heard[0]["harness"] == "beta"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.capability("CAP-121")
def test_a_delivery_that_is_sent_again_after_a_crash_fires_nothing(start: Start):
    """Whoever was told that a delivery is taken in is told so by the next daemon too, and there is one run of it."""
    port = free_port()
    daemon = start(HOOKED % port)
    assert send(port, "d-1") == (202, False)
    killed = daemon.health()["pid"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not helpers.alive(killed))
    daemon = start(HOOKED % port)
    assert send(port, "d-1") == (200, True)
    assert send(port, "d-2") == (202, False)
    wait_until(lambda: len(daemon.runs(harness="job")["runs"]) == 2)


def send(port: int, delivery: str) -> tuple[int, bool]:
    """Send a webhook; return its answer's status, and whether it was taken in before."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/hooks/job/push",
        b"{}",
        {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": delivery},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, json.loads(answer.read()).get("duplicate", False)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_real_daemon_keeps_what_its_document_says(start: Start):
    """By its port, with its token: every route but those that end it."""
    port = free_port()
    daemon = start(SEVERAL % port)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/v1/openapi.json", headers=headers)
    supervisor = daemon.health()["pid"]
    for path, methods in document.raw_schema["paths"].items():
        if path in ("/v1/events", "/v1/down", "/v1/handover"):
            continue
        for verb in methods:
            operation = document[path][verb.upper()]
            for mode in modes(operation):
                check(operation, mode, headers)
    assert daemon.health() == {**daemon.health(), "ok": True, "pid": supervisor}


def check(operation: Any, mode: Any, headers: dict[str, str]) -> None:
    """Send what the document allows, or what it does not, and have each answer looked at."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=40,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        # Else nearly all names are of nothing.
        if "name" in (case.path_parameters or {}) and mode == GenerationMode.POSITIVE:
            case.path_parameters["name"] = "alpha"
        case.call_and_validate(headers=headers)

    ask()


def modes(operation: Any) -> list[Any]:
    """Return what can be sent: where nothing is taken, nothing can be wrong."""
    takes = operation.path_parameters or operation.query or operation.body
    return list(GenerationMode) if takes else [GenerationMode.POSITIVE]
