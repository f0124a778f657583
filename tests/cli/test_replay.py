"""`longwatch replay`: what it prints, and how it refuses."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import corpus
from helpers import ROOT
from longwatch.cli import verbs
from longwatch.cli.replayed import said
from longwatch.observe import events as e

#: Calls the verb, and gives its status, stdout and stderr.
Verb = Callable[..., tuple[int, str, str]]
SILENCES = str(corpus.FOLDER / "claude-silences.disk.jsonl")


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Verb:
    """Call the verb in this process; return status, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        status = verbs.main(["replay", *words])
        return (status, *capfd.readouterr())

    return run


@pytest.mark.capability("NEW-6")
def test_page(call: Verb) -> None:
    """Events, calls, silences, and what a limit that was named would have done."""
    status, out, err = call(SILENCES, "--idle", "5m", "--call", "Bash=10m", "--stall", "10m")
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0].startswith("claude-silences.disk.jsonl: claude, 8 records in 23m31s from 20")
    for line in (
        "21s tool_call Bash build",
        "16m30s tool_result test failed with exit code 2",
        "20s text 14 characters",
        "calls 3 begun, 1 ok, 1 failed, 1 without a result",
        "since 23m31s Bash is open",
        "15m Bash ran after 21s",
        "7m the model worked after 16m30s",
        "idle 5m: would have stopped it, with 2m1s of the session to come",
        "after 21m30s since 16m30s, the next sign came 2m later",
        "stall 10m: would have told you once",
        "call 1h, Bash 10m: would have told you once",
        "if nothing came behind the last record, after 33m31s",
    ):
        assert line in lines, line


def test_defaults_are_those_of_a_run(call: Verb) -> None:
    """Without a limit the built-in ones hold, and those only tell."""
    _, out, _ = call(SILENCES, "--summary")
    assert "idle    5m: would have told you once" in out
    assert "call    1h: not reached" in out
    assert "tool_call" not in out


def test_nothing_of_what_was_said_is_shown(call: Verb, tmp_path: Path) -> None:
    """Names and counts, never words: transcripts hold secrets."""
    for name in corpus.SHAPES:
        if ".db." not in name and "generic" not in name:
            status, out, _ = call(str(corpus.FOLDER / name))
            assert status == 0
            assert "Step one" not in out
            assert "echo one" not in out
            assert "calls   4 begun" in out


def test_a_file_without_times(call: Verb) -> None:
    """It is said that silence cannot be measured, and no limit is claimed."""
    _, out, _ = call(str(corpus.FOLDER / "codex-steps.stream.jsonl"))
    assert "without times: no silence can be measured" in out
    assert "idle" not in out
    _, out, _ = call(str(corpus.FOLDER / "codex-steps.stream.jsonl"), "--json")
    (found,) = json.loads(out)["replays"]
    assert (found["first"], found["gaps"], found["limits"], found["calls"][0]["took_ms"]) == (
        None,
        [],
        {},
        None,
    )


def test_a_database(call: Verb, tmp_path: Path) -> None:
    """The newest session of a database, or the one that is named."""
    path = str(corpus.database(tmp_path))
    _, out, _ = call(path)
    assert "opencode.db: opencode" in out
    assert "calls   4 begun, 2 ok, 2 failed" in out
    status, _, err = call(path, "--session", "ses_0")
    assert (status, err) == (1, f"longwatch: {path}: no records in it\n")


def test_helpers_go_with_their_session(call: Verb, tmp_path: Path) -> None:
    """Files of one session are read together, those of another stand alone."""
    stamp = "2030-01-02T03:04:{:02}Z"
    helper = {
        "type": "assistant", "isSidechain": True, "agentId": "a1", "sessionId": "s-1", "cwd": "/w", "timestamp": stamp.format(6),
        "message": {"content": [{"type": "tool_use", "id": "h", "name": "Grep"}]},
    }  # fmt: skip
    noise = {"type": "api-request", "agentId": "a1", "sessionId": "s-1", "timestamp": stamp.format(7)}
    (tmp_path / "agent-a1.jsonl").write_text(json.dumps(helper) + "\n" + json.dumps(noise) + "\n")
    main = str(corpus.FOLDER / "claude-steps.disk.jsonl")
    other = str(corpus.FOLDER / "codex-steps.disk.jsonl")
    _, out, _ = call(str(tmp_path / "agent-a1.jsonl"), main, other, main)
    heads = [line for line in out.splitlines() if "records in" in line]
    assert [head.partition(",")[0] for head in heads] == [
        "claude-steps.disk.jsonl and 1 of its helpers: claude", "codex-steps.disk.jsonl: codex",
    ]  # fmt: skip
    assert "Grep h (helper a1)" in out
    assert "calls   5 begun" in out
    _, out, _ = call(str(tmp_path / "agent-a1.jsonl"))
    assert out.startswith("agent-a1.jsonl: claude")


def test_generic_rules(call: Verb) -> None:
    """Rules make a transcript of any program's records."""
    path = str(corpus.FOLDER / "generic-steps.disk.jsonl")
    words = [word for rule in corpus.RULES for word in ("--rule", rule)]
    _, out, _ = call(path, *words)
    assert "calls   4 begun, 2 ok, 2 failed" in out
    _, out, _ = call(path, "--dialect", "generic")
    assert "calls   none" in out


def test_a_line_that_is_not_finished(call: Verb, tmp_path: Path) -> None:
    """A last line without its end counts if it is whole, and is not called bad if not; bad ones are counted."""
    data = (corpus.FOLDER / "claude-steps.disk.jsonl").read_bytes()
    path = tmp_path / "t.jsonl"
    path.write_bytes(data.rstrip(b"\n"))
    _, whole, err = call(str(path), "--summary")
    assert (err, "16 records" in whole) == ("", True)
    path.write_bytes(data + b'{"type":"us')
    _, out, err = call(str(path), "--summary")
    assert (err, out) == ("", whole)
    path.write_bytes(b"{rotten\n" + data)
    _, out, err = call(str(path), "--summary")
    assert err == f"longwatch: {path}: 1 lines are no records\n"


def test_json(call: Verb) -> None:
    """The same for programs, with one schema number."""
    _, out, _ = call(SILENCES, "--json", "--idle", "5m", "--call", "off")
    answer = json.loads(out)
    (found,) = answer["replays"]
    assert answer["schema"] == 1
    assert (found["dialect"], found["source"], found["session"], found["records"], found["bad"]) == (
        "claude",
        "disk",
        "s-1",
        8,
        0,
    )
    assert found["events"][3] == {
        "at": "2030-01-02T03:04:26.000Z",
        "kind": "tool_call",
        "sub": "",
        "said": "Bash build",
    }
    assert found["gaps"][0] == {
        "began": "2030-01-02T03:04:26.000Z",
        "span_ms": 900_000,
        "state": "call",
        "tool": "Bash",
    }
    assert found["limits"] == {
        "idle": {
            "window_ms": 300_000, "budgets_ms": {}, "action": "stop", "left_ms": None,
            "fired": [{"at": "2030-01-02T03:25:35.000Z", "since": "2030-01-02T03:20:35.000Z", "subject": "", "window_ms": 300_000, "quiet_ms": 120_000}],
        }
    }  # fmt: skip
    _, out, _ = call(SILENCES, "--json", "--summary")
    assert "events" not in json.loads(out)["replays"][0]


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["gone.jsonl"], 1, "gone.jsonl: No such file or directory"),
        ([], 2, "replay: FILE missing; write longwatch replay [OPTIONS] FILE..."),
        ([SILENCES, "--dialect", "cluade"], 2, "--dialect cluade: no such dialect; did you mean claude?"),
        ([SILENCES, "--idle", "5"], 2, "replay: --idle 5: a bare number is no duration; write 5s or 5m"),
        ([SILENCES, "--rule", "x"], 2, "--rule x: no rule; write KIND: CONDITIONS -> FIELDS"),
        ([SILENCES, "--rule", "text: a", "--dialect", "codex"], 2, "--rule: codex has its own"),
        ([SILENCES, "--dailect", "x"], 2, "replay: unknown option --dailect; did you mean --dialect?"),
    ],
)
def test_refusals(words: list[str], status: int, error: str, call: Verb) -> None:
    """What a user can do wrong ends as one line that says what to do."""
    found, out, err = call(*words)
    assert (found, out) == (status, "")
    assert err.startswith(f"longwatch: {error}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "nothing in it"), (b"plain\n", "no dialect knows it; name one: --dialect codex|")],
)
def test_files_that_are_no_transcripts(data: bytes, words: str, call: Verb, tmp_path: Path) -> None:
    """A file that is empty, or that nobody knows, is named."""
    path = tmp_path / "t"
    path.write_bytes(data)
    status, _, err = call(str(path))
    assert status == 2
    assert err.startswith(f"longwatch: {path}: {words}")


def test_a_missing_package_is_named(call: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package the verb says which, and how to get it."""
    for name in [
        name
        for name in sys.modules
        if name.startswith(("longwatch.learn", "longwatch.observe.dialects", "longwatch.cli.replayed"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    status, _, err = call(SILENCES)
    assert (status, err) == (
        2,
        "longwatch: replay needs the package msgspec; install it with: pip install 'longwatch[all]'\n",
    )


def test_the_example_of_the_docs_is_in_the_corpus() -> None:
    """The session that the how-to page shows is the one that is replayed here."""
    page = (ROOT / "docs" / "how-to" / "replay.md").read_text()
    assert all(f"> {line}\n" in page for line in Path(SILENCES).read_text().splitlines())


def test_help() -> None:
    """Help names the limits with the words of the option table."""
    done: Result = CliRunner().invoke(verbs.GROUP, ["replay", "--help"])
    assert "--call [TOOL=]DURATION" in done.output
    assert "--loop" not in done.output


SAID: dict[e.Event, str] = {
    e.SessionStarted("s"): "s",
    e.SessionEnded(ok=False, reason="rate"): "failed rate",
    e.SessionEnded(): "ok",
    e.TurnStarted(): "user",
    e.TurnEnded("max"): "max",
    e.Text("secret"): "6 characters",
    e.Thinking(7): "7 characters",
    e.ToolCalled("c", "Bash", "secret"): "Bash c",
    e.ToolResult("c", partial=True): "c still runs",
    e.ToolResult("c", ok_native=False, result="secret"): "c failed",
    e.ToolResult("c", exit_code=3): "c failed with exit code 3",
    e.Heartbeat("mcp_progress", "c"): "mcp_progress c",
    e.Retry(2, 500, 529, "overload"): "attempt 2 overload 529 in 500ms",
    e.Limited("usage", 7_200_000): "usage for 2h",
    e.Limited("usage", lifted=True): "lifted",
    e.Permission("waiting", "q", "Bash"): "waiting Bash",
    e.Subagent("start", "a\x1b[31m"): "start a?[31m",
    e.Compacted(): "end",
    e.Failed("auth", 401, fatal=True, message="secret"): "fatal auth 401",
    e.Restarted(): "",
    e.Usage("m", 10, 20, 5, 0.25): "",
}


@pytest.mark.parametrize("event", SAID, ids=lambda event: event.kind)
def test_what_is_said_of_an_event(event: e.Event) -> None:
    """Of each kind of event names and counts are told, never words; what is drawn by control sequences is not."""
    assert said(event) == SAID[event]
    assert {type(event) for event in SAID} == set(e.KINDS.values())


def test_a_loop_and_a_ceiling(call: Verb, tmp_path: Path) -> None:
    """Repetitions are told, and of a limit of time only from when it counted."""
    lines = [
        {"ts": corpus.BEGIN + 1_000 * n, "ev": ev, "id": n, "rc": 0} for n in range(8) for ev in ("begin", "end")
    ]  # fmt: skip
    path = tmp_path / "t"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rules = [
        "--rule",
        "tool_call: ev=begin -> call=id tool=ev",
        "--rule",
        "tool_result: ev=end -> call=id exit_code=rc",
    ]
    _, out, _ = call(str(path), *rules, "--ceiling", "5s", "--stall", "1s", "--ask", "1m")
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert "begin came 5 times in 20 calls with the same result" in shown
    assert "after 5s from the start" in shown
    assert "ceiling 5s: would have stopped it, with 2s of the session to come" in shown
