"""Schedules, hours of the day and time zones: read by the calendar of the daemon, with the nearest name in a refusal."""

from datetime import UTC
from zoneinfo import available_timezones

from longwatch.daemon import calendar
from longwatch.errors import UsageError
from longwatch.units import nearest, shown


def schedule_line(text: str) -> str:
    """Return a line of a schedule with single spaces: cron's five fields, a name, or `@every 10m`. Raises UsageError."""
    words = text.split()
    zoned = bool(words) and words[0].startswith(("TZ=", "CRON_TZ="))
    if zoned:
        zone(words[0].partition("=")[2])
    name = words[1] if zoned and len(words) > 1 else words[0] if words else ""
    if name.startswith("@") and name != "@every" and name not in calendar.NAMES:
        guess = nearest(name, (*calendar.NAMES, "@every"))
        if guess:
            raise UsageError(f"{shown(text)}: no such time; did you mean {guess}?")
    calendar.parse_schedule(text, UTC)
    return " ".join(words)


def zone(name: str) -> str:
    """Return the name of a time zone. Raises UsageError with the nearest."""
    try:
        calendar.zone(name)
    except UsageError:
        guess = nearest(name, available_timezones())
        if guess is None:
            raise
        raise UsageError(f"{shown(name)}: no such time zone; did you mean {guess}?") from None
    return name


def hours_line(text: str) -> str:
    """Return hours in one spelling: `mon,tue 09:00-17:00`, without days where all are meant. Raises UsageError."""
    window = calendar.parse_hours(text)
    every_day = len(window.days) == len(calendar.DAYS)
    days = "" if every_day else ",".join(calendar.DAYS[day] for day in window.days) + " "
    return f"{days}{_clock(window.begin)}-{_clock(window.end)}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
