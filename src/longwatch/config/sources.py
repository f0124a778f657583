"""Who set a value: the line of the file, a preset, or nobody (built-in)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from longwatch.config.places import Path, Places

BUILT_IN = "built-in"
#: Tables whose entries are joined with those of `[defaults]`; of all others the harness's own stands alone.
_JOINED = ("env", "calls")


class Told:
    """A table as it stands in the file, and its good values."""

    def __init__(self, raw: Mapping[str, object], values: dict[str, Any]) -> None:
        self.raw = raw
        self.values = values


class Settings:
    """The values of one harness: its own, else those of `[defaults]`; each knows its line.

    `given` are the keys of its own table as they stand there, also those whose value was refused.
    """

    def __init__(self, name: str, own: Told, defaults: Told, file: str, places: Places) -> None:
        self.name = name
        self.given = frozenset(own.raw)
        self._raw = (own.raw, defaults.raw)
        self._own = own.values
        self._defaults = defaults.values
        self._file = os.path.basename(file)
        self._places = places

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return a value; `otherwise` where nobody set it."""
        if key in _JOINED:
            return {entry: value for layer in self.layers(key) for entry, value in layer.items()} or otherwise
        return self._own.get(key, self._defaults.get(key, otherwise))

    def layers(self, key: str) -> list[Any]:
        """Return the values of a key, that of `[defaults]` first."""
        return [layer[key] for layer in (self._defaults, self._own) if key in layer]

    def raw(self, key: str) -> object:
        """Return what stands in the file for a key."""
        return next((raw[key] for raw in self._raw if key in raw), None)

    def has(self, key: str) -> bool:
        """Whether somebody set it, rightly or wrongly."""
        return key in self.given or key in self._defaults

    def drop(self, keys: set[str]) -> None:
        """Let values go that can mean nothing here."""
        self._own = {key: value for key, value in self._own.items() if key not in keys}
        self._defaults = {key: value for key, value in self._defaults.items() if key not in keys}

    def path(self, key: str = "") -> Path:
        """Return the way to a key of its own table."""
        above: Path = ("harness", self.name)
        return (*above, key) if key else above

    def setter(self, key: str, *below: str) -> str:
        """Return who set a key: `longwatch.toml:12`. Only for one that is set."""
        for path in ((*self.path(key), *below), ("defaults", key, *below), self.path(key), ("defaults", key)):
            line = self._places.line(path)
            if line:
                return f"{self._file}:{line}"
        return self._file

    def setters(self) -> dict[str, str]:
        """Return who set each key that is set; `harness` is told by its other name."""
        return {
            "preset" if key == "harness" else key: self.setter(key) for key in {**self._defaults, **self._own}
        }
