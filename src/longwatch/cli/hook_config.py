"""`longwatch hook --print-config AGENT`: what to put into an agent's settings, so that its hooks call `longwatch hook`."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from longwatch.errors import UsageError
from longwatch.units import nearest, shown

#: The events that mean something to us, in the order in which they happen.
EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse",
    "PostToolUseFailure", "Notification", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Stop",
    "StopFailure", "SessionEnd",
)  # fmt: skip
#: Seconds after which the agent goes on without us; it takes some hundredths.
TIMEOUT_S = 5
AGENTS = {"claude": "~/.claude/settings.json, or .claude/settings.json of one project"}
#: How its users and its package call it.
_SAME = {"claude-code": "claude"}


def command_around(pass_on: Callable[[list[str]], NoReturn]) -> click.Command:
    """Return the verb as click has it; without its option it does what the lean way does."""

    def callback(agent: str | None) -> None:
        if agent is None:
            pass_on([])
        print_config(agent)

    known = ", ".join(AGENTS)
    option = click.Option(
        ["--print-config", "agent"], metavar="AGENT", help=f"Print settings to paste: {known}."
    )
    return click.Command(
        "hook",
        callback=callback,
        hidden=True,
        params=[option],
        help="Pass on what an agent tells its hooks (one JSON object on stdin) to the run around it. Always ends "
        "with 0, without a word. Outside a run it does nothing.",
    )


def print_config(agent: str) -> None:
    """Print the settings to paste. Raises UsageError for an agent whose hooks are not known."""
    name = _SAME.get(agent, agent)
    if name not in AGENTS:
        guess = nearest(name, AGENTS)
        hint = f"did you mean {guess}?" if guess else f"agents are {', '.join(AGENTS)}"
        raise UsageError(f"--print-config {shown(agent)}: its hooks are not known; {hint}")
    click.echo(json.dumps(settings(_words()), indent=2))
    click.echo(f"longwatch: merge this into {AGENTS[name]}", err=True)


def settings(words: str) -> dict[str, object]:
    """Return the fragment that has every event of ours call a command line."""
    hook = {"type": "command", "command": words, "timeout": TIMEOUT_S}
    return {"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}}


def _words() -> str:
    """Return how an agent calls us: by name where that is found, else by this program's own path."""
    own = os.path.abspath(sys.argv[0])
    found = shutil.which("longwatch")
    known = found is not None and os.path.realpath(found) == os.path.realpath(own)
    return "longwatch hook" if known else f"{shlex.quote(own)} hook"
