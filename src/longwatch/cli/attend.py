"""Attends to a child that runs: join the streams, look whether it outlives a blink, and how `run` leaves.

A child that ends within 20 ms and leaves nothing behind never meets the watch: there was nothing to decide. One line
of history is all there is to do for it.
"""

import os

from longwatch.cli.main import Front, leave, leave_by, say
from longwatch.core.outcomes import OURS, exit_status, outcome
from longwatch.errors import StoreError
from longwatch.options import recorded
from longwatch.paths import rfc3339, state
from longwatch.posix import wall_of
from longwatch.posix.process import STDERR, STDOUT, Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import INHERIT, PTY, own_children
from longwatch.store.spool import append

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping
    from typing import NoReturn

    from longwatch.options import Values
    from longwatch.posix.child import Child
else:
    import _signal

#: A start is a page of imports; a child that is done before they were would have waited for nothing.
BLINK = 20
_LIMITS = ("idle", "first", "ceiling", "timeout", "soft")
_TYPED = (2, 3)


def attend(front: Front, child: "Child") -> "NoReturn":
    """Move the child's bytes; after a blink load the watch, and supervise to the end."""
    join(front, child)
    if front.process.run_until(child.started + _blink(front.values)) and _nothing_left(front):
        blink(front)
    from longwatch.cli.longrun import supervise  # noqa: PLC0415

    supervise(front)


def join(front: Front, child: "Child") -> None:
    """Connect the child's streams with ours, and our terminal with the child's."""
    front.reactor = Reactor()
    front.ear.listen(front.reactor)
    sinks = {STDOUT: Sink(1)} if child.stderr_fd is None else {STDOUT: Sink(1), STDERR: Sink(2)}
    front.process = Process(child, front.reactor, sinks, merged=child.stderr_fd is None)
    if front.output == PTY:
        from longwatch.posix.terminal import Terminal  # noqa: PLC0415

        front.terminal = Terminal.over(front.process, 0, 1, keys=front.values.stdin == INHERIT)
    if front.log is not None or front.screen is not None or front.values.not_progress is not None:
        from longwatch.cli.extras import attach  # noqa: PLC0415

        attach(front)


def _blink(values: "Values") -> int:
    """No limit may come due while nobody watches."""
    return min((span for name in _LIMITS if 0 < (span := values.get(name)) < BLINK), default=BLINK)


def _nothing_left(front: Front) -> bool:
    """Whether the leader is our only new child: as subreaper we would have adopted whatever it left."""
    if not front.subreaper or front.ear.caught:
        return False
    known = (front.process.child.pid, *front.strangers)
    return all(pid in known for pid in own_children())


def blink(front: Front) -> "NoReturn":
    """End a run that was over before there was anything to watch: with a short history, and as the child did."""
    code, signal = front.process.ended or (None, None)
    reason = "exited" if code is not None else "signaled" if signal is not None else "unknown"
    for pump in front.process.pumps.values():
        if pump.sink is not None and pump.sink.failed is not None:
            say(output_lost(front, pump.sink.failed))
    if front.report_fd is not None or signal is not None:
        from longwatch.cli.ended import finish, report_of_blink  # noqa: PLC0415

        finish(front, report_of_blink(front, reason))
    if front.terminal is not None:
        front.terminal.close()
    remember(front, _brief(front, reason, code))
    leave_as(front, reason, code, None)


def _brief(front: Front, reason: str, code: int | None) -> dict[str, object]:
    """Return what the history keeps of a report (see `core.report`), for a run without a watch."""
    process = front.process
    started = process.child.started
    word, verdict = outcome(reason, code)
    return {
        "schema": 1,
        "run": front.run_id,
        "name": front.name,
        "attempt": 1,
        "termination_reason": reason,
        "origin": None,
        "outcome": word,
        "verdict": verdict,
        "exit_code": code,
        "signal": None,
        "limit": None,
        "started_at": rfc3339(wall_of(started)),
        "duration_ms": process.ended_at - started,
    }


def remember(front: Front, record: "Mapping[str, object]") -> None:
    """Append one line to the history; a run is not spoiled by a history that cannot be written."""
    program, *flags = recorded(front.argv)
    more = {"program": program, "flags": flags, "cwd": _cwd()}
    try:
        append(state(), {**record, **more})
    except StoreError as error:
        not_kept(front, error)


def not_kept(front: Front, error: StoreError) -> None:
    """Say once that our files cannot be written; the run goes on."""
    if not front.unkept:
        front.unkept = True
        say(f"{front.name}: {error}")


def output_lost(front: Front, why: str) -> str:
    """Return what is said when our own stdout or stderr takes no more."""
    return (
        f"{front.name}: its output cannot be written: {why.lower()}; it goes on, and what it writes is lost"
    )


def leave_as(
    front: Front, reason: str, code: int | None, signal: int | None, *, result_ok: bool | None = None
) -> "NoReturn":
    """End with the status of the reason, one chosen by `--exit-code`, or by the very signal that ended the run."""
    chosen = front.values.exit_code or {}
    if reason in chosen:
        leave(chosen[reason])
    deadly = _deadly(front, reason, signal)
    if deadly is not None:
        leave_by(deadly, group=front.terminal is not None and front.terminal.pressed == deadly == signal)
    status = exit_status(reason, code, signal, result_ok=result_ok)
    if status == 0 and any(pump.lost for pump in front.process.pumps.values()):
        # A success whose output did not arrive is none. Who writes into a pipe without a reader dies of it.
        if _readerless(front):
            leave_by(_signal.SIGPIPE)
        # Told to end while a reader kept us waiting: the rest of the output was given up for that.
        if front.ended_by is not None:
            leave_by(front.ended_by)
        status = OURS
    leave(status)


def _deadly(front: Front, reason: str, signal: int | None) -> int | None:
    """Return the signal to end by: the one that reached us, or the one that was typed at the program's terminal."""
    if reason == "interrupted" and front.ended_by is not None:
        return front.ended_by
    typed = signal in _TYPED and reason == "signaled" and front.terminal is not None
    return signal if typed else None


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _readerless(front: Front) -> bool:
    """Whether somebody who read our output has left."""
    return any(pump.sink is not None and pump.sink.broken for pump in front.process.pumps.values())
