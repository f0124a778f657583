"""What somebody asks us to start, made sure of before anything is started. Every refusal is a UsageError of one line.

The words may come from a model, so whatever a text can hold is met here and not in the kernel.
"""

import os

from longwatch.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Path = str | os.PathLike[str]


def command(argv: "Sequence[Path]") -> list[str]:
    """Return a command's words as text."""
    if isinstance(argv, str | bytes):
        raise UsageError(f"argv is a list of words, not {argv!r}; for a shell pass ['sh', '-c', ...]")
    found = [_plain("argv has a word that", word) for word in argv]
    if not found:
        raise UsageError("argv is empty, there is no program to run; pass its name")
    return found


def folder(cwd: "Path | None") -> str | None:
    """Return a working directory as text; whether it is there is found out by the start."""
    return None if cwd is None else _plain("cwd is a path that", cwd)


def environment(env: "Mapping[str, str]") -> dict[str, str]:
    """Return an environment that a program can be given."""
    for name, value in env.items():
        if not _plain("env has a name that", name) or "=" in name:
            raise UsageError(f"env has a name that no variable can have: {name!r}; leave it out")
        _plain(f"env[{name!r}]", value)
    return dict(env)


def data(input: str | bytes) -> bytes:  # noqa: A002
    """Return what is to be read as bytes; a text becomes UTF-8."""
    if not isinstance(input, str):
        return input
    try:
        return input.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"input is a text that has no UTF-8 form ({error.reason}); pass bytes") from None


def _plain(what: str, word: "Path") -> str:
    """Return a word that the kernel takes."""
    try:
        text = os.fsdecode(word)
        os.fsencode(text)
    except TypeError:
        raise UsageError(f"{what} is no text: {word!r}; pass a str") from None
    except UnicodeEncodeError:
        raise UsageError(f"{what} cannot be written in this system's encoding: {word!r}") from None
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL: {word!r}; no program can be given that")
    return text
