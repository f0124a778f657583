"""Words and tables for humans, JSON for programs; the ends that the verbs share.

What came from a supervised program (names, diagnoses) may hold control characters: `clean` makes them harmless.
"""

import datetime as dt
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.exceptions import Exit

from longwatch.errors import UnitError, UsageError
from longwatch.how import in_full
from longwatch.units import ago, format_duration, parse_duration

if TYPE_CHECKING:
    from longwatch.store.queries import ManyRunsError, NoSuchRunError

SCHEMA = 1
FAILED, USAGE, UNKNOWN = 1, 2, 4


def emit(answer: Mapping[str, Any]) -> None:
    """Print one answer as a line of JSON; `schema` comes first."""
    click.echo(json.dumps({"schema": SCHEMA, **answer}))


def note(text: str) -> None:
    """Say something on stderr that is no failure."""
    click.echo(f"longwatch: {text}", err=True)


def fail(text: str, status: int = FAILED) -> NoReturn:
    """Say one line on stderr and end with this status."""
    note(text)
    raise Exit(status)


def refuse(error: "NoSuchRunError | ManyRunsError") -> NoReturn:
    """End as a verb ends whose NAME or RUN means no run (4), or several (2)."""
    from longwatch.store.queries import NoSuchRunError  # noqa: PLC0415 - most verbs open no database

    fail(str(error), UNKNOWN if isinstance(error, NoSuchRunError) else USAGE)


def duration(flag: str, text: str | None) -> int | None:
    """Return the ms of a flag's value; None when it was not given. Raises UsageError naming the flag."""
    try:
        return None if text is None else parse_duration(text)
    except UnitError as error:
        raise UsageError(f"{flag} {error}") from error


def clean(text: object) -> str:
    """Return a text on one line, without control characters: a process may call itself whatever it likes."""
    text = str(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def paint(text: str, colour: str) -> str:
    """Colour a text if somebody sees it and does not object (NO_COLOR)."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return click.style(text, fg=colour)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under their heads, in columns as wide as needed; the last one has no end."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(click.unstyle(line[i])) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(map(_padded, line, widths)).rstrip() for line in lines)


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - len(click.unstyle(cell)))


def since(ms: int | None, never: str = "never") -> str:
    """Return `3s ago`, or the word for what never happened."""
    return never if ms is None else f"{ago(ms)} ago"


def instant(text: object) -> dt.datetime | None:
    """Return the instant that an RFC 3339 text names; None for anything else."""
    try:
        return dt.datetime.fromisoformat(str(text)).astimezone()
    except ValueError:
        return None


def when(text: object, *, brief: bool = False) -> str:
    """Return an instant in local time, as short as it is clear: 14:03:05 today (14:03 in brief), else with its day."""
    moment = instant(text)
    if moment is None:
        return "?"
    today = dt.datetime.now().astimezone()
    if moment.date() == today.date():
        return moment.strftime("%H:%M" if brief else "%H:%M:%S")
    return moment.strftime("%b %d %H:%M" if moment.year == today.year else "%Y-%m-%d")


def span(ms: object) -> str:
    """Return a span of a report; a question mark for what is not known."""
    return format_duration(ms) if isinstance(ms, int) else "?"


def how_it_ended(summary: Mapping[str, Any]) -> str:
    """Return what ended a run, in words."""
    return clean(in_full(summary))
