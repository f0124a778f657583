"""`longwatch init`: a first longwatch.toml for the agents that are on this machine."""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress

import click

from longwatch.config.finding import NAME
from longwatch.errors import UsageError
from longwatch.preset_table import PRESETS, Preset

_HEAD = """\
# What longwatch runs and watches. `longwatch config check` reads this file and starts nothing; `longwatch up` starts
# it. `longwatch config explain NAME` shows every key of a harness, who set it, and why it is as it is.
# Spans are written "90s", "5m", "1h30m"; "off" switches a limit off. Where a line begins with "#" and a key, take the
# "#" away to use it.
"""
_AGENT = """\
[harness.{name}]
harness = {quoted:<18}# the program {program}, with all that is known of it: limits, records, how it goes on
pty = true                  # a terminal of its own; `longwatch attach {name}` opens it, Ctrl-\\ d leaves it
enabled = {enabled:<18}# {whether}
stall_timeout = "45m"       # tells you when it is at work and no call of it succeeded for this long
#stall_action = "restart"   # instead of only telling: stop it then, and start it again
#env = {{ LANG = "C.UTF-8" }} # variables that it gets beside those of the daemon
"""
_PLAIN = """\
# No known agent is on this machine, so this is an example that does no harm: it prints the time every five seconds.
[harness.clock]
command = ["sh", "-c", "while date; do sleep 5; done"]   # a list of words; no shell splits them
idle = "1m"                 # silent for a minute: it is stopped
restart = "always"          # and started again, as after every other end; also unless-stopped, on-failure, no
#cwd = "~"                  # it runs in the folder of this file unless you say another
#ready = "20"               # a text in its output that says that it is ready
#stop_command = "true"      # asks it to end, in place of the signal TERM
"""
_MORE = """\
# Runs at two in the morning, from Monday to Friday, and ends.
#[harness.nightly]
#command = {command}
#schedule = "0 2 * * mon-fri"
#timeout = "2h"             # no run may take longer; without a limit of yours or of a preset it is an hour
#on_overlap = "skip"        # while the last run still lives; also queue, replace
#hours = "mon-fri 00:00-06:00"
#keep_runs = 20             # so many runs keep their logs

# Who is told when something happens while nobody looks: a command that gets a line of JSON on its stdin.
#[notify]
#hook = ["{hook}", "-t", "longwatch"]
#cooldown = "15m"           # the same event of the same harness is not told again for this long
"""


@click.command("init")
@click.argument("file", default=NAME)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(file: str, force: bool) -> None:
    """Write a first longwatch.toml into this folder, or to FILE, with every line explained.

    It is made for the agents that are found on PATH; all but the first are not enabled. Where there is none it is a
    harmless example.
    """
    found = agents()
    _write(file, text(found), force=force)
    names = ", ".join(preset.name for preset in found) or "an example, for no known agent is on PATH"
    click.echo(f"wrote {file}: {names}")
    here = file == NAME
    check = "longwatch config check" if here else f"longwatch config check {file}"
    up = "longwatch up" if here else f"longwatch up --config {file}"
    click.echo(f"next: {check}, then {up}")


def agents(path: str | None = None) -> list[Preset]:
    """Return the known agents whose programs are on PATH, in the order of the table."""
    return [preset for preset in PRESETS if preset.dialect and shutil.which(preset.programs[0], path=path)]


def text(found: Iterable[Preset]) -> str:
    """Return the file for these agents."""
    parts = [_HEAD]
    for number, preset in enumerate(found):
        enabled = "true" if number == 0 else "false"
        whether = (
            "it runs from the first `up` on" if number == 0 else f"`longwatch start {preset.name}` starts it"
        )
        words = {"name": preset.name, "quoted": f'"{preset.name}"', "program": preset.programs[0]}
        parts.append(_AGENT.format(**words, enabled=enabled, whether=whether))
    if len(parts) == 1:
        parts.append(_PLAIN)
    first = next(iter(found), None)
    parts.append(_MORE.format(command=_headless(first), hook=shutil.which("logger") or "/usr/bin/logger"))
    return "\n".join(parts)


def _headless(preset: Preset | None) -> str:
    """Return how the first agent works without a human, as a list of TOML."""
    if preset is None:
        return '["sh", "-c", "echo good night"]'
    return f'["{preset.programs[0]}", "{preset.headless[0]}", "Look at what changed today, and write a summary."]'


def _write(file: str, content: str, *, force: bool) -> None:
    """Write the file whole or not at all; one that is there is only replaced if that is wanted."""
    if os.path.lexists(file) and not force:
        raise UsageError(f"init: {file} is there already; --force replaces it")
    if os.path.isdir(file):
        raise UsageError(f"init: {file} is a folder; write the path of a file")
    new = f"{file}.{os.getpid()}.new"
    try:
        with open(new, "x", encoding="utf-8") as out:
            out.write(content)
        os.replace(new, file)
    except OSError as error:
        with suppress(OSError):
            os.unlink(new)
        raise OSError(error.errno, f"cannot be written: {(error.strerror or '').lower()}", file) from error
