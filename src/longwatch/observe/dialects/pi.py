"""pi: session files and `--mode json`.

The stream repeats a whole partial message with each word: such a line tells only that words come. A file keeps
abandoned branches, and calls of a reply that broke off, which are never made.
"""

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.loose import (
    amount,
    count,
    kind_of,
    number,
    table,
    tables,
    text,
    trailer,
    words,
)
from longwatch.observe.record import DISK, STREAM, Record
from longwatch.observe.wording import limit_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Found = tuple[Events, str]

_EXIT = "Command exited with code "
_STOPS = {"stop": "end_turn", "length": "max", "error": "error", "aborted": "aborted"}


class PiReader(Reader):
    """Reads a session file or a stream."""

    def __init__(self, source: str = DISK) -> None:
        super().__init__(source)
        #: The error that the last run of the model broke off with.
        self._error = ""

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means."""
        kind, uid = kind_of(value), text(value.get("id"))
        message = table(value.get("message"))
        at = value.get("timestamp", message.get("timestamp") if kind == "message_end" else None)
        handler = self._HANDLERS.get(kind)
        events: Events = ()
        note = ""
        if handler is not None and (not uid or self.said.add(uid)):
            events, note = handler(self, value, at)
        yield self.made(
            *events, at=at, raw_type=f"{kind}/{text(message.get('role'))}".rstrip("/"), uid=uid, note=note
        )

    def _session(self, value: "dict[str, Any]", at: object) -> "Found":
        self.session = text(value.get("id"))
        return (e.SessionStarted(self.session, cwd=text(value.get("cwd"))),), ""

    # -- messages, of both

    def _message(self, value: "dict[str, Any]", at: object) -> "Found":
        message = table(value.get("message"))
        role = message.get("role")
        if role == "user":
            return (e.TurnStarted("user"),), ""
        if role == "assistant":
            return self._assistant(message, at)
        if role == "toolResult":
            call = text(message.get("toolCallId"))
            return self._over(call, message.get("isError"), message), ""
        return (), ""

    def _assistant(self, message: "dict[str, Any]", at: object) -> "Found":
        events: Events = ()
        for block in tables(message.get("content")):
            kind = kind_of(block)
            if kind == "text" and text(block.get("text")):
                events += (e.Text(block["text"]),)
            elif kind == "thinking":
                events += (e.Thinking(len(text(block.get("thinking")))),)
            elif kind == "toolCall":
                events += self.calls.began(
                    text(block.get("id")), text(block.get("name")), block.get("arguments")
                )
        stop = text(message.get("stopReason"))
        found, note = self._broke_off(message, at) if stop == "error" else ((), "")
        ending = self.ended(_STOPS[stop]) if stop in _STOPS else ()
        return (*events, *found, *ending, *self._tokens(message)), note

    def _tokens(self, message: "dict[str, Any]") -> "Events":
        """A reply has no name that both file and stream have, but the instant at which it began."""
        told, began = table(message.get("usage")), message.get("timestamp")
        given = count(told.get("input")) + count(told.get("cacheWrite"))
        return self.used(
            "" if began is None else str(began), given, count(told.get("output")), count(told.get("cacheRead")),
            total=count(told.get("totalTokens")), cost=amount(table(told.get("cost")).get("total")),
        )  # fmt: skip

    def _broke_off(self, message: "dict[str, Any]", at: object) -> "Found":
        """Whether it is tried again is not said here: the stream says so next, the file not at all."""
        said = self._error = text(message.get("errorMessage")) or "error"
        limit, note = self.limited(said, None, at)
        failed = e.Failed(limit_class(said), message=said)
        return ((failed,), "") if self.source == STREAM else ((failed, *limit), note)

    def _over(self, call: str, failed: object, result: "dict[str, Any]") -> "Events":
        said, ok = words(result.get("content")), failed is not True
        code = None if ok else trailer(said, _EXIT)
        return self.calls.ended(e.ToolResult(call, ok, code, "" if ok else "error", result=said))

    def _compacted(self, value: "dict[str, Any]", at: object) -> "Found":
        return (e.Compacted("end"),), ""

    # -- the stream

    def _piece(self, value: "dict[str, Any]", at: object) -> "Found":
        return (e.Thinking(0),), ""

    def _called(self, value: "dict[str, Any]", at: object) -> "Found":
        return self.calls.began(
            text(value.get("toolCallId")), text(value.get("toolName")), value.get("args")
        ), ""

    def _moved(self, value: "dict[str, Any]", at: object) -> "Found":
        """The first one comes with nothing in it, when the tool starts."""
        if not words(table(value.get("partialResult")).get("content")):
            return (), ""
        return (e.Heartbeat("tool_progress", text(value.get("toolCallId"))),), ""

    def _answered(self, value: "dict[str, Any]", at: object) -> "Found":
        return self._over(text(value.get("toolCallId")), value.get("isError"), table(value.get("result"))), ""

    def _retry(self, value: "dict[str, Any]", at: object) -> "Found":
        said, delay = text(value.get("errorMessage")), number(value.get("delayMs"))
        limit, note = self.limited(said, None, at, span=delay)
        cls = limit[0].cls if limit and isinstance(limit[0], e.Limited) else limit_class(said)
        self._error = ""
        return (e.Retry(number(value.get("attempt")) or 0, delay, cls=cls), *limit), note

    def _retries_over(self, value: "dict[str, Any]", at: object) -> "Found":
        if value.get("success") is True:
            return (), ""
        reason = limit_class(text(value.get("finalError"))) or "error"
        return self.closed(ok=False, reason=reason), ""

    def _run_over(self, value: "dict[str, Any]", at: object) -> "Found":
        """The end of a run of the model is the end, unless it broke off: then a retry may follow."""
        return (() if self._error else self.closed(ok=True)), ""

    def _run_began(self, value: "dict[str, Any]", at: object) -> "Found":
        self._error = ""
        return (), ""

    _HANDLERS: "ClassVar[dict[str, Callable[[PiReader, dict[str, Any], object], Found]]]" = {
        "session": _session,
        "message": _message,
        "message_end": _message,
        "message_update": _piece,
        "tool_execution_start": _called,
        "tool_execution_update": _moved,
        "tool_execution_end": _answered,
        "auto_retry_start": _retry,
        "auto_retry_end": _retries_over,
        "agent_start": _run_began,
        "agent_end": _run_over,
        "compaction": _compacted,
        "compaction_end": _compacted,
    }


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """Both begin with the same header; only the stream goes on with starts and ends."""
    kinds = {kind_of(record) for record in records}
    if kinds & {"agent_start", "message_start", "tool_execution_start"}:
        return STREAM
    headed = any(kind_of(record) == "session" and "cwd" in record for record in records)
    spoken = any(
        kind_of(record) == "message" and "role" in table(record.get("message")) for record in records
    )
    return DISK if headed or spoken else ""


DIALECT = Dialect("pi", PiReader, recognise)
