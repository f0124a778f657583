"""Words and tables for humans, JSON for programs; the ends that the verbs share.

What came from a supervised program (names, diagnoses) may hold control characters: `clean` makes them harmless.
"""

import datetime as dt
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click
from click.exceptions import Exit

from longwatch.errors import UnitError, UsageError
from longwatch.store.queries import ManyRunsError, NoSuchRunError
from longwatch.units import ago, format_duration, parse_duration

SCHEMA = 1
FAILED, USAGE, UNKNOWN = 1, 2, 4
#: Reasons that are the name of one of our limits: we stopped the run.
LIMITS = ("idle", "first", "stalled", "call", "ceiling", "timeout", "effect", "asked", "looping", "lingered")


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


def refuse(error: NoSuchRunError | ManyRunsError) -> NoReturn:
    """End as a verb ends whose NAME or RUN means no run (4), or several (2)."""
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
    """Return what ended a run, in words: its cause, never guessed from an exit status."""
    reason = summary.get("termination_reason")
    if reason == "exited":
        code = summary.get("exit_code")
        return f"failed by itself with exit status {code}" if code else "exited 0"
    if reason == "signaled":
        return f"died of {clean(summary.get('signal'))}, which longwatch did not send"
    if reason in LIMITS:
        return f"stopped by longwatch: {_limit(reason, summary)}"
    if reason is None and summary.get("outcome") is not None:
        return _no_end(summary)
    return _other_ends(summary).get(str(reason), f"ended: {clean(reason)}")


def _limit(reason: str, summary: Mapping[str, Any]) -> str:
    limit = summary.get("limit")
    found = limit if isinstance(limit, dict) else {}
    text = f"its {clean(found.get('name') or reason)} limit"
    if isinstance(found.get("window_ms"), int):
        text += f" of {format_duration(found['window_ms'])} was reached"
    if found.get("subject"):
        text += f" by {clean(found['subject'])}"
    if reason == "stalled":
        return f"{text}: no call went well for so long"
    if reason in ("idle", "first") and isinstance(summary.get("idle_ms"), int):
        source = found.get("source")
        text += f", silent for {format_duration(summary['idle_ms'])}"
        text += f" since {clean(source)} moved" if source else ", nothing ever moved"
    return text


def _no_end(summary: Mapping[str, Any]) -> str:
    """Return what is on record of a run that has not ended, or of a firing that became none."""
    if summary.get("outcome") == "running":
        trigger = summary.get("trigger")
        return f"started by {clean(trigger)}, not over on record" if trigger else "not over on record"
    why, count = summary.get("why"), summary.get("count")
    times = f", {count} times" if isinstance(count, int) and count > 1 else ""
    return f"not started{times}" + (f": {clean(why)}" if why else "")


def _other_ends(summary: Mapping[str, Any]) -> dict[str, str]:
    origin = summary.get("origin")
    asked = {"explicit": "by hand", "cascade": "along with its parent"}.get(
        str(origin), clean(origin or "by hand")
    )
    diagnosis = summary.get("diagnosis")
    return {
        "cancelled": f"stopped on request ({asked})",
        "interrupted": clean(diagnosis) if diagnosis else "stopped: a signal reached longwatch",
        "spawn_failed": "could not be started",
        "unknown": "ended; how could not be found out",
    }
