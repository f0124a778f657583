"""How a key of a file is described: its kind, what it does, its built-in, and on what it may stand.

What is an option of `run` too takes its words from the table of options.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from longwatch.core.harness import KINDS
from longwatch.option_kinds import describe
from longwatch.option_table import OPTIONS

#: The groups of keys in the order in which the reference shows them.
GROUPS = {
    "program": "The program",
    "limits": "Limits",
    "evidence": "What counts as progress",
    "stopping": "How it is stopped",
    "restarts": "What follows an end",
    "agent": "Agents and their conversations",
    "times": "When it runs",
    "budgets": "Budgets",
    "records": "What is kept, and who may do what",
}
_RUN = {option.name: option for option in OPTIONS if "run" in option.verbs}


def key(group: str, text: str, built_in: str = "unset", *, why: str = "", on: tuple[str, ...] = KINDS) -> Any:
    """Describe a key that is no option: what it does, its built-in in words, on which kinds of harness it may stand."""
    extra: dict[str, Any] = {"x-group": group, "x-built-in": built_in, "x-why": why, "x-on": list(on)}
    return Field(default=None, description=text, json_schema_extra=extra)


def option(
    name: str,
    built_in: str | None = None,
    *,
    why: str | None = None,
    text: str = "",
    group: str = "",
    on: tuple[str, ...] = KINDS,
) -> Any:
    """Describe a key that is an option of `run`: its words are those of the option, but for what is given here."""
    row = _RUN[name]
    told = _in_file(row.why) if why is None else why
    shown = describe(row, row.default) if built_in is None else built_in
    return key(group or row.group, text or _in_file(row.help), shown, why=told, on=on)


def _in_file(text: str) -> str:
    """Name keys where a text names flags."""
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: f"`{flag[1].replace('-', '_')}`", text)


def action(limit: str, built_in: str, *, on: tuple[str, ...] = KINDS) -> Any:
    """Describe the step of a limit."""
    text = f"The most that `{limit}` may do: none, notify, nudge, stop; of a resident program also restart."
    why = "" if limit != "stall_timeout" else (
        'A stalled program may be right: being wrong then costs a message. `"restart"` starts it again whatever '
        "`restart` says; after five stalls without any progress it is only reported."
    )  # fmt: skip
    return key("limits", text, built_in, why=why, on=on)


class Table(BaseModel):
    """A table of the file. Nobody's typing error becomes a default: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
