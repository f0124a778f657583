"""What is particular to the other agents."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import corpus
from longwatch.errors import UsageError
from longwatch.observe import events as e
from longwatch.observe.dialects import load, opencode
from longwatch.observe.dialects.generic import find, parse, with_rules

AT = "2030-01-02T03:04:05.000Z"
QUOTA = "429 You exceeded your current quota, please check your plan and billing details."


def told(name: str, source: str, *lines: dict[str, Any]) -> list[e.Event]:
    return corpus.read_lines(name, source, *lines).events


# -- Copilot


def envelope(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "timestamp": AT}


def complete(**data: Any) -> dict[str, Any]:
    return envelope("tool.execution_complete", toolCallId="c", **data)


COPILOT: dict[str, tuple[list[dict[str, Any]], list[e.Event]]] = {
    "denied": (
        [complete(success=False, error={"code": "denied"})],
        [e.ToolCalled("c"), e.ToolResult("c", ok_native=False, why="denied", result="")],
    ),
    "failed": (
        [complete(success=False, error={"code": "failure"})],
        [e.ToolCalled("c"), e.ToolResult("c", ok_native=False, why="error", result="")],
    ),
    "asked": (
        [envelope("permission.requested", requestId="q", permissionRequest={"kind": "shell"}),
         envelope("permission.completed", requestId="q", result={"kind": "approved-once"})],
        [e.Permission("waiting", "q", "shell"), e.Permission("allowed", "q")],
    ),
    "nobody to ask": (
        [envelope("permission.completed", requestId="q", result={"kind": "denied-could-not-request-from-user"})],
        [e.Permission("auto_denied", "q")],
    ),
    "refused": (
        [envelope("permission.completed", requestId="q", result={"kind": "denied-interactively"})],
        [e.Permission("denied", "q")],
    ),
    "a question": (
        [envelope("user_input.requested", requestId="q"), envelope("user_input.completed", requestId="q")],
        [e.Permission("waiting", "q", "user_input"), e.Permission("allowed", "q")],
    ),
    "pieces": (
        [envelope("assistant.message_delta", messageId="m", deltaContent="hi"), envelope("assistant.message", messageId="m", content="hi"),
         envelope("assistant.reasoning_delta", deltaContent="hm"), envelope("assistant.tool_call_delta")],
        [e.Text("hi"), e.Thinking(2), e.Thinking(0)],
    ),
    "a tool's output": ([envelope("tool.shell_output", toolCallId="c")], [e.Heartbeat("tool_progress", "c")]),
    "retry": (
        [envelope("model.call_failure", statusCode=429), envelope("assistant.turn_retry", reason="rate_limit")],
        [e.Limited("rate"), e.Retry(cls="rate")],
    ),
    "overload": (
        [envelope("model.call_failure", statusCode=503), envelope("assistant.turn_retry", reason="api_error")],
        [e.Retry(cls="overload")],
    ),
    "usage": (
        [envelope("session.error", errorType="rate_limit", errorCode="user_weekly_limited", message="no", statusCode=429)],
        [e.Failed("usage", 429, fatal=True, message="no"), e.Limited("usage", None, "user_weekly_limited"), e.TurnEnded("error", ok=False)],
    ),
    "login": (
        [envelope("session.error", errorType="authentication", message="no")],
        [e.Failed("auth", fatal=True, message="no"), e.Limited("auth"), e.TurnEnded("error", ok=False)],
    ),
    "other error": (
        [envelope("session.error", errorType="query", message="no")],
        [e.Failed("query", fatal=True, message="no"), e.TurnEnded("error", ok=False)],
    ),
    "helper": (
        [envelope("subagent.started", toolCallId="c"), envelope("subagent.failed", toolCallId="c"), envelope("subagent.completed", toolCallId="c")],
        [e.Subagent("start", "c", "c"), e.Subagent("failed", "c"), e.Subagent("end", "c")],
    ),
    "compaction": (
        [envelope("session.compaction_start"), envelope("session.compaction_complete")],
        [e.Compacted("start"), e.Compacted("end")],
    ),
    "abort": ([envelope("abort")], [e.TurnEnded("aborted", ok=False)]),
    "resumed": ([envelope("session.resume", resumeTime=AT)], [e.SessionStarted(resumed=True)]),
    "no step": ([envelope("assistant.turn_end")], []),
    "failure": ([{"type": "result", "exitCode": 1}], [e.SessionEnded(ok=False, reason="exit 1")]),
    "damaged type": ([envelope("tool.e******ecution_start", toolCallId="c")], []),
}  # fmt: skip


@pytest.mark.capability("OBS-3")
@pytest.mark.parametrize("name", COPILOT)
def test_copilot(name: str) -> None:
    """Each of its envelopes is told as what it means."""
    lines, expected = COPILOT[name]
    assert told("copilot", "disk", *lines) == expected


@pytest.mark.capability("OBS-3")
def test_copilot_shell_that_runs_on() -> None:
    """A success without an exit code that says it still runs is no finished call; the turn's end ends it."""
    still = complete(
        success=True, result={"content": "<command with shellId: 1 is still running after 30 seconds>"}
    )
    ends = [envelope("assistant.message", content="ok"), envelope("assistant.turn_end")]
    events = told(
        "copilot", "disk", envelope("tool.execution_start", toolCallId="c", toolName="bash"), still, *ends
    )
    assert events[1] == e.ToolResult("c", partial=True)
    assert events[-2:] == [e.ToolResult("c", ok_native=False, why="orphaned"), e.TurnEnded()]


def test_copilot_helpers_are_in_the_same_file() -> None:
    """A helper's records carry its id; the end of its step ends no turn of ours."""
    lines = [envelope("assistant.message", content="x"), envelope("assistant.turn_end")]
    records = corpus.read_lines("copilot", "disk", *[{**line, "agentId": "a"} for line in lines]).records
    assert [record.sub for record in records] == ["a", "a"]


# -- Gemini and Qwen


@pytest.mark.capability("OBS-4")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"Attempt 1 failed with status 429. Retrying with backoff... ApiError",
            [e.Retry(1, status=429, cls="rate")],
        ),
        (b"Attempt 3 failed with status 503. Retrying with backoff...", [e.Retry(3, status=503)]),
        (b"Attempt 2 failed. Retrying with backoff...", [e.Retry(2)]),
        (b"say: Attempt 2 failed. Retrying", []),
        (
            b"Error when talking to Gemini API Full report available at: /x.json TerminalQuotaError: You have exhausted your daily quota on this model.",
            [
                e.Failed("usage", fatal=True, message="You have exhausted your daily quota on this model."),
                e.Limited("usage"),
            ],
        ),
        (b"\xff\xfe", []),
    ],
)
def test_gemini_retries_on_stderr(line: bytes, expected: list[e.Event]) -> None:
    """Retries of Gemini and Qwen are words on stderr and nowhere else."""
    for reader in (
        load("gemini").reader("stream"),
        load("qwen").reader("stream"),
        load("qwen").reader("disk"),
    ):
        assert [event for record in reader.stderr(line) for event in record.events] == expected
    assert load("claude").reader("stream").stderr(line) == []


GEMINI: dict[str, tuple[list[dict[str, Any]], list[e.Event]]] = {
    "quota": (
        [{"type": "result", "status": "error", "error": {"message": "You have exhausted your daily quota on this model.", "code": 429}}],
        [e.Failed("usage", 429, fatal=True, message="You have exhausted your daily quota on this model."), e.Limited("usage"),
         e.TurnEnded("error", ok=False), e.SessionEnded(ok=False, reason="usage")],
    ),
    "odd end": (
        [{"type": "result", "status": "error", "error": {"message": "loop", "type": "LoopDetected"}}],
        [e.Failed("LoopDetected", fatal=True, message="loop"), e.TurnEnded("error", ok=False), e.SessionEnded(ok=False, reason="LoopDetected")],
    ),
    "cancelled": (
        [{"type": "tool_result", "tool_id": "c", "status": "cancelled", "output": "x"}],
        [e.ToolCalled("c"), e.ToolResult("c", ok_native=False, why="interrupted", result="x")],
    ),
    "error": ([{"type": "error", "severity": "error", "message": "bad"}], [e.Failed(message="bad")]),
    "warning": ([{"type": "error", "severity": "warning", "message": "bad"}], []),
}  # fmt: skip


@pytest.mark.capability("OBS-4")
@pytest.mark.parametrize("name", GEMINI)
def test_gemini_stream(name: str) -> None:
    """Each record of the stream is told as what it means."""
    lines, expected = GEMINI[name]
    assert told("gemini", "stream", *lines) == expected


def test_gemini_older_files_are_rewritten() -> None:
    """An older chat file is one object, written anew with each message: what is new in it counts once."""
    first = {"id": "1", "type": "user", "content": "go", "timestamp": AT}
    call = {
        "id": "c",
        "name": "run",
        "status": "error",
        "result": [{"functionResponse": {"response": {"error": "no"}}}],
    }
    second = {
        "id": "2",
        "type": "gemini",
        "content": "hm",
        "thoughts": [{"description": "long"}],
        "toolCalls": [call],
    }
    third = {"id": "3", "type": "error", "content": "429 Too Many Requests"}
    head = {"sessionId": "s", "projectHash": "p", "startTime": AT}
    reader = load("gemini").reader()
    found = [[event.kind for record in reader.take({**head, "messages": messages}) for event in record.events] for messages in ([first], [first, second], [first, second, third])]  # fmt: skip
    assert found == [
        ["session_start", "turn_start"],
        ["thinking", "text", "tool_call", "tool_result"],
        ["error"],
    ]


def test_gemini_helpers_have_files_of_their_own() -> None:
    """The header of a helper's file says so."""
    head = {"sessionId": "s", "projectHash": "p", "startTime": AT, "kind": "subagent"}
    assert corpus.read_lines("gemini", "disk", head).records[0].sub == "s"


def qwen(kind: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": f"{kind}{len(str(fields))}", "timestamp": AT, "type": kind, **fields}


def telemetry(name: str, **fields: Any) -> dict[str, Any]:
    return qwen(
        "system",
        subtype="ui_telemetry",
        systemPayload={"uiEvent": {"event.name": f"qwen-code.{name}", **fields}},
    )


QWEN: dict[str, tuple[list[dict[str, Any]], list[e.Event]]] = {
    "limit": (
        [telemetry("api_error", status_code=429, error_message=QUOTA)],
        [e.Failed("usage", 429, message=QUOTA), e.Limited("usage")],
    ),
    "aborted": (
        [telemetry("api_error", error_type="APIUserAbortError", error_message="Request was aborted.")],
        [e.Failed("APIUserAbortError", message="Request was aborted.")],
    ),
    "other telemetry": ([telemetry("api_response", status_code=200)], []),
    "compaction": ([qwen("system", subtype="chat_compression")], [e.Compacted("end")]),
    "thought": (
        [qwen("assistant", message={"parts": [{"text": "hm", "thought": True}]})], [e.Thinking(2), e.TurnEnded()],
    ),
    "nothing said": ([qwen("assistant", message={"parts": []})], []),
    "cancelled": (
        [qwen("tool_result", toolCallResult={"callId": "c", "status": "cancelled"}, message={"parts": [{"functionResponse": {"response": {"error": "x"}}}]})],
        [e.ToolCalled("c"), e.ToolResult("c", ok_native=False, why="interrupted", result="x")],
    ),
    "failed": (
        [qwen("tool_result", toolCallResult={"status": "error"}, message={"parts": [{"functionResponse": {"id": "c"}}]})],
        [e.ToolCalled("c"), e.ToolResult("c", ok_native=False, why="error", result="")],
    ),
}  # fmt: skip


@pytest.mark.capability("OBS-4")
@pytest.mark.parametrize("name", QWEN)
def test_qwen(name: str) -> None:
    """Each record of a chat file is told as what it means."""
    lines, expected = QWEN[name]
    assert told("qwen", "disk", *lines) == expected


@pytest.mark.fault("K3")
def test_qwen_calls_an_error_a_success() -> None:
    """Its last word may be an error that it flags as a success, with exit status 0."""
    line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "[API Error: 401 Incorrect API key]",
    }
    events = told("qwen", "stream", line)
    assert events[1:] == [
        e.Limited("auth"),
        e.TurnEnded("error", ok=False),
        e.SessionEnded(ok=False, reason="auth"),
    ]
    line["result"] = "[API Error: odd]"
    assert told("qwen", "stream", line)[0] == e.Failed(fatal=True, message="[API Error: odd]")


# -- opencode


def stored(path: Path, *rows: dict[str, Any]) -> opencode.Database:
    """Append events to the database and return a fresh reading of it."""
    with sqlite3.connect(path) as connection:
        for place, row in enumerate(rows):
            corpus.add_event(connection, 1_000 + place, row)
    connection.close()
    return opencode.Database(str(path))


def part(seq: int, owner: str = "ses_1", **fields: Any) -> dict[str, Any]:
    data = {
        "sessionID": owner,
        "part": {"id": f"x{seq}", "messageID": "n", **fields},
        "time": corpus.BEGIN + 9_000,
    }
    return {"aggregate_id": owner, "seq": seq, "type": "message.part.updated.1", "data": data}


@pytest.mark.capability("OBS-5")
def test_opencode_goes_on_behind_its_marks(tmp_path: Path) -> None:
    """A database is read once: later looks bring what is new, also those of another process."""
    path = corpus.database(tmp_path)
    base = opencode.Database(str(path))
    assert base.newest() == "ses_1"
    assert len(list(base.read("ses_1"))) > 10
    assert list(base.read("ses_1")) == []
    again = stored(path, part(99, type="text", text="more"))
    again.marks.update(base.marks)
    (record,) = again.read("ses_1")
    assert (record.events, record.pos, record.source, record.session) == (
        (e.Text("more"),),
        99,
        "db",
        "ses_1",
    )


@pytest.mark.capability("OBS-5")
def test_opencode_helpers_are_sessions_below(tmp_path: Path) -> None:
    """What a helper does comes with its id, and the end of its turn is not ours."""
    tool = {"type": "tool", "callID": "h", "tool": "bash", "state": {"status": "running", "input": {}}}
    base = stored(
        corpus.database(tmp_path),
        part(0, "ses_2", **tool),
        part(1, "ses_2", type="step-finish", reason="stop"),
    )
    found = [record for record in base.read("ses_1") if record.sub]
    assert [(record.sub, record.session, [event.kind for event in record.events]) for record in found] == [
        ("ses_2", "ses_1", ["tool_call"]), ("ses_2", "ses_1", ["turn_end"]),
    ]  # fmt: skip


@pytest.mark.capability("OBS-5")
def test_opencode_is_read_beside_its_writer(tmp_path: Path) -> None:
    """Reading neither waits for a writer's transaction nor keeps one from writing."""
    path = corpus.database(tmp_path)
    with sqlite3.connect(path) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        corpus.add_event(writer, 5_000, part(98, type="text", text="soon"))
        reading = opencode.Database(str(path)).read("ses_1")
        next(reading)
        writer.execute("COMMIT")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("COMMIT")
        reading.close()
    writer.close()


@pytest.mark.capability("OBS-5")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            {"status": "error", "error": "The user rejected permission to use this tool"},
            (False, None, "denied"),
        ),
        ({"status": "error", "error": "boom"}, (False, None, "error")),
        ({"status": "completed", "metadata": {"exit": 2}, "output": "x"}, (True, 2, "")),
    ],
)
def test_opencode_results(state: dict[str, Any], expected: tuple[object, ...], tmp_path: Path) -> None:
    """Flag, exit code and reason of a call that is over."""
    tool = {"type": "tool", "callID": "t", "tool": "bash", "state": state}
    found = list(stored(corpus.database(tmp_path), part(97, **tool)).read("ses_1"))
    result = found[-1].events[-1]
    assert isinstance(result, e.ToolResult)
    assert (result.ok_native, result.exit_code, result.why) == expected


def test_opencode_other_parts_and_errors(tmp_path: Path) -> None:
    """Thoughts, compactions, errors, and rows that are something else, or nothing."""
    rows = [
        part(90, type="reasoning", text="hm"),
        part(91, type="compaction"),
        part(92, type="text", text="x" * 2_000_000),
        {"aggregate_id": "ses_1", "seq": 93, "type": "message.updated.1",
         "data": {"info": {"id": "bad", "role": "assistant", "error": {"name": "APIError", "data": {"message": "429 rate_limit", "statusCode": 429, "isRetryable": True}}}}},
        {"aggregate_id": "ses_1", "seq": 94, "type": "message.updated.1", "data": {"info": {"id": "off", "error": {"name": "MessageAbortedError"}}}},
        {"aggregate_id": "ses_1", "seq": 95, "type": "todo.updated.1", "data": [1]},
    ]  # fmt: skip
    found = list(stored(corpus.database(tmp_path), *rows).read("ses_1"))[-6:]
    assert [[event.kind for event in record.events] for record in found] == [
        ["thinking"], ["compaction"], [], ["error", "limit", "turn_end"], ["turn_end"], [],
    ]  # fmt: skip


def test_opencode_stream_errors() -> None:
    """An error in the stream ends the turn, and names what it is."""
    line = {
        "type": "error",
        "timestamp": corpus.BEGIN,
        "sessionID": "s",
        "error": {"name": "ProviderAuthError", "data": {"statusCode": 401}},
    }
    assert told("opencode", "stream", line)[1:] == [
        e.Failed("auth", 401, fatal=True, message="ProviderAuthError"), e.Limited("auth"), e.TurnEnded("error", ok=False),
    ]  # fmt: skip


def test_opencode_without_a_database(tmp_path: Path) -> None:
    """What is no database of opencode's is an OSError that names the file."""
    with pytest.raises(OSError, match=r"gone#1\.db: unable to open"):
        opencode.Database(str(tmp_path / "gone#1.db")).newest()
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE session (id text, parent_id text, time_created int)")
    other.close()
    assert opencode.Database(str(tmp_path / "other.db")).newest() == ""
    with pytest.raises(OSError, match="no such table: event"):
        list(opencode.Database(str(tmp_path / "other.db")).read("s"))


# -- pi


def spoken(**message: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": AT, "message": message}


@pytest.mark.capability("OBS-6")
def test_pi_calls_of_a_broken_reply_are_never_made() -> None:
    """A reply that broke off may hold calls; nobody makes them."""
    block = {"type": "toolCall", "id": "c", "name": "bash"}
    events = told("pi", "disk", spoken(role="assistant", content=[block], stopReason="aborted"))
    assert events[1:] == [
        e.ToolResult("c", ok_native=False, why="orphaned"),
        e.TurnEnded("aborted", ok=False),
    ]


PI: dict[str, tuple[str, list[dict[str, Any]], list[e.Event]]] = {
    "error on disk": (
        "disk", [spoken(role="assistant", content=[], stopReason="error", errorMessage=QUOTA)],
        [e.Failed("usage", message=QUOTA), e.Limited("usage"), e.TurnEnded("error", ok=False)],
    ),
    "retries": (
        "stream",
        [{"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": QUOTA}}, {"type": "agent_end"},
         {"type": "auto_retry_start", "attempt": 1, "delayMs": 2_000, "errorMessage": QUOTA}, {"type": "agent_start"}, {"type": "agent_end"}],
        [e.Failed("usage", message=QUOTA), e.TurnEnded("error", ok=False), e.Retry(1, 2_000, cls="usage"), e.Limited("usage", 2_000),
         e.SessionEnded()],
    ),
    "retries over": (
        "stream", [{"type": "auto_retry_end", "success": False, "finalError": QUOTA}], [e.SessionEnded(ok=False, reason="usage")],
    ),
    "recovered": ("stream", [{"type": "auto_retry_end", "success": True}], []),
    "retry without a delay": (
        "stream", [{"type": "auto_retry_start", "errorMessage": "overloaded"}], [e.Retry(cls="overload")],
    ),
    "thinking": (
        "disk", [spoken(role="assistant", content=[{"type": "thinking", "thinking": "hm"}], stopReason="length")],
        [e.Thinking(2), e.TurnEnded("max", ok=False)],
    ),
    "words come": ("stream", [{"type": "message_update", "message": {}}], [e.Thinking(0)]),
    "a tool moves": (
        "stream", [{"type": "tool_execution_update", "toolCallId": "c", "partialResult": {"content": [{"type": "text", "text": "x"}]}}],
        [e.Heartbeat("tool_progress", "c")],
    ),
    "compaction": ("disk", [{"type": "compaction"}], [e.Compacted("end")]),
    "other roles": ("disk", [spoken(role="bashExecution")], []),
}  # fmt: skip


@pytest.mark.capability("OBS-6")
@pytest.mark.parametrize("name", PI)
def test_pi(name: str) -> None:
    """Each of its records is told as what it means."""
    source, lines, expected = PI[name]
    assert told("pi", source, *lines) == expected


# -- anything else


RULES = [
    "record: -> at=when uid=n session=run sub=who",
    "session_start: t=hello -> session=run cwd=dir",
    "tool_call: t=begin -> tool=name arguments=input",
    "tool_result: t=end -> tool=name failed=err",
    "heartbeat: t=tick",
    "heartbeat: t=move -> call=name",
    "retry: t=again -> attempt=k delay=ms",
    "limit: t=wait status!=200 -> until=reset span=ms message=why",
    "permission: t=ask -> question=q",
    "answer: t=answer -> question=q",
    "compaction: t=pack",
    "thinking: t=think -> text=parts.0.text",
    "error: t=fail -> message=why status=code",
    "turn_start: t=go",
    "turn_end: t=stop -> failed=err",
    "session_end: t=bye -> failed=err reason=why",
]

GENERIC: dict[str, tuple[dict[str, Any], list[e.Event]]] = {
    "hello": ({"run": "r", "dir": "/w"}, [e.SessionStarted("r", cwd="/w")]),
    "begin": ({"name": "make", "input": [1]}, [e.ToolCalled("make", "make", [1])]),
    "end": (
        {"name": "make", "err": True},
        [e.ToolCalled("make", "make"), e.ToolResult("make", ok_native=False, why="error")],
    ),
    "tick": ({}, [e.Heartbeat("keep_alive")]),
    "move": ({"name": "make"}, [e.Heartbeat("tool_progress", "make")]),
    "again": ({"k": 2, "ms": 500}, [e.Retry(2, 500)]),
    "wait": ({"ms": 900}, [e.Limited("usage", 900)]),
    "ask": ({"q": 7}, [e.Permission("waiting", "7")]),
    "answer": ({"q": 7}, [e.Permission("allowed", "7")]),
    "pack": ({}, [e.Compacted("end")]),
    "think": ({"parts": [{"text": "hm"}]}, [e.Thinking(2)]),
    "fail": ({"why": "no", "code": 500}, [e.Failed(status=500, message="no")]),
    "go": ({}, [e.TurnStarted()]),
    "stop": ({"err": None}, [e.TurnEnded()]),
    "bye": ({"err": True, "why": "done"}, [e.SessionEnded(ok=False, reason="done")]),
    "else": ({}, []),
}


@pytest.mark.capability("OBS-8")
@pytest.mark.parametrize("word", GENERIC)
def test_generic(word: str) -> None:
    """Rules say which record means what; what no rule names is a sign of life."""
    fields, expected = GENERIC[word]
    (record,) = with_rules(RULES).reader().take({"t": word, "when": 1_893_553_445, **fields})
    assert (list(record.events), record.at) == (expected, corpus.BEGIN)


def test_generic_fields_of_all_records() -> None:
    """Time, session, helper and id stand where the rule says; an id counts once, a time by its name without a rule."""
    reader = with_rules(RULES).reader()
    line = {"t": "go", "n": 1, "run": "r", "who": "a", "when": "2030-01-02T03:04:05Z"}
    first, again = reader.take(line)[0], reader.take(line)[0]
    assert (first.session, first.sub, first.uid, first.at) == ("r", "a", "1", corpus.BEGIN)
    assert (len(first.events), len(again.events)) == (1, 0)
    assert load("generic").reader().take({"ts": 1_893_553_445_000})[0].at == corpus.BEGIN


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tool", "tool: no rule; write KIND: CONDITIONS -> FIELDS"),
        ("tool_cal: x=1", "tool_cal: no such kind of rule; did you mean tool_call"),
        ("zzz: x=1", "zzz: no such kind of rule; kinds are record"),
        ("text: x=1 -> words=y", "words=y: no field of text; write NAME=PATH, names are text"),
        ("compaction: x -> text=y", "names are none"),
        ("text: x=1 -> text=", "text=: no field of text"),
    ],
)
def test_rules_that_are_none(line: str, words: str) -> None:
    """A rule that cannot be read is refused in one line that says how to write it."""
    with pytest.raises(UsageError) as refused:
        parse(line)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("text: a", {"a": 0}, True),
        ("text: a", {"a": None}, False),
        ("text: a", {}, False),
        ("text: a=true", {"a": True}, True),
        ("text: a=1", {"a": 1}, True),
        ("text: a!=1", {"a": 2}, True),
        ("text: a!=1", {"a": 1}, False),
        ("text: a=x b=y", {"a": "x", "b": "z"}, False),
        ("text:", {}, True),
        ("text: a={}", {"a": {}}, False),
    ],
)
def test_conditions(rule: str, value: dict[str, Any], holds: bool) -> None:
    """All conditions of a rule have to hold."""
    assert parse(rule).matches(value) is holds


def test_paths() -> None:
    """A path goes through objects and arrays, and finds keys with dots in them."""
    value = {"a": [{"b.c": 1, "d": {"e": 2}}], "f.g": 3}
    assert [find(value, path) for path in ("a.0.d.e", "f.g", "a.1.d", "a.x", "a.0.d.e.h", "a.99999999")] == [
        2,
        3,
        None,
        None,
        None,
        None,
    ]


SHELL = "Command: cat x\nDirectory: (root)\nOutput: x\nExit Code: 0\nProcess Group PGID: {}"


@pytest.mark.parametrize(
    ("dialect", "source", "ended"),
    [
        (
            "qwen", "disk",
            lambda call, n: {"type": "tool_result", "sessionId": "s", "message": {"parts": [{"functionResponse": {
                "id": call, "response": {"output": SHELL.format(n)}}}]}, "toolCallResult": {"callId": call}},
        ),
        (
            "qwen", "stream",
            lambda call, n: {"type": "user", "message": {"content": [
                {"type": "tool_result", "tool_use_id": call, "content": SHELL.format(n)}]}},
        ),
        (
            "gemini", "disk",
            lambda call, n: {"id": call, "type": "gemini", "toolCalls": [{"id": call, "status": "success", "result": [
                {"functionResponse": {"response": {"output": SHELL.format(n)}}}]}]},
        ),
        (
            "copilot", "disk",
            lambda call, n: {"type": "tool.execution_complete", "data": {"toolCallId": call, "success": True, "result": {
                "content": f"x\n<shellId: {n} completed with exit code 0>"}}},
        ),
    ],
)  # fmt: skip
def test_equal_results_look_equal(dialect: str, source: str, ended: Any) -> None:
    """An id that is given out anew with each result is no difference: the same answer is the same answer."""
    events = corpus.read_lines(dialect, source, ended("c1", 101), ended("c2", 202)).events
    results = [event.result for event in events if isinstance(event, e.ToolResult)]
    assert len(results) == 2
    assert results[0] == results[1]
    assert "x" in str(results[0])
