"""GitHub Copilot CLI: `events.jsonl`, and the same envelopes on stdout with more in between.

A command that failed is a success with an exit code. One that outlives its first 30 seconds is a success too, with
neither code nor end: it still runs.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.loose import count, kind_of, number, table, tables, text
from longwatch.observe.record import DISK, STREAM, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Found = tuple[Events, str]

_STILL = "is still running after"
_ALLOWED = ("approved", "allow")
_UNATTENDED = "could-not-request"


class CopilotReader(Reader):
    """Reads a file of events or a stream."""

    varying: "ClassVar[re.Pattern[str]]" = re.compile(r"(?<=<shellId: )\d+")

    def __init__(self, source: str = DISK) -> None:
        super().__init__(source)
        #: The message whose text came in pieces, and whether the last one called tools, of the agent and each helper.
        self._streamed = ""
        self._calling: dict[str, bool] = {}

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what an envelope means."""
        kind, uid, at = kind_of(value), text(value.get("id")), value.get("timestamp")
        sub, data = text(value.get("agentId")), table(value.get("data"))
        found: Events = ()
        note = ""
        if kind == "result":
            found = self._result(value)
        elif kind in self._HANDLERS and (not uid or self.said.add(uid)):
            found, note = self._HANDLERS[kind](self, data, at, sub)
        yield self.made(*found, at=at, sub=sub, raw_type=kind, uid=uid, note=note)

    def _start(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        self.session = text(data.get("sessionId")) or self.session
        cwd = text(table(data.get("context")).get("cwd"))
        model = text(data.get("selectedModel"))
        return (e.SessionStarted(self.session, resumed="resumeTime" in data, cwd=cwd, model=model),), ""

    def _user(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.TurnStarted("agent" if text(data.get("source")).startswith("agent-") else "user"),), ""

    def _message(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        self._calling[sub] = any(tables(data.get("toolRequests")))
        said = text(data.get("content"))
        if not said or data.get("messageId") == self._streamed:
            return (), ""
        return (e.Text(said),), ""

    def _delta(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        self._streamed = text(data.get("messageId"))
        return (e.Text(text(data.get("deltaContent"))),), ""

    def _thought(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Thinking(len(text(data.get("content") or data.get("deltaContent")))),), ""

    def _arguments(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Thinking(0),), ""

    def _step_over(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        """A step that called tools goes on with their results; only one that called none ends the turn."""
        return (() if self._calling.get(sub, True) else self.ended("end_turn", sub=bool(sub))), ""

    def _called(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return self.calls.began(
            text(data.get("toolCallId")), text(data.get("toolName")), data.get("arguments")
        ), ""

    def _completed(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        call, ok = text(data.get("toolCallId")), data.get("success") is not False
        code = number(table(data.get("shellExecution")).get("exitCode"))
        said = text(table(data.get("result")).get("content"))
        if ok and code is None and _STILL in said[-300:]:
            return self.calls.ended(e.ToolResult(call, partial=True)), ""
        reason = text(table(data.get("error")).get("code"))
        why = "" if ok else reason if reason == "denied" else "error"
        return self.calls.ended(e.ToolResult(call, ok, code, why, result=self.steady(said))), ""

    def _moved(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        """A tool's own output or progress."""
        return (e.Heartbeat("tool_progress", text(data.get("toolCallId"))),), ""

    def _asked(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        request = table(data.get("permissionRequest"))
        return (e.Permission("waiting", text(data.get("requestId")), text(request.get("kind"))),), ""

    def _answered(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        word = text(table(data.get("result")).get("kind"))
        state = "allowed" if word.startswith(_ALLOWED) else "auto_denied" if _UNATTENDED in word else "denied"
        return (e.Permission(state, text(data.get("requestId"))),), ""

    def _question(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Permission("waiting", text(data.get("requestId")), "user_input"),), ""

    def _question_over(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Permission("allowed", text(data.get("requestId"))),), ""

    def _call_failed(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        """One attempt failed; whether it is tried again is said by a record of its own."""
        return self.limited("", number(data.get("statusCode")), at)

    def _retry(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        cls = "rate" if data.get("reason") == "rate_limit" else "overload"
        return (e.Retry(cls=cls),), ""

    def _error(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        said, status = text(data.get("message")), number(data.get("statusCode"))
        word, code = text(data.get("errorType")), text(data.get("errorCode"))
        cls = (
            "usage"
            if code.startswith("user_") or word == "quota"
            else "auth"
            if word == "authentication"
            else ""
        )
        limit, note = self.limited(said, status, at, cls=cls, scope=code)
        named = limit[0].cls if limit and isinstance(limit[0], e.Limited) else word
        return (
            e.Failed(named, status, fatal=True, message=said),
            *limit,
            *self.ended("error", sub=bool(sub)),
        ), note

    def _used_tokens(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        """Tokens only: its `cost` is in requests of a plan."""
        told = table(data.get("usage"))
        return self.used(
            text(table(told.get("accounting")).get("usageId")), count(told.get("inputTokens")),
            count(told.get("outputTokens")), count(told.get("cacheReadTokens")), inside=True,
        ), ""  # fmt: skip

    def _aborted(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return self.ended("aborted", sub=bool(sub)), ""

    def _helper(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Subagent("start", sub or text(data.get("toolCallId")), text(data.get("toolCallId"))),), ""

    def _helper_over(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Subagent("end", sub or text(data.get("toolCallId"))),), ""

    def _helper_failed(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Subagent("failed", sub or text(data.get("toolCallId"))),), ""

    def _compacting(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Compacted("start"),), ""

    def _compacted(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return (e.Compacted("end"),), ""

    def _shutdown(self, data: "dict[str, Any]", at: object, sub: str) -> "Found":
        return self.closed(ok=data.get("shutdownType") != "error", reason=text(data.get("shutdownType"))), ""

    def _result(self, value: "dict[str, Any]") -> "Events":
        self.session = text(value.get("sessionId")) or self.session
        code = number(value.get("exitCode"))
        return self.closed(ok=code in (None, 0), reason=f"exit {code}" if code else "")

    _HANDLERS: "ClassVar[dict[str, Callable[[CopilotReader, dict[str, Any], object, str], Found]]]" = {
        "session.start": _start,
        "session.resume": _start,
        "user.message": _user,
        "assistant.message": _message,
        "assistant.message_delta": _delta,
        "assistant.reasoning": _thought,
        "assistant.reasoning_delta": _thought,
        "assistant.tool_call_delta": _arguments,
        "assistant.turn_end": _step_over,
        "assistant.turn_retry": _retry,
        "tool.execution_start": _called,
        "tool.execution_complete": _completed,
        "tool.execution_partial_result": _moved,
        "tool.execution_progress": _moved,
        "tool.shell_output": _moved,
        "permission.requested": _asked,
        "permission.completed": _answered,
        "user_input.requested": _question,
        "user_input.completed": _question_over,
        "model.call_failure": _call_failed,
        "session.error": _error,
        "session.usage_record": _used_tokens,
        "abort": _aborted,
        "subagent.started": _helper,
        "subagent.completed": _helper_over,
        "subagent.failed": _helper_failed,
        "session.compaction_start": _compacting,
        "session.compaction_complete": _compacted,
        "session.shutdown": _shutdown,
    }


_PREFIXES = ("session.", "assistant.", "tool.", "user.", "model.", "permission.", "subagent.")


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """Its envelopes hold `data`, and their types have a dot in them; what is ephemeral is only printed."""
    envelopes = [r for r in records if kind_of(r).startswith(_PREFIXES) and "data" in r and "id" in r]
    if not envelopes:
        return ""
    printed = any(record.get("ephemeral") or kind_of(record) == "session.skills_loaded" for record in records)
    return STREAM if printed else DISK


DIALECT = Dialect("copilot", CopilotReader, recognise)
