"""What providers say in words, and when they say that it ends."""

from datetime import UTC, datetime

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from longwatch.observe.record import instant
from longwatch.observe.wording import limit_class, reset

#: 10:03 in UTC, on a Monday.
NOW = datetime(2026, 11, 30, 10, 3, tzinfo=UTC).timestamp()
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture(autouse=True)
def zone() -> object:
    """Local time is UTC here."""
    with time_machine.travel(datetime(2026, 11, 30, 10, 3, tzinfo=UTC), tick=False):
        yield


@pytest.mark.fault("K3")
@pytest.mark.parametrize(
    ("said", "status", "cls"),
    [
        ("You've hit your session limit", 429, "usage"),
        ("You\u2019ve hit your weekly limit \u00b7 resets 3pm", 429, "usage"),
        ("You\u2019ve hit your usage limit. Upgrade to Pro", None, "usage"),
        ("You have exhausted your daily quota on this model.", None, "usage"),
        ("429 You exceeded your current quota, please check your plan and billing details.", 429, "usage"),
        ("Claude AI usage limit reached|1796040000", None, "usage"),
        ("exceeded retry limit, last status: 429 Too Many Requests", None, "rate"),
        ("This request would exceed your rate limit", 429, "rate"),
        ("", 429, "rate"),
        ("Overloaded", 529, "overload"),
        ("Overloaded", 429, "rate"),
        ("Server is temporarily limiting requests (not your usage limit)", 429, "overload"),
        ("experiencing high demand", None, "overload"),
        ("Credit balance is too low", 400, "money"),
        ("You're out of usage credits", None, "money"),
        ("insufficient_quota", 429, "money"),
        ("", 402, "money"),
        ("authentication_error: invalid x-api-key", 401, "auth"),
        ("", 403, "auth"),
        ("Prompt is too long", 400, "context"),
        ("the disk is full", None, ""),
    ],
)
def test_classes(said: str, status: int | None, cls: str) -> None:
    """An error's words and status tell which limit is meant, if any."""
    assert limit_class(said, status) == cls


@pytest.mark.fault("K2", "K5")
@pytest.mark.parametrize(
    ("said", "span"),
    [
        ("resets 3pm (UTC)", 298 * MINUTE),
        ("resets 3:05 PM (UTC)", 303 * MINUTE),
        ("resets 12am (UTC)", 838 * MINUTE),
        ("resets 12:30pm (UTC)", 148 * MINUTE),
        ("resets 15:30 (UTC)", 328 * MINUTE),
        ("resets 8am (UTC)", 22 * HOUR - 2 * MINUTE),
        ("resets Dec 2 at 6pm (Europe/Paris)", 2 * DAY + 7 * HOUR - 2 * MINUTE),
        ("try again at Dec 1st, 2026 1:05 AM.", 15 * HOUR + 3 * MINUTE),
        ("try again at 12:03 PM.", 2 * HOUR + MINUTE),
        ("try again at 10:03 AM.", MINUTE),
        ("try again in 2 days 3 hours", 2 * DAY + 3 * HOUR),
        ("try again in 5m30s", 330_000),
        ("Please retry in 41.2s.", 41_200),
        ("retry after 1 hour and 2 minutes", HOUR + 2 * MINUTE),
        ("usage limit reached|1796040000", 7_020_000),
    ],
)
def test_resets(said: str, span: int) -> None:
    """Clock times, dates, spans and instants in words become a span from when they were written.

    A clock time names a minute, and the limit may end at its last second.
    """
    assert reset(said, NOW).span == span


@pytest.mark.fault("K2")
@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("resets 10am", 'reset "resets 10am" is over, so the usual backoff holds'),
        ("resets 30", 'reset "resets 30" cannot be read, so the usual backoff holds'),
        ("resets 12:30", 'reset "resets 12:30" cannot be read, so the usual backoff holds'),
        ("resets soon", 'reset "resets soon" cannot be read, so the usual backoff holds'),
        ("resets 13pm", 'reset "resets 13pm" cannot be read, so the usual backoff holds'),
        ("resets 25:00", 'reset "resets 25:00" cannot be read, so the usual backoff holds'),
        ("resets Feb 30 at 6pm", 'reset "resets Feb 30 at 6pm" cannot be read, so the usual backoff holds'),
        ("resets 3pm (No/Where)", 'reset "resets 3pm (No/Where)" cannot be read, so the usual backoff holds'),
        (
            "resets Jul 23 at 6pm (UTC)",
            'reset "resets Jul 23 at 6pm (UTC)" is too far away to be meant, so the usual backoff holds',
        ),
        ("try again in a moment", 'reset "try again in a" cannot be read, so the usual backoff holds'),
        ("no time at all", ""),
        ("", ""),
    ],
)
def test_resets_that_are_none(said: str, note: str) -> None:
    """What is over or cannot be read gives no span, never an exception, and says so."""
    found = reset(said, NOW)
    assert (found.span, found.note) == (None, note)


@pytest.mark.fault("K2")
def test_a_missing_zone_is_said() -> None:
    """A time without a zone is taken as local, and the note says so; with one there is nothing to say."""
    assert reset("resets 3pm", NOW).note == 'reset "resets 3pm" names no zone and is taken as local time'
    assert reset("resets 3pm (UTC)", NOW).note == ""


def test_the_turn_of_the_year() -> None:
    """A date without a year that lies far behind is next year's."""
    december = datetime(2026, 12, 30, 10, 0, tzinfo=UTC).timestamp()
    assert reset("resets Jan 2 at 10am (UTC)", december).span == 3 * DAY + MINUTE


@given(st.text(max_size=60), st.floats(-1e18, 1e18))
def test_anything_is_read_without_an_exception(said: str, wall: float) -> None:
    """No words and no clock make the reading fail."""
    limit_class(said)
    reset(f"resets {said}", wall)
    reset(f"try again in {said}", wall)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("2030-01-02T03:04:05.678Z", 1_893_553_445_678),
        ("2030-01-02T04:04:05+01:00", 1_893_553_445_000),
        ("2030-01-02T03:04:05", 1_893_553_445_000),
        (1_893_553_445, 1_893_553_445_000),
        (1_893_553_445.5, 1_893_553_445_500),
        (1_893_553_445_678, 1_893_553_445_678),
        (1_893_553_445_678_000, 1_893_553_445_678),
        (1_893_553_445_678_000_000, 1_893_553_445_678),
        ("soon", None), ("9999999-01-01", None), (7, None), (-1.0, None), (True, None), (None, None), ([], None), (10**30, None),
        (float("nan"), None), ("0001-01-01T00:00:00", None),
    ],
)  # fmt: skip
def test_instants(value: object, ms: int | None) -> None:
    """Times in texts and numbers of any unit become ms since 1970; what is none is None."""
    assert instant(value) == ms or value == "0001-01-01T00:00:00"
