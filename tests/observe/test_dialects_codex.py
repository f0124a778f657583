"""What is particular to Codex: exit codes in words, and the forms that its files and its output have had."""

from typing import Any

import pytest

import corpus
from longwatch.observe import events as e
from longwatch.observe.dialects import detect, load

AT = "2030-01-02T03:04:05.000Z"
HOUR = 3_600_000
USAGE = "You\u2019ve hit your usage limit. Upgrade to Pro or try again at 5:04 AM."


def item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "response_item", "payload": payload}


def message(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "event_msg", "payload": {"type": kind, **payload}}


def call(call_id: str = "c", name: str = "exec_command", **fields: Any) -> dict[str, Any]:
    return item(type="function_call", call_id=call_id, name=name, arguments='{"cmd": "make"}', **fields)


def output(said: object, call_id: str = "c") -> dict[str, Any]:
    return item(type="function_call_output", call_id=call_id, output=said)


def told(*lines: dict[str, Any]) -> list[e.Event]:
    return corpus.read_lines("codex", "disk", *lines).events


def streamed(*lines: dict[str, Any]) -> list[e.Event]:
    return corpus.read_lines("codex", "stream", *lines).events


@pytest.mark.capability("OBS-2")
@pytest.mark.parametrize(
    ("said", "ok", "code", "why"),
    [
        ("Wall time: 1 s\nProcess exited with code 0\nOutput:\nfine", True, 0, ""),
        ("Wall time: 1 s\nProcess exited with code 3\nOutput:\n", True, 3, ""),
        ("Exit code: 2\nWall time: 1 seconds\nOutput:\nno", True, 2, ""),
        ("Output:\nProcess exited with code 9", True, None, ""),
        ("Wall time: 1\nOutput:\nProcess exited with code 9", True, None, ""),
        ('{"output":"x","metadata":{"exit_code":4,"duration_seconds":0.1}}', True, 4, ""),
        ('{"output":"x"}', True, None, ""),
        ("apply_patch verification failed: no such line", False, None, "error"),
        ("aborted by user after 3 s", False, None, "interrupted"),
        ({"content": "done", "success": True}, True, None, ""),
        ({"content": "bad", "success": False}, False, None, "error"),
        ([{"type": "input_text", "text": "Process exited with code 1\n"}], True, 1, ""),
        (None, True, None, ""),
    ],
)
def test_outputs(said: object, ok: bool, code: int | None, why: str) -> None:
    """An exit code is read from above the output, never from the output itself; only Codex's own words are a flag."""
    result = told(call(), output(said))[1]
    assert isinstance(result, e.ToolResult)
    assert (result.ok_native, result.exit_code, result.why) == (ok, code, why)


def test_arguments_are_read() -> None:
    """Arguments come as a text with an object in it, or as a text."""
    (first,) = told(call())
    assert first == e.ToolCalled("c", "exec_command", {"cmd": "make"})
    (patch,) = told(item(type="custom_tool_call", call_id="c", name="apply_patch", input="*** Begin Patch"))
    assert patch == e.ToolCalled("c", "apply_patch", "*** Begin Patch")
    (shell,) = told(item(type="local_shell_call", id="c", action={"command": ["ls"]}))
    assert shell == e.ToolCalled("c", "local_shell_call", {"command": ["ls"]})
    (broken,) = told(item(type="function_call", call_id="c", name="x", arguments="{broken"))
    assert broken == e.ToolCalled("c", "x", "{broken")


def test_a_command_that_runs_on_is_no_finished_call() -> None:
    """A first answer with a session is none; the end comes in an item of its own, or with the turn."""
    running = output("Wall time: 10 seconds\nProcess running with session ID 71\nOutput:\n")
    done = message("item_completed", item={"type": "CommandExecution", "id": "c", "exit_code": 1})
    assert told(call(), running, done)[1:] == [
        e.ToolResult("c", partial=True),
        e.ToolResult("c", exit_code=1),
    ]
    assert told(call(), running, message("task_complete"))[2:] == [
        e.ToolResult("c", ok_native=False, why="orphaned"), e.TurnEnded(),
    ]  # fmt: skip


def test_an_exit_code_said_in_advance() -> None:
    """The item before an output has the exit code where the output's text has none."""
    done = message("item_completed", item={"type": "CommandExecution", "id": "c", "exit_code": 7})
    result = told(call(), done, output("no words"))[1]
    assert isinstance(result, e.ToolResult)
    assert result.exit_code == 7
    assert told(message("item_completed", item={"type": "UserMessage", "id": "x"})) == []


def test_a_search_is_begun_and_done() -> None:
    """A search by the provider is one record."""
    assert told(item(type="web_search_call", id="w", status="completed")) == [
        e.ToolCalled("w", "web_search"), e.ToolResult("w"),
    ]  # fmt: skip


def test_sessions() -> None:
    """A rollout names its conversation; that of a helper is the helper's."""
    meta = {
        "type": "session_meta",
        "timestamp": AT,
        "payload": {"id": "child", "session_id": "root", "cwd": "/w"},
    }
    own = corpus.read_lines("codex", "disk", meta)
    assert own.events == [e.SessionStarted("root", cwd="/w")]
    assert own.records[0].sub == ""
    meta["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": "root"}}}  # type: ignore[index]
    assert corpus.read_lines("codex", "disk", meta).records[0].sub == "child"


@pytest.mark.capability("OBS-2")
@pytest.mark.fault("K2", "K3")
def test_the_usage_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text has a curly apostrophe and a local time without a zone: it is read, and that is said."""
    monkeypatch.setenv("TZ", "UTC")
    line = message("task_complete", error={"message": USAGE, "codex_error_info": "usage_limit_exceeded"})
    (record,) = corpus.read_lines("codex", "disk", line).records
    assert record.events == (
        e.Failed("usage", None, fatal=True, message=USAGE), e.Limited("usage", 2 * HOUR + 55_000), e.TurnEnded("error", ok=False),
    )  # fmt: skip
    assert "taken as local time" in record.note
    (record,) = corpus.read_lines("codex", "stream", {"type": "error", "message": USAGE}).records
    assert e.Limited("usage") in record.events  # nobody knows when that was


@pytest.mark.parametrize(
    ("info", "said", "cls", "status", "limited"),
    [
        (
            {"response_too_many_failed_attempts": {"http_status_code": 429}},
            "exceeded retry limit",
            "rate",
            429,
            True,
        ),
        ("internal_server_error", "experiencing high demand", "overload", None, False),
        (None, "something else", "", None, False),
    ],
)
def test_errors(info: object, said: str, cls: str, status: int | None, limited: bool) -> None:
    """A turn that ends in an error names it; only a limit parks."""
    events = told(message("task_complete", error={"message": said, "codex_error_info": info}))
    assert events[0] == e.Failed(cls, status, fatal=True, message=said)
    assert any(isinstance(event, e.Limited) for event in events) is limited
    assert events[-1] == e.TurnEnded("error", ok=False)


def test_early_warning() -> None:
    """Token counts tell a limit that is reached, with the end of the window that is full."""
    windows = {
        "primary": {"used_percent": 100.0, "resets_at": 1_893_560_645}, "secondary": {"used_percent": 40.0, "resets_at": 1_894_000_000},
        "rate_limit_reached_type": "primary",
    }  # fmt: skip
    assert told(message("token_count", rate_limits=windows)) == [e.Limited("usage", 2 * HOUR, "primary")]
    assert told(message("token_count", rate_limits={**windows, "rate_limit_reached_type": None})) == []
    assert told(message("token_count", rate_limits=None)) == []
    windows["primary"] = None  # type: ignore[assignment]
    assert told(message("token_count", rate_limits=windows)) == [e.Limited("usage", None, "primary")]


def test_one_compaction_in_two_forms() -> None:
    """A compaction is written twice in a row, and happened once."""
    first, second = {"timestamp": AT, "type": "compacted", "payload": {}}, message("context_compacted")
    words = item(type="message", role="assistant", content=[{"type": "output_text", "text": "x"}])
    kinds = [event.kind for event in told(first, second, words, second)]
    assert kinds == ["compaction", "text", "compaction"]


def test_messages_of_older_rollouts() -> None:
    """Other things a rollout says: aborts, errors, thoughts, and what is said twice."""
    assert told(message("turn_aborted")) == [e.TurnEnded("aborted", ok=False)]
    assert told(message("error", message="bad key 401"))[0].kind == "error"
    assert told(item(type="reasoning", summary=[{"text": "hm"}])) == [e.Thinking(2)]
    assert told(message("agent_message", message="said in an item too")) == []
    assert told(item(type="message", role="user", content=[])) == []
    assert told({"timestamp": AT, "type": "turn_context", "payload": {}}) == []


def test_bare_items_of_the_oldest_rollouts() -> None:
    """The oldest rollouts are items without an envelope behind a bare first line."""
    lines = [{"id": "s", "timestamp": AT}, call()["payload"], output("Exit code: 1\n")["payload"]]
    kinds = [event.kind for event in told(*lines)]
    assert kinds == ["session_start", "tool_call", "tool_result"]
    assert told({"type": "x", "id": "s"}) == []


def test_the_older_stream() -> None:
    """Envelopes with `msg` in them: questions, retries, and begins and ends of calls."""

    def old(kind: str, **fields: Any) -> dict[str, Any]:
        return {"id": "0", "msg": {"type": kind, **fields}}

    lines = [
        old("task_started"),
        old("exec_approval_request", call_id="c", command=["rm"]),
        old("exec_command_begin", call_id="c", command=["rm"]),
        old("exec_command_end", call_id="c", exit_code=1),
        old("mcp_tool_call_begin", call_id="d"),
        old("mcp_tool_call_end", call_id="d", result={"Ok": {"isError": True}}),
        old("patch_apply_end", call_id="p", success=False),
        old("mcp_tool_call_end", call_id="f", result={"Err": "x"}),
        old("stream_error", message="Reconnecting... 2/5 (429 Too Many Requests)"),
        old("web_search_end"),
        old("task_complete"),
    ]
    events = streamed(*lines)
    assert events[:5] == [
        e.TurnStarted(), e.Permission("waiting", "c"), e.Permission("allowed", "c"),
        e.ToolCalled("c", "exec_command", ["rm"]), e.ToolResult("c", exit_code=1),
    ]  # fmt: skip
    results = {event.call: event.ok_native for event in events if isinstance(event, e.ToolResult)}
    assert results == {"c": True, "d": False, "p": False, "f": False}
    assert events[-3:] == [e.Retry(2, cls="rate"), e.Limited("rate"), e.TurnEnded()]


def test_the_stream_says_a_fatal_error_twice() -> None:
    """A limit that `turn.failed` only repeats is one limit; said there alone, it counts."""
    lines = [
        {"type": "error", "message": "usage limit"},
        {"type": "turn.failed", "error": {"message": "usage limit"}},
    ]
    assert [event.kind for event in streamed(*lines)] == [
        "error",
        "limit",
        "error",
        "turn_end",
        "session_end",
    ]
    assert [event.kind for event in streamed(lines[1])] == ["error", "limit", "turn_end", "session_end"]
    assert streamed(lines[1])[-1] == e.SessionEnded(ok=False, reason="usage")


def test_the_stream() -> None:
    """Retries, warnings, thoughts, progress of a call and refusals, each as what it is."""

    def it(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "item": {"id": "i", **fields}}

    lines = [
        it("item.completed", type="error", message="no metadata"),
        it("item.completed", type="reasoning", text="hm"),
        it("item.started", type="mcp_tool_call", tool="search", arguments={"q": 1}),
        it("item.started", type="todo_list"),
        it("item.updated", type="mcp_tool_call"),
        it("item.completed", type="mcp_tool_call", status="declined"),
        it("item.updated", type="mcp_tool_call"),
        {"type": "error", "message": "Reconnecting... 1/5 (high demand)"},
    ]
    assert streamed(*lines) == [
        e.Thinking(2), e.ToolCalled("i", "search", {"q": 1}), e.Heartbeat("tool_progress", "i"),
        e.ToolResult("i", ok_native=False, why="denied"), e.Retry(1, cls="overload"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (b'{"type":"session_meta","payload":{}}', "disk"),
        (b'{"type":"event_msg","payload":{}}', "disk"),
        (b'{"type":"function_call","call_id":"c"}', "disk"),
        (b'{"type":"turn.started"}', "stream"),
        (b'{"id":"0","msg":{"type":"session_configured"}}', "stream"),
    ],
)
def test_all_its_forms_are_known(line: bytes, source: str) -> None:
    """Each form it has had is told by its first record."""
    found = detect(line + b"\n")
    assert found is not None
    assert (found[0].name, found[1]) == ("codex", source)


ID = "01a22d6b-a941-7dc3-a169-54fc1d2fa798"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([f"session id: {ID}"], [e.SessionStarted(ID)]),
        ([f"session id: {ID}", "session id: 11111111-a941-7dc3-a169-54fc1d2fa798"], [e.SessionStarted(ID)]),
        ([f"session id: {ID} is what I read"], []),
        (["session id: ../../etc", "\udcff"], []),
        (["ERROR: Reconnecting... 2/5", "so: ERROR: Reconnecting... 3/5"], [e.Retry(2)]),
    ],
)
def test_words_on_stderr(lines: list[str], expected: list[e.Event]) -> None:
    """Without --json it names its conversation in the first lines of stderr, and tells there that it tries again."""
    reader = load("codex").reader("stream")
    records = [record for line in lines for record in reader.stderr(line.encode(errors="surrogateescape"))]
    assert [event for record in records for event in record.events] == expected


def test_the_same_output_is_the_same_result() -> None:
    """What stands above a command's output differs each time, and is none of it."""
    above = "Chunk ID: {0}a\nWall time: 0.{0} s\nProcess exited with code 0\nOutput:\n"
    printed = "Wall time: fine\nOutput:\n"
    for said, expected in (
        (above.format(1) + printed, printed),
        (above.format(2) + printed, printed),
        ("Output:\nfine", "Output:\nfine"),
    ):
        _, result = told(call(), output(said))
        assert isinstance(result, e.ToolResult)
        assert result.result == expected
