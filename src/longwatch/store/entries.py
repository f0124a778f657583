"""What the daemon tells the ledger, made ready for it: without secrets, not too long, in columns.

A record is a dict of JSON values with times as RFC 3339. `opened` comes before a run's start, `closed` with its end,
`decided` instead of a start, and an event is whatever happened. Each run keeps one summary: what was known when it
was opened, with what its end says laid over it.
"""

import json
import time

from longwatch.core.outcomes import REASONS, outcome
from longwatch.jsonlean import dumps
from longwatch.paths import new_run_id, rfc3339
from longwatch.store import spool
from longwatch.store.intake import BadLineError, Row, clean, fits, instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping
    from typing import Any

    Record = Mapping[str, Any]
    Summary = dict[str, Any]

#: What stands in the column `outcome` of a run that has not ended.
RUNNING = "running"
#: A firing that waits for its turn; opening it as a run takes its row away.
QUEUED = "queued"
#: Why a run is closed that nobody saw end.
CRASH, SHUTDOWN = "daemon_crash", "shutdown"
#: Names that we or the configuration gave, closed sets and times: they hold no secret, and rows are found by them.
PLAIN_KEYS = frozenset({
    "run", "harness", "name", "daemon", "kind", "event", "outcome", "termination_reason", "origin", "started_at",
    "ended_at", "due_at", "at",
})  # fmt: skip
#: What stays of an event that is too long.
_OF_EVENT = ("event", "at", "at_ms", "seq", "harness", "run")
_OPEN_DIAGNOSIS = {
    CRASH: "the daemon had died when it ended, so nobody saw how",
    SHUTDOWN: "the daemon was stopped, and this run with it",
}


def without_secrets(record: "Record", text: "Callable[[str], str] | None") -> "Summary":
    """Return a record with every text in it gone through `text`, names of sources and the like too."""
    if text is None:
        return dict(record)
    return {
        key: value if key in PLAIN_KEYS and isinstance(value, str) else _hidden(value, text)
        for key, value in record.items()
    }


def _hidden(value: "Any", text: "Callable[[str], str]") -> "Any":
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return text(value.decode("utf-8", "replace"))
    if isinstance(value, dict):
        return {_hidden(key, text): _hidden(inner, text) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(inner, text) for inner in value]
    return value


def fitted(record: "Record") -> str:
    """Return a record's JSON, at most 16 KiB: what goes first is what a spool line leaves out first."""
    whole = dumps(record)
    if len(whole) <= spool.LONGEST_LINE:
        return whole
    short = json.loads(spool.line(record))
    del short["v"], short["type"]
    return dumps(short)


def fitted_event(event: "Record") -> str:
    """Return an event's JSON, at most 16 KiB: of a record in it what tells runs apart stays, of itself as much."""
    whole = dumps(event)
    if len(whole) <= spool.LONGEST_LINE:
        return whole
    record = event.get("record")
    if isinstance(record, dict):
        short = {key: record[key] for key in spool.ESSENTIAL if key in record}
        whole = dumps({**event, "record": short, "trimmed": ["record"]})
    if len(whole) > spool.LONGEST_LINE:
        kept = {key: event[key] for key in _OF_EVENT if key in event}
        whole = dumps({**kept, "trimmed": [str(key)[:40] for key in event if key not in kept][:20]})
    return whole


def opened(record: "Record", daemon: str) -> Row:
    """Return the row of a run that is about to start. Raises BadLineError when it lacks what identifies a run."""
    summary = {"schema": 1, "name": record.get("harness"), "attempt": 1, **record, "outcome": RUNNING}
    return _row(summary, daemon, ended=None)


def closed(record: "Record", before: "Record", daemon: str) -> Row:
    """Return the row of a run that has ended; `before` is what it was opened with (nothing, where that was lost)."""
    ending = {key: value for key, value in record.items() if value is not None or key not in before}
    name = before.get("harness") or record.get("harness")
    summary = {"schema": 1, "name": name, "attempt": 1, **before, **ending}
    if summary.get("outcome") in (None, RUNNING):
        reason, code = summary.get("termination_reason"), summary.get("exit_code")
        known = reason if isinstance(reason, str) and reason in REASONS else "unknown"
        summary["outcome"] = outcome(known, code if isinstance(code, int) else None)[0]
    started = instant(summary.get("started_at"))
    if summary.get("ended_at") is None:
        took = summary.get("duration_ms")
        summary["ended_at"] = rfc3339(started + (took if fits(took) else 0))
    ended = instant(summary["ended_at"])
    if summary.get("duration_ms") is None:
        summary["duration_ms"] = max(0, ended - started)
    return _row(summary, daemon, ended=ended)


def decided(record: "Record", daemon: str) -> Row:
    """Return the row of a firing that is no run: attempt 0, over in the instant of the decision."""
    at = record.get("at") or rfc3339(time.time_ns() // 1_000_000)
    run = record.get("run") or new_run_id(str(record.get("harness") or ""))
    summary = {
        "schema": 1, "name": record.get("harness"), **record, "run": run, "attempt": 0, "started_at": at,
        "ended_at": at, "duration_ms": 0,
    }  # fmt: skip
    return _row(summary, daemon, ended=instant(at))


def repaired(record: "Record", cause: str, at: int) -> "Summary":
    """Return what closes a run that is open in the ledger and that nobody runs; `at` stands for an unknown end."""
    ended = record.get("ended_at")
    return {
        "termination_reason": "interrupted",
        "outcome": "interrupted",
        "origin": SHUTDOWN if cause == SHUTDOWN else None,
        "cause": cause,
        "diagnosis": _OPEN_DIAGNOSIS[cause],
        **record,
        "ended_at": ended if isinstance(ended, str) else rfc3339(at),
    }


def _row(summary: "Summary", daemon: str, *, ended: int | None) -> Row:
    run, attempt, name = summary.get("run"), summary.get("attempt", 1), summary.get("name")
    if not isinstance(run, str) or not run or not fits(attempt):
        raise BadLineError("a record without its run")
    generation = summary.get("generation")
    return Row(
        clean(run) or "",
        attempt,
        clean(name) or "",
        instant(summary.get("started_at")),
        ended,
        fitted(summary),
        reason=clean(summary.get("termination_reason")),
        outcome=clean(summary.get("outcome")),
        daemon=daemon,
        kind=clean(summary.get("kind")),
        trigger=clean(summary.get("trigger")),
        generation=generation if fits(generation) else None,
    )


def before(db: "sqlite3.Connection", run: object, attempt: object) -> "Summary":
    """Return what a run was opened with, inside the caller's transaction; empty where it was not."""
    if not isinstance(run, str) or not fits(attempt):
        return {}
    found = db.execute("SELECT json FROM summaries WHERE run=? AND attempt=?", (run, attempt)).fetchone()
    kept = json.loads(found[0]) if found else {}
    return kept if isinstance(kept, dict) else {}
