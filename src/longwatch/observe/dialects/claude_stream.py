"""Claude Code: what only its stream has: pieces of a reply, questions to whoever reads it, results with what they cost.

What a `tool_progress` says is only that time has passed, so it is a keep-alive: a hung tool has them too.
"""

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Reader
from longwatch.observe.dialects.loose import amount, count, kind_of, table, text
from longwatch.observe.record import DISK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]


class StreamReader(Reader):
    """The part of the reader for lines that no file has; what it counts and who was asked is known to the other part."""

    def __init__(self, source: str = DISK) -> None:
        super().__init__(source)
        #: The reply whose text came in pieces: its whole says nothing new.
        self._streamed = ""
        #: Calls that wait for a human, and the question's own id.
        self._asked: dict[str, str] = {}
        self._rejected = False
        self._cost = 0.0

    #: Whether the tokens that were read from a cache are among those of the input.
    cache_inside: "ClassVar[bool]" = False

    def _tokens(self, reply: object, usage: object) -> "Events":
        told = table(usage)
        given = count(told.get("input_tokens")) + count(told.get("cache_creation_input_tokens"))
        return self.used(
            text(reply), given, count(told.get("output_tokens")),
            count(told.get("cache_read_input_tokens")), inside=self.cache_inside,
        )  # fmt: skip

    def _piece(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        event = table(value.get("event"))
        kind, delta = kind_of(event), table(event.get("delta"))
        if kind == "message_delta":
            # The whole message has the numbers of its beginning.
            return self._tokens(self._streamed, event.get("usage")), ""
        if kind == "message_start":
            self._streamed = text(table(event.get("message")).get("id"))
        if kind == "ping":
            return (e.Heartbeat("keep_alive"),), ""
        if kind_of(delta) == "text_delta":
            return (e.Text(text(delta.get("text"))),), ""
        if kind_of(delta) == "thinking_delta":
            return (e.Thinking(len(text(delta.get("thinking")))),), ""
        # A call is told as its arguments come; that they come is progress as thinking is.
        return ((e.Thinking(0),) if kind_of(delta) == "input_json_delta" else ()), ""

    def _ticked(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        return (e.Heartbeat("keep_alive", text(value.get("tool_use_id"))),), ""

    def _state(self, state: str) -> "Events":
        if state == "requires_action":
            self._asked[""] = "session"
            return (e.Permission("waiting", "session"),)
        asked = self._asked.pop("", None)
        return (e.Permission("allowed", asked),) if asked else ()

    def _control(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        request = table(value.get("request"))
        question = text(value.get("request_id"))
        if request.get("subtype") == "can_use_tool" and question:
            self._asked[text(request.get("tool_use_id"))] = question
            return (e.Permission("waiting", question, text(request.get("tool_name"))),), ""
        return (), ""

    def _control_over(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        question = text(value.get("request_id"))
        call = next((call for call, asked in self._asked.items() if asked == question), None)
        if call is None:
            return (), ""
        return (e.Permission("denied", self._asked.pop(call)),), ""

    def _rate_limit(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        info = table(value.get("rate_limit_info"))
        if info.get("status") == "rejected":
            self._rejected = True
            return self.limited(
                "", None, None, cls="usage", until=info.get("resetsAt"), scope=text(info.get("rateLimitType"))
            )
        lifted, self._rejected = self._rejected, False
        return ((e.Limited("usage", lifted=True),) if lifted else ()), ""

    def _final(self, value: "dict[str, Any]", sub: str) -> "tuple[Events, str]":
        ok = value.get("is_error") is not True and text(value.get("subtype")).startswith("success")
        word = text(value.get("api_error_type")) or text(value.get("subtype"))
        turn = "end_turn" if ok else "max" if "max_" in word else "error"
        return (*self.ended(turn), *self.closed(ok=ok, reason=word), *self._spent(value)), ""

    def _spent(self, value: "dict[str, Any]") -> "Events":
        """What a result says of the cost: of late beside the conversation's also that since the last result."""
        since = value.get("model_usage_since_last_result")
        if not isinstance(since, dict):
            return self._costs(value.get("total_cost_usd"))
        cost = sum(amount(table(each).get("costUSD")) or 0.0 for each in since.values())
        return (e.Usage(cost_usd=cost),) if cost else ()

    def _costs(self, stated: object) -> "Events":
        total = amount(stated) or 0.0
        more, self._cost = total - self._cost, max(total, self._cost)
        return (e.Usage(cost_usd=more),) if more > 0 else ()

    #: What reads a line, by its kind.
    stream_handlers: "ClassVar[dict[str, Callable[[Any, dict[str, Any], str], tuple[Events, str]]]]" = {
        "result": _final,
        "rate_limit_event": _rate_limit,
        "control_request": _control,
        "control_cancel_request": _control_over,
        "stream_event": _piece,
        "tool_progress": _ticked,
    }
