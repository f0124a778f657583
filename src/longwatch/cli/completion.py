"""`longwatch completion SHELL`: the script that makes a shell complete verbs, options and their values."""

import click
from click.shell_completion import get_completion_class

from longwatch.cli.verbs import COMPLETE, GROUP, NAME

#: Where each shell looks at its start; shown in help, because nobody remembers it.
PLACES = {
    "bash": 'eval "$(longwatch completion bash)"                in ~/.bashrc',
    "zsh": 'eval "$(longwatch completion zsh)"                 in ~/.zshrc, after compinit',
    "fish": "longwatch completion fish | source                in ~/.config/fish/config.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(PLACES.values()))
@click.argument("shell", metavar="SHELL", type=click.Choice(tuple(PLACES)))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}; update click")
    complete = kind(GROUP, {}, NAME, COMPLETE)
    click.echo(complete.source_template % complete.source_vars())
