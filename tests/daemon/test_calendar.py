"""When schedules are due and hours begin and end: time zones, clock changes, and lines that cannot be meant."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.core.admission import Standing
from longwatch.core.spec import HOUR, MINUTE, SECOND
from longwatch.daemon import calendar as module
from longwatch.daemon.calendar import DAY, LISTED, Calendar, Every, Window, parse_hours, parse_schedule, zone
from longwatch.errors import UsageError

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
PLACE = "America/New_York"


@pytest.fixture(autouse=True)
def leak_check() -> None:
    """Look for no processes: a calendar starts none."""


def at(text: str, where: ZoneInfo = NEW_YORK) -> int:
    """Return the instant of `2025-03-09 02:30`, or of `... 01:30'`, the second time that the clock shows that."""
    local = datetime.strptime(text.rstrip("'"), "%Y-%m-%d %H:%M").replace(
        tzinfo=where, fold=int(text.endswith("'"))
    )
    return int(local.timestamp()) * SECOND


def shown(instant: int, where: ZoneInfo = NEW_YORK) -> str:
    local = datetime.fromtimestamp(instant // SECOND, where)
    return f"{local:%m-%d %H:%M}" + "'" * local.fold


def dues(line: str, after: str, until: str) -> list[str]:
    return [shown(due) for due in Calendar((line,), (), PLACE).between(at(after), at(until))]


# -- schedules


@pytest.mark.fault("L2")
@pytest.mark.capability("CAP-119")
@pytest.mark.parametrize(
    ("line", "after", "until", "expected"),
    [
        # The clock goes from 02:00 to 03:00.
        ("30 2 * * *", "2025-03-08 00:00", "2025-03-11 00:00", ["03-08 02:30", "03-09 03:00", "03-10 02:30"]),
        ("30 2 * * *", "2025-03-09 03:00", "2025-03-10 12:00", ["03-10 02:30"]),
        ("0,30 2,3 * * *", "2025-03-09 00:00", "2025-03-09 23:00", ["03-09 03:00", "03-09 03:30"]),
        ("*/30 * * * *", "2025-03-09 01:15", "2025-03-09 03:45", ["03-09 01:30", "03-09 03:00", "03-09 03:30"]),
        # It goes from 02:00 back to 01:00.
        ("30 1 * * *", "2025-11-01 00:00", "2025-11-04 00:00", ["11-01 01:30", "11-02 01:30", "11-03 01:30"]),
        ("30 1 * * *", "2025-11-02 01:30", "2025-11-03 12:00", ["11-03 01:30"]),
        ("30 1 * * *", "2025-11-02 01:10'", "2025-11-03 12:00", ["11-03 01:30"]),
        ("30 1 * * *", "2025-11-02 01:45'", "2025-11-03 12:00", ["11-03 01:30"]),
        (
            "*/30 * * * *", "2025-11-02 00:45", "2025-11-02 02:15",
            ["11-02 01:00", "11-02 01:30", "11-02 01:00'", "11-02 01:30'", "11-02 02:00"],
        ),
        ("@daily", "2025-03-08 12:00", "2025-03-10 12:00", ["03-09 00:00", "03-10 00:00"]),
        ("@hourly", "2025-06-01 12:00", "2025-06-01 14:30", ["06-01 13:00", "06-01 14:00"]),
        ("TZ=Europe/Berlin 0 9 * * 1-5", "2025-06-06 00:00", "2025-06-09 12:00", ["06-06 03:00", "06-09 03:00"]),
        ("CRON_TZ=UTC @monthly", "2025-06-01 00:00", "2025-07-02 00:00", ["06-30 20:00"]),
        ("0 0 29 2 *", "2025-01-01 00:00", "2030-01-01 00:00", ["02-29 00:00"]),
    ],
)  # fmt: skip
def test_due(line: str, after: str, until: str, expected: list[str]) -> None:
    """Once for each local day: in the gap at the first valid moment, in the overlap in the first pass."""
    assert dues(line, after, until) == expected


@pytest.mark.fault("L2")
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    st.sampled_from(("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 700),
)
def test_daily_is_once_a_day(name: str, hour: int, minute: int, day: int) -> None:
    """Whatever the zone and the time: one window for each day there, in order, whoever asks from where."""
    where = ZoneInfo(name)
    calendar = Calendar((f"{minute} {hour} * * *",), (), name)
    begin = int(datetime(2024, 6, 1, tzinfo=where).timestamp()) * SECOND + day * DAY
    found = calendar.between(begin, begin + 20 * DAY)
    days = [datetime.fromtimestamp(due // SECOND, where).date() for due in found]
    assert all(later - earlier == timedelta(days=1) for earlier, later in itertools.pairwise(days))
    assert len(found) in (19, 20, 21)
    for due in found:
        assert calendar.next_due(due - 1) == due
        assert due not in calendar.between(due, due + DAY // 2)


@pytest.mark.capability("CAP-119")
def test_every() -> None:
    """Windows at the multiples of the span: the same ones after a restart of the daemon and over clock changes."""
    calendar = Calendar(("@every 30m",), (), PLACE)
    assert [shown(due) for due in calendar.between(at("2025-03-09 01:10"), at("2025-03-09 03:10"))] == [
        "03-09 01:30",
        "03-09 03:00",
    ]
    assert calendar.next_due(at("2025-03-09 01:30")) == at("2025-03-09 03:00")
    assert Calendar(("@every 1m 30s",)).next_due(0) == 90 * SECOND
    assert next(Every(7 * SECOND).after(6999)) == 7000


def test_several_lines() -> None:
    """They are one schedule: each instant once, in order."""
    calendar = Calendar(("0 9 * * *", "0 9 * * 1", "@every 12h"), (), "UTC")
    begin = int(datetime(2025, 6, 2, tzinfo=UTC).timestamp()) * SECOND
    found = [(due - begin) // HOUR for due in calendar.between(begin, begin + DAY)]
    assert found == [9, 12, 24]
    assert calendar.next_due(begin) == begin + 9 * HOUR


def test_no_schedule() -> None:
    """Nothing is ever due."""
    assert Calendar().next_due(0) is None
    assert Calendar().between(0, 1 << 50) == []


@pytest.mark.fault("L2")
@pytest.mark.parametrize(
    "line", ["* * * * *", "@every 1m", "@hourly", "0 0 1 * *", "30 2 * * *", "* * 29 2 *"]
)
def test_a_long_absence(line: str) -> None:
    """Of thousands of windows the first thousand are listed, and always the last."""
    calendar = Calendar((line,), (), "UTC")
    begin = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    end = begin + 20 * 366 * DAY + 30 * SECOND
    found = calendar.between(begin, end)
    assert len(found) <= LISTED + 1
    assert found == sorted(found)
    following = calendar.next_due(found[-1])
    assert following is not None
    assert following > end


def test_a_line_that_ends() -> None:
    """A rule without further windows has no next one."""

    class Once(Every):
        def after(self, instant: int) -> "itertools.chain[int]":
            return itertools.chain([5] if instant < 5 else [])

    calendar = Calendar(("@hourly",), (), "UTC")
    calendar._rules = [Once(1)]
    assert calendar.between(0, 10) == [5]
    assert calendar.next_due(5) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", '\'\': no cron line; write five fields, minute first ("30 2 * * *"), or "@every 30m"'),
        ("* * *", '* * *: no cron line; write five fields, minute first ("30 2 * * *"), or "@every 30m"'),
        ("61 * * * *", "61 * * * *: no cron line: bad minute"),
        ("0 0 30 2 *", "0 0 30 2 *: no cron line: bad day-of-month"),
        ("0 0 */29 2 mon#5", "0 0 */29 2 mon#5: no cron line: it never comes due"),
        ("0 0 * * mox", "0 0 * * mox: no cron line: bad day-of-week"),
        ("TZ=Mars/Base 0 0 * * *", "Mars/Base: no such time zone; write one such as Europe/Berlin"),
        ("TZ=../x 0 0 * * *", "../x: no such time zone; write one such as Europe/Berlin"),
        ("@every 5", "5: a bare number is no duration; write 5s or 5m"),
        ("@every", "@every: no span of a schedule; write whole seconds, as in @every 30m"),
        ("@every 0", "@every 0: no span of a schedule; write whole seconds, as in @every 30m"),
        ("@every 1500ms", "@every 1500ms: no span of a schedule; write whole seconds, as in @every 30m"),
        ("@dayly", ("@dayly: no such time; names are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, "
                   "@annually and @every 30m")),
        ("@daily 5", ("@daily 5: no such time; names are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, "
                     "@annually and @every 30m")),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_meant(line: str, text: str) -> None:
    """Each is refused in one line with the reason."""
    with pytest.raises(UsageError) as refusal:
        parse_schedule(line, NEW_YORK)
    assert str(refusal.value) == text


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cron lines say what to install; spans need nothing."""
    monkeypatch.setattr(module, "cronsim", None)
    with pytest.raises(UsageError, match=r"need the package cronsim; install longwatch\[all\]"):
        Calendar(("@daily",))
    assert Calendar(("@every 1h",)).next_due(0) == HOUR


# -- zones


def test_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a name it is the variable's, else the machine's with all its rules, else UTC."""
    monkeypatch.setenv("TZ", ":Europe/Berlin")
    assert zone("") == BERLIN
    monkeypatch.setenv("TZ", "No/Where")
    assert zone("") is UTC
    monkeypatch.delenv("TZ")
    monkeypatch.setattr(module, "_LOCALTIME", str(tmp_path / "none"))
    assert zone("") is UTC
    rules = next(
        (Path(root) / PLACE for root in ("/usr/share/zoneinfo",) if (Path(root) / PLACE).exists()), None
    )
    if rules is not None:
        monkeypatch.setattr(module, "_LOCALTIME", str(rules))
        calendar = Calendar(("30 2 * * *",))
        assert calendar.next_due(at("2025-03-09 00:00")) == at("2025-03-09 03:00")


# -- hours


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("Mon-Fri 09:00-18:00", Window((0, 1, 2, 3, 4), 540, 1080)),
        ("mon,tue,wed 9:05-17:00", Window((0, 1, 2), 545, 1020)),
        ("sat, sun 10:00-14:00", Window((5, 6), 600, 840)),
        ("Friday-Monday 00:00-24:00", Window((0, 4, 5, 6), 0, 1440)),
        ("22:00-06:00", Window((0, 1, 2, 3, 4, 5, 6), 1320, 360)),
        ("tues,Thurs 9:00-10:00", Window((1, 3), 540, 600)),
    ],
)
def test_hours(text: str, window: Window) -> None:
    """Days and times of day as people write them."""
    assert parse_hours(text) == window


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mon",
        "mon 09:00",
        "9-17",
        "09:60-10:00",
        "09:00-24:01",
        "24:00-01:00",
        "09:00-09:00",
        "a:00-10:00",
    ],
)
def test_hours_that_cannot_be_meant(text: str) -> None:
    """Each is refused in one line that says how to write them."""
    with pytest.raises(UsageError, match=r': no hours of a day; write "mon-fri 09:00-18:00"$'):
        parse_hours(text)
    with pytest.raises(UsageError, match=r"mon-fry 09:00-10:00: no such day: fry; days are mon, tue, wed"):
        parse_hours("mon-fry 09:00-10:00")
    for name in ("m", "mo", "monkey", "satur-sundays"):
        with pytest.raises(UsageError, match="no such day"):
            parse_hours(f"{name} 09:00-10:00")


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize(
    ("hours", "instant", "is_open", "changes"),
    [
        (("mon-fri 09:00-18:00",), "2025-03-07 08:59", False, "03-07 09:00"),
        (("mon-fri 09:00-18:00",), "2025-03-07 09:00", True, "03-07 18:00"),
        (("mon-fri 09:00-18:00",), "2025-03-07 18:00", False, "03-10 09:00"),
        (("sat 22:00-06:00",), "2025-03-08 23:00", True, "03-09 06:00"),
        (("sat 22:00-06:00",), "2025-03-09 05:59", True, "03-09 06:00"),
        (("sun 02:30-04:00",), "2025-03-09 01:59", False, "03-09 03:00"),
        (("sun 02:00-02:30",), "2025-03-09 01:59", False, "03-16 02:00"),
        (("mon-fri 09:00-12:00", "fri 11:00-13:00"), "2025-03-07 10:00", True, "03-07 13:00"),
        (("mon 10:00-11:00",), "2025-03-10 11:00", False, "03-17 10:00"),
    ],
)
def test_standing(hours: tuple[str, ...], instant: str, is_open: bool, changes: str) -> None:
    """Whether it is open, and until when that holds, over midnight and over clock changes."""
    standing = Calendar((), hours, PLACE).standing(at(instant))
    assert (standing.open, shown(standing.changes or 0)) == (is_open, changes)


def test_without_hours_it_is_always_open() -> None:
    """Then only the day changes, at midnight there."""
    calendar = Calendar((), (), PLACE)
    wall = at("2025-03-09 12:00")
    assert calendar.standing(wall) == Standing("2025-03-09", at("2025-03-10 00:00"))
    assert calendar.next_change(wall) is None
    assert calendar.standing(at("2025-03-09 00:00")).day_ends == at("2025-03-10 00:00")
    assert at("2025-03-10 00:00") - at("2025-03-09 00:00") == 23 * HOUR
    assert calendar.standing(at("2025-03-10 00:00")).day == "2025-03-10"


def test_a_whole_week() -> None:
    """Hours of all day and every day have no end that matters."""
    calendar = Calendar((), ("00:00-24:00",), PLACE)
    wall = at("2025-03-09 12:00")
    assert calendar.standing(wall).open
    assert (calendar.next_change(wall) or 0) > wall + 6 * DAY


@pytest.mark.fault("L1")
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.lists(st.integers(0, 14 * 24 * 60), min_size=2, max_size=12))
def test_what_is_known_is_not_believed_for_long(minutes: list[int]) -> None:
    """Asked about instants in any order, it answers as one that was never asked before."""
    hours = ("mon-fri 09:00-18:00", "22:00-02:00")
    calendar = Calendar((), hours, PLACE)
    for minute in minutes:
        wall = at("2025-10-27 00:00") + minute * MINUTE
        assert calendar.standing(wall) == Calendar((), hours, PLACE).standing(wall)
