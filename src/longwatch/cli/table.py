"""Options of the table for click: for `watch`, which click parses, and for completing `run`, `timeout` and `tool`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from longwatch.core.outcomes import REASONS
from longwatch.errors import UsageError
from longwatch.option_kinds import convert, signal_names
from longwatch.option_table import SOURCES, Option
from longwatch.options import options_for

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # generic in newer versions of click only
    ParamType = click.ParamType

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class TableType(ParamType):
    """The value of one option, read and refused in the same words as by `run`."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.name = option.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a text; what is no text was read before."""
        if not isinstance(value, str):
            return value
        try:
            return convert(self.option, value)
        except UsageError as error:
            flag = param.opts[-1] if param else f"--{self.option.name}"
            raise click.UsageError(f"{flag} {error}", ctx) from None

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the words that the kind knows; files where it wants one."""
        del ctx, param
        if self.option.kind in ("file", "folders"):
            return [CompletionItem(incomplete, type="file" if self.option.kind == "file" else "dir")]
        return [CompletionItem(word) for word in self._words() if word.startswith(incomplete)]

    def _words(self) -> tuple[str, ...]:
        by_kind = {
            "choice": self.option.choices,
            "sources": (*SOURCES, "file:"),
            "statuses": tuple(f"{reason}=" for reason in REASONS),
            "signal": signal_names(),
            "gnu-signal": signal_names(),
        }
        return by_kind.get(self.option.kind, ())


def table_options(verb: str) -> Callable[[Decorated], Decorated]:
    """Give a click command the verb's options; an argument is None where its option was not given."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options_for(verb)):
            command = click.option(*_names(option), **_settings(option))(command)
        return command

    return decorate


class Shape(click.Command):
    """What `run`, `timeout` and `tool` look like: options end at the command, for completion too."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer files behind the command, whose options are its own."""
        if ctx.params.get("command"):
            return [CompletionItem(incomplete, type="file")]
        return super().shell_complete(ctx, incomplete)


def shape(verb: str, short_help: str) -> click.Command:
    """Return a command of the verb's shape for click to complete by; the lean front is what runs it."""
    parameters: list[click.Parameter] = [
        click.Option(_names(option), **_settings(option)) for option in options_for(verb) if not option.asks
    ]
    if verb == "timeout":
        parameters.append(click.Argument(["duration"]))
    parameters.append(click.Argument(["command"], nargs=-1, type=click.Path()))
    settings = {"allow_interspersed_args": False}
    return Shape(verb, params=parameters, short_help=short_help, context_settings=settings)


def _names(option: Option) -> list[str]:
    if option.name == "pty":
        return ["--pty/--no-pty"]
    return list(option.flags)


def _settings(option: Option) -> dict[str, Any]:
    if option.kind == "flag":
        return {"is_flag": True, "default": None, "help": option.help}
    settings = {"type": TableType(option), "metavar": option.metavar, "default": None, "help": option.help}
    if option.repeatable:
        return settings | {"multiple": True, "callback": _add_up}
    return settings


def _add_up(_ctx: click.Context, _param: click.Parameter, given: tuple[Any, ...]) -> Any:
    """Join the parts of an option that adds up; None when it was not given."""
    if not given:
        return None
    if isinstance(given[0], dict):
        return {reason: status for part in given for reason, status in part.items()}
    return tuple(dict.fromkeys(source for part in given for source in part))
