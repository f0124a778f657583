"""How `run` leaves: a line of history, then the exit status; and all there is to do for a run that was over at once."""

import os

from longwatch.cli.main import Front, leave, leave_by, say
from longwatch.core.outcomes import OURS, exit_status, outcome
from longwatch.errors import StoreError
from longwatch.options import recorded
from longwatch.paths import rfc3339, state
from longwatch.posix.reactor import wall_of
from longwatch.store.spool import append

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping
    from typing import NoReturn
else:
    import _signal

_TYPED = (2, 3)


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
        if front.readerless:
            leave_by(_signal.SIGPIPE)
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
