"""The last acts of a foreground run: report, history, the last lines on stderr, the exit status."""

import os

from longwatch.cli.front import Front, leave, leave_by, say, write_report
from longwatch.core.facts import RunEnded, RunStarted
from longwatch.core.outcomes import OURS, exit_status
from longwatch.core.report import Stream, build
from longwatch.errors import StoreError
from longwatch.jsonlean import dumps
from longwatch.paths import rfc3339, state
from longwatch.posix.reactor import now
from longwatch.runtime.rundir import flag_names, wall_of
from longwatch.store.spool import append, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn


def blink(front: Front) -> "NoReturn":
    """End a run that was over before there was anything to watch."""
    process = front.process
    code, signal = process.ended or (None, None)
    reason = "exited" if code is not None else "signaled" if signal is not None else "unknown"
    started = process.child.started
    facts = [RunStarted(started), RunEnded(process.ended_at, reason, code, signal)]
    stamps = {name: pump.last for name, pump in process.pumps.items()}
    report = build(
        run=front.run_id,
        name=front.name,
        attempt=1,
        started_at=rfc3339(wall_of(started)),
        started=started,
        facts=facts,
        progress={
            name: {"last_ms": process.ended_at - pump.last if pump.last else None, "count": pump.count}
            for name, pump in process.pumps.items()
        },
        last_progress=max(stamps.values(), default=0) or None,
        streams={n: Stream(p.bytes, *p.captured(), p.lost) for n, p in process.pumps.items()},
        merged=front.merged,
        proof="subreaper",
    )
    if front.terminal is not None:
        front.terminal.close()
    finish(front, report)


def not_started(front: Front, status: int) -> "NoReturn":
    """End a run whose program could not be started."""
    at = now()
    facts = [RunStarted(at), RunEnded(at, "spawn_failed", status)]
    report = build(
        run=front.run_id, name=front.name, attempt=1, started_at=rfc3339(wall_of(at)), started=at, facts=facts,
        progress={}, last_progress=None, streams={}, merged=front.merged,
    )  # fmt: skip
    keep(front, report)
    leave(_chosen(front, "spawn_failed", status))


def finish(front: Front, report: "Mapping[str, object]", *, result_ok: bool | None = None) -> "NoReturn":
    """Write what is kept of the run and end with its status."""
    keep(front, report)
    reason, code, signal = _end(front, report)
    status = _chosen(front, reason, exit_status(reason, code, signal, result_ok=result_ok))
    if status == 0 and any(pump.lost for pump in front.process.pumps.values()):
        status = OURS
    overridden = front.values.exit_code is not None and reason in front.values.exit_code
    deadly = _deadly(front, reason, signal)
    if deadly is not None and not overridden:
        leave_by(deadly)
    leave(status)


def _end(front: Front, report: "Mapping[str, object]") -> tuple[str, int | None, int | None]:
    code, signal = front.process.ended or (None, None)
    return str(report["termination_reason"]), code, signal


def _deadly(front: Front, reason: str, signal: int | None) -> int | None:
    """Return the signal to end by: the one that reached us, or the one that was typed at the program's terminal."""
    if reason in ("interrupted", "cancelled") and front.ended_by is not None:
        return front.ended_by
    typed = signal in (2, 3) and reason == "signaled" and front.terminal is not None
    return signal if typed else None


def _chosen(front: Front, reason: str, status: int) -> int:
    chosen: Mapping[str, int] = front.values.exit_code or {}
    return chosen.get(reason, status)


def keep(front: Front, report: "Mapping[str, object]") -> None:
    """Write the report where it was asked for, and one line of history; neither may spoil the run."""
    if front.report_fd is not None:
        why = write_report(front.report_fd, dumps(report))
        if why is not None:
            say(f"--report {front.values.report}: not written: {why.lower()}")
    try:
        append(
            state(),
            {
                **summary(report),
                "program": front.argv[0],
                "flags": flag_names(front.argv[1:]),
                "cwd": os.getcwd(),
            },
        )
    except (StoreError, OSError) as error:
        say(str(error))
