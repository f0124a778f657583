"""`longwatch doctor`: what it says of the file, its daemon and keeper, the ledger, and of notices."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch import __version__, paths
from longwatch.api import finding
from longwatch.api.client import NoAnswerError
from longwatch.cli import standing
from longwatch.cli.machine import FINE, WEAKER, WRONG
from longwatch.cli.standing import Place
from longwatch.errors import StoreError, UsageError
from longwatch.posix.identity import identity

GOOD = '[harness.w]\ncommand = ["sleep", "60"]\n'


class Fake:
    """A daemon that answers as it is told; what is an error is raised."""

    path = "/run/api.sock"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def status(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    notify_test = status


def place(answer: Any) -> Place:
    """Return a place whose daemon says that."""
    found = Place(None)
    found.__dict__["daemon"] = Fake(answer)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a good file."""
    # Short, for it becomes part of a socket's path.
    path = tmp_path / "w" / "longwatch.toml"
    path.parent.mkdir()
    path.write_text(GOOD)
    return path


def test_the_file_is_read_as_the_daemon_would_read_it(file: Path) -> None:
    """A good one is told with its harnesses, a wrong one with its error or how many, none with what writes one."""
    assert standing.file(Place(str(file))) == (FINE, f"{file}: 1 harness", None)
    file.write_text(GOOD + "idel = 3\n")
    found = standing.file(Place(str(file)))
    assert (found.status, found.next) == (WRONG, "longwatch config check")
    assert "longwatch.toml:3" in found.detail
    file.write_text("[harness.w]\nx = 1\n[harness.v]\ny = 1\n")
    assert "errors" in standing.file(Place(str(file))).detail
    assert "longwatch init" in standing.file(Place(None)).detail


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    """A path that leads nowhere is a usage error of the verb, not a finding."""
    with pytest.raises(UsageError):
        Place(str(tmp_path / "no.toml")).path  # noqa: B018
    assert helpers.run_cli("doctor", "--config", tmp_path / "no.toml").code == 2


def test_no_daemon_is_no_fault(file: Path) -> None:
    """Without a file or a daemon there is nothing to be wrong; what starts one is named."""
    assert standing.daemon(Place(None)) == (FINE, "no file, no daemon", None)
    assert standing.daemon(Place(str(file))).detail == f"none runs for {file}; longwatch up starts it"
    assert standing.keeper(Place(str(file))).status == FINE


def test_a_place_where_no_daemon_could_listen_is_wrong(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps the daemon from being looked for is a finding like any other."""

    def refuse(*_: object) -> None:
        raise StoreError("too long for a socket's path")

    monkeypatch.setattr(finding, "find", refuse)
    assert standing.daemon(Place(str(file))) == (WRONG, "too long for a socket's path", None)


def test_a_daemon_that_holds_the_lock_and_does_not_listen_is_wrong(file: Path) -> None:
    """A living process that said it runs this file, and has no socket, is named with what to do."""
    me = identity(os.getpid())
    assert me is not None
    folder = Path(paths.daemon_folder(paths.state(), paths.daemon_id(str(file))))
    folder.mkdir(parents=True)
    told = {"pid": me.pid, "start": me.start, "boot": me.boot, "host": os.uname().nodename}
    (folder / "daemon.json").write_text(json.dumps(told))
    found = standing.daemon(Place(str(file)))
    assert found.status == WRONG
    assert f"pid {me.pid} has the lock" in found.detail
    (folder / "daemon.json").write_text(json.dumps(told | {"start": 1}))
    assert standing.daemon(Place(str(file))).status == FINE


@pytest.mark.parametrize(
    ("told", "status", "text", "advice"),
    [
        ({"pid": 7, "version": __version__}, FINE, f"pid 7, longwatch {__version__}, /run/api.sock", None),
        ({"pid": 7, "version": "0.0.1"}, WEAKER, f"this is {__version__}", "longwatch up --replace"),
        (
            {"pid": 7, "version": __version__, "problems": ["no apprise", "x"]},
            WEAKER,
            ": no apprise; x",
            None,
        ),
    ],
)
def test_what_the_daemon_says(told: dict[str, Any], status: str, text: str, advice: str | None) -> None:
    """Its version, its place and its problems; another version than ours comes with the way out."""
    found = standing.daemon(place({"daemon": told}))
    assert (found.status, found.next) == (status, advice)
    assert found.detail.endswith(text)


def test_a_daemon_that_does_not_answer_is_wrong() -> None:
    """Its silence is the finding, and no look of doctor fails by it."""
    silent = place(NoAnswerError("the daemon does not answer"))
    assert standing.daemon(silent) == (WRONG, "the daemon does not answer", None)
    assert standing.keeper(silent).status == FINE
    assert standing.notices(silent)["notices"].status == WRONG


@pytest.mark.parametrize(
    ("pid", "status"), [(os.getpid(), FINE), (None, WEAKER), (1 << 30, WRONG)], ids=["alive", "none", "gone"]
)
def test_the_keeper_is_looked_for(pid: int | None, status: str) -> None:
    """Without one exit codes stay unknown; one that has died is wrong."""
    assert standing.keeper(place({"daemon": {"keeper_pid": pid}})).status == status


def test_lingering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where systemd ends a user's processes at the last log-out, the command that prevents it is named."""
    monkeypatch.setattr(standing, "SYSTEMD", str(tmp_path / "none"))
    assert standing.linger(Place(None)).status == FINE
    monkeypatch.setattr(standing, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(standing, "LINGER", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = standing.linger(Place(None))
    assert found.status == WEAKER
    assert found.next is not None
    assert found.next.startswith("loginctl enable-linger ")
    (tmp_path / found.next.split()[-1]).touch()
    assert standing.linger(Place(None)).status == FINE


def test_inotify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance is made; few watches, and a system without, are weaker."""
    before = helpers.descriptors()
    assert "watches" in standing.inotify(Place(None)).detail
    assert helpers.descriptors() <= before
    monkeypatch.setattr(standing, "_INOTIFY", str(tmp_path))
    assert standing.inotify(Place(None)).status == WEAKER
    (tmp_path / "max_user_watches").write_text("100\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    found = standing.inotify(Place(None))
    assert (found.status, found.detail[:11]) == (WEAKER, "100 watches")


def test_the_ledger_is_looked_at_and_not_touched(state: Path) -> None:
    """SQLite's version and journal, and the file: not there yet, good, or damaged."""
    found = standing.ledger(Place(None))
    assert found.detail.startswith(f"SQLite {sqlite3.sqlite_version}, journal ")
    assert found.detail.endswith("no ledger yet")
    state.mkdir(parents=True)
    path = state / "ledger.sqlite3"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    assert standing.ledger(Place(None)).detail.endswith("rollback journal")
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    found = standing.ledger(Place(None))
    assert (found.status, found.next) == (WRONG, standing._DAMAGED)
    assert path.read_bytes()[16:20] == b"\xff" * 4


@pytest.mark.capability("CAP-131")
def test_notices_are_tried_through_the_daemon() -> None:
    """Each channel is a finding of its own: delivered, or the result and the error."""
    told = {"channels": [{"channel": "hook", "ok": True, "result": "ok", "error": None, "ms": 30},
                         {"channel": "apprise:slack", "ok": False, "result": "timeout", "error": "took longer", "ms": 15000}]}  # fmt: skip
    assert standing.notices(place(told)) == {
        "notify hook": (FINE, "delivered in 30 ms", None),
        "notify apprise:slack": (WRONG, "timeout in 15000 ms: took longer", None),
    }
    nothing = standing.notices(place({"ok": False, "channels": [], "error": "no channel"}))
    assert nothing["notices"].detail == "no channel"


@pytest.mark.capability("CAP-131")
def test_without_a_daemon_no_notice_can_be_tried(file: Path) -> None:
    """The verb says who is missing, and fails."""
    done = helpers.run_cli("doctor", "--notify-test", "--config", file)
    assert done.code == 1
    assert f"BAD  notices         none runs for {file}; longwatch up starts it" in done.out


@pytest.mark.capability("CAP-131", "CAP-128")
def test_a_real_daemon_sends_a_test(file: Path, tmp_path: Path) -> None:
    """From the verb over the API and the supervisor to the hook, and back with how it went."""
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >{tmp_path}/in\nexit $(cat {tmp_path}/status)\n")
    hook.chmod(0o755)
    file.write_text(GOOD + f'[notify]\nhook = ["{hook}"]\n')
    assert helpers.run_cli("up", "-d", "--config", file).code == 0
    try:
        for status, word, code in (("0", "delivered", 0), ("3", "error", 1)):
            (tmp_path / "status").write_text(status)
            done = helpers.run_cli("doctor", "--notify-test", "--json", "--config", file)
            found = {one["name"]: one for one in json.loads(done.out)["checks"]}
            assert done.code == code
            assert found["notify hook"]["detail"].startswith(word)
            assert found["daemon"]["status"] == found["keeper"]["status"] == FINE
        assert json.loads((tmp_path / "in").read_text())["event"] == "test"
    finally:
        assert helpers.run_cli("down", "--config", file).code == 0
