"""The last acts of a foreground run that has a report: write it where it was asked for, keep its history, leave."""

import os

from longwatch.cli.attend import leave_as, remember
from longwatch.cli.main import Front, leave, say
from longwatch.core.facts import RunEnded, RunStarted
from longwatch.core.report import Stream, build
from longwatch.errors import UsageError
from longwatch.jsonlean import dumps
from longwatch.paths import rfc3339
from longwatch.posix import now, wall_of
from longwatch.posix.refusal import explain
from longwatch.posix.spawn import PIPES, Launch, SpawnError
from longwatch.store.spool import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from longwatch.posix.child import End
    from longwatch.runtime.keeping import Keeping


def finish(
    front: Front, report: "Mapping[str, object]", *, result_ok: bool | None = None, ended: "End | None" = None
) -> "NoReturn":
    """Write what is kept of the run, and end with its status; `ended` is said for a program that has ended before."""
    if front.terminal is not None:
        front.terminal.close()
    write_report(front, report)
    remember(front, summary(report))
    code, signal = ended or front.process.ended or (None, None)
    leave_as(front, str(report["termination_reason"]), code, signal, result_ok=result_ok)


def not_started(front: Front, error: SpawnError, keeping: "Keeping | None" = None) -> "NoReturn":
    """End a run whose program could not be started (`keeping`: any more); that too is a result."""
    error = explain(error, Launch(front.argv))
    say(str(error))
    at = now()
    report = build(
        run=front.run_id, name=front.name, attempt=front.attempt, started_at=rfc3339(wall_of(at)), started=at,
        facts=[RunStarted(at), RunEnded(at, "spawn_failed", error.status)], progress={}, last_progress=None,
        streams={}, merged=front.output != PIPES, notes=[str(error)],
    )  # fmt: skip
    if keeping is not None:
        keeping.end(report)
    write_report(front, report)
    remember(front, summary(report))
    chosen = front.values.exit_code or {}
    leave(chosen.get("spawn_failed", error.status))


def report_of_blink(front: Front, reason: str) -> dict[str, object]:
    """Return the report of a run that was over before there was anything to watch."""
    process = front.process
    started, ended = process.child.started, process.ended_at
    code, signal = process.ended or (None, None)
    pumps = process.pumps.items()
    return build(
        run=front.run_id, name=front.name, attempt=1, started_at=rfc3339(wall_of(started)), started=started,
        facts=[RunStarted(started), RunEnded(ended, reason, code, signal)],
        progress={n: {"last_ms": ended - p.last if p.last else None, "count": p.count} for n, p in pumps},
        last_progress=max((pump.last for _, pump in pumps), default=0) or None,
        streams={name: Stream(pump.bytes, *pump.captured(), pump.lost) for name, pump in pumps},
        merged=process.merged, proof="subreaper",
    )  # fmt: skip


def open_report(path: str) -> int:
    """Open the report's file before the run, so that a wrong path is told now; its content comes at the end.

    An older report goes now: after a hard kill it would pass for this run's.
    """
    # Non-blocking for this moment, so that a FIFO without a reader is refused instead of waited for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise UsageError(f"--report {path}: cannot be written: {(error.strerror or '').lower()}") from error
    os.set_blocking(descriptor, True)
    return descriptor


def write_report(front: Front, report: "Mapping[str, object]") -> None:
    """Write the report over what was there; a disk that is full now is told, and spoils nothing else."""
    if front.report_fd is None:
        return
    data = dumps(report).encode() + b"\n"
    try:
        _truncate(front.report_fd)
        while data:
            data = data[os.write(front.report_fd, data) :]
    except OSError as error:
        say(f"--report {front.values.report}: not written: {(error.strerror or '').lower()}")


def _truncate(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        pass  # a pipe or a terminal has no length
