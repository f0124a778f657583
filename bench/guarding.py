"""What watching costs a stream of events: per event under asyncio and trio, and ten thousand streams (PERF-9)."""

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from statistics import median
from typing import Any

from bench.figures import Figure, at_most
from bench.lab import Lab, alternate, output

#: So many events that making and closing a guard is no part of the figure.
EVENTS = 50_000
#: Waiting for each event with a timer of its own is slow; its figure needs fewer.
WAITED = 4_000
STREAMS = 10_000
QUIET = 5.0


def perf_9(lab: Lab) -> list[Figure]:
    """Nanoseconds per event of a source that always has one; what a plain loop over it costs is taken off."""
    from longwatch.observe.events import Text

    rounds = lab.rounds(15, 3)
    cases = {
        "bare": lambda: _per_event(asyncio.run, _bare),
        "guarded": lambda: _per_event(asyncio.run, _guarded),
        "read": lambda: _per_event(asyncio.run, lambda source: _guarded(source, Text("word")), EVENTS // 5),
        "wait_for": lambda: _per_event(asyncio.run, _waited, WAITED),
    }
    # What else runs on the machine only ever adds: the least of many rounds is what it costs.
    least = {name: min(values) for name, values in alternate(cases, rounds).items()}
    added = least["guarded"] - least["bare"]
    share = 45 if sys.version_info < (3, 12) else 10
    note = (
        f"a plain loop {least['bare']:.0f} ns, wait_for {least['wait_for']:.0f}; events that are read and understood "
        f"cost {(least['read'] - least['bare']) / 1000:.1f} µs each"
    )
    return [
        at_most("PERF-9", "a guarded event - a bare one, asyncio", added, 320, "ns", note),
        at_most("PERF-9", f"the same × {share} / wait_for per event", added * share / least["wait_for"], 1.0),
        *_under_trio(rounds),
        *_many(lab),
    ]


def _under_trio(rounds: int) -> list[Figure]:
    what = "a guarded event - a bare one, trio"
    if importlib.util.find_spec("trio") is None:
        return [at_most("PERF-9", what, None, 7.0, "µs", "trio is not installed")]
    import trio

    cases = {
        "bare": lambda: _per_event(trio.run, _bare, EVENTS // 5),
        "guarded": lambda: _per_event(trio.run, _guarded, EVENTS // 5),
    }
    least = {name: min(values) for name, values in alternate(cases, rounds).items()}
    return [at_most("PERF-9", what, (least["guarded"] - least["bare"]) / 1000, 7.0, "µs")]


def _many(lab: Lab) -> list[Figure]:
    count = STREAMS // 10 if lab.quick else STREAMS
    found = {kind: _streams(lab, kind, count) for kind in ("bare", "guarded")}
    ours, bare = found["guarded"], found["bare"]
    each = (ours["bytes"] - bare["bytes"]) / count / 1024
    more = ours["tasks"] - bare["tasks"]
    note = (
        f"{each:.1f} KiB and {ours['opening_s'] / count * 1e6:.0f} µs to open each; {ours['cpu_s'] / QUIET:.3%} of a "
        f"core while all are quiet"
    )
    return [
        at_most(
            "PERF-9", f"timers of {count} guarded streams in one loop", ours["timers"], 1, "timers", note
        ),
        at_most("PERF-9", "their tasks - those of unguarded ones", more, 0, "tasks"),
    ]


def _streams(lab: Lab, kind: str, count: int) -> dict[str, float]:
    runs = [
        json.loads(output(lab, [*lab.program("many_streams"), kind, str(count), str(QUIET)]))
        for _ in range(3)
    ]
    return {name: median(run[name] for run in runs) for name in runs[0]}


async def _events(count: int, event: object) -> AsyncIterator[object]:
    for _ in range(count):
        yield event


async def _bare(source: Callable[..., AsyncIterator[object]]) -> None:
    async for _ in source(object()):
        pass


async def _guarded(source: Callable[..., AsyncIterator[object]], event: object = None) -> None:
    from longwatch import guard

    async for _ in guard(source(event or object())):
        pass


async def _waited(source: Callable[..., AsyncIterator[object]]) -> None:
    events = source(object())
    try:
        while True:
            await asyncio.wait_for(anext(events), 480)
    except StopAsyncIteration:
        return


def _per_event(run: Callable[..., Any], consume: Callable[..., Any], count: int = EVENTS) -> float:
    async def main() -> float:
        start = time.perf_counter_ns()
        await consume(lambda event: _events(count, event))
        return (time.perf_counter_ns() - start) / count

    return float(run(main) if run.__module__.startswith("trio") else run(main()))
