"""The limits of one harness: those of the file, else of its preset, else the built-in ones."""

from __future__ import annotations

from collections.abc import Sequence

from longwatch import presets
from longwatch.config.sources import Settings
from longwatch.core.harness import RESIDENT, SCHEDULED_TIMEOUT
from longwatch.core.limits import NAMES
from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, NOTIFY, RESTART, STOP, LimitSpec
from longwatch.options import DEFAULT, PRESET, RUN_OPTIONS, Values
from longwatch.preset_table import Preset
from longwatch.units import format_duration

#: Who stalls, asks or changes nothing may be right: these tell, unless somebody says otherwise.
_TELL = ("stall", "ask", "effect", "soft")
#: What bounds a run that works, so that no fixed time has to.
_BOUNDS = ("idle", "first", "call", "ceiling")
CALL = 1 * HOUR


class Limited(Plain):
    """What limits come to. `revive` are those whose stop is followed by a new start, `note` says what bounds a run."""

    __slots__ = ("note", "revive", "setters", "specs")

    def __init__(
        self, specs: dict[str, LimitSpec], setters: dict[str, str], revive: tuple[str, ...], note: str
    ) -> None:
        self.specs = specs
        self.setters = setters
        self.revive = revive
        self.note = note


def key_of(limit: str) -> str:
    """Return the key of a limit in the file."""
    return "stall_timeout" if limit == "stall" else limit


def action_key(limit: str) -> str:
    """Return the key of a limit's step."""
    return f"{limit}_action"


def limits_of(settings: Settings, kind: str, preset: Preset | None, argv: Sequence[str]) -> Limited:
    """Return the limits of a harness; in the core's words, by the core's names."""
    values, lent = _values(settings, kind, preset, argv)
    found = _Found(settings, values, preset, gentle=bool(settings.get("pty")))
    specs = {name: found.spec(name) for name in NAMES if name != "call"}
    specs["call"] = found.call(lent)
    setters = found.setters(lent)
    note = ""
    if kind != RESIDENT:
        note = _bounded(settings, specs, setters)
    on = {name: spec for name, spec in specs.items() if spec.window > 0 or any(spec.budgets.values())}
    revive = tuple(name for name in on if settings.get(action_key(name)) == RESTART)
    return Limited(on, setters, revive, note)


def _values(
    settings: Settings, kind: str, preset: Preset | None, argv: Sequence[str]
) -> tuple[Values, tuple[str, ...]]:
    """Join file and preset by the very rules of `run`: what somebody named is never overruled by a preset."""
    values = Values(RUN_OPTIONS)
    for name in NAMES:
        key = key_of(name)
        if name != "call" and settings.get(key) is not None:
            values.put(name, settings.get(key), settings.setter(key))
    budgets = dict(settings.get("calls") or {})
    if settings.get("call") is not None:
        budgets[""] = settings.get("call")
    if budgets:
        values.put("call", budgets, settings.setter("call" if "" in budgets else "calls"))
    if preset is None:
        return values, ()
    lent = presets.lend(preset, values, argv)
    if kind == RESIDENT and not presets.is_headless(preset, argv) and values.source("linger") == PRESET:
        # A resident session goes on after each result.
        values.drop("linger")
    return values, lent


class _Found:
    def __init__(self, settings: Settings, values: Values, preset: Preset | None, *, gentle: bool) -> None:
        self._settings = settings
        self._values = values
        self._preset = preset
        # In a terminal of its own it may repaint for ever, or wait for a human who looks: what nobody named notifies.
        self._gentle = gentle

    def spec(self, name: str) -> LimitSpec:
        """Return a limit; its window is 0 where it is off."""
        source = self._values.source(name)
        window = 0 if source == DEFAULT else self._values.get(name)
        lent = source == PRESET
        step = NOTIFY if name in _TELL or (lent and self._gentle) else STOP
        sighted = lent and self._preset is not None and self._preset.dialect is not None
        return LimitSpec(window, self._step(name, step), sighted=sighted)

    def call(self, lent: tuple[str, ...]) -> LimitSpec:
        """Return the limit of calls: nobody named the built-in hour, so it only notifies."""
        budgets = {} if self._values.source("call") == DEFAULT else dict(self._values.call)
        named = "" in budgets and not (self._gentle and "" in lent)
        tools = tuple(tool for tool in lent if tool) if self._gentle else ()
        step = self._step("call", STOP if named else NOTIFY)
        budget_step = self._step("call", STOP)
        return LimitSpec(budgets.pop("", CALL), step, budgets, budget_action=budget_step, lent=tools)

    def _step(self, name: str, otherwise: str) -> str:
        told: str = self._settings.get(action_key(name), otherwise)
        return STOP if told == RESTART else told

    def setters(self, lent: tuple[str, ...]) -> dict[str, str]:
        """Return who set what the file does not say."""
        if self._preset is None:
            return {}
        who = f"{PRESET} {self._preset.name}"
        found = {key_of(name): who for name in NAMES if self._values.source(name) == PRESET}
        for tool in lent:
            found[f"calls.{tool}" if tool else "call"] = who
        return found


def _bounded(settings: Settings, specs: dict[str, LimitSpec], setters: dict[str, str]) -> str:
    """Give a run its fixed time where nothing else would ever end it; return which applies, for people."""
    told = settings.get("timeout") is not None
    window = specs["timeout"].window
    if told and window:
        return f"each run ends after {format_duration(window)} ({settings.setter('timeout')})"
    stopping = [name for name in _BOUNDS if specs[name].window and specs[name].action == STOP]
    if stopping:
        words = (
            f"{name} {format_duration(specs[name].window)} ({_who(settings, setters, name)})"
            for name in stopping
        )
        return f"each run is bounded by {', '.join(words)}"
    if told:
        return f"nothing ends a run by itself: timeout is off ({settings.setter('timeout')})"
    specs["timeout"] = LimitSpec(SCHEDULED_TIMEOUT, specs["timeout"].action)
    return f"each run ends after {format_duration(SCHEDULED_TIMEOUT)}, for nothing else bounds it (timeout, built-in)"


def _who(settings: Settings, setters: dict[str, str], name: str) -> str:
    return setters.get(name) or settings.setter(name)
