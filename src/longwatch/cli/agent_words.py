"""What is said of an observed agent: its state in a word or two, its story for `why`, its events for `logs`.

What is told is what its run's folder or report holds. Spans in it were measured when it was written, `ago_ms` ago.
Anything may be missing: an older longwatch knew less.
"""

import time
from collections.abc import Mapping
from typing import Any

from longwatch.cli.render import clean, instant, span, when
from longwatch.units import ago as coarse
from longwatch.vocabulary import PROVIDER

_STATES = {
    "working": "working",
    "ready": "waiting to be spoken to",
    "asked": "asking a human",
    "paused": "paused",
}
_MOST_CALLS = 3
#: Shorter than this nobody calls it a silence.
_WORTH_TELLING = 1_000
_COUNTED = ("started", "ok", "failed", "open")
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")

Agent = Mapping[str, Any]
Story = list[tuple[str, list[str]]]


def state_of(agent: Agent) -> str:
    """Return what an agent is at: working, in a call: TOOL 3m, asks: 2m, paused until 14:05, ready."""
    ago = _written(agent)
    questions, calls, parked = _listed(agent, "questions"), _listed(agent, "calls"), _until(agent)
    state = agent.get("state")
    if questions:
        return f"asks: {_age(questions[0], ago)}"
    if calls:
        more = f" (+{len(calls) - 1})" if len(calls) > 1 else ""
        return f"in a call: {_tool(calls[0])} {_age(calls[0], ago)}{more}"
    if parked:
        return parked
    return clean(state) if state in _STATES else "working"


def story(agent: Agent | None) -> Story:
    """Return what `why` tells of an agent: heads, each with its lines; nothing of a run that has none."""
    if not agent:
        return []
    ago = _written(agent)
    return [
        ("agent", _who(agent)),
        ("in a call", _calls(agent, ago)),
        ("asks", [_question(question, ago) for question in _listed(agent, "questions")[:_MOST_CALLS]]),
        ("limit", _limit(agent)),
        ("error", [clean(agent["last_error"])] if agent.get("last_error") else []),
        ("used", _used(agent.get("usage"))),
        ("silences", [_silence(silence) for silence in _listed(agent, "longest") if _is_long(silence)]),
    ]


def _written(agent: Agent) -> int:
    ago = agent.get("ago_ms")
    return ago if isinstance(ago, int) else 0


def _who(agent: Agent) -> list[str]:
    name = clean(agent.get("preset") or agent.get("dialect") or "agent")
    session, counts = agent.get("session"), agent.get("counts")
    line = f"{name}, conversation {clean(session)}" if session else name
    if agent.get("pending"):
        return [line, f"nothing of it was read: {clean(agent['pending'])}"]
    return [line, *_counted(counts if isinstance(counts, Mapping) else {})]


def _counted(counts: Mapping[str, Any]) -> list[str]:
    numbers = {name: counts[name] for name in _COUNTED if isinstance(counts.get(name), int)}
    words = [
        f"{number} {'calls' if name == 'started' else name}" for name, number in numbers.items() if number
    ]
    for name, word in (("retries", "requests tried again"), ("limits", "limits met")):
        if counts.get(name):
            words.append(f"{counts[name]} {word}")
    return [", ".join(words)] if words else []


def _calls(agent: Agent, ago: int) -> list[str]:
    calls = _listed(agent, "calls")
    lines = [f"{_tool(call)} for {_age(call, ago)}{_whose(call)}" for call in calls[:_MOST_CALLS]]
    return lines + ([f"and {len(calls) - _MOST_CALLS} more"] if len(calls) > _MOST_CALLS else [])


def _question(question: Agent, ago: int) -> str:
    return f"a human must answer; it has waited for {_age(question, ago)}"


def _limit(agent: Agent) -> list[str]:
    limit = agent.get("limit")
    if not isinstance(limit, Mapping):
        return []
    named = PROVIDER.get(str(limit.get("cls")), "a limit")
    until = f" until {when(limit['until'])}" if limit.get("until") else "; nobody says until when"
    return [named + until, *([clean(limit["text"])] if limit.get("text") else [])]


def limit_in_short(agent: object) -> str:
    """Return the limit that an agent met last and that nothing followed, for a table; empty where there is none."""
    limit = agent.get("limit") if isinstance(agent, Mapping) else None
    return f"met {_limit({'limit': limit})[0]}" if isinstance(limit, Mapping) else ""


def _used(usage: object) -> list[str]:
    """Return in one line what an agent has used; nothing where it has told of nothing."""
    told = usage if isinstance(usage, Mapping) else {}
    total, usd = told.get("total_tokens"), told.get("cost_usd")
    words = []
    if isinstance(total, int) and total:
        parts = (("in", "input_tokens"), ("out", "output_tokens"), ("cached", "cached_tokens"))
        split = [f"{_many(told[key])} {word}" for word, key in parts if told.get(key)]
        words.append(f"{_many(total)} tokens ({', '.join(split)})")
    if isinstance(usd, int | float) and usd:
        words.append(f"${usd:.2f}" if usd >= 0.01 else "under $0.01")
    return [", ".join(words)] if words else []


def _many(number: int) -> str:
    """Return a number in three digits or so."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 1000 * size else f"{number // size}{unit}"
    return str(number)


def _until(agent: Agent) -> str:
    """Return how long a provider's limit parks the agent; empty where there is none, or it is over."""
    limit = agent.get("limit")
    if not isinstance(limit, Mapping):
        return ""
    end = instant(limit.get("until"))
    if end is None:
        return f"paused by {PROVIDER.get(str(limit.get('cls')), 'a limit')}"
    return f"paused until {when(limit['until'], brief=True)}" if end.timestamp() > time.time() else ""


def _is_long(silence: Agent) -> bool:
    ms = silence.get("ms")
    return isinstance(ms, int) and ms >= _WORTH_TELLING


def _silence(silence: Agent) -> str:
    state = silence.get("state")
    at = f"in a call of {_tool(silence)}" if state == "call" else _STATES.get(str(state), "")
    return f"{span(silence.get('ms'))} {at}".rstrip()


def _listed(agent: Agent, key: str) -> list[Agent]:
    found = agent.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _tool(call: Agent) -> str:
    return clean(call.get("tool") or "a tool")


def _whose(call: Agent) -> str:
    return f", of its helper {clean(call['sub'])}" if call.get("sub") else ""


def _age(thing: Agent, ago: int) -> str:
    since = thing.get("since_ms")
    return coarse(since + ago) if isinstance(since, int) else "?"


# -- events


def event_line(event: Agent) -> str:
    """Return an event as a line of `logs`: when, kind, tool, and what came of it."""
    kind = str(event.get("kind"))
    stamp = instant(event.get("at"))
    at = "?" if stamp is None else stamp.strftime("%Y-%m-%d %H:%M:%S")
    words = [at, kind, *_details(kind, event)]
    if event.get("sub"):
        words.append(f"[{event['sub']}]")
    return clean("  ".join(word for word in words if word))


def _details(kind: str, event: Agent) -> list[str]:
    tool, call = str(event.get("tool") or ""), str(event.get("call") or "")
    if kind == "tool_result":
        code = event.get("exit_code")
        result = (
            "still runs"
            if event.get("partial")
            else "ok"
            if event.get("ok")
            else str(event.get("why") or "failed")
        )
        return [tool, result + (f" (exit status {code})" if code else ""), call]
    if kind == "limit":
        until = f"for {span(event.get('span_ms'))}" if event.get("span_ms") else ""
        return [str(event.get("class") or ""), "over" if event.get("lifted") else until]
    if kind == "usage":
        return _used({**event, "total_tokens": sum(event.get(key) or 0 for key in _TOKENS)})
    if kind == "retry":
        delay = f"in {span(event.get('delay_ms'))}" if event.get("delay_ms") else ""
        return [str(event.get("class") or ""), str(event.get("status") or ""), delay]
    texts = [
        event.get(key)
        for key in ("tool", "state", "reason", "by", "what", "session", "id", "class", "message")
    ]
    size = f"{event['chars']} characters" if event.get("chars") else ""
    return [*(str(text) for text in texts if text), size, call]
