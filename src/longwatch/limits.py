"""`Limits`: how patient a run is, in the words of the table of limits.

Spans are seconds as numbers, or texts such as "5m" and "1h30m". A field that is left out has its user's default:
for `idle` what LONGWATCH_IDLE says, else 300 s, and it stops. 0, None, "off", negative and non-finite numbers
switch a limit off.
"""

import math
import os

from longwatch.core.spec import ACTIONS, NOTIFY, STOP, LimitSpec
from longwatch.errors import UsageError
from longwatch.options import from_environment
from longwatch.units import format_duration, parse_duration

Span = float | int | str | None
#: Beyond a century a limit is none; it also keeps huge numbers out of timers.
_FOREVER = 100 * 365 * 24 * 3600


class Unset:
    """The value of a field that was not given: distinct from None and from 0, which switch off."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class Limits:
    """The limits of one run of a program.

    idle         no progress: stops (or what `idle_action` names); default 300 s or LONGWATCH_IDLE
    first        no first progress since the start: stops; off
    ceiling      in all, moved by the provider's pauses: stops; off
    timeout      in all, moved by nothing: stops; off
    soft         in all: marks the run resumable, never stops; off
    idle_action  the highest rung of `idle`: "stop", "notify" or "none"
    grace        from TERM to KILL; default 10 s

    Raises UsageError for a text that is no duration or an action that is none. Not raised for a refused variable:
    that warns once and leaves the built-in.
    """

    __slots__ = ("ceiling", "first", "grace", "idle", "idle_action", "soft", "timeout")

    def __init__(
        self,
        *,
        idle: Span | Unset = UNSET,
        first: Span = None,
        ceiling: Span = None,
        timeout: Span = None,
        soft: Span = None,
        idle_action: str = STOP,
        grace: Span = 10,
    ) -> None:
        self.idle = idle if isinstance(idle, Unset) else milliseconds("idle", idle)
        self.first = milliseconds("first", first)
        self.ceiling = milliseconds("ceiling", ceiling)
        self.timeout = milliseconds("timeout", timeout)
        self.soft = milliseconds("soft", soft)
        if idle_action not in ACTIONS:
            raise UsageError(f"idle_action {idle_action!r}: write one of {', '.join(ACTIONS)}")
        self.idle_action = idle_action
        self.grace = milliseconds("grace", grace)

    def specs(self) -> "tuple[dict[str, LimitSpec], list[str]]":
        """Return the limits that are on, for a watch, and the warnings about variables that were refused."""
        warnings: list[str] = []
        idle = self.idle
        if isinstance(idle, Unset):
            values = from_environment(os.environ)
            idle = values.idle
            warnings = values.warnings
        found = {
            "idle": LimitSpec(idle, self.idle_action),
            "first": LimitSpec(self.first),
            "ceiling": LimitSpec(self.ceiling),
            "timeout": LimitSpec(self.timeout),
            "soft": LimitSpec(self.soft, NOTIFY),
        }
        return {name: spec for name, spec in found.items() if spec.window > 0}, warnings

    def __repr__(self) -> str:
        given = [f"{name}={self._shown(name)}" for name in self.__slots__ if getattr(self, name)]
        return f"Limits({', '.join(given)})"

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        return format_duration(value) if isinstance(value, int) else repr(value)


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


__all__ = ["UNSET", "Limits", "milliseconds"]
