"""What a turn produced, and what its end is worth.

A stream that merely stops is not a success, and text that was paid for is not thrown away because the last message is
missing. So an end is judged by two things: whether the agent said that it is done, and what there is to show.

    the agent is done         text -> succeeded; only tool results -> succeeded; nothing -> failed
    it was cut short          text -> succeeded, partial, with a banner; only tool results -> failed, with a summary
                              of them; nothing -> failed
    it failed, or we ended it failed or cancelled; the text so far is kept
"""

from collections.abc import Callable, Iterable
from typing import Any

from longwatch.core.record import Plain
from longwatch.observe import events as e
from longwatch.streams import adapters
from longwatch.units import format_size

#: Ways to be cut short: each is a stop reason of a turn that may still be worth its text.
TOOL_CAP, SOFT_DEADLINE, STREAM_INCOMPLETE = "tool_cap", "soft_deadline", "stream_incomplete"
OVERLOAD, TRUNCATED, CAPPED = "overload_exhausted", "output_truncated", "capped"
INCOMPLETE = {
    TOOL_CAP: "the limit of tool calls was reached",
    SOFT_DEADLINE: "it was told to wrap up before it was done",
    STREAM_INCOMPLETE: "the stream ended without a final message",
    OVERLOAD: "the provider stayed overloaded",
    TRUNCATED: "the limit of output tokens was reached",
    CAPPED: "a limit of the agent's own was reached",
}
#: An agent that says it is done; one that reports an error of its own.
END, ERROR = "end", "error"
#: What the wire says, in its spellings; anything else that is no failure is an end.
_SPELLINGS = {
    "max": CAPPED, "max_budget_usd": CAPPED, "error_max_budget_usd": CAPPED, "max_tokens": TRUNCATED, "max_output_tokens": TRUNCATED, "length": TRUNCATED,
    "max_turns": TOOL_CAP, "error_max_turns": TOOL_CAP, "tool_use": TOOL_CAP, "tool_calls": TOOL_CAP,
    "overloaded": OVERLOAD, "overloaded_error": OVERLOAD,
}  # fmt: skip
#: What the transport raises when the other side hangs up in the middle.
_CUT = (ConnectionError, EOFError)
_OVERLOADED = (503, 529)
#: Readers of streams that never say that they are done: they just end, and raise where they are cut.
_JUST_END = ("longwatch.streams.adapters.openai_agents", "longwatch.streams.adapters.langgraph")

Reader = Callable[[Any], Iterable[e.Event]]


class Gathered:
    """What one attempt of a turn has produced until now."""

    def __init__(self) -> None:
        self.calls: list[dict[str, str | int]] = []
        self.results = self.errors = self.result_bytes = self.turns = 0
        #: Whether anything came, and whether any of it could be read: what nobody reads announces no end.
        self.seen = self.read = False
        self.announces_end = True
        self.stop: str | None = None
        self.trouble = ""
        self._texts: list[str] = []
        self._last_message = 0

    @property
    def text(self) -> str:
        """All text until now."""
        return "".join(self._texts)

    @property
    def last_message(self) -> str:
        """The text since the last call of a tool; all of it where nothing was said since."""
        return "".join(self._texts[self._last_message :]) or self.text

    def note(self, event: e.Event) -> None:
        """Take note of an event."""
        self.read = True
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def as_trace(self) -> dict[str, Any]:
        """Return sizes and counts: what was called and what came back, never its content."""
        return {
            "calls": self.calls, "results": self.results, "errors": self.errors, "bytes": self.result_bytes,
            "turns": self.turns,
        }  # fmt: skip

    def summary(self) -> str:
        """Describe the tool results: all that is left of a turn that never said a word."""
        results = f"{self.results} tool result" + ("" if self.results == 1 else "s")
        return f"{results} ({self.errors} failed, {format_size(self.result_bytes)}), and no text"

    def _text(self, event: e.Text) -> None:
        self._texts.append(event.text)
        self.stop = None

    def _called(self, event: e.ToolCalled) -> None:
        self.calls.append({"tool": event.tool, "bytes": _size(event.arguments)})
        self._last_message = len(self._texts)
        self.stop = None

    def _result(self, event: e.ToolResult) -> None:
        if event.partial:
            return
        self.results += 1
        self.errors += not event.ok
        self.result_bytes += _size(event.result)
        self._last_message = len(self._texts)
        if self.stop == TOOL_CAP:
            # A message that ends with a call ends the turn only where no answer follows.
            self.stop = None

    def _turn_started(self, event: e.TurnStarted) -> None:
        self._last_message = len(self._texts)
        self.stop = None

    def _turn_ended(self, event: e.TurnEnded) -> None:
        self.turns += 1
        self._ended(event.reason, ok=event.ok)

    def _session_ended(self, event: e.SessionEnded) -> None:
        self._ended(event.reason, ok=event.ok)

    def _ended(self, reason: str, *, ok: bool) -> None:
        """A later word on the end is the better one only where it says more: it takes back no known cause."""
        known = _SPELLINGS.get(reason.casefold())
        if known is None and self.stop in INCOMPLETE:
            return
        self.stop = known or (END if ok else ERROR)
        if self.stop == ERROR:
            self.trouble = self.trouble or reason

    def _failed(self, event: e.Failed) -> None:
        if event.fatal:
            overloaded = "overload" in event.cls.casefold() or event.status in _OVERLOADED
            self.stop = OVERLOAD if overloaded else ERROR
            self.trouble = event.message or event.cls or ERROR

    def _restarted(self, event: e.Restarted) -> None:
        self.stop = None

    _HANDLERS: dict[type[e.Event], "Callable[[Gathered, Any], None]"] = {
        e.Text: _text,
        e.ToolCalled: _called,
        e.ToolResult: _result,
        e.TurnStarted: _turn_started,
        e.TurnEnded: _turn_ended,
        e.SessionEnded: _session_ended,
        e.Failed: _failed,
        e.Restarted: _restarted,
    }


def reading(gathered: Gathered, read: Reader | None) -> Reader:
    """Return a reader for the guard that also notes what it reads; without one, each event's type tells who reads it."""
    readers: dict[Any, Any] = {}
    by_type: dict[type, Reader | None] = {}

    def find(kind: type) -> Reader | None:
        if issubclass(kind, e.Event):
            return _itself
        return adapters.for_type(kind, readers) if read is None else read

    def note(event: Any) -> tuple[e.Event, ...]:
        kind = type(event)
        if kind not in by_type:
            by_type[kind] = find(kind)
            gathered.announces_end = getattr(by_type[kind], "__module__", "") not in _JUST_END
        reader = by_type[kind]
        found = () if reader is None else tuple(reader(event))
        gathered.seen = True
        for each in found:
            gathered.note(each)
        return found

    return note


def _itself(event: e.Event) -> tuple[e.Event, ...]:
    return (event,)


class Judgement(Plain):
    """What an end by itself is worth: `succeeded` or not, its stop reason, its words."""

    __slots__ = ("message", "partial", "stop_reason", "succeeded")

    def __init__(self, succeeded: bool, stop_reason: str, message: str, partial: str | None = None) -> None:
        self.succeeded = succeeded
        self.stop_reason = stop_reason
        self.message = message
        self.partial = partial


def judge(gathered: Gathered, *, wound_down: bool = False, announces_end: bool | None = None) -> Judgement:
    """Judge a stream that ended by itself.

    `wound_down`: the turn was told to wrap up, so its end came early. Where `announces_end` is False (None: as the
    stream's SDK is known to be) it never says that it is done, and its end is that; the same holds for a stream that
    nobody could read.
    """
    stop = gathered.stop
    if stop is None:
        announces = gathered.announces_end if announces_end is None else announces_end
        quiet_end = not announces or (gathered.seen and not gathered.read)
        stop = END if quiet_end else STREAM_INCOMPLETE
    if stop in (END, STREAM_INCOMPLETE) and wound_down:
        stop = SOFT_DEADLINE
    text = gathered.text or None
    if stop == ERROR:
        return Judgement(False, ERROR, f"the agent failed: {gathered.trouble}", text)
    if stop == END:
        return _done(gathered, text)
    return _cut_short(gathered, stop, text)


def _done(gathered: Gathered, text: str | None) -> Judgement:
    if text is None and gathered.results == 0 and (gathered.read or not gathered.seen):
        return Judgement(False, END, "it ended without any output")
    return Judgement(True, END, "it is done" if text else f"it is done: {gathered.summary()}")


def _cut_short(gathered: Gathered, stop: str, text: str | None) -> Judgement:
    why = INCOMPLETE[stop]
    if text is not None:
        return Judgement(True, stop, f"PARTIAL: {why}", text)
    if gathered.results:
        summary = gathered.summary()
        return Judgement(False, stop, f"{why}: {summary}", summary)
    return Judgement(False, stop, f"{why}, and there is no output")


def cut(error: BaseException) -> bool:
    """Whether an error of the source says that the other side hung up."""
    return isinstance(error, _CUT)


def _size(value: object) -> int:
    """Return the bytes of what was passed or came back, about."""
    if value is None:
        return 0
    if isinstance(value, bytes):
        return len(value)
    return len((value if isinstance(value, str) else repr(value)).encode(errors="replace"))


__all__ = ["INCOMPLETE", "Gathered", "Judgement", "Reader", "cut", "judge", "reading"]
