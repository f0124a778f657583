"""`longwatch presets`: the programs that longwatch knows, what it makes of each, and why."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import click

from longwatch import presets
from longwatch.preset_table import PRESETS, Preset, Setting
from longwatch.units import format_duration

_WIDTH = 100


@click.command("presets", short_help="Show the programs that longwatch knows.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str | None, as_json: bool) -> None:
    """Show the programs that longwatch knows; with a NAME every value of one, and why it is so.

    A program is recognised by its name, also behind env, npx, uvx and the like. That sets limits where you have named
    none, and reads the records of an agent; its command line stays as it is. --preset NAME of run also adds flags.
    """
    chosen = PRESETS if name is None else (presets.named(name),)
    if as_json:
        click.echo(json.dumps({"schema": 1, "presets": [_as_dict(preset) for preset in chosen]}))
    elif name is None:
        for preset in chosen:
            click.echo(f"{preset.name:<14}{preset.about:<20}{', '.join(preset.programs)}")
    else:
        click.echo("\n".join(_page(chosen[0])))


def _as_dict(preset: Preset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "about": preset.about,
        "programs": list(preset.programs),
        "dialect": preset.dialect,
        "limits": {name: _setting(setting) for name, setting in preset.limits.items()},
        "calls": {tool: _setting(setting) for tool, setting in preset.call.items()},
        "additions": [
            {
                "words": list(each.words),
                "where": list(each.where),
                "unless": list(each.unless),
                "why": each.why,
            }
            for each in preset.additions
        ],
        "stdin": None if preset.stdin is None else {"value": "null", "why": preset.stdin.why},
        "headless": list(preset.headless),
        "result": preset.result or None,
        "resume": _resume(preset),
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {"window_ms": setting.window, "why": setting.why}


def _resume(preset: Preset) -> str | None:
    return presets.to_type(preset, [preset.programs[0]], "ID")


def _page(preset: Preset) -> Iterator[str]:
    yield f"{preset.name}: {preset.about}, recognised as {', '.join(preset.programs)}"
    for name, setting in preset.limits.items():
        yield from _line(f"{name} {format_duration(setting.window)}", setting.why)
    for tool, setting in preset.call.items():
        of = f" of {tool}" if tool else ""
        yield from _line(f"call{of} {format_duration(setting.window)}", setting.why)
    if preset.dialect is not None:
        sources = "output and transcript; in its own screen the screen and transcript"
        yield from _line(
            f"progress: {sources}", "Its records say what it is at; of several sources the newest counts."
        )
    if preset.result:
        yield from _line("result", f"It is {preset.result}.")
    for addition in preset.additions:
        where = f" beside {' or '.join(addition.where)}" if addition.where else ""
        yield from _line(f"--preset {preset.name} adds {' '.join(addition.words)}{where}", addition.why)
    if preset.stdin is not None:
        yield from _line(
            f"--preset {preset.name} leaves stdin empty, where nothing is in it", preset.stdin.why
        )
    resume = _resume(preset)
    if resume is not None:
        yield from _line(
            f"goes on by: {resume}", "A stop says so in its last line, with the conversation's id."
        )


def _line(head: str, why: str) -> Iterator[str]:
    yield f"  {head}"
    yield from textwrap.wrap(why, _WIDTH, initial_indent="      ", subsequent_indent="      ")
