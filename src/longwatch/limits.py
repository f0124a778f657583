"""`Limits`: how patient a run is, in the words of the table of limits.

Spans are seconds as numbers, or texts such as "5m" and "1h30m". A field that is left out has its user's default:
what its variable says (LONGWATCH_IDLE, LONGWATCH_TIMEOUT, ...), else the built-in, and that stops.
"""

import math
import os

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, NONE, NOTIFY, NUDGE, SECOND, STOP, LimitSpec
from longwatch.errors import UsageError
from longwatch.options import DEFAULT, from_environment, options_for
from longwatch.units import format_duration, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.options import Told

Span = float | int | str | None
#: Beyond a century a limit is none; it also keeps huge numbers out of timers.
_FOREVER = 100 * 365 * 24 * 3600
#: What the library cannot do is to type: it has nobody's words.
_ACTIONS = (STOP, NOTIFY, NONE)


class Unset:
    """The value of a field that was not given: distinct from None and from 0, which switch off."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()
#: The fields that are spans, in the order of the table of limits.
_SPANS = ("idle", "first", "stall", "call", "ceiling", "timeout", "soft", "ask", "grace")
#: Of those the ones whose variable and built-in has another name.
_OPTION = {"grace": "kill-after", "idle_action": "idle-action"}
#: What a limit does that has no action of its own: a stalled or asking program may be right.
_STEPS = {"soft": NOTIFY, "stall": NOTIFY, "ask": NOTIFY}
#: The part of a guard's ceiling that is kept for the end, its bounds, and the ceiling that is too short for one.
_RESERVE, _RESERVE_LEAST, _RESERVE_MOST, _TOO_SHORT = 0.15, 30 * SECOND, 5 * MINUTE, 2 * MINUTE
#: Built-ins of what a user has no option for. Closing a stream is a matter of a connection, not of a tree.
_UNKNOWN = {"grace": 5 * SECOND, "idle_action": STOP}


class Resolved(Plain):
    """What limits come to in an environment: those that are on, the grace in ms, and what there is to complain of.

    `loop` is the number of equal calls in a row that stop (0: off); `named` are the fields that somebody has set.
    """

    __slots__ = ("complaints", "grace", "loop", "named", "specs")

    def __init__(
        self, specs: dict[str, LimitSpec], grace: int, complaints: list[str], loop: int = 0,
        named: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.specs = specs
        self.grace = grace
        self.complaints = complaints
        self.loop = loop
        self.named = named


class Limits:
    """The limits of one run of a program, or of one guarded stream. A span is in seconds, or a text such as "5m".

                                                                                        built-in: run    guard
    idle         no progress: stops (or what `idle_action` says)                                   300 s  480 s
    first        no first progress since the start: stops                                          off    off
    stall        no successful call: notifies                                                      off    off
    call         one call took longer: stops, naming the tool; a span, or spans by tool with ""    off    1 h
                 for all others: {"Bash": "30m", "": "1h"}
    ceiling      in all, moved by the provider's pauses: stops                                     off    45 min
    timeout      in all, moved by nothing: stops                                                   off    off
    soft         in all: marks the run resumable, tells a turn to wrap up; never stops             off    from ceiling
    ask          a question to a human waited longer: notifies                                     off    off
    loop         the same call with the same result so many times in a row: stops                  off    off
    idle_action  the most that `idle` may do: "stop", "notify" (it is only noted) or "none"        stop   stop
    grace        from the first signal to KILL; 0, None: KILL follows at once                      10 s   5 s

    Calls and questions are seen in guarded streams and of agents whose records are read; of any other program
    `stall`, `call`, `ask` and `loop` never act.

    A field that is left out is taken from its variable (LONGWATCH_IDLE, LONGWATCH_KILL_AFTER for `grace`; of a guard
    LONGWATCH_GUARD_IDLE), then of a run from the file of `config=`, else it is the built-in. 0, None, "off", negative and non-finite numbers switch a limit
    off. Raises UsageError for a text that is no duration and for an action that is none; not for a variable that is
    wrong: that warns when the run begins, and leaves the built-in.
    """

    __module__ = "longwatch"
    __slots__ = ("_budgets", "_given")

    def __init__(
        self,
        *,
        idle: Span | Unset = UNSET,
        first: Span | Unset = UNSET,
        ceiling: Span | Unset = UNSET,
        timeout: Span | Unset = UNSET,
        soft: Span | Unset = UNSET,
        stall: Span | Unset = UNSET,
        call: "Span | Mapping[str, Span] | Unset" = UNSET,
        ask: Span | Unset = UNSET,
        loop: int | Unset | None = UNSET,
        idle_action: str | Unset = UNSET,
        grace: Span | Unset = UNSET,
    ) -> None:
        self._budgets: dict[str, int] = {}
        if not isinstance(call, float | int | str | Unset | None):
            self._budgets = {
                tool: milliseconds(f"call of {tool or 'any tool'}", span) for tool, span in call.items()
            }
            call = call.get("", UNSET)
        spans = (idle, first, stall, call, ceiling, timeout, soft, ask, grace)
        self._given: dict[str, int | str] = {
            name: milliseconds(name, span)
            for name, span in zip(_SPANS, spans, strict=True)
            if not isinstance(span, Unset)
        }
        if not isinstance(loop, Unset):
            self._given["loop"] = _count(loop)
        if not isinstance(idle_action, Unset):
            if idle_action not in _ACTIONS:
                raise UsageError(f"idle_action {idle_action!r}: write one of {', '.join(_ACTIONS)}")
            self._given["idle_action"] = idle_action

    def resolve(
        self, environ: "Mapping[str, str]" = os.environ, user: str = "run", told: "Told | None" = None
    ) -> Resolved:
        """Return what holds for a run (or, `user` being "guard", a stream) that begins now; `told` is what a file says.

        Given fields, then variables, then the file, then built-ins.
        """
        known = {option.name: option for option in options_for(user)}
        fields = {name: _OPTION.get(name, name) for name in (*_SPANS, "loop", "idle_action")}
        wanted = {known[o].variable for name, o in fields.items() if o in known and name not in self._given}
        values = from_environment(
            {name: text for name, text in environ.items() if name in wanted}, user, told
        )

        def find(name: str) -> "Any":
            option = fields[name]
            return self._given.get(name, values.get(option) if option in known else _UNKNOWN.get(name, 0))

        found = {name: find(name) for name in _SPANS if name != "grace"}
        budgets = self._budgets
        if isinstance(found["call"], dict):
            # Of a run, by tool; nobody named the built-in, and a library's run that nobody observes has no calls.
            named = found["call"] if values.source("call") != DEFAULT else {}
            budgets, found["call"] = {**named, **self._budgets}, named.get("", 0)
        derived = user == "guard" and found["soft"] is None
        if derived:
            found["soft"] = wrap_up(found["ceiling"])
        said = {"idle": find("idle_action"), **(told["action"][0] if told and "action" in told else {})}
        steps = {**_STEPS, **{name: NOTIFY if step == NUDGE else step for name, step in said.items()}}
        specs = {
            name: LimitSpec(
                span, steps.get(name, STOP), budgets if name == "call" else None,
                derived=derived and name == "soft",
            )
            for name, span in found.items() if span > 0 or (name == "call" and any(budgets.values()))
        }  # fmt: skip
        by_others = {
            name for name, option in fields.items() if option in known and values.source(option) != DEFAULT
        }
        chosen = frozenset((*self._given, *by_others, *(("call",) if self._budgets else ())))
        return Resolved(specs, find("grace"), values.warnings, find("loop"), chosen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        shown: dict[str, object] = {name: _shown(value) for name, value in self._given.items()}
        if self._budgets:
            shown["call"] = {tool: _shown(span) for tool, span in self._budgets.items()}
        if "loop" in shown:
            shown["loop"] = self._given["loop"]
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _all(self) -> "frozenset[tuple[str, str, int | str]]":
        given = ((name, "", value) for name, value in self._given.items())
        return frozenset((*given, *(("call", tool, span) for tool, span in self._budgets.items())))


def milliseconds(name: str, span: Span) -> int:
    """Return a span of the library in ms; 0 for everything that means off. Raises UsageError for a wrong text."""
    if span is None:
        return 0
    if isinstance(span, str):
        try:
            return parse_duration(span)
        except UsageError as error:
            raise UsageError(f"{name} {error}") from error
    if not math.isfinite(span) or span <= 0:
        return 0
    return max(1, round(min(span, _FOREVER) * 1000))


def wrap_up(ceiling: int) -> int:
    """Return when a turn under a ceiling (ms) is told to wrap up: 40 of 45 minutes; 0 where there is no time for it."""
    if ceiling <= _TOO_SHORT:
        return 0
    return ceiling - min(max(round(ceiling * _RESERVE), _RESERVE_LEAST), _RESERVE_MOST)


def _count(loop: int | None) -> int:
    if not loop or loop < 0:
        return 0
    if loop == 1:
        raise UsageError("loop 1: one call is no repetition; write a number from 2 on, or 0")
    return loop


def _shown(value: int | str) -> str:
    if isinstance(value, str):
        return value
    return format_duration(value) if value else "off"


__all__ = ["UNSET", "Limits", "Resolved", "Unset", "milliseconds"]
