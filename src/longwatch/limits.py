"""`Limits`: how patient a run is, in the words of the table of limits.

Spans are seconds as numbers, or texts such as "5m" and "1h30m". A field that is left out has its user's default:
what its variable says (LONGWATCH_IDLE, LONGWATCH_TIMEOUT, ...), else the built-in, and that stops.
"""

import math
import os

from longwatch.core.record import Plain
from longwatch.core.spec import NONE, NOTIFY, STOP, LimitSpec
from longwatch.errors import UsageError
from longwatch.option_table import OPTIONS
from longwatch.options import from_environment
from longwatch.units import format_duration, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
#: Each field, and the option whose variable and built-in it has when it is left out.
_FIELDS = {
    "idle": "idle",
    "first": "first",
    "ceiling": "ceiling",
    "timeout": "timeout",
    "soft": "soft",
    "idle_action": "idle-action",
    "grace": "kill-after",
}


class Resolved(Plain):
    """What limits come to in an environment: those that are on, the grace in ms, and what there is to complain of."""

    __slots__ = ("complaints", "grace", "specs")

    def __init__(self, specs: dict[str, LimitSpec], grace: int, complaints: list[str]) -> None:
        self.specs = specs
        self.grace = grace
        self.complaints = complaints


class Limits:
    """The limits of one run of a program. A span is in seconds, or a text such as "5m".

    idle         no progress: stops (or what `idle_action` says); built-in 300 s
    first        no first progress since the start: stops; off
    ceiling      in all, moved by the provider's pauses: stops; off
    timeout      in all, moved by nothing: stops; off
    soft         in all: marks the run resumable, never stops; off
    idle_action  the most that `idle` may do: "stop", "notify" (it is only noted in `rungs`) or "none"
    grace        from the first signal to KILL; built-in 10 s; 0, None: KILL follows at once

    A field that is left out is taken from its variable (LONGWATCH_IDLE; LONGWATCH_KILL_AFTER for `grace`), else it
    is the built-in. 0, None, "off", negative and non-finite numbers switch a limit off. Raises UsageError for a text
    that is no duration and for an action that is none; not for a variable that is wrong: that warns when the run
    begins, and leaves the built-in.
    """

    __module__ = "longwatch"
    __slots__ = ("_given",)

    def __init__(
        self,
        *,
        idle: Span | Unset = UNSET,
        first: Span | Unset = UNSET,
        ceiling: Span | Unset = UNSET,
        timeout: Span | Unset = UNSET,
        soft: Span | Unset = UNSET,
        idle_action: str | Unset = UNSET,
        grace: Span | Unset = UNSET,
    ) -> None:
        spans = {
            "idle": idle, "first": first, "ceiling": ceiling, "timeout": timeout, "soft": soft, "grace": grace,
        }  # fmt: skip
        self._given: dict[str, int | str] = {
            name: milliseconds(name, span) for name, span in spans.items() if not isinstance(span, Unset)
        }
        if not isinstance(idle_action, Unset):
            if idle_action not in _ACTIONS:
                raise UsageError(f"idle_action {idle_action!r}: write one of {', '.join(_ACTIONS)}")
            self._given["idle_action"] = idle_action

    def resolve(self, environ: "Mapping[str, str]" = os.environ) -> Resolved:
        """Return what holds for a run that begins now: given fields, then variables, then built-ins."""
        missing = {option for name, option in _FIELDS.items() if name not in self._given}
        variables = {option.variable for option in OPTIONS if option.name in missing}
        values = from_environment({name: text for name, text in environ.items() if name in variables})
        found = {name: self._given.get(name, values.get(option)) for name, option in _FIELDS.items()}
        action = found.pop("idle_action")
        grace = found.pop("grace")
        actions = {"idle": action, "soft": NOTIFY}
        specs = {name: LimitSpec(span, actions.get(name, STOP)) for name, span in found.items() if span > 0}
        return Resolved(specs, grace, values.warnings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self._given == other._given

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._given.items())))

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={_shown(value)!r}' for name, value in self._given.items())})"


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


def _shown(value: int | str) -> str:
    if isinstance(value, str):
        return value
    return format_duration(value) if value else "off"


__all__ = ["UNSET", "Limits", "Resolved", "milliseconds"]
