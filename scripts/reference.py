"""Write the reference pages that derive from the option table; with --check fail where one is out of date."""

import argparse
import json
import os
import sys
from collections.abc import Iterable

from longwatch.cli import schema
from longwatch.cli.help import default_text, spelled
from longwatch.core.outcomes import REASONS
from longwatch.option_kinds import describe
from longwatch.option_table import GROUPS, OPTIONS, Option
from longwatch.options import RUN_OPTIONS, options_for
from longwatch.streams import vocabulary

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "reference")
MADE = "<!-- Made by scripts/reference.py from src/longwatch/option_table.py; edit that. -->\n"
OPENING = (
    "Options end at the first word that is none, or at `--`: what follows is the command's own. Given twice, the "
    "last one wins, except for those marked repeatable."
)
SPANS = (
    "A span is one or more numbers with units, the largest first: `350ms`, `5s`, `1.5h`, `1h30m`. A bare number is "
    "refused. `0` and `off` switch a limit off. A size is a number with KB, MB, GB (thousands) or KiB, MiB, GiB "
    "(1024); `timeout` alone reads numbers as GNU timeout does."
)


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "options.md": options_page(),
        "environment.md": environment_page(),
        "options.json": _json(registry()),
        "limits.schema.json": _json(schema.options_schema()),
        "report.schema.json": _json(schema.report_schema()),
        "events.schema.json": _json(schema.events_schema()),
        "trace.schema.json": _json(vocabulary.schema()),
    }


def options_page() -> str:
    """Return the page of all options."""
    parts = [
        f"{MADE}\n# Options",
        OPENING,
        SPANS,
        *(
            part
            for verb in ("run", "timeout", "tool", "mcp")
            for part in (f"## `longwatch {verb}`", *_sections(verb))
        ),
        "## `guard`",
        "A guarded stream has no flags: `Limits` sets these, else the variable does.",
        *_sections("guard"),
        "## Reasons",
        "`--exit-code` takes one of these, and the report names it as `termination_reason`: "
        + ", ".join(f"`{reason}`" for reason in REASONS)
        + ".",
    ]
    return "\n\n".join(parts) + "\n"


def _sections(verb: str) -> list[str]:
    options = options_for(verb)
    ordered = [option for group in GROUPS for option in options if option.group == group]
    return [_section(option) for option in ordered]


def _section(option: Option) -> str:
    lines = [f"### `{spelled(option) if option.flags else option.variable}`", "", option.help]
    facts = []
    if option.choices:
        facts.append("One of " + ", ".join(f"`{choice}`" for choice in option.choices))
    if option.repeatable:
        facts.append("Repeatable")
    if default_text(option):
        facts.append(f"Default: `{default_text(option)}`")
    if option.variable:
        facts.append(f"Variable: `{option.variable}`")
    lines += ["", *(f"- {fact}" for fact in facts)] if facts else []
    return "\n".join([*lines, "", option.why] if option.why else lines)


def environment_page() -> str:
    """Return the page of all variables."""
    return (
        f"{MADE}\n# Variables\n\n"
        "A flag or an argument wins over its variable. Empty is unset. `0` and `off` switch a limit off. Several "
        "values of one variable are separated by commas. Yes and no are written `1` and `0`. `longwatch timeout` "
        "reads none.\n\n"
        "## `longwatch run` and the library\n\n"
        "A value that would be refused as a flag warns once and leaves the built-in.\n\n"
        + _variables(RUN_OPTIONS, "flag")
        + "## `longwatch tool`, `longwatch mcp`\n\n"
        "A value that would be refused as a flag is refused here too (exit status 2): nobody should run commands for "
        "a model under a limit that is not the one they wrote.\n\n"
        + _variables(
            [*options_for("tool"), *(o for o in options_for("mcp") if "tool" not in o.verbs)], "flag"
        )
        + "## `guard`, turns and waves\n\n"
        "A value that makes no sense warns once and leaves the built-in.\n\n"
        + _variables(options_for("guard"), "argument of `Limits`")
        + "## What a program gets\n\n"
        "None of these reaches the supervised program. It gets:\n\n"
        "| variable | what it says |\n|---|---|\n"
        "| `LONGWATCH_RUN_ID` | the run that it belongs to, `outer/inner` where one run supervises another |\n"
        "| `LONGWATCH_ATTEMPT` | the number of the attempt, from 1 |\n\n"
        "## Of others\n\n"
        "| variable | what it does |\n|---|---|\n"
        "| `XDG_STATE_HOME`, `XDG_CONFIG_HOME`, `XDG_RUNTIME_DIR` | where history and run folders, settings, and "
        "sockets are |\n"
        "| `HOME` | where the first two are by default |\n"
        "| `TMPDIR` | where an input that does not fit into memory is kept |\n"
        "| `NO_COLOR` | no colours on a terminal |\n"
    )


def _variables(options: Iterable[Option], given: str) -> str:
    rows = [
        f"| `{option.variable}` | {_given(option)} | {default_text(option) or 'unset'} | {option.help} |"
        for option in options
        if option.variable
    ]
    return f"| variable | {given} | built-in | what it does |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"


def _given(option: Option) -> str:
    """Return what wins over the variable: the flag, or the field of `Limits`."""
    if option.flags:
        return f"`{'--pty' if option.name == 'pty' else option.flags[-1]}`"
    return f"`{option.key}`"


def registry() -> list[dict[str, object]]:
    """Return every option of the table, for other programs."""
    return [
        {
            "name": option.name,
            "verbs": list(option.verbs),
            "flags": list(option.flags),
            "variable": option.variable,
            "key": option.key,
            "kind": option.kind,
            "default": None if option.default is None else describe(option, option.default),
            "help": option.help,
            "why": option.why,
        }
        for option in OPTIONS
    ]


def _json(value: schema.Schema) -> str:
    return json.dumps(value, indent=2) + "\n"


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a page is out of date"
    )
    parser.add_argument("--folder", default=FOLDER, help="where the pages are")
    given = parser.parse_args()
    stale = 0
    for name, text in pages().items():
        path = os.path.join(given.folder, name)
        if not given.check:
            os.makedirs(given.folder, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif _read(path) != text:
            stale = 1
            print(f"{path} is out of date; run scripts/reference.py", file=sys.stderr)
    return stale


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
