"""All verbs but the running of `run`, `timeout` and `tool`: a click group that loads one module per verb.

A verb's module exposes `command`, a click command. Its callback returns None or an exit status; it may raise
UsageError (2), StoreError (1) or OSError (1). Whatever a user can cause ends as one line on stderr.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import click
from click.exceptions import Exit, NoArgsIsHelpError, NoSuchOption
from click.shell_completion import CompletionItem, shell_complete

from longwatch import __version__
from longwatch.errors import LongwatchError, UsageError
from longwatch.units import nearest, shown

NAME = "longwatch"
COMPLETE = "_LONGWATCH_COMPLETE"
VERBS = {
    "run": "Run a command; stop it when it makes no progress.",
    "why": "Say why a run ended, or what it waits for now.",
    "ls": "List what is watched, with both clocks.",
    "runs": "List past runs.",
    "logs": "Show a run's output.",
    "stop": "End a run or a harness with its whole tree.",
    "watch": "Watch a process that already runs.",
    "quiet": "Inside a run: let a command be silent for a while.",
    "timeout": "As GNU timeout, but at the limit nothing escapes.",
    "init": "Write a first longwatch.toml for the agents found here.",
    "up": "Run the harnesses of longwatch.toml.",
    "down": "Stop the harnesses, and the daemon.",
    "reload": "Apply the file to the running daemon.",
    "start": "Start a harness.",
    "restart": "End a harness and start it anew.",
    "describe": "Say all about one harness.",
    "trigger": "Fire a harness now.",
    "attach": "Open the terminal of a harness.",
    "send": "Type a line into a harness.",
    "events": "Show what happened, and follow it.",
    "batch": "Run many resumable workstreams.",
    "unit": "Print a systemd unit for the daemon.",
    "mcp": "Serve a tool for agents that runs commands under your limits.",
    "tool": "Run a command for a model; tell as JSON how it ended.",
    "replay": "Say when limits would have fired on a recorded session.",
    "suggest": "Propose windows from what your agents have done.",
    "presets": "Show the programs that longwatch knows.",
    "config": "Check a file, trace a value, print the schemas.",
    "doctor": "Check this machine.",
    "completion": "Print the completion script of a shell.",
}
#: Called by programs: neither listed nor completed.
HIDDEN = ("hook", "checkpoint", "runner", "probe", "gc")
ALIASES = {"ps": "ls", "status": "ls"}
_FRONT = ("run", "timeout", "tool")
_OK, _FAILED, _USAGE = 0, 1, 2
#: What a shell reports of a writer whose reader went away; `ls` of coreutils ends so too.
_PIPE = 128 + signal.SIGPIPE


class Verbs(click.Group):
    """The group: a verb's module is imported when the verb is used, never to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a verb, by its name or alias."""
        del ctx
        verb = ALIASES.get(cmd_name, cmd_name)
        if verb in _FRONT:
            from longwatch.cli.table import shape  # noqa: PLC0415 - only completion needs it

            return shape(verb, VERBS[verb])
        if verb not in VERBS and verb not in HIDDEN:
            return None
        command: click.Command = importlib.import_module(f"longwatch.cli.{verb}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb when there is none of that name."""
        known = [*VERBS, *ALIASES]
        if args[0] not in (*known, *HIDDEN) and not args[0].startswith("-") and not ctx.resilient_parsing:
            guess = nearest(args[0], known)
            hint = f"did you mean {guess}?" if guess else f"{NAME} --help lists them"
            raise click.UsageError(f'no verb "{shown(args[0])}"; {hint}', ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the verbs without loading them, and our own options."""
        verbs = [
            CompletionItem(verb, help=text) for verb, text in VERBS.items() if verb.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without loading them."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _print_version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(f"{NAME} {__version__} (Python {sys.version.split()[0]})")
        ctx.exit()


GROUP = Verbs(
    NAME,
    help="Supervise long-running agents and commands by progress, never by elapsed time alone.",
    subcommand_metavar="VERB [ARGS]...",
    epilog=f"{NAME} VERB --help tells more about a verb.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
            help="Show the version and exit.",
        )
    ],
)  # fmt: skip


def main(args: Sequence[str]) -> int:
    """Perform a verb and return the exit status. Never raises for what a user can cause.

    Called without arguments by a shell that completes (`_LONGWATCH_COMPLETE` is set), it answers the shell.
    """
    instruction = os.environ.get(COMPLETE)
    if instruction:
        return shell_complete(GROUP, {}, NAME, COMPLETE, instruction)
    for stream in (sys.stdout, sys.stderr):
        # A file name may hold bytes that are no text here; a listing shows them escaped and goes on.
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = _perform(args)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return _PIPE
    except OSError as error:
        _forget_stdout()
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}", _FAILED)
    return status


def _perform(args: Sequence[str]) -> int:
    answer: object
    try:
        with GROUP.make_context(NAME, list(args)) as context:
            answer = GROUP.invoke(context)
    except Exit as ended:
        return ended.exit_code
    except (click.ClickException, LongwatchError) as error:
        return _refused(error)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    return answer if isinstance(answer, int) else _OK


def _refused(error: click.ClickException | LongwatchError) -> int:
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return _USAGE
    if isinstance(error, click.ClickException):
        return _complain(_said(error), _USAGE)
    return _complain(str(error), _USAGE if isinstance(error, UsageError) else _FAILED)


def _said(error: click.ClickException) -> str:
    """Put click's refusals into our words: one line, which verb, what to do next."""
    context: click.Context | None = getattr(error, "ctx", None)
    path = context.command_path.removeprefix(NAME).strip() if context else ""
    where = f"{path}: " if path else ""
    if isinstance(error, NoSuchOption):
        return where + _unknown_option(error.option_name, context)
    text = " ".join(error.format_message().split())
    if isinstance(error, click.MissingParameter) and context:
        usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
        return f"{where}{_missing(error)}; write {usage}"
    return where + text[:1].lower() + text[1:].rstrip(".")


def _missing(error: click.MissingParameter) -> str:
    names = error.param.make_metavar(error.ctx) if error.param and error.ctx else "an argument"
    flag = f"{error.param.opts[-1]} " if isinstance(error.param, click.Option) else ""
    return f"{flag}{names.strip('[].')} missing"


def _unknown_option(name: str, context: click.Context | None) -> str:
    known = [flag for param in context.command.get_params(context) for flag in param.opts] if context else []
    guess = nearest(name.lstrip("-"), [flag[2:] for flag in known if flag.startswith("--")])
    path = context.command_path if context else NAME
    return f"unknown option {shown(name)}; " + (
        f"did you mean --{guess}?" if guess else f"{path} --help lists all"
    )


def _complain(text: str, status: int) -> int:
    lines = text.replace("\n", f"\n{NAME}: ")
    click.echo(f"{NAME}: {lines}", err=True)
    return status


def _forget_stdout() -> None:
    """Let the interpreter's last flush of stdout go nowhere: its reader is gone, or its disk is full."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _interrupted() -> int:
    """End by the signal itself, so that a shell loop around us ends too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    return 128 + signal.SIGINT
