"""What a history suggests, in words and as JSON. Names of tools, counts and spans are shown, never what was said."""

import shlex
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from longwatch.cli.render import clean, table
from longwatch.core.holds import ASKED, CALL, READY
from longwatch.core.spec import SECOND
from longwatch.learn.replay import WORKING
from longwatch.learn.suggest import (
    ANY,
    ASLEEP,
    FIRST,
    HAND,
    LIMIT_OF,
    LONG,
    LONGEST,
    PARKED,
    QUESTION,
    RULE_OF_THREE,
    History,
    Proposal,
    needed,
)
from longwatch.options import RUN_OPTIONS
from longwatch.preset_table import Preset, Setting
from longwatch.units import format_duration

_HEADS = (
    "STATE", "SESSIONS", "SILENCES", "P50", "P99", "P99.9", "LONGEST", "PROPOSED", "WRONG STOPS", "PRESET",
)  # fmt: skip
_STATES = {
    WORKING: "the model worked", CALL: "any call", FIRST: "before the first record", ASKED: "a human was asked",
    READY: "the turn was over",
}  # fmt: skip
_LEFT_OUT = {
    LONG: f"of {format_duration(LONGEST)} and more", ASLEEP: "while the machine slept", PARKED: "that the provider asked for",
    HAND: "that a human ended", QUESTION: "in calls that ask a human",
}  # fmt: skip
_VARIABLES = {option.name: option.variable for option in RUN_OPTIONS if option.variable is not None}
#: How many tools are listed, the most used ones.
TOOLS = 10


class Answer(NamedTuple):
    """What the history of one preset's program came to; `sleeps` is how often the machine is known to have slept."""

    preset: Preset
    history: History
    rate: Fraction
    sleeps: int

    @property
    def proposals(self) -> list[Proposal]:
        """Return what is proposed, state by state."""
        return self.history.proposals(self.rate)

    @property
    def windows(self) -> dict[tuple[str, str], int]:
        """Return what is to be set: a tool has a budget of its own only where it differs from that of all calls."""
        found = {(each.state, each.tool): each.window for each in self.proposals if each.window is not None}
        common = found.get((CALL, ANY))
        return {
            key: window
            for key, window in found.items()
            if key[0] != CALL or key[1] == ANY or window != common
        }

    @property
    def flags(self) -> list[str]:
        """Return the words for a command line."""
        return [
            word
            for (state, tool), window in self.windows.items()
            for word in (f"--{LIMIT_OF[state]}", f"{tool}{'=' * bool(tool)}{format_duration(window)}")
        ]

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables; one has room for one window, so the budgets of single tools are not among them."""
        return {
            _VARIABLES[LIMIT_OF[state]]: format_duration(window)
            for (state, tool), window in self.windows.items()
            if tool == ANY
        }


# -- for people


def page(answer: Answer) -> str:
    """Return what is printed of an answer."""
    return "\n".join(_lines(answer))


def _lines(answer: Answer) -> Iterator[str]:
    proposals = answer.proposals
    yield f"{answer.preset.name}: {answer.history.sessions} sessions; a window may be wrong in {_ratio(answer.rate)}"
    tools = [each for each in proposals if each.tool != ANY]
    shown = [each for each in proposals if each.tool == ANY or each in tools[:TOOLS]]
    yield table(_HEADS, [_row(each, answer.preset) for each in shown])
    if len(tools) > TOOLS:
        yield f"and {len(tools) - TOOLS} tools more; --json has them"
    yield from _not_counted(answer)
    if not any(each.state == FIRST for each in proposals):
        yield "first: a transcript does not say when its program began, and no run under longwatch that wrote one is on record"
    yield from _to_set(answer, proposals)


def _row(each: Proposal, preset: Preset) -> list[str]:
    setting = _setting(each, preset)
    spans = [_span(span) for span in (each.p50, each.p99, each.p999, each.longest)]
    return [
        f"{clean(each.tool)} ran" if each.tool else _STATES[each.state],
        str(each.sessions), str(each.silences), *spans, _proposed(each),
        f"{each.stopped} of {each.sessions}" if each.window else "-",
        format_duration(setting.window) if setting else "-",
    ]  # fmt: skip


def _proposed(each: Proposal) -> str:
    if each.window is not None:
        return format_duration(each.window)
    return f"{each.missing} sessions missing" if each.missing else "-"


def _setting(each: Proposal, preset: Preset) -> Setting | None:
    if each.state == CALL:
        return preset.call.get(each.tool, preset.call.get(ANY))
    return preset.limits.get(LIMIT_OF.get(each.state, ""))


def _not_counted(answer: Answer) -> Iterator[str]:
    found = [f"{count} {_LEFT_OUT[reason]}" for reason, count in answer.history.left_out.items() if count]
    if found:
        yield f"not counted: {', '.join(found)}"
    if not answer.sleeps:
        yield "no sleep of this machine is on record, so a long silence may be one"


def _to_set(answer: Answer, proposals: list[Proposal]) -> Iterator[str]:
    short = next((each for each in proposals if each.missing and each.state == WORKING), None)
    if short is not None:
        yield (
            f"too few: to tell {_ratio(answer.rate)} takes {needed(answer.rate)} sessions"
            f"{_carried(short.sessions)}"
        )
    if not answer.windows:
        return
    together, sessions = answer.history.stopped(answer.windows), answer.history.sessions
    yield f"set: {shlex.join(map(clean, answer.flags))}"
    yield f"or:  {' '.join(f'{name}={value}' for name, value in answer.environment.items())}"
    yield f"together they would have stopped {together} of {sessions} sessions wrongly"
    for each in proposals:
        setting = _setting(each, answer.preset)
        if each.tool == ANY and setting and each.window is not None and each.window < setting.window:
            limit, own = LIMIT_OF[each.state], format_duration(setting.window)
            yield f"mind the preset's {limit} of {own}: {setting.why}"


def _span(ms: int) -> str:
    """Return a span as short as it is clear: nobody sets windows in milliseconds."""
    return format_duration(round(ms, -3) if ms >= 10 * SECOND else round(ms, -2) if ms >= SECOND else ms)


def _carried(sessions: int) -> str:
    rate = sessions // RULE_OF_THREE
    return f"; these carry --rate 1/{rate}" if rate > 1 else ""


def _ratio(rate: Fraction) -> str:
    return f"{rate.numerator} of {rate.denominator}"


# -- for programs


def record(answer: Answer) -> dict[str, Any]:
    """Return the same for programs; spans in ms, null where nothing is proposed."""
    return {
        "preset": answer.preset.name,
        "sessions": answer.history.sessions,
        "states": [_state(each, answer.preset) for each in answer.proposals],
        "left_out": answer.history.left_out,
        "flags": answer.flags,
        "environment": answer.environment,
        "stopped_together": answer.history.stopped(answer.windows),
    }


def _state(each: Proposal, preset: Preset) -> dict[str, Any]:
    setting = _setting(each, preset)
    return {
        "state": each.state, "tool": each.tool, "limit": LIMIT_OF.get(each.state),
        "sessions": each.sessions, "silences": each.silences,
        "p50_ms": each.p50, "p99_ms": each.p99, "p999_ms": each.p999, "longest_ms": each.longest,
        "window_ms": each.window, "stopped": each.stopped if each.window else None,
        "missing_sessions": each.missing, "preset_ms": setting.window if setting else None,
    }  # fmt: skip
