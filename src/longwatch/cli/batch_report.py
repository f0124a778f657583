"""What became of a plan: the report of all its items, and the removal of what nobody needs any more."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from longwatch.cli.render import clean, emit, fail, how_it_ended, paint, table
from longwatch.config.plan_file import Loaded
from longwatch.core.outcomes import LIMITED
from longwatch.core.plan import Plan
from longwatch.core.workstream import ABANDONED, COMPLETED, FAILED, PENDING, RUNNING, removable
from longwatch.hands import place_of
from longwatch.jsonlean import dumps
from longwatch.posix.atomic import replace
from longwatch.store.workstreams import WORK, Workstreams
from longwatch.units import ago, format_duration, format_size
from longwatch.work.steps import Command, Steps, WorkError, walk
from longwatch.work.trees import LOCAL, remove, stays

_HEADS = ("ITEM", "STATE", "ENDED", "ATTEMPT", "TOOK", "CHECKPOINT", "BRANCH", "REMOVABLE")
_COLOURS = {COMPLETED: "green", RUNNING: "cyan", PENDING: "white"}


def result_of(shelf: Workstreams, loaded: Loaded) -> dict[str, Any]:
    """Return the report of a plan as plain values."""
    items = [_item(shelf, work.id, work.branch, work.description) for work in loaded.works]
    counts: dict[str, int] = {}
    for item in items:
        counts[item["lifecycle"]] = counts.get(item["lifecycle"], 0) + 1
    return {
        "plan": loaded.path,
        "name": loaded.name,
        "base": shelf.base,
        "counts": counts,
        "total": len(items),
        "runtime_ms": sum(item["runtime_ms"] for item in items),
        "freed_bytes": sum(item["freed_bytes"] for item in items),
        "items": items,
    }


def _item(shelf: Workstreams, name: str, branch: str, description: str) -> dict[str, Any]:
    state = shelf.load(name) or {"lifecycle": PENDING, "attempt": 0}
    lifecycle = state["lifecycle"]
    return {
        "id": name,
        "description": description,
        "lifecycle": lifecycle,
        "ok": lifecycle == COMPLETED,
        "attempt": state.get("attempt", 0),
        "termination_reason": state.get("reason"),
        "exit_code": state.get("exit_code"),
        "signal": state.get("signal"),
        "error": state.get("error") or None,
        "left_out": state.get("left_out"),
        "over_budget": bool(state.get("over_budget")),
        "runtime_ms": state.get("runtime_ms", 0),
        "limit": state.get("limit"),
        "idle_ms": state.get("idle_ms"),
        "level": state.get("level_name"),
        "checkpoint": state.get("checkpoint"),
        "session": state.get("session"),
        "branch": state.get("branch") or branch or None,
        "work_dir": state.get("work_dir"),
        "log": state.get("log"),
        "result": state.get("result"),
        "run": state.get("run"),
        "values_from": state.get("values_from") or {},
        "freed_bytes": state.get("freed_bytes", 0),
        "cleanup_eligible": removable(lifecycle) and state.get("attempt", 0) > 0,
    }


def show(shelf: Workstreams, loaded: Loaded, *, as_json: bool, only: Sequence[str] = ()) -> int:
    """Print the report, and keep it beside the states; return 0 where every item (of `only`) is completed."""
    told = result_of(shelf, loaded)
    try:
        replace(os.path.join(shelf.base, "report.json"), dumps({"schema": 1, **told}).encode())
    except OSError as error:
        click.echo(f"longwatch: {shelf.base}/report.json: {error.strerror}", err=True)
    if as_json:
        emit(told)
    else:
        click.echo(table(_HEADS, [_row(item) for item in told["items"]]))
        click.echo(_sum(told))
        for line in _next_steps(told, loaded):
            click.echo(line)
    return 0 if all(item["ok"] for item in told["items"] if not only or item["id"] in only) else 1


def _row(item: Mapping[str, Any]) -> list[str]:
    return [
        paint(clean(item["id"]), _COLOURS.get(item["lifecycle"], "red")),
        item["lifecycle"] + (", over budget" if item["over_budget"] else ""),
        _ended(item),
        str(item["attempt"] or "-"),
        ago(item["runtime_ms"]) if item["attempt"] else "-",
        clean(item["checkpoint"] or "-"),
        clean(item["branch"] or "-"),
        "yes" if item["cleanup_eligible"] else "no",
    ]


def _ended(item: Mapping[str, Any]) -> str:
    if item["left_out"] and item["lifecycle"] == PENDING:
        return clean(item["left_out"])
    if item["termination_reason"] is None:
        return "-"
    if item["termination_reason"] == "spawn_failed":
        return clean(item["error"] or "could not be started")
    limit = item["limit"] if item["termination_reason"] in LIMITED else None
    if isinstance(limit, dict):
        return f"stopped: {clean(limit['name'])} limit of {format_duration(limit['window_ms'])}"
    return how_it_ended(item)


def _items(count: int) -> str:
    return "one item" if count == 1 else f"{count} items"


def _from_here(path: str) -> str:
    """Return a path as it would be typed here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _folders(count: int) -> str:
    return "the folder of one of them" if count == 1 else f"the folders of {count} of them"


def _sum(told: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(told["counts"].items()))
    return f"{_items(told['total'])}: {counts}; {ago(told['runtime_ms'])} of work in all"


def _next_steps(told: Mapping[str, Any], loaded: Loaded) -> list[str]:
    items, plan = told["items"], clean(_from_here(loaded.path))
    failed = [item for item in items if item["lifecycle"] in FAILED and item["run"]]
    name = clean(loaded.name)
    lines = [f"longwatch why {name}/{clean(item['id'])} says what ended it" for item in failed[:1]]
    lifecycles = {item["id"]: item["lifecycle"] for item in items}
    going_on = Plan([work.item for work in loaded.works], kept=lifecycles).to_come()
    if going_on:
        lines.append(f"longwatch batch run {plan} --resume goes on with {len(going_on)} of {len(items)}")
    folders = [item for item in items if item["cleanup_eligible"] and item["work_dir"]]
    return lines + ([f"longwatch batch cleanup {plan} removes {_folders(len(folders))}"] if folders else [])


def clean_up(
    shelf: Workstreams, loaded: Loaded, abandon: Sequence[str], *, dry_run: bool, as_json: bool
) -> int:
    """Remove the folders of what is over; return 0 where all went well."""
    known = {work.id for work in loaded.works}
    for name in abandon:
        if name not in known:
            fail(f"{clean(name)} is no item of {loaded.path}", 4)
    told = [_cleaned(shelf, work.id, abandoned=work.id in abandon, dry_run=dry_run) for work in loaded.works]
    freed = sum(one["freed"] for one in told)
    if as_json:
        emit({"dry_run": dry_run, "freed": freed, "items": told})
    else:
        for one in told:
            if one["did"] or one["why"]:
                click.echo(f"{clean(one['id'])}: {one['did'] or 'stays: ' + clean(one['why'])}")
        click.echo(
            f"{format_size(freed)} {'would be ' if dry_run else ''}freed; logs stay in {shelf.base}/logs"
        )
    return 1 if any(one["failed"] for one in told) else 0


def _cleaned(shelf: Workstreams, name: str, *, abandoned: bool, dry_run: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"id": name, "did": "", "why": "", "freed": 0, "failed": False}
    state = shelf.load(name)
    if state is None or not state.get("work_dir") or not os.path.isdir(state["work_dir"]):
        return told
    lifecycle = ABANDONED if abandoned else state["lifecycle"]
    why = _not_ours(shelf, state, lifecycle)
    size = _size(state["work_dir"])
    try:
        why = why or walk((_would_stay if dry_run else _removed)(state, by_force=abandoned))
    except WorkError as error:
        return {**told, "why": str(error), "failed": True}
    if why:
        return {**told, "why": why}
    what = f"{state['work_dir']} ({format_size(size)})"
    if not dry_run:
        shelf.save({**state, "lifecycle": lifecycle, "work_dir": None, "freed_bytes": size})
    return {**told, "did": f"would remove {what}" if dry_run else f"removed {what}", "freed": size}


def _not_ours(shelf: Workstreams, state: Mapping[str, Any], lifecycle: str) -> str:
    """Return why nobody may touch a folder, whatever is in it."""
    if not removable(lifecycle):
        return f"it is {lifecycle}"
    if os.path.dirname(os.path.abspath(state["work_dir"])) != os.path.join(shelf.base, WORK):
        return f"{state['work_dir']} is no folder of ours"
    return ""


def _would_stay(state: Mapping[str, Any], *, by_force: bool) -> Steps[str]:
    """Return why the folder of an item would stay."""
    place = place_of(state)
    return "" if place is None or by_force else (yield from stays(place))


def _removed(state: Mapping[str, Any], *, by_force: bool) -> Steps[str]:
    """Remove the folder of an item; return why it stays. What was given up by name goes unmerged, its branch stays."""
    place = place_of(state)
    if place is not None and not by_force:
        return (yield from remove(place))
    if place is not None:
        done = yield Command(("git", "worktree", "remove", "--force", place.path), LOCAL, place.repository)
        return "" if done.ok else done.words
    done = yield Command(("rm", "-rf", "--", str(state["work_dir"])), LOCAL)
    return "" if done.ok else done.words


def _size(folder: str) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                continue
    return total
