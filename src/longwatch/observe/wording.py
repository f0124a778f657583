"""What providers say in words: which limit is meant, and when it ends.

Read only in records that report an error. Agents read logs and write about limits, so words in a tool's output or in
the model's text mean nothing. The wording changes from release to release: the patterns are data, each with its class.
"""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from longwatch.resets import Reset
from longwatch.resets import span as read

#: No provider has a longer window than a week; further away it is a misread date.
FURTHEST = timedelta(days=8)
#: A clock time that was so lately is over, and does not mean tomorrow's.
LATELY = timedelta(hours=1)
#: A clock time has no seconds, so it names the minute in which the limit ends: whoever comes at its beginning is early.
MINUTE = timedelta(minutes=1)
#: Transient, whatever else they mention; then by class. The first that matches is meant.
_CLASSES = tuple(
    (cls, re.compile(pattern, re.IGNORECASE))
    for cls, pattern in (
        ("overload", r"not your usage limit|overloaded|temporarily limiting|high demand"),
        (
            "money",
            r"credit balance|out of (usage )?credits|spend(ing)? (cap|limit)|insufficient[_ ]quota|billing_error",
        ),
        (
            "usage",
            r"(hit|reached|exceeded|exhausted) your ([\w-]+ )*(limit|quota)|usage[_ ]limit|limit reached\|",
        ),
        ("rate", r"rate[_ -]?limit|too many requests|\b429\b"),
        ("auth", r"authentication|unauthorized|invalid (x-)?api[- ]key|\b40[13]\b"),
        ("context", r"prompt is too long|context[_ ](length|limit|window)|max_output_tokens"),
        ("overload", r"\b(529|503|500)\b|server_error"),
    )
)
_EPOCH = re.compile(r"limit reached\|(\d{9,14})")
_RELATIVE = re.compile(
    r"(?:again|resets?|retry|retrying|wait)\s+(?:in|after)\s+(\d[^;()]{0,60})", re.IGNORECASE
)
_SPAN = re.compile(
    r"(?:and\s+)?(\d{1,9}(?:\.\d{1,9})?)\s*(ms|[smhd])(?:ec|in|ou|ay|r)?[a-z]*[\s,]*", re.IGNORECASE
)
_ABSOLUTE = re.compile(
    r"(?:resets?|try again|again|until)\s+(?:at\s+|on\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?"
    r"(?:\s+(?P<year>\d{4}))?,?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\b)?"
    r"(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SPEAKS = re.compile(r"\bresets?\b|try again|retry", re.IGNORECASE)


def limit_class(text: str, status: int | None = None) -> str:
    """Return which limit an error names: usage, rate, money, auth; overload for a transient one; "" for none."""
    for cls, pattern in _CLASSES:
        if pattern.search(text):
            return "rate" if cls == "overload" and status == 429 and "not your" not in text else cls
    return {429: "rate", 401: "auth", 403: "auth", 402: "money"}.get(status or 0, "")


def reset(text: str, wall: float) -> Reset:
    """Return when a limit ends by what its text says; `wall` is when that was written, in seconds since 1970.

    Raises nothing. What cannot be read, or is over, gives no span and a note; a text that says nothing of an end gives
    neither.
    """
    if found := _EPOCH.search(text):
        return read(found[1], wall)
    if (found := _RELATIVE.search(text)) and (seconds := _seconds(found[1])):
        return read(seconds, wall)
    if found := _ABSOLUTE.search(text):
        return _until(found, wall)
    said = _SPEAKS.search(text)
    return _unread(" ".join(text[said.start() :].split()[:4])) if said else Reset()


def _until(found: re.Match[str], wall: float) -> Reset:
    words = " ".join(found[0].split())
    try:
        moment, zoned = _moment(found, datetime.fromtimestamp(wall, UTC))
        span = (moment + MINUTE).timestamp() - wall
    except (ValueError, KeyError, OSError, OverflowError):
        return _unread(words)
    if span <= 0:
        return Reset(note=f'reset "{words}" is over, so the usual backoff holds')
    if span > FURTHEST.total_seconds():
        return Reset(note=f'reset "{words}" is too far away to be meant, so the usual backoff holds')
    return Reset(
        round(span * 1000), "" if zoned else f'reset "{words}" names no zone and is taken as local time'
    )


def _unread(words: str) -> Reset:
    return Reset(note=f'reset "{words}" cannot be read, so the usual backoff holds')


def _seconds(words: str) -> float:
    """Return the seconds of spans at the beginning of a text: 2 days 3 hours, 5m30s, 1h and 2 minutes."""
    total, at = 0.0, 0
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    while part := _SPAN.match(words, at):
        total += float(part[1]) * units[part[2].lower()]
        at = part.end()
    return total


def _moment(found: re.Match[str], now: datetime) -> tuple[datetime, bool]:
    """Return the instant that a clock time means, and whether its zone was named. Raises ValueError or KeyError."""
    zone = ZoneInfo(found["zone"]) if found["zone"] else None
    here = now.astimezone(zone)
    month = _MONTHS.index(found["month"][:3].lower()) + 1 if found["month"] else here.month
    day = (int(found["year"] or here.year), month, int(found["day"] or here.day))
    moment = datetime(*day, _hour(found), int(found["minute"] or 0), tzinfo=zone or UTC)
    if zone is None:
        moment = moment.replace(tzinfo=None).astimezone()
    if moment < now - LATELY:
        if not found["month"]:
            moment += timedelta(days=1)
        elif not found["year"] and moment < now - FURTHEST:
            moment = moment.replace(year=moment.year + 1)  # written in December
    return moment, zone is not None


def _hour(found: re.Match[str]) -> int:
    """Return the hour of the day. Raises ValueError where morning and evening are not told apart."""
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        return hour % 12 + (12 if half[0] == "p" else 0)
    if found["minute"] is None or 1 <= hour <= 12:
        raise ValueError(hour)
    return hour
