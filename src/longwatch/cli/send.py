"""`longwatch send`: type a line into a harness, with the Enter key behind it."""

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of


@click.command("send")
@click.argument("name")
@click.argument("text")
@config_option
def command(name: str, text: str, config: str | None) -> None:
    """Type TEXT and Enter into the terminal of a harness, or a line into its input. It does not count as progress."""
    with answers():
        daemon_of(config).send(name, text.encode("utf-8", "surrogateescape"), newline=True)
