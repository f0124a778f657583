"""Claude Code: its session files (also those of sub-agents) and `--output-format stream-json`.

One block of content a line; the lines of one reply share a message id. A tool's result is a line of the user's.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect
from longwatch.observe.dialects.claude_stream import StreamReader
from longwatch.observe.dialects.glance import Glance
from longwatch.observe.dialects.loose import (
    amount,
    decode,
    kind_of,
    number,
    table,
    tables,
    text,
    words,
)
from longwatch.observe.record import DISK, STREAM, Record
from longwatch.observe.tail import last_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]

_STOPS = {"end_turn": "end_turn", "stop_sequence": "end_turn", "refusal": "error", "max_tokens": "max"}
_EXIT = re.compile(r"\s*(?:Error: )?Exit code (\d{1,3})\b")
_DENIED = (
    "The user doesn't want to",
    "Permission to use",
    "Claude requested permissions",
    "This command requires approval",
)
#: What all of a conversation has cost, also in the processes before this one.
_COST = b'"type":"cost-state"'
_INTERRUPTED = "[Request interrupted by user"
_TASK = re.compile(r"<task-id>([^<]{1,100})</task-id>.*?<status>(\w+)</status>", re.DOTALL)
_CLASSES = {
    "rate_limit": "", "billing_error": "money", "authentication_failed": "auth", "oauth_org_not_allowed": "auth",
    "overloaded": "overload", "server_error": "overload", "max_output_tokens": "context",
}  # fmt: skip


class ClaudeReader(StreamReader):
    """Reads a session file or a stream."""

    noise: "ClassVar[frozenset[str]]" = frozenset(
        (
            "attachment", "api-request", "api-request-shape", "api-request-blob", "file-history-snapshot", "summary",
            "last-prompt", "tools-used", "ai-title", "mode", "permission-mode", "pr-link",
        )
    )  # fmt: skip

    def __init__(self, source: str = DISK) -> None:
        super().__init__(source)
        self._subs: set[str] = set()
        #: The reply and its usage that were told last: each block of a reply repeats them.
        self._usage: object = None

    def take_up(self, path: str, offset: int) -> None:
        """Take note of what the conversation has cost so far: what is told later includes it."""
        try:
            line = last_time(path, lambda found: found, _COST, offset)
        except OSError:
            return
        self._cost = amount(table(decode(line or b"")).get("totalCostUSD")) or 0.0

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means."""
        kind, uid, at = kind_of(value), text(value.get("uuid")), value.get("timestamp")
        sub = self._sub_of(value)
        began = self._session(value)
        handler = self._HANDLERS.get(kind)
        found: Events = ()
        note = ""
        if handler is not None and (not uid or self.said.add(f"{kind} {uid}")):
            found, note = handler(self, value, sub)
        word = f"{kind}/{value['subtype']}" if text(value.get("subtype")) else kind
        yield self.made(*began, *found, at=at, sub=sub, raw_type=word, uid=uid, note=note)

    def _session(self, value: "dict[str, Any]") -> "Events":
        session = text(value.get("sessionId") or value.get("session_id"))
        if not session or session == self.session or not ("cwd" in value or kind_of(value) in self._HANDLERS):
            return ()
        self.session = session
        return (e.SessionStarted(session, cwd=text(value.get("cwd")), model=text(value.get("model"))),)

    @staticmethod
    def _sub_of(value: "dict[str, Any]") -> str:
        """Return whose record it is: a sidechain's on disk, in the stream what a call of ours caused."""
        if value.get("isSidechain") or value.get("parent_tool_use_id"):
            names = (value.get("agentId"), value.get("agent_id"), value.get("parent_tool_use_id"))
            return next((text(name) for name in names if text(name)), "sidechain")
        return ""

    # -- the model

    def _assistant(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        message = table(value.get("message"))
        if value.get("isApiErrorMessage") or value.get("is_api_error_message"):
            return self._gave_up(value, message, sub)
        found: Events = ()
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(tables(content))
        streamed = bool(self._streamed) and message.get("id") == self._streamed
        for block in blocks:
            found += self._block(block, streamed=streamed)
        stop = _STOPS.get(text(message.get("stop_reason")))
        if stop and any("thinking" not in kind_of(block) for block in blocks):
            found += self.ended(stop, sub=bool(sub))
        told = (message.get("id"), message.get("usage"))
        if told != self._usage:
            self._usage = told
            found += self._tokens(*told)
        return found, ""

    def _block(self, block: "dict[str, Any]", *, streamed: bool) -> "Events":
        kind = kind_of(block)
        if kind == "text":
            return () if streamed or not text(block.get("text")) else (e.Text(block["text"]),)
        if "thinking" in kind:
            return () if streamed else (e.Thinking(len(text(block.get("thinking")))),)
        if kind.endswith("tool_use"):
            given = block.get("input")
            background = bool(table(given).get("run_in_background"))
            return self.calls.began(text(block.get("id")), text(block.get("name")), given, background)
        if kind.endswith("_tool_result"):
            # What the provider's own tools (a search) found stands in the reply itself.
            failed = kind_of(block.get("content")).endswith("_error")
            return self.calls.ended(
                e.ToolResult(text(block.get("tool_use_id")), not failed, why="error" * failed)
            )
        return ()

    def _gave_up(self, value: "dict[str, Any]", message: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        said = words(message.get("content"))
        status = number(value.get("apiErrorStatus") or value.get("api_error_status"))
        word = text(value.get("error"))
        limit, note = self.limited(said, status, value.get("timestamp"), cls=_CLASSES.get(word, ""))
        cls = limit[0].cls if limit and isinstance(limit[0], e.Limited) else _CLASSES.get(word) or word
        failed = e.Failed(cls, status, fatal=True, message=said)
        return (failed, *limit, *self.ended("error", sub=bool(sub))), note

    # -- the user, and the results of tools

    def _user(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        content = table(value.get("message")).get("content")
        results = [block for block in tables(content) if kind_of(block) == "tool_result"]
        if results:
            return tuple(event for block in results for event in self._result(block, value)), ""
        if any(value.get(mark) for mark in ("isMeta", "isCompactSummary", "isSynthetic", "isReplay")):
            return (), ""
        if words(content).startswith(_INTERRUPTED):
            return self.ended("aborted", sub=bool(sub)), ""
        by = "queue" if value.get("promptSource") == "queued" else "agent" if value.get("origin") else "user"
        return (e.TurnStarted(by),), ""

    def _result(self, block: "dict[str, Any]", value: "dict[str, Any]") -> "Events":
        call, said = text(block.get("tool_use_id")), words(block.get("content"))
        detail = table(value.get("toolUseResult") or value.get("tool_use_result"))
        ok = block.get("is_error") is not True
        found = None if ok else _EXIT.match(said)
        code = int(found[1]) if found else None
        why = "" if ok else _why(said, code, detail, _decision(value, call))
        events = self.calls.ended(e.ToolResult(call, ok, code, why, result=self.steady(said)))
        if call in self._asked:
            events = (
                e.Permission("denied" if why == "denied" else "allowed", self._asked.pop(call)),
                *events,
            )
        agent = text(detail.get("agentId"))
        if agent and (detail.get("isAsync") or detail.get("status") == "async_launched"):
            return events + self._began(agent, call)
        return events + self._ended(agent, ok=ok)

    def _began(self, agent: str, call: str) -> "Events":
        if not agent or agent in self._subs:
            return ()
        self._subs.add(agent)
        return (e.Subagent("start", agent, call),)

    def _ended(self, agent: str, *, ok: bool) -> "Events":
        if agent not in self._subs:
            return ()
        self._subs.discard(agent)
        return (e.Subagent("end" if ok else "failed", agent),)

    # -- the program

    def _system(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        subtype = text(value.get("subtype"))
        if subtype in ("api_error", "api_retry"):
            return self._failed(value)
        return self._told(subtype, value), ""

    def _told(self, subtype: str, value: "dict[str, Any]") -> "Events":
        """What the program says of itself, and of the helpers that it started."""
        events: Events = ()
        if subtype in ("compact_boundary", "microcompact_boundary"):
            events = (e.Compacted("end"),)
        elif subtype == "status" and value.get("status") == "compacting":
            events = (e.Compacted("start"),)
        elif subtype == "task_started" and value.get("task_type") == "local_agent":
            events = self._began(text(value.get("task_id")), text(value.get("tool_use_id")))
        elif subtype == "task_notification":
            events = self._ended(text(value.get("task_id")), ok=value.get("status") == "completed")
        elif subtype == "permission_denied":
            events = (e.Permission("auto_denied", tool=text(value.get("tool_name"))),)
        elif subtype == "session_state_changed":
            events = self._state(text(value.get("state")))
        return events

    def _failed(self, value: "dict[str, Any]") -> "tuple[Events, str]":
        """A request failed: on disk with all that the provider said, in the stream with less."""
        error, at = table(value.get("error")), value.get("timestamp")
        status = number(error.get("status") or value.get("error_status"))
        message = text(error.get("message")) or text(value.get("error"))
        windows = table(error.get("rateLimits"))
        delay = number(value.get("retryInMs", value.get("retry_delay_ms")))
        until = windows.get("resetsAt")
        cls = "usage" if until is not None else ""
        span = None if until is not None else delay
        limit, note = self.limited(
            message, status, at, cls=cls, until=until, span=span, scope=text(windows.get("rateLimitType"))
        )
        named = limit[0].cls if limit and isinstance(limit[0], e.Limited) else "overload"
        if delay is None:
            return (e.Failed(named, status, message=message), *limit), note
        attempt = number(value.get("retryAttempt", value.get("attempt"))) or 0
        return (e.Retry(attempt, delay, status, named), *limit), note

    def _queue(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        """What is put into the queue is no progress; but on disk only there it says that a helper is done."""
        found = _TASK.search(text(value.get("content"))[:2_000])
        return (self._ended(found[1], ok=found[2] == "completed") if found else ()), ""

    def _progress(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        """Older files: what a helper did, or a tool said of itself."""
        data = table(value.get("data"))
        kind = kind_of(data)
        call = text(value.get("parentToolUseID") or value.get("toolUseID"))
        if kind == "mcp_progress" and data.get("status") == "progress":
            return (e.Heartbeat("mcp_progress", call),), ""
        inner = table(data.get("message"))
        if kind == "agent_progress" and kind_of(inner) in ("assistant", "user"):
            handler = self._HANDLERS[kind_of(inner)]
            events, note = handler(self, inner, text(data.get("agentId")) or "sidechain")
            return tuple(
                event for event in events if not isinstance(event, e.TurnStarted | e.TurnEnded)
            ), note
        return (e.Heartbeat("keep_alive", call),), ""

    def _cost_state(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        return self._costs(value.get("totalCostUSD")), ""

    _HANDLERS: "ClassVar[dict[str, Callable[[Any, dict[str, Any], str], tuple[Events, str]]]]" = {
        **StreamReader.stream_handlers,
        "assistant": _assistant,
        "user": _user,
        "system": _system,
        "queue-operation": _queue,
        "progress": _progress,
        "cost-state": _cost_state,
    }


def _decision(value: "dict[str, Any]", call: str) -> str:
    """Return what was decided about a call: accept, reject, or ""."""
    metas = [meta for meta in tables(value.get("tool_result_meta")) if meta.get("id") == call]
    stated = value.get("permissionDecision") or (metas[0].get("permission_decision") if metas else None)
    return text(table(stated).get("decision")) or text(stated)


def _why(said: str, code: int | None, detail: "dict[str, Any]", decision: str) -> str:
    if decision in ("reject", "deny", "denied") or said.startswith(_DENIED):
        return "denied"
    if detail.get("interrupted") is True or code == 137 or _INTERRUPTED in said[:500]:
        return "interrupted"
    return "error"


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """Tell files by their ids and streams by how they spell them."""
    for record in records:
        if kind_of(record) == "system" and record.get("subtype") == "init" and "session_id" in record:
            return STREAM
        if "session_id" in record and kind_of(record) in ("assistant", "user", "result") and "uuid" in record:
            return STREAM
        if "sessionId" in record and (
            "uuid" in record or kind_of(record) in ClaudeReader.noise | {"queue-operation", "cost-state"}
        ):
            return DISK
    return ""


DIALECT = Dialect("claude", ClaudeReader, recognise, Glance)
