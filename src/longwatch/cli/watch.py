"""`longwatch watch --pid N`: apply limits to a process that already runs, by verified identity.

It is not ours: its streams are not to be seen, so a source of progress has to be named, and when we are told to end
we leave it as it is. A limit that you name stops it, with its whole tree, as under `run`.
"""

import os
from typing import Any

import click

from longwatch import presets
from longwatch.cli.ended import open_report
from longwatch.cli.longrun import LongRun
from longwatch.cli.main import ENDING, Front, from_file, leave, say
from longwatch.cli.table import table_options
from longwatch.errors import UsageError
from longwatch.options import DEFAULT, FILE, PRESET, of_flags
from longwatch.paths import new_run_id, safe_name
from longwatch.posix.child import adopt
from longwatch.posix.identity import cmdline, process
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import PTY
from longwatch.preset_table import Preset
from longwatch.runtime.hosts import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.options import Values

_UNSEEN = ("output", "stdout", "stderr", "screen")
#: What stands before a program that is a script.
_INTERPRETERS = ("node", "bun", "deno", "python")


class Watched(LongRun):
    """A run that somebody else started: nothing of it ends because we do."""

    def _start_guardian(self, at: int) -> None:
        """No guardian: whoever kills us hard has nothing against the process."""

    def work_folder(self) -> str:
        """Return where the process works, as far as we may know."""
        try:
            return os.readlink(f"/proc/{self.front.process.child.pid}/cwd")
        except OSError:
            return super().work_folder()

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

    Its output cannot be seen from outside, so name what can: --progress file:GLOB. Of a known agent its transcript is
    read. A limit that you name stops it
    with its whole tree; ending `watch` leaves it alone. Exit status as of `run`; 125 where its end could not be read.
    """
    values = of_flags("watch", given, read=from_file)
    front = _front(pid, values)
    run = Watched(front)
    loop(run.driver)
    run.end()


def _need_evidence(front: Front) -> None:
    """Say which source is left of a process whose streams are not ours. Raises UsageError where there is none."""
    values = front.values
    agent = front.preset is not None and front.preset.dialect is not None
    if values.source("progress") == FILE:
        _keep_seen(values, agent=agent)
    unseen = [source for source in values.progress if source in _UNSEEN]
    named = values.source("progress") != DEFAULT
    limited = any(values.get(name) for name in ("ceiling", "timeout"))
    if "transcript" in values.progress and not agent:
        raise UsageError(
            "--progress transcript: the process is none of the agents whose records are read; name one with --preset, "
            "longwatch presets lists them"
        )
    if unseen and not named and agent:
        values.put("progress", ("transcript",), PRESET)
    elif unseen and (named or not limited):
        raise UsageError(
            f"the {unseen[0]} of a process that already runs cannot be seen; name a file that it writes: "
            "--progress file:GLOB"
        )
    elif unseen:
        values.put("progress", (), DEFAULT)  # only time is left: silence that nobody can see is none


def _keep_seen(values: "Values", *, agent: bool) -> None:
    """Of the sources that a file names for all of its programs those count that can be seen of this one."""
    seen = tuple(name for name in values.progress if name not in _UNSEEN and (agent or name != "transcript"))
    values.drop("progress")
    if seen:
        values.put("progress", seen, FILE)


def _at_terminal(pid: int) -> bool:
    """Whether a process reads from a terminal."""
    try:
        return os.readlink(f"/proc/{pid}/fd/0").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:
        return False


def _known(front: Front) -> Preset | None:
    """Return the preset of the process: the one that was named, or that of its program, also behind an interpreter."""
    name = front.values.preset
    if name == presets.NONE:
        return None
    if name is not None:
        return presets.named(name)
    first = os.path.basename(front.argv[0]).rstrip(".0123456789")
    behind = front.argv[1:] if first in _INTERPRETERS else front.argv
    return presets.recognised(behind)


def _above_us() -> set[int]:
    """Return ourselves and all that we descend from: to stop one of them would end us, and whoever started us."""
    found: set[int] = set()
    pid = os.getpid()
    while pid and pid not in found:
        found.add(pid)
        info = process(pid)
        pid = 0 if info is None else info.ppid
    return found


def _front(pid: int, values: "Values") -> Front:
    found = process(pid)
    if found is None or not found.alive:
        raise UsageError(f"--pid {pid}: there is no such process; ps lists those that run")
    if pid in _above_us():
        raise UsageError(f"--pid {pid}: that is longwatch itself or who started it; it cannot watch either")
    name = values.name or safe_name(found.comm)
    front = Front(values, cmdline(pid) or [found.comm], new_run_id(name), name)
    front.preset = _known(front)
    _need_evidence(front)
    if _at_terminal(pid):
        front.output = PTY  # somebody sits before it: what nobody named only notifies
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
