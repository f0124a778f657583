"""`longwatch stop`: end a run with its whole tree, by asking its supervisor, and wait until that is proven."""

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

import click

from longwatch.channel import channel_append
from longwatch.cli import items
from longwatch.cli.at_daemon import answers, config_option, daemon_if_any
from longwatch.cli.render import clean, duration, emit, fail, how_it_ended, refuse, span
from longwatch.core.spec import GRACE
from longwatch.paths import inner_id, state
from longwatch.posix.identity import GONE, REFUSED, Identity, signal_verified
from longwatch.posix.supervisor import supervisor_of
from longwatch.store.queries import ManyRunsError, NoSuchRunError, find_live
from longwatch.store.run_folders import Folder

#: Beside the grace: a hook before the stop may take a minute, KILL and the report some seconds more.
PATIENCE_MS = 75_000
_POLL_MS = 50


@click.command("stop")
@click.argument("run", metavar="NAME|RUN|PLAN/ITEM")
@click.option("-k", "--kill-after", metavar="DURATION", help="From TERM to KILL; else as the run was told.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, with the report.")
def command(run: str, kill_after: str | None, config: str | None, as_json: bool) -> None:
    """End a run, a harness or an item of a batch with its whole tree, and wait until it is over."""
    grace = duration("--kill-after", kill_after)
    item = items.of(run)
    if item is not None:
        _item(item, grace, as_json)
    elif not _of_daemon(run, grace, config, as_json):
        _by_folder(run, grace, as_json)


def _of_daemon(name: str, grace: int | None, config: str | None, as_json: bool) -> bool:
    """Stop a harness; False where no daemon answers, or it has none of that name."""
    from longwatch.api.client import NoSuchHarnessError  # noqa: PLC0415 - only where a daemon answers

    daemon = daemon_if_any(config)
    if daemon is None:
        return False
    began = time.monotonic()
    with answers():
        try:
            told = daemon.stop(name, kill_after_ms=grace)
        except NoSuchHarnessError:
            return False
    report = told.get("report")
    if as_json:
        emit({"name": name, **told})
    elif isinstance(report, dict):
        _say(name, report, round((time.monotonic() - began) * 1000))
    else:
        click.echo(f"{clean(name)}: stopped; it was not running")
    if isinstance(report, dict):
        _require_gone(name, report)
    return True


def _item(item: items.Item, grace: int | None, as_json: bool) -> None:
    """Stop an item of a batch: the others run on, and it can be resumed."""
    items.require_right(item)
    began = time.monotonic()
    kept = items.ask_to_stop(item, grace)
    if as_json:
        emit({"run": kept.get("run"), "item": kept})
    else:
        took = span(round((time.monotonic() - began) * 1000))
        click.echo(f"{item.title}: stopped, over in {took}; longwatch start {item.title} goes on with it")


def _by_folder(run: str, grace: int | None, as_json: bool) -> None:
    """Stop a run by asking whoever supervises it."""
    try:
        folder = find_live(state(), run)
    except (NoSuchRunError, ManyRunsError) as error:
        refuse(error)
    whole = folder.meta.get("item")
    if whole and (item := items.of(str(whole))) is not None:
        _item(item, grace, as_json)
        return
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
    else:
        _say(folder.run, report, took)
    _require_gone(folder.run, report)


def _say(what: str, report: dict[str, Any], took: int) -> None:
    if report.get("termination_reason") == "cancelled":
        stopped = report.get("stopped")
        how = f" by {clean(stopped.get('how'))}" if isinstance(stopped, dict) else ""
        click.echo(f"{clean(what)}: stopped{how}, over in {span(took)}")
    else:
        click.echo(f"{clean(what)}: {how_it_ended(report)}")


def _require_gone(what: str, report: dict[str, Any]) -> None:
    """End the verb as failed where something of it could not be ended."""
    if report.get("survivors"):
        fail(f"{clean(what)}: still alive: {clean(', '.join(map(str, report['survivors'])))}")
