"""`longwatch stop`: end a run with its whole tree, by asking its supervisor, and wait until that is proven."""

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

import click

from longwatch.channel import channel_append
from longwatch.cli.render import clean, duration, emit, fail, how_it_ended, refuse, span
from longwatch.core.spec import GRACE
from longwatch.paths import inner_id, state
from longwatch.posix.identity import GONE, REFUSED, Identity, signal_verified
from longwatch.posix.supervisor import supervisor_of
from longwatch.store.queries import Folder, ManyRunsError, NoSuchRunError, find_live

#: Beside the grace: a hook before the stop may take a minute, KILL and the report some seconds more.
PATIENCE_MS = 75_000
_POLL_MS = 50


@click.command("stop")
@click.argument("run", metavar="NAME|RUN")
@click.option("-k", "--kill-after", metavar="DURATION", help="From TERM to KILL; else as the run was told.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with the report.")
def command(run: str, kill_after: str | None, as_json: bool) -> None:
    """End a run with its whole tree, and wait until it is over."""
    grace = duration("--kill-after", kill_after)
    try:
        folder = find_live(state(), run)
    except (NoSuchRunError, ManyRunsError) as error:
        refuse(error)
    _require_right(folder)
    supervisor = supervisor_of(folder.meta)
    if not folder.here or supervisor is None:
        fail(f"{folder.run} runs on {clean(folder.meta.get('host'))}; stop it there")
    began = time.monotonic()
    hosted = folder.meta.get("hosted") is True
    _ask(folder, supervisor, grace, hosted=hosted)
    over = _reported(folder) if hosted else None
    if not _ended(supervisor, (GRACE if grace is None else grace) + PATIENCE_MS, over):
        fail(f"{folder.run} is not over yet; longwatch why {folder.run} shows what it waits for")
    _tell(folder, round((time.monotonic() - began) * 1000), as_json)


def _require_right(folder: Folder) -> None:
    """A caller inside a supervised run may stop that run, no other: limits belong to the human."""
    own = inner_id(os.environ.get("LONGWATCH_RUN_ID", ""))
    if own and own != folder.run:
        fail(
            f"{folder.run}: from inside {clean(own)} only that run may be stopped (allow_control is not set)"
        )


def _ask(folder: Folder, supervisor: Identity, grace: int | None, *, hosted: bool = False) -> None:
    """Leave word who wants it, then send TERM; CONT behind it, for a supervisor that somebody stopped.

    A run of the library reads the word at its next look: its supervisor is somebody's program, not ours to signal.
    """
    message: dict[str, Any] = {"op": "stop", "origin": "explicit", "pid": os.getpid()}
    if grace is not None:
        message["grace_ms"] = grace
    channel_append(state(), folder.run, message)
    if hosted:
        return
    answer = signal_verified(supervisor, signal.SIGTERM)
    if answer == REFUSED:
        fail(f"{folder.run}: longwatch (pid {supervisor.pid}) belongs to another user")
    if answer != GONE:
        signal_verified(supervisor, signal.SIGCONT)


def _reported(folder: Folder) -> Callable[[], bool]:
    """Return what tells whether a run is over whose supervisor lives on."""
    return lambda: folder.report() is not None


def _ended(supervisor: Identity, patience: int, over: Callable[[], bool] | None = None) -> bool:
    """Wait until the supervisor has ended, or `over` is true; False when that takes too long."""
    deadline = time.monotonic() + patience / 1000
    try:
        descriptor = os.pidfd_open(supervisor.pid)
    except (OSError, AttributeError):
        descriptor = -1
    try:
        ready = select.poll()
        if descriptor >= 0:
            ready.register(descriptor, select.POLLIN)
        while supervisor.alive():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if over is not None and over():
                break
            ready.poll(left * 1000 if descriptor >= 0 and over is None else _POLL_MS)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return True


def _tell(folder: Folder, took: int, as_json: bool) -> None:
    report = folder.report()
    if report is None:
        fail(
            f"{folder.run}: longwatch ended without a report; longwatch why {folder.run} shows what is known"
        )
    if as_json:
        emit({"run": folder.run, "report": report})
    elif report.get("termination_reason") == "cancelled":
        stopped = report.get("stopped")
        how = f" by {clean(stopped.get('how'))}" if isinstance(stopped, dict) else ""
        click.echo(f"{folder.run}: stopped{how}, over in {span(took)}")
    else:
        click.echo(f"{folder.run}: {how_it_ended(report)}")
    if report.get("survivors"):
        fail(f"{folder.run}: still alive: {clean(', '.join(map(str, report['survivors'])))}")
