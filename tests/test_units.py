"""Durations and sizes: what is read, what is refused and in which words, what is written."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longwatch.errors import UnitError, UsageError
from longwatch.units import (
    CENTURY,
    DURATION_UNITS,
    ago,
    format_duration,
    format_size,
    nearest,
    parse_duration,
    parse_gnu_duration,
    parse_size,
    shown,
)

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
MIB = 1 << 20

DURATIONS = {
    "350ms": 350,
    "5s": 5 * SECOND,
    "5m": 5 * MINUTE,
    "1h30m": 90 * MINUTE,
    "1d1h1m1s1ms": DAY + HOUR + MINUTE + SECOND + 1,
    "1.5h": 90 * MINUTE,
    ".5s": 500,
    "1.1s": 1_100,  # exact: as floats it would be a hair more, and be rounded up
    " 42s ": 42 * SECOND,
    "1h 30m": 90 * MINUTE,
    "5 m": 5 * MINUTE,
    "0": 0,
    "off": 0,
    "0s": 0,
    "0.0001ms": 1,  # only nothing is off
    "36525d": CENTURY,
}

REFUSED_DURATIONS = {
    "5": "5: a bare number is no duration; write 5s or 5m",
    "1h5": "1h5: a bare number is no duration; write 5s or 5m",
    "5minutes": "5minutes: unknown unit minutes; write 5m (units are ms, s, m, h, d)",
    "5M": "5M: unknown unit M; write 5m (units are ms, s, m, h, d)",
    "20millis": "20millis: unknown unit millis; write 20ms (units are ms, s, m, h, d)",
    "5w": "5w: unknown unit w; units are ms, s, m, h, d",
    "2months": "2months: unknown unit months; units are ms, s, m, h, d",
    "-1": "-1: a duration cannot be negative; write 5s or 5m, or off for no limit",
    "infinity": "infinity: a duration is finite; write off for no limit",
    "INF": "INF: a duration is finite; write off for no limit",
    "1m1h": "1m1h: h comes too late; write the largest unit first, as in 1h30m",
    "5s5s": "5s5s: s comes too late; write the largest unit first, as in 1h30m",
    "36526d": "36526d: longer than a century; write off for no limit",
    "": "'': no duration; write 5s or 5m, or off for no limit",
    "soon": "soon: no duration; write 5s or 5m, or off for no limit",
    "1.2.3s": "1.2.3s: no duration; write 5s or 5m, or off for no limit",
    "٣s": "٣s: no duration; write 5s or 5m, or off for no limit",
    "5s\nx": "'5s\\nx': no duration; write 5s or 5m, or off for no limit",
    "9" * 5_000 + "s": "9" * 40 + "...: no duration; write 5s or 5m, or off for no limit",
}


@pytest.mark.parametrize("text", DURATIONS)
def test_duration_is_read(text: str) -> None:
    """Numbers with units, joined or spaced, fractions, and the words for off are read to the millisecond."""
    assert parse_duration(text) == DURATIONS[text]


@pytest.mark.parametrize("text", REFUSED_DURATIONS)
def test_duration_is_refused(text: str) -> None:
    """Each refusal is one line that begins with the refused text and says what to write instead."""
    with pytest.raises(UnitError) as refused:
        parse_duration(text)
    assert str(refused.value) == REFUSED_DURATIONS[text]


def test_unit_error_is_usage_and_value_error() -> None:
    """A caller of the library may catch what it would catch of int()."""
    assert issubclass(UnitError, UsageError)
    assert issubclass(UnitError, ValueError)


def answer(parse: Callable[[str], int | None], text: str) -> tuple[int | None, str]:
    """Return what a parser makes of a text: a value, or the words of a UnitError."""
    try:
        return parse(text), ""
    except UnitError as error:
        return None, str(error)


@given(st.text(alphabet="0123456789.-+ smhdoxnife_٣\0\n") | st.text())
@example("0x10")
def test_parsers_raise_nothing_but_unit_errors(text: str) -> None:
    """Whatever a user writes, it is a number in range or a UnitError of one line."""
    for parse in (parse_duration, parse_size, parse_gnu_duration):
        value, refusal = answer(parse, text)
        assert len(refusal.splitlines()) <= 1
        assert value is None or value >= 0


@given(st.integers(0, CENTURY))
@example(59_999)
@example(999_500)
@example(DAY - 1)
def test_formatting_round_trips(ms: int) -> None:
    """What is written reads back to within half of its second unit, and is then written the same."""
    text = format_duration(ms)
    back = parse_duration(text)
    small = next((unit for above, unit in pairwise(DURATION_UNITS.values()) if ms >= above), 1)
    assert abs(back - ms) <= small // 2
    assert format_duration(back) == text


@given(st.sampled_from(tuple(DURATION_UNITS)), st.integers(0, 23))
def test_whole_units_are_kept(unit: str, number: int) -> None:
    """A span of one unit is written as the user wrote it."""
    text = f"{number}{unit}"
    assert format_duration(parse_duration(text)) == (text if number else "0s")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (350, "350ms"), (1_350, "1s350ms"), (5_000, "5s"), (59_999, "59s999ms"), (HOUR - 1, "1h"), (90_000, "1m30s"),
     (HOUR, "1h"), (2 * DAY + 3 * HOUR + 4 * MINUTE, "2d3h")],
)  # fmt: skip
def test_duration_is_written(ms: int, text: str) -> None:
    """Two neighbouring units at most, rounded."""
    assert format_duration(ms) == text


@pytest.mark.parametrize(("ms", "text"), [(-5, "0s"), (999, "0s"), (130_400, "2m10s"), (3_661_000, "1h1m")])
def test_ago_is_coarse(ms: int, text: str) -> None:
    """How long ago something was is told in whole seconds, and never as the future."""
    assert ago(ms) == text


GNU = {
    "5": 5 * SECOND,
    "5s": 5 * SECOND,
    ".1": 100,
    "1.1": 1_100,
    "2m": 2 * MINUTE,
    "1h": HOUR,
    "1d": DAY,
    "0": 0,
    "0d": 0,
    "-0": 0,
    "+5": 5 * SECOND,
    " 5": 5 * SECOND,
    "1e1": 10 * SECOND,
    "1e-100": 1,
    "1e-10000": 1,
    "0x1p-99999": 1,
    "0.0000001": 1,
    "0x10": 16 * SECOND,
    "0x1p4": 16 * SECOND,
    "0x1d": 29 * SECOND,  # all of it is a hexadecimal number
    "0x1p0d": DAY,
    "infinity": None,
    "infd": None,
    "1e10000": None,
    "0x1p99999": None,
    "2.34e+5d": None,
}


@pytest.mark.parametrize("text", GNU)
def test_gnu_duration_is_read(text: str) -> None:
    """`longwatch timeout` reads what strtod reads; tiny is 1 ms, huge is never, 0 disables."""
    assert parse_gnu_duration(text) == GNU[text]


@pytest.mark.parametrize(
    "text", ["", "s", "5x", "5ms", "5 ", "5 s", "1_0", "nan", "-1", "-1e-99", "1h30m", "0xs", "٣", "\x1c5"]
)
def test_gnu_duration_is_refused(text: str) -> None:
    """What strtod does not read to its end, with one letter behind it, is no interval."""
    with pytest.raises(UnitError, match="no time interval; write a number"):
        parse_gnu_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("100MiB", 100 * MIB), ("100mib", 100 * MIB), ("1K", 1_024), ("1KB", 1_000), ("1.5g", 1_536 * MIB), ("7B", 7),
     ("0", 0), ("off", 0), ("64 KiB", 65_536)],
)  # fmt: skip
def test_size_is_read(text: str, size: int) -> None:
    """Sizes come in thousands and in 1024s, in any case."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "words"),
    [("5", "write 5KiB or 5MiB"), ("5x", "units are B, KB"), ("5MB5", "units are B, KB"), ("-5MB", "negative"),
     ("9999999TB", "larger than a file can be"), ("big", "write 64KiB or 100MiB")],
)  # fmt: skip
def test_size_is_refused(text: str, words: str) -> None:
    """A refused size names the units or what to write."""
    with pytest.raises(UnitError, match=words):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (512, "512B"), (65_536, "64KiB"), (1_572_864, "1.5MiB"), (1 << 40, "1TiB")]
)
def test_size_is_written(size: int, text: str) -> None:
    """A size is written in its largest binary unit."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("word", "found"),
    [("idel", "idle"), ("idl", "idle"), ("idle", "idle"), ("kill", "kill-after"), ("verison", "version"),
     ("stall", None), ("", None), ("zzzz", None)],
)  # fmt: skip
def test_nearest(word: str, found: str | None) -> None:
    """A slip of the finger or an unfinished word finds what was meant; a stranger finds nothing."""
    assert nearest(word, ["idle", "first", "kill-after", "version", "signal"]) == found


@pytest.mark.parametrize(
    ("text", "seen"),
    [("x", "x"), ("", "''"), (" x", "' x'"), ("a\nb", "'a\\nb'"), ("x" * 50, "x" * 40 + "...")],
)
def test_shown(text: str, seen: str) -> None:
    """A user's word never breaks the line that carries it."""
    assert shown(text) == seen
