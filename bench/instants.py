"""How late: the stop after the idle deadline (PERF-10), the news of an exit (PERF-11), the end (PERF-12)."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, alternate, finish, output, percentile, spawn

IDLE = 40
#: The program lives for long enough that all is loaded, speaking every 10 ms; `timeout` stops it after as long.
WORDS, EVERY = 30, 10
TIMEOUT = 0.3
BUSY = "while :; do :; done"
SIZE = 588_895
HELD = 2_000


def perf_10(lab: Lab) -> list[Figure]:
    """The moment at which the program has TERM, less its last word and the idle limit."""
    rounds = lab.rounds(40, 8)
    quiet = alternate(_stops(lab), rounds)
    with _busy(2 * (os.cpu_count() or 1)):
        loaded = alternate(_stops(lab), rounds)
    ours, busy = quiet["longwatch"], loaded["longwatch"]
    behind = median(ours) - median(quiet["timeout"])
    behind_busy = median(busy) - median(loaded["timeout"])
    return [
        at_most("PERF-10", "stop after the idle deadline, p50", median(ours), 0.2, "ms", _all(quiet)),
        at_most("PERF-10", "the same, p99", percentile(ours, 0.99), 1.0, "ms"),
        at_most("PERF-10", "the same, p50 - timeout's", behind, 1.0, "ms"),
        at_most("PERF-10", "the same with twice as many loops as cores, p99", percentile(busy, 0.99), 10.0, "ms",
                _all(loaded)),
        at_most("PERF-10", "the same with loops, p50 - timeout's", behind_busy, 1.0, "ms"),
    ]  # fmt: skip


def perf_11(lab: Lab) -> list[Figure]:
    """From the program's last act to the return of the call that waits for it, in one process."""
    trials = lab.rounds(100, 15)
    found = json.loads(output(lab, [*lab.program("notice"), str(trials), *lab.tool("lastact")]))
    noticed, theirs = median(found["noticed"]), median(found["popen"])
    note = f"{noticed:.2f} and {theirs:.1f} ms; longwatch.run returns after {median(found['longwatch']):.1f}, with the tree"
    what = "Popen.wait(timeout=) / exit noticed by longwatch.run"
    return [at_least("PERF-11", what, theirs / noticed, 100, note=f"{note} proven gone")]


def perf_12(lab: Lab) -> list[Figure]:
    """A grandchild keeps the pipe; what counts is when the run is over, and that no byte of the child is lost."""
    from longwatch.core.spec import DRAIN_QUIET

    path = f"{lab.home}/parted"
    parting = [*lab.tool("parting"), path, str(SIZE), str(HELD)]
    cases = {
        "longwatch": lambda: _after_exit(lab, lab.run(*parting), path),
        "communicate": lambda: _after_exit(lab, [*lab.program("communicate"), *parting], path, None),
    }
    found = {name: median(values) for name, values in alternate(cases, lab.rounds(5, 1)).items()}
    note = f"{found['longwatch']:.0f} ms, {DRAIN_QUIET} of them the bound; communicate() {found['communicate']:.0f}"
    late = found["longwatch"] - DRAIN_QUIET
    return [at_most("PERF-12", "end of the run after the exit - drain bound", late, 5.0, "ms", note)]


def _stops(lab: Lab) -> dict[str, Callable[[], float]]:
    words = [str(WORDS), str(EVERY)]
    return {
        "longwatch": lambda: _late(lab, lab.run(options=["--idle", f"{IDLE}ms"]), words),
        "asyncio": lambda: _late(lab, [*lab.program("asyncio_pump"), "--idle", str(IDLE)], words),
        "timeout": lambda: _late(lab, [lab.peer("timeout"), str(TIMEOUT)], ["1", "0"], since_start=True),
    }


def _late(lab: Lab, supervisor: Sequence[str], words: Sequence[str], *, since_start: bool = False) -> float:
    """Return how many ms after its deadline the program got TERM; a machine too busy to speak gets another try."""
    path = f"{lab.home}/lastword"
    for _ in range(5):
        argv = [*supervisor, *lab.tool("lastword"), path, *words]
        finish(lab, spawn(lab, argv), argv, expected=(0, 15, 124, -15))
        with open(path, encoding="ascii") as file:
            text = file.read().split()
        os.unlink(path)
        if len(text) == 3:
            start, last, stopped = (int(stamp) for stamp in text)
            due = start + TIMEOUT * 1e9 if since_start else last + IDLE * 1e6
            return (stopped - due) / 1e6
    raise Failed(f"{' '.join(argv)[:200]}: was stopped before its last word, five times")


@contextmanager
def _busy(count: int) -> Iterator[None]:
    pids = [os.posix_spawn("/bin/sh", ["sh", "-c", BUSY], {}) for _ in range(count)]
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _all(found: dict[str, list[float]]) -> str:
    return "p50 / p99: " + ", ".join(
        f"{name} {median(all_):.2f} / {percentile(all_, 0.99):.2f}" for name, all_ in found.items()
    )


def _after_exit(lab: Lab, argv: Sequence[str], path: str, size: int | None = SIZE) -> float:
    """Return the ms between the child's last act, which it wrote down, and the end of what waits for it."""
    text = output(lab, argv)
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if size is not None and len(text) != size:
        raise Failed(f"{' '.join(argv)[:200]}: {len(text)} bytes of {size} came")
    with open(path, encoding="ascii") as file:
        return (ended - int(file.read())) / 1e6
