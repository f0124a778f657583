"""The verbs that ask a daemon: what each one asks, what it makes of the answer, and the status it ends with."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.exceptions import Exit

import folders
from folders import Said
from longwatch import paths
from longwatch.api import client, finding
from longwatch.cli import at_daemon, batch, items, up

ENDED = {"termination_reason": "exited", "outcome": "failed", "exit_code": 3, "signal": None}
STOPPED = {"termination_reason": "cancelled", "stopped": {"how": "TERM"}, "survivors": []}
STUCK = {**STOPPED, "survivors": ["7 stuck"]}


class Fake:
    """A daemon that remembers what it was asked, and answers what the test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, op: str) -> Callable[..., Any]:
        def ask(*words: object, **named: object) -> Any:
            self.asked.append((op, *words, named))
            answer = self.answers[op]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    found = Fake()
    (tmp_path / "longwatch.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(finding, "find", lambda *_: found)
    return found


@pytest.fixture
def verb(state: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    return lambda *words: folders.verb(capsys, *words)


# -- down


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"stopped": ["a", "b"]}, "stopped a, b; the daemon ended\n"),
        ({"kept": ["a"]}, "the daemon ended; a runs on, and longwatch up goes on with them\n"),
        ({"kept": ["a", "b"]}, "the daemon ended; a, b run on, and longwatch up goes on with them\n"),
        ({}, "the daemon ended; nothing was running\n"),
    ],
)
def test_down_says_what_became_of_the_harnesses(
    fake: Fake, verb: Callable[..., Said], answer: dict[str, Any], said: str
) -> None:
    """Stopped, or left to the keeper, by name."""
    fake.answers["down"] = answer
    assert verb("down") == (0, said, "")
    assert verb("down", "--keep").code == 0
    assert fake.asked == [("down", {"keep": False}), ("down", {"keep": True})]
    assert json.loads(verb("down", "--json").out) == {"schema": 1, **answer}


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_down_fails_where_something_lives_on(
    fake: Fake, verb: Callable[..., Said], words: tuple[str, ...]
) -> None:
    """A program that could not be ended is named, for programs too, and the status says so."""
    fake.answers["down"] = {"stopped": ["a"], "survivors": ["7 stuck"]}
    said = verb("down", *words)
    assert (said.code, said.err) == (1, "longwatch: still alive: 7 stuck\n")


# -- start, restart, stop


def test_start_tells_each_run(fake: Fake, verb: Callable[..., Said]) -> None:
    """The names in their order, a line for each; what the daemon says beside it, and a start that failed, too."""
    fake.answers["start"] = {"run": "a-1"}
    assert verb("start", "a", "b").out == "a: started as a-1\nb: started as a-1\n"
    assert [words[1] for words in fake.asked] == ["a", "b"]
    fake.answers["start"] = {"run": "a-1", "note": "it ran already"}
    assert verb("start", "a").out.endswith(" as a-1 (it ran already)\n")
    fake.answers["start"] = {"run": "a-1", "state": "failed"}
    assert "longwatch why a" in verb("start", "a").out
    lines = verb("start", "a", "b", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"schema": 1, "name": n, **fake.answers["start"]} for n in "ab"
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (client.NoSuchHarnessError("no harness x"), 4),
        (client.NotNowError("not now"), 75),
        (client.NoDaemonError("no daemon listens"), 3),
        (client.RefusedError("refused"), 1),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("start", "x"),
        ("restart", "x"),
        ("trigger", "x"),
        ("describe", "x"),
        ("down",),
        ("reload",),
        ("send", "x", "y"),
    ],
)
def test_what_a_daemon_refuses_ends_the_verb(
    fake: Fake, verb: Callable[..., Said], words: tuple[str, ...], error: client.DaemonError, status: int
) -> None:
    """One line, and the status of its kind."""
    fake.answers[words[0]] = error
    assert verb(*words) == (status, "", f"longwatch: {error}\n")


@pytest.mark.parametrize(
    ("run", "code", "line"),
    [
        ("i-2", 0, "plan/i: started as i-2\n"),
        (
            "",
            0,
            "plan/i: wanted (it starts when those it needs are completed, and there is a place for it)\n",
        ),
        (None, 5, "alone plan.toml i False\n"),
    ],
)
def test_start_runs_an_item_by_its_batch_or_alone(
    fake: Fake,
    verb: Callable[..., Said],
    monkeypatch: pytest.MonkeyPatch,
    run: str | None,
    code: int,
    line: str,
) -> None:
    """A batch that runs the plan is asked; else it is run here, and how that ends is the status, whatever follows."""

    def alone(plan: str, item: str, *, as_json: bool) -> int:
        print("alone", plan, item, as_json)
        return 5

    item = SimpleNamespace(title="plan/i", name="i", known=SimpleNamespace(plan="plan.toml"))
    rights: list[object] = []
    monkeypatch.setattr(items, "of", lambda word: item if word == "plan/i" else None)
    monkeypatch.setattr(items, "require_right", rights.append)
    monkeypatch.setattr(items, "ask_to_start", lambda _: run)
    monkeypatch.setattr(batch, "run_alone", alone)
    fake.answers["start"] = {"run": "a-1"}
    assert verb("start", "plan/i", "a") == (code, f"{line}a: started as a-1\n", "")
    assert rights == [item]
    if run:
        assert json.loads(verb("start", "plan/i", "--json").out) == {
            "schema": 1,
            "name": "plan/i",
            "run": "i-2",
        }


def test_restart_hands_its_grace_on(fake: Fake, verb: Callable[..., Said]) -> None:
    """Each harness is ended with the same one; without it the file's holds."""
    fake.answers["restart"] = {"run": "a-2"}
    assert verb("restart", "a", "b", "-k", "3s").out == "a: restarted as a-2\nb: restarted as a-2\n"
    assert verb("restart", "a").code == 0
    assert fake.asked == [
        ("restart", "a", {"kill_after_ms": 3_000}),
        ("restart", "b", {"kill_after_ms": 3_000}),
        ("restart", "a", {"kill_after_ms": None}),
    ]
    assert json.loads(verb("restart", "a", "--json").out) == {"schema": 1, "name": "a", "run": "a-2"}
    assert verb("restart", "a", "-k", "3").code == 2


def test_stop_ends_a_harness_through_its_daemon(fake: Fake, verb: Callable[..., Said]) -> None:
    """How it ended is told; one that did not run is no failure."""
    fake.answers["stop"] = {"report": STOPPED}
    said = verb("stop", "a", "-k", "3s")
    assert (said.code, said.out.startswith("a: stopped by TERM, over in ")) == (0, True)
    assert fake.asked == [("stop", "a", {"kill_after_ms": 3_000})]
    told = json.loads(verb("stop", "a", "--json").out)
    assert told == {"schema": 1, "name": "a", "report": STOPPED}
    fake.answers["stop"] = {"report": None}
    assert verb("stop", "a") == (0, "a: stopped; it was not running\n", "")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_stop_fails_where_something_lives_on(
    fake: Fake, verb: Callable[..., Said], words: tuple[str, ...]
) -> None:
    """What could not be ended is named, for programs too, and the status says so."""
    fake.answers["stop"] = {"report": STUCK}
    said = verb("stop", "a", *words)
    assert (said.code, said.err) == (1, "longwatch: a: still alive: 7 stuck\n")


def test_stop_goes_on_to_the_runs_where_the_daemon_has_no_such_harness(
    fake: Fake, verb: Callable[..., Said]
) -> None:
    """The name may be that of a run of this terminal."""
    fake.answers["stop"] = client.NoSuchHarnessError("no harness a")
    assert verb("stop", "a") == (4, "", "longwatch: no live run a\n")


def test_stop_ends_an_item_through_its_batch(
    fake: Fake, verb: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its grace, by who may; what is kept of it is the answer for programs."""
    item, asked = SimpleNamespace(title="plan/i", name="i"), []
    monkeypatch.setattr(items, "of", lambda word: item if word == "plan/i" else None)
    monkeypatch.setattr(items, "require_right", asked.append)
    monkeypatch.setattr(items, "ask_to_stop", lambda *words: (asked.append(words), {"run": "i-1"})[1])
    said = verb("stop", "plan/i", "-k", "3s")
    assert (said.code, said.out.startswith("plan/i: stopped, over in ")) == (0, True)
    assert said.out.endswith("; longwatch start plan/i goes on with it\n")
    assert asked == [item, (item, 3_000)]
    told = json.loads(verb("stop", "plan/i", "--json").out)
    assert told == {"schema": 1, "run": "i-1", "item": {"run": "i-1"}}


# -- send


def test_send_types_the_text_and_enter(fake: Fake, verb: Callable[..., Said]) -> None:
    """Its bytes as they were given, and nothing is printed."""
    fake.answers["send"] = {}
    assert verb("send", "a", "é go \udcff") == (0, "", "")
    assert fake.asked == [("send", "a", "é go ".encode() + b"\xff", {"newline": True})]


# -- reload


def test_reload_says_what_it_did(fake: Fake, verb: Callable[..., Said]) -> None:
    """What waits names the flag that would do it now."""
    fake.answers["reload"] = {
        "applied": ["a"], "added": ["b", "c"], "pending": [{"name": "d", "keys": ["command", "cwd"]}], "removed": ["e"],
        "warnings": ["f is odd"], "errors": [],
    }  # fmt: skip
    said = verb("reload")
    assert (said.code, said.err) == (0, "longwatch: f is odd\n")
    assert said.out.splitlines() == [
        "applied: a", "added: b, c", "pending restart: d (command, cwd); --restart does it now",
        "no longer in the file: e; what still runs goes on, --prune stops it",
    ]  # fmt: skip
    assert json.loads(verb("reload", "--json").out) == {"schema": 1, **fake.answers["reload"]}
    fake.answers["reload"] = {"applied": ["a"], "restarted": ["d"], "removed": ["e"], "pruned": ["e"]}
    assert verb("reload").out == "applied: a\nrestarted: d\nstopped: e\n"
    said = verb("reload", "--dry-run", "--restart", "--prune")
    assert said.out == "would be applied: a\nwould be restarted: d\nwould be stopped: e\n"
    assert fake.asked[0][-1] == {"dry_run": False, "restart": False, "prune": False}
    assert fake.asked[-1][-1] == {"dry_run": True, "restart": True, "prune": True}
    fake.answers["reload"] = {}
    assert verb("reload") == (0, "nothing has changed\n", "")


@pytest.mark.parametrize(("count", "words"), [(1, "one error"), (2, "2 errors")])
def test_reload_refuses_a_file_with_errors(
    fake: Fake, verb: Callable[..., Said], tmp_path: Path, count: int, words: str
) -> None:
    """Each with its place as somebody who stands here would write it; for programs the status is the same."""
    wrong = [
        {"file": str(tmp_path / "longwatch.toml"), "line": 3, "column": 5, "message": "no such key"},
        {"file": "/etc/other", "line": None, "message": "cannot be read"},
    ][:count]
    fake.answers["reload"] = {"errors": wrong, "applied": ["a"]}
    said = verb("reload")
    assert (said.code, said.out) == (1, "")
    *placed, last = said.err.splitlines()
    assert placed == ["longwatch.toml:3:5: no such key", "/etc/other: cannot be read"][:count]
    assert last == f"longwatch: {words} in the file; the daemon keeps what it had, and nothing was touched"
    told = verb("reload", "--json")
    assert (told.code, json.loads(told.out)["errors"]) == (1, wrong)


# -- trigger


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [
        ({"run": "a-1"}, 0, "a-1: started; longwatch logs -f a-1 shows what it prints\n", ""),
        ({"run": None, "queued": True}, 0, "a: queued; it runs when what holds it is over\n", ""),
        ({"duplicate": True}, 0, "", "longwatch: a: this event was delivered before\n"),
        ({"run": "a-1", "ended": ENDED}, 3, "a-1: failed by itself with exit status 3\n", ""),
        ({"run": "a-1", "ended": {**ENDED, "exit_code": 0, "outcome": "success"}}, 0, "a-1: exited 0\n", ""),
        (
            {"run": "a-1", "ended": {**ENDED, "termination_reason": "signaled", "exit_code": None, "signal": "KILL"}},
            137, None, "",
        ),
        (
            {"run": "a-1", "ended": {**ENDED, "termination_reason": "timeout", "exit_code": None, "signal": "TERM"}},
            124, None, "",
        ),
        ({"run": "a-1", "ended": {**ENDED, "termination_reason": "lingered", "outcome": "success"}}, 0, None, ""),
        ({"run": "a-1", "ended": {**ENDED, "termination_reason": "lingered", "outcome": "failed"}}, 1, None, ""),
        ({"ended": {"outcome": "skipped"}}, 75, None, ""),
    ],
)  # fmt: skip
def test_trigger_ends_as_what_it_led_to(
    fake: Fake, verb: Callable[..., Said], answer: dict[str, Any], code: int, out: str | None, err: str
) -> None:
    """Without an end it is 0; with one that of run; 75 where nothing was run."""
    fake.answers["trigger"] = answer
    said = verb("trigger", "a")
    assert (said.code, said.err) == (code, err)
    assert said.out == out or out is None
    told = verb("trigger", "a", "--json")
    assert (told.code, json.loads(told.out)) == (code, {"schema": 1, **answer})


def test_trigger_hands_on_what_comes_with_it(
    fake: Fake, verb: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or stdin, as bytes; which trigger, and whether somebody waits."""
    fake.answers["trigger"] = {"run": "a-1"}
    (tmp_path / "event").write_bytes(b"\xff{}")
    assert verb("trigger", "a", "--payload", "event", "--trigger", "push", "--wait").code == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"told")))
    assert verb("trigger", "a", "--payload", "-").code == 0
    assert verb("trigger", "a").code == 0
    assert fake.asked == [
        ("trigger", "a", {"trigger": "push", "payload": b"\xff{}", "wait": True}),
        ("trigger", "a", {"trigger": None, "payload": b"told", "wait": False}),
        ("trigger", "a", {"trigger": None, "payload": None, "wait": False}),
    ]


# -- describe

LIMITS = {
    "idle": {"window_ms": 60_000, "action": "notify", "left_ms": 5_000, "by": "longwatch.toml:3"},
    "call": {"window_ms": 3_600_000, "by": "built-in"},
    "stall": {"window_ms": 1_000, "left_ms": -5, "by": None},
    "first": {"window_ms": 0},
}
ABOUT = {
    "name": "a", "state": "running", "kind": "resident", "run": "a-1", "attempt": 2, "pid": 7, "pty": True,
    "since": "2025-03-09T01:00:00Z", "progress_ms": 65_000, "alive_ms": 1_000, "progress_source": "output",
    "model_calls": {"ok": 3, "failed": 1}, "calls": [{"tool": "bash", "since_ms": 130_000}], "limits": LIMITS,
    "restarts": 2, "pending_restart": ["command"], "next_due": "2025-03-09T01:00:00Z", "last_error": "boom", "blind": "no records", "log": "/l/a.log",
    "note": ["one", "two"], "last_run": {**ENDED, "run": "a-0", "ended_at": "2025-03-09T01:00:00Z"},
    "spec": {
        "command": ["sh", "-c", "x"], "cwd": "/w", "restart": "always", "intensity": 5, "period": 600_000,
        "schedule": ["0 2 * * *", "@daily"],
    },
}  # fmt: skip


def test_describe_tells_all_that_is_known(fake: Fake, verb: Callable[..., Said]) -> None:
    """One line for each thing, under heads; for programs it is the answer itself."""
    fake.answers["describe"] = ABOUT
    said = verb("describe", "a")
    first, *lines = said.out.splitlines()
    assert first == "a: running, pending restart (command)"
    told: dict[str, list[str]] = {}
    head = ""
    for line in lines:
        head = line[:12].strip() or head
        told.setdefault(head, []).append(line[12:])
    since = told["running"][0].removeprefix("a-1, attempt 2, pid 7, at a terminal of its own, since ")
    assert since
    assert told == {
        "command": ["sh -c x"],
        "folder": ["/w"],
        "running": [f"a-1, attempt 2, pid 7, at a terminal of its own, since {since}"],
        "progress": ["1m5s ago (output); alive 1s ago", "model calls: 3 good, 1 failed"],
        "calls": ["bash for 2m10s"],
        "limits": [
            "idle 1m, then notify; 5s left (set by longwatch.toml:3)",
            "call 1h, then stop (built-in)",
            "stall 1s, then stop; 0s left (built-in)",
        ],
        "restarts": ["always; 2 lately, at most 5 in 10m"],
        "schedule": ["0 2 * * *", "@daily"],
        "next": [since],
        "last run": [f"a-0: failed by itself with exit status 3, {since}"],
        "error": ["boom"],
        "blind": ["no records"],
        "log": ["/l/a.log"],
        "note": ["one", "two"],
    }
    assert json.loads(verb("describe", "a", "--json").out) == {"schema": 1, **ABOUT}


def test_describe_of_what_does_not_run_says_little(fake: Fake, verb: Callable[..., Said]) -> None:
    """No clocks of a run that is over, and no heads without anything behind them."""
    fake.answers["describe"] = {
        "name": "a", "state": "stopped", "progress_ms": 5, "run": "a-1", "note": "held back", "spec": {"command": ["x"]},
    }  # fmt: skip
    lines = verb("describe", "a").out.splitlines()
    assert [line.split()[0] for line in lines] == ["a:", "command", "folder", "restarts", "note"]
    assert lines[-1].endswith("held back")


# -- which daemon


def test_a_file_that_was_named_has_to_be_there(state: Path, verb: Callable[..., Said]) -> None:
    """Its daemon cannot be meant otherwise: that is wrong use, not an answer that is missing."""
    for words in (("down",), ("stop", "a"), ("events", "-f"), ("send", "a", "b")):
        said = verb(*words, "--config", str(state / "none.toml"))
        assert (said.code, "none.toml" in said.err) == (2, True), words


def test_without_a_daemon_that_is_said(
    state: Path, verb: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is a status of its own, and the line names what would start one."""
    (tmp_path / "longwatch.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    said = verb("down")
    assert said.code == 3
    assert "longwatch up starts it" in said.err
    assert verb("stop", "a").code == 4


def test_what_a_daemon_left_running_is_known_by_its_keeper(state: Path, fake: Fake, tmp_path: Path) -> None:
    """The daemon does not answer, its keeper is there: harnesses live on. Without a file nobody left anything."""
    file = str(tmp_path / "longwatch.toml")
    assert at_daemon.left_behind(None) is None
    folder = Path(paths.sockets(paths.daemon_id(file), paths.state()))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keeper.sock").touch()
    assert at_daemon.left_behind(None) == file
    assert at_daemon.left_behind(str(tmp_path / "none.toml")) is None


# -- up


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a daemon that is started behind says; and behind that, the words that it was started by."""
    said: list[Any] = [{}]
    monkeypatch.setattr(up, "_behind", lambda words: (said.append(words), said[0])[1])
    return said


def test_up_tells_how_the_harnesses_stand(fake: Fake, verb: Callable[..., Said], behind: list[Any]) -> None:
    """Remarks first, then a line for each; for programs it is what the daemon said."""
    behind[0] = {"ready": True, "pid": 7, "notes": ["n"], "problems": ["p"]}
    fake.answers["status"] = {
        "harnesses": [{"name": "a", "state": "running"}, {"name": "b", "state": "stopped"}]
    }
    said = verb("up", "-d")
    assert (said.code, said.err) == (0, "longwatch: n\nlongwatch: p\n")
    assert said.out.splitlines()[:2] == ["a: running", "b: stopped"]
    assert "pid 7" in said.out.splitlines()[2]
    assert json.loads(verb("up", "-d", "--json").out) == {"schema": 1, **behind[0]}


def test_up_hands_on_whose_place_it_takes(
    fake: Fake, verb: Callable[..., Said], behind: list[Any], tmp_path: Path
) -> None:
    """The file by its whole path, since the daemon may stand elsewhere."""
    behind[0] = {"ready": False, "status": 1}
    verb("up", "-d")
    verb("up", "-d", "--replace")
    assert behind[1][1:] == ["-P", "-m", "longwatch.daemon", "--config", str(tmp_path / "longwatch.toml")]
    assert behind[2] == [*behind[1], "--replace"]


def test_in_the_foreground_the_daemon_takes_our_place(
    verb: Callable[..., Said], fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a command line is left in it, and it is told that somebody looks on."""
    became: list[Any] = []

    def execv(program: str, words: list[str]) -> None:
        became.append((program, words))
        raise Exit(0)

    monkeypatch.setattr(os, "execv", execv)
    assert verb("up").code == 0
    file = str(tmp_path / "longwatch.toml")
    assert became == [
        (sys.executable, [sys.executable, "-P", "-m", "longwatch.daemon", "--config", file, "--foreground"])
    ]


@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize(("told", "status"), [({"status": 2}, 2), ({"status": 75}, 75), ({}, 1)])
def test_up_ends_as_the_daemon_that_did_not_begin(
    fake: Fake,
    verb: Callable[..., Said],
    behind: list[Any],
    told: dict[str, Any],
    status: int,
    words: tuple[str, ...],
) -> None:
    """Its words on stderr, each line of them, and its status."""
    behind[0] = {"ready": False, "error": "one\ntwo\x1b[2J", **told}
    said = verb("up", "-d", *words)
    assert said.code == status
    if not words:
        assert said.out == ""
        assert said.err.startswith("longwatch: one\ntwo")
        assert "\x1b" not in said.err


def test_a_daemon_that_says_nothing_is_told() -> None:
    """It ended before it was ready; what would show why is named."""
    assert up._behind(["/bin/true"]) == {
        "ready": False,
        "error": "the daemon ended before it was ready; longwatch up (without -d) shows why",
    }
    told = up._behind(["/bin/sh", "-c", """echo '{"ready": true}' >/proc/self/fd/$2""", "sh"])
    assert told == {"ready": True}
