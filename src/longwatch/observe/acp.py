"""ACP: what crosses between an agent and its client becomes events.

Messages come as they are on the wire (JSON-RPC, camelCase) or as objects of any library that names its attributes in
snake_case, so every field is looked up by both names. ACP has no word for a provider's limit and stamps nothing.

Two facts are only in pairs of messages. A human is asked from `session/request_permission` until its response; a turn
lasts from `session/prompt` until its own. So one `Session` reads one connection, in both directions if it may; where
it sees one direction only, the call that was asked for settles the question by moving on.
"""

from longwatch.observe import events as e

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Events = tuple[e.Event, ...]

#: Requests that wait for a human, and where each names what it asks about.
QUESTIONS = ("session/request_permission", "elicitation/create")
#: Why a turn ended, in the words of the protocol: ours, and whether it ended well.
STOPS = {
    "end_turn": ("end_turn", True),
    "max_tokens": ("max", False),
    "max_turn_requests": ("max", False),
    "refusal": ("error", False),
    "cancelled": ("aborted", False),
}
#: No status, exit code, attempt or span in ms is larger; NaN and infinity are not smaller.
_MOST = 1e15
_DENIALS = ("cancelled", "decline", "cancel")


def look(thing: object, name: str) -> "Any":
    """Return a field by its snake_case name, from an object or a record in either spelling; None when it has none."""
    if not isinstance(thing, dict):
        return getattr(thing, name, None)
    if name in thing:
        return thing[name]
    first, *rest = name.split("_")
    return thing.get(first + "".join(word.capitalize() for word in rest))


def whole(value: object) -> int | None:
    """Return a number as a whole one; None for everything else, flags included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        return None
    return round(value)


def update(said: object) -> Events:
    """Return the events of one session update; none where it says nothing of what the agent does."""
    reader = _UPDATES.get(_word(look(said, "session_update")))
    return () if reader is None else reader(said)


class Session:
    """Reads the messages of one connection, one after another, as records or as objects."""

    __slots__ = ("_prompts", "_questions")

    def __init__(self) -> None:
        self._prompts: set[str] = set()
        # By the key of the question: the call that it is about, oldest first.
        self._questions: dict[str, str] = {}

    def read(self, message: object) -> Events:
        """Return the events of one message, request, response or update. Never raises for an odd one."""
        if isinstance(message, dict) and ("method" in message or "id" in message):
            return self._wire(message)
        if (inner := look(message, "update")) is not None:
            return self._update(inner)
        if look(message, "session_update") is not None:
            return self._update(message)
        if look(message, "tool_call") is not None and look(message, "options") is not None:
            return self._asked(_word(look(look(message, "tool_call"), "tool_call_id")), message)
        if look(message, "stop_reason") is not None or look(message, "outcome") is not None:
            return self._answered(message, "")
        return (e.TurnStarted(),) if look(message, "prompt") is not None else ()

    # -- the wire

    def _wire(self, message: "dict[str, Any]") -> Events:
        method, params, key = message.get("method"), message.get("params"), _word(message.get("id"))
        if method == "session/update":
            return self._update(look(params, "update"))
        if method in QUESTIONS:
            return self._asked(f"request {key}", params)
        if method == "session/prompt":
            self._prompts.add(key)
            return (e.TurnStarted(),)
        if method is not None:
            return ()
        if message.get("error") is not None:
            return self._failed(message["error"], key)
        return self._answered(message.get("result"), f"request {key}", key)

    def _failed(self, error: object, key: str) -> Events:
        """A request came back with an error: of a prompt it is the end of the turn."""
        failed = e.Failed(message=_word(look(error, "message")))
        if key in self._prompts:
            return (failed, *self._turn_over(key, "error", ok=False))
        return (failed, *self._settle(f"request {key}", "denied"))

    # -- questions and answers

    def _asked(self, question: str, params: object) -> Events:
        call = look(params, "tool_call")
        self._questions[question] = _word(look(call, "tool_call_id"))
        return (e.Permission("waiting", question, _tool(call)),)

    def _answered(self, result: object, question: str, key: str = "") -> Events:
        """A response: of a prompt it says why the agent stopped, of a question what the human chose."""
        stop = look(result, "stop_reason")
        if stop is not None:
            return self._turn_over(key, *STOPS.get(_word(stop), ("end_turn", True)))
        # Elicitations answer with an action, permissions with an outcome that is a word or holds one.
        choice = look(result, "outcome") or look(result, "action")
        if choice is None:
            return ()
        word = _word(choice if isinstance(choice, str) else look(choice, "outcome"))
        # An object does not say which question it answers; the agent asks one at a time.
        oldest = question or next(iter(self._questions), "")
        return self._settle(oldest, "denied" if word in _DENIALS else "allowed")

    def _settle(self, question: str, state: str) -> Events:
        if question not in self._questions:
            return ()
        del self._questions[question]
        return (e.Permission(state, question),)

    def _turn_over(self, key: str, reason: str, ok: bool) -> Events:
        self._prompts.discard(key)
        settled = [event for question in [*self._questions] for event in self._settle(question, "denied")]
        return (*settled, e.TurnEnded(reason, ok))

    def _update(self, said: object) -> Events:
        found = update(said)
        call = _word(look(said, "tool_call_id"))
        # A call that is still pending says nothing of the answer.
        if not call or not self._questions or look(said, "status") in (None, "pending"):
            return found
        moved = [question for question, about in self._questions.items() if about == call]
        return (*(event for question in moved for event in self._settle(question, "allowed")), *found)


# -- session updates


def _word(value: object) -> str:
    return "" if value is None else str(value)


def _chars(content: object) -> str:
    return _word(look(content, "text"))


def _text(said: object) -> Events:
    return (e.Text(_chars(look(said, "content"))),)


def _thought(said: object) -> Events:
    return (e.Thinking(len(_chars(look(said, "content")))),)


def _call(said: object) -> Events:
    began = e.ToolCalled(_word(look(said, "tool_call_id")), _tool(said), look(said, "raw_input"))
    # Quick tools are told once, when they are over.
    return (began, *_result(said)) if look(said, "status") in ("completed", "failed") else (began,)


def _progress(said: object) -> Events:
    if look(said, "status") in ("completed", "failed"):
        return _result(said)
    return (e.Heartbeat("tool_progress", _word(look(said, "tool_call_id"))),)


def _result(said: object) -> Events:
    ok = look(said, "status") == "completed"
    output = look(said, "raw_output")
    result = look(said, "content") if output is None else output
    code = whole(look(output, "exit_code"))
    call = _word(look(said, "tool_call_id"))
    return (e.ToolResult(call, ok, code, "" if ok else "error", result=result),)


def _tool(said: object) -> str:
    """Name the tool: the kind is from a short list, a title may hold a whole command line."""
    kind = _word(look(said, "kind"))
    return kind if kind and kind != "other" else _word(look(said, "title"))


_UPDATES: "dict[str, Callable[[object], Events]]" = {
    "user_message_chunk": lambda said: (e.TurnStarted(),),
    "agent_message_chunk": _text,
    "agent_thought_chunk": _thought,
    "tool_call": _call,
    "tool_call_update": _progress,
    # A plan is the model's words, but no part of its answer.
    "plan": lambda said: (e.Thinking(),),
    "plan_update": lambda said: (e.Thinking(),),
}
