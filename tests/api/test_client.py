"""Verbs and a daemon: what is asked, what comes back, and how each failure is told."""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import ROOT, run_command, wait_until
from longwatch import paths
from longwatch.api import client as client_module
from longwatch.api import following
from longwatch.api.client import (
    Daemon,
    DaemonError,
    HungUpError,
    NoAnswerError,
    NoDaemonError,
    NoSuchHarnessError,
    NotNowError,
    OtherVersionError,
    RefusedError,
    WrongWordsError,
)
from longwatch.api.finding import find, running
from longwatch.daemon.asking import REFUSED, UNIX, Caller, Refusal
from longwatch.posix.identity import identity
from longwatch.store.writer import LedgerWriter
from portals import House, Supervisor

pytestmark = pytest.mark.capability("CAP-131")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Return an open portal."""
    found = House(tmp_path_factory.mktemp("house"), Supervisor())
    yield found
    found.close()


@pytest.fixture
def daemon(house: House) -> Daemon:
    house.supervisor.asked.clear()
    return house.daemon()


CALLS = [
    (lambda d: d.status(), "status", {}),
    (lambda d: d.describe("alpha"), "describe", {"name": "alpha"}),
    (lambda d: d.start("alpha"), "start", {"name": "alpha"}),
    (lambda d: d.stop("alpha"), "stop", {"name": "alpha"}),
    (lambda d: d.stop("alpha", 0), "stop", {"name": "alpha", "kill_after_ms": 0}),
    (lambda d: d.restart("alpha", 500), "restart", {"name": "alpha", "kill_after_ms": 500}),
    (
        lambda d: d.send("alpha", b"\xff\n", newline=True),
        "send",
        {"name": "alpha", "data": "/wo=", "newline": True},
    ),
    (lambda d: d.resize("alpha", 24, 80), "resize", {"name": "alpha", "rows": 24, "cols": 80}),
    (
        lambda d: d.reload(dry_run=True, prune=True),
        "reload",
        {"dry_run": True, "restart": False, "prune": True},
    ),
    (lambda d: d.down(keep=True), "down", {"keep": True}),
    (lambda d: d.handover(), "handover", {}),
    (lambda d: d.notify_test(), "notify_test", {}),
    (lambda d: d.health(), "ping", {}),
]


@pytest.mark.parametrize(("call", "op", "args"), CALLS)
def test_each_verb_is_one_question(house: House, daemon: Daemon, call, op, args):
    """The supervisor is asked just that, with who asks as the kernel tells it; its answer comes back as it is."""
    answer = call(daemon)
    asked = Caller(os.getpid(), os.geteuid(), UNIX)
    assert house.supervisor.asked == [(op, args, asked)]
    if op != "ping":
        assert answer == getattr(house.supervisor, f"_{op}")(args)


@pytest.mark.capability("CAP-121")
@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        (b'{"a": [1]}', {"payload": {"a": [1]}}),
        (b"\xff", {"base64": "/w=="}),
        (b"null", {"payload": None}),
        (b"a\n", {"payload": "a\n"}),
    ],
)
def test_what_a_trigger_brings_is_a_private_file(house: House, daemon: Daemon, payload, kept):
    """The supervisor is told its path alone."""
    daemon.trigger("alpha", "push", payload)
    ((op, args, _),) = house.supervisor.asked
    assert op == "trigger"
    path = Path(args.pop("payload_file"))
    assert args == {"name": "alpha", "trigger": "push", "source": "cli", "delivery": None, "wait": False}
    assert path.stat().st_mode & 0o777 == 0o600
    told = json.loads(path.read_text())
    assert {key: told[key] for key in kept} == kept
    assert (told["harness"], told["trigger"], told["source"]) == ("alpha", "push", "cli")


def test_a_trigger_that_brings_nothing_makes_no_file(house: House, daemon: Daemon):
    """Most of them."""
    assert daemon.trigger("alpha", wait=True)["run"] == "alpha-abc124"
    assert house.supervisor.asked[0][1]["payload_file"] is None
    assert house.supervisor.asked[0][1]["wait"] is True


@pytest.mark.capability("CAP-121")
def test_what_a_refused_trigger_brought_goes(house: House, daemon: Daemon):
    """No run will read it."""
    house.supervisor.instead["trigger"] = house.supervisor.refuse
    with pytest.raises(NotNowError):
        daemon.trigger("alpha", "push", b"{}")
    del house.supervisor.instead["trigger"]
    assert not os.path.exists(house.supervisor.asked[0][1]["payload_file"])


FAILURES = [
    (lambda s: None, lambda d: d.start("alpa"), NoSuchHarnessError, 4, "no harness alpa; did you mean alpha?"),
    (lambda s: {"stop": s.refuse}, lambda d: d.stop("alpha"), NotNowError, 75, "it is held: hours until 08:00"),
    (lambda s: {"stop": inside}, lambda d: d.stop("alpha"), RefusedError, 1, "from inside alpha only that run may be stopped"),
    (lambda s: {"stop": lambda _: 1 / 0}, lambda d: d.stop("alpha"), DaemonError, 1, "a defect of longwatch: ZeroDivisionError: division by zero"),
    (lambda s: None, lambda d: d.resize("alpha", 0, 80), WrongWordsError, 2, "rows: Input should be greater than or equal to 1"),
    (lambda s: None, lambda d: d.runs(outcome=["sucess"]), WrongWordsError, 2, None),
    (lambda s: None, lambda d: d.run("never-abc123"), NoSuchHarnessError, 4, "no run never-abc123"),
    (lambda s: None, lambda d: d.start(""), NoSuchHarnessError, 4, "no harness ''"),
    (lambda s: None, lambda d: d.start("x/../y"), NoSuchHarnessError, 4, None),
    (lambda s: None, lambda d: d.log("alpha"), NoSuchHarnessError, 4, "no log is there yet: No such file or directory"),
]  # fmt: skip


def inside(_args):
    raise Refusal(REFUSED, "from inside alpha only that run\nmay be stopped")


@pytest.mark.parametrize(("instead", "call", "error", "status", "text"), FAILURES)
def test_each_failure_is_one_line_and_a_status(
    house: House, daemon: Daemon, instead, call, error, status, text
):
    """The line is fit to be printed; the status is what the verb ends with."""
    house.supervisor.instead = instead(house.supervisor) or {}
    try:
        with pytest.raises(error) as failed:
            call(daemon)
    finally:
        house.supervisor.instead = {}
    assert failed.value.status == status
    assert "\n" not in str(failed.value)
    if text is not None:
        assert str(failed.value) == text


def test_a_name_that_is_nearly_right_is_offered(daemon: Daemon):
    """As a value, too, for completion."""
    with pytest.raises(NoSuchHarnessError) as failed:
        daemon.describe("alpa")
    assert failed.value.nearest == "alpha"


def test_an_unknown_outcome_names_the_valid_ones(daemon: Daemon):
    """As the verb does without a daemon."""
    with pytest.raises(WrongWordsError, match=r"sucess.*success"):
        daemon.runs(outcome=["sucess"])


def test_more_than_a_terminal_takes_is_refused(daemon: Daemon):
    """At a time; whoever pastes more has to cut it."""
    with pytest.raises(WrongWordsError, match="at a time"):
        daemon.send("alpha", b"x" * (1 << 20))


# Logs and runs


def test_a_log_is_read_by_its_lines_or_on_from_where_it_was(house: House, daemon: Daemon, tmp_path: Path):
    """The answer says where to go on; beyond the end it begins anew, for then the log was rotated."""
    log = tmp_path / "alpha.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)) + b"\xffhalf")
    house.supervisor.harnesses["alpha"]["log"] = str(log)
    assert daemon.log("alpha", 3) == b"line 19998\nline 19999\n\xffhalf"
    assert daemon.log("alpha", 0) == b""
    assert daemon.log("alpha").count(b"\n") == 199
    answer, headers = raw(daemon, "/v1/harnesses/alpha/log?offset=7&limit=7")
    assert (answer, headers["longwatch-offset"], headers["longwatch-size"]) == (
        b"line 1\n",
        "14",
        str(log.stat().st_size),
    )
    answer, headers = raw(daemon, f"/v1/harnesses/alpha/log?offset={1 << 40}&limit=7")
    assert answer == b"line 0\n"
    house.supervisor.harnesses["alpha"]["log"] = None


def raw(daemon: Daemon, path: str):
    connection = daemon.connect()
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.read(), dict(response.headers)
    connection.close()
    return found


@pytest.fixture
def ledger(house: House) -> Iterator[LedgerWriter]:
    """Return the writer of the daemon's ledger."""
    writer = LedgerWriter(str(house.state), house.folder.name)
    writer.start()
    yield writer
    writer.stop()


def written(writer: LedgerWriter, call, *args) -> object:
    """Have something written and return what was told when it was durable."""
    done: list = []
    call(*args, done.append)
    wait_until(lambda: (writer.collect(), done)[1])
    return done[0]


def test_runs_are_read_from_the_ledger_without_asking(house: House, daemon: Daemon, ledger: LedgerWriter):
    """Open ones and those that are over; of this daemon, unless all are wanted; the log of a scheduled one."""
    at = paths.rfc3339(time.time_ns() // 1_000_000)
    record = {
        "run": "tick-abc123",
        "harness": "tick",
        "attempt": 1,
        "kind": "scheduled",
        "trigger": "schedule",
        "started_at": at,
    }
    assert written(ledger, ledger.open, record) is None
    (run,) = daemon.runs(name=["tick"])["runs"]
    assert (run["run"], run["outcome"]) == ("tick-abc123", "running")
    assert daemon.run("tick-abc123")["harness"] == "tick"
    assert daemon.runs(name=["tick"], outcome=["failed"])["runs"] == []
    assert daemon.runs(name=["tick"], until="2020-01-01T00:00:00Z")["runs"] == []
    log = house.folder / "logs" / "tick" / "tick-abc123.log"
    log.parent.mkdir(parents=True)
    log.write_text("done\n")
    assert raw(daemon, "/v1/runs/tick-abc123/log")[0] == b"done\n"
    log.unlink()
    assert (
        json.loads(raw(daemon, "/v1/runs/tick-abc123/log")[0])["detail"]
        == "tick-abc123 has no log of its own; see that of tick"
    )
    assert house.supervisor.asked == []


# Events


def test_events_are_told_from_a_number_on_and_then_as_they_happen(
    house: House, daemon: Daemon, ledger: LedgerWriter
):
    """Those of the ledger first, then what happens; none twice, none left out, also over a break of the connection."""
    for number in (1, 2, 3):
        written(
            ledger,
            ledger.feed,
            {"event": "state_changed", "harness": "alpha", "n": number, "at": paths.rfc3339(number)},
        )
    heard: list = []
    live = threading.Event()

    def follow() -> None:
        for event in daemon.events(since=1):
            heard.append(event)
            if event.get("n") == 3:
                live.set()
            if event.get("n") == 5:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    assert live.wait(20)
    for number in (4, 5):
        fact = {"event": "stalled", "harness": "alpha", "n": number, "at": paths.rfc3339(number)}
        seq = written(ledger, ledger.feed, dict(fact))
        house.do(lambda fact=fact, seq=seq: house.portal.tell(fact, seq))
    follower.join(20)
    assert [event["n"] for event in heard] == [2, 3, 4, 5]
    assert [event["seq"] for event in heard] == [2, 3, 4, 5]


def test_events_can_be_read_without_waiting_and_of_one_harness(
    house: House, daemon: Daemon, ledger: LedgerWriter
):
    """`follow=false` ends with what there is."""
    written(ledger, ledger.feed, {"event": "stalled", "harness": "beta", "at": paths.rfc3339(9)})
    said = raw(daemon, "/v1/events?follow=false&harness=beta&harness=gamma")[0].decode()
    assert re.findall(r"^event: (.*)$", said, re.MULTILINE) == ["stalled"]
    assert (
        raw(daemon, "/v1/events?follow=false&since_time=2030-01-01T00:00:00Z")[0].decode().count("event:")
        == 0
    )


class Scripted:
    """A server that says what it is told, connection after connection."""

    def __init__(self, folder: Path, *answers: bytes) -> None:
        self.path = str(folder / "x.sock")
        self.heads: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers) -> None:
        for answer in answers:
            connection, _ = self._listener.accept()
            self.heads.append(connection.recv(65536))
            connection.sendall(answer)
            connection.close()
        self._listener.close()

    def close(self) -> None:
        self._thread.join(20)


OK = b"HTTP/1.1 200 OK\r\nLongwatch-Api: 1\r\nContent-Type: text/event-stream\r\n\r\n"


def test_a_follower_goes_on_after_a_break_from_where_it_was(tmp_path: Path, monkeypatch):
    """A half event is not told, the number of the last whole one is sent, and comments are no events."""
    monkeypatch.setattr(following, "_PAUSE", 0)
    first = (
        OK + b': hello\n\nid: 7\n\nid: 8\nevent: a\ndata: {"event": "a", "seq": 8}\n\ndata: {"event": "half"'
    )
    second = OK + b'data: nonsense\n\nevent: dropped\ndata: {"event": "dropped", "count": 2}\n\n'
    server = Scripted(tmp_path, first, second)
    events = Daemon(server.path).events(harnesses=("alpha",))
    assert next(events) == {"event": "a", "seq": 8}
    assert next(events) == {"event": "dropped", "count": 2}
    server.close()
    assert b"since=8" in server.heads[1]
    assert b"Last-Event-ID: 8" in server.heads[1]
    assert b"harness=alpha" in server.heads[0]
    monkeypatch.setattr(following, "_WAIT", 0)
    with pytest.raises(NoDaemonError):
        next(events)


# Finding, versions, silence


def stand(state: Path, file: Path, **told) -> Path:
    folder = Path(paths.daemon_folder(str(state), paths.daemon_id(str(file))))
    folder.mkdir(parents=True)
    (folder / "daemon.json").write_text(json.dumps(told))
    return folder


def ourselves() -> dict:
    found = identity(os.getpid())
    assert found is not None
    return {"pid": found.pid, "start": found.start, "boot": found.boot, "host": os.uname().nodename}


def test_a_daemon_is_found_by_its_file(house: House, tmp_path: Path):
    """By what it says of its own socket, wherever that is."""
    config = tmp_path / "longwatch.toml"
    stand(tmp_path, config, socket=house.portal.path, config=str(config), **ourselves())
    assert find(str(config), str(tmp_path)).health()["ok"]
    (told,) = running(str(tmp_path))
    assert (told["id"], told["config"]) == (paths.daemon_id(str(config)), str(config))


def test_where_no_daemon_is_it_is_said_how_to_start_one(tmp_path: Path):
    """Never started; ended without a word; ended and its pid taken by another: status 3 and one line."""
    config = tmp_path / "longwatch.toml"
    with pytest.raises(NoDaemonError, match=r"no daemon runs for .*longwatch up starts it"):
        find(str(config), str(tmp_path), {"XDG_RUNTIME_DIR": "/run"})
    with pytest.raises(NoDaemonError, match="too long"):
        find(str(config), str(tmp_path), {"XDG_RUNTIME_DIR": "/" + "x" * 100})
    stand(tmp_path, config, **{**ourselves(), "start": 1})
    with pytest.raises(NoDaemonError, match=r"has ended; longwatch up") as failed:
        find(str(config), str(tmp_path), {"XDG_RUNTIME_DIR": "/run"})
    assert failed.value.status == 3
    assert running(str(tmp_path)) == []
    assert running(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (
            b"Longwatch-Api: 2\r\nLongwatch-Version: 9.0",
            "the daemon is longwatch 9.0, newer than this .*upgrade this one",
        ),
        (
            b"Longwatch-Api: 0\r\nLongwatch-Version: 0.0",
            "the daemon is longwatch 0.0, older than this .*up --replace",
        ),
        (b"Server: other", "of another kind"),
    ],
)
def test_a_daemon_of_another_version_is_one_clear_line(tmp_path: Path, head, said):
    """Its answers would be misunderstood, so they are not read."""
    server = Scripted(tmp_path, b"HTTP/1.1 200 OK\r\n" + head + b"\r\nContent-Length: 2\r\n\r\n{}")
    with pytest.raises(OtherVersionError, match=said):
        Daemon(server.path).status()
    server.close()


def test_a_client_of_another_version_is_refused_in_its_own_words(daemon: Daemon, monkeypatch):
    """An older verb of a longwatch that was replaced meanwhile; its line names both."""
    monkeypatch.setattr(client_module, "_ours", lambda: {"Longwatch-Api": "7"})
    with pytest.raises(NotNowError, match=r"speaks API 1, not 7"):
        daemon.status()


def test_a_daemon_that_is_silent_is_not_waited_for(tmp_path: Path):
    """A look waits for some seconds; that the API was started anew meanwhile is tried once more."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        listener.listen()
        with pytest.raises(NoAnswerError, match="does not answer"):
            Daemon(str(tmp_path / "x.sock"), 0.05).status()
    good = b'HTTP/1.1 200 OK\r\nLongwatch-Api: 1\r\nContent-Length: 17\r\n\r\n{"harnesses": []}'
    (tmp_path / "x.sock").unlink()
    server = Scripted(tmp_path, b"", good)
    assert Daemon(server.path).status() == {"harnesses": []}
    server.close()


def test_a_command_is_never_sent_twice(tmp_path: Path):
    """Who knows whether it was done."""
    server = Scripted(tmp_path, b"")
    with pytest.raises(HungUpError, match="hung up"):
        Daemon(server.path).start("alpha")
    server.close()
    assert len(server.heads) == 1


def test_an_answer_that_is_no_json_is_said(tmp_path: Path):
    """Rather than a traceback."""
    server = Scripted(tmp_path, b"HTTP/1.1 200 OK\r\nLongwatch-Api: 1\r\nContent-Length: 3\r\n\r\nabc")
    with pytest.raises(NoAnswerError, match="no answer that can be read"):
        Daemon(server.path).status()
    server.close()


def test_the_client_loads_neither_models_nor_a_web_stack():
    """A verb has 150 ms."""
    code = "import sys, longwatch.api.client; print(*sys.modules)"
    done = run_command([str(ROOT / ".venv/bin/python"), "-c", code], env=None, measured=False)
    loaded = set(done.out.split())
    assert not loaded & {
        "pydantic",
        "fastapi",
        "starlette",
        "uvicorn",
        "asyncio",
        "sqlite3",
        "click",
        "subprocess",
        "logging",
    }
