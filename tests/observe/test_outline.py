"""What is kept of an event, and what never is."""

import json

import pytest

from longwatch.observe import events as e
from longwatch.observe.outline import LONGEST_ERROR, LONGEST_NAME, outline

KEPT: dict[str, tuple[e.Event, dict[str, object]]] = {
    "session_start": (
        e.SessionStarted("s", True, "/srv", "m"),
        {"session": "s", "resumed": True, "model": "m"},
    ),
    "session_end": (e.SessionEnded(ok=False, reason="max"), {"ok": False, "reason": "max"}),
    "turn_start": (e.TurnStarted("queue"), {"by": "queue"}),
    "turn_end": (e.TurnEnded("aborted", ok=False), {"ok": False, "reason": "aborted"}),
    "text": (e.Text("secret"), {"chars": 6}),
    "thinking": (e.Thinking(4), {"chars": 4}),
    "tool_call": (e.ToolCalled("c", "Bash", {"command": "secret"}), {"call": "c", "tool": "Bash"}),
    "tool_result": (
        e.ToolResult("c", exit_code=3, why="error", result="secret"),
        {"call": "c", "ok": False, "exit_code": 3, "why": "error"},
    ),
    "heartbeat": (e.Heartbeat("mcp_progress", "c"), {"what": "mcp_progress", "call": "c"}),
    "retry": (
        e.Retry(2, 500, 529, "overload"),
        {"attempt": 2, "delay_ms": 500, "status": 529, "class": "overload"},
    ),
    "limit": (e.Limited("usage", 900, "five_hour"), {"class": "usage", "span_ms": 900, "scope": "five_hour"}),
    "permission": (
        e.Permission("waiting", "q", "Bash"),
        {"state": "waiting", "question": "q", "tool": "Bash"},
    ),
    "subagent": (e.Subagent("start", "h", "c"), {"state": "start", "id": "h", "call": "c"}),
    "compaction": (e.Compacted("start"), {"state": "start"}),
    "error": (
        e.Failed("auth", 401, True, "no"),
        {"class": "auth", "status": 401, "fatal": True, "message": "no"},
    ),
    "usage": (
        e.Usage("m", 1, 2, 3, 0.5),
        {"message": "m", "input_tokens": 1, "output_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5},
    ),
    "stream_restart": (e.Restarted(), {}),
}


@pytest.mark.parametrize("kind", e.KINDS)
def test_names_and_numbers_are_kept(kind: str) -> None:
    """Of each kind of event its names, ids and counts are kept, and no word of what was said."""
    event, fields = KEPT[kind]
    assert outline(event, source="disk") == {"kind": kind, **fields, "source": "disk"}
    assert "secret" not in json.dumps(outline(event))


def test_what_is_long_is_cut() -> None:
    """A tool's name may be a whole command line, and an error a whole page."""
    assert len(str(outline(e.ToolCalled("c", "x" * 999))["tool"])) == LONGEST_NAME
    assert len(str(outline(e.Failed(message="x" * 999))["message"])) == LONGEST_ERROR


def test_a_call_that_still_runs_came_to_nothing_yet() -> None:
    """A partial result is neither good nor bad; a helper's event says whose it is."""
    assert outline(e.ToolResult("c", partial=True), sub="h") == {
        "kind": "tool_result", "call": "c", "partial": True, "sub": "h",
    }  # fmt: skip
    assert outline(e.ToolCalled("c", background=True)) == {
        "kind": "tool_call",
        "call": "c",
        "background": True,
    }
