"""The shapes of records that agent CLIs print, one per line: which row they match, and what they mean.

Thin on purpose: what a watch of a live stream needs, and no more. Each program is a class with a table of rows: the
record's `type`, a key that must be there too, and how it is read. Where two programs share a word that key decides.
Claude's records, which Qwen and Amp print too, are read as those of its SDK are.

Words of a limit are looked for in error records only: agents read and write about limits all day.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.acp import look, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from longwatch.observe.acp import Events

    Record = dict[str, Any]
    #: A key that must be there ("" for none), and the method that reads such a record.
    Row = tuple[str, Callable[[Any, Record], Events]]
    Rows = dict[str, Row]

#: What a provider's refusal is called in an error's text, and the class of limit that it is. The first match counts.
LIMITS = (
    ("usage limit", "usage"),
    ("daily quota", "usage"),
    ("credit balance", "money"),
    ("insufficient_quota", "money"),
    ("rate limit", "rate"),
    ("rate_limit", "rate"),
    ("quota", "usage"),
    ("429", "rate"),
)
#: The classes of limit behind the status of a failed request.
STATUSES = {401: "auth", 402: "money", 403: "auth", 429: "rate"}
#: A sign of life that is no progress.
ALIVE: "Events" = (e.Heartbeat(),)


# -- what several programs share


def failed(message: object, status: object = None, cls: object = "", *, fatal: bool = True) -> "Events":
    """An error, and the limit that it reports if it is one."""
    text, code = str(message or ""), whole(status)
    error = e.Failed(str(cls or ""), code, fatal, text)
    low = f"{cls} {text}".lower()
    limit = next((kind for words, kind in LIMITS if words in low), STATUSES.get(code or 0))
    return (error, e.Limited(limit)) if limit else (error,)


def over(ok: bool, reason: str = "") -> "Events":
    """The program is done: its turn and its session end."""
    return (e.TurnEnded("end_turn" if ok else "error", ok), e.SessionEnded(ok, reason))


def result(
    call: object, ok: bool, code: object = None, output: object = None, why: str = "error"
) -> e.ToolResult:
    """A call is over."""
    return e.ToolResult(str(call), ok, whole(code), "" if ok else why, result=output)


def said(text: object, *, own: bool = True) -> "Events":
    """The words of the agent; those of its helpers, and those told before, are progress without words."""
    return (e.Text(str(text or "")),) if own else (e.Thinking(len(str(text or ""))),)


def began(record: "Record") -> "Events":
    """A session begins, under whatever name the program gives its id."""
    data = record.get("data") or record
    name = look(data, "session_id") or record.get("thread_id") or record.get("id") or ""
    resumed = str(record["type"]).endswith("resume")
    return (
        e.SessionStarted(str(name), resumed, str(look(data, "cwd") or ""), str(look(data, "model") or "")),
    )


# -- the programs


class Codex:
    """`codex exec --json`: items that start, are updated and are completed."""

    __slots__ = ("_open",)
    #: Items that are calls, and the field with their arguments.
    TOOLS: "ClassVar[dict[str, str]]" = {
        "command_execution": "command",
        "mcp_tool_call": "arguments",
        "web_search": "query",
        "file_change": "changes",
        "collab_tool_call": "tool",
    }
    _AGAIN = re.compile(r"Reconnecting\D*(\d+)/")

    def __init__(self) -> None:
        self._open: set[str] = set()

    def _item(self, record: "Record") -> "Events":
        item, phase = record["item"], str(record["type"])
        kind = str(look(item, "type"))
        if kind in self.TOOLS:
            return self._tool(phase, item)
        if phase != "item.completed":
            return ALIVE
        if kind == "agent_message":
            return said(look(item, "text"))
        if kind == "error":
            return failed(look(item, "message"), fatal=False)
        return said(look(item, "text"), own=False)

    def _tool(self, phase: str, item: object) -> "Events":
        """A change of files is told once, when it is done; all other tools when they start as well."""
        call, kind = str(look(item, "id")), str(look(item, "type"))
        if phase == "item.updated":
            return (e.Heartbeat("tool_progress", call),)
        begun = () if call in self._open else (self._called(call, kind, item),)
        if phase == "item.started":
            self._open.add(call)
            return begun
        self._open.discard(call)
        status = look(item, "status")
        why = "denied" if status == "declined" else "error"
        output = look(item, "aggregated_output") or look(item, "result")
        bad = status in ("failed", "declined")
        return (*begun, result(call, not bad, look(item, "exit_code"), output, why))

    def _called(self, call: str, kind: str, item: object) -> e.Event:
        return e.ToolCalled(call, str(look(item, "tool") or kind), look(item, self.TOOLS[kind]))

    def _error(self, record: "Record") -> "Events":
        again = self._AGAIN.match(str(record["message"]))
        return (e.Retry(int(again[1][:9])),) if again else failed(record["message"])

    def _turn_failed(self, record: "Record") -> "Events":
        return (*failed(look(record.get("error"), "message")), e.TurnEnded("error", ok=False))

    ROWS: "ClassVar[Rows]" = {
        "thread.started": ("", lambda self, record: began(record)),
        "turn.started": ("", lambda self, record: (e.TurnStarted(),)),
        "turn.completed": ("", lambda self, record: (e.TurnEnded(),)),
        "turn.failed": ("", _turn_failed),
        "item.started": ("item", _item),
        "item.updated": ("item", _item),
        "item.completed": ("item", _item),
        "error": ("message", _error),
    }


class Gemini:
    """`gemini -o stream-json`: a failing command is a success, its exit code stands in the text."""

    __slots__ = ()
    _EXITED = re.compile(r"(?:Command exited with code|Exit Code): (\d{1,9})")

    def _message(self, record: "Record") -> "Events":
        return (e.TurnStarted(),) if record["role"] == "user" else said(record.get("content"))

    def _called(self, record: "Record") -> "Events":
        return (
            e.ToolCalled(
                str(record["tool_id"]), str(record.get("tool_name") or ""), record.get("parameters")
            ),
        )

    def _result(self, record: "Record") -> "Events":
        output = record.get("output")
        # Not from deep inside of it, where other programs speak.
        exited = self._EXITED.search(output[:300]) if isinstance(output, str) else None
        code = int(exited[1]) if exited else None
        return (result(record["tool_id"], record.get("status") != "error", code, output),)

    def _ended(self, record: "Record") -> "Events":
        ok, error = record["status"] == "success", record.get("error")
        errors = () if ok else failed(look(error, "message"), cls=look(error, "type"))
        return (*errors, *over(ok))

    ROWS: "ClassVar[Rows]" = {
        "init": ("session_id", lambda self, record: began(record)),
        "message": ("role", _message),
        "tool_use": ("tool_id", _called),
        "tool_result": ("tool_id", _result),
        "error": ("severity", lambda self, record: failed(record.get("message"), fatal=False)),
        "result": ("status", _ended),
    }


class Opencode:
    """`opencode run --format json`: parts; a call is told once, when it is over."""

    __slots__ = ()

    def _called(self, record: "Record") -> "Events":
        part = record["part"]
        state, call = look(part, "state"), str(look(part, "callID"))
        code = look(look(state, "metadata"), "exit")
        begun = e.ToolCalled(call, str(look(part, "tool") or ""), look(state, "input"))
        return (begun, result(call, look(state, "status") != "error", code, look(state, "output")))

    def _step(self, record: "Record") -> "Events":
        return (e.TurnEnded(),) if look(record["part"], "reason") == "stop" else ALIVE

    def _error(self, record: "Record") -> "Events":
        data = look(record["error"], "data")
        return failed(look(data, "message"), look(data, "status_code"), look(record["error"], "name"))

    ROWS: "ClassVar[Rows]" = {
        "step_start": ("part", lambda self, record: ALIVE),
        "step_finish": ("part", _step),
        "text": ("part", lambda self, record: said(look(record["part"], "text"))),
        "reasoning": ("part", lambda self, record: said(look(record["part"], "text"), own=False)),
        "tool_use": ("part", _called),
        "error": ("error", _error),
    }


class Pi:
    """`pi --mode json`: an update repeats the whole message so far, beside the words that are new."""

    __slots__ = ("_streamed",)

    def __init__(self) -> None:
        self._streamed = False

    def _update(self, record: "Record") -> "Events":
        part = record["assistantMessageEvent"]
        kind, words = look(part, "type"), look(part, "delta")
        if kind == "text_delta":
            self._streamed = True
            return said(words)
        return said(words, own=False) if isinstance(words, str) else ALIVE

    def _message(self, record: "Record") -> "Events":
        message = record["message"]
        if look(message, "role") != "assistant":
            return ALIVE
        known, self._streamed = self._streamed, False
        if look(message, "stop_reason") == "error":
            return failed(look(message, "error_message"), fatal=False)
        content = look(message, "content")
        parts = content if isinstance(content, list) else ()
        text = "".join(str(look(part, "text") or "") for part in parts)
        return said(text, own=bool(text) and not known)

    def _called(self, record: "Record") -> "Events":
        return (
            e.ToolCalled(str(record["toolCallId"]), str(record.get("toolName") or ""), record.get("args")),
        )

    def _result(self, record: "Record") -> "Events":
        output = look(record.get("result"), "content")
        return (result(record["toolCallId"], not record.get("isError"), output=output),)

    def _retry(self, record: "Record") -> "Events":
        return (e.Retry(whole(record.get("attempt")) or 0, whole(record.get("delayMs"))),)

    def _ended(self, record: "Record") -> "Events":
        """After a run that failed the program may try again by itself; only a good end is one."""
        messages = record.get("messages")
        last = messages[-1] if isinstance(messages, list) and messages else None
        return ALIVE if look(last, "stop_reason") == "error" else (e.TurnEnded(),)

    ROWS: "ClassVar[Rows]" = {
        "session": ("cwd", lambda self, record: began(record)),
        "agent_start": ("", lambda self, record: (e.TurnStarted(),)),
        "agent_end": ("", _ended),
        "message_update": ("assistantMessageEvent", _update),
        "message_end": ("message", _message),
        "tool_execution_start": ("toolCallId", _called),
        "tool_execution_update": (
            "toolCallId", lambda self, record: (e.Heartbeat("tool_progress", str(record["toolCallId"])),),
        ),
        "tool_execution_end": ("toolCallId", _result),
        "auto_retry_start": ("", _retry),
        "compaction_start": ("", lambda self, record: (e.Compacted("start"),)),
        "compaction_end": ("", lambda self, record: (e.Compacted("end"),)),
    }  # fmt: skip
