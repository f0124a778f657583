"""Gemini CLI: chat files and `-o stream-json`; older chat files are one object that is rewritten.

A message is appended again as it grows, so each of its parts counts once. The file has a call only when it is over
(the stream has its begin), so a message without calls may be the last word or not, and no turn is said to end there.
Retries are in neither: they are words on stderr.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.loose import count, kind_of, number, table, tables, text, trailer, words
from longwatch.observe.record import DISK, STREAM, WORDS, Record
from longwatch.observe.wording import limit_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Found = tuple[Events, str]

_ATTEMPT = re.compile(rb"^Attempt (\d{1,4}) failed(?: with status (\d{3}))?\b.*Retrying")
_GAVE_UP = re.compile(rb"^Error when talking to Gemini API .*? \w*Error: (.{1,300})")
#: The process group of a command, which stands below its output.
GROUP = re.compile(r"\nProcess Group PGID: \d+$")
#: What the program says of a command's end: in the file, and in the stream where the command itself said nothing.
EXIT_ON_DISK, EXIT_IN_STREAM = "Exit Code: ", "Command exited with code: "


class GeminiReader(Reader):
    """Reads a chat file or a stream."""

    varying: "ClassVar[re.Pattern[str]]" = GROUP

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means: several instants where a message holds its calls."""
        if self.source == STREAM:
            yield from self._streamed(value)
        elif "$set" in value:
            yield from self._patched(table(value["$set"]))
        elif "sessionId" in value and "messages" in value:
            yield from self.document(value)
        elif "sessionId" in value and "startTime" in value:
            yield self._header(value)
        elif "id" in value:
            yield from self._grown(value)

    def document(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what is new in an older chat file, which is one object and rewritten with each message."""
        yield self._header(value)
        for message in tables(value.get("messages")):
            yield from self._grown(message)

    def stderr(self, line: bytes) -> list[Record]:
        """A retry is one line of words there, and nothing anywhere else; so is the error that ends it in text mode."""
        if found := _ATTEMPT.match(line):
            status = int(found[2]) if found[2] else None
            return [
                self.made(e.Retry(int(found[1]), status=status, cls=limit_class("", status)), raw_type=WORDS)
            ]
        if found := _GAVE_UP.match(line):
            said = found[1].decode(errors="replace")
            limit, note = self.limited(said, None, None)
            failed = e.Failed(limit_class(said), fatal=True, message=said)
            return [self.made(failed, *limit, raw_type=WORDS, note=note)]
        return []

    # -- the chat file

    def _header(self, value: "dict[str, Any]") -> Record:
        session, fresh = text(value.get("sessionId")), text(value.get("sessionId")) != self.session
        self.session = session
        self.sub = session if value.get("kind") == "subagent" else ""
        events = (e.SessionStarted(session),) if fresh else ()
        return self.made(*events, at=value.get("startTime"), raw_type="header", uid=session)

    def _patched(self, change: "dict[str, Any]") -> "Iterable[Record]":
        """A patch mostly stamps the file; messages in it are context, not somebody's words."""
        first = next(tables(change.get("messages")), {})
        yield self.made(at=first.get("timestamp") or change.get("lastUpdated"), raw_type="$set")

    def _grown(self, message: "dict[str, Any]") -> "Iterable[Record]":
        kind, uid, at = kind_of(message), text(message.get("id")), message.get("timestamp")
        calls = list(tables(message.get("toolCalls")))
        events: Events = ()
        for place, thought in enumerate(tables(message.get("thoughts"))):
            if self.said.add(f"{uid} thought {place}"):
                events += (e.Thinking(len(text(thought.get("description")))),)
        if self.said.add(uid):
            events += self._said(kind, message.get("content"))
        for call in calls:
            events += self.calls.began(text(call.get("id")), text(call.get("name")), call.get("args"))
        told = table(message.get("tokens"))
        if told:
            given = count(told.get("input")) + count(told.get("tool"))
            output, total = count(told.get("output")), count(told.get("total"))
            events += self.used(uid, given, output, count(told.get("cached")), total=total, inside=True)
        yield self.made(*events, at=at, raw_type=kind, uid=uid)
        for call in calls:
            events = self._over(call)
            if events:
                yield self.made(
                    *events, at=call.get("timestamp"), raw_type="toolCall", uid=text(call.get("id"))
                )

    def _said(self, kind: str, content: object) -> "Events":
        said = words(content)
        if kind == "user":
            answers = [part for part in tables(content) if "functionResponse" in part]
            return () if answers else (e.TurnStarted("user"),)
        if kind == "gemini" and said:
            return (e.Text(said),)
        if kind == "error":
            return (e.Failed(limit_class(said), message=said),)
        return ()

    def _over(self, call: "dict[str, Any]") -> "Events":
        status = text(call.get("status"))
        said = "".join(_response(part) for part in tables(call.get("result")))
        return self.calls.ended(
            _result(text(call.get("id")), status, trailer(said, "\n" + EXIT_ON_DISK), self.steady(said))
        )

    # -- the stream

    def _streamed(self, value: "dict[str, Any]") -> "Iterable[Record]":
        kind = kind_of(value)
        handler = self._HANDLERS.get(kind)
        events, note = handler(self, value) if handler is not None else ((), "")
        yield self.made(*events, at=value.get("timestamp"), raw_type=kind, note=note)

    def _init(self, value: "dict[str, Any]") -> "Found":
        self.session = text(value.get("session_id"))
        return (e.SessionStarted(self.session, model=text(value.get("model"))),), ""

    def _message(self, value: "dict[str, Any]") -> "Found":
        if value.get("role") == "user":
            return (e.TurnStarted("user"),), ""
        return (e.Text(text(value.get("content"))),), ""

    def _called(self, value: "dict[str, Any]") -> "Found":
        call, tool = text(value.get("tool_id")), text(value.get("tool_name"))
        return self.calls.began(call, tool, value.get("parameters")), ""

    def _answered(self, value: "dict[str, Any]") -> "Found":
        said = text(value.get("output"))
        code = trailer(said, EXIT_IN_STREAM) if said.startswith(EXIT_IN_STREAM) else None
        return self.calls.ended(
            _result(text(value.get("tool_id")), text(value.get("status")), code, self.steady(said))
        ), ""

    def _error(self, value: "dict[str, Any]") -> "Found":
        said = text(value.get("message"))
        if value.get("severity") == "warning":
            return (), ""
        limit, note = self.limited(said, None, value.get("timestamp"))
        return (e.Failed(limit_class(said), message=said), *limit), note

    def _final(self, value: "dict[str, Any]") -> "Found":
        if value.get("status") != "error":
            return (*self.ended("end_turn"), *self.closed(ok=True)), ""
        error = table(value.get("error"))
        said, status = text(error.get("message")), number(error.get("code"))
        limit, note = self.limited(said, status, value.get("timestamp"))
        cls = limit_class(said, status) or text(error.get("type"))
        failed = e.Failed(cls, status, fatal=True, message=said)
        return (failed, *limit, *self.ended("error"), *self.closed(ok=False, reason=cls)), note

    _HANDLERS: "ClassVar[dict[str, Callable[[GeminiReader, dict[str, Any]], Found]]]" = {
        "init": _init,
        "message": _message,
        "tool_use": _called,
        "tool_result": _answered,
        "error": _error,
        "result": _final,
    }


def _response(part: "dict[str, Any]") -> str:
    response = table(table(part.get("functionResponse")).get("response"))
    return text(response.get("output")) or text(response.get("error"))


def _result(call: str, status: str, code: int | None, said: str) -> e.ToolResult:
    ok = status not in ("error", "cancelled")
    why = "" if ok else "interrupted" if status == "cancelled" else "error"
    return e.ToolResult(call, ok, code, why, result=said)


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """The file begins with a header of its own; the stream spells calls as `tool_id` and `tool_name`."""
    for record in records:
        if "sessionId" in record and "projectHash" in record:
            return DISK
        if kind_of(record) == "init" and "session_id" in record and "timestamp" in record:
            return STREAM
        if kind_of(record) in ("tool_use", "tool_result") and "tool_id" in record:
            return STREAM
    return ""


DIALECT = Dialect("gemini", GeminiReader, recognise)
