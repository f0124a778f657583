"""Write the reference pages that derive from the option table; with --check fail where one is out of date."""

import argparse
import json
import os
import sys
from collections.abc import Iterable

from longwatch.cli import schema
from longwatch.cli.help import default_text, spelled
from longwatch.config import described
from longwatch.core.outcomes import REASONS
from longwatch.option_kinds import describe
from longwatch.option_table import GROUPS, OPTIONS, Option
from longwatch.options import RUN_OPTIONS, options_for
from longwatch.streams import vocabulary

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "reference")
MADE = "<!-- Made by scripts/reference.py from src/longwatch/option_table.py; edit that. -->\n"
OPENING = (
    "Options end at the first word that is none, or at `--`: what follows is the command's own. Given twice, the "
    "last one wins, except for those marked repeatable. A flag wins over its variable, that over the file that "
    "`--config` names, that over the preset, and that over the default. [What a file says to a run](config.md#without-a-daemon)."
)
SPANS = (
    "A span is one or more numbers with units, the largest first: `350ms`, `5s`, `1.5h`, `1h30m`. A bare number is "
    "refused. `0` and `off` switch a limit off. A size is a number with KB, MB, GB (thousands) or KiB, MiB, GiB "
    "(1024); `timeout` alone reads numbers as GNU timeout does."
)
CONFIG = """\
<!-- Made by scripts/reference.py from src/longwatch/config/model.py; edit that. -->

# longwatch.toml

One file says what the daemon runs and watches, and whom it tells. It is the one that `--config` names, else
`LONGWATCH_CONFIG`, else the nearest `longwatch.toml` upwards from here, else `longwatch/longwatch.toml` in your
configuration folder (`~/.config`). `longwatch config check` tells everything that is wrong with it at once, each with line and
column; nothing is run from a file that has an error. An unknown key is an error, and so is one that could mean nothing where
it stands. `longwatch config explain NAME` shows what holds for a harness, and who set it. [Its JSON
Schema](longwatch.schema.json) tells editors.

- A duration is a text of numbers with units, the largest first: `"350ms"`, `"5s"`, `"1h30m"`. A bare number is refused. `0`
  and `"off"` switch a limit off. A size is `"64KiB"`, `"100MB"`.
- A command is a list of words, or a text that is split as by a shell. No shell runs it. `before_stop`, `stop_command` and
  `check` are shell commands.
- `${NAME}` is filled in commands, paths, `env`, addresses and secrets: from `env_file`, else from the daemon's environment. One that
  is set nowhere is an error. `$${` stands for a literal `${`. What it brings is secret, and so is all that `env_file` says:
  none of it reaches a log, a notice or the record of runs. Of the environment HOME, PATH and the like are none.
- `env_file` holds lines `NAME=VALUE`; `#` begins a comment; `'...'` is taken as it is, `"..."` knows `\\n`, `\\t`, `\\"`.

## Without a daemon

`run`, `watch`, `tool`, `mcp` and the library read a file only when `--config FILE` (`config=`) names it: none that lies
around, and not that of `LONGWATCH_CONFIG`. One rule says what it means to them: a key that is an [option](options.md) of the
verb counts as that option, where no flag and no variable speaks.

- `[defaults]` counts for every run. For `run` and `watch` the table `[harness.NAME]` counts too if `--name NAME` names it, with
  the defaults that hold for it; never one that merely is called like the program.
- Their names are those of the flags, with `_`. `stall_timeout` is `--stall`, `calls` is `--call TOOL=`, `idle_action` is
  `--idle-action`, each other `…_action` is `--action LIMIT=`, `harness` is `--preset`. A `restart` step stops: what was typed once is not
  started again.
- A key counts where it can mean something: a nudge without a terminal is passed over, and so is all that says where and when
  the daemon starts a program, and what follows its end (`cwd`, `env`, `hours`, `restart`, budgets, `log`).
- `tool` and `mcp` take `timeout`, `idle` and `kill_after`, and a limit whose step only tells not at all: a model's command has
  nobody to tell. The library takes what is a field of [`Limits`](library.md#limits), `kill_after` as `grace`.
- A file that has an error anywhere is refused whole, all errors at once (exit status 125 of `run`, else 2; `UsageError`).

`longwatch config explain --config FILE` shows what `run` makes of one.

## `[defaults]`

Holds for every harness that says nothing else, where the key can mean something: `timeout` for those that end,
`stall_timeout` for those that stay. It may have every key of `[harness.NAME]` but those marked. `env`, `calls` and `log` are joined
with the harness's own. Its `env_file` also fills `[notify]` and `[web]`.\
"""

GIVEN = {
    "LONGWATCH_RUN_ID": "the run that it belongs to, `outer/inner` where one run supervises another",
    "LONGWATCH_ATTEMPT": "the number of the attempt, from 1",
}
GIVEN_HARNESS = {
    "LONGWATCH_NAME": "its name in the file",
    "LONGWATCH_TRIGGER": "[why it was started](harnesses.md#why-a-run-began)",
    "LONGWATCH_LAST_REASON": "the `termination_reason` of the run before; absent in the first",
    "LONGWATCH_RESUME": "the conversation that it was started to go on with; absent in a fresh start",
    "LONGWATCH_EVENT_FILE": "the JSON file of what a trigger brought; absent where it brought nothing",
}

PLAN = """\
<!-- Made by scripts/reference.py from src/longwatch/config/plan_model.py; edit that. -->

# The plan file

What `longwatch batch run PLAN` runs: TOML, or the same as JSON. All that is wrong with it is told at once, each with its place;
nothing is run from a file that has an error. Durations, sizes, commands, `${NAME}` and `env_file` are those of
[longwatch.toml](config.md): in a command of a shell write `$NAME`, or `$${NAME}` for what the shell is to fill in. [Its JSON
Schema](plan.schema.json) tells editors. [How to use one](../how-to/batch.md).

- `[defaults]` may have every key of `[[item]]` but those marked; it holds for each item that says nothing else. `env`, `calls`
  and `log` are joined.
- Of several who set a value the first one wins: the item, the flag, `[defaults]`, the variable, what is built in. That is so on
  `--resume`, too: what is said now is stronger than what was said then.
- A JSON list of objects with `issue`, `branch` and `task` (and `description`, `max_runtime`, `timeout_policy`, `command`,
  `preset`, `git`) is a plan as well: `issue` is the id, `task` the prompt.
- Relative paths start at the plan's folder.\
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "options.md": options_page(),
        "config.md": described.page(CONFIG),
        "longwatch.schema.json": _json(described.schema()),
        "plan-file.md": described.plan_page(PLAN),
        "plan.schema.json": _json(described.plan_schema()),
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
        "A flag or an argument wins over its variable, and that over the file that `--config` names. Empty is unset. `0` and `off` switch a limit off. Several "
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
        + "## `longwatch batch`\n\n"
        "A value that would be refused as a flag warns and leaves the built-in.\n\n"
        "| variable | flag or key | built-in | what it does |\n|---|---|---|---|\n"
        "| `LONGWATCH_BATCH_JOBS` | `--jobs` | 8 | So many items run at once. |\n"
        "| `LONGWATCH_BATCH_SOFT` | `--soft` | 2h | The budget of an item: past it it is marked, not ended. |\n"
        "| `LONGWATCH_BATCH_POLICY` | `--policy` | continue-preserve | What becomes of an item that is over it. |\n"
        "| `LONGWATCH_BATCH_IDLE` | `--idle` | that of the preset | No progress for so long stops an item. |\n"
        "| `LONGWATCH_BATCH_LOG_MAX` | `log` | 100MiB | So much of an item's output is kept, the newest. |\n"
        "| `LONGWATCH_BATCH_LEASE` | | 10m | How long an item goes on without whoever placed it, beyond this machine. |\n\n"
        "Batches inside of batches are bounded by what their items inherit; whoever sets these cannot ask for more than 32:\n\n"
        "| variable | what it says |\n|---|---|\n"
        "| `LONGWATCH_TREE_ID` | the tree that a batch belongs to |\n"
        "| `LONGWATCH_TREE_DEPTH` | how deep it is in it |\n"
        "| `LONGWATCH_TREE_MAX_DEPTH` | how deep it may be: 3 |\n"
        "| `LONGWATCH_TREE_MAX_SESSIONS` | how many batches of one tree may be at work: 10 |\n\n"
        "## What a program gets\n\n"
        "None of these reaches the supervised program. It gets:\n\n"
        + _told(GIVEN)
        + "A harness of the daemon gets these as well:\n\n"
        + _told(GIVEN_HARNESS)
        + "The command of `--before-stop` or `before_stop` finds `LONGWATCH_RUN_ID`, `LONGWATCH_NAME`, "
        "`LONGWATCH_PID` (the program's pid) and `LONGWATCH_LIMIT` (which limit was reached). What a hook of "
        "`[notify]` finds is on [its page](notices.md#what-a-hook-gets).\n\n"
        "An item of a batch also gets:\n\n"
        "| variable | what it says |\n|---|---|\n"
        "| `LONGWATCH_PLAN`, `LONGWATCH_ITEM` | the plan's file, and the item's id |\n"
        "| `LONGWATCH_CHECKPOINT` | the last checkpoint that an earlier attempt has named; unset without one |\n"
        "| `LONGWATCH_RESULT_FILE` | where its answer is read from; only with `result = true` |\n"
        '| `LONGWATCH_PROMPT_FILE` | where its prompt stands; only with `prompt_by = "file"` |\n'
        "| `LONGWATCH_ADVICE_SECONDS` | how long a level of a [cascade](library.md) is thought to take |\n\n"
        "## Of others\n\n"
        "| variable | what it does |\n|---|---|\n"
        "| `LONGWATCH_CONFIG` | the file whose daemon is meant, where no `--config` names one; `run`, `watch`, `tool`, "
        "`mcp` and the library read no file for it, and leave it to the program |\n"
        "| `XDG_STATE_HOME`, `XDG_CONFIG_HOME`, `XDG_RUNTIME_DIR` | where history and run folders, settings, and "
        "sockets are |\n"
        "| `HOME` | where the first two are by default |\n"
        "| `TMPDIR` | where an input that does not fit into memory is kept |\n"
        "| `NO_COLOR` | no colours on a terminal |\n"
        "| `TZ` | the time zone of schedules that name none |\n"
        "| `RAY_ADDRESS`, `RAY_AUTH_MODE` | Ray's: the cluster, and whether it asks for a token |\n"
        "| `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID` | systemd's: the daemon tells it that it is ready and "
        "alive; no harness sees them |\n"
        "| `_LONGWATCH_COMPLETE` | set by a shell that completes words |\n"
    )


def _told(variables: dict[str, str]) -> str:
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in variables.items())
    return f"| variable | what it says |\n|---|---|\n{rows}\n"


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
