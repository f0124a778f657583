"""The ledger: the last runs of a harness among a million, and what recording a run costs whoever records it (PERF-23)."""

import os
import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Lab, percentile
from longwatch.paths import rfc3339
from longwatch.store import spool
from longwatch.store.ledger import Ledger
from longwatch.store.listing import recent
from longwatch.store.writer import LedgerWriter

NAMES = 100
START = 1_700_000_000_000
#: Runs that end in the same instant.
AT_ONCE = 16
_ROW = "INSERT INTO runs VALUES (?, 1, ?, ?, ?, 'exited', 'success', 0, 'home-12345678', 'resident', 'restart', 1)"
#: The same rows by reading all of them, as without an index.
_UNINDEXED = (
    "SELECT run, attempt, started, ended, outcome, reason, trigger, daemon FROM runs NOT INDEXED WHERE name=?"
    " ORDER BY started DESC LIMIT 50"
)


def perf_23(lab: Lab) -> list[Figure]:
    """A query that has been asked before; ends of 16 processes that wait for one another, and of 16 harnesses."""
    rows = 100_000 if lab.quick else 1_000_000
    with Ledger(os.path.join(lab.folder, "large"), writer=True) as ledger:
        _fill(ledger, rows)
        asked = [_took(ledger, indexed=True) for _ in range(lab.rounds(2_000, 300))]
        unindexed = median(_took(ledger, indexed=False) for _ in range(lab.rounds(9, 3)))
    query = median(asked)
    appended = _append_at_once(lab, lab.rounds(200, 40))
    closed, durable = _close_at_once(lab, lab.rounds(200, 40))
    note = f"{rows:,} rows, unindexed {unindexed:.0f} ms; p99 {percentile(asked, 0.99):.3f} ms"
    return [
        at_most("PERF-23", "the last 50 runs of a harness, warm", query, 0.1, "ms", note),
        at_least("PERF-23", "without an index / that", unindexed / query, 1_000 if not lab.quick else 100),
        at_most("PERF-23", "a line of `run`, 16 ending at once, p50", median(appended), 0.02, "ms"),
        at_most("PERF-23", "the same, p99", percentile(appended, 0.99), 1, "ms", f"most {max(appended):.2f} ms"),
        at_most("PERF-23", "what a daemon's loop waits for an end, 16 at once, p50", median(closed), 0.02, "ms"),
        at_most("PERF-23", "the same, p99", percentile(closed, 0.99), 1, "ms",
                f"all 16 are on the disk after {median(durable):.1f} ms, p99 {percentile(durable, 0.99):.1f}"),
    ]  # fmt: skip


def _fill(ledger: Ledger, rows: int) -> None:
    """Write a year of a hundred harnesses, their runs in turn."""
    for first in range(0, rows, 50_000):
        batch = [
            (f"harness{n % NAMES:02d}-{n:06x}", f"harness{n % NAMES:02d}", START + n * 30_000, START + n * 30_000 + 9_000)
            for n in range(first, min(first + 50_000, rows))
        ]  # fmt: skip
        ledger.write(lambda db, batch=batch: db.executemany(_ROW, batch))  # type: ignore[misc]


def _took(ledger: Ledger, *, indexed: bool) -> float:
    begun = time.perf_counter_ns()
    found = recent(ledger, "harness42", 50) if indexed else ledger.rows(_UNINDEXED, ("harness42",))
    took = (time.perf_counter_ns() - begun) / 1e6
    assert len(found) == 50
    return took


def _record(run: str) -> dict[str, object]:
    """Return what the history keeps of a usual run: nearly a kilobyte."""
    stream = {"bytes": 48_213, "truncated": False, "lost": 0}
    return {
        "schema": 1, "run": run, "name": "web", "harness": "web", "attempt": 1, "termination_reason": "exited",
        "origin": None, "outcome": "success", "exit_code": 0, "signal": None, "limit": None,
        "started_at": rfc3339(START), "duration_ms": 81_234, "idle_ms": 1_203,
        "progress": {"output": {"last_ms_ago": 1_203, "count": 812}, "file:*.log": {"last_ms_ago": 15, "count": 7}},
        "pauses": [], "stdout": stream, "stderr": stream, "merged": False, "leftovers": {"count": 0, "processes": []},
        "rungs": [], "survivors": [], "proof": "subreaper", "stopped": None, "program": "/usr/bin/env",
        "flags": ["--model", "--print"], "cwd": "/home/somebody/work/project", "diagnosis": None, "resume": None,
    }  # fmt: skip


# Runs of `longwatch run`: each a process that appends one line


def _append_at_once(lab: Lab, rounds: int) -> list[float]:
    """Return the ms that each of 16 processes took for its line, all let go by the same write."""
    state = os.path.join(lab.folder, "spooled")
    with _waiting(state) as (go, answers):
        found: list[float] = []
        for count in range(rounds + 1):
            os.write(go, b"." * AT_ONCE)
            took = struct.unpack(f"{AT_ONCE}d", _exactly(answers, 8 * AT_ONCE))
            if count:  # the first one makes the folder and the file
                found += took
    return found


@contextmanager
def _waiting(state: str) -> Iterator[tuple[int, int]]:
    start, go = os.pipe()
    answers, answer = os.pipe()
    pids = []
    for number in range(AT_ONCE):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            _append_when_told(state, f"web-{number:06d}", start, answer)
        pids.append(pid)
    os.close(start)
    os.close(answer)
    try:
        yield go, answers
    finally:
        os.close(go)
        os.close(answers)
        for pid in pids:
            os.waitpid(pid, 0)


def _append_when_told(state: str, run: str, start: int, answer: int) -> None:
    """Append a line for each byte. A process that is quick may take another's byte: then it ends twice, which is as good."""
    record = _record(run)
    try:
        while os.read(start, 1):
            begun = time.perf_counter_ns()
            spool.append(state, record)
            os.write(answer, struct.pack("d", (time.perf_counter_ns() - begun) / 1e6))
    finally:
        os._exit(0)


def _exactly(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, size - len(data))
    return data


# Harnesses of a daemon: one loop that tells another thread


def _close_at_once(lab: Lab, rounds: int) -> tuple[list[float], list[float]]:
    """Return the ms that each end took the loop, and those until all 16 were durable."""
    writer = LedgerWriter(os.path.join(lab.folder, "daemon"), "home-12345678")
    writer.start()
    took: list[float] = []
    durable: list[float] = []
    for count in range(rounds):
        records = [_record(f"web-{count * AT_ONCE + number:06d}") for number in range(AT_ONCE)]
        answers: list[object] = []
        first = time.perf_counter_ns()
        for record in records:
            begun = time.perf_counter_ns()
            writer.close(record, answers.append)
            took.append((time.perf_counter_ns() - begun) / 1e6)
        while len(answers) < AT_ONCE:
            select.select([writer], [], [])
            begun = time.perf_counter_ns()
            writer.collect()
            took[-1] += (time.perf_counter_ns() - begun) / 1e6
        durable.append((time.perf_counter_ns() - first) / 1e6)
    writer.stop()
    return took, durable
