"""Where each value of a harness comes from, in the words that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longwatch.config import model
from longwatch.config.harnesses import Made
from longwatch.config.limits import action_key, key_of
from longwatch.config.sources import BUILT_IN
from longwatch.core.harness import Harness
from longwatch.core.limits import NAMES
from longwatch.core.record import Plain
from longwatch.preset_table import PRESETS
from longwatch.units import format_duration


class Value(Plain):
    """A key with its value as it is written, who set it, the built-in in words, and why that is so."""

    __slots__ = ("built_in", "key", "source", "value", "why")

    def __init__(self, key: str, value: str, source: str, built_in: str, why: str) -> None:
        self.key = key
        self.value = value
        self.source = source
        self.built_in = built_in
        self.why = why


def values(made: Made, harness: Harness) -> Iterator[Value]:
    """Return all keys that may stand on this kind of harness, in the order of the reference."""
    lent = dict(_lent(harness))
    for key, field in model.Harness.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        on = extra["x-on"]
        assert isinstance(on, list)
        if harness.kind not in on:
            continue
        built_in, why = str(extra["x-built-in"]), str(extra["x-why"])
        if made.settings.has(key):
            yield Value(key, written(key, made.settings.raw(key)), made.settings.setter(key), built_in, why)
        elif key in lent:
            source = harness.setters.get(key, f"preset {harness.preset}")
            yield Value(key, lent[key], source, built_in, _why(harness, key) or why)
        else:
            yield Value(key, _applies(harness, key) or built_in, BUILT_IN, built_in, why)


def _lent(harness: Harness) -> Iterator[tuple[str, str]]:
    """Return what a preset set."""
    for name in NAMES:
        if harness.setters.get(key_of(name), "").startswith("preset "):
            yield key_of(name), format_duration(harness.limits[name].window)
    call = harness.limits.get("call")
    tools = [key.removeprefix("calls.") for key in harness.setters if key.startswith("calls.")]
    if call is not None and tools:
        yield "calls", ", ".join(f"{tool} = {format_duration(call.budgets[tool])}" for tool in tools)


def _why(harness: Harness, key: str) -> str:
    preset = next((preset for preset in PRESETS if preset.name == harness.preset), None)
    setting = None if preset is None else preset.call.get("") if key == "call" else preset.limits.get(key)
    return "" if setting is None else setting.why


def _applies(harness: Harness, key: str) -> str:
    """Return the value of a built-in that depends on the rest of the table."""
    limit = next((name for name in NAMES if action_key(name) == key), None)
    if key == "timeout":
        found = harness.limits.get("timeout")
        return format_duration(found.window) if found else "off"
    if limit is not None and limit in harness.limits:
        return harness.limits[limit].action
    return " ".join(harness.command) if key == "command" else ""


def written(key: str, value: object) -> str:
    """Return a value as it stands in the file, nothing filled in; of variables only the names."""
    if key == "env" and isinstance(value, Mapping):
        return ", ".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {written('', item)}" for name, item in value.items())
    if isinstance(value, list):
        tables = (item.get("name", "?") if isinstance(item, Mapping) else written("", item) for item in value)
        return ", ".join(str(item) for item in tables)
    return str(value)
