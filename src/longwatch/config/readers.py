"""How the values of the file are read: what is common to all, spans, sizes and numbers (`words` has the rest).

A reader takes what TOML gave and returns what the program works with, or refuses in one line that begins with the
refused words. Options of the command line are read by the very readers of the command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from longwatch.config.variables import UnsetError, Variables
from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.option_kinds import READERS
from longwatch.option_table import OPTIONS
from longwatch.units import CENTURY, parse_duration, parse_size, shown

Read = TypeVar("Read")
#: The largest of whole numbers: beyond it is a typing error.
BILLION = 1_000_000_000
_RUN = {option.name: option for option in OPTIONS if "run" in option.verbs}


class Setting(Plain):
    """What the reading of a table needs: what `${NAME}` stands for, and the folder that relative paths begin in."""

    __slots__ = ("folder", "variables")

    def __init__(self, variables: Variables, folder: str) -> None:
        self.variables = variables
        self.folder = folder


class SeveralError(Exception):
    """More than one item of a list was refused; `refusals` has place and line of each."""

    def __init__(self, refusals: list[tuple[int, str]]) -> None:
        super().__init__(refusals)
        self.refusals = refusals


def each(read: Callable[[Any, Any], Read], value: object, setting: Setting | None) -> tuple[Read, ...]:
    """Read one thing, or each of a list. Raises UsageError for an empty list, SeveralError for bad items."""
    if not isinstance(value, list):
        return (read(value, setting),)
    if not value:
        # A key that says nothing is a mistake.
        raise UsageError("[]: nothing in it; leave the key out")
    good: list[Read] = []
    bad: list[tuple[int, str]] = []
    for place, item in enumerate(value):
        try:
            good.append(read(item, setting))
        except (UsageError, UnsetError) as error:
            bad.append((place, str(error)))
    if bad:
        raise SeveralError(bad)
    return tuple(good)


def said(value: object) -> str:
    """Return a refused value as a line can carry it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    return shown(str(value))


def wanted(value: object, what: str, offer: str) -> UsageError:
    """Return the refusal of a value of the wrong kind."""
    return UsageError(f"{said(value)}: no {what}; write {offer}")


# -- spans, sizes, numbers


def _with_unit(value: object, what: str, offers: tuple[str, str], parse: Callable[[str], int]) -> int:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wanted(value, what, f'"{offers[0]}", or "off" for no limit')
    if value == 0:
        return 0
    if math.isfinite(value) and value > 0:
        units = [offer.lstrip("0123456789") for offer in offers]
        raise UsageError(
            f'{value}: a bare number is no {what}; write "{value}{units[0]}" or "{value}{units[1]}"'
        )
    return parse(str(value))


def read_span(value: object, _: Setting | None = None) -> int:
    """Read a duration in ms; 0 is off."""
    return _with_unit(value, "duration", ("5s", "5m"), parse_duration)


def between(least: int, most: int, words: str) -> Callable[[object, Setting], int]:
    """Return a reader of durations within bounds that `words` name."""

    def read(value: object, _: Setting) -> int:
        span = read_span(value)
        if not least <= span <= most:
            raise UsageError(f"{said(value)}: {words}")
        return span

    return read


def read_size(value: object, _: Setting) -> int:
    """Read a size in bytes; 0 is off."""
    return _with_unit(value, "size", ("64KiB", "64MiB"), parse_size)


def size_between(least: int, most: int, words: str) -> Callable[[object, Setting], int]:
    """Return a reader of sizes within bounds that `words` name."""

    def read(value: object, setting: Setting) -> int:
        size = read_size(value, setting)
        if not least <= size <= most:
            raise UsageError(f"{said(value)}: {words}")
        return size

    return read


def whole(least: int, most: int = BILLION) -> Callable[[object, Setting], int]:
    """Return a reader of whole numbers."""

    def read(value: object, _: Setting) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bounds = f"from {least} on" if most >= BILLION else f"from {least} to {most}"
            raise wanted(value, "such number", f"a whole one {bounds}")
        return value

    return read


def read_money(value: object, _: Setting) -> float:
    """Read dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise wanted(value, "amount of money", "dollars as a number, such as 5 or 0.50")
    return float(value)


def read_count(value: object, _: Setting) -> object:
    """Read a number of equal things in a row; 0 is off."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise wanted(value, "count", 'a number from 2 on, or "off"')
    return 0 if value == 0 else READERS["count"](_RUN["loop"], str(value))


def read_rate(value: object, _: Setting) -> int:
    """Read how many a minute."""
    found = re.fullmatch(r"([0-9]{1,6}) */ *min(ute)?", value.strip()) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise wanted(value, "rate", '"60/min"')
    return int(found[1])


def read_catch_up(value: object, setting: Setting) -> int:
    """Read how late is not too late; `true` is however late."""
    if isinstance(value, bool):
        return CENTURY if value else 0
    return read_span(value, setting)
