"""Reading what may be anything: JSON of programs that change from month to month.

Each function answers with the emptiest value of its kind where something else stands; none of them raises.
"""

import json

import msgspec

from longwatch.observe.lines import Cut, mended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: More of anything there is not.
_MANY = 10**15
_ANY = msgspec.json.Decoder()


def decode(line: bytes) -> object:
    """Return what a line of JSON says; None where it is none, or says null.

    Half a surrogate pair and broken UTF-8 are what cutting a text at a length leaves behind: the rest still counts. Of
    a line that was too long to keep, what can be closed of its beginning counts.
    """
    try:
        return _ANY.decode(line)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(
            mended(line[: line.seam]) if isinstance(line, Cut) else line.decode("utf-8", "replace")
        )
    except (ValueError, RecursionError):
        return None


def text(value: object) -> str:
    """Return a text; "" for anything else."""
    return value if isinstance(value, str) else ""


def table(value: object) -> "dict[str, Any]":
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> "Iterator[dict[str, Any]]":
    """Yield the objects of an array; none of anything else."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def number(value: object) -> int | None:
    """Return a whole number that is no flag; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MANY:
        return None
    return int(value)


def count(value: object) -> int:
    """Return how many; 0 for anything that is no number above 0."""
    if value.__class__ is int and 0 <= value < _MANY:
        return value
    return max(0, number(value) or 0)


def amount(value: object) -> float | None:
    """Return a sum of money; None for anything else, and for 0, which is also written where no price is known."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        return None
    return float(value)


def words(value: object) -> str:
    """Return the text of a content: a text, or blocks each with a text."""
    if isinstance(value, str):
        return value
    return "".join(text(block.get("text")) for block in tables(value))


def kind_of(value: object) -> str:
    """Return a record's own name of its type."""
    return text(table(value).get("type"))


def trailer(said: str, before: str) -> int | None:
    """Return the number behind the last mention of `before`: what a tool appends to the output of a command.

    Only the end of a text is the tool's own; all before it may be anything that the command printed.
    """
    _, found, behind = said[-2_000:].rpartition(before)
    digits = behind.split("\n", 1)[0].strip().rstrip(">.")
    return int(digits) if found and digits.lstrip("-").isdecimal() and len(digits) < 12 else None
