"""The rollout files of OpenAI's Codex CLI, and the older form of what it prints.

A rollout says how a command ended only in the text of its output (0.149 on also in an `item_completed` of its own), and
says nothing of retries and approvals.
"""

import re

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Reader
from longwatch.observe.dialects.calls import Recent
from longwatch.observe.dialects.loose import count, decode, kind_of, number, table, tables, text, words
from longwatch.observe.record import DISK, Record
from longwatch.observe.wording import limit_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Found = tuple[Events, str]

_LINES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
RETRY = re.compile(r"Reconnecting\.\.\. (\d+)/\d+ ?\(?(.*?)\)?$", re.DOTALL)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\b", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID (\S+)", re.MULTILINE)
_FAILED = ("apply_patch verification failed", "aborted by user", "execution error")
#: Approvals are asked for in the older stream and by the app server, never in a rollout.
_ASKS = (
    "exec_approval_request",
    "apply_patch_approval_request",
    "elicitation_request",
    "request_permissions",
)
#: How much of an output can hold what Codex itself says of it.
_HEAD = 2_000


class RolloutReader(Reader):
    """Reads a rollout, or messages in their old envelopes."""

    noise: "ClassVar[frozenset[str]]" = frozenset(("turn_context", "world_state"))

    def __init__(self, source: str = DISK) -> None:
        super().__init__(source)
        self._error = ""
        self._compacted = False
        #: Commands that still run: by their session, the call that began them; and exit codes said in advance.
        self._running: dict[str, str] = {}
        self._codes: dict[str, int] = {}
        self._asked = Recent()
        #: Whether each reply has a record of its own for its tokens; the count that follows it says the same.
        self._recorded = False

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line means."""
        kind, at = kind_of(value), value.get("timestamp")
        payload = table(value.get("payload")) if kind in _LINES else table(value.get("msg"))
        inner = kind_of(payload)
        if kind in ("response_item", "event_msg"):
            found, note = self._inner(payload, at)
        elif payload and kind not in _LINES:
            found, note = self._message(payload, at)
            inner, kind = "", inner
        else:
            handler = self._TOP.get(kind)
            found, note = self._bare(value, at) if handler is None else handler(self, value, at)
        if "compacted" not in (kind, inner.removeprefix("context_")):
            self._compacted = False
        word = f"{kind}/{inner}" if inner and kind in ("response_item", "event_msg") else kind
        uid = text(payload.get("id")) or text(payload.get("call_id"))
        yield self.made(*found, at=at, raw_type=word, uid=f"{word} {uid}" if uid else "", note=note)

    def _inner(self, payload: "dict[str, Any]", at: object) -> "Found":
        return self._item(payload, at) if kind_of(payload) in _ITEMS else self._message(payload, at)

    def _bare(self, value: "dict[str, Any]", at: object) -> "Found":
        """The oldest rollouts have bare items, behind a first line with nothing but an id and a time."""
        if not kind_of(value) and text(value.get("id")) and not self.session:
            self.session = text(value.get("id"))
            return (e.SessionStarted(self.session),), ""
        return self._item(value, at)

    def _began(self, value: "dict[str, Any]", at: object) -> "Found":
        meta = table(value.get("payload"))
        self.session = text(meta.get("session_id")) or text(meta.get("id"))
        self.sub = text(meta.get("id")) if "subagent" in table(meta.get("source")) else ""
        return (e.SessionStarted(self.session, cwd=text(meta.get("cwd"))),), ""

    def _compact(self, value: "dict[str, Any]", at: object) -> "Found":
        """One compaction is written in two forms, one behind the other."""
        told, self._compacted = self._compacted, True
        return (() if told else (e.Compacted("end"),)), ""

    # -- items of a rollout

    def _item(self, item: "dict[str, Any]", at: object) -> "Found":
        kind = kind_of(item)
        call = text(item.get("call_id")) or text(item.get("id"))
        if kind == "message":
            said = words(item.get("content")) if item.get("role") == "assistant" else ""
            return ((e.Text(said),) if said else ()), ""
        if kind == "reasoning":
            return (e.Thinking(len(words(item.get("summary")))),), ""
        if kind in _CALLS:
            given = item.get("arguments", item.get("input", item.get("action")))
            return self.calls.began(call, text(item.get("name")) or kind, _arguments(given)), ""
        if kind == "web_search_call":
            ok = item.get("status") != "failed"
            return self.calls.ended(e.ToolResult(call, ok, why="" if ok else "error"), "web_search"), ""
        if kind.endswith("_output"):
            return self._output(call, item.get("output")), ""
        return (), ""

    def _output(self, call: str, output: object) -> "Events":
        said, ok = _said(output), table(output).get("success") is not False
        head = said[:_HEAD]
        running = _RUNNING.search(head)
        if running is not None:
            self._running[running[1]] = call
            return self.calls.ended(e.ToolResult(call, partial=True))
        ok = ok and not head.startswith(_FAILED)
        code = self._codes.pop(call, None)
        code = _exit_code(head) if code is None else code
        why = "" if ok else "interrupted" if head.startswith("aborted") else "error"
        return self.calls.ended(e.ToolResult(call, ok, code, why, result=_printed(said)))

    # -- messages of a rollout, and of the older stream

    def _message(self, message: "dict[str, Any]", at: object) -> "Found":
        handler = self._MESSAGES.get(kind_of(message))
        if handler is not None:
            return handler(self, message, at)
        kind, call = kind_of(message), text(message.get("call_id"))
        if kind in _ASKS:
            self._asked.add(call)
            return (e.Permission("waiting", call, text(message.get("tool"))),), ""
        if kind.endswith("_begin"):
            answer: Events = (e.Permission("allowed", call),) if call in self._asked else ()
            return answer + self.calls.began(call, kind.removesuffix("_begin"), message.get("command")), ""
        if kind.endswith("_end") and call:
            return self._tool_end(call, message), ""
        return (), ""

    def _tool_end(self, call: str, message: "dict[str, Any]") -> "Events":
        result = message.get("result")
        failed = message.get("success") is False or "Err" in table(result)
        failed = failed or table(table(result).get("Ok")).get("isError") is True
        tool = kind_of(message).removesuffix("_end")
        code = number(message.get("exit_code"))
        return self.calls.ended(
            e.ToolResult(call, not failed, code, "error" if failed else "", result=result), tool
        )

    def _settings(self, value: "dict[str, Any]", at: object) -> "Found":
        return (), ""

    def turn_began(self, message: "dict[str, Any]", at: object) -> "Found":
        """A turn begins, in either shape."""
        return (e.TurnStarted("user"),), ""

    def _turn_over(self, message: "dict[str, Any]", at: object) -> "Found":
        error = table(message.get("error"))
        if not error:
            return self.ended("end_turn"), ""
        found, note = self._fatal(text(error.get("message")), error.get("codex_error_info"), at)
        return (*found, *self.ended("error")), note

    def _aborted(self, message: "dict[str, Any]", at: object) -> "Found":
        return self.ended("aborted"), ""

    def _fatal(self, message: str, info: object, at: object) -> "Found":
        self._error = message
        details = next((table(detail) for detail in table(info).values()), {})
        status = number(details.get("http_status_code"))
        cls = "usage" if info == "usage_limit_exceeded" else ""
        limit, note = self.limited(message, status, at, cls=cls)
        named = limit[0].cls if limit and isinstance(limit[0], e.Limited) else limit_class(message, status)
        return (e.Failed(named, status, fatal=True, message=message), *limit), note

    def _broke_off(self, message: "dict[str, Any]", at: object) -> "Found":
        return self._fatal(text(message.get("message")), message.get("codex_error_info"), at)

    def _retry(self, message: "dict[str, Any]", at: object) -> "Found":
        said = text(message.get("message"))
        found = RETRY.match(said)
        attempt, reason = (int(found[1]), found[2]) if found else (0, said)
        cls = limit_class(reason)
        limit, note = self.limited(reason, None, at)
        return (e.Retry(attempt, cls=cls), *limit), note

    def _item_done(self, message: "dict[str, Any]", at: object) -> "Found":
        """An item of its own for a command's end: the output that follows it may say the exit code or not."""
        item = table(message.get("item"))
        call, code = text(item.get("id")), number(item.get("exit_code"))
        if kind_of(item) != "CommandExecution" or code is None:
            return (), ""
        if self.calls.open.get(call):  # it ran on after its first answer
            return self.calls.ended(e.ToolResult(call, exit_code=code)), ""
        if call in self.calls.open:
            self._codes[call] = code
        return (), ""

    def _usage_record(self, value: "dict[str, Any]", at: object) -> "Found":
        payload = table(value.get("payload"))
        self._recorded = True
        return self._usage(text(payload.get("response_id")), table(payload.get("usage"))), ""

    def _usage(self, message: str, told: "dict[str, Any]") -> "Events":
        return self.used(
            message, count(told.get("input_tokens")), count(told.get("output_tokens")),
            count(told.get("cached_input_tokens")), total=count(told.get("total_tokens")), inside=True,
        )  # fmt: skip

    def _tokens(self, message: "dict[str, Any]", at: object) -> "Found":
        info = table(message.get("info"))
        used: Events = ()
        if info and not self._recorded:
            # It comes again whenever a rate limit has moved: a reply is known by what all have used up to it.
            sum_of_all = count(table(info.get("total_token_usage")).get("total_tokens"))
            used = self._usage(
                f"{self.sub or self.session} {sum_of_all}", table(info.get("last_token_usage"))
            )
        limit, note = self._window(message, at)
        return (*used, *limit), note

    def _window(self, message: "dict[str, Any]", at: object) -> "Found":
        windows = table(message.get("rate_limits"))
        reached = text(windows.get("rate_limit_reached_type"))
        if not reached:
            return (), ""
        both = (table(windows.get(name)) for name in ("primary", "secondary"))
        full = [window for window in both if (number(window.get("used_percent")) or 0) >= 100]
        until = max((number(window.get("resets_at")) or 0 for window in full), default=0)
        return self.limited("", None, at, cls="usage", until=until or None, scope=reached)

    _TOP: "ClassVar[dict[str, Callable[[Any, dict[str, Any], object], Found]]]" = {
        "session_meta": _began,
        "compacted": _compact,
        "turn_context": _settings,
        "token_usage_record": _usage_record,
    }

    _MESSAGES: "ClassVar[dict[str, Callable[[Any, dict[str, Any], object], Found]]]" = {
        "task_started": turn_began,
        "turn_started": turn_began,
        "task_complete": _turn_over,
        "turn_complete": _turn_over,
        "turn_aborted": _aborted,
        "context_compacted": _compact,
        "item_completed": _item_done,
        "token_count": _tokens,
        "stream_error": _retry,
        "error": _broke_off,
    }


_ITEMS = ("message", "reasoning", "web_search_call", *_CALLS, *(f"{kind}_output" for kind in _CALLS))


def _arguments(given: object) -> object:
    """Arguments are an object written as a text; a patch is a text."""
    if isinstance(given, str) and given[:1] == "{":
        return decode(given.encode("utf-8", "replace")) or given
    return given


def _said(output: object) -> str:
    """Return the text of an output: plain, in blocks, or in an object."""
    if isinstance(output, dict):
        return words(output.get("content", output.get("output")))
    return output if isinstance(output, str) else words(list(tables(output)))


def _printed(said: str) -> str:
    """Return what a command printed, without the lines above it: a new id and the time it took, each time others."""
    above, found, below = f"\n{said[:_HEAD]}".partition("\nOutput:\n")
    return below + said[_HEAD:] if found and "\nWall time: " in above else said


def _exit_code(head: str) -> int | None:
    """Return the exit code that stands above a command's output, or in the older form beside it."""
    if head[:1] == "{":
        found = re.search(r'"exit_code":\s?(-?\d{1,10})\b', head)
        return int(found[1]) if found else None
    above = f"\n{head}".split("\nOutput:", 1)[0]
    found = _EXIT.search(above)
    return int(found[1]) if found else None
