"""The text of a file of ours: read as UTF-8, and as TOML with the place of every key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tomli

from longwatch.config.places import Places
from longwatch.config.problems import Problem
from longwatch.errors import UsageError

if TYPE_CHECKING:
    from longwatch.config.problems import Report


def text_of(path: str) -> str:
    """Return the text of a file. Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise UsageError(f"{path}: no text in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def toml(path: str, text: str, report: Report) -> dict[str, Any] | None:
    """Return a text as TOML, and let the report know its places; None where it is none, which is told there."""
    try:
        raw = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        report.elsewhere(_syntax(path, text, error))
        return None
    report.places = Places.of(text)
    return raw


def _syntax(path: str, text: str, error: tomli.TOMLDecodeError) -> Problem:
    """Tell where the text stops being TOML; the commonest reason is a word without quotes."""
    line, column = int(error.lineno), int(error.colno)
    told = str(error.msg)
    lines = text.splitlines()
    bare = (
        re.match(r"\s*([\w.-]+)\s*=\s*([^\s\"'\[{#][^\s#\"']*)\s*(?:#.*)?$", lines[line - 1])
        if line <= len(lines)
        else None
    )
    if bare:
        told = f'{bare[1]} = {bare[2]}: a text stands in quotes; write {bare[1]} = "{bare[2]}"'
    twice = re.fullmatch(r"Cannot declare \((.*?),?\) twice", told)
    if twice:
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        told = f"[{name}] stands twice; join them"
    return Problem(path, line, column, told[:1].lower() + told[1:])
