"""What the hooks of an agent tell, in the words of Claude Code's: messages that `longwatch hook` left become records.

Hooks are the only exact source of one fact, that a human is asked in the agent's own interface, and an early one of all
others. They have no words of the model's, and no hook tells that a human has answered: the call that was asked for
tells it by its result, or the end of the turn.

One process may have several conversations one after another, and a tool may start an agent of its own that has the
same hooks. So one conversation is followed at a time: while it works or is asked, another one is somebody else's.
"""

import time

from longwatch.core.record import Plain
from longwatch.observe import events as e
from longwatch.observe.record import HOOK, Record
from longwatch.observe.wording import limit_class, reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ClassVar

    Events = tuple[e.Event, ...]
    Message = Mapping[str, Any]

#: So many calls are open at once at most: more were lost sight of.
MOST = 1_000
_CLASSES = {
    "rate_limit": "rate",
    "billing_error": "money",
    "authentication_failed": "auth",
    "overloaded": "overload",
}
_LIMITS = ("rate", "usage", "money", "auth")
_ASKING = ("permission_prompt", "worker_permission_prompt", "agent_needs_input", "elicitation_dialog")
_ANSWERED = ("elicitation_response", "elicitation_complete")
#: The question of a notification, which names no call.
_PROMPT = "prompt"


class _Call(Plain):
    """An open call: what it is recognised by, and whose it is. `doubtful` once a human has spoken since it began."""

    __slots__ = ("doubtful", "mark", "sub", "tool")

    def __init__(self, tool: str, mark: str, sub: str) -> None:
        self.tool = tool
        self.mark = mark
        self.sub = sub
        self.doubtful = False


class Hooks:
    """Reads the messages of one run in the order in which they came."""

    def __init__(self) -> None:
        #: The conversation that is followed, and its file as the agent names it; empty before the first message.
        self.session = ""
        self.transcript = ""
        self._over = False
        self._working = False
        self._failed = False
        self._note = ""
        self._calls: dict[str, _Call] = {}
        self._done: dict[str, None] = {}
        #: Open questions, each with the call that it is about ("" where that is unknown).
        self._asked: dict[str, str] = {}

    def records(self, message: "Message") -> list[Record]:
        """Return the record of a message; it is a sign of life where it says nothing else. Raises nothing."""
        event, session, sub = (_text(message, key) for key in ("event", "session", "sub"))
        at = message.get("wall_ms")
        self._note = ""
        began = self._follow(event, session, message)
        found = self._read(event, message, sub) if session == self.session else ()
        return [
            Record(
                (*began, *found), at=at if isinstance(at, int) else None, session=session, sub=sub, source=HOOK,
                raw_type=event, note=self._note,
            )
        ]  # fmt: skip

    def _read(self, event: str, message: "Message", sub: str) -> "Events":
        handler = self._HANDLERS.get(event)
        return () if handler is None else handler(self, message, sub)

    def _follow(self, event: str, session: str, message: "Message") -> "Events":
        """Take up a conversation where none is followed, or the one that is has nothing to do."""
        free = self._over or not (self._working or self._calls or self._asked)
        if not session or session == self.session or not (free or not self.session):
            return ()
        gone = self._orphaned(_own)
        self.session, self.transcript = session, _text(message, "transcript")
        self._over = self._working = False
        resumed = _text(message, "source") == "resume"
        return (*gone, e.SessionStarted(session, resumed, model=_text(message, "model")))

    # -- calls

    def _began(self, message: "Message", sub: str) -> "Events":
        call, tool = _call_of(message), _text(message, "tool")
        self._working = self._working or not sub
        if not call or call in self._calls or call in self._done:
            return ()
        # The model goes on only when it has the results of its calls, so these were broken off without a word.
        gone = () if sub else self._orphaned(lambda about: about.doubtful)
        if len(self._calls) >= MOST:
            del self._calls[next(iter(self._calls))]
        mark = _text(message, "mark")
        self._calls[call] = _Call(tool, mark, sub)
        return (*gone, e.ToolCalled(call, tool, mark, message.get("background") is True))

    def _ended(self, message: "Message", sub: str) -> "Events":
        return self._result(message, sub, e.ToolResult(_call_of(message), result=_text(message, "result")))

    def _ended_badly(self, message: "Message", sub: str) -> "Events":
        code = message.get("code")
        why = "interrupted" if message.get("interrupt") is True else "error"
        exit_code = code if isinstance(code, int) else None
        result = e.ToolResult(_call_of(message), False, exit_code, why, result=_text(message, "result"))
        return self._result(message, sub, result)

    def _refused(self, message: "Message", sub: str) -> "Events":
        call = _call_of(message)
        asked = any(about in (call, "") for about in self._asked.values())
        result = self._result(message, sub, e.ToolResult(call, ok_native=False, why="denied"), "denied")
        return result if asked else (e.Permission("auto_denied", tool=_text(message, "tool")), *result)

    def _result(
        self, message: "Message", sub: str, result: e.ToolResult, answer: str = "allowed"
    ) -> "Events":
        """Return a call's end, behind its begin where that was not seen, and behind the answer that it implies."""
        begin = self._began(message, sub)
        if self._calls.pop(result.call, None) is None:
            return ()
        self._note_done(result.call)
        return (*begin, *self._settled(answer, result.call), result)

    def _orphaned(self, which: "Callable[[_Call], bool]") -> "Events":
        """End those calls that can get no result any more."""
        gone = [call for call, about in self._calls.items() if which(about)]
        found: Events = ()
        for call in gone:
            denied = self._settle(
                "denied", [question for question, about in self._asked.items() if about == call]
            )
            found += (*denied, e.ToolResult(call, ok_native=False, why="denied" if denied else "orphaned"))
            del self._calls[call]
            self._note_done(call)
        return found

    def _note_done(self, call: str) -> None:
        self._done[call] = None
        if len(self._done) > MOST:
            del self._done[next(iter(self._done))]

    # -- questions

    def _permission(self, message: "Message", sub: str) -> "Events":
        """A call waits for a human; the message does not name it, so it is found by what it does."""
        tool, mark = _text(message, "tool"), _text(message, "mark")
        same = [
            call
            for call, about in self._calls.items()
            if (about.tool, about.mark, about.sub) == (tool, mark, sub)
        ]
        call = next((call for call in same if call not in self._asked.values()), "")
        return self._ask(f"permission {call or tool}", call, tool)

    def _notified(self, message: "Message", sub: str) -> "Events":
        kind = _text(message, "type")
        if kind in _ASKING and not self._asked:
            return self._ask(_PROMPT, "", "")
        if kind in _ANSWERED:
            return self._settled("allowed", "")
        if kind == "idle_prompt" and self._working:
            # The turn was broken off: of that there is no hook.
            return self._turn_over("aborted")
        return ()

    def _ask(self, question: str, call: str, tool: str) -> "Events":
        if question in self._asked:
            return ()
        self._asked[question] = call
        return (e.Permission("waiting", question, tool),)

    def _settled(self, answer: str, call: str) -> "Events":
        """Settle the questions about a call, and those of which nobody knows what they are about."""
        return self._settle(
            answer, [question for question, about in self._asked.items() if about in (call, "")]
        )

    def _settle(self, answer: str, questions: list[str]) -> "Events":
        for question in questions:
            del self._asked[question]
        return tuple(e.Permission(answer, question) for question in questions)

    # -- turns and conversations

    def _prompted(self, message: "Message", sub: str) -> "Events":
        """A human spoke, so no question is open; whether the calls were broken off or go on, nobody says."""
        for about in self._calls.values():
            about.doubtful = about.doubtful or not about.sub
        self._working, self._failed = True, False
        return (*self._settle("denied", [*self._asked]), e.TurnStarted("user"))

    def _stopped(self, message: "Message", sub: str) -> "Events":
        return self._turn_over("end_turn")

    def _turn_over(self, reason: str) -> "Events":
        self._working = False
        gone = self._orphaned(_own)
        settled = self._settle("denied", [*self._asked])
        return (*gone, *settled, e.TurnEnded(reason, reason == "end_turn"))

    def _gave_up(self, message: "Message", sub: str) -> "Events":
        word, said, at = _text(message, "error"), _text(message, "said"), message.get("wall_ms")
        cls = limit_class(said) if word == "rate_limit" else ""
        cls = cls if cls in _LIMITS else _CLASSES.get(word, word)
        found: Events = (e.Failed(cls, fatal=not sub, message=said),)
        if cls in _LIMITS:
            until = reset(said, at / 1000 if isinstance(at, int) else time.time())
            self._note = until.note
            found += (e.Limited(cls, until.span),)
        if sub:
            return found
        self._failed = True
        return (*found, *self._turn_over("error"))

    def _closed(self, message: "Message", sub: str) -> "Events":
        reason = _text(message, "reason")
        gone = (*self._orphaned(lambda about: True), *self._settle("denied", [*self._asked]))
        self._over, self._working = True, False
        # The process goes on with another conversation.
        return gone if reason in ("clear", "resume") else (*gone, e.SessionEnded(not self._failed, reason))

    def _helper_began(self, message: "Message", sub: str) -> "Events":
        return (e.Subagent("start", sub),) if sub else ()

    def _helper_ended(self, message: "Message", sub: str) -> "Events":
        return (*self._orphaned(lambda about: about.sub == sub), e.Subagent("end", sub)) if sub else ()

    _HANDLERS: "ClassVar[dict[str, Callable[[Hooks, Message, str], Events]]]" = {
        "PreToolUse": _began,
        "PostToolUse": _ended,
        "PostToolUseFailure": _ended_badly,
        "PermissionRequest": _permission,
        "PermissionDenied": _refused,
        "Notification": _notified,
        "UserPromptSubmit": _prompted,
        "Stop": _stopped,
        "StopFailure": _gave_up,
        "SessionEnd": _closed,
        "SubagentStart": _helper_began,
        "SubagentStop": _helper_ended,
        "PreCompact": lambda hooks, message, sub: (e.Compacted("start"),),
        "PostCompact": lambda hooks, message, sub: (e.Compacted("end"),),
    }


def _own(about: _Call) -> bool:
    return not about.sub


def _text(message: "Message", key: str) -> str:
    value = message.get(key)
    return value if isinstance(value, str) else ""


def _call_of(message: "Message") -> str:
    """Return a call's id; older agents have none, and are recognised by what they call."""
    return _text(message, "call") or f"{_text(message, 'tool')} {_text(message, 'mark')}".strip()
