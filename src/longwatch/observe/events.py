"""The closed model of what an agent says of itself: every dialect and every SDK adapter speaks in these events.

An event is what a record means, never how it was written. `observations` is the one place where an event becomes
what a watch hears; whoever watches an agent, by its transcript or by its stream, gets the same clocks by it.

Three statements about a call are kept apart: `ok_native` is the agent's own flag, `exit_code` that of a command
(agents flag a command that ran and failed as a success), and `ok` what both come to.
"""

from longwatch.core import observations as o
from longwatch.core.record import Plain
from longwatch.core.repeats import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar


class Event(Plain):
    """Base of all events; `kind` is the event's name on the wire."""

    __slots__ = ()
    kind: "ClassVar[str]" = ""


class SessionStarted(Event):
    """A conversation began, or was taken up again."""

    __slots__ = ("cwd", "model", "resumed", "session")
    kind = "session_start"

    def __init__(self, session: str = "", resumed: bool = False, cwd: str = "", model: str = "") -> None:
        self.session = session
        self.resumed = resumed
        self.cwd = cwd
        self.model = model


class SessionEnded(Event):
    """The final result is out; `ok` is the result's own status."""

    __slots__ = ("ok", "reason")
    kind = "session_end"

    def __init__(self, ok: bool = True, reason: str = "") -> None:
        self.ok = ok
        self.reason = reason


class TurnStarted(Event):
    """Somebody spoke to the agent: `by` is user, queue or agent."""

    __slots__ = ("by",)
    kind = "turn_start"

    def __init__(self, by: str = "user") -> None:
        self.by = by


class TurnEnded(Event):
    """The agent has nothing more to do until it is spoken to: `reason` is end_turn, max, aborted or error."""

    __slots__ = ("ok", "reason")
    kind = "turn_end"

    def __init__(self, reason: str = "end_turn", ok: bool = True) -> None:
        self.reason = reason
        self.ok = ok


class Text(Event):
    """The model's words."""

    __slots__ = ("text",)
    kind = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class Thinking(Event):
    """The model thinks aloud, so many characters; its words are nobody's business."""

    __slots__ = ("chars",)
    kind = "thinking"

    def __init__(self, chars: int = 0) -> None:
        self.chars = chars


class ToolCalled(Event):
    """The model called a tool. `background` where the call returns at once and the work goes on."""

    __slots__ = ("arguments", "background", "call", "tool")
    kind = "tool_call"

    def __init__(self, call: str, tool: str = "", arguments: object = None, background: bool = False) -> None:
        self.call = call
        self.tool = tool
        self.arguments = arguments
        self.background = background


class ToolResult(Event):
    """A call's result. `why` it failed is error, denied, interrupted or orphaned; `partial`: it still runs."""

    __slots__ = ("call", "exit_code", "ok_native", "partial", "result", "why")
    kind = "tool_result"

    def __init__(
        self, call: str, ok_native: bool = True, exit_code: int | None = None, why: str = "",
        partial: bool = False, result: object = None,
    ) -> None:  # fmt: skip
        self.call = call
        self.ok_native = ok_native
        self.exit_code = exit_code
        self.why = why
        self.partial = partial
        self.result = result

    @property
    def ok(self) -> bool:
        """Whether the call truly succeeded."""
        return self.ok_native and self.exit_code in (None, 0)


class Heartbeat(Event):
    """Something still runs: `what` is keep_alive (no progress of anything), tool_progress or mcp_progress."""

    __slots__ = ("call", "what")
    kind = "heartbeat"

    def __init__(self, what: str = "keep_alive", call: str = "") -> None:
        self.what = what
        self.call = call


class Retry(Event):
    """A request failed and is tried again, after `delay` ms where that is said."""

    __slots__ = ("attempt", "cls", "delay", "status")
    kind = "retry"

    def __init__(
        self, attempt: int = 0, delay: int | None = None, status: int | None = None, cls: str = ""
    ) -> None:
        self.attempt = attempt
        self.delay = delay
        self.status = status
        self.cls = cls


class Limited(Event):
    """The provider says wait: for `span` ms from now (None: nobody knows). `lifted`: the wait is over.

    `cls` is rate, usage, money or auth; `scope` whom it concerns, in the provider's words.
    """

    __slots__ = ("cls", "lifted", "scope", "span")
    kind = "limit"

    def __init__(
        self, cls: str = "rate", span: int | None = None, scope: str = "", lifted: bool = False
    ) -> None:
        self.cls = cls
        self.span = span
        self.scope = scope
        self.lifted = lifted


class Permission(Event):
    """A human is asked (`waiting`), or the question is settled: allowed, denied, auto_denied."""

    __slots__ = ("question", "state", "tool")
    kind = "permission"

    def __init__(self, state: str = "waiting", question: str = "", tool: str = "") -> None:
        self.state = state
        self.question = question
        self.tool = tool


class Subagent(Event):
    """A helper of the agent: start, end or failed. Often without an id (`sub` empty)."""

    __slots__ = ("call", "state", "sub")
    kind = "subagent"

    def __init__(self, state: str = "start", sub: str = "", call: str = "") -> None:
        self.state = state
        self.sub = sub
        self.call = call


class Compacted(Event):
    """The agent makes room in its context: start or end."""

    __slots__ = ("state",)
    kind = "compaction"

    def __init__(self, state: str = "end") -> None:
        self.state = state


class Failed(Event):
    """The agent or its provider reports an error; `fatal` where it says that it gives up."""

    __slots__ = ("cls", "fatal", "message", "status")
    kind = "error"

    def __init__(
        self, cls: str = "", status: int | None = None, fatal: bool = False, message: str = ""
    ) -> None:
        self.cls = cls
        self.status = status
        self.fatal = fatal
        self.message = message


class Usage(Event):
    """What a reply of the model has used, in tokens and in USD; None where the agent does not say what it costs.

    `message` names the reply: told again, in another place or with more of it, the largest numbers hold. Without a
    name it is all new. Of the input `cached_tokens` were read from a cache, and are not in `input_tokens`.
    """

    __slots__ = ("cached_tokens", "cost_usd", "input_tokens", "message", "output_tokens")
    kind = "usage"

    def __init__(
        self, message: str = "", input_tokens: int = 0, output_tokens: int = 0, cached_tokens: int = 0,
        cost_usd: float | None = None,
    ) -> None:  # fmt: skip
        self.message = message
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.cost_usd = cost_usd


class Restarted(Event):
    """The stream was opened anew: calls open in the old one will never end."""

    __slots__ = ()
    kind = "stream_restart"


_ALL: tuple[type[Event], ...] = (
    SessionStarted, SessionEnded, TurnStarted, TurnEnded, Text, Thinking, ToolCalled, ToolResult, Heartbeat, Retry,
    Limited, Permission, Subagent, Compacted, Failed, Usage, Restarted,
)  # fmt: skip
#: The class of each word on the wire: the model is closed.
KINDS = {cls.kind: cls for cls in _ALL}


def observations(event: Event, source: str) -> tuple[o.Observation, ...]:
    """Return what a watch hears of an event; `source` is where text and thinking count as progress.

    Retries, limits, errors and keep-alives are signs of life, never progress: a program that only reports that it
    failed again does not move. What was used is nothing that happened.
    """
    return _HEARD[type(event)](event, source)


def _progress(event: Event, source: str) -> tuple[o.Observation, ...]:
    return (o.ProgressSeen(source),)


def _alive(event: Event, source: str) -> tuple[o.Observation, ...]:
    return (o.AliveSeen(source),)


def _turn_started(event: TurnStarted, source: str) -> tuple[o.Observation, ...]:
    return (o.TurnBegan(), o.ProgressSeen(source))


def _called(event: ToolCalled, source: str) -> tuple[o.Observation, ...]:
    mark = fingerprint(event.tool, event.arguments)
    return (o.CallBegan(event.call, event.tool, mark),)


def _result(event: ToolResult, source: str) -> tuple[o.Observation, ...]:
    if event.partial:
        return (o.CallProgressed(event.call),)
    mark = fingerprint("", event.result, event.exit_code)
    return (o.CallEnded(event.call, event.ok, mark),)


def _heartbeat(event: Heartbeat, source: str) -> tuple[o.Observation, ...]:
    if event.what == "keep_alive" or not event.call:
        return (o.AliveSeen(source),)
    return (o.CallProgressed(event.call),)


def _retry(event: Retry, source: str) -> tuple[o.Observation, ...]:
    return (o.AliveSeen(source),) if event.delay is None else (o.Paused(event.delay),)


def _limited(event: Limited, source: str) -> tuple[o.Observation, ...]:
    return (o.Resumed(),) if event.lifted else (o.Paused(event.span),)


def _permission(event: Permission, source: str) -> tuple[o.Observation, ...]:
    if event.state == "waiting":
        return (o.Asked(event.question),)
    return (o.Answered(event.question),)


def _subagent(event: Subagent, source: str) -> tuple[o.Observation, ...]:
    """An open delegation is an open call, also where the helper has no name."""
    call = f"subagent {event.sub}".rstrip()
    if event.state == "start":
        return (o.CallBegan(call, "subagent"),)
    return (o.CallEnded(call, event.state == "end"),)


_HEARD: "dict[type[Event], Callable[[Any, str], tuple[o.Observation, ...]]]" = {
    SessionStarted: _progress,
    SessionEnded: lambda event, source: (o.ResultSeen(event.ok),),
    TurnStarted: _turn_started,
    TurnEnded: lambda event, source: (o.TurnEnded(),),
    Text: _progress,
    Thinking: _progress,
    ToolCalled: _called,
    ToolResult: _result,
    Heartbeat: _heartbeat,
    Retry: _retry,
    Limited: _limited,
    Permission: _permission,
    Subagent: _subagent,
    Compacted: _progress,
    Failed: _alive,
    Usage: lambda event, source: (),
    Restarted: lambda event, source: (o.StreamRestarted(),),
}
