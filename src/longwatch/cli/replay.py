"""`longwatch replay`: what an agent did by its transcript, and when each limit would have fired."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.render import emit, note
from longwatch.cli.specs import spec_of
from longwatch.cli.table import TableType
from longwatch.core.spec import LimitSpec
from longwatch.errors import UsageError
from longwatch.options import FLAG, RUN_OPTIONS, Values, options_for

if TYPE_CHECKING:
    from longwatch.observe.dialects import Dialect

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

#: The limits that a transcript has the evidence for.
LIMITS = ("idle", "first", "stall", "call", "ceiling", "timeout", "soft", "ask", "linger")
_MISSING = "replay needs the package msgspec; install it with: pip install 'longwatch[all]'"


def limit_options(command: Decorated) -> Decorated:
    """Give a click command the limits of `run`, from the same table."""
    for option in reversed([option for option in options_for("watch") if option.name in LIMITS]):
        settings: dict[str, Any] = {"multiple": True} if option.repeatable else {}
        command = click.option(
            *option.flags,
            type=TableType(option),
            metavar=option.metavar,
            default=None,
            help=option.help,
            **settings,
        )(command)
    return command


@click.command(short_help="Say when limits would have fired on a recorded session.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@limit_options
@click.option("--dialect", metavar="NAME", help="Whose format it is, where the content does not tell.")
@click.option(
    "--rule", "rules", multiple=True, metavar="RULE", help="What a record means, in the dialect generic."
)
@click.option("--session", metavar="ID", default="", help="Which session of a database; else the newest.")
@click.option("--summary", is_flag=True, help="No list of events.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(
    files: tuple[str, ...], dialect: str | None, rules: tuple[str, ...], session: str, summary: bool, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Print what an agent did by its transcript: events, calls, silences, and when each limit would have fired.

    Files of one session, such as those of its helpers, are read together. Without a limit those hold that a run has
    that names none.
    """
    try:
        # They need a package that may be missing.
        from longwatch.cli.replayed import page, record  # noqa: PLC0415
        from longwatch.learn.sessions import sessions  # noqa: PLC0415
    except ImportError as error:
        if error.name != "msgspec":
            raise
        raise UsageError(_MISSING) from error
    limits = _limits(given)
    answers = []
    for place, found in enumerate(sessions(files, _dialect(dialect, rules), session)):
        if as_json:
            answers.append(record(found, limits, summary=summary))
        else:
            click.echo("\n" * (place > 0) + page(found, limits, summary=summary))
        for file in found.files:
            if file.bad:
                note(f"{file.path}: {file.bad} lines are no records")
    if as_json:
        emit({"replays": answers})


def _dialect(name: str | None, rules: tuple[str, ...]) -> "Dialect | None":
    from longwatch.observe.dialects import load  # noqa: PLC0415
    from longwatch.observe.dialects.generic import with_rules  # noqa: PLC0415

    if rules and name not in (None, "generic"):
        raise UsageError(f"--rule: {name} has its own; leave --dialect out, or write --dialect generic")
    try:
        return with_rules(rules) if rules else None if name is None else load(name)
    except UsageError as error:
        raise UsageError(f"{'--rule' if rules else '--dialect'} {error}") from error


def _limits(given: dict[str, Any]) -> dict[str, LimitSpec]:
    values = Values(RUN_OPTIONS)
    for name, value in given.items():
        for part in value if isinstance(value, tuple) else (value,):
            if part is not None:
                values.put(name, part, FLAG)
    return {name: limit for name, limit in spec_of(values, merged=False).limits.items() if name in LIMITS}
