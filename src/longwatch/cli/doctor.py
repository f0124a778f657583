"""`longwatch doctor`: what of this machine longwatch can rely on, and what to do about the rest.

Each check is one line: fine, weaker (longwatch works, with less behind a promise) or wrong (it does not).
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import click

from longwatch.cli import machine
from longwatch.cli.machine import WRONG, Finding

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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> int:
    """Check this machine. Exit status 1 when something is wrong."""
    found = {check.name: check.look() for check in CHECKS}
    good = all(finding.status != WRONG for finding in found.values())
    if as_json:
        checks = [{"name": name, **finding._asdict()} for name, finding in found.items()]
        click.echo(json.dumps({"schema": 1, "ok": good, "checks": checks}))
    else:
        for name, finding in found.items():
            click.echo(_line(name, finding))
    return 0 if good else 1


def _line(name: str, finding: Finding) -> str:
    line = f"{_MARKS[finding.status]} {name:<15} {finding.detail}"
    return f"{line}\n{'':20} -> {finding.next}" if finding.next else line
