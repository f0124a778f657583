"""`longwatch batch run` on this machine: one loop, one keeper, the plan's items below it."""

import fcntl
import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from longwatch import paths
from longwatch.cli.batch_going import go_through, ground, plan_of, sinks
from longwatch.cli.batch_report import show
from longwatch.cli.batch_view import View
from longwatch.cli.render import clean, fail, note
from longwatch.config.plan_beside import VARIABLES
from longwatch.config.plan_file import Loaded
from longwatch.core.plan import Plan
from longwatch.core.workstream import PENDING, resumable
from longwatch.daemon.agents import Agents
from longwatch.errors import StoreError
from longwatch.hands import TOLD, Hands
from longwatch.options import child_environment, recorded
from longwatch.posix.spawn import SpawnError
from longwatch.redaction import Redaction
from longwatch.runtime.batch import Batch
from longwatch.runtime.below import Below
from longwatch.runtime.kept import Keeper
from longwatch.runtime.running import Parts
from longwatch.store import batches
from longwatch.store.workstreams import Workstreams
from longwatch.units import nearest
from longwatch.work.nested import BlockedError, Session, entered
from longwatch.work.results import ask

NOT_NOW = 75


#: A run that is over before that has no folder. Who names a checkpoint sooner waits for it.
FOLDER_AFTER = 250
#: Whoever asks whether a plan is being run holds its lock for a moment.
_TRIES, _PAUSE_S = 5, 0.02


class Wishes:
    """What was asked for beside the plan. With `only` no other item is run."""

    def __init__(
        self, *, resume: bool, fresh: bool, dry_run: bool, heartbeat: int, as_json: bool, only: Sequence[str] = ()
    ) -> None:  # fmt: skip
        self.resume = resume
        self.fresh = fresh
        self.dry_run = dry_run
        self.heartbeat = heartbeat
        self.as_json = as_json
        self.only = tuple(only)


def perform(loaded: Loaded, wishes: Wishes, run: Callable[..., int | None] | None = None) -> int:
    """Run a plan, and return the exit status: 0 where every item that was to be run is completed.

    `run` is who goes through it, by default this machine.
    """
    _require_known(loaded, wishes.only)
    shelf = Workstreams(loaded.base)
    with _locked(shelf, loaded):
        kept = {work.id: state for work in loaded.works if (state := shelf.load(work.id)) is not None}
        for text in shelf.notes:
            note(text)
        shelf.notes.clear()
        states = _starting_point(loaded, kept, wishes)
        if wishes.dry_run:
            _would(loaded, states, wishes)
            return 0
        batches.remember(paths.state(), batches.Known(loaded.name, loaded.path, shelf.base))
        try:
            session = Session.of(os.environ)
            with entered(session, paths.state()):
                ended_by = (run or _run)(loaded, shelf, states, session, wishes)
        except BlockedError as error:
            fail(str(error), NOT_NOW)
    try:
        status = show(shelf, loaded, as_json=wishes.as_json, only=wishes.only)
    except OSError:  # the terminal is gone
        status = 1
    return status if ended_by is None else _end_by(ended_by)


def _require_known(loaded: Loaded, only: Sequence[str]) -> None:
    known = [work.id for work in loaded.works]
    for name in only:
        if name not in known:
            guess = nearest(name, known)
            fail(
                f"{clean(name)} is no item of {loaded.path}" + (f"; did you mean {guess}?" if guess else ""),
                4,
            )


def _run(
    loaded: Loaded, shelf: Workstreams, states: dict[str, Any], session: Session, wishes: Wishes
) -> int | None:
    """Go through the plan; return the signal that ended it, if one did."""
    with ExitStack() as stack:
        host, logs = ground(stack, shelf)
        redaction = Redaction.of((work.harness for work in loaded.works), os.environ)
        view = View(host, loaded, wishes.heartbeat, redaction)
        agents = Agents(shelf.base, note)
        for text in agents.configure(work.harness for work in loaded.works):
            note(text)
        described = {"batch": loaded.path, "plan": loaded.name, "base": shelf.base, "hosted": True}
        parts = Parts(
            paths.state(), sinks=sinks(logs), observer=agents, described=described, redact=redaction.value,
            folder_after=FOLDER_AFTER, environment=child_environment, recorded=recorded,
        )  # fmt: skip
        hands = Hands(host, shelf, agents, loaded.path, loaded.name, session, paths.state(), view.told)
        plan = plan_of(loaded, states, wishes.only)
        socket = _socket(shelf)
        works = {work.id: work for work in loaded.works}
        unwanted = {*VARIABLES.values(), *TOLD}
        environ = {name: value for name, value in os.environ.items() if name not in unwanted}
        try:
            place = Below(host, lambda: Keeper.at(socket), parts, environ)
        except SpawnError as error:
            fail(error.message)
        batch = Batch(host, place, plan, works, dict(states), hands, random.random)
        return go_through(host, batch, shelf, view)


@contextmanager
def _locked(shelf: Workstreams, loaded: Loaded) -> Iterator[None]:
    """Hold the plan: no second one runs it meanwhile."""
    path = os.path.join(shelf.base, batches.LOCK)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(descriptor):
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            fail(f"{loaded.path} is being run already (pid {clean(holder)})", NOT_NOW)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _starting_point(loaded: Loaded, kept: dict[str, Any], wishes: Wishes) -> dict[str, Any]:
    """Return what to go on with; ask where nobody said, or end with 75 where nobody can answer."""
    if wishes.only:
        return {name: state for name, state in kept.items() if name not in wishes.only or _goes_on(state)}
    if wishes.fresh or not kept:
        return {}
    if wishes.resume:
        return kept
    lifecycles = {name: state["lifecycle"] for name, state in kept.items()}
    unfinished = Plan([work.item for work in loaded.works], kept=lifecycles).to_come()
    if not unfinished:
        return {}
    said = f"{loaded.path} is unfinished: {_several(unfinished, len(loaded.works))}"
    if wishes.dry_run:
        note(said)
        return kept
    if not (os.isatty(0) and os.isatty(2)):
        fail(f"{said}; write --resume to go on, or --fresh to begin anew", NOT_NOW)
    answer = click.prompt(
        f"{said}\nresume, fresh or quit", type=click.Choice(["resume", "fresh", "quit"]), err=True
    )
    if answer == "quit":
        fail("nothing was run", NOT_NOW)
    return kept if answer == "resume" else {}


def _goes_on(state: dict[str, Any]) -> bool:
    return resumable(state["lifecycle"])


def _several(names: list[str], total: int) -> str:
    shown = ", ".join(names[:5])
    return f"{len(names)} of {total} items ({clean(shown)}{', ...' if len(names) > 5 else ''})"


def _would(loaded: Loaded, states: dict[str, Any], wishes: Wishes) -> None:
    """Say what would be run, in the order of the plan."""
    lifecycles = {name: state["lifecycle"] for name, state in states.items()}
    plan = Plan([work.item for work in loaded.works], kept=lifecycles, only=wishes.only or None)
    to_come = plan.to_come()
    for work in loaded.works:
        state = states.get(work.id, {})
        lifecycle = state.get("lifecycle", PENDING)
        if work.id not in to_come:
            why = plan.left_out().get(work.id) or (
                lifecycle if lifecycle != PENDING else "a need of it failed"
            )
            click.echo(f"{work.id}: would not be run: {clean(why)}")
            continue
        words = "resume" if resumable(lifecycle) else "run"
        after = f" after {', '.join(work.item.needs)}" if work.item.needs else ""
        point = f" from {clean(state['checkpoint'])}" if state.get("checkpoint") else ""
        asked = ask(work.harness.command, work.prompt, work.prompt_by, work.harness.preset)
        command = Redaction.of([work.harness], os.environ).text(shlex.join(asked.argv))
        click.echo(f"{work.id}: would {words}{after}{point}: {clean(command)}")


def _socket(shelf: Workstreams) -> str:
    """Return the keeper's socket: beside the states, or where that is too long a path, in the runtime folder."""
    path = os.path.join(shelf.base, "keeper.sock")
    if paths.fits_socket(path):
        return path
    folder = paths.runtime()
    short = os.path.join(folder or "/", f"{paths.daemon_id(path)[-8:]}.keeper")
    if folder is None or not paths.fits_socket(short):
        raise StoreError(f"{path}: too long for a socket's path; set `base` in the plan to a shorter folder")
    paths.ensure(folder)
    return short


def _end_by(number: int) -> int:
    """End by the signal itself, so that a shell loop around us ends too."""
    sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


__all__ = ["Wishes", "perform"]
