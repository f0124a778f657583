"""A replayed session in words and as JSON: what was done, where it was silent, and what limits would have made of it.

Of what was said or asked for only names and counts are shown: transcripts hold keys and mail addresses.
"""

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from longwatch.cli.render import clean, fail, table
from longwatch.core.spec import NOTIFY, LimitSpec
from longwatch.learn.replay import Call, Fired, Replay
from longwatch.learn.sessions import Session
from longwatch.learn.stretches import Gap
from longwatch.observe import events as e
from longwatch.units import format_duration

#: How many of the longest silences, and calls, are listed.
LONGEST = 5

# -- for people


def page(session: Session, limits: dict[str, LimitSpec], *, summary: bool) -> str:
    """Return what is printed of a session; ends us with one line where there is nothing in it."""
    return "\n".join(_lines(session, limits, summary=summary))


def _lines(session: Session, limits: dict[str, LimitSpec], *, summary: bool) -> Iterator[str]:
    replay = Replay(limits)
    shown = []
    for each in session.records():
        at = replay.tell(each)
        if not summary:
            shown += [(at, each.sub, event) for event in each.events]
    replay.finish()
    if not replay.records:
        fail(f"{session.files[0].path}: no records in it")
    yield _head(session, replay)
    yield from (_event(replay, *told) for told in shown)
    yield from _calls(replay)
    yield from _gaps(replay)
    yield from _limits_reached(replay)


def _head(session: Session, replay: Replay) -> str:
    file = session.files[0]
    others = f" and {len(session.files) - 1} of its helpers" if len(session.files) > 1 else ""
    what = f"{clean(os.path.basename(file.path))}{others}: {file.dialect}, {replay.records} records"
    if not replay.timed:
        return f"{what} without times: no silence can be measured"
    return f"{what} in {format_duration(replay.last - replay.first)} from {_instant(replay.first)}"


def _event(replay: Replay, at: int, sub: str, event: e.Event) -> str:
    whose = f" (helper {clean(sub)[:12]})" if sub else ""
    return f"  {_after(replay, at):>9}  {event.kind:<13} {said(event)}{whose}".rstrip()


def said(event: e.Event) -> str:
    """Return what may be told of an event: names and counts, never what was said or asked for."""
    return clean(_WORDS[type(event)](event)).strip() if type(event) in _WORDS else ""


def _result(event: e.ToolResult) -> str:
    if event.partial:
        return f"{event.call} still runs"
    if event.ok:
        return f"{event.call} ok"
    return f"{event.call} failed" + (f" with exit code {event.exit_code}" if event.exit_code else "")


def _limit(event: e.Limited) -> str:
    return "lifted" if event.lifted else event.cls + _span("for", event.span)


def _cause(event: e.Retry | e.Failed) -> str:
    return "".join(f" {word}" for word in (event.cls, event.status) if word)


def _span(word: str, ms: int | None) -> str:
    return "" if ms is None else f" {word} {format_duration(ms)}"


_WORDS: dict[type[e.Event], Callable[[Any], str]] = {
    e.SessionStarted: lambda event: event.session,
    e.SessionEnded: lambda event: f"{'ok' if event.ok else 'failed'} {event.reason}",
    e.TurnStarted: lambda event: event.by,
    e.TurnEnded: lambda event: event.reason,
    e.Text: lambda event: f"{len(event.text)} characters",
    e.Thinking: lambda event: f"{event.chars} characters",
    e.ToolCalled: lambda event: f"{event.tool} {event.call}",
    e.ToolResult: _result,
    e.Heartbeat: lambda event: f"{event.what} {event.call}",
    e.Retry: lambda event: f"attempt {event.attempt}{_cause(event)}{_span('in', event.delay)}",
    e.Limited: _limit,
    e.Permission: lambda event: f"{event.state} {event.tool}",
    e.Subagent: lambda event: f"{event.state} {event.sub}",
    e.Compacted: lambda event: event.state,
    e.Failed: lambda event: f"{'fatal' if event.fatal else ''}{_cause(event)}",
}


def _calls(replay: Replay) -> Iterator[str]:
    done = [call for call in replay.calls if call.ended is not None]
    good, bad = sum(call.ok is True for call in done), sum(call.ok is False for call in done)
    if not replay.calls:
        yield "calls   none"
        return
    open_ = f", {len(replay.open)} without a result" if replay.open else ""
    yield f"calls   {len(replay.calls)} begun, {good} ok, {bad} failed{open_}"
    if replay.timed:
        longest = sorted(done, key=_took, reverse=True)[:LONGEST]
        rows = [
            [format_duration(_took(call)), _how(call), f"after {_after(replay, call.began)}"]
            for call in longest
        ]
        yield from _table([*rows, *([f"since {_after(replay, call.began)}", f"{clean(call.tool)} is open", ""] for call in replay.open)])  # fmt: skip
    for loop in replay.loops:
        yield f"        {clean(loop.tool)} came {loop.count} times in {loop.window} calls with the same result"


def _took(call: Call) -> int:
    return 0 if call.ended is None else call.ended - call.began


def _how(call: Call) -> str:
    return clean(f"{call.tool or call.call} {'ok' if call.ok else call.why or 'failed'}")


def _gaps(replay: Replay) -> Iterator[str]:
    if not replay.timed:
        return
    yield "silence " + (f"{_times(len(replay.gaps))}; the longest:" if replay.gaps else "none")
    yield from _table([[format_duration(gap.span), _while(gap), f"after {_after(replay, gap.began)}"] for gap in replay.longest(LONGEST)])  # fmt: skip


def _while(gap: Gap) -> str:
    words = {"asked": "a human was asked", "paused": "the provider said wait", "ready": "the turn was over"}
    call = f"{clean(gap.subject)} ran" if gap.subject else "a call was open"
    return {**words, "call": call}.get(gap.state, "the model worked")


def _limits_reached(replay: Replay) -> Iterator[str]:
    if not replay.timed:
        return
    for name, limit in replay.limits.items():
        fired = [each for each in replay.fired if each.limit == name]
        left = replay.left.get(name)
        yield f"{name:<7} {_windows(limit)}: {_verdict(replay, limit, fired)}"
        yield from _table([[f"after {_after(replay, each.at)}", _because(replay, each)] for each in fired])
        if left is not None and not any(each.quiet is None for each in fired):
            yield f"        if nothing came behind the last record, after {_after(replay, replay.last + left)}"


def _windows(limit: LimitSpec) -> str:
    own = [f"{tool} {format_duration(span)}" for tool, span in limit.budgets.items()]
    return ", ".join([format_duration(limit.window) if limit.window else "off", *own])


def _verdict(replay: Replay, limit: LimitSpec, fired: list[Fired]) -> str:
    if not fired:
        return "not reached"
    times = _times(len(fired))
    if limit.action == NOTIFY:
        return f"would have told you {times}"
    rest = replay.last - fired[0].at
    lost = f", with {format_duration(rest)} of the session to come" if rest else ""
    return f"would have stopped it{lost}" + (f" (and {len(fired) - 1} times more)" if len(fired) > 1 else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _because(replay: Replay, fired: Fired) -> str:
    subject = f"{clean(fired.subject)} " if fired.subject else ""
    begin = "from the start" if fired.since <= replay.first else f"since {_after(replay, fired.since)}"
    if fired.limit in ("ceiling", "timeout", "soft"):
        return begin
    if fired.quiet is None:
        return f"{subject}{begin}, nothing came any more"
    return f"{subject}{begin}, the next sign came {format_duration(fired.quiet)} later"


def _table(rows: Iterable[list[str]]) -> Iterator[str]:
    rows = list(rows)
    if rows:
        yield "\n".join(f"        {line}" for line in table([""] * len(rows[0]), rows).splitlines()[1:])


def _after(replay: Replay, at: int) -> str:
    return format_duration(max(0, at - replay.first)) if replay.timed else "-"


def _instant(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


# -- for programs


def record(session: Session, limits: dict[str, LimitSpec], *, summary: bool) -> dict[str, Any]:
    """Return the same for programs: instants in UTC, spans in ms, and null where the file has no times."""
    replay = Replay(limits)
    events = [
        {"at": _utc(replay, at), "kind": event.kind, "sub": each.sub, "said": said(event)}
        for each, at in ((each, replay.tell(each)) for each in session.records())
        for event in each.events
    ]
    replay.finish()
    return {
        "files": [file.path for file in session.files],
        "dialect": session.files[0].dialect,
        "source": session.files[0].source,
        "session": session.files[0].session,
        "records": replay.records,
        "bad": sum(file.bad for file in session.files),
        "first": _utc(replay, replay.first),
        "last": _utc(replay, replay.last),
        "kinds": replay.kinds,
        **({} if summary else {"events": events}),
        "calls": [_call(replay, call) for call in replay.calls],
        "gaps": [_gap(replay, gap) for gap in replay.longest(len(replay.gaps))] if replay.timed else [],
        "limits": {name: _reached(replay, name, limit) for name, limit in limits.items()}
        if replay.timed
        else {},
    }


def _call(replay: Replay, call: Call) -> dict[str, Any]:
    return {
        "call": call.call, "tool": call.tool, "sub": call.sub, "began": _utc(replay, call.began),
        "took_ms": None if call.ended is None or not replay.timed else _took(call),
        "ok": call.ok, "exit_code": call.exit_code, "why": call.why,
    }  # fmt: skip


def _gap(replay: Replay, gap: Gap) -> dict[str, Any]:
    return {"began": _utc(replay, gap.began), "span_ms": gap.span, "state": gap.state, "tool": gap.subject}


def _reached(replay: Replay, name: str, limit: LimitSpec) -> dict[str, Any]:
    fired = [each for each in replay.fired if each.limit == name]
    return {
        "window_ms": limit.window, "budgets_ms": limit.budgets, "action": limit.action,
        "fired": [
            {
                "at": _utc(replay, each.at), "since": _utc(replay, each.since), "subject": each.subject,
                "window_ms": each.window, "quiet_ms": each.quiet,
            }
            for each in fired
        ],
        "left_ms": replay.left.get(name),
    }  # fmt: skip


def _utc(replay: Replay, ms: int) -> str | None:
    if not replay.timed:
        return None
    return (
        dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
