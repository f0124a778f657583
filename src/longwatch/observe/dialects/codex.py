"""OpenAI Codex CLI: rollout files (`rollout`) and `codex exec --json`.

The stream has no times, and restates a fatal error in `turn.failed`. It makes one turn and ends, so the end of that
turn is its final record.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.loose import kind_of, number, table, text
from longwatch.observe.dialects.rollout import RETRY, RolloutReader
from longwatch.observe.record import DISK, STREAM, WORDS, Record
from longwatch.observe.wording import limit_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar

    Found = tuple[tuple[e.Event, ...], str]

_BANNER = re.compile(rb"session id: ([0-9a-f]{8}-[0-9a-f-]{27})\s*$")
_AGAIN = re.compile(rb"ERROR: Reconnecting\.\.\. (\d{1,4})/\d")
#: Items that are calls, and what to call the tool where the item does not say.
_TOOLS = {
    "command_execution": "shell", "file_change": "", "mcp_tool_call": "", "web_search": "", "collab_tool_call": "",
}  # fmt: skip


class ExecReader(RolloutReader):
    """Reads what `codex exec --json` prints."""

    def stderr(self, line: bytes) -> list[Record]:
        """Where it prints words it says there which conversation it is, first of all, and that it tries again.

        Its tools' output is there, too: another one's words never name ours, and a retry only counts for less.
        """
        found = None if self.session else _BANNER.match(line)
        if found:
            self.session = found[1].decode()
            return [self.made(e.SessionStarted(self.session), raw_type=WORDS)]
        if found := _AGAIN.match(line):
            return [self.made(e.Retry(int(found[1])), raw_type=WORDS)]
        return []

    def _thread(self, value: "dict[str, Any]", at: object) -> "Found":
        self.session = text(value.get("thread_id"))
        self.calls.reset()  # items are counted from nought in each process
        return (e.SessionStarted(self.session),), ""

    def _started(self, value: "dict[str, Any]", at: object) -> "Found":
        item = table(value.get("item"))
        if kind_of(item) not in _TOOLS:
            return (), ""
        return self.calls.began(text(item.get("id")), _tool(item), _given(item)), ""

    def _updated(self, value: "dict[str, Any]", at: object) -> "Found":
        item = table(value.get("item"))
        call = text(item.get("id"))
        return ((e.Heartbeat("tool_progress", call),) if call in self.calls.open else ()), ""

    def _completed(self, value: "dict[str, Any]", at: object) -> "Found":
        item = table(value.get("item"))
        kind, call = kind_of(item), text(item.get("id"))
        if kind == "agent_message":
            return (e.Text(text(item.get("text"))),), ""
        if kind == "reasoning":
            return (e.Thinking(len(text(item.get("text")))),), ""
        if kind not in _TOOLS:
            return (), ""
        status = text(item.get("status"))
        ok = status not in ("failed", "declined")
        why = "" if ok else "denied" if status == "declined" else "error"
        result = e.ToolResult(
            call, ok, number(item.get("exit_code")), why, result=item.get("aggregated_output")
        )
        return self.calls.ended(result, _tool(item)), ""

    def _stream_error(self, value: "dict[str, Any]", at: object) -> "Found":
        said = text(value.get("message"))
        return self._retry(value, at) if RETRY.match(said) else self._fatal(said, None, at)

    def _stream_over(self, value: "dict[str, Any]", at: object) -> "Found":
        """`codex exec` makes one turn and ends, so the end of the turn is its final record."""
        if kind_of(value) == "turn.completed":
            return (*self.ended("end_turn"), *self.closed(ok=True)), ""
        said = text(table(value.get("error")).get("message"))
        known = said == self._error
        found, note = self._fatal(said, None, at)
        if known:  # told by the `error` before it
            found, note = found[:1], ""
        return (
            *found,
            *self.ended("error"),
            *self.closed(ok=False, reason=limit_class(said) or "error"),
        ), note

    _TOP: "ClassVar[dict[str, Callable[[Any, dict[str, Any], object], Found]]]" = {
        "thread.started": _thread,
        "turn.started": RolloutReader.turn_began,
        "turn.completed": _stream_over,
        "turn.failed": _stream_over,
        "item.started": _started,
        "item.updated": _updated,
        "item.completed": _completed,
        "error": _stream_error,
    }


def _tool(item: "dict[str, Any]") -> str:
    kind = kind_of(item)
    return _TOOLS.get(kind) or text(item.get("tool")) or kind


def _given(item: "dict[str, Any]") -> object:
    return next((item[name] for name in ("command", "arguments", "changes", "query") if name in item), None)


def reader(source: str) -> Reader:
    """Return a reader of rollouts or, of another shape altogether, of the stream."""
    return ExecReader(source) if source == STREAM else RolloutReader(source)


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """Both have type names of their own; the oldest rollouts only their items."""
    kinds = {kind_of(record) for record in records}
    if kinds & {"thread.started", "item.completed", "turn.started"}:
        return STREAM
    if "session_meta" in kinds or any(
        kind_of(r) in ("response_item", "event_msg") and "payload" in r for r in records
    ):
        return DISK
    if any(kind_of(table(record.get("msg"))) in ("task_started", "session_configured") for record in records):
        return STREAM
    return DISK if kinds & {"function_call", "local_shell_call", "function_call_output"} else ""


DIALECT = Dialect("codex", reader, recognise)
