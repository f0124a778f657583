"""`longwatch doctor`: what longwatch can rely on, how the daemon is, and what to do about the rest.

Each check is one line: fine, weaker (longwatch works, with less behind a promise) or wrong (it does not).
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import click

from longwatch.cli import machine, standing
from longwatch.cli.at_daemon import config_option
from longwatch.cli.machine import WRONG, Finding
from longwatch.cli.render import clean

_MARKS = {"fine": "ok  ", "weaker": "note", "wrong": "BAD "}


class Check(NamedTuple):
    """A name and what looks into it."""

    name: str
    look: Callable[[], Finding]


CHECKS = (
    Check("python", machine.python),
    Check("system", machine.system),
    Check("pidfd", machine.pidfd),
    Check("pidfd info", machine.pidfd_info),
    Check("subreaper", machine.subreaper),
    Check("tee and splice", machine.tee_and_splice),
    Check("children files", machine.children_files),
    Check("cgroup kill", machine.cgroup_kill),
    Check("open files", machine.open_files),
    Check("pipes", machine.pipes),
    Check("state", machine.state_folder),
    Check("config", machine.config_folder),
    Check("runtime", machine.runtime_folder),
    Check("packages", machine.packages),
)


@click.command("doctor")
@click.option("--notify-test", is_flag=True, help="Have the daemon send a test by every channel of [notify].")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(notify_test: bool, config: str | None, as_json: bool) -> int:
    """Check this machine, the file and its daemon. Exit status 1 when something is wrong."""
    place = standing.Place(config)
    found = {check.name: check.look() for check in CHECKS}
    found |= {name: look(place) for name, look in standing.CHECKS.items()}
    found |= standing.notices(place) if notify_test else {}
    good = all(finding.status != WRONG for finding in found.values())
    if as_json:
        checks = [{"name": name, **finding._asdict()} for name, finding in found.items()]
        click.echo(json.dumps({"schema": 1, "ok": good, "checks": checks}))
    else:
        for name, finding in found.items():
            click.echo(_line(name, finding))
    return 0 if good else 1


def _line(name: str, finding: Finding) -> str:
    line = f"{_MARKS[finding.status]} {name:<15} {clean(finding.detail)}"
    return f"{line}\n{'':20} -> {finding.next}" if finding.next else line
