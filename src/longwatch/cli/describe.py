"""`longwatch describe`: all about one harness: how it stands, its clocks, its limits and who set them."""

from typing import Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of, harness_line
from longwatch.cli.render import clean, emit, how_it_ended, paint, since, when
from longwatch.units import ago, format_duration

_INDENT = 12


@click.command("describe")
@click.argument("name", metavar="NAME")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, with its definition.")
def command(name: str, config: str | None, as_json: bool) -> None:
    """Say all about one harness."""
    daemon = daemon_of(config)
    with answers():
        told = daemon.describe(name)
    if as_json:
        emit(told)
        return
    click.echo(paint(harness_line(told, config), "cyan"))
    for head, lines in _story(told):
        for index, line in enumerate(lines):
            click.echo(f"  {head if index == 0 else '':<{_INDENT - 2}}{line}")


def _story(told: dict[str, Any]) -> list[tuple[str, list[str]]]:
    spec = told.get("spec") or {}
    return [
        ("command", [clean(" ".join(map(str, spec.get("command") or ())))]),
        ("folder", [clean(spec.get("cwd") or "?")]),
        ("running", _running(told)),
        ("progress", _progress(told)),
        (
            "calls",
            [
                f"{clean(call.get('tool'))} for {ago(call.get('since_ms') or 0)}"
                for call in told.get("calls") or ()
            ],
        ),
        ("limits", _limits(told)),
        ("restarts", _restarts(told, spec)),
        ("schedule", [clean(line) for line in spec.get("schedule") or ()]),
        ("next", [when(told["next_due"])] if told.get("next_due") else []),
        ("last run", _last(told.get("last_run"))),
        ("error", [clean(told["last_error"])] if told.get("last_error") else []),
        ("blind", [clean(told["blind"])] if told.get("blind") else []),
        ("log", [clean(told["log"])] if told.get("log") else []),
        ("note", [clean(text) for text in _notes(told)]),
    ]


def _running(told: dict[str, Any]) -> list[str]:
    if not told.get("pid"):
        return []
    attempt = told.get("attempt") or 1
    again = f", attempt {attempt}" if attempt > 1 else ""
    terminal = ", at a terminal of its own" if told.get("pty") else ""
    return [f"{clean(told.get('run'))}{again}, pid {told['pid']}{terminal}, since {when(told.get('since'))}"]


def _progress(told: dict[str, Any]) -> list[str]:
    if not told.get("pid"):
        return []
    source = f" ({clean(told['progress_source'])})" if told.get("progress_source") else ""
    words = [f"{since(told.get('progress_ms'))}{source}; alive {since(told.get('alive_ms'))}"]
    calls = told.get("model_calls") or {}
    if any(calls.values()):
        words.append(f"model calls: {calls.get('ok', 0)} good, {calls.get('failed', 0)} failed")
    return words


def _limits(told: dict[str, Any]) -> list[str]:
    return [
        limit_line(name, limit)
        for name, limit in (told.get("limits") or {}).items()
        if limit.get("window_ms")
    ]


def limit_line(name: str, limit: dict[str, Any]) -> str:
    """Return one limit: its window, what it does, what is left of it, and who set it."""
    text = f"{name} {format_duration(limit['window_ms'])}, then {clean(limit.get('action') or 'stop')}"
    if limit.get("left_ms") is not None:
        text += f"; {ago(max(limit['left_ms'], 0))} left"
    by = limit.get("by")
    return f"{text} (built-in)" if by in (None, "built-in") else f"{text} (set by {clean(by)})"


def _restarts(told: dict[str, Any], spec: dict[str, Any]) -> list[str]:
    policy = clean(spec.get("restart") or "?")
    return [
        f"{policy}; {told.get('restarts') or 0} lately, at most {spec.get('intensity')} in {format_duration(spec.get('period') or 0)}"
    ]


def _last(run: object) -> list[str]:
    if not isinstance(run, dict) or not run.get("run"):
        return []
    ended = f", {when(run['ended_at'])}" if run.get("ended_at") else ""
    return [f"{clean(run['run'])}: {how_it_ended(run)}{ended}"]


def _notes(told: dict[str, Any]) -> list[str]:
    note = told.get("note")
    return [str(one) for one in note] if isinstance(note, list) else [str(note)] if note else []
