"""The supervisor's side of the API: its sockets, its process, and that neither holds the supervisor up."""

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import wait_until
from longwatch.api.client import NoDaemonError
from longwatch.daemon import api_process as api_process_module
from longwatch.daemon import portal as portal_module
from longwatch.daemon.asking import FAILED, NOT_NOW, REFUSED, USAGE, Caller, Later, Refusal
from longwatch.daemon.line import LONGEST, Line
from longwatch.daemon.listening import address, private, tcp
from longwatch.daemon.questions import MOST, Questions
from longwatch.errors import StoreError, UsageError
from longwatch.posix import now
from longwatch.posix.reactor import Reactor
from portals import House, Supervisor


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Return an open portal."""
    found = House(tmp_path_factory.mktemp("house"), Supervisor())
    yield found
    found.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[House]:
    """Return a portal of the test's own: its process may be replaced."""
    found = House(tmp_path, Supervisor())
    yield found
    found.close()


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    found = Reactor()
    yield found
    found.close()


# Sockets


def test_the_socket_is_private(house: House):
    """0600 in a folder of 0700: nobody else even gets to it."""
    path = Path(house.portal.path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_is_open_to_others_is_closed(tmp_path: Path):
    """A folder that was there before is made private."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o755)
    private(str(folder)).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == []


def test_a_left_over_socket_is_replaced_even_if_somebody_still_holds_it(tmp_path: Path):
    """A stopped process of a killed daemon may still have it open; who has the lock takes the place."""
    first = private(str(tmp_path / "s"))
    second = private(str(tmp_path / "s"))
    first.close()  # leaves the file, which is not its own any more
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(second.path))
    second.close()
    second.close()


def test_a_file_in_the_way_is_left_alone(tmp_path: Path):
    """What is no socket is named, and not removed."""
    (tmp_path / "api.sock").write_text("mine")
    with pytest.raises(StoreError, match="in the way"):
        private(str(tmp_path))
    assert (tmp_path / "api.sock").read_text() == "mine"


def test_a_socket_whose_path_is_too_long_says_so(tmp_path: Path):
    """The kernel's bound is told as one line."""
    with pytest.raises(StoreError, match="cannot listen"):
        private(str(tmp_path / ("x" * 120)))


@pytest.mark.parametrize(
    ("listen", "found"),
    [
        ("127.0.0.1:7180", ("127.0.0.1", 7180)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("127.1.2.3:80", ("127.1.2.3", 80)),
    ],
)
def test_loopback_addresses_are_taken(listen, found):
    """Everything that only this machine reaches."""
    assert address(listen, allow=False, what="[web]") == found


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "192.168.1.2:80", "[::]:80"])
def test_other_addresses_need_a_word(listen):
    """A port that other machines reach has to be wanted."""
    with pytest.raises(UsageError, match="other machines"):
        address(listen, allow=False, what="[web]")
    assert address(listen, allow=True, what="[web]")[1] == 80


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "80",
        ":80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "127.evil.org:80",
        "a:1:2",
    ],
)
def test_what_is_no_address_is_refused(listen):
    """No name server is asked for it either."""
    with pytest.raises(UsageError, match="ADDRESS:PORT"):
        address(listen, allow=True, what="[web]")


def test_a_port_that_is_taken_says_so():
    """With the address, and why."""
    first = tcp("127.0.0.1:0", allow=False, what="[web]")
    port = first.socket.getsockname()[1]
    with pytest.raises(StoreError, match=f"cannot listen at 127.0.0.1:{port}"):
        tcp(f"127.0.0.1:{port}", allow=False, what="[web]")
    first.close()


# The line


def pair(reactor: Reactor, hear, ended) -> tuple[Line, socket.socket]:
    ours, theirs = socket.socketpair()
    return Line(reactor, ours.detach(), hear, ended), theirs


def test_messages_come_whole_however_they_are_cut(reactor: Reactor):
    """A message in pieces is one, two in one piece are two."""
    heard: list = []
    line, other = pair(reactor, heard.append, heard.append)
    for piece in (b'{"a', b'": 1}\n{"b": 2}\n{"c"', b": 3}\n"):
        other.sendall(piece)
        reactor.poll(1000)
    assert heard == [{"a": 1}, {"b": 2}, {"c": 3}]
    line.close()
    other.close()


@pytest.mark.parametrize("said", [b"nonsense\n", b"[1]\n", b"x" * (LONGEST + 2)])
def test_nonsense_ends_the_line(reactor: Reactor, said: bytes):
    """It is told once, and everything is given back."""
    ended: list[str] = []
    line, other = pair(reactor, lambda _: None, ended.append)
    other.setblocking(False)
    rest = memoryview(said)
    while rest and not ended:
        try:
            rest = rest[other.send(rest) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            break
        reactor.poll(0)
    wait_until(lambda: (reactor.poll(0), ended)[1])
    assert len(ended) == 1
    assert line.closed
    line.send({"a": 1})
    other.close()


def test_what_is_not_taken_waits_and_arrives(reactor: Reactor):
    """The sender never blocks; what waited comes in its order when the other end reads again."""
    line, other = pair(reactor, lambda _: None, lambda _: None)
    drained: list[int] = []
    for number in range(2000):
        line.send({"n": number, "x": "y" * 1000})
    assert line.waiting > 1 << 20
    line.drained = lambda: drained.append(1)
    got = b""
    other.setblocking(False)
    while line.waiting:
        reactor.poll(0)
        try:
            while chunk := other.recv(1 << 20):
                got += chunk
        except BlockingIOError:
            pass
    while got.count(b"\n") < 2000:
        got += other.recv(1 << 20)
    assert [int(text.split(b",")[0].split(b":")[1]) for text in got.splitlines()] == list(range(2000))
    assert drained == [1]
    line.close()
    other.close()


def test_a_pause_leaves_messages_where_they_are(reactor: Reactor):
    """Even those that were read with the one that led to the pause."""
    heard: list = []

    def hear(message) -> None:
        heard.append(message)
        line.pause(True)

    line, other = pair(reactor, hear, heard.append)
    other.sendall(b'{"a": 1}\n{"b": 2}\n')
    reactor.poll(1000)
    assert heard == [{"a": 1}]
    assert not reactor.poll(0)
    line.pause(False)
    assert heard == [{"a": 1}, {"b": 2}]
    line.close()
    line.close()
    other.close()


# Questions


def put(ask, message) -> list:
    said: list = []
    log: list[str] = []
    Questions(ask, now, log.append).put(
        {"args": {}, "op": "x", "by": {"pid": 7, "uid": 8, "via": "unix"}, **message}, said.append
    )
    return said + log


def test_a_question_is_put_with_who_asks():
    """Decision 16 needs the pid that the kernel told."""
    asked: list = []
    assert put(lambda *words: asked.append(words) or {"a": 1}, {"id": 3}) == [{"id": 3, "ok": {"a": 1}}]
    assert asked == [("x", {}, Caller(7, 8, "unix"))]


def test_a_defect_of_the_supervisor_goes_no_further():
    """It is logged, and told as a failure."""
    answer, logged = put(lambda *_: {}["missing"], {"id": 3})
    assert answer["error"]["kind"] == FAILED
    assert "KeyError" in logged


@pytest.mark.parametrize("message", [{"id": 1, "op": None}, {"id": 1, "args": []}])
def test_a_question_that_cannot_be_read_is_refused(message):
    """Whatever the API process sends, the supervisor goes on."""
    (answer,) = put(lambda *_: {}, message)
    assert answer["error"]["kind"] == USAGE


def test_a_question_without_a_number_is_passed_over():
    """There is no way to answer it."""
    assert put(lambda *_: {}, {"id": "x"}) == []


def test_so_many_questions_wait_and_no_more():
    """One more is refused; a cancelled one makes room, and its answer goes nowhere."""
    said: list = []
    laters: list[Later] = []

    def ask(*_words) -> Later:
        laters.append(Later())
        return laters[-1]

    questions = Questions(ask, now, said.append)
    for number in range(MOST + 1):
        questions.put({"id": number, "op": "x", "args": {}}, said.append)
    assert [answer["error"]["kind"] for answer in said] == [NOT_NOW]
    told: list[int] = []
    laters[0].on_cancel(lambda: told.append(1))
    questions.cancel(0)
    questions.cancel("nonsense")
    laters[0].give({})
    laters[1].give({"late": True})
    assert told == [1]
    assert said[1:] == [{"id": 1, "ok": {"late": True}}]
    questions.drop()
    assert all(later.over for later in laters)


@pytest.mark.capability("CAP-121")
def test_a_delivery_fires_once_and_again_only_if_it_came_to_nothing():
    """What was seen is told as a duplicate; what was refused, now or later, may be sent again."""
    answers: list = [Refusal(REFUSED, "no"), Later(), {"run": "a-abc123"}]

    def ask(*_words):
        answer = answers.pop(0)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    said: list = []
    questions = Questions(ask, now, said.append)
    message = {"op": "trigger", "args": {"name": "a", "trigger": "t", "delivery": "d1"}}
    later = answers[1]
    for number in range(2):
        questions.put({"id": number, **message}, said.append)
    questions.put({"id": 2, **message}, said.append)
    assert said[-1]["ok"]["duplicate"] is True
    later.refuse(Refusal(NOT_NOW, "held"))
    questions.put({"id": 3, **message}, said.append)
    assert said[-1] == {"id": 3, "ok": {"run": "a-abc123"}}
    questions.put({"id": 4, **message}, said.append)
    assert said[-1]["ok"]["duplicate"] is True


def test_an_answer_is_given_once():
    """Whatever comes after it is passed over."""
    later = Later()
    heard: list = []
    later.then(lambda *words: heard.append(words))
    later.give({"a": 1})
    later.refuse(Refusal(FAILED, "too late"))
    later.cancel()
    later.then(lambda *words: heard.append(words))
    assert heard == [({"a": 1}, None), ({"a": 1}, None)]


# The process


def test_the_supervisor_goes_on_while_the_api_process_is_stopped(house: House):
    """Stopped, with clients waiting and facts flooding in: everything else is handled at once, and then it goes on."""
    daemon = house.daemon()
    assert daemon.health()["ok"]
    pid = house.portal.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        answered: list = []
        client = threading.Thread(target=lambda: answered.append(daemon.status()))
        client.start()
        for number in range(3000):
            house.do(
                lambda n=number: house.portal.tell(
                    {"event": "stalled", "harness": "alpha", "x": "y" * 1000}, n
                )
            )
        stalled = house.do(lambda: "handled")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert stalled == "handled"
    client.join(20)
    assert len(answered[0]["harnesses"]) == 2
    assert house.portal.pid == pid
    assert house.portal.counts()["dropped"] > 0


def test_an_api_process_that_dies_is_started_anew_and_no_client_is_refused(own: House):
    """The socket stays open, so who asks in between waits for the next one."""
    daemon = own.daemon()
    daemon.health()
    before = own.portal.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert daemon.status()["harnesses"]
    assert own.portal.pid != before
    assert own.portal.counts()["restarts"] >= 1
    assert any("ended with -9" in line for line in own.log)


def test_a_client_that_leaves_is_told_to_the_supervisor(house: House):
    """A question that nobody waits for any more is taken back; what was asked for goes on."""
    house.supervisor.instead["stop"] = house.supervisor.wait
    gone = threading.Event()
    connection = house.daemon().connect()
    connection.request("POST", "/v1/harnesses/alpha/stop")
    wait_until(lambda: house.supervisor.later)
    house.do(lambda: house.supervisor.later[0].on_cancel(gone.set))
    connection.close()
    assert gone.wait(20)
    del house.supervisor.instead["stop"]
    house.supervisor.later.clear()


def test_a_reload_that_changes_the_web_replaces_the_process_and_answers_what_is_under_way(own: House):
    """A question that waits when it happens gets its answer; an unchanged table changes nothing."""
    own.daemon().health()
    before = own.portal.pid
    assert own.do(lambda: own.portal.configure({})) == []
    assert own.portal.pid == before
    own.supervisor.instead["reload"] = own.supervisor.wait
    answered: list = []
    client = threading.Thread(target=lambda: answered.append(own.daemon().reload()))
    client.start()
    wait_until(lambda: own.supervisor.later)
    web = {"listen": "127.0.0.1:0", "token": "t"}
    assert own.do(lambda: own.portal.configure(web)) == []
    own.do(lambda: own.supervisor.later.pop().give({"applied": ["alpha"]}))
    client.join(20)
    assert answered == [{"applied": ["alpha"]}]
    wait_until(lambda: own.portal.pid not in (None, before))
    restarts = own.portal.counts()["restarts"]
    assert own.daemon().health()["ok"]
    assert own.portal.counts()["restarts"] == restarts


@pytest.mark.parametrize(
    ("web", "said"),
    [
        ({"listen": "127.0.0.1:0"}, "token"),
        ({"listen": "0.0.0.0:0", "token": "t"}, "other machines"),
        ({"hooks": {"listen": "0.0.0.0:0"}}, "[web.hooks]"),
    ],
)
def test_a_port_that_is_refused_leaves_the_rest_open(
    reactor: Reactor, tmp_path: Path, monkeypatch, web, said
):
    """Without a token there is no port; the private socket is there all the same."""
    monkeypatch.setattr(api_process_module, "_spawn", _refuse)
    log: list[str] = []
    portal = portal_module.Portal(
        reactor, lambda *_: {}, folder=str(tmp_path / "d"), sockets=str(tmp_path / "s"), state=str(tmp_path), log=log.append
    )  # fmt: skip
    (problem,) = portal.open(web)
    assert said in problem
    assert os.path.exists(portal.path)
    portal.close()
    assert not os.path.exists(portal.path)


def test_a_process_that_cannot_be_started_is_tried_again_ever_more_seldom(
    reactor: Reactor, tmp_path: Path, monkeypatch
):
    """200 ms, doubling to 30 s; facts go nowhere meanwhile."""
    monkeypatch.setattr(api_process_module, "_spawn", _refuse)
    at = [1000]
    portal = portal_module.Portal(
        reactor, lambda *_: {}, folder=str(tmp_path / "d"), sockets=str(tmp_path / "s"), state=str(tmp_path),
        log=lambda _: None, clock=lambda: at[0],
    )  # fmt: skip
    assert portal.next_deadline() is None
    portal.open()
    waits = []
    for _ in range(10):
        due = portal.next_deadline()
        assert due is not None
        portal.step(due - 1)
        waits.append(due - at[0])
        at[0] = due
        portal.tell({"event": "stalled"}, 1)
        portal.step(due)
    assert waits == [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
    assert portal.pid is None
    portal.close()


def _refuse(*_args) -> int:
    raise OSError(11, "Resource temporarily unavailable")


def _stand_in(monkeypatch, code: str) -> None:
    """Have another program started in the place of the API process."""
    usual = os.posix_spawn

    def spawn(path, words, env, **more):
        return usual(path, [words[0], "-c", code], env, **more)

    monkeypatch.setattr(api_process_module.os, "posix_spawn", spawn)


def _portal(reactor: Reactor, folder: Path, log: list[str], clock=now) -> portal_module.Portal:
    return portal_module.Portal(
        reactor, lambda *_: {}, folder=str(folder / "d"), sockets=str(folder / "s"), state=str(folder), log=log.append, clock=clock,
    )  # fmt: skip


def test_a_missing_package_is_said_and_not_tried_again(reactor: Reactor, tmp_path: Path, monkeypatch):
    """The last line that it said is what a human has to do."""
    _stand_in(
        monkeypatch, "import os, sys; sys.stderr.write('x\\ninstall it\\n'); sys.stderr.flush(); os._exit(78)"
    )
    log: list[str] = []
    portal = _portal(reactor, tmp_path, log)
    portal.open()
    wait_until(lambda: reactor.poll(100) and portal.problem)
    assert portal.problem == "install it"
    assert portal.next_deadline() is None
    assert log == ["the API is not served: install it"]
    portal.close()


def test_a_process_that_does_not_answer_is_ended(reactor: Reactor, tmp_path: Path, monkeypatch):
    """After four pings without an answer, each 30 s apart; a late look is one of them, however late."""
    _stand_in(monkeypatch, "import time; time.sleep(600)")
    log: list[str] = []
    at = [1000]
    portal = _portal(reactor, tmp_path, log, lambda: at[0])
    portal.open()
    pid = portal.pid
    assert pid is not None
    for late in (0, 8 * 3_600_000, 0, 0):
        at[0] = portal.next_deadline() + late
        portal.step(at[0])
        assert log == []
    at[0] = portal.next_deadline()
    portal.step(at[0])
    assert "does not answer" in log[0]
    wait_until(lambda: reactor.poll(100) and portal.pid is None)
    assert portal.next_deadline() == at[0] + 200
    portal.close()


def test_a_process_that_does_not_end_is_killed(reactor: Reactor, tmp_path: Path, monkeypatch):
    """Closing waits for a while, and leaves nothing."""
    monkeypatch.setattr(api_process_module, "_PATIENCE", 20)
    _stand_in(monkeypatch, "import time; time.sleep(600)")
    portal = _portal(reactor, tmp_path, [])
    portal.open()
    portal.close()
    portal.close()
    assert portal.pid is None


def test_a_process_that_hangs_up_without_ending_is_ended(reactor: Reactor, tmp_path: Path, monkeypatch):
    """Nobody can be served by it any more."""
    _stand_in(monkeypatch, "import os, time; os.close(3); time.sleep(600)")
    log: list[str] = []
    portal = _portal(reactor, tmp_path, log)
    portal.open()
    wait_until(lambda: reactor.poll(100) and portal.pid is None)
    assert "ended with -9" in log[0]
    portal.close()


def test_questions_of_a_process_that_does_not_read_are_left_where_they_are(
    reactor: Reactor, tmp_path: Path, monkeypatch
):
    """Their answers would pile up in the supervisor."""
    question = '{"id": %d, "op": "status", "args": {}}\\n'
    _stand_in(
        monkeypatch,
        f"import os, time; os.write(3, ''.join('{question}' % n for n in range(1000)).encode()); time.sleep(600)",
    )
    monkeypatch.setattr(api_process_module, "_PATIENCE", 20)
    portal = portal_module.Portal(
        reactor, lambda *_: {"x": "y" * 10_000}, folder=str(tmp_path / "d"), sockets=str(tmp_path / "s"), state=str(tmp_path),
        log=lambda _: None,
    )  # fmt: skip
    portal.open()
    wait_until(lambda: (reactor.poll(100), portal.counts()["asked"])[1])
    wait_until(lambda: not reactor.poll(100))
    assert portal.counts()["asked"] < 300
    portal.close()


def test_after_the_end_nobody_listens(tmp_path: Path):
    """A closed portal is no daemon, and its API process is gone."""
    house = House(tmp_path, Supervisor())
    daemon = house.daemon()
    daemon.health()
    pid = house.portal.pid
    house.close()
    with pytest.raises(NoDaemonError):
        daemon.health()
    assert not os.path.exists(f"/proc/{pid}")
