"""openai-agents: events of `Runner.run_streamed(...).stream_events()`.

Raw events are the model's, item events the run's: the model's words come in raw deltas and again in a whole message,
calls and their outputs are items. Tools that the provider runs are told once, when they are over. A run's end, its
retries and its limits are not events: it stops, or it raises.
"""

from longwatch.observe import events as e
from longwatch.observe.acp import look, whole
from longwatch.streams.adapters import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters import Read

#: Calls that the provider carries out itself: no output item will follow.
HOSTED = frozenset((
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
    "tool_search_call",
))  # fmt: skip
_TEXT = ("response.output_text.delta", "response.refusal.delta")


def reader() -> "Read":
    """Return what reads one run's events."""
    return Run().read


class Run:
    """Reads the events of one run, in their order."""

    __slots__ = ("_streamed",)

    def __init__(self) -> None:
        # Messages whose words came in deltas and that were not told whole yet. Some models give all of them one id.
        self._streamed: set[object] = set()

    def read(self, event: object) -> "Events":
        """Return what an event means; nothing for one that is new to us."""
        kind = look(event, "type")
        if kind == "raw_response_event":
            return self._raw(look(event, "data"))
        if kind == "run_item_stream_event":
            reader = self._ITEMS.get(str(look(event, "name")))
            return () if reader is None else reader(self, look(event, "item"))
        return ()

    def _raw(self, data: object) -> "Events":
        kind = str(look(data, "type"))
        words = look(data, "delta")
        if kind in _TEXT:
            self._streamed.add((str(look(data, "item_id")), str(look(data, "output_index"))))
            return (e.Text(str(words or "")),)
        if kind.endswith(".delta"):
            return (e.Thinking(len(words) if isinstance(words, str) else 0),)
        if kind == "response.created":
            self._streamed.clear()  # a response before it that broke off is told no more
        if kind == "keepalive":
            return (e.Heartbeat(),)
        if kind in ("error", "response.failed"):
            error = look(look(data, "response"), "error") or data
            return (e.Failed(str(look(error, "code") or ""), message=str(look(error, "message") or "")),)
        return ()

    def _message(self, item: object) -> "Events":
        """A whole message: of a model that does not stream its words these are the first ones."""
        if self._streamed:
            self._streamed.pop()
            return ()
        parts = look(look(item, "raw_item"), "content")
        words = [look(part, "text") or look(part, "refusal") or "" for part in parts or ()]
        return (e.Text("".join(map(str, words))),)

    def _called(self, item: object) -> "Events":
        raw = look(item, "raw_item")
        kind = str(look(raw, "type") or "")
        call = str(look(raw, "call_id") or look(raw, "id") or "")
        tool = str(look(raw, "name") or kind.removesuffix("_call"))
        began = e.ToolCalled(call, tool, parsed(look(raw, "arguments") or look(raw, "action")))
        if kind not in HOSTED:
            return (began,)
        ok = look(raw, "status") not in ("failed", "incomplete") and not look(raw, "error")
        return (began, e.ToolResult(call, ok, why="" if ok else "error"))

    def _output(self, item: object) -> "Events":
        raw = look(item, "raw_item")
        call, status = str(look(raw, "call_id") or ""), look(raw, "status")
        ok = status not in ("failed", "incomplete")
        return (e.ToolResult(call, ok, _exit_code(raw), "" if ok else "error", result=look(item, "output")),)

    def _asked(self, item: object) -> "Events":
        raw = look(item, "raw_item")
        return (e.Permission("waiting", str(look(raw, "id")), str(look(raw, "name") or "")),)

    def _answered(self, item: object) -> "Events":
        raw = look(item, "raw_item")
        state = "allowed" if look(raw, "approve") else "denied"
        return (e.Permission(state, str(look(raw, "approval_request_id"))),)

    _ITEMS: "ClassVar[dict[str, Callable[[Run, Any], Events]]]" = {
        "message_output_created": _message,
        "tool_called": _called,
        "tool_output": _output,
        "mcp_approval_requested": _asked,
        "mcp_approval_response": _answered,
    }


def _exit_code(raw: object) -> int | None:
    """Return the first bad exit code of a shell call's commands, or 0; None where none is told."""
    parts = look(raw, "output")
    parts = parts if isinstance(parts, list | tuple) else ()
    codes = [whole(look(look(part, "outcome"), "exit_code")) for part in parts]
    known = [code for code in codes if code is not None]
    return next((code for code in known if code), 0 if known else None)
