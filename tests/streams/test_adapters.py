"""Adapters turn events of SDKs and lines of programs into the closed model; here with stand-ins, without any SDK."""

import asyncio
import csv
import io
import json
import math
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
from longwatch.core import observations as o
from longwatch.limits import Limits
from longwatch.observe import acp as acp_messages
from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached, LimitReached
from longwatch.streams import adapters
from longwatch.streams.adapters import acp, claude, langgraph, ndjson, openai_agents, pydantic_ai
from longwatch.streams.guard import Guard, guard

CORPUS = helpers.DATA / "streams"
# Recordings of real programs, where they are at hand.
# Read before the tests' own environment is cleaned: a folder with recordings of real programs, and `truth.tsv`.
RECORDED = Path(os.environ.get("LONGWATCH_RECORDINGS", "no recordings"))
# 2030-01-02T03:04:05Z
NOW = 1_893_553_445.0


def made(module: str, name: str, **fields: Any) -> Any:
    """Return an object as an SDK's: of a class of that name and module, with these attributes."""
    return type(name, (SimpleNamespace,), {"__module__": module})(**fields)


def thing(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


# -- finding a reader


def test_a_reader_is_found_by_the_root_of_the_module() -> None:
    """The first word of a class's module names its SDK; a class of nobody known has no reader."""
    for root in adapters.ROOTS:
        assert adapters.for_type(type("Some", (), {"__module__": f"{root}.deep.inside"})) is not None
    for unknown in (dict, bytes, str, type("Mine", (), {}), type("Near", (), {"__module__": "agents2"})):
        assert adapters.for_type(unknown) is None


def test_a_stream_has_one_reader_for_all_classes_of_an_sdk() -> None:
    """What one event says is known when the next one of another class comes; another stream knows nothing of it."""
    stream: dict[str, Any] = {}
    delta, whole = (type(name, (), {"__module__": "claude_agent_sdk.types"}) for name in ("A", "B"))
    read = adapters.for_type(delta, stream)
    assert adapters.for_type(whole, stream) is not None
    assert [*stream] == ["claude"]
    assert stream["claude"] == read
    assert adapters.for_type(delta, {}) != read
    assert adapters.for_type(ndjson.Line, stream) is not None
    assert [*stream] == ["claude", "ndjson"]


def test_no_sdk_is_ever_loaded() -> None:
    """Reading events of every SDK imports our modules and nothing of theirs."""
    code = """
import sys
from longwatch.streams import adapters
assert not [name for name in sys.modules if name.startswith("longwatch.streams.adapters.")]
for root in adapters.ROOTS:
    cls = type("Some", (), {"__module__": root})
    assert tuple(adapters.for_type(cls)(cls())) == ()
print(sorted(set(adapters.ROOTS) & set(sys.modules)), "langgraph" in sys.modules)
"""
    done = helpers.run_command([sys.executable, "-c", code])
    assert (done.out, done.err) == ("[] False\n", "")


@pytest.mark.parametrize("reader", [claude, langgraph, openai_agents, pydantic_ai, acp, ndjson])
@pytest.mark.parametrize(
    "event", [None, object(), 7, "words", b"bytes", [], (), {}, ("a", "b", "c"), {"type": []}]
)
def test_an_odd_event_raises_nothing(reader: Any, event: object) -> None:
    """Whatever comes, the answer is a tuple of events."""
    assert isinstance(reader.reader()(event), tuple)


def test_arguments_in_a_text_are_values() -> None:
    """Arguments as JSON text are read, so that the order of keys makes no other call; other texts stay."""
    assert adapters.parsed('{"b": 1, "a": 2}') == {"a": 2, "b": 1}
    assert adapters.parsed("not json") == "not json"
    assert adapters.parsed({"a": 1}) == {"a": 1}
    assert adapters.parsed("[" * 100_000) == "[" * 100_000


# -- claude-agent-sdk


def claude_said(*messages: tuple[str, dict[str, Any]]) -> list[e.Event]:
    read = claude.reader(lambda: NOW)
    return [
        event for name, fields in messages for event in read(made("claude_agent_sdk.types", name, **fields))
    ]


def claude_delta(text: str) -> tuple[str, dict[str, Any]]:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return "StreamEvent", {"event": event, "parent_tool_use_id": None}


def claude_start(name: str) -> tuple[str, dict[str, Any]]:
    return "StreamEvent", {"event": {"type": "message_start", "message": {"id": name}}}


def claude_whole(name: str, *blocks: Any, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "AssistantMessage", {
        "message_id": name,
        "content": list(blocks),
        "parent_tool_use_id": None,
    } | fields


def test_claude_calls_open_and_close() -> None:
    """Parallel calls open by their blocks and close by the results, a failed one with its exit code."""
    heard = claude_said(
        claude_whole(
            "m1",
            thing(thinking="Hm.", signature=""),
            thing(id="t1", name="Bash", input={"command": "a"}),
            thing(id="t2", name="Bash", input={"command": "b", "run_in_background": True}),
        ),
        ("UserMessage", {"content": [thing(tool_use_id="t2", content="x", is_error=None)]}),
        ("UserMessage", {"content": [thing(tool_use_id="t1", content="Exit code 3\nno", is_error=True)]}),
    )
    assert heard == [
        e.Thinking(3),
        e.ToolCalled("t1", "Bash", {"command": "a"}),
        e.ToolCalled("t2", "Bash", {"command": "b", "run_in_background": True}, background=True),
        e.ToolResult("t2", result="x"),
        e.ToolResult("t1", False, 3, "error", result="Exit code 3\nno"),
    ]


def test_claude_text_is_told_once() -> None:
    """A whole message whose text came in parts adds none; one that did not is heard as it is."""
    heard = claude_said(
        claude_start("m1"),
        claude_delta("Hel"),
        claude_delta("lo."),
        claude_whole("m1", thing(text="Hello.")),
        claude_whole("m2", thing(text=" Bye.")),
    )
    assert "".join(event.text for event in heard if isinstance(event, e.Text)) == "Hello. Bye."


def test_claude_helpers_are_progress_of_their_call_only() -> None:
    """What a sub-agent says moves the call that runs it, and is not the agent's answer."""
    inside = {"parent_tool_use_id": "t1"}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "sub"}}
    heard = claude_said(
        claude_whole("m1", thing(text="three"), **inside),
        ("UserMessage", {"content": "count", **inside}),
        ("StreamEvent", {"event": delta, **inside}),
    )
    moved = e.Heartbeat("tool_progress", "t1")
    assert heard == [moved, e.Thinking(5), moved, e.Thinking(3)]


def test_the_call_of_a_helper_is_the_one_that_its_moves_name() -> None:
    """A helper's progress restarts the very call that its start has opened."""
    sent = {"task_id": "a1", "tool_use_id": "t1", "task_type": "local_agent"}
    start, *_, moved = claude_said(
        ("TaskStartedMessage", {"data": {"subtype": "task_started", **sent}}),
        ("TaskProgressMessage", {"data": {"subtype": "task_progress", **sent}}),
    )
    (begun,), (progress,) = e.observations(start, "events"), e.observations(moved, "events")
    assert isinstance(begun, o.CallBegan)
    assert isinstance(progress, o.CallProgressed)
    assert begun.call == progress.call


@pytest.mark.capability("CAP-77", "CAP-78")
@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (
            {"status": "rejected", "resets_at": NOW + 60, "rate_limit_type": "five_hour"},
            (60_000, "five_hour", False),
        ),
        ({"status": "rejected", "resets_at": None}, (None, "", False)),
        ({"status": "rejected", "resets_at": NOW - 60}, (None, "", False)),
        (
            {"status": "rejected", "resets_at": NOW + 60, "overage_status": "allowed_warning"},
            (None, "", True),
        ),
        ({"status": "allowed", "resets_at": NOW + 60}, (None, "", True)),
    ],
)
def test_claude_pauses_until_the_reset(info: dict[str, Any], expected: tuple[int | None, str, bool]) -> None:
    """A refusal is a pause until the reset, one without or with a past reset has no span, all else is its end."""
    (heard,) = claude_said(("RateLimitEvent", {"rate_limit_info": thing(**info)}))
    assert isinstance(heard, e.Limited)
    assert (heard.span, heard.scope, heard.lifted) == expected


@pytest.mark.capability("CAP-73")
def test_claude_says_what_is_no_progress() -> None:
    """A retry is one with its delay, an unknown record of the program is a sign of life, a new class is progress."""
    retry = {
        "subtype": "api_retry",
        "attempt": 1,
        "retry_delay_ms": 500,
        "error_status": 429,
        "error": "rate_limit",
    }
    heard = claude_said(
        ("SystemMessage", {"data": retry}),
        ("SystemMessage", {"data": {"subtype": "quite_new"}}),
        ("HookEventMessage", {"data": {"subtype": "hook_started"}}),
        ("QuiteNewMessage", {}),
    )
    assert heard == [e.Retry(1, 500, 429, "rate_limit"), e.Heartbeat(), e.Heartbeat()]


@pytest.mark.capability("CAP-73")
def test_a_timer_of_a_tool_is_no_progress_of_it() -> None:
    """Claude's tool_progress ticks as long as the tool hangs: it restarts neither the call's clock nor idle's."""
    (heard,) = ndjson.reader()({"type": "tool_progress", "tool_use_id": "t1", "elapsed_time_seconds": 30})
    assert e.observations(heard, "events") == (o.AliveSeen("events"),)


# -- openai-agents


def openai_said(*events: Any) -> list[e.Event]:
    read = openai_agents.reader()
    return [event for said in events for event in read(said)]


def raw(kind: str, **fields: Any) -> Any:
    return thing(type="raw_response_event", data=thing(type=kind, **fields))


def item(name: str, **fields: Any) -> Any:
    return thing(type="run_item_stream_event", name=name, item=thing(**fields))


def message(text: str) -> Any:
    return item("message_output_created", raw_item=thing(content=[thing(text=text)]))


def test_openai_text_is_told_once() -> None:
    """Deltas are the text; the whole message adds it only where no deltas came, also in a response begun anew."""
    delta = raw("response.output_text.delta", item_id="x", output_index=0, delta="Hello.")
    heard = openai_said(delta, delta, message("Hello.Hello."), message(" Bye."))
    assert "".join(event.text for event in heard if isinstance(event, e.Text)) == "Hello.Hello. Bye."
    broken = openai_said(delta, raw("response.created"), message("Again."))
    assert [event.text for event in broken if isinstance(event, e.Text)] == ["Hello.", "Again."]


def test_openai_calls_open_and_close() -> None:
    """A function's call opens until its output; a tool of the provider is told once, when it is over."""
    call = thing(type="function_call", call_id="c1", name="look", arguments='{"b": 1, "a": 2}')
    hosted = thing(type="web_search_call", id="w1", status="failed", action={"query": "x"})
    shell = thing(type="shell_call", call_id="s1", action={"commands": ["a", "b"]})
    outcomes = [{"outcome": {"type": "exit", "exit_code": code}} for code in (0, 3)]
    assert openai_said(
        item("tool_called", raw_item=call),
        item("tool_called", raw_item=hosted),
        item("tool_called", raw_item=shell),
        item("tool_output", raw_item={"call_id": "c1", "output": "x"}, output="x"),
        item(
            "tool_output", raw_item={"call_id": "s1", "output": outcomes, "status": "completed"}, output="y"
        ),
    ) == [
        e.ToolCalled("c1", "look", {"a": 2, "b": 1}),
        e.ToolCalled("w1", "web_search", {"query": "x"}),
        e.ToolResult("w1", False, why="error"),
        e.ToolCalled("s1", "shell", {"commands": ["a", "b"]}),
        e.ToolResult("c1", result="x"),
        e.ToolResult("s1", exit_code=3, result="y"),
    ]


def test_openai_tells_questions_and_errors() -> None:
    """An approval is asked and answered, an error is told, a keep-alive is no progress, a new event is."""
    assert openai_said(
        item("mcp_approval_requested", raw_item=thing(id="q1", name="write")),
        item("mcp_approval_response", raw_item=thing(approval_request_id="q1", approve=False)),
        raw("response.failed", response=thing(error=thing(code="server_error", message="gone"))),
        raw("error", code="rate_limit_exceeded", message="slow down"),
        raw("response.reasoning_summary_text.delta", delta="Hm."),
        raw("keepalive"),
        raw("response.quite_new"),
        item("quite_new"),
        thing(type="agent_updated_stream_event"),
    ) == [
        e.Permission("waiting", "q1", "write"),
        e.Permission("denied", "q1"),
        e.Failed("server_error", message="gone"),
        e.Failed("rate_limit_exceeded", message="slow down"),
        e.Thinking(3),
        e.Heartbeat(),
    ]


# -- pydantic-ai


def pydantic_said(*events: dict[str, Any]) -> list[e.Event]:
    return [event for fields in events for event in pydantic_ai.reader()(thing(**fields))]


def test_pydantic_text_is_told_once() -> None:
    """A part's first words and its deltas are the text; the whole part at its end adds none."""
    assert pydantic_said(
        {"event_kind": "part_start", "part": thing(part_kind="text", content="Hel")},
        {"event_kind": "part_delta", "delta": thing(part_delta_kind="text", content_delta="lo.")},
        {"event_kind": "part_end", "part": thing(part_kind="text", content="Hello.")},
        {"event_kind": "part_start", "part": thing(part_kind="thinking", content="Hm.")},
        {"event_kind": "part_delta", "delta": thing(part_delta_kind="tool_call", args_delta='{"a')},
        {"event_kind": "part_delta", "delta": thing(part_delta_kind="tool_call", args_delta={"a": 1})},
        {"event_kind": "part_start", "part": thing(part_kind="compaction", content=None)},
    ) == [e.Text("Hel"), e.Text("lo."), e.Thinking(3), e.Thinking(3), e.Thinking(0), e.Compacted()]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"outcome": "success"}, ""),
        ({"outcome": "failed"}, "error"),
        ({"outcome": "retried"}, "error"),
        ({"outcome": "denied"}, "denied"),
        ({"outcome": "interrupted"}, "interrupted"),
        ({"outcome": ["odd"]}, "error"),
        ({"part_kind": "retry-prompt"}, "error"),
        ({"part_kind": "tool-return"}, ""),
    ],
)
def test_pydantic_calls_open_and_close(part: dict[str, Any], why: str) -> None:
    """A call opens when it begins; its result is good only by its outcome, or where no outcome is told."""
    called = thing(tool_call_id="c1", tool_name="look", args='{"a": 1}')
    heard = pydantic_said(
        {"event_kind": "function_tool_call", "part": called},
        {"event_kind": "function_tool_result", "part": thing(tool_call_id="c1", content="x", **part)},
    )
    assert heard == [e.ToolCalled("c1", "look", {"a": 1}), e.ToolResult("c1", not why, why=why, result="x")]


def test_pydantic_tells_questions_and_ends() -> None:
    """Approvals are asked and answered call by call, the run's result is its end, a lost connection loses its calls."""
    asked = thing(approvals=[thing(tool_call_id="c1", tool_name="write")])
    answers = thing(approvals={"c1": False, "c2": True, "c3": thing(kind="tool-denied")})
    assert pydantic_said(
        {"event_kind": "deferred_tool_requests", "requests": asked},
        {"event_kind": "deferred_tool_results", "results": answers},
        {"event_kind": "deferred_tool_results", "results": None},
        {"event_kind": "realtime_session_reconnect", "state_restored": True},
        {"event_kind": "realtime_session_reconnect", "state_restored": False},
        {"event_kind": "realtime_session_error", "type": "server_error"},
        {"event_kind": "realtime_turn_complete"},
        {"event_kind": "quite_new"},
        {"event_kind": "agent_run_result"},
    ) == [
        e.Permission("waiting", "c1", "write"),
        e.Permission("denied", "c1"),
        e.Permission("allowed", "c2"),
        e.Permission("denied", "c3"),
        e.Restarted(),
        e.Failed("server_error"),
        e.TurnEnded(),
        e.TurnEnded(),
        e.SessionEnded(),
    ]


# -- langgraph

TASK = {
    "id": "k1",
    "name": "tools",
    "input": {"tool_call": {"name": "look", "args": {"a": 1}}},
    "triggers": (),
}
DONE = {"id": "k1", "name": "tools", "error": None, "result": {"messages": []}, "interrupts": []}
WRAPPED = {
    "one mode": lambda mode, data: data,
    "several modes": lambda mode, data: (mode, data),
    "with subgraphs": lambda mode, data: (("sub:1",), mode, data),
    "one mode with subgraphs": lambda mode, data: (("sub:1",), data),
    "named": lambda mode, data: {"type": mode, "ns": (), "data": data},
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_langgraph_is_read_however_it_is_wrapped(wrap: Any) -> None:
    """Tasks, messages and updates mean the same for one mode, several, and with subgraphs."""
    read = langgraph.reader()
    token = (thing(type="AIMessageChunk", content="Hi"), {"langgraph_node": "agent"})
    update = {"agent": {"messages": [thing(type="ai", content="Hi")]}}
    assert read(wrap("updates", update)) == (e.Text("Hi"),)
    assert read(wrap("tasks", TASK)) == (e.ToolCalled("k1", "look", {"a": 1}),)
    assert read(wrap("tasks", DONE)) == (e.ToolResult("k1", result={"messages": []}),)
    assert read(wrap("messages", token)) == (e.Text("Hi"),)
    assert read(wrap("updates", update)) == (), "words that came as messages were told twice"


def test_langgraph_nodes_that_ask_the_model_hold_nothing() -> None:
    """A node is a call; one that asks the model is none, for its silence is what an idle limit is to find."""
    for name, named, expected in (
        ("agent", None, ()),
        ("model", None, ()),
        ("think", None, (e.ToolCalled("k1", "think", "k1"),)),
        ("think", ["think"], ()),
    ):
        read = langgraph.reader() if named is None else langgraph.reader(models=named)
        assert read(("tasks", {"id": "k1", "name": name, "input": {}})) == expected


def test_langgraph_failures_and_questions() -> None:
    """A node fails by its error or by its tool's message, and one that was interrupted asks a human."""
    read = langgraph.reader()
    tool = thing(type="tool", content="no such file", status="error")
    assert read(("tasks", DONE | {"error": "ValueError('no')"})) == (
        e.ToolResult("k1", False, why="error", result="ValueError('no')"),
    )
    assert read(("tasks", DONE | {"result": {"messages": [tool]}})) == (
        e.ToolResult("k1", False, why="error", result=["no such file"]),
    )
    assert read(("tasks", DONE | {"result": {}, "interrupts": [{"id": "q1", "value": "ok?"}]})) == (
        e.ToolResult("k1", False, why="interrupted", result={}),
        e.Permission("waiting", "q1", "tools"),
    )
    assert read({"__interrupt__": (thing(id="q1"),)}) == (e.Permission("waiting", "q1"),)


def test_langgraph_other_ways() -> None:
    """Records of debug mode and of astream_events mean the same; what else a graph tells has no word of its own."""
    read = langgraph.reader()
    assert read({"type": "task", "payload": TASK}) == (e.ToolCalled("k1", "look", {"a": 1}),)
    assert read({"type": "checkpoint", "payload": {}}) == ()
    assert read(
        ("tasks", {"id": "k2", "name": "tools", "input": [{"name": "look", "args": {}, "id": "c1"}]})
    ) == (e.ToolCalled("k2", "look", {}),)
    data = {"input": {"a": 1}}
    assert read({"event": "on_tool_start", "run_id": "r1", "name": "look", "data": data}) == (
        e.ToolCalled("r1", "look", {"a": 1}),
    )
    bad = {"event": "on_tool_error", "run_id": "r1", "data": {"error": "no"}}
    assert read(bad) == (e.ToolResult("r1", False, why="error", result="no"),)
    good = {"event": "on_tool_end", "run_id": "r1", "data": {"output": thing(status="success", content="x")}}
    assert read(good) == (e.ToolResult("r1", result="x"),)
    chunk = thing(type="AIMessageChunk", content=[{"type": "text", "text": "Hi"}, " you"])
    assert read({"event": "on_chat_model_stream", "data": {"chunk": chunk}}) == (e.Text("Hi you"),)
    assert read({"event": "on_chain_start", "data": {}}) == ()
    assert read(("messages", (thing(type="AIMessageChunk", content=""), {}))) == (e.Thinking(),)
    assert read(("messages", (thing(type="tool", content="x"), {}))) == ()
    assert read(("custom", {"anything": 1})) == ()


# -- ACP, as objects; its records are in the corpus


def test_acp_objects_mean_what_its_records_mean() -> None:
    """Objects with snake_case attributes are read as records with camelCase keys are."""
    call = thing(
        tool_call_id="t1", session_update="tool_call", kind="execute", status="pending", raw_input={"a": 1}
    )
    ask = thing(tool_call=thing(tool_call_id="t1", kind="execute"), options=[], session_id="s")
    over = thing(
        tool_call_id="t1", session_update="tool_call_update", status="completed", raw_output={"exit_code": 0}
    )
    read = acp.reader()
    heard = [
        event
        for said in (
            thing(prompt=[], session_id="s"),
            thing(update=call, session_id="s"),
            ask,
            thing(outcome=thing(outcome="selected")),
            over,
            thing(session_update="agent_message_chunk", content=thing(text="Done.")),
            thing(session_update="quite_new"),
            thing(stop_reason="max_tokens"),
        )
        for event in read(said)
    ]
    assert heard == [
        e.TurnStarted(),
        e.ToolCalled("t1", "execute", {"a": 1}),
        e.Permission("waiting", "t1", "execute"),
        e.Permission("allowed", "t1"),
        e.ToolResult("t1", exit_code=0, result={"exit_code": 0}),
        e.Text("Done."),
        e.TurnEnded("max", ok=False),
    ]


@pytest.mark.fault("C1")
def test_acp_who_sees_one_direction_only_is_not_held_for_ever() -> None:
    """A question whose answer crosses unseen is settled when its call moves on, or when the turn is over."""
    read = acp.reader()
    ask = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "session/request_permission",
        "params": {"toolCall": {"toolCallId": "t1"}},
    }
    moved = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "in_progress"}
    assert read(ask) == (e.Permission("waiting", "request 1"),)
    assert read({"update": {**moved, "status": "pending"}}) == (e.Heartbeat("tool_progress", "t1"),)
    assert read({"update": moved}) == (
        e.Permission("allowed", "request 1"),
        e.Heartbeat("tool_progress", "t1"),
    )
    assert read(ask) == (e.Permission("waiting", "request 1"),)
    assert read({"jsonrpc": "2.0", "id": 9, "result": {"stopReason": "end_turn"}}) == (
        e.Permission("denied", "request 1"),
        e.TurnEnded(),
    )


def test_acp_fields_are_found_by_both_names() -> None:
    """A field is looked up in records by either spelling and in objects by its name; none is None."""
    assert acp_messages.look({"toolCallId": 1}, "tool_call_id") == 1
    assert acp_messages.look({"tool_call_id": 1}, "tool_call_id") == 1
    assert acp_messages.look(thing(tool_call_id=1), "tool_call_id") == 1
    assert acp_messages.look(None, "tool_call_id") is None
    odd = [True, "3", math.nan, 1e300, 10**400, None, [3]]
    assert [acp_messages.whole(value) for value in odd] == [None] * len(odd)
    assert [acp_messages.whole(value) for value in (3, 2.6, -1)] == [3, 3, -1]


# -- lines of programs


def words(event: e.Event) -> str:
    """Say an event in a line: what the corpus has beside its records."""
    parts: list[object] = [event.kind]
    match event:
        case e.Text():
            parts.append(repr(event.text))
        case e.Thinking():
            parts.append(event.chars)
        case e.ToolCalled():
            parts += [event.call, event.tool, "background" if event.background else ""]
        case e.ToolResult():
            why = "ok" if event.ok else event.why or "failed"
            parts += [event.call, why, "" if event.exit_code is None else event.exit_code]
        case e.Retry():
            delay, status = event.delay or "", event.status or ""
            parts += [event.attempt, delay, status, event.cls]
        case e.Limited():
            parts += [event.cls, event.span or "", "lifted" if event.lifted else ""]
        case e.Failed():
            parts += [event.cls, event.status or "", "fatal" if event.fatal else ""]
        case e.TurnEnded():
            parts += [event.reason, "ok" if event.ok else "bad"]
        case e.SessionEnded():
            parts.append("ok" if event.ok else "bad")
        case e.SessionStarted():
            parts += [event.session, "resumed" if event.resumed else ""]
        case e.Heartbeat():
            parts += [event.what, event.call]
        case e.Permission():
            parts += [event.state, event.question]
        case e.Subagent():
            parts += [event.state, event.sub]
        case e.Compacted():
            parts.append(event.state)
    return " ".join(str(part) for part in parts if part != "")


@pytest.mark.capability("CAP-73")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_program_is_read(path: Path) -> None:
    """Each record of each program means what stands beside it, read as lines, as bytes and as records."""
    expected = path.with_suffix(".events").read_text().splitlines()
    split = list(ndjson.lines(io.BytesIO(path.read_bytes())))
    for form in ([*split], [line.raw + b"\n" for line in split], [line.record() for line in split]):
        read = ndjson.reader(lambda: NOW)
        heard = [", ".join(map(words, read(line))) or "-" for line in form]
        assert heard == expected


def test_what_no_row_knows_is_judged_by_its_company() -> None:
    """A line of an unknown program is progress; a new kind of record, or a note, of a known one is a sign of life."""
    read = ndjson.reader()
    assert read(b'{"type": "unheard-of"}') == ()
    assert read(b"just words") == ()
    assert read(b"[1, 2]") == ()
    assert read(b"  ") == (e.Heartbeat(),)
    assert read(b'{"type": "thread.started", "thread_id": "x"}') == (e.SessionStarted("x"),)
    assert read(b'{"type": "unheard-of"}') == (e.Heartbeat(),)
    assert read("just words") == (e.Heartbeat(),)


@pytest.mark.fault("K4")
def test_words_of_a_limit_outside_of_errors_are_words() -> None:
    """A model and a tool that speak of limits are not limited."""
    read = ndjson.reader()
    page = "You've hit your usage limit, 429, rate_limit, quota"
    for record in (
        {"type": "assistant", "message": {"content": [{"type": "text", "text": page}]}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": page}},
        {"type": "message", "role": "assistant", "content": page},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": page},
        {"type": "text", "part": {"text": page}},
    ):
        assert [event for event in read(record) if isinstance(event, e.Limited | e.Failed)] == []


def open_at_the_end(heard: list[e.Event]) -> int:
    began = {event.call for event in heard if isinstance(event, e.ToolCalled)}
    return len(began - {event.call for event in heard if isinstance(event, e.ToolResult)})


@pytest.mark.skipif(
    not (RECORDED / "truth.tsv").exists(), reason="no recordings: LONGWATCH_RECORDINGS names no folder"
)
def test_recordings_of_real_programs_have_their_calls() -> None:
    """Of each recorded stream all calls are found, with what became of them by the flag and in truth."""
    with (RECORDED / "truth.tsv").open() as file:
        truth = {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}
    paths = sorted(RECORDED.glob("*.stream.jsonl"))
    assert paths
    for path in paths:
        read = ndjson.reader()
        with path.open("rb") as file:
            heard = [event for line in ndjson.lines(file) for event in read(line)]
        results = [event for event in heard if isinstance(event, e.ToolResult)]
        found = {
            "started": sum(isinstance(event, e.ToolCalled) for event in heard),
            "ok": sum(result.ok_native for result in results),
            "failed": sum(not result.ok_native for result in results),
            "failed_sem": sum(not result.ok for result in results),
            "open": open_at_the_end(heard),
            "retries": sum(isinstance(event, e.Retry) for event in heard),
        }
        assert found == {name: int(truth[path.name][name]) for name in found}, path.name


# -- from bytes to lines

TEXT = '{"a": "grüße 日本 \U0001f600"}\n\n \r\nzwei\r\n\u2028drei\u0085\n{"rest": 1}'
LINES = [part.removesuffix("\r").encode() for part in TEXT.split("\n")]


@given(st.lists(st.integers(0, len(TEXT.encode())), max_size=12))
def test_chunks_may_end_anywhere(places: list[int]) -> None:
    """Lines are the same wherever the chunks end, inside a character too; only LF ends one."""
    data, places = TEXT.encode(), sorted(places)
    chunks = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    assert [line.raw for line in ndjson.lines(iter(chunks))] == LINES


def test_a_line_keeps_its_bytes_and_gives_its_record() -> None:
    """A line is as it was; its record is read past a byte order mark and broken characters, or is none."""
    line = ndjson.Line(b'\xef\xbb\xbf{"a": "\xff"}')
    assert line.raw.startswith(b"\xef\xbb\xbf")
    assert line.record() == {"a": "\ufffd"}
    assert ndjson.Line(b'{"a": ').record() is None
    assert ndjson.Line(b"[" * 100_000).record() is None
    assert ndjson.Line(b"1").record() is None


def test_a_line_without_end_is_bounded() -> None:
    """Of an endless line only a head is kept, however it is cut into chunks; the next line is whole again."""
    splitter = ndjson.Splitter(limit=1000)
    for _ in range(5000):
        assert splitter.feed(b"x" * 100) == []
        assert splitter._size <= 1100
    assert splitter.feed(b"\nnext\n") == [ndjson.Line(b"x" * 1000, cut=True), ndjson.Line(b"next")]
    assert splitter.feed(b"y" * 5000 + b"\n") == [ndjson.Line(b"y" * 1000, cut=True)]
    assert splitter.feed(b"z" * 1001) == []
    assert splitter.close() == [ndjson.Line(b"z" * 1000, cut=True)]
    assert splitter.close() == []


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            '{"type":"user","message":{"content":[{"tool_use_id":"t1","type":"tool_result","content":"',
            "t1 ok",
        ),
        (
            '{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,"tool_use_id":"t1"',
            "t1 error",
        ),
        (
            '{"type":"tool.execution_complete","data":{"toolCallId":"t1","success":false,"result":"',
            "t1 error",
        ),
        ('{"type":"tool_execution_end","toolCallId":"t1","result":"', "t1 ok"),
        ('{"type":"assistant","message":{"content":[{"type":"text","text":"', None),
        ('{"type":"tool_result","content":"', None),
    ],
)
def test_a_cut_result_ends_its_call(head: str, expected: str | None) -> None:
    """The end of a call is not missed because its result, a picture for example, is too long to be kept."""
    heard = ndjson.reader()(ndjson.Line(head.encode() + b"A" * 1000, cut=True))
    assert [words(event) for event in heard] == ([] if expected is None else [f"tool_result {expected}"])


class Chunks:
    """An async source of chunks that remembers whether it was closed."""

    def __init__(self, *chunks: bytes | str) -> None:
        self.left = [*chunks]
        self.closed = False

    def __aiter__(self) -> "Chunks":
        return self

    async def __anext__(self) -> bytes | str:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)

    async def aclose(self) -> None:
        self.closed = True


def test_async_lines() -> None:
    """Bytes and texts of an async source become lines; closing them closes the source and ends them."""

    async def main() -> None:
        source = Chunks(b"one\ntw", "o\nthree")
        lines = ndjson.lines(source)
        assert [line.raw async for line in lines] == [b"one", b"two", b"three"]
        with pytest.raises(StopAsyncIteration):
            await anext(lines)
        early = Chunks(b"one\n", b"two\n")
        lines = ndjson.lines(early)
        assert (await anext(lines)).raw == b"one"
        await lines.aclose()
        assert early.closed
        with pytest.raises(StopAsyncIteration):
            await anext(lines)

    asyncio.run(main())


def test_lines_of_a_stream_reader_may_be_long() -> None:
    """The reader of asyncio breaks at 64 KiB without a line end; read by chunks it does not."""

    async def main() -> list[int]:
        reader = asyncio.StreamReader()
        reader.feed_data(b"x" * 300_000 + b"\nshort\n")
        reader.feed_eof()
        lines = ndjson.lines(reader)
        found = [len(line.raw) async for line in lines]
        await lines.aclose()
        return found

    assert asyncio.run(main()) == [300_000, 5]


def test_lines_under_trio() -> None:
    """A stream of trio becomes lines as one of asyncio does."""

    async def main() -> list[bytes]:
        send, receive = trio.testing.memory_stream_pair()
        await send.send_all(b"one\ntwo\nthree")
        await send.aclose()
        lines = ndjson.lines(receive)
        return [line.raw async for line in lines]

    assert trio.run(main) == [b"one", b"two", b"three"]


def test_blocking_lines() -> None:
    """A binary file, a text file, a pipe and an iterator become lines; closing them ends them."""
    data = b"one\ntwo\nthree"
    expected = data.split(b"\n")
    for source in (io.BytesIO(data), io.StringIO(data.decode()), iter([data]), [data]):
        assert [line.raw for line in ndjson.lines(source)] == expected
    done = []

    def chunks():
        try:
            yield b"one\n"
            yield b"two\n"
        finally:
            done.append(True)

    lines = ndjson.lines(chunks())
    assert next(lines).raw == b"one"
    lines.close()
    assert done == [True]
    assert list(lines) == []


def test_a_pipe_is_read_as_it_fills() -> None:
    """A line is there as soon as it was written, though the pipe stays open."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as readable, os.fdopen(into, "wb", buffering=0) as writable:
        writable.write(b"one\n")
        lines = ndjson.lines(readable)
        assert next(lines).raw == b"one"
        lines.close()


# -- under guard


async def guarded(source: Any, **options: Any) -> tuple[list[Any], Guard[Any], LimitReached | None]:
    """Read a guarded stream; return what it yielded, the guard, and the limit that ended it."""
    limits = Limits(**{"idle": 30, "call": 30, "ceiling": 0} | options.pop("limits", {}))
    stream = guard(source, limits, **options)
    yielded = []
    try:
        async with stream:
            async for event in stream:
                yielded.append(event)  # noqa: PERF401 - what came before the limit is kept
    except LimitReached as error:
        return yielded, stream, error
    return yielded, stream, None


@pytest.mark.capability("CAP-75")
def test_lines_of_a_program_need_no_adapter() -> None:
    """Guarded lines are understood by themselves: an open call holds idle, its own budget ends it by name."""
    codex = (CORPUS / "codex.jsonl").read_bytes().split(b"\n")
    said = b"\n".join(codex[:6]) + b"\n"

    async def source() -> AsyncIterator[bytes]:
        yield said[:100]
        yield said[100:]
        await asyncio.Event().wait()

    yielded, stream, error = asyncio.run(guarded(ndjson.lines(source()), limits={"idle": 0.1, "call": 0.4}))
    assert [line.raw for line in yielded] == codex[:6]
    assert isinstance(error, CallReached)
    assert "command_execution" in str(error)
    assert (error.partial, stream.text) == ("Two steps.", "Two steps.")


@pytest.mark.parametrize("adapter", [None, claude.reader()])
def test_events_of_an_sdk_are_found_by_their_type(adapter: Any) -> None:
    """Guarded events of an SDK share one reader for all of their classes: text that came twice is told once."""

    async def source() -> AsyncIterator[Any]:
        for name, fields in (
            claude_start("m1"),
            claude_delta("Hel"),
            claude_delta("lo."),
            claude_whole("m1", thing(text="Hello.")),
        ):
            yield made("claude_agent_sdk.types", name, **fields)

    yielded, stream, error = asyncio.run(guarded(source(), adapter=adapter))
    assert len(yielded) == 4
    assert (stream.text, error) == ("Hello.", None)


@pytest.mark.capability("CAP-73")
def test_a_timer_does_not_keep_a_stream_alive() -> None:
    """Keep-alives and retries that come for ever are no progress; what an unknown class of an SDK says is."""

    def tick(name: str, **fields: Any) -> Any:
        return made("claude_agent_sdk.types", name, **fields)

    async def source(event: Any, *, times: int = 100) -> AsyncIterator[Any]:
        for _ in range(times):
            yield event
            await asyncio.sleep(0.02)

    retry = tick("SystemMessage", data={"subtype": "api_retry", "attempt": 1})
    _, _, error = asyncio.run(guarded(source(retry), limits={"idle": 0.2}))
    assert isinstance(error, IdleReached)
    _, _, error = asyncio.run(guarded(source(tick("QuiteNew"), times=15), limits={"idle": 0.2}))
    assert error is None


# -- nothing raises

JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
RECORDS = [
    ndjson.Line(raw).record()
    for path in sorted(CORPUS.glob("*.jsonl"))
    for raw in path.read_bytes().split(b"\n")
]


def places(value: object) -> list[tuple[Any, Any]]:
    """Return all places inside of a record where something stands."""
    keys = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in keys for place in [(value, key), *places(item)]]


@settings(max_examples=400)
@given(st.data())
def test_no_record_raises(data: st.DataObject) -> None:
    """Records of known programs with anything anywhere in them are read without an error."""
    read = ndjson.reader()
    for _ in range(3):
        record = ndjson.Line(
            json.dumps(data.draw(st.sampled_from([one for one in RECORDS if one]))).encode()
        ).record()
        assert record is not None
        for _ in range(data.draw(st.integers(0, 3))):
            found = places(record)
            where, key = data.draw(st.sampled_from(found))
            where[key] = data.draw(JUNK)
        for event in read(record):
            assert isinstance(event, e.Event)
            assert e.observations(event, "events")
