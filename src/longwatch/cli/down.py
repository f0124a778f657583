"""`longwatch down`: end the daemon, and with it every harness, proven; or leave the harnesses to the keeper."""

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.render import clean, emit, fail


@click.command("down")
@click.option(
    "--keep", is_flag=True, help="End the daemon alone; its harnesses run on, and the next `up` finds them."
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(keep: bool, config: str | None, as_json: bool) -> None:
    """Stop all harnesses with their whole trees, then the daemon."""
    daemon = daemon_of(config)
    with answers():
        told = daemon.down(keep=keep)
    stopped, kept, left = (told.get(key) or [] for key in ("stopped", "kept", "survivors"))
    if as_json:
        emit(told)
    elif kept:
        click.echo(f"the daemon ended; {_named(kept)} {_run(kept)} on, and longwatch up goes on with them")
    elif stopped:
        click.echo(f"stopped {_named(stopped)}; the daemon ended")
    else:
        click.echo("the daemon ended; nothing was running")
    if left:
        fail(f"still alive: {_named(left)}")


def _named(names: list[object]) -> str:
    return clean(", ".join(map(str, names)))


def _run(names: list[object]) -> str:
    return "runs" if len(names) == 1 else "run"
