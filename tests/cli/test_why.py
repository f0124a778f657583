"""`longwatch why`: what ended a run, or what it waits for now."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
import helpers
from folders import verb
from longwatch.core.facts import RunEnded, RunStarted
from longwatch.core.outcomes import REASONS
from longwatch.posix import now
from longwatch.posix.identity import Identity, identity
from longwatch.store import spool

Capture = pytest.CaptureFixture[str]


@pytest.mark.capability("NEW-17")
def test_why_tells_the_last_run(state: Path, capsys: Capture) -> None:
    """Without a daemon: what ended it, the culprit with its tree, how it was stopped, what is left, how to go on."""
    folders.ended(state, "older", started_at="2026-01-01T00:00:00Z")
    run = folders.ended(state, resume="build --resume 5")
    said = verb(capsys, "why")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == f"{run}  /bin/build --model"
    assert "a prompt" not in said.out
    for part in (
        "stopped by longwatch: its idle limit of 5s was reached, silent for 5s since stdout moved",
        "ran for 5s100ms, ended ",
        "2314 sort waits for input",
        "  2314 sort",
        "by TERM, over in 100ms",
        "nothing of it is alive (proof: group+marker)",
        "build --resume 5",
        "longer with --idle",
        f"longwatch logs {run} shows what it printed",
    ):
        assert part in said.out


def test_why_for_programs(state: Path, capsys: Capture) -> None:
    """JSON holds the whole report."""
    run = folders.ended(state)
    told = json.loads(verb(capsys, "why", "build", "--json").out)
    assert (told["schema"], told["live"], told["run"]) == (1, False, run)
    assert told["report"]["post_mortem"]["culprit_pid"] == 2314


@pytest.mark.parametrize(("limit", "key"), [("idle", "idle"), ("stall", "stall_timeout")])
def test_a_limit_of_a_file_is_named_as_its_key(state: Path, capsys: Capture, limit: str, key: str) -> None:
    """The run of a harness has no options: how to give it longer is a key of its file."""
    run = folders.ended(state, limit={"name": limit, "window_ms": 5_000, "source": None, "subject": None})
    meta = state / "runs" / run / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "harness": "build"}))
    assert f"was it at work? give it longer with {key} in its file\n" in verb(capsys, "why", run).out


def test_what_was_left_is_named(state: Path, capsys: Capture) -> None:
    """Survivors and what the program left behind are told with their processes; notes too."""
    left = {"count": 2, "processes": ["7 sshd", "8 agent"], "kept": True}
    folders.ended(state, survivors=["9 stuck"], leftovers=left, notes=["set PYTHONUNBUFFERED=1"])
    out = verb(capsys, "why").out
    assert "still alive: 9 stuck" in out
    assert "2 left behind by the program, kept as you asked: 7 sshd, 8 agent" in out
    assert "set PYTHONUNBUFFERED=1" in out
    assert "nothing of it is alive" not in out


@pytest.mark.fault("P4")
def test_four_ends_are_four_causes(state: Path, capsys: Capture) -> None:
    """A limit, an outside kill, a stop by hand and an own failure read differently; only ours is called ours."""
    begun = now() - 5_000
    ends = {
        "limit": {},
        "killed": {"facts": [RunStarted(begun), RunEnded(begun, "signaled", None, 9)]},
        "by-hand": {"facts": [RunStarted(begun), RunEnded(begun, "cancelled", None, 15, "explicit")]},
        "failed": {"facts": [RunStarted(begun), RunEnded(begun, "exited", 3)]},
    }
    told = {}
    for name, end in ends.items():
        folders.ended(state, name, post_mortem=None, **end)
        told[name] = verb(capsys, "why", name).out
    assert "stopped by longwatch: its idle limit" in told["limit"]
    assert "died of KILL, which longwatch did not send" in told["killed"]
    assert "stopped on request (by hand)" in told["by-hand"]
    assert "failed by itself with exit status 3" in told["failed"]
    assert sum("stopped by longwatch" in out for out in told.values()) == 1


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_words(state: Path, capsys: Capture, reason: str) -> None:
    """Whatever ended a run, there is a sentence for it."""
    folders.ended(state, termination_reason=reason, exit_code=0)
    out = verb(capsys, "why").out
    assert out.splitlines()[1].split(None, 1)[1].strip()
    assert "None" not in out


def test_a_limit_that_names_a_call(state: Path, capsys: Capture) -> None:
    """A limit on a call says which call, without inventing a silence."""
    limit = {"name": "call", "window_ms": 3_600_000, "subject": "Bash", "source": None}
    folders.ended(state, termination_reason="call", limit=limit)
    assert "stopped by longwatch: its call limit of 1h was reached by Bash" in verb(capsys, "why").out
    limit = {"name": "idle", "window_ms": 5_000, "subject": None, "source": None}
    folders.ended(state, "other", limit=limit)
    assert "silent for 5s, nothing ever moved" in verb(capsys, "why", "other").out


def test_a_run_under_a_second_is_told_from_history(state: Path, capsys: Capture) -> None:
    """A run that was too short for a folder is told from its line in the spool."""
    line = spool.summary(folders.report("build-abcdef"))
    spool.append(str(state), {**line, "program": "/bin/build", "flags": ["-v"]})
    said = verb(capsys, "why")
    assert said.out.splitlines()[0] == "build-abcdef  /bin/build -v"
    assert "2314 sort waits for input" in said.out


def test_a_run_that_lost_its_supervisor(state: Path, capsys: Capture) -> None:
    """A folder without report and supervisor: interrupted, and nobody is blamed."""
    own = folders.me()
    folders.make(state, supervisor=Identity(own.pid, own.start + 1, own.boot)).close()
    said = verb(capsys, "why")
    assert (
        said.out.count("longwatch itself ended without a report: it was killed, or the machine went down")
        == 1
    )
    assert "stopped by longwatch" not in said.out


def test_no_run_no_answer(state: Path, capsys: Capture) -> None:
    """Without any run the answer is no (1); an unknown name is 4, with the nearest; several are 2."""
    assert verb(capsys, "why") == (1, "", "longwatch: no run is on record yet\n")
    folders.ended(state)
    assert verb(capsys, "why", "biuld") == (4, "", "longwatch: no run biuld; did you mean build?\n")
    for _ in range(2):
        folders.make(state, "twins").close()
    assert verb(capsys, "why", "twins")[0] == 2


def test_notes_of_the_ledger_are_told(state: Path, capsys: Capture) -> None:
    """What the ledger has to say goes to stderr, once."""
    folders.ended(state)
    verb(capsys, "why")
    (state / "ledger.sqlite3").write_text("rot" * 1000)
    assert "was damaged" in verb(capsys, "why").err
    assert verb(capsys, "why").err == ""


def test_odd_reports_are_told_as_far_as_they_go(state: Path, capsys: Capture) -> None:
    """A report with less in it than expected is no reason for a traceback; control characters do not draw."""
    folder = folders.make(state)
    folder.write_report(
        {"run": folder.run, "started_at": "nonsense", "post_mortem": {"diagnosis": "\x1b[2Jboo"}}
    )
    folder.close()
    said = verb(capsys, "why", folder.run)
    assert said.code == 0
    assert "?[2Jboo" in said.out


@pytest.mark.capability("NEW-17", "NEW-2")
def test_a_live_run_is_looked_at(state: Path, capsys: Capture) -> None:
    """For a live run: both clocks, its limits, and what its processes wait for at this moment."""
    with helpers.ending(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])) as child:
        helpers.wait_until(lambda: helpers.stat(child.pid) == ("S", folders.me().pid))
        folders.make(state, child=identity(child.pid), age_ms=60_000, progress_ago=3_000).close()
        said = verb(capsys, "why")
        assert said.code == 0
        for part in ("for 1m", f"pid {child.pid}", "3s ago", "idle 5s", "file:*.log never seen", "waits for"):
            assert part in said.out
        assert str(child.pid) in said.out.partition("waits for")[2]
        told: dict[str, Any] = json.loads(verb(capsys, "why", "--json").out)
    assert told["live"]
    assert told["progress_ms_ago"] >= 3_000
    assert told["post_mortem"]["diagnosis"]


def test_a_live_run_that_cannot_be_looked_into(state: Path, capsys: Capture) -> None:
    """A child that is gone or another's, or a run elsewhere, has no diagnosis and says so by leaving it out."""
    own = folders.me()
    folders.make(state, "gone", child=Identity(own.pid, own.start + 1, own.boot))
    assert json.loads(verb(capsys, "why", "gone", "--json").out)["post_mortem"] is None
    folders.make(state, "there", host="elsewhere")
    assert "on elsewhere" in verb(capsys, "why", "there").out


SILENCES = [
    {"ms": 900_000, "state": "paused", "tool": ""},
    {"ms": 240_000, "state": "call", "tool": "Bash"},
    {"ms": 60_000, "state": "asked", "tool": ""},
    {"ms": 999, "state": "working", "tool": ""},
]


@pytest.mark.capability("NEW-17")
def test_an_agent_that_is_over_is_explained(state: Path, capsys: Capture) -> None:
    """Of an agent: its conversation, what its calls came to, its limit, its error, its longest silences, how to go on."""
    limit = {"cls": "usage", "until": "2999-01-02T03:04:05Z", "text": "You've hit your\nlimit"}
    counts = {"started": 4, "ok": 2, "failed": 1, "open": 1, "retries": 3, "limits": 1, "records": 40}
    stood = folders.standing(limit=limit, last_error="overloaded", longest=SILENCES, counts=counts)
    run = folders.ended(state, agent=stood, resume="claude --resume s-1")
    lines = verb(capsys, "why").out.splitlines()
    for expected in (
        "  agent     claude, conversation s-1",
        "            4 calls, 2 ok, 1 failed, 1 open, 3 requests tried again, 1 limits met",
        "  in a call Bash for 3m",
        "            You've hit your?limit",
        "  error     overloaded",
        "  silences  15m paused",
        "            4m in a call of Bash",
        "            1m asking a human",
        "  go on     claude --resume s-1",
        f"            longwatch logs {run} shows what it did, with --raw what it printed",
    ):
        assert expected in lines, expected
    assert not any("999ms" in line for line in lines)
    assert any(line.startswith("  limit     a usage limit until 2999-01-0") for line in lines)
    told = json.loads(verb(capsys, "why", "--json").out)
    assert told["report"]["agent"] == stood


@pytest.mark.fault("C1")
@pytest.mark.capability("NEW-17")
def test_a_live_agent_says_what_it_waits_for(state: Path, capsys: Capture) -> None:
    """While it runs: the open calls with their ages and whose they are, and the question that nobody has answered."""
    run = folders.make(state)
    calls = [
        {"call": f"c{n}", "tool": "Bash", "since_ms": 60_000 * n, "sub": "h" * (n == 4)}
        for n in (5, 4, 3, 2, 1)
    ]
    folders.observe(
        run, ago=60_000, calls=calls, questions=[{"question": "permission c5", "since_ms": 120_000}]
    )
    lines = verb(capsys, "why").out.splitlines()
    assert "  in a call Bash for 6m" in lines
    assert "            Bash for 5m, of its helper h" in lines
    assert "            and 2 more" in lines
    assert "  asks      a human must answer; it has waited for 3m" in lines
    assert json.loads(verb(capsys, "why", "--json").out)["agent"]["calls"] == calls


def test_an_agent_of_which_little_is_known(state: Path, capsys: Capture) -> None:
    """A transcript that was not found is said with the reason; what is missing or odd is left out."""
    folders.ended(state, agent={"dialect": "pi", "pending": "its folder is not there"})
    lines = verb(capsys, "why").out.splitlines()
    assert "  agent     pi" in lines
    assert "            nothing of it was read: its folder is not there" in lines
    odd = {
        "counts": 5,
        "calls": [7, {}],
        "questions": [{}],
        "limit": {"cls": "new"},
        "longest": [{}, {"ms": 5_000, "state": "new"}],
    }
    folders.ended(state, "odd", agent=odd)
    out = verb(capsys, "why", "odd").out
    for part in (
        "  agent     agent\n",
        "a tool for ?",
        "waited for ?",
        "a limit; nobody says until when",
        "silences  5s\n",
    ):
        assert part in out
    folders.ended(state, "none", agent=None)
    assert "agent" not in verb(capsys, "why", "none").out


@pytest.mark.slow
@pytest.mark.capability("NEW-17")
def test_a_real_run_is_explained(state: Path) -> None:
    """A command that an idle limit stopped is explained afterwards, with the process that slept."""
    done = helpers.run_cli("run", "--idle", "1200ms", "--", "sh", "-c", "echo begin; sleep 300; true")
    assert done.code == 124
    said = helpers.run_cli("why")
    assert said.code == 0
    assert "its idle limit of 1s200ms was reached" in said.out
    assert "sleep" in said.out
    assert "nothing of it is alive" in said.out
    assert helpers.run_cli("logs").out == "begin\n"
