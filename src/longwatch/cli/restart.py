"""`longwatch restart`: end a harness with its whole tree and start it anew, once nothing of it is left."""

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.render import duration
from longwatch.cli.start import tell


@click.command("restart")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-k", "--kill-after", metavar="DURATION", help="From TERM to KILL; else as the file says.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, a line for each.")
def command(names: tuple[str, ...], kill_after: str | None, config: str | None, as_json: bool) -> None:
    """End harnesses, prove that they are gone, start them again. Clears what they had given up."""
    grace = duration("--kill-after", kill_after)
    daemon = daemon_of(config)
    for name in names:
        with answers():
            told = daemon.restart(name, kill_after_ms=grace)
        tell(name, told, "restarted", as_json=as_json)
