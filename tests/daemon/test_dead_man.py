"""The dead man's switch: a sign of life to the outside, for as long as we are well and no longer."""

import http.server
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import helpers
from longwatch.core import daemon_facts as d
from longwatch.daemon.dead_man import CHANNEL, DeadMan
from noticed import MINUTE, SECOND, Stage

URL = "https://hc.example/ping/uuid-uuid-uuid"


class Switch(Stage):
    """A dead man's switch on a stage; `well` is how the loop is."""

    def __init__(self, code: int | None = 0, *, by_hand: bool = False, **told: Any) -> None:
        super().__init__(code, by_hand=by_hand)
        self.well = True
        told = {"dead_man": URL, "dead_man_every": MINUTE, **told}
        self.dead_man = DeadMan(
            told, self.command, self.later, lambda: self.now, lambda: self.well, self.facts.append
        )


@pytest.mark.capability("NEW-14")
def test_a_sign_is_sent_at_once_and_then_at_its_pace_while_we_are_well() -> None:
    """Once at the start and every minute; a loop that is not healthy goes silent, and comes back when it is."""
    switch = Switch()
    switch.sleep(3 * MINUTE)
    assert len(switch.started) == 4
    switch.well = False
    switch.sleep(5 * MINUTE)
    assert len(switch.started) == 4
    switch.well = True
    switch.sleep(1 * MINUTE)
    assert len(switch.started) == 5


def test_the_address_is_no_argument() -> None:
    """Whoever lists processes does not see the address: it is on stdin."""
    (command,) = [switch.started[0] for switch in [Switch()]]
    assert URL not in " ".join(command.argv)
    assert command.options["stdin"] == URL.encode() + b"\n"
    assert "env" not in command.options


def test_one_that_hangs_is_not_joined_by_another() -> None:
    """While a sign is on its way no second one is sent."""
    switch = Switch(by_hand=True)
    switch.sleep(3 * MINUTE)
    assert len(switch.started) == 1
    switch.running[0].end()
    switch.sleep(1 * MINUTE)
    assert len(switch.started) == 2


def test_a_failure_is_told_once() -> None:
    """The first of a row of failures is a fact, and what status shows; a success ends it."""
    switch = Switch(code=1)
    switch.output = "answered\n503\n"
    switch.sleep(2 * MINUTE)
    assert switch.facts == [d.NotifyFailed(switch.facts[0].at, CHANNEL, "answered 503")]
    switch.code = None
    switch.sleep(1 * MINUTE)
    assert switch.dead_man.failing == "took longer than 10s"
    switch.code = 0
    switch.sleep(1 * MINUTE)
    assert switch.dead_man.failing == ""
    assert len(switch.facts) == 1


def test_a_ping_that_cannot_be_started_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and the next one is tried."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(Switch, "command", refuse)
    switch = Switch()
    assert switch.dead_man.failing == "cannot be started: no more processes"


def test_another_address_begins_anew_and_none_ends_it() -> None:
    """A reload that changes nothing sends nothing; another address is told at once; without one there is silence."""
    switch = Switch()
    switch.sleep(10 * SECOND)
    switch.dead_man.reload({"dead_man": URL, "dead_man_every": MINUTE})
    switch.sleep(10 * SECOND)
    assert len(switch.started) == 1
    switch.dead_man.reload({"dead_man": "http://other.example/", "dead_man_every": MINUTE})
    switch.sleep(1 * MINUTE)
    assert [one.options["stdin"] for one in switch.started[1:]] == [b"http://other.example/\n"] * 2
    switch.dead_man.reload({"dead_man": None})
    switch.sleep(10 * MINUTE)
    assert len(switch.started) == 3


def test_the_end_takes_the_ping_along() -> None:
    """After the end nothing is sent, and what was on its way is ended."""
    switch = Switch(by_hand=True)
    command = switch.running[0]
    switch.dead_man.close()
    assert command.cancelled
    switch.sleep(10 * MINUTE)
    assert len(switch.started) == 1


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.capability("NEW-14")
def test_the_ping_itself(address: str) -> None:
    """A real process gets the address: heard, refused, or nobody there, in a line without the address."""
    cases = {
        f"{address}/200": (0, ""),
        f"{address}/503": (1, "answered 503\n"),
        "http://127.0.0.1:1/secret": (1, "not reached: [Errno 111] Connection refused\n"),
        "file:///etc/passwd": (1, "the address is neither http nor https\n"),
        "http://[secret": (1, "not reached: ValueError\n"),
    }
    code = "import io, sys; from longwatch.daemon import ping\nfor url in sys.argv[1:]: sys.stdin = io.StringIO(url); print(ping.main())"
    done = helpers.run_command([sys.executable, "-c", code, *cases])
    assert done.out == "".join(f"{said}{status}\n" for status, said in cases.values())
