"""Reading one table by its model: what is good of it, and a line for each thing that is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from longwatch.config import model
from longwatch.config.places import Path
from longwatch.config.problems import Report
from longwatch.config.readers import Setting, said
from longwatch.units import nearest, shown

_NESTED: dict[str, type[BaseModel]] = {"log": model.Log, "trigger": model.Trigger}
#: What other supervisors call it.
_MEANT = {
    "workdir": "cwd", "working_directory": "cwd", "working_dir": "cwd", "directory": "cwd", "dir": "cwd",
    "environment": "env", "environment_file": "env_file", "autostart": "enabled", "disabled": "enabled",
    "grace": "kill_after", "grace_period": "kill_after", "stop_grace": "kill_after", "stopwaitsecs": "kill_after",
    "stop_signal": "signal", "stopsignal": "signal", "cmd": "command", "exec": "command", "program": "command",
    "cron": "schedule", "triggers": "trigger", "webhook": "trigger", "stall": "stall_timeout", "tz": "timezone",
    "idle_timeout": "idle", "first_timeout": "first", "max_restarts": "intensity", "autorestart": "restart",
    "restart_policy": "restart", "tty": "pty", "terminal": "pty", "prompt": "args", "logs": "log",
}  # fmt: skip


def read(kind: type[BaseModel], raw: object, path: Path, setting: Setting, report: Report) -> dict[str, Any]:
    """Return the good values of the table at `path`, by key; tell everything else."""
    if not isinstance(raw, Mapping):
        report.error(path, f"{header(path)} = {said(raw)}: a table is wanted here")
        return {}
    good = dict(raw)
    for _ in range(2):
        try:
            table = kind.model_validate(good, context=setting)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                _tell(kind, details, path, report)
                good.pop(str(details["loc"][0]), None)
        else:
            return {name: getattr(table, name) for name in table.model_fields_set}
    return {}


def _tell(kind: type[BaseModel], details: Any, path: Path, report: Report) -> None:
    of_key = details["loc"][-1] == "[key]"
    whole: Path = (*path, *(part for part in details["loc"] if part != "[key]"))
    if details["type"] != "longwatch":
        report.error(whole, _message(kind, details, whole, len(path)))
        return
    table, key = _split(whole[:-1] if of_key else whole, len(path))
    for place, text in details["ctx"]["refusals"]:
        join = "" if text.startswith(":") else ": " if of_key else " = "
        report.error(
            whole if place is None else (*whole, place), f"{table} {key}{join}{text}".removeprefix("[] ")
        )


def _message(kind: type[BaseModel], details: Any, path: Path, depth: int) -> str:
    table, key = _split(path, depth)
    if details["type"] == "extra_forbidden":
        above = path[depth] if len(path) > depth + 1 else ""
        return unknown(str(path[-1]), header(path[:-1]), _NESTED.get(str(above), kind))
    if details["type"] == "missing":
        return f'{table} has no {key}; write {key} = "..."'
    wanted = f"write tables [{header(path)}]" if details["type"] == "list_type" else "a table is wanted here"
    return f"{table} {key} = {said(details['input'])}: {wanted}"


def unknown(key: str, table: str, kind: type[BaseModel]) -> str:
    """Return the line about a key that there is not, with the one that was probably meant."""
    known = list(kind.model_fields)
    guess = _MEANT.get(key) or nearest(key, known)
    elsewhere = next((name for name, other in _owners() if key in other.model_fields), None)
    if guess in known:
        hint = f'did you mean "{guess}"?'
    elif elsewhere:
        hint = f"it belongs into {elsewhere}"
    else:
        hint = "longwatch config schema lists all"
    return f'unknown key "{shown(key)}" in {table}; {hint}'


def outside(name: str, value: object) -> str:
    """Return the line about what stands at the top of the file and is none of its tables."""
    if isinstance(value, Mapping):
        guess = nearest(name, model.File.model_fields)
        if guess is None and {"command", "harness", "preset"} & value.keys():
            guess = f"harness.{name}"
        hint = (
            f"did you mean [{guess}]?"
            if guess
            else f"tables are {', '.join(f'[{t}]' for t in model.TABLES)} and [harness.NAME]"
        )
        return f"unknown table {header((name,))}; {hint}"
    known = model.Defaults.model_fields
    guess = name if name in known else _MEANT.get(name) or nearest(name, known)
    where = f'"{guess}" stands in [defaults] or [harness.NAME]' if guess else "every key stands in a table"
    return f'unknown key "{shown(name)}" outside of a table; {where}'


def _owners() -> list[tuple[str, type[BaseModel]]]:
    return [("[harness.NAME]", model.Harness), *((f"[{name}]", kind) for name, kind in model.TABLES.items())]


def _split(path: Path, depth: int) -> tuple[str, str]:
    """Tell the table that a key stands in from the key: in an array of tables it is the element."""
    numbers = [at for at, part in enumerate(path) if isinstance(part, int) and at < len(path) - 1]
    end = numbers[-1] + 1 if numbers else depth
    key = ".".join(str(part) for part in path[end:] if not isinstance(part, int))
    return header(path[:end]), key or str(path[-1])


def header(path: Path) -> str:
    """Return a table's path as it stands in a file."""
    words = ".".join(_quoted(part) for part in path if isinstance(part, str))
    return f"[[{words}]]" if any(isinstance(part, int) for part in path) else f"[{words}]"


def _quoted(part: str) -> str:
    bare = part.replace("-", "").replace("_", "")
    return part if bare.isascii() and bare.isalnum() else f'"{shown(part)}"'
