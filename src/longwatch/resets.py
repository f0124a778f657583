"""When a provider's limit ends: every way of saying "later" becomes a span from now.

A retry-after is seconds or a date, a reset is an instant in seconds or milliseconds, and both arrive as numbers and as
texts. Whatever cannot be read gives no span and never an exception: the caller falls back to its own backoff.
"""

import math
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from longwatch.core.record import Plain
from longwatch.errors import UnitError
from longwatch.units import format_duration, parse_duration, shown

#: The longest window of any provider is a week, so a reset further away is a wrong unit or a wrong clock. Whoever
#: waits so long asks again then: a limit that still holds says so anew, at the price of one request.
MAXIMUM = 7 * 24 * 3600 * 1000
#: Nobody waits for 30 years, and no instant lies before September 2001: from here on a number is an instant ...
_EPOCH_S = 1e9
#: ... and from here on one in milliseconds, as seconds it would lie past the year 5000.
_EPOCH_MS = 1e11


class Reset(Plain):
    """What was read: `span` ms from now until the limit ends, or None for an own backoff.

    `note` says what the user should know of the reading in one line, or is empty: that the span was cut to the
    maximum, that its time named no zone and was taken as local, that it is over or could not be read.
    """

    __slots__ = ("note", "span")

    def __init__(self, span: int | None = None, note: str = "") -> None:
        self.span = span
        self.note = note


def span(value: object, wall: float) -> Reset:
    """Read a retry-after or a reset time; `wall` is the wall clock now, in seconds since 1970.

    Numbers and texts of numbers are seconds from now, or an instant where they are so large; texts may also be a span
    (`6m0s`), an HTTP date or an ISO 8601 time. None and an empty text say nothing, so nothing is noted.
    """
    if value is None or value == "":
        return Reset()
    words = _shown(value)
    seconds, note = _seconds(value, wall)
    if seconds is None:
        return Reset(note=f"reset {words} cannot be read, so the usual backoff holds")
    if seconds <= 0:
        return Reset(note=f"reset {words} is over, so the usual backoff holds")
    # Seconds since 1970 as a float are off by less than a microsecond, which must not become a millisecond.
    ms = max(1, math.ceil(seconds * 1000 - 0.001))
    if ms > MAXIMUM:
        return Reset(MAXIMUM, f"reset {words} is too far away; asked again in {format_duration(MAXIMUM)}")
    return Reset(ms, note and f"reset {words} {note}")


def _shown(value: object) -> str:
    if isinstance(value, str | float | datetime):
        return shown(str(value))
    # A number of thousands of digits refuses to be written out.
    return (
        str(value)
        if isinstance(value, int) and abs(value) < 10**40
        else f"of the kind {type(value).__name__}"
    )


def _seconds(value: object, wall: float) -> tuple[float | None, str]:
    """Return the seconds from now, or None; and what there is to say of how they were read."""
    if isinstance(value, datetime):
        return _until(value, wall)
    if isinstance(value, str):
        return _text(value.strip(), wall)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, wall), ""
    return None, ""


def _text(words: str, wall: float) -> tuple[float | None, str]:
    with suppress(ValueError):
        return _number(float(words), wall), ""
    with suppress(UnitError):
        return parse_duration(words, clamp=True) / 1000, ""
    return _date(words, wall)


def _number(value: float, wall: float) -> float | None:
    with suppress(OverflowError):  # an integer beyond all floats
        value = float(value)
        if value < _EPOCH_S:
            return value if math.isfinite(value) else None
        if math.isfinite(value):
            return value / (1000 if value >= _EPOCH_MS else 1) - wall
    return None


def _date(words: str, wall: float) -> tuple[float | None, str]:
    with suppress(ValueError):
        return _until(datetime.fromisoformat(words), wall)
    # The reader of dates takes nearly everything for one; all forms of HTTP begin with the day and name a clock time.
    if words[:3].title() not in _DAYS or ":" not in words:
        return None, ""
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        date = parsedate_to_datetime(words)
        # The one form of HTTP that names no zone is in GMT as well.
        return _until(date if date.tzinfo else date.replace(tzinfo=UTC), wall)
    return None, ""


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _until(date: datetime, wall: float) -> tuple[float | None, str]:
    with suppress(ValueError, OverflowError, OSError):
        return date.timestamp() - wall, "" if date.tzinfo else "names no zone and is taken as local time"
    return None, ""
