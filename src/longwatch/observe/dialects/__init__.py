"""The languages in which agents write down what they do; others plug in by the entry point `longwatch.dialects`.

An entry point names a `Dialect` object. Nothing here is loaded before it is asked for.
"""

import importlib
from importlib import metadata

from longwatch.errors import UsageError
from longwatch.observe.dialects.base import DATABASE_HEAD, Dialect
from longwatch.observe.dialects.loose import decode
from longwatch.observe.lines import Splitter, mended
from longwatch.units import nearest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUP = "longwatch.dialects"
#: In the order in which a file is tried: the unmistakable ones first, those that look like others last.
BUILT_IN = ("codex", "copilot", "opencode", "pi", "gemini", "qwen", "claude")
#: How many records a file is known by.
ENOUGH = 50


def names() -> list[str]:
    """Return the names of all dialects: our own in their order, then the plug-ins."""
    others = sorted({point.name for point in metadata.entry_points(group=GROUP)} - {*BUILT_IN, "generic"})
    return [*BUILT_IN, *others, "generic"]


def load(name: str) -> Dialect:
    """Return a dialect by its name. Raises UsageError for an unknown name, or a plug-in that does not load."""
    if name in BUILT_IN or name == "generic":
        found = importlib.import_module(f"{__name__}.{name}").DIALECT
        return _checked(name, found)
    for point in metadata.entry_points(group=GROUP):
        if point.name == name:
            try:
                return _checked(name, point.load())
            except Exception as error:
                raise UsageError(
                    f"dialect {shown(name)}: the plug-in {point.value} does not load: {error}"
                ) from error
    guess = nearest(name, names())
    hint = f"did you mean {guess}?" if guess else f"dialects are {', '.join(names())}"
    raise UsageError(f"{shown(name)}: no such dialect; {hint}")


def detect(head: bytes) -> tuple[Dialect, str] | None:
    """Return the dialect of a file, and whether it is a file of the agent's, its output or its database.

    `head` is how the file begins, some 256 KiB of it. None where no dialect knows it.
    """
    if head.startswith(DATABASE_HEAD):
        return load("opencode"), "db"
    records = _records(head)
    if not records:
        return None
    for name in names():
        dialect = load(name)
        if source := dialect.recognise(records):
            return dialect, source
    return None


def _records(head: bytes) -> "list[dict[str, Any]]":
    splitter = Splitter()
    lines = [line for _, line in splitter.places(head)]
    if len(lines) < ENOUGH and splitter.rest:
        lines.append(mended(splitter.rest))
    found = (decode(line) for line in lines[:ENOUGH])
    return [value for value in found if isinstance(value, dict)]


def _checked(name: str, found: object) -> Dialect:
    if not isinstance(found, Dialect):
        raise UsageError(
            f"dialect {shown(name)}: its entry point names no Dialect; see docs/reference/dialects.md"
        )
    return found


__all__ = ["BUILT_IN", "Dialect", "detect", "load", "names"]
