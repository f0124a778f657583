"""What a model reads of the tool, and what it may say: argv, cwd and stdin, and nothing about limits.

Nothing here knows the protocol. An unknown field is refused by us: the MCP package would drop it silently, and a
model would believe that it was heard.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from longwatch.tool.roots import Refusal, Roots
from longwatch.units import format_duration, format_size, shown

NAME = "run_command"
FIELDS = ("argv", "cwd", "stdin")


class Rules(NamedTuple):
    """What holds for every command: spans in ms (0: none), and the bytes of each stream that are kept."""

    timeout: int
    idle: int
    grace: int
    max_bytes: int


class Words(NamedTuple):
    """What a model asked for."""

    argv: list[str]
    cwd: str | None
    stdin: str | None


def describe(rules: Rules, roots: Roots) -> str:
    """Return the tool's description, with the limits that hold and whose they are."""
    return (
        "Run a program to its end and return its exit code and output. argv is the program and its arguments, one "
        'word each; there is no shell: for pipes and globs pass ["sh", "-c", "..."]. '
        f"{_limits(rules)} These limits were set by the human who runs this server; no field changes them. A command "
        "that reaches one is stopped with every process that it started; termination_reason says which it was, and "
        "what was printed until then is returned. Nothing that a command leaves running in the background outlives "
        f"it. Of each stream the first {format_size(rules.max_bytes)} are returned; truncated says that there was "
        f"more. Without stdin there is nothing to read. cwd has to be in {' or '.join(roots.paths)}; left out, it "
        f"is {roots.paths[0]}."
    )


def _limits(rules: Rules) -> str:
    spans = []
    if rules.timeout:
        spans.append(f"when it takes longer than {format_duration(rules.timeout)} in all")
    if rules.idle:
        spans.append(f"when it prints nothing for {format_duration(rules.idle)}")
    return f"It is stopped {' or '.join(spans)}." if spans else "No limit of time is set."


_TEXT = {"type": "string"}
INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "argv": {
            "type": "array",
            "items": _TEXT,
            "minItems": 1,
            "description": 'The program and its arguments, such as ["git", "status"].',
        },
        "cwd": {**_TEXT, "description": "Where to start, absolute or from the first allowed folder on."},
        "stdin": {**_TEXT, "description": "Text for the program to read."},
    },
    "required": ["argv"],
    "additionalProperties": False,
}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "exit_code": {"type": ["integer", "null"], "description": "null where a signal ended it"},
        "termination_reason": {**_TEXT, "description": "exited, or why it was stopped: timeout, idle, ..."},
        "duration_ms": {"type": "integer"},
        "truncated": {"type": "boolean", "description": "whether more was printed than is returned"},
        "stdout": _TEXT,
        "stderr": _TEXT,
    },
    "required": ["exit_code", "termination_reason", "duration_ms", "truncated", "stdout", "stderr"],
}


def read(arguments: Mapping[str, Any] | None) -> Words:
    """Check a model's arguments, every one of them. Raises Refusal with a line that says what to write instead."""
    given = dict(arguments or {})
    unknown = [name for name in given if name not in FIELDS]
    if unknown:
        raise Refusal(
            f"unknown field {', '.join(map(shown, unknown))}: {NAME} takes argv, cwd and stdin; "
            "limits are set by the human who runs this server"
        )
    return Words(_argv(given.get("argv")), _text(given, "cwd"), _text(given, "stdin"))


def _argv(value: object) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        got = (
            "nothing" if value is None else f"{_kind(value)}: {shown(json.dumps(value, ensure_ascii=False))}"
        )
        raise Refusal(f'argv has to be a list of texts such as ["git", "status"], not {got}')
    return value


def _text(given: Mapping[str, Any], name: str) -> str | None:
    """Return a field's text. null is what many a model writes where it means to say nothing."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise Refusal(f"{name} has to be a text, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    names = {bool: "true or false", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def clean(value: Any) -> Any:
    """Return a value whose texts are all UTF-8: file names and command lines may hold bytes that are none."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


__all__ = ["FIELDS", "INPUT", "NAME", "OUTPUT", "Rules", "Words", "clean", "describe", "read"]
