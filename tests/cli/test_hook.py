"""`longwatch hook`: what an agent tells its hooks becomes a line in its run, and the agent notices nothing of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
import helpers
from folders import verb
from longwatch.cli import hook
from longwatch.cli.hook_config import EVENTS
from longwatch.observe.hooks import Hooks
from test_import_budget import BARRED, imported

SECRET = "do the secret thing"
CALL = {
    "session_id": "s-1",
    "transcript_path": "/home/me/s-1.jsonl",
    "cwd": "/srv",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": SECRET, "run_in_background": True},
    "tool_use_id": "c1",
}


def tell(message: object, run: str | None = None, **options: Any) -> helpers.Finished:
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return helpers.run_cli("hook", env={"LONGWATCH_RUN_ID": run}, input=text, **options)


@pytest.mark.capability("OBS-7")
def test_a_hook_leaves_a_line_in_the_innermost_run(state: Path) -> None:
    """What says which call of which tool began goes into the channel of the run around it; the agent hears nothing."""
    run = folders.make(state)
    done = tell(CALL, f"outer-abcdef/{run.run}")
    assert (done.code, done.out, done.err) == (0, "", "")
    (left,) = run.channel()
    assert {
        key: left[key] for key in ("op", "event", "session", "call", "tool", "transcript", "background")
    } == {
        "op": "hook",
        "event": "PreToolUse",
        "session": "s-1",
        "call": "c1",
        "tool": "Bash",
        "transcript": "/home/me/s-1.jsonl",
        "background": True,
    }
    assert isinstance(left["at_ms"], int)
    assert isinstance(left["wall_ms"], int)


@pytest.mark.parametrize(
    "said",
    [
        {"hook_event_name": "UserPromptSubmit", "prompt": SECRET},
        {"hook_event_name": "Stop", "last_assistant_message": SECRET},
        {"hook_event_name": "PostToolUse", "tool_response": {"stdout": SECRET}, "tool_input": {"x": SECRET}},
        {"hook_event_name": "PostToolUseFailure", "error": f"Exit code 1\n{SECRET}"},
        {"hook_event_name": "PermissionDenied", "reason": SECRET},
        {"hook_event_name": "Notification", "message": f"needs your permission: {SECRET}"},
        {"hook_event_name": "PostCompact", "compact_summary": SECRET},
        {"hook_event_name": "SubagentStop", "last_assistant_message": SECRET, "agent_id": "h"},
    ],
    ids=lambda said: said["hook_event_name"],
)
def test_nothing_that_was_said_is_kept(said: dict[str, Any]) -> None:
    """No prompt, no argument, no answer: kinds, names, ids, and marks that tell nothing."""
    kept = hook.outline(json.dumps({**CALL, **said}).encode(), "build-abcdef")
    assert "secret" not in json.dumps(kept)
    assert kept["event"] == said["hook_event_name"]


def test_marks_are_equal_for_equal_values_of_a_run() -> None:
    """The same arguments have the same mark in one run, and another one elsewhere."""
    other = {**CALL, "tool_input": {"command": "other"}}
    marks = [
        hook.outline(json.dumps(m).encode(), run)["mark"]
        for m, run in ((CALL, "a"), (CALL, "a"), (CALL, "b"), (other, "a"))
    ]
    assert marks[0] == marks[1]
    assert len(set(marks)) == 3


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (None, CALL),
        ("", CALL),
        ("build-abcdef", CALL),  # has no folder
        ("../../etc", CALL),
        ("HERE", b"no JSON"),
        ("HERE", b""),
        ("HERE", [1]),
        ("HERE", {"hook_event_name": 5}),
        ("HERE", b'{"hook_event_name": "Stop"'),
        ("HERE", b"[" * 200_000),
    ],
)
def test_whatever_is_wrong_the_agent_goes_on(state: Path, run: str | None, message: object) -> None:
    """Outside a run, in one without a folder, or for what is no message: status 0, no word, nothing written."""
    folder = folders.make(state)
    done = tell(message, folder.run if run == "HERE" else run)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert folder.channel() == []
    assert os.listdir(state / "runs") == [folder.run]


def test_a_channel_that_cannot_be_written(state: Path) -> None:
    """A full or broken channel is the supervisor's trouble, not the agent's."""
    folder = folders.make(state)
    os.mkdir(folder.channel_path)
    assert tell(CALL, folder.run)[:3] == (0, "", "")
    full = folders.make(state)
    with open(full.channel_path, "wb") as channel:
        channel.truncate(hook.FULL)
    assert tell(CALL, full.run).code == 0
    assert os.path.getsize(full.channel_path) == hook.FULL


def test_a_large_message_is_read_by_its_ends(state: Path) -> None:
    """A picture in a result may be of any size: the message is taken to its end, and its call is known."""
    run = folders.make(state)
    begin = {key: value for key, value in CALL.items() if key != "tool_use_id"}
    said = json.dumps({**begin, "hook_event_name": "PostToolUse", "tool_input": {}})
    picture = 'x"tool_use_id":"wrong"' * 300_000
    answer = json.dumps({"data": picture, "tiles": [{"k": "v"}] * 20_000, "tool_use_id": "wrong"})
    whole = f'{said[:-1]}, "tool_response": {answer}, "tool_use_id": "c1", "duration_ms": 5}}'
    assert tell(whole.replace(": ", ":").encode(), run.run).code == 0
    (left,) = run.channel()
    assert (left["event"], left["call"], left["tool"], left["session"]) == (
        "PostToolUse",
        "c1",
        "Bash",
        "s-1",
    )
    head = b'{"session_id":"s-1","hook_event_name":"PreToolUse","tool_name":"Wr\\u0069te","tool_input":"'
    assert hook.outline(head + b"x" * 200_000 + b'","tool_use_id":7', "r") == {
        "event": "PreToolUse", "session": "s-1", "tool": "Write",
    }  # fmt: skip


def test_an_agent_that_keeps_its_pipe_open_is_not_waited_for(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the end of its message nothing is known, and after a while nobody waits for it."""
    monkeypatch.setattr(hook, "PATIENCE_MS", 50)
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"hook_event_name": "Stop"}')
        assert hook.read(reading) == b""
        os.close(writing)
        writing = -1
        assert hook.read(reading) == b""
    finally:
        for descriptor in (reading, writing):
            if descriptor >= 0:
                os.close(descriptor)


def test_the_module_works_without_the_script(state: Path) -> None:
    """`python -m longwatch hook` is the same, for installations whose script is not found."""
    run = folders.make(state)
    done = subprocess.run(
        [sys.executable, "-m", "longwatch", "hook"], input=json.dumps(CALL).encode(), capture_output=True,
        env={**os.environ, "LONGWATCH_RUN_ID": run.run}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [message["call"] for message in run.channel()] == ["c1"]


def test_a_hook_loads_next_to_nothing() -> None:
    """An agent waits for it twice a call, so it loads a handful of small modules and nothing that is dear."""
    found = imported(helpers.LONGWATCH, "hook") - imported("-c", "pass")
    assert "longwatch.cli.hook" in found
    assert not found & BARRED
    ours = [name for name in found if name.partition(".")[0] == "longwatch"]
    assert len(ours) <= 8, sorted(ours)
    assert "longwatch.cli.main" not in ours


def test_what_is_left_is_understood(state: Path) -> None:
    """Supervisor and hook agree on the message: what one leaves is an event to the other."""
    run = folders.make(state)
    tell(CALL, run.run)
    (record,) = Hooks().records(run.channel()[0])
    assert [event.kind for event in record.events] == ["session_start", "tool_call"]
    assert record.at is not None


def test_settings_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    """The fragment has every event that means something, each with our command and a bounded patience."""
    said = verb(capsys, "hook", "--print-config", "claude")
    assert said.code == 0
    assert "~/.claude/settings.json" in said.err
    hooks = json.loads(said.out)["hooks"]
    assert set(hooks) == set(EVENTS) >= {*Hooks._HANDLERS, "SessionStart"}
    (entry,) = hooks["PreToolUse"]
    assert entry["hooks"][0]["command"].endswith(" hook")
    assert entry["hooks"][0]["timeout"] == 5
    assert verb(capsys, "hook", "--print-config", "claude-code").out == said.out


def test_settings_call_us_by_name_where_that_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a PATH that leads here the name is enough; else the path is written out."""
    monkeypatch.setattr(sys, "argv", [str(helpers.LONGWATCH)])
    monkeypatch.setenv("PATH", str(helpers.LONGWATCH.parent))
    assert '"longwatch hook"' in verb(capsys, "hook", "--print-config", "claude").out
    monkeypatch.setenv("PATH", "/nowhere")
    assert f'"{helpers.LONGWATCH} hook"' in verb(capsys, "hook", "--print-config", "claude").out


def test_agents_whose_hooks_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown agent is one line with the nearest one; the verb itself is not listed."""
    said = verb(capsys, "hook", "--print-config", "claud")
    assert (said.code, said.out) == (2, "")
    assert said.err == "longwatch: --print-config claud: its hooks are not known; did you mean claude?\n"
    assert "agents are claude" in verb(capsys, "hook", "--print-config", "zzzzzzzz").err
    assert " hook " not in verb(capsys, "--help").out
    assert "--print-config" in verb(capsys, "hook", "--help").out


AGENT = """
import json, os, subprocess, sys, time
def hook(event, **fields):
    said = json.dumps({"session_id": "s-1", "hook_event_name": event, **fields}).encode()
    subprocess.run([sys.argv[1], "hook"], input=said, check=True)
call = {"tool_name": "Bash", "tool_input": {"command": "x"}}
print("a screen", flush=True)
folder = os.path.join(os.environ["XDG_STATE_HOME"], "longwatch", "runs", os.environ["LONGWATCH_RUN_ID"])
while not os.path.exists(folder):
    time.sleep(0.01)
hook("UserPromptSubmit", prompt="go")
hook("PreToolUse", tool_use_id="c1", **call)
hook("PermissionRequest", **call)
time.sleep(1.5)
hook("PostToolUse", tool_use_id="c1", **call)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.fault("C1")
@pytest.mark.capability("OBS-7")
def test_a_prompt_in_the_agents_own_interface_holds_the_limit(tmp_path: Path) -> None:
    """Known from the hook alone, a prompt outlasts several windows; the silence behind the answer is found."""
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable}\n{AGENT}")
    program.chmod(0o755)
    report = tmp_path / "report.json"
    limits = ("--pty", "--idle", "500ms", "--report", report)
    done = helpers.run_cli("run", *limits, "--", program, helpers.LONGWATCH)
    told = json.loads(report.read_text())
    assert (done.code, told["termination_reason"]) == (124, "idle")
    agent = told["agent"]
    assert (agent["session"], agent["counts"]["started"], agent["counts"]["ok"]) == ("s-1", 1, 1)
    asked = [silence["ms"] for silence in agent["longest"] if silence["state"] == "asked"]
    assert max(asked) >= 1_400
    assert told["duration_ms"] >= 1_900
    shown = [line.split("  ")[1:] for line in helpers.run_cli("logs").out.splitlines()]
    assert [words[0] for words in shown] == [
        "session_start", "turn_start", "tool_call", "permission", "permission", "tool_result",
    ]  # fmt: skip
    assert shown[-1] == ["tool_result", "Bash", "ok", "c1"]
