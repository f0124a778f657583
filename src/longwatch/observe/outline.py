"""What may be kept of an event: its kind, names, ids and counts. What was asked, said or answered is not ours to keep.

The exception is what a program or a provider reports as an error, cut short: without it nobody knows what to do.
"""

from longwatch.observe import events as e

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: A name that is longer is a command line; an error that is longer has said what it had to.
LONGEST_NAME, LONGEST_ERROR = 80, 300


def outline(event: e.Event, *, sub: str = "", source: str = "") -> dict[str, object]:
    """Return an event as `logs` shows it, with whose it is (`sub`) and where it was read; what is empty is left out."""
    fields = {"kind": event.kind, **_FIELDS[type(event)](event), "sub": sub, "source": source}
    return {key: value for key, value in fields.items() if value not in ("", None)}


def _name(text: str) -> str:
    return text[:LONGEST_NAME]


def _called(event: e.ToolCalled) -> dict[str, object]:
    return {"call": event.call, "tool": _name(event.tool), "background": event.background or None}


def _result(event: e.ToolResult) -> dict[str, object]:
    # A call that still runs has not come to anything yet.
    ended = (
        {"partial": True}
        if event.partial
        else {"ok": event.ok, "exit_code": event.exit_code, "why": event.why}
    )
    return {"call": event.call, **ended}


_FIELDS: "dict[type[e.Event], Callable[[Any], dict[str, object]]]" = {
    e.SessionStarted: lambda event: {
        "session": event.session, "resumed": event.resumed or None, "model": _name(event.model),
    },
    e.SessionEnded: lambda event: {"ok": event.ok, "reason": _name(event.reason)},
    e.TurnStarted: lambda event: {"by": event.by},
    e.TurnEnded: lambda event: {"ok": event.ok, "reason": event.reason},
    e.Text: lambda event: {"chars": len(event.text)},
    e.Thinking: lambda event: {"chars": event.chars},
    e.ToolCalled: _called,
    e.ToolResult: _result,
    e.Heartbeat: lambda event: {"what": event.what, "call": event.call},
    e.Retry: lambda event: {
        "attempt": event.attempt or None, "delay_ms": event.delay, "status": event.status, "class": event.cls,
    },
    e.Limited: lambda event: {
        "class": event.cls, "span_ms": event.span, "scope": _name(event.scope), "lifted": event.lifted or None,
    },
    e.Permission: lambda event: {"state": event.state, "question": event.question, "tool": _name(event.tool)},
    e.Subagent: lambda event: {"state": event.state, "id": event.sub, "call": event.call},
    e.Compacted: lambda event: {"state": event.state},
    e.Failed: lambda event: {
        "class": event.cls, "status": event.status, "fatal": event.fatal or None, "message": event.message[:LONGEST_ERROR],
    },
    e.Usage: lambda event: {
        "message": event.message, "input_tokens": event.input_tokens, "output_tokens": event.output_tokens,
        "cached_tokens": event.cached_tokens, "cost_usd": event.cost_usd,
    },
    e.Restarted: lambda event: {},
}  # fmt: skip
