"""Taking over what an earlier daemon has left, without a second copy of anything."""

import os
import time

from longwatch import paths
from longwatch.core import service_words as w
from longwatch.core.harness import Harness
from longwatch.core.restarts import NO
from longwatch.errors import StoreError
from longwatch.posix import wall_of
from longwatch.posix.child import adopt
from longwatch.posix.tree import Tree
from longwatch.runtime.adoption import Inheritance, Left, found, last_looked
from longwatch.runtime.kept import KeeperError
from longwatch.runtime.making import Begun
from longwatch.runtime.rundir import RunDir
from longwatch.store.ledger import Ledger
from longwatch.store.listing import Wanted, listed

#: How many of the newest runs are looked at for the last one of each harness.
RECALLED = 500

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.daemon.supervisor import Supervisor
    from longwatch.posix.child import Child


def take_over(supervisor: "Supervisor", daemon: str) -> Inheritance:
    """Follow what lives, close what has ended, end what nobody knows. The harnesses of the file are known already."""
    keeper = supervisor.keeper()
    kept = keeper.runs()
    opened: list[dict[str, Any]] = []
    if supervisor.daemon.ledger is not None:
        try:
            opened = supervisor.daemon.ledger.open_runs()
        except StoreError as error:
            supervisor.complain(str(error))
    left = found(supervisor.state, daemon, kept, opened)
    for run in left.strangers:
        _end_stranger(supervisor, run.run_id)
    for each in left.finished:
        _finish(supervisor, each)
    _follow_all(supervisor, left)
    _repair(supervisor, left.lost)
    _recall(supervisor, daemon)
    return left


def _recall(supervisor: "Supervisor", daemon: str) -> None:
    """Learn from the ledger how each harness ended last."""
    try:
        with Ledger(supervisor.state) as ledger:
            records = listed(ledger, Wanted(daemon=daemon, limit=RECALLED))
    except StoreError as error:
        supervisor.complain(str(error))
        return
    for record in records:
        service = supervisor.services.get(str(record.get("harness")))
        if service is not None and service.last_run is None and record.get("termination_reason"):
            service.last_run = record


def _end_stranger(supervisor: "Supervisor", run: str) -> None:
    """The keeper has it and nobody asked for it, or its end is written down."""
    keeper = supervisor.keeper()
    kept = next((each for each in keeper.runs() if each.run_id == run), None)
    if kept is not None and kept.end is None:
        supervisor.log(f"{run}: nobody knows of this run (pid {kept.pid}); it is ended")
        try:
            child = keeper.lend(run)
        except KeeperError as error:
            supervisor.complain(f"{run}: {error}")
            return
        Tree(kept.identity, run, subreaper=False, nursery=child.nursery).kill()
        for fd in (child.stdout_fd, child.stderr_fd, child.master_fd):
            if fd is not None:
                os.close(fd)
        child.close()
    keeper.forget(run)


def _finish(supervisor: "Supervisor", left: Left) -> None:
    """Its end is in its folder, and was not written into the ledger any more."""
    record = {**left.ledger_record(), **(left.report or {})}
    supervisor.close(record, lambda error: None if error else supervisor.forget(left.run))


def _follow_all(supervisor: "Supervisor", left: Inheritance) -> None:
    for each in sorted(left.follow, key=lambda each: each.started, reverse=True):
        service = supervisor.services.get(each.harness)
        if service is None:
            service = supervisor.add(_unnamed(each))
            supervisor.removed.add(each.harness)
        if service.running is not None:
            supervisor.complain(f"{each.run}: a second run of {each.harness}; it is ended")
            _end_stranger(supervisor, each.run)
            left.lost.append(each)
            continue
        if not _follow(supervisor, service, each):
            left.lost.append(each)


def _follow(supervisor: "Supervisor", service: "Any", left: Left) -> bool:
    try:
        child = _child(supervisor, left)
    except (KeeperError, ProcessLookupError) as error:
        supervisor.log(f"{left.run}: cannot be followed: {error}")
        return False
    if not left.record:
        supervisor.open(left.ledger_record(), lambda error: None)
    try:
        folder = RunDir.reopen(supervisor.state, left.run)
    except StoreError as error:
        supervisor.log(str(error))
        folder = None
    begun = Begun(
        left.run, left.attempt, left.trigger, launched=str(left.meta.get("launch") or ""), resumed=True
    )
    if not service.follow(begun, child, folder):
        return False
    running = service.running
    supervisor.admission.adopted(service.harness.name)
    service.tell(
        w.Adopted(
            left.run, running.watch.started, left.attempt, turns=running.watch.spec.observed,
            launched=None if not service.pending else _as_launched(service.harness),
        )
    )  # fmt: skip
    if service.harness.name in supervisor.removed:
        service.tell(w.Removed())
    return True


def _child(supervisor: "Supervisor", left: Left) -> "Child":
    """Return the program: lent by the keeper, or found by who it is."""
    if left.kept is not None:
        return supervisor.keeper().lend(left.run)
    assert left.leader is not None
    child = adopt(left.leader.pid)
    if child.identity != left.leader:
        child.close()
        raise ProcessLookupError(f"process {left.leader.pid} is another one by now")
    child.started = left.started or child.started
    supervisor.complain(
        f"{left.run}: its keeper has died; it is followed by its pid {child.pid}, without its output"
    )
    return child


def _as_launched(harness: Harness) -> Harness:
    """Return a definition that differs from this one in what a process is started by."""
    return Harness.of({**harness.as_dict(), "command": [*harness.command, "\0"]})


def _unnamed(left: Left) -> Harness:
    """Return what is known of a harness that the file does not name any more: it runs on, and no limit holds for it."""
    program = str(left.meta.get("program") or left.record.get("program") or left.harness)
    return Harness(
        left.harness, (program,), kind=str(left.record.get("kind") or "resident"), restart=NO,
        cwd=str(left.meta.get("cwd") or "/"),
    )  # fmt: skip


def _repair(supervisor: "Supervisor", lost: "list[Left]") -> None:
    """Runs that are open in the ledger and have nothing behind them are over: interrupted."""
    records = []
    for left in lost:
        if not left.record:
            continue
        looked = last_looked(supervisor.state, left.run)
        ended = wall_of(looked) if looked is not None else time.time_ns() // 1_000_000
        records.append({**left.record, "ended_at": paths.rfc3339(ended)})
        supervisor.log(f"{left.run}: open in the ledger, and nothing is behind it: interrupted")
        supervisor.forget(left.run)
    if records and supervisor.daemon.ledger is not None:
        supervisor.daemon.ledger.repair(records)
