"""Durations and sizes: parse, format, refuse.

A duration is a whole number of milliseconds, a size a whole number of bytes; 0 stands for `off` in both. A bare
number is refused, because half of the world means seconds and the other half milliseconds or minutes. Only
`parse_gnu_duration` follows another grammar, that of GNU timeout.

Every refusal is a `UnitError` whose text begins with the refused words: `5: a bare number is no duration; ...`.
"""

from longwatch.errors import UnitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Largest first: the order in which the parts of a duration are written.
DURATION_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
#: As everywhere in storage: KB is 1000, KiB and plain K are 1024 (GNU's head and dd agree on the last).
SIZE_UNITS = {
    "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
#: Past a century a deadline is a typing error, and clocks kept in 64 bits stay far from their end.
CENTURY = 36_525 * DURATION_UNITS["d"]
#: Past 8 EiB no file system can follow.
EXBIBYTES = 1 << 63
_DIGITS = "0123456789"
_LONGEST = 40
_SPACE = " \t\n\v\f\r"


def parse_duration(text: str, *, clamp: bool = False) -> int:
    """Return the milliseconds that `text` names: `350ms`, `5s`, `1.5h`, `1h30m`; `0` and `off` are 0.

    Parts go from the largest unit to the smallest, each at most once. A fraction of a millisecond counts as one,
    so that only 0 means off. Raises UnitError for a bare number, an unknown unit, anything negative, infinite or
    longer than a century; with `clamp` that is a century.
    """
    words = text.strip()
    if words in ("0", "off"):
        return 0
    total, above = 0, CENTURY
    for number, unit in _parts(words, "duration", "write 5s or 5m"):
        if not unit:
            raise UnitError(f"{shown(text)}: a bare number is no duration; write {number}s or {number}m")
        if unit not in DURATION_UNITS:
            raise UnitError(f"{shown(text)}: {_unknown_duration_unit(number, unit)}")
        factor = DURATION_UNITS[unit]
        if factor >= above:
            raise UnitError(
                f"{shown(text)}: {unit} comes too late; write the largest unit first, as in 1h30m"
            )
        total, above = total + _times(number, factor), factor
    if clamp:
        return min(total, CENTURY)
    if total > CENTURY:
        raise UnitError(f"{shown(text)}: longer than a century; write off for no limit")
    return total


def parse_size(text: str) -> int:
    """Return the bytes that `text` names: `64KiB`, `100MB`, `1.5g`, in any case; `0` and `off` are 0.

    Raises UnitError for a bare number, an unknown unit, anything negative or larger than a file can be.
    """
    words = text.strip()
    if words in ("0", "off"):
        return 0
    parts = _parts(words, "size", "write 64KiB or 100MiB")
    number, unit = parts[0]
    if not unit:
        raise UnitError(f"{shown(text)}: a bare number is no size; write {number}KiB or {number}MiB")
    factor = SIZE_UNITS.get(unit.lower())
    if factor is None or len(parts) > 1:
        raise UnitError(f"{shown(text)}: no size; units are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB")
    size = _times(number, factor)
    if size >= EXBIBYTES:
        raise UnitError(f"{shown(text)}: larger than a file can be; write off for no limit")
    return size


def parse_gnu_duration(text: str) -> int | None:
    """Return the milliseconds of a duration as GNU timeout reads it, rounded up; 0 disables, None is never.

    A number as strtod(3) reads it (`5`, `.1`, `1e-100`, `0x1p4`, `infinity`) and at most one of s, m, h, d.
    Raises UnitError for anything else; not for what is too large (never) or too small (1 ms).
    """
    number, suffix = text, "s"
    seconds = _strtod(number)
    if seconds is None and text:
        number, suffix = text[:-1], text[-1]
        seconds = _strtod(number)
    if seconds is None or not seconds >= 0 or suffix not in DURATION_UNITS:
        raise UnitError(
            f"{shown(text)}: no time interval; write a number, with s, m, h or d behind it if you like"
        )
    span = seconds * DURATION_UNITS[suffix]
    if span > CENTURY:
        return None
    whole = int(span)
    # What is not zero never disables, however small; 1e-6 forgives what binary fractions add to 1.1 s.
    if whole == 0:
        return int(_is_positive(number))
    return whole + (span - whole > 1e-6)


def format_duration(ms: int) -> str:
    """Return the shortest text for a span, rounded to two neighbouring units: `350ms`, `1m30s`, `1h`, `2d3h`."""
    names = list(DURATION_UNITS)
    for name, below in zip(names, names[1:], strict=False):  # noqa: RUF007 - one file less to load
        large, small = DURATION_UNITS[name], DURATION_UNITS[below]
        if ms >= large:
            rounded = (ms + small // 2) // small * small
            if rounded != ms:  # 59m59.9s becomes an hour, so begin again
                return format_duration(rounded)
            rest = ms % large // small
            return f"{ms // large}{name}" + (f"{rest}{below}" if rest else "")
    return f"{ms}ms" if ms else "0s"


def format_size(size: int) -> str:
    """Return a size with its largest binary unit: `512B`, `64KiB`, `1.5MiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + name
    return f"{size}B"


def ago(ms: int) -> str:
    """Return how long something is ago, coarsely: whole seconds, then two units; a clock set back reads as 0s."""
    return format_duration(max(ms, 0) // 1000 * 1000)


def nearest(word: str, words: "Iterable[str]") -> str | None:
    """Return the one of `words` that was probably meant by `word`, or None when nothing is near.

    Near is: a third of the letters wrong at most (a swap of neighbours is one), or the beginning of just one.
    """
    known = list(words)
    distance, best = min(((_distance(word, other), other) for other in known), default=(len(word), ""))
    if best and distance <= max(1, len(word) // 3):
        return best
    begun = [other for other in known if other.startswith(word)] if word.strip("-") else []
    return begun[0] if len(begun) == 1 else None


def shown(text: str) -> str:
    """Return a user's word as a message can carry it: on one line, not endless, and visible when empty."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    return text if text.isprintable() and text.strip() == text != "" else repr(text)


def _parts(words: str, what: str, offer: str) -> list[tuple[str, str]]:
    """Split `1h 30m` into numbers and units; the unit is empty where none follows. Never empty."""
    if words.startswith("-"):
        raise UnitError(f"{shown(words)}: a {what} cannot be negative; {offer}, or off for no limit")
    if words.lower() in ("inf", "infinity", "infinite", "unlimited", "never", "none"):
        raise UnitError(f"{shown(words)}: a {what} is finite; write off for no limit")
    parts: list[tuple[str, str]] = []
    rest = words
    while rest:
        number, rest = _take(rest, _DIGITS + ".")
        unit, rest = _take_unit(rest.lstrip())
        rest = rest.lstrip()
        parts.append((number, unit))
    good = all(number.strip(".") and number.count(".") < 2 for number, _ in parts)
    if not parts or not good or len(words) > _LONGEST:
        raise UnitError(f"{shown(words)}: no {what}; {offer}, or off for no limit")
    return parts


def _take(text: str, letters: str) -> tuple[str, str]:
    rest = text.lstrip(letters)
    return text[: len(text) - len(rest)], rest


def _take_unit(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and text[end] not in _DIGITS and not text[end].isspace():
        end += 1
    return text[:end], text[end:]


def _times(number: str, factor: int) -> int:
    """Multiply a decimal text exactly, rounding up: floats would turn 1.1 s into 1100.0000000000002 ms."""
    whole, _, fraction = number.partition(".")
    scale: int = 10 ** len(fraction)
    return -(-int(whole + fraction) * factor // scale)


def _unknown_duration_unit(number: str, unit: str) -> str:
    guess = ""
    low = unit.lower()
    if low.startswith(("ms", "mil")):
        guess = "ms"
    elif low[0] in "smhd" and low.isalpha() and not low.startswith("mo"):
        guess = low[0]
    units = "units are ms, s, m, h, d"
    return f"unknown unit {shown(unit)}; " + (f"write {number}{guess} ({units})" if guess else units)


def _strtod(text: str) -> float | None:
    """Read all of `text` as strtod(3) does in the C locale, or None: float() alone takes 1_0 and trailing space."""
    words = text.lstrip(_SPACE)
    if not words.isascii() or "_" in words or words.strip() != words:
        return None
    try:
        return float.fromhex(words) if "x" in words.lower() else float(words)
    except OverflowError:
        return float("inf")
    except ValueError:
        return None


def _is_positive(number: str) -> bool:
    """Whether a number that was rounded to 0 had any other digit (1e-10000 has)."""
    low = number.lower()
    mantissa = low.partition("p" if "x" in low else "e")[0]
    return mantissa.strip(_SPACE + "+-0x.") != ""


def _distance(left: str, right: str) -> int:
    """Count the insertions, deletions, changes and swaps of neighbours between two short words."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        new = [i]
        for j, b in enumerate(right, 1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and b == left[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]
