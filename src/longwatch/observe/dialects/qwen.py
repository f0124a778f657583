"""Qwen Code: chat files, and a stream in the shape of Claude Code's without times.

Each failed request is in the file's telemetry, and nowhere else while it is tried again. How a command ended is in the
text of its result, on disk only: in the stream that text is what the command printed.
"""

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.claude import ClaudeReader
from longwatch.observe.dialects.gemini import EXIT_ON_DISK, GROUP, GeminiReader
from longwatch.observe.dialects.loose import count, kind_of, number, table, tables, text, trailer
from longwatch.observe.record import DISK, STREAM, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Found = tuple[Events, str]


class QwenReader(Reader):
    """Reads a chat file."""

    varying: "ClassVar[re.Pattern[str]]" = GROUP

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means."""
        kind, uid, at = kind_of(value), text(value.get("uuid")), value.get("timestamp")
        session = text(value.get("sessionId"))
        events: Events = ()
        note = ""
        if session and session != self.session:
            self.session = session
            events = (e.SessionStarted(session, cwd=text(value.get("cwd")), model=text(value.get("model"))),)
        handler = self._HANDLERS.get(kind)
        if handler is not None and (not uid or self.said.add(uid)):
            found, note = handler(self, value)
            events += found
        word = f"{kind}/{value['subtype']}" if text(value.get("subtype")) else kind
        yield self.made(*events, at=at, raw_type=word, uid=uid, note=note)

    def stderr(self, line: bytes) -> list[Record]:
        """Retries are told there in the words of the program that it stems from."""
        return GeminiReader(STREAM).stderr(line)

    def _user(self, value: "dict[str, Any]") -> "Found":
        return (e.TurnStarted("user"),), ""

    def _assistant(self, value: "dict[str, Any]") -> "Found":
        events: Events = ()
        called = False
        for part in tables(table(value.get("message")).get("parts")):
            call = table(part.get("functionCall"))
            if call:
                called = True
                events += self.calls.began(text(call.get("id")), text(call.get("name")), call.get("args"))
            elif text(part.get("text")):
                said = part["text"]
                events += (e.Thinking(len(said)),) if part.get("thought") else (e.Text(said),)
        if events and not called:
            events += self.ended("end_turn")
        told = table(value.get("usageMetadata"))
        used = self.used(
            text(value.get("uuid")), count(told.get("promptTokenCount")), count(told.get("candidatesTokenCount")),
            count(told.get("cachedContentTokenCount")), total=count(told.get("totalTokenCount")), inside=True,
        )  # fmt: skip
        return events + used, ""

    def _result(self, value: "dict[str, Any]") -> "Found":
        result = table(value.get("toolCallResult"))
        parts = tables(table(value.get("message")).get("parts"))
        answers = [table(part.get("functionResponse")) for part in parts]
        call = text(result.get("callId")) or next((text(answer.get("id")) for answer in answers), "")
        responses = [table(answer.get("response")) for answer in answers]
        said = "".join(text(response.get("output")) or text(response.get("error")) for response in responses)
        status = text(result.get("status"))
        ok = status not in ("error", "cancelled")
        why = "" if ok else "interrupted" if status == "cancelled" else "error"
        code = trailer(said, "\n" + EXIT_ON_DISK)
        return self.calls.ended(e.ToolResult(call, ok, code, why, result=self.steady(said))), ""

    def _system(self, value: "dict[str, Any]") -> "Found":
        subtype, payload = text(value.get("subtype")), table(value.get("systemPayload"))
        if subtype == "chat_compression":
            return (e.Compacted("end"),), ""
        told = table(payload.get("uiEvent"))
        if subtype != "ui_telemetry" or text(told.get("event.name")) != "qwen-code.api_error":
            return (), ""
        said, status = text(told.get("error_message")), number(told.get("status_code"))
        limit, note = self.limited(said, status, value.get("timestamp"))
        cls = limit[0].cls if limit and isinstance(limit[0], e.Limited) else text(told.get("error_type"))
        return (e.Failed(cls, status, message=said), *limit), note

    _HANDLERS: "ClassVar[dict[str, Callable[[QwenReader, dict[str, Any]], Found]]]" = {
        "user": _user,
        "assistant": _assistant,
        "tool_result": _result,
        "system": _system,
    }


class QwenStreamReader(ClaudeReader):
    """Reads the stream, whose last word may be an error that it calls a success."""

    cache_inside = True
    varying: "ClassVar[re.Pattern[str]]" = GROUP

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means."""
        said = text(value.get("result"))
        if kind_of(value) == "result" and said.startswith("[API Error"):
            limit, note = self.limited(said, None, None)
            failed = e.Failed(limit[0].cls if limit and isinstance(limit[0], e.Limited) else "", None, fatal=True, message=said)  # fmt: skip
            events = (failed, *limit, *self.ended("error"), *self.closed(ok=False, reason=failed.cls))
            return [self.made(*events, raw_type="result", uid=text(value.get("uuid")), note=note)]
        return super().interpret(value)

    def stderr(self, line: bytes) -> list[Record]:
        """Retries are told there in the words of the program that it stems from."""
        return GeminiReader(STREAM).stderr(line)


def reader(source: str) -> Reader:
    """Return a reader of the file or, of another shape altogether, of the stream."""
    return QwenStreamReader(source) if source == STREAM else QwenReader(source)


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """The stream's first record names the program; in the file messages have parts."""
    for record in records:
        if "qwen_code_version" in record:
            return STREAM
        told = (
            "systemPayload" in record or "toolCallResult" in record or "parts" in table(record.get("message"))
        )
        if told and "sessionId" in record and "uuid" in record:
            return DISK
    return ""


DIALECT = Dialect("qwen", reader, recognise)
