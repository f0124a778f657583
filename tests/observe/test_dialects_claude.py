"""What is particular to Claude Code: helpers, limits, questions, and the forms that its files have had."""

import json
from typing import Any

import pytest

import corpus
from longwatch.core import observations as o
from longwatch.observe import events as e
from longwatch.observe.dialects import load
from longwatch.observe.lines import SHORT, Cut, cut

AT = "2030-01-02T03:04:05.000Z"
HOUR = 3_600_000
OK: dict[str, Any] = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}


def told(*lines: dict[str, Any], source: str = "disk") -> list[e.Event]:
    """Return the events of lines, without the session's begin."""
    stamped = [{"sessionId": "s", "timestamp": AT, **line} for line in lines]
    events = corpus.read_lines("claude", source, *stamped).events
    return [event for event in events if not isinstance(event, e.SessionStarted)]


def streamed(*lines: dict[str, Any]) -> list[e.Event]:
    """Return the events of lines of the stream."""
    return told(*lines, source="stream")


def reply(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a line of the model's."""
    return {"type": "assistant", "message": {"id": "m", "content": list(blocks), **fields}}


def use(call: str = "c", tool: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": given}


def answer(block: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a line with a tool's result."""
    return {"type": "user", "message": {"role": "user", "content": [block]}, **fields}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


# -- calls


@pytest.mark.parametrize(
    ("block", "fields", "expected"),
    [
        (OK, {}, e.ToolResult("c", result="ok")),
        ({**OK, "is_error": False}, {}, e.ToolResult("c", result="ok")),
        (
            {**OK, "is_error": True, "content": "Exit code 2\nwhat"}, {},
            e.ToolResult("c", ok_native=False, exit_code=2, why="error", result="Exit code 2\nwhat"),
        ),
        (
            {**OK, "is_error": True, "content": "Exit code 137"}, {},
            e.ToolResult("c", ok_native=False, exit_code=137, why="interrupted", result="Exit code 137"),
        ),
        (
            {**OK, "is_error": True, "content": [text("no")]}, {"permissionDecision": {"decision": "reject"}},
            e.ToolResult("c", ok_native=False, why="denied", result="no"),
        ),
        (
            {**OK, "is_error": True, "content": "x"},
            {"tool_result_meta": [{"id": "c", "permission_decision": {"decision": "deny"}}]},
            e.ToolResult("c", ok_native=False, why="denied", result="x"),
        ),
        (
            {**OK, "is_error": True, "content": "The user doesn't want to proceed"}, {},
            e.ToolResult("c", ok_native=False, why="denied", result="The user doesn't want to proceed"),
        ),
        (
            {**OK, "is_error": True, "content": "x"}, {"toolUseResult": {"interrupted": True}},
            e.ToolResult("c", ok_native=False, why="interrupted", result="x"),
        ),
    ],
)  # fmt: skip
def test_results(block: dict[str, Any], fields: dict[str, Any], expected: e.ToolResult) -> None:
    """Flag, exit code and why a call failed are kept apart; a missing flag means that it went well."""
    assert told(reply(use()), answer(block, **fields))[1:] == [expected]


def test_a_result_without_its_call_makes_one() -> None:
    """Whoever begins to read in the middle misses the begin of a call, not the call."""
    assert [event.kind for event in told(answer(OK))] == ["tool_call", "tool_result"]


def test_tools_of_the_provider() -> None:
    """A search by the provider begins and ends within a reply."""
    found = {"type": "web_search_tool_result", "tool_use_id": "w", "content": []}
    failed = {**found, "tool_use_id": "v", "content": {"type": "web_search_tool_result_error"}}
    events = told(reply({"type": "server_tool_use", "id": "w", "name": "web_search"}, found, failed))
    assert [event.kind for event in events] == ["tool_call", "tool_result"] * 2
    assert [event.ok for event in events if isinstance(event, e.ToolResult)] == [True, False]


def test_background() -> None:
    """A command in the background says so when it is called."""
    (call,) = told(reply(use(command="serve", run_in_background=True)))
    assert isinstance(call, e.ToolCalled)
    assert call.background


# -- turns


@pytest.mark.parametrize(
    ("stop", "blocks", "kinds"),
    [
        ("end_turn", [text("hi")], ["text", "turn_end"]),
        ("end_turn", [{"type": "thinking", "thinking": "hm"}], ["thinking"]),
        ("stop_sequence", [text("hi")], ["text", "turn_end"]),
        ("max_tokens", [text("hi")], ["text", "turn_end"]),
        ("tool_use", [text("hi")], ["text"]),
        (None, [text("hi"), {"type": "redacted_thinking"}, {"type": "image"}], ["text", "thinking"]),
        (None, [text("")], []),
    ],
)
def test_ends_of_turns(stop: str | None, blocks: list[dict[str, Any]], kinds: list[str]) -> None:
    """Only the last words of a turn end it, not the thoughts before them on a line of their own."""
    assert [event.kind for event in told(reply(*blocks, stop_reason=stop))] == kinds


@pytest.mark.parametrize(
    ("content", "fields", "expected"),
    [
        ("do it", {}, [e.TurnStarted("user")]),
        ([text("do it")], {"promptSource": "queued"}, [e.TurnStarted("queue")]),
        ("do it", {"origin": {"kind": "task-notification"}}, [e.TurnStarted("agent")]),
        ("caveat", {"isMeta": True}, []),
        ("summary", {"isCompactSummary": True}, []),
        ([text("[Request interrupted by user]")], {}, [e.TurnEnded("aborted", ok=False)]),
    ],
)
def test_who_spoke(content: object, fields: dict[str, Any], expected: list[e.Event]) -> None:
    """A turn begins with somebody's words, not with what the program adds to them."""
    assert told({"type": "user", "message": {"content": content}, **fields}) == expected


def test_an_interruption_ends_open_calls() -> None:
    """What was called in a turn that was broken off gets no result any more."""
    line = {"type": "user", "message": {"content": "[Request interrupted by user for tool use]"}}
    assert told(reply(use()), line)[1:] == [
        e.ToolResult("c", ok_native=False, why="orphaned"), e.TurnEnded("aborted", ok=False),
    ]  # fmt: skip


# -- retries and limits


@pytest.mark.capability("OBS-1")
@pytest.mark.fault("B1", "K5")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {"subtype": "api_error", "error": {"status": 529, "message": "Overloaded"}, "retryInMs": 600, "retryAttempt": 1},
            [e.Retry(1, 600, 529, "overload")],
        ),
        (
            {"subtype": "api_retry", "attempt": 2, "retry_delay_ms": 700, "error_status": 429, "error": "rate_limit"},
            [e.Retry(2, 700, 429, "rate"), e.Limited("rate", 700)],
        ),
        (
            {
                "subtype": "api_error", "retryInMs": 30_000, "retryAttempt": 1,
                "error": {"status": 429, "rateLimits": {"rateLimitType": "five_hour", "resetsAt": 1_893_560_645}},
            },
            [e.Retry(1, 30_000, 429, "usage"), e.Limited("usage", 2 * HOUR, "five_hour")],
        ),
        ({"subtype": "api_error", "error": {"status": 500}}, [e.Failed("overload", 500)]),
        ({"subtype": "api_error", "error": "none"}, [e.Failed("overload", message="none")]),
    ],
)  # fmt: skip
def test_failed_requests(line: dict[str, Any], expected: list[e.Event]) -> None:
    """A failed request that is tried again is a retry with its delay; a limit names its reset by what is stated."""
    assert told({"type": "system", **line}) == expected


@pytest.mark.capability("OBS-1")
@pytest.mark.fault("B1")
def test_retries_and_queues_are_no_progress() -> None:
    """What grows the file of a stuck agent tells only that it lives, and how long the provider lets it wait."""
    lines = [
        {"type": "system", "subtype": "api_error", "error": {"status": 529}, "retryInMs": 600},
        {"type": "queue-operation", "operation": "enqueue", "content": "more"},
        {"type": "last-prompt", "lastPrompt": "do it"},
        {"type": "attachment", "attachment": {"type": "prompt_snapshot"}},
        {"type": "tool_progress", "tool_use_id": "c", "elapsed_time_seconds": 30},
    ]
    records = corpus.read_lines("claude", "stream", *lines).records
    heard = [seen for record in records for seen in record.observations("transcript")]
    assert heard == [o.Paused(600), *[o.AliveSeen("transcript")] * 4]


@pytest.mark.capability("OBS-1")
@pytest.mark.fault("K2", "K3")
@pytest.mark.parametrize(
    ("error", "status", "said", "expected"),
    [
        ("rate_limit", 429, "You've hit your limit \u00b7 resets 5:04am (UTC)", e.Limited("usage", 2 * HOUR + 55_000)),
        ("rate_limit", 429, "You\u2019ve hit your weekly limit \u00b7 resets Jan 3 at 3:04am (UTC)", e.Limited("usage", 24 * HOUR + 55_000)),
        ("rate_limit", 429, "API Error: Request rejected (429)", e.Limited("rate")),
        ("billing_error", 400, "Credit balance is too low", e.Limited("money")),
        ("authentication_failed", 401, "Invalid API key", e.Limited("auth")),
        ("unknown", None, "You're out of usage credits", e.Limited("money")),
        ("overloaded", 529, "API Error: 529 overloaded_error", None),
        ("rate_limit", 429, "Server is temporarily limiting requests (not your usage limit)", None),
        ("invalid_request", 400, "Prompt is too long", None),
    ],
)  # fmt: skip
def test_giving_up(error: str, status: int | None, said: str, expected: e.Limited | None) -> None:
    """The terminal error names its class; only a limit that has to be waited for parks, with the reset of its words."""
    line = reply(text(said), model="<synthetic>")
    events = told({**line, "isApiErrorMessage": True, "error": error, "apiErrorStatus": status})
    assert isinstance(events[0], e.Failed)
    assert events[0].fatal
    assert [event for event in events if isinstance(event, e.Limited)] == ([expected] if expected else [])
    assert events[-1] == e.TurnEnded("error", ok=False)
    assert not any(isinstance(event, e.Text) for event in events)


@pytest.mark.fault("K4")
def test_words_about_limits_are_only_words() -> None:
    """An agent that reads and writes about limits is not limited."""
    said = "You've hit your limit \u00b7 resets 3pm. API Error: 429 rate_limit_error"
    events = told(
        reply(text(said)),
        reply(use()),
        answer({**OK, "content": said}),
        answer({**OK, "is_error": True, "tool_use_id": "d", "content": said}),
    )
    assert not [event for event in events if isinstance(event, e.Limited | e.Retry | e.Failed)]


@pytest.mark.fault("K2")
def test_a_zone_that_is_missing_is_said() -> None:
    """A clock time without a zone is taken as local, and the record says so; one that cannot be read parks nothing."""
    line = {
        **reply(text("You've hit your limit \u00b7 resets 5:04am")),
        "isApiErrorMessage": True,
        "error": "rate_limit",
    }
    records = corpus.read_lines("claude", "disk", {"timestamp": AT, **line}).records
    assert records[0].note == 'reset "resets 5:04am" names no zone and is taken as local time'
    line["message"]["content"] = [text("You've hit your limit \u00b7 resets soon")]
    records = corpus.read_lines("claude", "disk", {"timestamp": AT, **line}).records
    assert records[0].note == 'reset "resets soon" cannot be read, so the usual backoff holds'
    assert e.Limited("usage") in records[0].events


def test_rate_limit_events() -> None:
    """The stream tells a rejection with its reset, and that it is over; a warning is none."""

    def event(**info: Any) -> dict[str, Any]:
        return {"type": "rate_limit_event", "rate_limit_info": info}

    reset = 1_893_560_645
    lines = [
        event(status="allowed_warning", utilization=0.9),
        event(status="rejected", resetsAt=reset, rateLimitType="five_hour"),
        event(status="allowed"),
        event(status="allowed"),
    ]
    assert streamed(*lines) == [e.Limited("usage", 2 * HOUR, "five_hour"), e.Limited("usage", lifted=True)]


def test_the_model_speaks_before_the_stated_end() -> None:
    """A wait that turned out shorter than stated is over when the model is heard again, and that is told first."""
    limit = {"type": "system", "subtype": "api_error", "retryInMs": 60_000, "error": {"status": 429}}
    early = {**reply(text("back")), "timestamp": "2030-01-02T03:04:35Z"}
    later = {**reply(text("back")), "timestamp": "2030-01-02T03:05:05Z"}
    assert [event.kind for event in told(limit, early, early)] == ["retry", "limit", "limit", "text", "text"]
    assert told(limit, early)[2] == e.Limited("rate", lifted=True)
    assert [event.kind for event in told(limit, later)] == ["retry", "limit", "text"]


def test_the_rest_of_a_wait() -> None:
    """What is read late is told as it is by then: of a stated wait only the rest is left."""
    line = {
        "type": "system",
        "subtype": "api_error",
        "retryInMs": 60_000,
        "retryAttempt": 1,
        "error": {"status": 429},
    }
    (record,) = corpus.read_lines("claude", "disk", {"timestamp": AT, **line}).records
    assert record.observations("t", late=20_000) == (o.Paused(40_000), o.Paused(40_000))
    assert record.observations("t", late=60_000) == (o.AliveSeen("t"), o.Paused(None))


# -- helpers


def test_a_helpers_file_is_its_own() -> None:
    """Records of a helper carry whose they are; its turn and session are not ours."""
    lines = [
        {"type": "user", "isSidechain": True, "agentId": "a1", "message": {"content": "count"}, "cwd": "/w"},
        {**reply(text("done"), stop_reason="end_turn"), "isSidechain": True, "agentId": "a1"},
    ]
    records = corpus.read_lines(
        "claude", "disk", *[{"sessionId": "s", "timestamp": AT, **line} for line in lines]
    ).records
    assert {record.sub for record in records} == {"a1"}
    heard = [seen for record in records for seen in record.observations("t")]
    assert heard == [o.AliveSeen("t"), o.AliveSeen("t"), o.ProgressSeen("t"), o.AliveSeen("t")]


def test_a_helper_without_a_name() -> None:
    """The oldest files name no helper."""
    line = {**reply(text("x")), "isSidechain": True}
    assert corpus.read_lines("claude", "disk", line).records[0].sub == "sidechain"


LAUNCH = answer(OK, toolUseResult={"isAsync": True, "status": "async_launched", "agentId": "a1"})
DONE = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status></task-notification>"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "queue-operation", "operation": "enqueue", "content": DONE}, [e.Subagent("end", "a1")]),
        ({"type": "queue-operation", "content": DONE.replace("completed", "failed")}, [e.Subagent("failed", "a1")]),
        ({"type": "queue-operation", "content": DONE.replace("a1", "other")}, []),
        ({"type": "system", "subtype": "task_notification", "task_id": "a1", "status": "completed"}, [e.Subagent("end", "a1")]),
    ],
)  # fmt: skip
def test_a_launch_is_no_finished_work(line: dict[str, Any], expected: list[e.Event]) -> None:
    """An asynchronous helper's call returns at once; it is open until it is said to be done."""
    assert told(reply(use(tool="Agent")), LAUNCH, line)[2:] == [e.Subagent("start", "a1", "c"), *expected]


def test_a_helper_told_twice() -> None:
    """The stream tells a helper's begin before the call's result does, and once is enough."""
    began = {
        "type": "system",
        "subtype": "task_started",
        "task_type": "local_agent",
        "task_id": "a1",
        "tool_use_id": "c",
    }
    shell = {**began, "task_type": "local_bash"}
    events = streamed(reply(use(tool="Agent")), began, LAUNCH, shell)
    assert [event.kind for event in events] == ["tool_call", "subagent", "tool_result"]
    done = answer({**OK, "tool_use_id": "d"}, toolUseResult={"agentId": "a1", "status": "completed"})
    assert streamed(began, done)[-1] == e.Subagent("end", "a1")


def test_older_files_tell_helpers_and_tools_in_between() -> None:
    """The `progress` records of older files: a helper's own messages, and a tool's word over MCP."""

    def progress(**data: Any) -> dict[str, Any]:
        return {"type": "progress", "parentToolUseID": "c", "data": data}

    inner = {"type": "agent_progress", "agentId": "a1", "message": reply(use("d"), stop_reason="end_turn")}
    assert [event.kind for event in told(progress(**inner))] == ["tool_call"]
    assert told(progress(type="mcp_progress", status="progress")) == [e.Heartbeat("mcp_progress", "c")]
    assert told(progress(type="mcp_progress", status="started")) == [e.Heartbeat("keep_alive", "c")]
    assert told(progress(type="bash_progress")) == [e.Heartbeat("keep_alive", "c")]
    assert told(progress(type="agent_progress", message={"type": "other"})) == [
        e.Heartbeat("keep_alive", "c")
    ]


# -- questions


def test_a_question_is_settled_by_its_call() -> None:
    """Who is asked for leave answers on another channel: the call's result settles it, or the question is withdrawn."""
    ask = {
        "type": "control_request", "request_id": "q1",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "c"},
    }  # fmt: skip
    denied = answer({**OK, "is_error": True}, permissionDecision="reject")
    gone = {"type": "control_cancel_request", "request_id": "q1"}
    asked = e.Permission("waiting", "q1", "Bash")
    assert [x for x in streamed(ask, answer(OK)) if isinstance(x, e.Permission)] == [
        asked,
        e.Permission("allowed", "q1"),
    ]
    assert [x for x in streamed(ask, denied) if isinstance(x, e.Permission)] == [
        asked,
        e.Permission("denied", "q1"),
    ]
    assert streamed(ask, gone, gone) == [asked, e.Permission("denied", "q1")]
    assert streamed({"type": "control_request", "request_id": "q", "request": {"subtype": "interrupt"}}) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([{"subtype": "permission_denied", "tool_name": "Bash"}], [e.Permission("auto_denied", tool="Bash")]),
        (
            [
                {"subtype": "session_state_changed", "state": state}
                for state in ("requires_action", "running", "idle")
            ],
            [e.Permission("waiting", "session"), e.Permission("allowed", "session")],
        ),
        ([{"subtype": "status", "status": "compacting"}], [e.Compacted("start")]),
        ([{"subtype": "status", "status": "requesting"}], []),
        ([{"subtype": "compact_boundary"}], [e.Compacted("end")]),
        ([{"subtype": "hook_started"}, {}], []),
    ],
)
def test_what_the_program_says(lines: list[dict[str, Any]], expected: list[e.Event]) -> None:
    """Of the program's own records those count that say who is waited for."""
    assert streamed(*[{"type": "system", **line} for line in lines]) == expected


# -- the stream


def test_words_that_come_in_pieces_count_once() -> None:
    """With partial messages each piece is progress, and the whole message brings no words again."""

    def piece(**event: Any) -> dict[str, Any]:
        return {"type": "stream_event", "event": event}

    lines = [
        piece(type="message_start", message={"id": "m"}),
        piece(type="content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"}),
        piece(type="content_block_delta", delta={"type": "text_delta", "text": "hel"}),
        piece(type="ping"),
        piece(type="content_block_delta", delta={"type": "text_delta", "text": "lo"}),
        piece(type="content_block_delta", delta={"type": "input_json_delta", "partial_json": "{"}),
        piece(type="content_block_stop"),
        reply({"type": "thinking", "thinking": "hm"}, text("hello"), use()),
    ]
    assert streamed(*lines) == [
        e.Thinking(2), e.Text("hel"), e.Heartbeat("keep_alive"), e.Text("lo"), e.Thinking(0), e.ToolCalled("c", "Bash", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "turn", "end"),
    [
        ({"subtype": "success", "is_error": False}, e.TurnEnded(), e.SessionEnded(ok=True, reason="success")),
        (
            {"subtype": "success", "is_error": True, "api_error_type": "rate_limit_error"},
            e.TurnEnded("error", ok=False), e.SessionEnded(ok=False, reason="rate_limit_error"),
        ),
        (
            {"subtype": "error_max_turns", "is_error": True},
            e.TurnEnded("max", ok=False), e.SessionEnded(ok=False, reason="error_max_turns"),
        ),
    ],
)  # fmt: skip
def test_the_final_result(fields: dict[str, Any], turn: e.TurnEnded, end: e.SessionEnded) -> None:
    """A result that calls itself a success may still be an error; what is open then stays without an answer."""
    events = streamed(reply(use()), {"type": "result", **fields})
    orphan = e.ToolResult("c", ok_native=False, why="orphaned")
    assert turn in events
    assert orphan in events
    assert events[-1] == end


def test_a_helper_in_the_stream() -> None:
    """What a call of ours caused is a helper's; its end of a turn ends no call of ours."""
    line = {**reply(text("sub done"), stop_reason="end_turn"), "parent_tool_use_id": "c"}
    told_ = corpus.read_lines("claude", "stream", reply(use(tool="Agent")), line)
    assert told_.records[1].sub == "c"
    assert told_.reader.calls.open == {"c": False}


# -- long lines, and a glance


def snapshot(kind: str, size: int = SHORT) -> bytes:
    return json.dumps({"type": kind, "timestamp": AT, "text": "x" * size}).encode()


def test_long_noise_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long line of a type that never means anything is told by its ends."""
    monkeypatch.setattr("longwatch.observe.dialects.base.decode", lambda line: 1 / 0)
    (record,) = load("claude").reader().read(snapshot("attachment"), pos=7)
    assert (record.raw_type, record.pos, record.at, record.events) == ("attachment", 7, corpus.BEGIN, ())


def test_long_lines_that_mean_something_are_read() -> None:
    """A long result is read whole; one that was cut is read by its ends, or by its beginning."""
    block = {**OK, "content": "x" * SHORT}
    line = json.dumps({"type": "user", "message": {"content": [block]}, "timestamp": AT}).encode()
    (record,) = load("claude").reader().read(line)
    assert [event.kind for event in record.events] == ["tool_call", "tool_result"]
    (record,) = load("claude").reader().read(cut(line))
    assert [event.kind for event in record.events] == ["tool_call", "tool_result"]
    many = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "x" * 100} for n in range(3_000)]
    line = json.dumps({"type": "user", "message": {"content": many}}).encode()
    (record,) = load("claude").reader().read(cut(line, 2_000))
    assert isinstance(cut(line), Cut)
    assert 10 < sum(event.kind == "tool_result" for event in record.events) < 50


@pytest.mark.capability("OBS-9")
def test_a_glance_tells_what_a_reading_tells() -> None:
    """The kind of a line, told by few of its bytes, is that of the event which reading gives."""
    dialect = load("claude")
    reader = dialect.reader()
    for line in (corpus.FOLDER / "claude-steps.disk.jsonl").read_bytes().splitlines():
        events = [
            event
            for record in reader.read(line)
            for event in record.events
            if event.kind not in ("session_start", "usage")
        ]
        kind = next(
            (event.kind for event in events if event.kind.startswith("tool")),
            events[0].kind if events else "",
        )
        if events and isinstance(events[0], e.ToolResult) and not events[0].ok:
            kind = "tool_failed"
        assert dialect.classify(line) == kind, line


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (reply(use("c", "Write", content="x" * 50_000)), "tool_call"),
        (answer({**OK, "content": "y" * 50_000}), "tool_result"),
        (
            answer({**OK, "content": [{"type": "image", "data": "z" * 50_000}], "is_error": True}),
            "tool_failed",
        ),
        ({"type": "attachment", "x": "y" * 50_000}, ""),
        ({"type": "system", "subtype": "api_retry"}, "retry"),
        ({"type": "result", "is_error": False}, "session_end"),
        ({"type": "user", "message": {"content": "hello"}}, "turn_start"),
        ({"type": "assistant", "message": {"content": "hello"}}, "text"),
        ({"type": "assistant", "message": {"content": []}}, ""),
        ({"type": "assistant", "message": {"content": [{"type": "image"}]}}, ""),
        ({"type": "user", "message": {"content": [text("hello")]}}, "turn_start"),
        ({"type": "user", "message": {"content": [{**OK, "is_error": "odd"}]}}, "tool_result"),
        ({"type": 7, "message": "odd"}, ""),
        ({**reply(text("API Error: 529")), "isApiErrorMessage": True, "error": "overloaded"}, "error"),
    ],
)
def test_glances(line: dict[str, Any], kind: str) -> None:
    """Long lines are told by their ends; where a field is not what it always was, the whole is read."""
    assert load("claude").classify(json.dumps(line).encode()) == kind
    assert load("claude").classify(json.dumps(line, separators=(",", ":")).encode()) == kind


@pytest.mark.capability("OBS-9")
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_glances_at_runs(name: str) -> None:
    """Many lines at once are told as one by one, also where one of them is no JSON or a blank."""
    path = corpus.FOLDER / f"{name}-steps.disk.jsonl"
    lines = [*path.read_bytes().splitlines()]
    dialect = load(name)
    each = [dialect.classify(line) for line in lines]
    assert each.count("tool_failed") == 2
    assert dialect.kinds(b"\n".join(lines)) == each
    assert dialect.kinds(b"\n".join(lines[4:15])) == each[4:15]
    assert dialect.kinds(memoryview(b"\n".join([*lines, b"", b"{broken"]))) == [*each, ""]
    assert dialect.kinds(b'{"type":"user","message":{"content":"' + b"x" * 50_000 + b'"}}') == (
        ["turn_start"] if name == "claude" else [""]
    )


@pytest.mark.capability("OBS-9")
def test_a_glance_falls_back() -> None:
    """Ends that do not fit together are not guessed from."""
    blocks = [{"type": "text", "text": "x" * 900, "deep": {"er": [n]}} for n in range(40)]
    line = json.dumps(
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "c", "input": blocks}]}}
    ).encode()
    assert len(line) > SHORT
    assert load("claude").classify(line) == "tool_call"
