"""How the words of the file are read: texts, commands, paths, names, and closed sets of words."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence

from longwatch import presets
from longwatch.config import times
from longwatch.config.readers import Setting, each, said, wanted
from longwatch.errors import UsageError
from longwatch.option_kinds import READERS, parse_signal
from longwatch.option_table import OPTIONS
from longwatch.units import nearest, shown

#: Words of others for a program that nobody knows.
_NOBODY = (presets.NONE, "generic", "command")
_RUN = {option.name: option for option in OPTIONS if "run" in option.verbs}


def read_flag(value: object, _: Setting) -> bool:
    """Read yes or no."""
    if not isinstance(value, bool):
        raise wanted(value, "yes or no", "true or false, without quotes")
    return value


def read_text(value: object, _: Setting | None = None) -> str:
    """Read a text with something in it."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wanted(value, "text", "one in quotes, with something in it")
    return value


def read_texts(value: object, setting: Setting | None = None) -> tuple[str, ...]:
    """Read one text or several."""
    return each(read_text, value, setting)


def read_regexes(value: object, setting: Setting) -> tuple[str, ...]:
    """Read one regular expression or several."""
    return each(_read_regex, value, setting)


def _read_regex(value: object, _: Setting | None) -> str:
    text = read_text(value)
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"{shown(text)}: no regular expression: {error}") from None
    return text


def read_words(value: object, setting: Setting) -> tuple[str, ...]:
    """Read a command: a list is taken as it is, a text is split as a shell would, and no shell runs it."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise UsageError(
                f"{shown(value)}: {str(error).lower()}; write a list of words in its place"
            ) from None
    elif isinstance(value, list):
        words = value
    else:
        raise wanted(value, "command", '["claude", "-p", "..."]')
    bad = next((word for word in words if not isinstance(word, str) or "\0" in word), None)
    if bad is not None:
        raise UsageError(f"{said(bad)}: no word of a command; write it in quotes")
    return tuple(setting.variables.fill(word) for word in words)


def read_command(value: object, setting: Setting) -> tuple[str, ...]:
    """Read a command with a program in it."""
    words = read_words(value, setting)
    if not words or not words[0].strip():
        raise UsageError(f'{said(value)}: no program in it; write ["claude", "-p", "..."]')
    return words


def read_value(value: object, setting: Setting) -> str:
    """Read the value of a variable; numbers and truth are written as texts, so that nobody has to guess their form."""
    if not isinstance(value, str) or "\0" in value:
        raise wanted(value, "text", f'"{value}"' if isinstance(value, int | float) else "one in quotes")
    return setting.variables.fill(value)


def read_variable_name(value: object, _: Setting) -> str:
    """Read the name of a variable."""
    if not isinstance(value, str) or not value or "=" in value or "\0" in value:
        raise wanted(value, "name of a variable", "letters, digits and _")
    return value


def read_secret(value: object, setting: Setting) -> str:
    """Read what must not stand in the file itself. The refusal does not repeat it."""
    if not isinstance(value, str) or not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", value):
        raise UsageError(': a secret does not stand in the file; write "${NAME}", and NAME=... into env_file')
    return setting.variables.fill(value)


def read_path(value: object, setting: Setting | None) -> str:
    """Read a path; a relative one begins in the file's folder."""
    text = read_text(value)
    assert setting is not None
    filled = os.path.expanduser(setting.variables.fill(text))
    return os.path.normpath(os.path.join(setting.folder, filled))


def read_paths(value: object, setting: Setting) -> tuple[str, ...]:
    """Read one path or several."""
    return each(read_path, value, setting)


def read_filled(value: object, setting: Setting) -> str:
    """Read a text that may hold `${NAME}`."""
    return setting.variables.fill(read_text(value, setting))


def read_filled_texts(value: object, setting: Setting) -> tuple[str, ...]:
    """Read one such text or several."""
    return each(read_filled, value, setting)


def read_signal(value: object, _: Setting) -> int:
    """Read a signal by name or number."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise wanted(value, "signal", '"TERM" or 15')
    return parse_signal(str(value))


def read_sources(value: object, setting: Setting) -> tuple[str, ...]:
    """Read what counts as progress."""
    found = each(_read_source, value, setting)
    return tuple(dict.fromkeys(found))


def _read_source(value: object, _: Setting | None) -> str:
    sources = READERS["sources"](_RUN["progress"], read_text(value))
    assert isinstance(sources, tuple)
    return str(sources[0])


def read_address(value: object, _: Setting) -> str:
    """Read HOST:PORT; a host in brackets is IPv6."""
    found = (
        re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", value)
        if isinstance(value, str)
        else None
    )
    if found is None or not 0 < int(found[2]) < 65536:
        raise wanted(value, "address", '"127.0.0.1:7077"')
    return found[0]


def read_web_url(value: object, setting: Setting) -> str:
    """Read the address of something on the web."""
    text = read_filled(value, setting)
    if not re.match(r"https?://[^/\s]", text):
        raise wanted(value, "address of the web", '"https://..."')
    return text


def read_program(value: object, setting: Setting) -> tuple[str, ...]:
    """Read a command whose program is a path: what is looked for on PATH may be another one tomorrow."""
    words = read_command(value, setting)
    program = os.path.expanduser(words[0])
    if not os.path.isabs(program):
        raise UsageError(f"{said(value)}: not the whole path of a program; begin it with /")
    return (program, *words[1:])


def preset_words() -> tuple[str, ...]:
    """Return the words that a preset may be named by."""
    return (*presets.names(), "claude-code", *_NOBODY)


def read_preset(value: object, _: Setting) -> str:
    """Read the name of a known program; `none` for one that nobody knows."""
    word = read_text(value).strip()
    return presets.NONE if word in _NOBODY else presets.named(word).name


def read_name(value: object, _: Setting | None = None) -> str:
    """Read a name as it may stand in paths and ids."""
    name = READERS["name"](_RUN["name"], read_text(value))
    assert isinstance(name, str)
    return name


def read_schedule(value: object, setting: Setting) -> tuple[str, ...]:
    """Read the times at which it runs."""
    return each(lambda item, _: times.schedule_line(read_text(item)), value, setting)


def read_hours(value: object, setting: Setting) -> tuple[str, ...]:
    """Read the hours at which it may run."""
    return each(lambda item, _: times.hours_line(read_text(item)), value, setting)


def read_zone(value: object, _: Setting) -> str:
    """Read the name of a time zone."""
    return times.zone(read_text(value))


def one_of(
    what: str, choices: Sequence[str], meant: dict[str, str] | None = None
) -> Callable[[object, Setting], str]:
    """Return a reader of one word out of a closed set; `meant` are other words for some of them."""

    def read(value: object, _: Setting) -> str:
        word = (meant or {}).get(value, value) if isinstance(value, str) else value
        if isinstance(word, str) and word in choices:
            return word
        guess = nearest(str(value), choices)
        hint = f'did you mean "{guess}"?' if guess else "write " + " or ".join(f'"{c}"' for c in choices)
        raise UsageError(f"{said(value)}: no such {what}; {hint}")

    return read


def some_of(what: str, choices: Sequence[str]) -> Callable[[object, Setting], tuple[str, ...]]:
    """Return a reader of a list of words out of a closed set."""
    read = one_of(what, choices)

    def read_all(value: object, setting: Setting) -> tuple[str, ...]:
        return each(read, value, setting)

    return read_all
