"""The kinds of values: how the text of an option is read, and how a value is written back.

Every refusal is one line that begins with the refused words, so that a flag or a variable can be put in front.
"""

import os

from longwatch.core.outcomes import REASONS
from longwatch.errors import UsageError
from longwatch.option_table import SOURCES, Option
from longwatch.units import (
    format_duration,
    format_size,
    nearest,
    parse_duration,
    parse_gnu_duration,
    parse_size,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
else:
    import _signal


def convert(option: Option, text: str) -> object:
    """Read an option's text as its kind says. Raises UsageError whose text begins with the refused words."""
    return READERS[option.kind](option, text)


def describe(option: Option, value: object) -> str:
    """Return a value as a user would write it."""
    if option.kind in ("duration", "clamped-duration", "span", "gnu-duration", "size"):
        form = format_size if option.kind == "size" else format_duration
        return form(value) if isinstance(value, int) and value else "off"
    if option.kind in ("signal", "gnu-signal"):
        return signal_name(int(str(value)))
    if option.kind == "count":
        return str(value or "off")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ",".join(_pair(option, key, item) for key, item in value.items())
    return ",".join(value) if isinstance(value, tuple) else "unset" if value is None else str(value)


def _pair(option: Option, key: str, item: object) -> str:
    if option.kind == "budgets":
        item = format_duration(item) if isinstance(item, int) and item else "off"
    return f"{key}={item}" if key else str(item)


def parse_signal(text: str, lowest: int = 1) -> int:
    """Return a signal's number from `TERM`, `SIGTERM`, `term` or `15`. Raises UsageError."""
    word = text.strip().upper().removeprefix("SIG")
    if word.isascii() and word.isdigit() and len(word) < 4:
        number: int | None = int(word)
    else:
        number = _signals().get(word)
    if number is None or not lowest <= number < _signal.NSIG:
        guess = nearest(word, _signals())
        raise UsageError(
            f"{shown(text)}: no such signal; " + (f"did you mean {guess}?" if guess else "write TERM or 15")
        )
    return number


def signal_name(number: int) -> str:
    """Return `TERM` for 15; the number itself where it has no name."""
    names = {value: name for name, value in reversed(_signals().items())}
    return names.get(number, str(number))


def signal_names() -> tuple[str, ...]:
    """Return the names of the platform's signals, in order of their numbers."""
    return tuple(_signals())


def _signals() -> dict[str, int]:
    """Name the platform's signals in order of their numbers, the usual name of two first (ABRT before IOT)."""
    found = [
        (getattr(_signal, name), name[3:]) for name in dir(_signal) if name[:3] == "SIG" and name[3] != "_"
    ]
    return {name: number for number, name in sorted(found)}


def _read_span(_option: Option, text: str) -> int:
    span = parse_duration(text)
    if not span:
        raise UsageError(f"{shown(text)}: a stop has to end; write 1ms to kill at once")
    return span


def _read_choice(option: Option, text: str) -> str:
    word = text.strip()
    if word in option.choices:
        return word
    guess = nearest(word, option.choices)
    hint = (
        f"did you mean {guess}?"
        if guess
        else "write " + ", ".join(option.choices[:-1]) + f" or {option.choices[-1]}"
    )
    raise UsageError(f"{shown(text)}: no such {option.metavar.lower()}; {hint}")


def _read_flag(_option: Option, text: str) -> bool:
    word = text.lower()
    if word in ("1", "yes", "true", "on"):
        return True
    if word in ("0", "no", "false", "off"):
        return False
    raise UsageError(f"{shown(text)}: neither yes nor no; write 1 or 0")


def _read_source(_option: Option, text: str) -> tuple[str, ...]:
    word = text.strip()
    if word in SOURCES or (word.startswith("file:") and len(word) > 5):
        return (word,)
    guess = nearest(word, (*SOURCES, "file:GLOB"))
    hint = f"did you mean {guess}?" if guess else f"sources are {', '.join(SOURCES)} and file:GLOB"
    raise UsageError(f"{shown(text)}: no such source; {hint}")


def _read_folder(option: Option, text: str) -> tuple[str, ...]:
    if not os.path.isdir(_read_some(option, text)):
        raise UsageError(f"{shown(text)}: no such folder; write the path of one that is there")
    return (text,)


def _read_status(_option: Option, text: str) -> dict[str, int]:
    reason, equals, number = text.strip().partition("=")
    reason = reason.replace("-", "_")
    if not equals:
        raise UsageError(f"{shown(text)}: no exit status in it; write REASON=N, such as idle=75")
    if reason not in REASONS:
        guess = nearest(reason, REASONS)
        hint = f"did you mean {guess}?" if guess else "reasons are " + ", ".join(REASONS)
        raise UsageError(f"{shown(text)}: no such reason; {hint}")
    if not (number.isascii() and number.isdigit() and len(number) < 4 and int(number) < 256):
        raise UsageError(f"{shown(text)}: no exit status; write a number from 0 to 255 behind {reason}=")
    return {reason: int(number)}


def _read_name(_option: Option, text: str) -> str:
    """Names stand in ids and paths as they are: `paths.safe_name` must have nothing to change."""
    plain = text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    if not plain or text.strip("-.") != text or len(text) > 40:
        raise UsageError(
            f"{shown(text)}: no name; write up to 40 letters, digits, -, _ and ., such as nightly-build"
        )
    return text


def _read_budget(_option: Option, text: str) -> dict[str, int]:
    if "," in text:
        raise UsageError(f"{shown(text)}: one budget at a time; give the option again for the next")
    tool, equals, span = text.strip().rpartition("=")
    if equals and not tool:
        raise UsageError(f"{shown(text)}: no tool in it; write TOOL=DURATION, such as Bash=30m")
    return {tool: parse_duration(span)}


#: The limits whose step somebody may set; `idle` has an option of its own, and nothing makes a soft limit stop.
STEPPED = ("first", "stall", "call", "ceiling", "timeout", "ask", "linger", "effect", "loop")


def _read_action(option: Option, text: str) -> dict[str, str]:
    limit, equals, action = text.strip().partition("=")
    if not equals:
        raise UsageError(f"{shown(text)}: no action in it; write LIMIT=ACTION, such as stall=stop")
    for word, words in ((limit, STEPPED), (action, option.choices)):
        if word not in words:
            guess = nearest(word, words)
            hint = f"did you mean {guess}?" if guess else f"write one of {', '.join(words)}"
            raise UsageError(f"{shown(text)}: {shown(word)} is none; {hint}")
    return {limit: action}


def _read_count(_option: Option, text: str) -> int:
    word = text.strip()
    if word == "off":
        return 0
    if not (word.isascii() and word.isdigit() and len(word) < 7) or int(word) == 1:
        raise UsageError(f"{shown(text)}: no count; write a number from 2 on, or off")
    return int(word)


def _read_width(_option: Option, text: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 4 and 1 <= int(word) <= 32):
        raise UsageError(f"{shown(text)}: no width; write a number from 1 to 32")
    return int(word)


def _read_some(option: Option, text: str) -> str:
    if not text.strip() or "\0" in text:
        raise UsageError(f"{shown(text)}: nothing in it; write a {option.metavar}")
    return text


READERS: "dict[str, Callable[[Option, str], object]]" = {
    "duration": lambda _, text: parse_duration(text),
    "clamped-duration": lambda _, text: parse_duration(text, clamp=True),
    "gnu-duration": lambda _, text: parse_gnu_duration(text) or 0,
    "span": _read_span,
    "size": lambda _, text: parse_size(text),
    "signal": lambda _, text: parse_signal(text),
    "gnu-signal": lambda _, text: parse_signal(text, 0),
    "text": _read_some,
    "file": _read_some,
    "command": _read_some,
    "name": _read_name,
    "choice": _read_choice,
    "flag": _read_flag,
    "sources": _read_source,
    "statuses": _read_status,
    "folders": _read_folder,
    "count": _read_count,
    "budgets": _read_budget,
    "actions": _read_action,
    "width": _read_width,
}
