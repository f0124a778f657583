"""pydantic-ai: events of `run_stream_events()`, told apart by their `event_kind`.

A part is told when it starts (with its first words), by its deltas, and again whole when it ends, so the end adds
nothing. A tool that asks the model to try again has failed. Retries and limits are exceptions, never events.
"""

from longwatch.observe import events as e
from longwatch.observe.acp import look
from longwatch.streams.adapters import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters import Read


def reader() -> "Read":
    """Return what reads one run's events."""
    return read


def read(event: object) -> "Events":
    """Return what an event means; nothing for one that is new to us."""
    kind = look(event, "event_kind")
    reader = _KINDS.get(kind) if isinstance(kind, str) else None
    return () if reader is None else reader(event)


def _started(event: object) -> "Events":
    """A part's first words; a call's arguments are still being written, it has not begun."""
    part = look(event, "part")
    kind, content = look(part, "part_kind"), look(part, "content")
    if kind == "text":
        return (e.Text(str(content or "")),)
    if kind == "compaction":
        return (e.Compacted("end"),)
    return (e.Thinking(len(content) if isinstance(content, str) else 0),)


def _delta(event: object) -> "Events":
    delta = look(event, "delta")
    words = look(delta, "content_delta") or look(delta, "args_delta")
    if look(delta, "part_delta_kind") == "text":
        return (e.Text(str(words or "")),)
    return (e.Thinking(len(words) if isinstance(words, str) else 0),)


def _called(event: object) -> "Events":
    part = look(event, "part")
    tool, arguments = str(look(part, "tool_name") or ""), parsed(look(part, "args"))
    return (e.ToolCalled(str(look(part, "tool_call_id")), tool, arguments),)


def _returned(event: object) -> "Events":
    """A result, or words that tell the model to try again (a part of their own before version 2)."""
    part = look(event, "part") or look(event, "result")
    outcome = look(part, "outcome") or ("retried" if look(part, "part_kind") == "retry-prompt" else "success")
    why = _WHY.get(outcome, "error") if isinstance(outcome, str) else "error"
    call, content = str(look(part, "tool_call_id")), look(part, "content")
    return (e.ToolResult(call, not why, why=why, result=content),)


def _asked(event: object) -> "Events":
    """Calls that wait for a human's leave; those that are only carried out elsewhere are open calls."""
    calls = look(look(event, "requests"), "approvals") or ()
    return tuple(
        e.Permission("waiting", str(look(call, "tool_call_id")), str(look(call, "tool_name") or ""))
        for call in calls
    )


def _answered(event: object) -> "Events":
    answers = look(look(event, "results"), "approvals")
    if not isinstance(answers, dict):
        return ()
    return tuple(e.Permission(_verdict(answer), str(call)) for call, answer in answers.items())


def _verdict(answer: object) -> str:
    return "denied" if answer is False or look(answer, "kind") == "tool-denied" else "allowed"


def _reconnected(event: object) -> "Events":
    """A new connection that carried the turn through has lost no call."""
    return () if look(event, "state_restored") else (e.Restarted(),)


_WHY = {"success": "", "denied": "denied", "interrupted": "interrupted"}
_KINDS: "dict[str, Callable[[Any], Events]]" = {
    "part_start": _started,
    "part_delta": _delta,
    "function_tool_call": _called,
    "output_tool_call": _called,
    "function_tool_result": _returned,
    "output_tool_result": _returned,
    "deferred_tool_requests": _asked,
    "deferred_tool_results": _answered,
    "agent_run_result": lambda event: (e.TurnEnded(), e.SessionEnded()),
    "realtime_turn_complete": lambda event: (e.TurnEnded(),),
    "realtime_session_reconnect": _reconnected,
    "realtime_session_error": lambda event: (e.Failed(str(look(event, "type") or "")),),
}
