"""`longwatch config`: check a file, trace a value to whoever set it, and print the schemas."""

import json
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from longwatch import presets
from longwatch.cli import schema as schemas
from longwatch.cli.help import spelled
from longwatch.cli.main import from_file
from longwatch.core.harness import KINDS
from longwatch.errors import UsageError
from longwatch.option_kinds import describe
from longwatch.option_table import Option
from longwatch.options import DEFAULT, FILE, PRESET, RUN_OPTIONS, Values, from_environment
from longwatch.preset_table import Preset
from longwatch.units import nearest, shown

if TYPE_CHECKING:
    from longwatch.config.explain import Value
    from longwatch.config.files import Loaded
    from longwatch.config.harnesses import Made
    from longwatch.config.problems import Problem
    from longwatch.core.harness import Harness

_NUMBERS = {"duration": "value_ms", "span": "value_ms", "size": "value_bytes"}


@click.group("config")
def command() -> None:
    """Check a file, trace a value, print the schemas."""


# -- check


@command.command("check")
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: str | None, as_json: bool) -> int:
    """Read longwatch.toml, or FILE, and print everything that is wrong with it. Nothing is started.

    Without FILE it is the one that up would take: LONGWATCH_CONFIG, the nearest longwatch.toml upwards, the user's.
    """
    loaded = _load(file)
    if as_json:
        click.echo(json.dumps(_checked(loaded)))
        return int(bool(loaded.errors))
    for problem in loaded.warnings:
        click.echo(f"{_near(problem)} (warning)", err=True)
    for problem in loaded.errors:
        click.echo(_near(problem), err=True)
    if loaded.errors:
        return 1
    click.echo(f"{_nearby(loaded.path)}: ok, {_counted(loaded.harnesses)}")
    for name, notes in loaded.notes.items():
        click.echo(f"  {name}: {'; '.join(notes)}")
    return 0


def _load(file: str | None) -> "Loaded":
    from longwatch.config.files import load  # noqa: PLC0415 - the model costs more than all the rest of this module
    from longwatch.config.finding import find  # noqa: PLC0415

    return load(find(file))


def _checked(loaded: "Loaded") -> dict[str, Any]:
    return {
        "schema": 1,
        "config": os.path.realpath(loaded.path),
        "ok": not loaded.errors,
        "errors": [problem.as_dict() for problem in loaded.errors],
        "warnings": [problem.as_dict() for problem in loaded.warnings],
        "harnesses": [{"name": harness.name, "kind": harness.kind} for harness in loaded.harnesses],
    }


def _near(problem: "Problem") -> str:
    return str(type(problem)(_nearby(problem.file), problem.line, problem.column, problem.message))


def _nearby(path: str) -> str:
    """Return a path as somebody who stands here would write it."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _counted(harnesses: "Iterable[Harness]") -> str:
    count = Counter(harness.kind for harness in harnesses)
    total = sum(count.values())
    kinds = ", ".join(f"{count[kind]} {kind}" for kind in KINDS if count[kind])
    return f"{total} {'harness' if total == 1 else 'harnesses'}" + (f" ({kinds})" if kinds else "")


# -- explain


@command.command("explain")
@click.argument("name", required=False, metavar="[NAME[.KEY]]")
@click.option("--config", "file", metavar="FILE", help="The file that NAME stands in, or that run is given.")
@click.option("--preset", "preset", metavar="NAME", help="As for a program that is known by this name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(name: str | None, file: str | None, preset: str | None, as_json: bool) -> int:
    """Show every value of a harness of longwatch.toml, or one KEY of it, who set it, and why the built-in is what it is.

    Without NAME: every option of `run` in this environment, and with --config of a run that is given this FILE.
    """
    if name is None:
        _explain_run(preset, file, as_json=as_json)
        return 0
    if preset is not None:
        raise UsageError("config explain: a harness has its own preset; leave --preset out")
    return _explain_harness(name, file, as_json=as_json)


def _explain_harness(name: str, file: str | None, *, as_json: bool) -> int:
    from longwatch.config.explain import values  # noqa: PLC0415

    loaded = _load(file)
    made, key = _named(loaded, name)
    told = [str(problem) for problem in loaded.errors]
    if told:
        raise UsageError(
            f"{told[0]}" + (f" (and {len(told) - 1} more; longwatch config check)" if told[1:] else "")
        )
    assert made.harness is not None
    found = [value for value in values(made, made.harness) if key in ("", value.key)]
    if not found:
        known = [value.key for value in values(made, made.harness)]
        guess = nearest(key, known)
        hint = (
            f"did you mean {guess}?" if guess else f"longwatch config explain {made.settings.name} lists all"
        )
        raise UsageError(f"{shown(key)}: no such key of a {made.harness.kind} harness; {hint}")
    if as_json:
        listed = [
            {"name": v.key, "value": v.value, "source": v.source, "default": v.built_in, "why": v.why}
            for v in found
        ]
        click.echo(json.dumps({"schema": 1, "harness": made.settings.name, "options": listed}))
    else:
        for value in found:
            click.echo(_told(value))
    return 0


def _named(loaded: "Loaded", text: str) -> "tuple[Made, str]":
    """Return the harness of NAME or NAME.KEY; a name may have dots itself."""
    known = {made.settings.name: made for made in loaded.made}
    name, _, key = text.rpartition(".")
    if text in known:
        return known[text], ""
    if name in known:
        return known[name], key
    guess = nearest(name or text, known)
    hint = f"did you mean {guess}?" if guess else f"there are: {', '.join(known) or 'none'}"
    raise UsageError(f"{shown(name or text)}: no such harness in {_nearby(loaded.path)}; {hint}")


def _told(value: "Value") -> str:
    from longwatch.config.sources import BUILT_IN  # noqa: PLC0415

    head = f"{value.key}: {value.value} ({value.source})"
    if value.source != BUILT_IN:
        head += f"; built-in {value.built_in}"
    return "\n".join([head, *_wrapped(value.why)])


def _explain_run(name: str | None, file: str | None, *, as_json: bool) -> None:
    values = from_environment(os.environ, told=None if file is None else from_file(file, "run", None))
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
    if explained["source"] == FILE:
        explained["place"] = values.place(option.name)
    number = _NUMBERS.get(option.kind)
    return explained | ({number: value} if number else {})


def _paragraph(option: Option, values: Values, preset: Preset | None) -> str:
    source = values.source(option.name)
    who = "built-in" if source == DEFAULT else f"set by {option.variable}"
    if source == PRESET and preset is not None:
        who = f"preset {preset.name}"
    elif source == FILE:
        who = values.place(option.name)
    head = f"{spelled(option)}: {describe(option, values.get(option.name))} ({who})"
    if source != DEFAULT:
        head += f"; built-in {describe(option, option.default)}"
    lent = None if preset is None or source != PRESET else preset.limits.get(option.name)
    return "\n".join([head, *_wrapped(option.why if lent is None else lent.why)])


def _wrapped(why: str) -> list[str]:
    return textwrap.wrap(why, 84, initial_indent="    ", subsequent_indent="    ")


# -- schema


@command.command("rules")
def rules() -> None:
    """Print alerts on a daemon, as a file of rules for Prometheus."""
    from longwatch.metrics import rules as alerts  # noqa: PLC0415 - nothing else here needs it

    click.echo(alerts(), nl=False)


@command.command("schema")
@click.option(
    "--file", "make", flag_value="file", default="file", help="The file longwatch.toml (the default)."
)
@click.option("--limits", "make", flag_value="options", help="The options of run.")
@click.option("--report", "make", flag_value="report", help="The report of a run.")
@click.option("--events", "make", flag_value="events", help="A line of a run's events.")
def schema(make: str) -> None:
    """Print a JSON Schema, for editors and other programs."""
    makers: dict[str, Callable[[], schemas.Schema]] = {
        "file": _file_schema,
        "options": schemas.options_schema,
        "report": schemas.report_schema,
        "events": schemas.events_schema,
    }
    click.echo(json.dumps(makers[make](), indent=2))


def _file_schema() -> schemas.Schema:
    from longwatch.config.described import schema as of_the_file  # noqa: PLC0415

    return of_the_file()
