"""What a line of Claude Code's form is, at a glance: the way to go through gigabytes of history.

A line is decoded into the few fields that tell its kind, and a long one only at its ends, which hold everything but
the text in between. What is as it always was is told by one look into a table; all else is looked at in turn.
"""

from typing import Literal

import msgspec

from longwatch.observe.lines import SHORT, WINDOW, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# Names that are known beforehand are looked up; for others a text would be made of each. A new one is read whole.
class _Part(msgspec.Struct, gc=False):
    type: Literal["text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image"] = "image"
    is_error: bool | None = None


class _Message(msgspec.Struct, gc=False):
    content: list[_Part] | str = ""


class _Line(msgspec.Struct, gc=False):
    type: Literal[
        "assistant", "user", "system", "attachment", "result", "rate_limit_event", "stream_event", "progress",
        "api-request", "api-request-shape", "api-request-blob", "queue-operation", "last-prompt", "tools-used",
        "file-history-snapshot", "summary", "cost-state", "atis-latch", "ai-title", "mode", "permission-mode", "pr-link",
        "tool_progress", "control_request", "control_response", "control_cancel_request", "",
    ] = ""  # fmt: skip
    subtype: str = ""
    message: _Message | None = None
    failed: bool = msgspec.field(default=False, name="isApiErrorMessage")


_decoder = msgspec.json.Decoder(_Line)
_decode, _decode_lines = _decoder.decode, _decoder.decode_lines
_BLOCKS = {"tool_use": "tool_call", "text": "text", "thinking": "thinking", "redacted_thinking": "thinking"}
_OTHERS = {"result": "session_end", "rate_limit_event": "limit"}
_RETRIES = ("api_error", "api_retry")
#: By who speaks, the kind of the first block, its flag, and whether the words are an error's.
_KINDS: dict[tuple[str, str, bool | None, bool], str] = {
    ("user", "tool_result", None, False): "tool_result",
    ("user", "tool_result", False, False): "tool_result",
    ("user", "tool_result", True, False): "tool_failed",
    ("user", "text", None, False): "turn_start",
    ("user", "image", None, False): "turn_start",
}
_KINDS.update((("assistant", block, None, False), kind) for block, kind in _BLOCKS.items())
#: What looking for the first block of a line comes to that has none.
_NO_BLOCK = (AttributeError, IndexError, KeyError, TypeError)


class Glance:
    """Tells the kinds of the events in lines: tool_failed for a result that is none, "" for a line without an event.

    `whole` reads a line to its end. It is asked where the ends of a long line do not fit together, or a field is not
    what it has always been. With `exact` no line is judged by its ends.
    """

    __slots__ = ("_short", "_whole")

    def __init__(self, whole: "Callable[[bytes], str]", *, exact: bool = False) -> None:
        self._whole = whole
        self._short = 1 << 62 if exact else SHORT

    def kind(self, line: bytes | memoryview) -> str:
        """Return the kind of one line."""
        try:
            seen = _decode(line if len(line) <= self._short else cut(line, WINDOW))
        except (ValueError, RecursionError):
            return self._whole(bytes(line))
        return _told(seen)

    def kinds(self, run: bytes | memoryview) -> list[str]:
        """Return the kinds of a run of lines."""
        if len(run) > self._short:
            return [self.kind(run)]
        try:
            seen: list[Any] = _decode_lines(run)
        except (ValueError, RecursionError):
            return [self.kind(line) for line in bytes(run).split(b"\n") if line.strip()]
        try:  # mostly all are messages of blocks: no call for each
            return [
                _KINDS[line.type, part.type, part.is_error, line.failed]
                for line in seen
                for part in (line.message.content[0],)
            ]
        except _NO_BLOCK:
            return list(map(_told, seen))


def _told(seen: "Any") -> str:
    try:
        part = seen.message.content[0]
        return _KINDS[seen.type, part.type, part.is_error, seen.failed]
    except _NO_BLOCK:
        return _other(seen)


def _other(seen: _Line) -> str:
    """Return the kind of a line that is no message of blocks, or one with blocks that mean nothing."""
    if seen.message is None or seen.type not in ("assistant", "user"):
        return "retry" if seen.subtype in _RETRIES else _OTHERS.get(seen.type, "")
    if seen.failed:
        return "error"
    if seen.type == "user":
        return "turn_start"
    return "text" if seen.message.content and isinstance(seen.message.content, str) else ""
