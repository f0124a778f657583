"""`longwatch up`: run the harnesses of a file, in the foreground or (`-d`) behind it."""

import json
import os
import sys
from typing import Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of, harness_line
from longwatch.cli.render import clean, emit, fail, note
from longwatch.config.finding import find


@click.command("up")
@click.option("-d", "--detach", is_flag=True, help="Go behind: answer once the harnesses are started.")
@click.option(
    "--replace", is_flag=True, help="Take over from the daemon that runs; its harnesses are not touched."
)
@config_option
@click.option("--json", "as_json", is_flag=True, help="With -d: JSON.")
def command(detach: bool, replace: bool, config: str | None, as_json: bool) -> int:
    """Run the harnesses of longwatch.toml. Ctrl-C stops them all; TERM and a crash stop none: the next `up` goes on."""
    path = find(config, os.environ, os.getcwd())
    words = [sys.executable, "-P", "-m", "longwatch.daemon", "--config", path]
    words += ["--replace"] if replace else []
    if not detach:
        sys.stdout.flush()
        # The supervisor stays small: nothing of what a command line needs is left in it.
        os.execv(words[0], [*words, "--foreground"])
    told = _behind(words)
    if as_json:
        emit(told)
        return 0 if told.get("ready") else int(told.get("status", 1))
    return _say(told, path)


def _behind(words: list[str]) -> dict[str, Any]:
    """Start the daemon in a session of its own, and return what it says once it is ready, or cannot be."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.posix_spawn(
        words[0], [*words, "--ready-fd", str(writer)], os.environ, setsid=True,
        file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in range(3)],
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        line = answer.readline()
    try:
        told = json.loads(line)
    except ValueError:
        told = {
            "ready": False,
            "error": "the daemon ended before it was ready; longwatch up (without -d) shows why",
        }
    return told if isinstance(told, dict) else {}


def _say(told: dict[str, Any], config: str) -> int:
    if not told.get("ready"):
        if told.get("error"):
            fail(clean_lines(told["error"]), int(told.get("status", 1)))
        return int(told.get("status", 1))
    for text in [*(told.get("notes") or ()), *(told.get("problems") or ())]:
        note(clean(text))
    with answers():
        for harness in daemon_of(config).status()["harnesses"]:
            click.echo(harness_line(harness))
    click.echo(
        f"the daemon runs (pid {told.get('pid')}); longwatch ls shows its harnesses, longwatch down ends them"
    )
    return 0


def clean_lines(text: object) -> str:
    """Return a text of several lines without control characters."""
    return "\n".join(clean(line) for line in str(text).splitlines())
