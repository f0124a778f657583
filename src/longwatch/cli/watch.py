"""`longwatch watch --pid N`: apply limits to a process that already runs, by verified identity.

It is not ours: its streams are not to be seen, so a source of progress has to be named, and when we are told to end
we leave it as it is. A limit that you name stops it, with its whole tree, as under `run`.
"""

import os
from typing import Any

import click

from longwatch.cli.ended import open_report
from longwatch.cli.longrun import LongRun
from longwatch.cli.main import ENDING, Front, leave, say
from longwatch.cli.table import table_options
from longwatch.errors import UsageError
from longwatch.options import DEFAULT, FLAG, RUN_OPTIONS, Values
from longwatch.paths import new_run_id, safe_name
from longwatch.posix.child import adopt
from longwatch.posix.identity import cmdline, process
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.runtime.hosts import loop

_UNSEEN = ("output", "stdout", "stderr", "screen")


class Watched(LongRun):
    """A run that somebody else started: nothing of it ends because we do."""

    def _start_guardian(self, at: int) -> None:
        """No guardian: whoever kills us hard has nothing against the process."""

    def hear(self) -> None:
        """End the watching, and nothing else, when told to end."""
        self.front.ear.act(self._leave)

    def _leave(self, signum: int) -> None:
        if signum in ENDING:
            say(f"{self.front.name}: no longer watched, process {self.front.process.child.pid} goes on")
            leave(128 + signum)


@click.command(short_help="Watch a process that already runs.")
@click.option("--pid", type=int, required=True, metavar="N", help="The process.")
@table_options("watch")
def command(pid: int, **given: Any) -> None:
    """Watch a process that already runs, by the progress of files that it writes.

    Its output cannot be seen from outside, so name what can: --progress file:GLOB. A limit that you name stops it
    with its whole tree; ending `watch` leaves it alone. Exit status as of `run`; 125 where its end could not be read.
    """
    values = _values(given)
    front = _front(pid, values)
    run = Watched(front)
    loop(run.driver)
    run.end()


def _values(given: dict[str, Any]) -> Values:
    values = Values(RUN_OPTIONS)
    for name, value in given.items():
        if value is not None:
            values.put(name.replace("_", "-"), value, FLAG)
    unseen = [source for source in values.progress if source in _UNSEEN]
    limited = any(values.get(name) for name in ("ceiling", "timeout"))
    if unseen and (values.source("progress") != DEFAULT or not limited):
        raise UsageError(
            f"the {unseen[0]} of a process that already runs cannot be seen; name a file that it writes: "
            "--progress file:GLOB"
        )
    if unseen:
        values.put("progress", (), DEFAULT)  # only time is left: silence that nobody can see is none
    return values


def _front(pid: int, values: Values) -> Front:
    found = process(pid)
    if found is None or not found.alive:
        raise UsageError(f"--pid {pid}: there is no such process; ps lists those that run")
    if pid in (os.getpid(), os.getppid()):
        raise UsageError(f"--pid {pid}: that is longwatch itself or who started it; it cannot watch either")
    name = values.name or safe_name(found.comm)
    front = Front(values, cmdline(pid) or [found.comm], new_run_id(name), name)
    if values.report is not None:
        front.report_fd = open_report(values.report)
    try:
        child = adopt(pid)
    except ProcessLookupError as error:
        raise UsageError(f"--pid {pid}: it ended just now") from error
    front.reactor = Reactor()
    front.ear.listen(front.reactor)
    front.process = Process(child, front.reactor, {}, merged=False)
    return front
