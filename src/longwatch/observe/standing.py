"""How an agent stands: what it has open, what went wrong, how often it did what. Kept for people and for later runs.

A watch needs none of this: it has clocks. Texts are the agent's own and short; nothing of the work is in them.
"""

from longwatch.core.record import Plain
from longwatch.observe import events as e
from longwatch.observe.dialects.calls import Recent
from longwatch.observe.record import Record
from longwatch.observe.silences import ASKED, CALL, PAUSED, READY, WORKING, Silence, Silences
from longwatch.observe.tally import Tally
from longwatch.paths import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

#: An error's text is for a line on a terminal.
_WORDS = 200
_COUNTED = ("records", "started", "ok", "failed", "retries", "limits", "errors", "helpers")
#: What shows that the agent goes on, whatever went wrong before.
_GOES_ON = (e.Text, e.Thinking, e.ToolCalled)
#: What the reading of a stated end says that lay before its own writing (see `wording` and `resets`).
_OVER = "is over"
#: What went wrong until it does.
_WRONG = (e.Retry, e.Limited, e.Failed)
#: What ends no silence: the provider's and the program's own affairs.
_NO_MOVE = (e.Retry, e.Limited, e.Failed, e.Heartbeat, e.Usage)


class OpenCall(Plain):
    """A call without a result: `since` in ms on the watch's clock, `sub` the helper whose call it is."""

    __slots__ = ("call", "since", "sub", "tool")

    def __init__(self, call: str, tool: str, since: int, sub: str = "") -> None:
        self.call = call
        self.tool = tool
        self.since = since
        self.sub = sub


class AgentLimit(Plain):
    """A provider's limit that holds: rate, usage, money or auth, `until` ms since 1970 (None: nobody said)."""

    __slots__ = ("cls", "text", "until")

    def __init__(self, cls: str, until: int | None, text: str) -> None:
        self.cls = cls
        self.until = until
        self.text = text


class Standing:
    """Of one agent in one run. `started` is the run's start in ms on the watch's clock."""

    def __init__(self, started: int, *, ready: bool) -> None:
        self.session = ""
        self.model = ""
        self.limit: AgentLimit | None = None
        self.last_error = ""
        self.calls: dict[str, OpenCall] = {}
        self.questions: dict[str, int] = {}
        self.result_ok: bool | None = None
        #: When a call last went well, on the watch's clock: from there its `stall` counts.
        self.last_ok: int | None = None
        self.usage = Tally()
        self._ready = ready
        self._counts = dict.fromkeys(_COUNTED, 0)
        #: Errors with nothing behind them yet, by whose they are: the agent's own is "".
        self._troubles: dict[str, str] = {}
        #: When the newest thing went wrong, in ms since 1970 (0: nobody says), by whose it is.
        self._wrong: dict[str, int] = {}
        self._silences = Silences(started)
        #: Calls that went well as far as anybody said.
        self._believed = Recent()

    @property
    def counts(self) -> dict[str, int]:
        """How often it did what."""
        return {**self._counts, "open": len(self.calls)}

    @property
    def trouble(self) -> str:
        """The newest error that nothing has followed; empty where there is none."""
        return next(reversed(self._troubles.values()), "")

    @property
    def ready(self) -> bool:
        """Whether nothing is expected of it until it is spoken to."""
        return self._ready

    @property
    def state(self) -> str:
        """What it is at: working, in a call, ready, asking a human, or paused by its provider."""
        if self.questions:
            return ASKED
        if self.calls:
            return CALL
        if self._ready:
            return READY
        return PAUSED if self.limit is not None else WORKING

    def heard(self, at: int, record: Record) -> None:
        """Take note of a record, at its instant on the watch's clock."""
        self._counts["records"] += 1
        moved = [event for event in record.events if not isinstance(event, _NO_MOVE)]
        if moved:
            self._silences.ended(at, self.state, self._tool())
        for event in record.events:
            handler = self._HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, at, record)
            if isinstance(event, _WRONG):
                self._wrong[record.sub] = record.at or 0
            elif isinstance(event, _GOES_ON) and not 0 < (record.at or 0) < self._wrong.get(record.sub, 0):
                # By its own time: what is read later may have been before.
                self._troubles.pop(record.sub, None)
                self.limit = None if not record.sub else self.limit

    def amend(self, call: str) -> None:
        """Count a call as failed that was taken for a good one: some streams keep the exit status to the file."""
        if self._believed.discard(call):
            self._counts["ok"] -= 1
            self._counts["failed"] += 1

    def longest(self, now: int) -> list[Silence]:
        """Return the longest silences until now."""
        return self._silences.longest(now, self.state, self._tool())

    def as_dict(self, now: int) -> "dict[str, Any]":
        """Return the form for JSON; spans count back from `now`."""
        return {
            "session": self.session,
            "model": self.model,
            "state": self.state,
            "limit": None if self.limit is None else _limit(self.limit),
            "last_error": self.last_error,
            "calls": [
                {"call": each.call, "tool": each.tool, "since_ms": now - each.since, "sub": each.sub}
                for each in self.calls.values()
            ],
            "questions": [
                {"question": question, "since_ms": now - since} for question, since in self.questions.items()
            ],
            "counts": self.counts,
            "usage": self.usage.as_dict(),
            "longest": [silence.as_dict() for silence in self.longest(now)],
            "result_ok": self.result_ok,
        }

    def _tool(self) -> str:
        """Return the tool of the call that is open for longest."""
        return next((call.tool for call in self.calls.values()), "") if self.state == CALL else ""

    # -- what each event changes

    def _session_started(self, event: e.SessionStarted, at: int, record: Record) -> None:
        if not record.sub:
            self.session = event.session or self.session
            self.model = event.model or self.model

    def _session_ended(self, event: e.SessionEnded, at: int, record: Record) -> None:
        if not record.sub:
            self.result_ok = event.ok

    def _turn_started(self, event: e.TurnStarted, at: int, record: Record) -> None:
        if not record.sub:
            self._ready, self.result_ok = False, None

    def _turn_ended(self, event: e.TurnEnded, at: int, record: Record) -> None:
        self._ready = self._ready or not record.sub

    def _said(self, event: e.Event, at: int, record: Record) -> None:
        self._ready = self._ready and bool(record.sub)

    def _called(self, event: e.ToolCalled, at: int, record: Record) -> None:
        self._said(event, at, record)
        self._counts["started"] += 1
        self.calls[event.call] = OpenCall(event.call, event.tool, at, record.sub)

    def _result(self, event: e.ToolResult, at: int, record: Record) -> None:
        if event.partial:
            return
        self.calls.pop(event.call, None)
        self._counts["ok" if event.ok else "failed"] += 1
        self.last_ok = at if event.ok else self.last_ok
        if event.ok and event.exit_code is None:
            self._believed.add(event.call)

    def _retry(self, event: e.Retry, at: int, record: Record) -> None:
        self._counts["retries"] += 1
        words = [
            event.cls or "failed request",
            str(event.status or ""),
            f"attempt {event.attempt}" * bool(event.attempt),
        ]
        self._went_wrong(" ".join(word for word in words if word), record)

    def _limited(self, event: e.Limited, at: int, record: Record) -> None:
        if event.lifted:
            self.limit = None
            return
        self._counts["limits"] += 1
        text = self._troubles.get(record.sub, "") or event.scope
        self.limit = _joined(self.limit, AgentLimit(event.cls, _until(event, record), text), record.at or 0)

    def _failed(self, event: e.Failed, at: int, record: Record) -> None:
        self._counts["errors"] += 1
        self._went_wrong(
            event.message or " ".join(filter(None, (event.cls, str(event.status or "")))), record
        )

    def _went_wrong(self, words: str, record: Record) -> None:
        text = " ".join(words.split())[:_WORDS]
        self._troubles.pop(record.sub, None)
        self._troubles[record.sub] = self.last_error = f"its helper: {text}" if record.sub else text

    def _permission(self, event: e.Permission, at: int, record: Record) -> None:
        if event.state == "waiting":
            self.questions.setdefault(event.question, at)
        else:
            self.questions.pop(event.question, None)

    def _subagent(self, event: e.Subagent, at: int, record: Record) -> None:
        # As in `events.observations`: an open delegation is an open call, but nobody's tool was called.
        call = f"subagent {event.sub}".rstrip()
        if event.state == "start":
            self._counts["helpers"] += 1
            self.calls[call] = OpenCall(call, "subagent", at, record.sub)
        else:
            self.calls.pop(call, None)
            self.last_ok = at if event.state == "end" else self.last_ok

    def _restarted(self, event: e.Restarted, at: int, record: Record) -> None:
        self.calls.clear()

    _HANDLERS: "ClassVar[dict[type[e.Event], Callable[[Standing, Any, int, Record], None]]]" = {
        e.SessionStarted: _session_started,
        e.SessionEnded: _session_ended,
        e.TurnStarted: _turn_started,
        e.TurnEnded: _turn_ended,
        e.Text: _said,
        e.Thinking: _said,
        e.ToolCalled: _called,
        e.ToolResult: _result,
        e.Retry: _retry,
        e.Limited: _limited,
        e.Failed: _failed,
        e.Permission: _permission,
        e.Subagent: _subagent,
        e.Restarted: _restarted,
    }


def _until(event: e.Limited, record: Record) -> int | None:
    """Return when a limit ends, in ms since 1970; an end that was over when it was written is that instant."""
    if record.at is not None and event.span is not None:
        return record.at + event.span
    return record.at if _OVER in record.note else None


def _joined(before: AgentLimit | None, limit: AgentLimit, at: int) -> AgentLimit:
    """Return a limit with what an earlier word on it knew better: the last word of an agent says less than the first."""
    if before is None or (before.until is not None and before.until <= at):
        return limit
    cls = before.cls if (before.cls, limit.cls) == ("usage", "rate") else limit.cls
    return AgentLimit(cls, before.until if limit.until is None else limit.until, limit.text or before.text)


def _limit(limit: AgentLimit) -> dict[str, object]:
    until = None if limit.until is None else rfc3339(limit.until)
    return {"cls": limit.cls, "until": until, "text": limit.text}
