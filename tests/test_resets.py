"""Reset times in every form become spans; what cannot be read becomes none, and says so."""

import math
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch import resets

# 2030-01-02T03:04:05Z, a Wednesday.
NOW = 1_893_553_445.0
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000

READ = {
    "integer seconds": (90, 90_000),
    "float seconds": (0.25, 250),
    "a fraction of a millisecond waits": (0.0001, 1),
    "seconds as text": ("120", 120_000),
    "seconds as text with spaces": (" 1.5 ", 1_500),
    "a span as text": ("6m0s", 6 * MINUTE),
    "a span in milliseconds": ("20ms", 20),
    "a span with a fraction": ("34.074s", 34_074),
    "http date": ("Wed, 02 Jan 2030 03:14:05 GMT", 10 * MINUTE),
    "http date of another zone": ("Wed, 02 Jan 2030 04:14:05 +0100", 10 * MINUTE),
    "obsolete http date": ("Wednesday, 02-Jan-30 03:14:05 GMT", 10 * MINUTE),
    "http date as C writes it": ("Wed Jan  2 03:14:05 2030", 10 * MINUTE),
    "iso 8601": ("2030-01-02T03:14:05Z", 10 * MINUTE),
    "iso 8601 with milliseconds": ("2030-01-02T03:14:05.500Z", 10 * MINUTE + 500),
    "iso 8601 with an offset": ("2030-01-02T05:14:05+02:00", 10 * MINUTE),
    "iso 8601 without separators": ("20300102T031405Z", 10 * MINUTE),
    "epoch seconds": (1_893_554_045, 10 * MINUTE),
    "epoch seconds as text": ("1893554045", 10 * MINUTE),
    "epoch seconds as float": (1_893_554_045.5, 10 * MINUTE + 500),
    "epoch milliseconds": (1_893_554_045_000, 10 * MINUTE),
    "epoch milliseconds as text": ("1893554045000", 10 * MINUTE),
    "a datetime": (datetime(2030, 1, 2, 3, 14, 5, tzinfo=UTC), 10 * MINUTE),
    "exactly the maximum": (7 * 24 * 3600, 7 * DAY),
}
OVER = {
    "zero": 0,
    "zero as text": "0",
    "negative": -5,
    "negative as text": "-5",
    "past http date": "Wed, 21 Oct 2015 07:28:00 GMT",
    "past iso": "2030-01-02T03:04:04Z",
    "past epoch seconds": 1_893_553_000,
    "past epoch milliseconds": 1_893_553_000_000,
    "this very moment": NOW,
    "off": "off",
    "a year of two digits": "Wed, 01 Jan 00 00:00:00 GMT",
}
HUGE = {
    "seconds": 8 * 24 * 3600,
    "seconds as text": "9" * 9,
    "a span": "400d",
    "beyond all spans": "9" * 30 + "d",
    "http date": "Fri, 01 Mar 2030 00:00:00 GMT",
    "iso": "9999-12-31T23:59:59Z",
    "epoch seconds": 2_000_000_000,
    "epoch milliseconds": 2_000_000_000_000,
    "epoch in nanoseconds": 1_893_554_045_000_000_000,
    "a large float": 1e300,
}
GARBAGE = {
    "words": "soon",
    "an empty line": " ",
    "half a date": "Wed, 99 Foo 2030 25:61:61 GMT",
    "a day's name": "Wednesday",
    "a clock time alone": "resets 12:30",
    "a month alone": "Jan 2",
    "not a number": math.nan,
    "infinite": math.inf,
    "infinite as text": "-inf",
    "an integer beyond all floats": 10**400,
    "digits beyond all integers": "1" * 5000,
    "a flag": True,
    "a list": [1],
    "bytes": b"120",
    "an impossible date": "2030-02-31T00:00:00Z",
    "digits that refuse to be written": 10**5000,
}


@pytest.mark.fault("K5")
@pytest.mark.parametrize(("value", "ms"), READ.values(), ids=READ)
def test_every_form_is_read(value: object, ms: int) -> None:
    """Seconds, spans, dates and instants come to the same span, and there is nothing to remark."""
    assert resets.span(value, NOW) == resets.Reset(ms)


@pytest.mark.fault("K5")
@pytest.mark.parametrize("value", OVER.values(), ids=OVER)
def test_what_is_over_is_no_wait(value: object) -> None:
    """A reset in the past asks for the normal backoff, and the user is told."""
    reset = resets.span(value, NOW)
    assert reset.span is None
    assert "is over" in reset.note


@pytest.mark.fault("K5")
@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
def test_what_is_huge_is_clamped_and_told(value: object) -> None:
    """A reset further away than any provider's window waits for the stated maximum, and the user is told."""
    reset = resets.span(value, NOW)
    assert reset.span == resets.MAXIMUM == 7 * DAY
    assert "asked again in 7d" in reset.note
    assert len(reset.note) < 120


@pytest.mark.fault("K5")
@pytest.mark.parametrize("value", GARBAGE.values(), ids=GARBAGE)
def test_what_cannot_be_read_is_none(value: object) -> None:
    """Garbage raises nothing, asks for the normal backoff, and the user is told."""
    reset = resets.span(value, NOW)
    assert reset.span is None
    assert "cannot be read" in reset.note
    assert "\n" not in reset.note


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_said_is_nothing_noted(value: object) -> None:
    """A provider that names no time gives no span and no remark."""
    assert resets.span(value, NOW) == resets.Reset()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_a_time_without_zone_is_local_and_told(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that names no zone is the machine's, wherever it stands, and the user is told."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        local = datetime.fromtimestamp(NOW) + timedelta(hours=1)  # noqa: DTZ006 - local is what is meant
        for value in (local.isoformat(), local):
            reset = resets.span(value, NOW)
            assert reset.span == HOUR
            assert "taken as local time" in reset.note
    finally:
        monkeypatch.undo()
        time.tzset()


@given(
    st.one_of(st.text(), st.integers(), st.floats(), st.datetimes(), st.binary(), st.booleans(), st.none())
)
def test_nothing_raises(value: object) -> None:
    """Whatever comes, the answer is a span between nothing and the maximum, or none."""
    reset = resets.span(value, NOW)
    assert reset.span is None or 0 < reset.span <= resets.MAXIMUM
