"""Copilot: the events of `copilot --output-format json`, an envelope each with its data.

Most of them are bookkeeping, often a hundred within a second, and none of that is progress. What a helper does
carries its id: it is the helper's call that moves, and its words are not the agent's answer.
"""

from longwatch.observe import events as e
from longwatch.observe.acp import look, whole
from longwatch.streams.adapters.shapes import began, failed, over, result, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters.shapes import Record, Rows


class Copilot:
    """Reads one program's events, in their order."""

    __slots__ = ("_streamed",)

    def __init__(self) -> None:
        self._streamed = False  # the coming whole message was told in parts

    def _user(self, record: "Record") -> "Events":
        return (e.TurnStarted(),) if _own(record) else (e.Heartbeat(),)

    def _delta(self, record: "Record") -> "Events":
        own = _own(record)
        self._streamed = self._streamed or own
        return said(look(record["data"], "delta_content"), own=own)

    def _message(self, record: "Record") -> "Events":
        if not _own(record):
            return said(look(record["data"], "content"), own=False)
        known, self._streamed = self._streamed, False
        return said(look(record["data"], "content"), own=not known)

    def _thought(self, record: "Record") -> "Events":
        data = record["data"]
        return said(look(data, "delta_content") or look(data, "content"), own=False)

    def _writes(self, record: "Record") -> "Events":
        return said(look(record["data"], "input_delta"), own=False)

    def _called(self, record: "Record") -> "Events":
        data = record["data"]
        tool = str(look(data, "tool_name") or "")
        return (e.ToolCalled(str(look(data, "tool_call_id")), tool, look(data, "arguments")),)

    def _moves(self, record: "Record") -> "Events":
        return (e.Heartbeat("tool_progress", str(look(record["data"], "tool_call_id") or "")),)

    def _result(self, record: "Record") -> "Events":
        data = record["data"]
        code = look(look(data, "shell_execution"), "exit_code")
        why = "denied" if look(look(data, "error"), "code") == "denied" else "error"
        output = look(look(data, "result"), "content")
        return (result(look(data, "tool_call_id"), bool(look(data, "success")), code, output, why),)

    def _failure(self, record: "Record") -> "Events":
        """One failed request: what comes of it is told by a retry or an error."""
        data = record["data"]
        return (e.Failed(str(look(data, "failure_kind") or ""), whole(look(data, "status_code"))),)

    def _retry(self, record: "Record") -> "Events":
        return (e.Retry(cls=str(look(record["data"], "reason") or "")),)

    def _error(self, record: "Record") -> "Events":
        data = record["data"]
        return failed(look(data, "message"), look(data, "status_code"), look(data, "error_type"))

    def _asked(self, record: "Record") -> "Events":
        data = record["data"]
        return (e.Permission("waiting", _question(data), str(look(data, "tool_name") or "")),)

    def _answered(self, record: "Record") -> "Events":
        data = record["data"]
        verdict = str(look(look(data, "result"), "kind") or look(data, "result") or "")
        return (e.Permission("denied" if "denied" in verdict else "allowed", _question(data)),)

    def _helper(self, record: "Record") -> "Events":
        word = str(record["type"]).partition(".")[2]
        call = str(look(record["data"], "tool_call_id") or "")
        state = {"started": "start", "completed": "end"}.get(word, "failed")
        return (e.Subagent(state, str(record.get("agentId") or call), call),)

    def _ended(self, record: "Record") -> "Events":
        code = whole(record["exitCode"])
        return over(code == 0, f"exit {code}")

    ROWS: "ClassVar[Rows]" = {
        "session.start": ("data", lambda self, record: began(record)),
        "session.resume": ("data", lambda self, record: began(record)),
        "session.error": ("data", _error),
        "session.compaction_start": ("", lambda self, record: (e.Compacted("start"),)),
        "session.compaction_complete": ("", lambda self, record: (e.Compacted("end"),)),
        "session.idle": ("", lambda self, record: (e.TurnEnded(),)),
        "user.message": ("data", _user),
        "assistant.message": ("data", _message),
        "assistant.message_delta": ("data", _delta),
        "assistant.reasoning": ("data", _thought),
        "assistant.reasoning_delta": ("data", _thought),
        "assistant.tool_call_delta": ("data", _writes),
        "assistant.turn_retry": ("data", _retry),
        "assistant.idle": ("", lambda self, record: (e.TurnEnded(),)),
        "model.call_failure": ("data", _failure),
        "tool.execution_start": ("data", _called),
        "tool.execution_progress": ("data", _moves),
        "tool.execution_partial_result": ("data", _moves),
        "tool.shell_output": ("data", _moves),
        "tool.execution_complete": ("data", _result),
        "permission.requested": ("data", _asked),
        "permission.completed": ("data", _answered),
        "subagent.started": ("data", _helper),
        "subagent.completed": ("data", _helper),
        "subagent.failed": ("data", _helper),
        "result": ("exitCode", _ended),
    }


def _own(record: "Record") -> bool:
    return not record.get("agentId") and not look(record.get("data"), "parent_tool_call_id")


def _question(data: object) -> str:
    return str(look(data, "request_id") or look(data, "tool_call_id") or "")
