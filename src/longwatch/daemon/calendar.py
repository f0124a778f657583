"""The calendar of a harness: when its schedule is due and when its hours begin and end, in its time zone.

A time of day that the spring leaves out means the first moment after the gap, one that comes twice in autumn its
first pass; what steps through the hours (`*/15 * * * *`) goes by real time, and so does `@every`, whose windows are
multiples of its span since 1970. All instants are wall time in ms since 1970, the same that everybody else counts in.
"""

import os
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longwatch.core.admission import Standing
from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE, SECOND
from longwatch.errors import UsageError
from longwatch.units import parse_duration, shown

try:
    import cronsim
except ImportError:  # an extra that only schedules need
    cronsim = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

DAY = 24 * HOUR
NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WHOLE = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PREFIXES = ("TZ=", "CRON_TZ=")
#: No look lists more windows than this; of a longer absence the first ones are listed, and the last.
LISTED = 1000
#: Spans in which the last window before an instant is looked for, the shortest first.
_BACK = (2 * MINUTE, HOUR, DAY, 32 * DAY, 367 * DAY, 50 * 366 * DAY)
#: Hours are known for so many days ahead.
_AHEAD = 9
_LOCALTIME = "/etc/localtime"


def zone(name: str) -> "tzinfo":
    """Return the time zone of this name; an empty one stands for the machine's own. Raises UsageError."""
    if not name:
        return _local()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"{shown(name)}: no such time zone; write one such as Europe/Berlin") from None


def _local() -> "tzinfo":
    """Return the machine's zone with its rules, and not only with its offset of today."""
    try:
        if name := os.environ.get("TZ", "").lstrip(":"):
            return ZoneInfo(name)
        with open(_LOCALTIME, "rb") as file:
            return ZoneInfo.from_file(file)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


class Every(Plain):
    """Windows at the multiples of a span in ms."""

    __slots__ = ("span",)

    def __init__(self, span: int) -> None:
        self.span = span

    def after(self, instant: int) -> "Iterator[int]":
        """Yield the windows after an instant, without end."""
        due = instant - instant % self.span
        while True:
            due += self.span
            yield due


class Cron:
    """Windows of a cron line in a time zone."""

    def __init__(self, line: str, where: "tzinfo") -> None:
        self.line = line
        self.where = where

    def after(self, instant: int) -> "Iterator[int]":
        """Yield the windows after an instant, each once; they end where none comes for 50 years."""
        last = instant
        # It is iterated over in local time, which says less than an instant where the clock goes back.
        for local in cronsim.CronSim(self.line, datetime.fromtimestamp(instant // SECOND, self.where)):
            due = int(local.timestamp()) * SECOND
            if due > last:
                last = due
                yield due


def parse_schedule(line: str, where: "tzinfo") -> Every | Cron:
    """Return the windows of `30 2 * * *`, `@daily` or `@every 30m`, each perhaps behind `TZ=Europe/Berlin`.

    Raises UsageError, one line with the reason.
    """
    words = line.split()
    if words and words[0].startswith(_PREFIXES):
        where = zone(words[0].partition("=")[2])
        words = words[1:]
    if words[:1] == ["@every"]:
        return _every(line, "".join(words[1:]))
    if words[:1] and words[0].startswith("@"):
        if len(words) > 1 or words[0] not in NAMES:
            names = ", ".join(NAMES)
            raise UsageError(f"{shown(line)}: no such time; names are {names} and @every 30m")
        words = NAMES[words[0]].split()
    return _cron(line, words, where)


def _every(line: str, span: str) -> Every:
    ms = parse_duration(span) if span else 0
    if ms < SECOND or ms % SECOND:
        raise UsageError(f"{shown(line)}: no span of a schedule; write whole seconds, as in @every 30m")
    return Every(ms)


def _cron(line: str, words: list[str], where: "tzinfo") -> Cron:
    if cronsim is None:
        raise UsageError(f"{shown(line)}: cron lines need the package cronsim; install longwatch[all]")
    if len(words) != 5:
        raise UsageError(
            f'{shown(line)}: no cron line; write five fields, minute first ("30 2 * * *"), or "@every 30m"'
        )
    try:
        found = Cron(" ".join(words), where)
        next(found.after(0))
    except cronsim.CronSimError as error:
        raise UsageError(f"{shown(line)}: no cron line: {str(error).lower()}") from None
    except StopIteration:
        raise UsageError(f"{shown(line)}: no cron line: it never comes due") from None
    return found


class Window(Plain):
    """Hours of some days of the week (Monday is 0): minutes of the day; one that ends before it begins, the day after."""

    __slots__ = ("begin", "days", "end")

    def __init__(self, days: tuple[int, ...], begin: int, end: int) -> None:
        self.days = days
        self.begin = begin
        self.end = end


def parse_hours(text: str) -> Window:
    """Return the window of `Mon-Fri 09:00-18:00`, `sat,sun 10:00-14:00` or `22:00-06:00`. Raises UsageError."""
    words = text.lower().split()
    begin, dash, end = words[-1].partition("-") if words else ("", "", "")
    minutes = [_minutes(text, clock) for clock in (begin, end)]
    if not dash or minutes[0] == minutes[1] or minutes[0] == 24 * 60:
        raise UsageError(f'{shown(text)}: no hours of a day; write "mon-fri 09:00-18:00"')
    named = [part for word in words[:-1] for part in word.split(",") if part]
    days = {day for part in named for day in _days(text, part)} if named else range(7)
    return Window(tuple(sorted(days)), *minutes)


def _minutes(text: str, clock: str) -> int:
    hour, _, minute = clock.partition(":")
    if hour.isdecimal() and minute.isdecimal() and len(minute) == 2 and int(minute) < 60:
        minutes = int(hour) * 60 + int(minute)
        if minutes <= 24 * 60:
            return minutes
    raise UsageError(f'{shown(text)}: no hours of a day; write "mon-fri 09:00-18:00"')


def _days(text: str, part: str) -> "Iterator[int]":
    first, dash, last = part.partition("-")
    begin = _day(text, first)
    end = _day(text, last) if dash else begin
    return ((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _day(text: str, name: str) -> int:
    for day, whole in enumerate(_WHOLE):
        if len(name) >= 3 and whole.startswith(name):
            return day
    raise UsageError(f"{shown(text)}: no such day: {shown(name)}; days are {', '.join(DAYS)}")


class Calendar:
    """When one harness is due, and when it may run. Raises UsageError where a line of it cannot be meant."""

    def __init__(
        self, schedule: "Sequence[str]" = (), hours: "Sequence[str]" = (), timezone: str = ""
    ) -> None:
        self.zone = zone(timezone)
        self._rules = [parse_schedule(line, self.zone) for line in schedule]
        self._windows = [parse_hours(text) for text in hours]
        self._known = (0, 0, Standing())

    # -- the schedule

    def next_due(self, after: int) -> int | None:
        """Return the first window after an instant; None where none comes any more."""
        firsts = (next(rule.after(after), None) for rule in self._rules)
        return min((due for due in firsts if due is not None), default=None)

    def between(self, after: int, until: int) -> list[int]:
        """Return the windows after one instant up to another, in their order; of very many the first ones and the last."""
        found: set[int] = set()
        for rule in self._rules:
            for count, due in enumerate(rule.after(after)):
                if due > until:
                    break
                if count >= LISTED:
                    found.add(_last(rule, until))
                    break
                found.add(due)
        return sorted(found)

    # -- the hours

    def standing(self, wall: int) -> Standing:
        """Return whether it is open, until when that holds, and which day it is there."""
        begin, end, known = self._known
        if not begin <= wall < end:
            today = datetime.fromtimestamp(wall // SECOND, self.zone).date()
            known = self._stands(wall, today)
            assert known.day_ends is not None
            end = min(known.day_ends, known.changes or known.day_ends)
            self._known = (wall, end, known)
        return known

    def next_change(self, wall: int) -> int | None:
        """Return when its hours begin or end next; None where it has none."""
        return self.standing(wall).changes

    def _stands(self, wall: int, today: date) -> Standing:
        ends = self._at(today, 24 * 60)
        if not self._windows:
            return Standing(today.isoformat(), ends)
        spans = _merged(
            (self._at(day, window.begin), self._at(day, window.end + 24 * 60 * (window.end < window.begin)))
            for day in (today + timedelta(days=ahead) for ahead in range(-1, _AHEAD))
            for window in self._windows
            if day.weekday() in window.days
        )
        inside = next((end for begin, end in spans if begin <= wall < end), None)
        later = min((begin for begin, _ in spans if begin > wall), default=None)
        changes = later if inside is None else inside
        return Standing(today.isoformat(), ends, open=inside is not None, changes=changes)

    def _at(self, day: date, minutes: int) -> int:
        """Return the instant of a time of a day; the first moment after the gap where the clock leaves it out."""
        local = datetime.combine(day, datetime.min.time(), self.zone) + timedelta(minutes=minutes)
        while _left_out(local):
            local += timedelta(minutes=1)
        return int(local.timestamp()) * SECOND


def _left_out(local: datetime) -> bool:
    there = local.astimezone(UTC).astimezone(local.tzinfo)
    return there.replace(tzinfo=None, fold=0) != local.replace(tzinfo=None, fold=0)


def _last(rule: Every | Cron, until: int) -> int:
    """Return the last window up to an instant, of a rule that has had some."""
    for span in _BACK:
        last = 0
        for due in rule.after(until - span):
            if due > until:
                break
            last = due
        if last:
            return last
    raise AssertionError("a rule that had windows has had a last one")


def _merged(spans: "Iterator[tuple[int, int]]") -> list[tuple[int, int]]:
    """Return spans that touch or overlap as one."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        elif begin < end:
            out.append((begin, end))
    return out
