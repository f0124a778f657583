"""`longwatch ls`: what is watched, with both clocks, without a daemon."""

import datetime as dt
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import folders
import helpers
from folders import verb
from longwatch.cli import render
from longwatch.paths import new_run_id
from longwatch.posix import now
from longwatch.posix.clocks import ALIVE, LAST, LOOKED, PARKED, PROGRESS, SOURCE_ALIVE, STOPPING
from longwatch.posix.identity import identity

Capture = pytest.CaptureFixture[str]


def one(capsys: Capture, *args: str) -> dict[str, Any]:
    said = verb(capsys, "ls", "--json", *args)
    assert said.code == 0
    told = json.loads(said.out)
    assert (told["schema"], told["from"]) == (1, "run folders")
    (run,) = told["runs"]
    assert isinstance(run, dict)
    return run


@pytest.mark.capability("NEW-2")
def test_two_clocks_are_shown(state: Path, capsys: Capture) -> None:
    """How long it is alive, its last sign of life and its last progress are three numbers; a keep-alive moves one."""
    run = folders.make(state, age_ms=300_000, progress_ago=120_000, alive_ago=4_000)
    told = one(capsys)
    assert 300_000 <= told["age_ms"] < 310_000
    assert 120_000 <= told["progress_ms_ago"] < 130_000
    assert 4_000 <= told["alive_ms_ago"] < 14_000
    run.clocks.header[ALIVE] = run.clocks.source(0)[SOURCE_ALIVE] = now()
    after = one(capsys)
    assert after["alive_ms_ago"] < 4_000
    assert after["progress_ms_ago"] >= 120_000
    out = verb(capsys, "ls").out
    assert "PROGRESS" in out.splitlines()[0]
    assert all(word in out for word in (run.run, "5m", "2m ago", "idle 5s (reached)"))


@pytest.mark.fault("B7", "A4")
def test_a_source_that_never_moved_is_never_seen(state: Path, capsys: Capture) -> None:
    """Each source has its own line of evidence: one that never moved is `never seen`, not silent for ever."""
    run = folders.make(state, sources=["stdout", "stderr", "screen", "file:*.log"])
    run.clocks.source(1)[LAST] = now() - 3_000
    told = one(capsys)["sources"]
    assert told["screen"] == {"last_ms_ago": None, "last_at": None, "count": 0}
    assert 3_000 <= told["stderr"]["last_ms_ago"] < 9_000
    run.clocks.source(2)[LAST] = now()
    assert one(capsys)["progress_ms_ago"] < 1_000
    run.clocks.source(2)[LAST] = 0
    assert told["stderr"]["last_at"].endswith("Z")
    assert "stderr 3s ago, screen never seen, file:*.log never seen" in verb(capsys, "ls").out


def test_ps_and_status_are_ls(state: Path, capsys: Capture) -> None:
    """The words of other tools work; nothing watched is no failure."""
    assert verb(capsys, "ps") == (0, "", "longwatch: nothing is watched\n")
    assert verb(capsys, "status", "--json").out == '{"schema": 1, "from": "run folders", "runs": []}\n'


def test_what_holds_a_limit_is_named(state: Path, capsys: Capture) -> None:
    """A held run says by what; its limit of silence has no end in sight while it is held."""
    run = folders.make(state)
    assert one(capsys)["state"] == "running"
    assert 1_000 < one(capsys)["limits"]["idle"]["remaining_ms"] <= 4_000
    run.clocks.set_state(0, ["quiet", "call"])
    told = one(capsys)
    assert (told["state"], told["holds"]) == ("held: call, quiet", ["call", "quiet"])
    assert told["limits"]["idle"]["remaining_ms"] is None
    assert "idle 5s " in verb(capsys, "ls").out + " "
    run.clocks.set_state(STOPPING)
    assert one(capsys)["state"] == "stopping"


def test_what_is_left_of_each_limit(state: Path, capsys: Capture) -> None:
    """Total limits count from the start and move by pauses; silence counts from the last sign, hold or lapse."""
    limits = {
        name: {"window_ms": 60_000, "action": "stop", "source": "flag"}
        for name in ("idle", "first", "ceiling", "timeout", "call")
    }
    limits["off"] = {"window_ms": 0, "action": "stop", "source": "flag"}
    run = folders.make(state, age_ms=50_000, progress_ago=None, limits=limits)

    def left() -> dict[str, int | None]:
        found = one(capsys)["limits"]
        rounded = {name: limit["remaining_ms"] for name, limit in found.items()}
        return {name: ms and round(ms / 5_000) * 5 for name, ms in rounded.items()}

    assert left() == {"idle": 10, "first": 10, "ceiling": 10, "timeout": 10, "call": None, "off": None}
    run.append_event({"event": "extension_granted", "mono_ms": now(), "limit": "ceiling", "total": 20_000})
    run.append_event({"event": "lapse", "mono_ms": now(), "span": 5_000})
    assert left() == {"idle": 15, "first": 15, "ceiling": 30, "timeout": 10, "call": None, "off": None}
    run.append_event({"event": "hold_ended", "mono_ms": now() - 20_000, "hold": "quiet"})
    assert left()["idle"] == 45
    run.append_event({"event": "hold_ended", "mono_ms": now() + 1_000, "hold": "quiet"})
    assert left()["idle"] == 60
    run.append_event({"event": "hold_ended", "mono_ms": None})
    run.clocks.header[PROGRESS] = now() - 40_000
    assert left()["first"] is None


def test_a_supervisor_that_does_not_look_is_said(state: Path, capsys: Capture) -> None:
    """A run whose supervisor has not looked for long is not called watched."""
    run = folders.make(state)
    run.clocks.header[LOOKED] = now() - 90_000
    assert one(capsys)["state"].startswith("unwatched for 1m30s")


def test_runs_that_cannot_be_looked_into(state: Path, capsys: Capture) -> None:
    """Another machine's run, and one without readable clocks, are listed with what is known."""
    there = folders.make(state, "there", host="elsewhere")
    (Path(there.path) / "clocks").write_bytes(b"")
    assert one(capsys)["state"] == "on elsewhere"
    assert "?" in verb(capsys, "ls").out
    here = folders.make(state, "here")
    (Path(here.path) / "clocks").write_bytes(b"")
    assert "unknown" in verb(capsys, "ls").out


def test_a_newer_folder_is_one_line(state: Path, capsys: Capture) -> None:
    """A folder of a newer longwatch is named on stderr, the others are listed."""
    folders.make(state)
    newer = folders.make(state)
    about = json.loads(Path(newer.path, "meta.json").read_text())
    Path(newer.path, "meta.json").write_text(json.dumps({**about, "schema": 9}))
    said = verb(capsys, "ls")
    assert len(said.out.splitlines()) == 2
    assert said.err.count("\n") == 1
    assert "was written by a newer longwatch (schema 9)" in said.err


def test_all_shows_what_is_over(state: Path, capsys: Capture) -> None:
    """With -a the folders of ended runs are listed, with how they ended."""
    run = folders.ended(state)
    assert verb(capsys, "ls").out == ""
    told = one(capsys, "-a")
    assert (told["run"], told["live"], told["outcome"], told["termination_reason"]) == (
        run,
        False,
        "failed",
        "idle",
    )
    assert "failed (idle)" in verb(capsys, "ls", "-a").out


def test_watching_shows_it_anew(state: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """--watch repeats once a second, as JSON Lines for programs."""
    folders.make(state)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise BrokenPipeError

    monkeypatch.setattr(time, "sleep", pause)
    said = verb(capsys, "ls", "--watch", "--json")
    assert [len(json.loads(line)["runs"]) for line in said.out.splitlines()] == [1, 1, 1]
    assert pauses == [1.0] * 3
    pauses.clear()
    assert verb(capsys, "ls", "--watch").out.count("PROGRESS") == 3


def test_names_cannot_draw(state: Path, capsys: Capture) -> None:
    """Control characters in what a program chose do not reach the terminal."""
    folders.make(state, sources=["file:\x1b[31m\n"])
    said = verb(capsys, "ls")
    assert "\x1b" not in said.out
    assert len(said.out.splitlines()) == 2


LIMIT = {"cls": "usage", "until": "2999-01-02T03:04:05Z", "text": "You've hit your limit"}


@pytest.mark.fault("C1", "C3")
@pytest.mark.parametrize(
    ("stands", "said"),
    [
        ({}, "in a call: Bash 3m"),
        (
            {"calls": [{"tool": "Bash", "since_ms": 60_000}, {"tool": "Read", "since_ms": 0}]},
            "in a call: Bash 1m (+1)",
        ),
        ({"calls": [{}]}, "in a call: a tool ?"),
        ({"state": "asked", "questions": [{"question": "permission c1", "since_ms": 120_000}]}, "asks: 2m"),
        ({"state": "ready", "calls": []}, "ready"),
        ({"state": "working", "calls": []}, "working"),
        ({"state": "new word", "calls": "odd"}, "working"),
        ({"state": "ready", "calls": [], "limit": {**LIMIT, "until": "2001-01-01T00:00:00Z"}}, "ready"),
        ({"state": "paused", "calls": [], "limit": {**LIMIT, "until": None}}, "paused by a usage limit"),
        ({"pending": "no file of its own was found"}, "held: call"),
    ],
)
def test_the_state_of_an_agent(state: Path, capsys: Capture, stands: dict[str, Any], said: str) -> None:
    """An agent that is asked, in a call, paused or ready reads so: none of these is stuck."""
    run = folders.make(state)
    run.clocks.set_state(0, ["call"])
    folders.observe(run, **stands)
    told = one(capsys)
    assert told["state"] == said
    assert told["agent"]["session"] == "s-1"
    assert said in verb(capsys, "ls").out


def test_until_when_an_agent_is_paused(state: Path, capsys: Capture) -> None:
    """The end of a provider's limit is told in local time, short where it is today."""
    run = folders.make(state)
    later = dt.datetime.now().astimezone() + dt.timedelta(minutes=1)
    folders.observe(
        run, state="paused", calls=[], limit={**LIMIT, "until": later.astimezone(dt.UTC).isoformat()}
    )
    said = one(capsys)["state"]
    assert said == f"paused until {render.when(later.isoformat(), brief=True)}"
    assert said.endswith(later.strftime("%H:%M"))
    run.clocks.set_state(PARKED)
    assert one(capsys)["state"] == "parked"
    about = json.loads(Path(run.path, "meta.json").read_text())
    Path(run.path, "meta.json").write_text(json.dumps({**about, "parked": {"until": later.isoformat()}}))
    assert one(capsys)["state"] == f"parked until {render.when(later.isoformat(), brief=True)}"


def test_what_an_agent_does_grows_old(state: Path, capsys: Capture) -> None:
    """What was written a while ago is that much older now; a silence that was asked for goes before it."""
    run = folders.make(state)
    folders.observe(run, ago=120_000)
    assert one(capsys)["state"] == "in a call: Bash 5m"
    assert one(capsys)["agent"]["ago_ms"] >= 120_000
    run.clocks.set_state(0, ["quiet", "call"])
    assert one(capsys)["state"] == "held: call, quiet"
    Path(run.path, "agent.json").write_text("{}")
    run.clocks.set_state(0)
    assert one(capsys)["agent"] == {"ago_ms": 0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_only_for_eyes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours are for terminals, and not for who objects by NO_COLOR."""
    assert render.paint("x", "red") == "x"
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert render.paint("x", "red") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert render.paint("x", "red") == "x"
    assert render.table(("A", "B"), [("\x1b[31mlong\x1b[0m", "b"), ("a", "b")]).splitlines()[2] == "a     b"


def test_live_by_a_real_process(state: Path, capsys: Capture) -> None:
    """A run is listed while its supervisor lives, and no longer."""
    with helpers.ending(folders.sleeper()) as process:
        folders.make(state, run=new_run_id("x"), supervisor=identity(process.pid)).close()
        assert one(capsys)["pid"] == process.pid
    assert verb(capsys, "ls").out == ""


def test_it_opens_no_database() -> None:
    """What shows what goes on now does not load what keeps the past."""
    script = "import sys, longwatch.cli.ls, longwatch.api.client; print('sqlite3' in sys.modules)"
    assert helpers.run_command([sys.executable, "-c", script], measured=False).out == "False\n"
