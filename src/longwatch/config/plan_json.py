"""A plan written as JSON: a table as in TOML, or a list of workstreams, of which each may be an issue with its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from longwatch.config.places import Path, Places
from longwatch.config.plan_beside import policies
from longwatch.config.problems import Problem, Report
from longwatch.config.readers import said
from longwatch.core.workstream import CONTINUE, POLICIES

#: What a workstream in the older form has.
_KNOWN = (
    "issue", "branch", "task", "description", "max_runtime", "timeout_policy", "command", "preset", "git",
)  # fmt: skip


class Problems(Report):
    """Where the places are not known, as in JSON, a problem names its item instead. `items` are the tables."""

    def __init__(self, file: str) -> None:
        super().__init__(file, Places({}))
        self.items: object = None

    def _at(self, path: Path, message: str) -> Problem:
        if isinstance(self.items, list) and len(path) > 1 and path[0] == "item" and isinstance(path[1], int):
            table = self.items[path[1]]
            name = table.get("id") if isinstance(table, Mapping) else None
            head, message = f"item {name or path[1] + 1}", message.removeprefix("[[item]] ")
            message = message if message.startswith(head) else f"{head}: {message}"
        return super()._at(path, message)


def is_json(path: str, text: str) -> bool:
    """Whether a plan is meant to be JSON."""
    return path.endswith(".json") or text.lstrip()[:1] == "{"


def plan(path: str, text: str, report: Problems) -> dict[str, Any] | None:
    """Return the tables of a plan; None where it is none, which is told in the report."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        report.elsewhere(Problem(path, error.lineno, error.colno, error.msg[:1].lower() + error.msg[1:]))
        return None
    if isinstance(raw, list):
        return {"item": [_of_issue(one, number, report) for number, one in enumerate(raw)]}
    if not isinstance(raw, dict):
        report.error((), "a plan is a table, or a list of workstreams")
        return None
    report.items = raw.get("item")
    return raw


def _of_issue(one: object, number: int, report: Report) -> object:
    """Read a workstream in the older form: an issue, its branch, its task."""
    if not isinstance(one, Mapping) or "issue" not in one:
        return one
    for key in one:
        if key not in _KNOWN:
            report.warn(("item", number), f"workstream {number + 1}: {key} is not known here, and left out")
    issue = one["issue"]
    name = str(issue) if isinstance(issue, int | str) and not isinstance(issue, bool) else ""
    if not name.isdecimal() or int(name) <= 0:
        report.error(
            ("item", number), f"workstream {number + 1}: issue {said(issue)}: write a number from 1 on"
        )
    told: dict[str, object] = {
        "id": name or str(number + 1),
        "description": one.get("description") or f"Issue #{name}",
    }
    told |= {key: one[key] for key in ("branch", "command", "preset", "git") if key in one}
    told |= {"prompt": one["task"]} if "task" in one else {}
    if "max_runtime" in one:
        told["soft"] = f"{one['max_runtime']}s" if isinstance(one["max_runtime"], int) else one["max_runtime"]
    policy = one.get("timeout_policy", CONTINUE)
    if policy in POLICIES:
        told["policy"] = policy
    else:
        report.warn(
            ("item", number),
            f"workstream {number + 1}: timeout_policy {said(policy)}: {policies(str(policy))}; {CONTINUE} is taken",
        )
    return told
