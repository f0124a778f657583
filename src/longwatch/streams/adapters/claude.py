"""Claude: messages of claude-agent-sdk, and the records of its CLI's stream-json, which carry the same fields.

What differs is where a field stands and how it is spelled, so both go through the same eyes. Three facts shape it:
a whole message repeats what its partial events said before; what a sub-agent says belongs to the call that runs it;
and a tool's `tool_progress` is a timer, no progress: it would keep a hung tool alive for ever.
"""

import re
import time

from longwatch import resets
from longwatch.observe import events as e
from longwatch.observe.acp import look, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters import Read
    from longwatch.streams.adapters.shapes import Rows

#: What a failed request was about, in the provider's words: the class of limit. All others are no limits.
LIMITS = {
    "rate_limit": "rate",
    "billing_error": "money",
    "authentication_failed": "auth",
}
_OVER = ("completed", "failed", "stopped", "killed")
_EXIT = re.compile(r"Exit code (\d+)")


def reader(wall: "Callable[[], float]" = time.time) -> "Read":
    """Return what reads one stream of messages; `wall` is the clock that reset times are compared with."""
    return Conversation(wall).read


class Conversation:
    """Reads the messages of one conversation, in their order."""

    __slots__ = ("_asked", "_message", "_streamed", "_subs", "_wall")

    def __init__(self, wall: "Callable[[], float]" = time.time) -> None:
        self._wall = wall
        self._message = ""  # the message whose parts are coming
        self._streamed: str | None = None  # the last one whose text came in parts
        self._subs: set[str] = set()
        self._asked: list[str] = []

    def read(self, message: object) -> "Events":
        """Return the events of a message of the SDK; nothing for one that is new to us."""
        reader = self._CLASSES.get(type(message).__name__)
        return () if reader is None else reader(self, message)

    # -- who speaks

    def _assistant(self, message: object) -> "Events":
        inner = look(message, "message") or message
        error = look(message, "error")
        if error:
            return self._api_error(str(error), message, inner)
        name = str(look(message, "message_id") or look(inner, "id") or "")
        parent = look(message, "parent_tool_use_id")
        found = [self._block(block, quiet=bool(parent) or name == self._streamed) for block in _blocks(inner)]
        return self._told(parent, found)

    def _user(self, message: object) -> "Events":
        """What comes back to the model: results of calls, or somebody's words."""
        parent = look(message, "parent_tool_use_id")
        blocks = [block for block in _blocks(message) if look(block, "tool_use_id")]
        if not blocks:
            return self._told(parent, []) if parent else (e.TurnStarted(),)
        return self._told(parent, [self._block(block, quiet=True) for block in blocks])

    def _told(self, parent: object, found: "list[e.Event]") -> "Events":
        """Whatever a sub-agent does is progress of the call that runs it."""
        about = [e.Heartbeat("tool_progress", str(parent))] if parent else []
        return (*self._settled(), *about, *found)

    def _block(self, block: object, *, quiet: bool) -> e.Event:
        """Read one block by what it has; `quiet` where its text is known already or is not the agent's own."""
        if call := look(block, "tool_use_id"):
            return self._result(str(call), block)
        if look(block, "name") is not None:
            given = look(block, "input")
            background = bool(look(given, "run_in_background"))
            return e.ToolCalled(str(look(block, "id")), str(look(block, "name")), given, background)
        text = look(block, "text")
        if text is not None and not quiet:
            return e.Text(str(text))
        return e.Thinking(len(str(text or look(block, "thinking") or "")))

    def _result(self, call: str, block: object) -> e.Event:
        content = look(block, "content")
        if not look(block, "is_error"):
            return e.ToolResult(call, result=content)
        code = _EXIT.match(content) if isinstance(content, str) else None
        return e.ToolResult(call, False, int(code[1]) if code else None, "error", result=content)

    def _api_error(self, cls: str, message: object, inner: object) -> "Events":
        """A request failed for good: the text of the message is the error's, not the model's."""
        words = " ".join(str(look(block, "text") or "") for block in _blocks(inner))
        failed = e.Failed(cls, whole(look(message, "api_error_status")), True, words)
        return (failed, e.Limited(LIMITS[cls])) if cls in LIMITS else (failed,)

    # -- parts of a message

    def _partial(self, message: object) -> "Events":
        event = look(message, "event")
        kind = look(event, "type")
        if kind == "ping":
            return (e.Heartbeat(),)
        if kind == "message_start":
            self._message = str(look(look(event, "message"), "id") or "")
        if kind != "content_block_delta":
            return ()
        delta = look(event, "delta")
        text = look(delta, "text")
        if text is not None and not look(message, "parent_tool_use_id"):
            self._streamed = self._message
            return (e.Text(str(text)),)
        return (e.Thinking(len(str(text or look(delta, "thinking") or look(delta, "partial_json") or ""))),)

    # -- what the program says of itself

    def _system(self, message: object) -> "Events":
        """The SDK types few of these records; one that we do not know is a sign of life, as in a transcript."""
        record = look(message, "data") or message
        reader = self._SUBTYPES.get(str(look(record, "subtype")))
        return (e.Heartbeat(),) if reader is None else reader(self, record)

    def _init(self, record: object) -> "Events":
        cwd, model = str(look(record, "cwd") or ""), str(look(record, "model") or "")
        return (e.SessionStarted(str(look(record, "session_id") or ""), cwd=cwd, model=model),)

    def _retry(self, record: object) -> "Events":
        attempt, delay = whole(look(record, "attempt")), whole(look(record, "retry_delay_ms"))
        status = whole(look(record, "error_status"))
        return (e.Retry(attempt or 0, delay, status, str(look(record, "error") or "")),)

    def _status(self, record: object) -> "Events":
        return (e.Compacted("start"),) if look(record, "status") == "compacting" else (e.Heartbeat(),)

    def _denied(self, record: object) -> "Events":
        call, tool = str(look(record, "tool_use_id") or ""), str(look(record, "tool_name") or "")
        return (e.Permission("denied", call, tool),)

    def _task_started(self, record: object) -> "Events":
        """A shell in the background is nothing that the agent waits for; a helper is."""
        sub = str(look(record, "task_id"))
        if look(record, "task_type") == "local_bash":
            return (e.Heartbeat(),)
        self._subs.add(sub)
        return (e.Subagent("start", sub, str(look(record, "tool_use_id") or "")),)

    def _task_moved(self, record: object) -> "Events":
        """A helper moved or ended; its end may be told twice, or by either of two records only."""
        sub, call = str(look(record, "task_id")), str(look(record, "tool_use_id") or "")
        status = look(record, "status") or look(look(record, "patch"), "status")
        if sub not in self._subs:
            return (e.Heartbeat(),)
        if status not in _OVER:
            return (e.Heartbeat("tool_progress", call), e.Heartbeat("tool_progress", f"subagent {sub}"))
        self._subs.discard(sub)
        return (e.Subagent("end" if status == "completed" else "failed", sub, call),)

    def _rate_limit(self, message: object) -> "Events":
        """The state of a limit changed. Only a refusal is a wait, and none where extra usage goes on."""
        info = look(message, "rate_limit_info")
        extra = str(look(info, "overage_status") or "").startswith("allowed")
        if look(info, "status") != "rejected" or extra:
            return (e.Limited("usage", lifted=True),)
        reset = resets.span(look(info, "resets_at"), self._wall())
        return (e.Limited("usage", reset.span, str(look(info, "rate_limit_type") or "")),)

    def _ended(self, message: object) -> "Events":
        ok = not look(message, "is_error")
        subtype = str(look(message, "subtype") or "")
        why = str(look(message, "terminal_reason") or "")
        reason = "end_turn" if ok else "error"
        if why.startswith("aborted"):
            reason, ok = "aborted", False
        elif subtype.startswith("error_max"):
            reason = "max"
        return (*self._settled(), e.TurnEnded(reason, ok), e.SessionEnded(ok, why or subtype))

    # -- questions, on the wire only: the SDK answers them by a callback that no stream shows

    def _ask(self, record: object) -> "Events":
        request = look(record, "request")
        if look(request, "subtype") != "can_use_tool":
            return (e.Heartbeat(),)
        key = str(look(record, "request_id"))
        self._asked.append(key)
        return (e.Permission("waiting", key, str(look(request, "tool_name") or "")),)

    def _settled(self) -> "list[e.Event]":
        """The answer goes the other way and is not seen: that the work goes on is the answer."""
        asked, self._asked = self._asked, []
        return [e.Permission("allowed", key) for key in asked]

    _CLASSES: "ClassVar[dict[str, Callable[[Conversation, Any], Events]]]" = {
        "AssistantMessage": _assistant,
        "UserMessage": _user,
        "StreamEvent": _partial,
        "RateLimitEvent": _rate_limit,
        "ResultMessage": _ended,
        **dict.fromkeys(
            (
                "SystemMessage", "TaskStartedMessage", "TaskProgressMessage", "TaskNotificationMessage",
                "TaskUpdatedMessage", "HookEventMessage", "MirrorErrorMessage",
            ),
            _system,
        ),
    }  # fmt: skip
    ROWS: "ClassVar[Rows]" = {
        "assistant": ("message", _assistant),
        "user": ("message", _user),
        "system": ("subtype", _system),
        "stream_event": ("event", _partial),
        "rate_limit_event": ("rate_limit_info", _rate_limit),
        "control_request": ("request", _ask),
        "tool_progress": (
            "tool_use_id", lambda self, record: (e.Heartbeat("keep_alive", str(record["tool_use_id"])),),
        ),
        "keep_alive": ("", lambda self, record: (e.Heartbeat(),)),
        "result": ("is_error", _ended),
    }  # fmt: skip
    _SUBTYPES: "ClassVar[dict[str, Callable[[Conversation, Any], Events]]]" = {
        "init": _init,
        "api_retry": _retry,
        "status": _status,
        "compact_boundary": lambda self, record: (e.Compacted("end"),),
        "permission_denied": _denied,
        "task_started": _task_started,
        "task_progress": _task_moved,
        "task_updated": _task_moved,
        "task_notification": _task_moved,
    }


def _blocks(message: object) -> "list[object]":
    """Return the blocks of a message; none where its content is a plain text."""
    content = look(look(message, "message") or message, "content")
    return list(content) if isinstance(content, list | tuple) else []
