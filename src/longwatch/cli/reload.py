"""`longwatch reload`: let the daemon read its file again. Nothing that runs is ended unless that was asked for."""

import os
from typing import Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.render import clean, emit, note
from longwatch.cli.render import fail as end


@click.command("reload")
@click.option("--dry-run", is_flag=True, help="Say what would change, change nothing.")
@click.option("--restart", is_flag=True, help="Restart the harnesses whose launch has changed.")
@click.option("--prune", is_flag=True, help="Stop the harnesses that the file no longer has.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(dry_run: bool, restart: bool, prune: bool, config: str | None, as_json: bool) -> int:
    """Apply the file: limits, notices and policies at once; a changed launch at the next start."""
    daemon = daemon_of(config)
    with answers():
        told = daemon.reload(dry_run=dry_run, restart=restart, prune=prune)
    errors = told.get("errors") or []
    if as_json:
        emit(told)
        return 1 if errors else 0
    for error in errors:
        click.echo(placed(error), err=True)
    for warning in told.get("warnings") or []:
        note(clean(warning))
    if errors:
        count = "one error" if len(errors) == 1 else f"{len(errors)} errors"
        end(f"{count} in the file; the daemon keeps what it had, and nothing was touched")
    for line in _changes(told, dry_run=dry_run):
        click.echo(line)
    return 0


def placed(error: dict[str, Any]) -> str:
    """Return an error of the file as its place and its words."""
    file = clean(str(error.get("file")).removeprefix(os.path.join(os.getcwd(), "")))
    line = error.get("line")
    return (
        f"{file}:{line}:{error.get('column')}: {error['message']}" if line else f"{file}: {error['message']}"
    )


def _changes(told: dict[str, Any], *, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    said = (
        ("applied", f"{would}applied", ""),
        ("added", f"{would}added", ""),
        ("restarted", f"{would}restarted", ""),
        ("pending", "pending restart", "; --restart does it now"),
        ("pruned", f"{would}stopped", ""),
        (
            "" if told.get("pruned") else "removed",
            "no longer in the file",
            "; what still runs goes on, --prune stops it",
        ),
    )
    lines = [f"{head}: {_names(told[key])}{tail}" for key, head, tail in said if told.get(key)]
    return lines or ["nothing has changed"]


def _names(found: list[Any]) -> str:
    return clean(", ".join(_name(one) for one in found))


def _name(one: Any) -> str:
    """Return a harness's name, with the keys that changed where they are told."""
    if not isinstance(one, dict):
        return str(one)
    keys = one.get("keys")
    return f"{one.get('name')} ({', '.join(keys)})" if keys else str(one.get("name"))
