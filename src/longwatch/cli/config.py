"""`longwatch config`: trace a value to whoever set it, and print the schemas."""

import json
import os
import textwrap
from collections.abc import Callable
from typing import Any

import click

from longwatch import presets
from longwatch.cli import schema as schemas
from longwatch.cli.help import spelled
from longwatch.option_kinds import describe
from longwatch.option_table import Option
from longwatch.options import DEFAULT, PRESET, RUN_OPTIONS, Values, from_environment
from longwatch.preset_table import Preset

_NUMBERS = {"duration": "value_ms", "span": "value_ms", "size": "value_bytes"}


@click.group("config")
def command() -> None:
    """Trace a value, print the schemas."""


@command.command("explain")
@click.option("--preset", "name", metavar="NAME", help="As for a program that is known by this name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(name: str | None, as_json: bool) -> None:
    """Show every option of `run`: its value, who set it, and why the built-in is what it is."""
    values = from_environment(os.environ)
    preset = _preset(name or values.preset)
    if preset is not None:
        presets.lend(preset, values, [])
    for warning in values.warnings:
        click.echo(f"longwatch: {warning}", err=True)
    options = [option for option in RUN_OPTIONS if option.key]
    if as_json:
        explained = [_explained(option, values) for option in options]
        named = {} if preset is None else {"preset": preset.name}
        click.echo(json.dumps({"schema": 1, **named, "options": explained}))
        return
    for option in options:
        click.echo(_paragraph(option, values, preset))


def _preset(name: str | None) -> Preset | None:
    return None if name in (None, presets.NONE) else presets.named(str(name))


def _explained(option: Option, values: Values) -> dict[str, Any]:
    value = values.get(option.name)
    explained = {
        "name": option.name,
        "value": None if value is None else describe(option, value),
        "source": values.source(option.name),
        "variable": option.variable,
        "default": None if option.default is None else describe(option, option.default),
        "why": option.why,
    }
    number = _NUMBERS.get(option.kind)
    return explained | ({number: value} if number else {})


def _paragraph(option: Option, values: Values, preset: Preset | None) -> str:
    source = values.source(option.name)
    who = "built-in" if source == DEFAULT else f"set by {option.variable}"
    if source == PRESET and preset is not None:
        who = f"preset {preset.name}"
    head = f"{spelled(option)}: {describe(option, values.get(option.name))} ({who})"
    if source != DEFAULT:
        head += f"; built-in {describe(option, option.default)}"
    lent = None if preset is None or source != PRESET else preset.limits.get(option.name)
    why = option.why if lent is None else lent.why
    return "\n".join([head, *textwrap.wrap(why, 84, initial_indent="    ", subsequent_indent="    ")])


@command.command("schema")
@click.option(
    "--limits", "make", flag_value="options", default="options", help="The options of run (the default)."
)
@click.option("--report", "make", flag_value="report", help="The report of a run.")
@click.option("--events", "make", flag_value="events", help="A line of a run's events.")
def schema(make: str) -> None:
    """Print a JSON Schema."""
    makers: dict[str, Callable[[], schemas.Schema]] = {
        "options": schemas.options_schema,
        "report": schemas.report_schema,
        "events": schemas.events_schema,
    }
    click.echo(json.dumps(makers[make](), indent=2))
