"""`python -m bench`: choose, measure, print."""

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable

from bench import (
    batch,
    daemons,
    guarding,
    instants,
    keeper,
    ledger,
    many,
    memory,
    spawning,
    startup,
    streams,
    tailing,
    tool,
    transcripts,
    trees,
)
from bench.figures import Figure, table
from bench.lab import Failed, Lab

MEASUREMENTS: dict[str, Callable[[Lab], list[Figure]]] = {
    "PERF-1": startup.perf_1,
    "PERF-2": startup.perf_2,
    "PERF-3": startup.perf_3,
    "PERF-4": memory.perf_4,
    "PERF-5": streams.perf_5,
    "PERF-6": streams.perf_6,
    "PERF-7": memory.perf_7,
    "PERF-8": streams.perf_8,
    "PERF-9": guarding.perf_9,
    "PERF-10": instants.perf_10,
    "PERF-11": instants.perf_11,
    "PERF-12": instants.perf_12,
    "PERF-13": many.perf_13,
    "PERF-14": many.perf_14,
    "PERF-15": daemons.perf_15,
    "PERF-16": daemons.perf_16,
    "PERF-17": trees.perf_17,
    "PERF-18": trees.perf_18,
    "PERF-19": spawning.perf_19,
    "PERF-20": transcripts.perf_20,
    "PERF-21": tailing.perf_21,
    "PERF-22": tailing.perf_22,
    "PERF-23": ledger.perf_23,
    "KEEP-1": keeper.keep_1,
    "KEEP-2": keeper.keep_2,
    "KEEP-3": keeper.keep_3,
    "BATCH-1": batch.batch_1,
    "DAEMON-1": daemons.daemon_1,
    "TOOL-1": tool.tool_1,
    "TOOL-2": tool.tool_2,
}


def main() -> int:
    options = _parser().parse_args()
    if not sys.platform.startswith("linux"):
        print("bench: Linux only, as the peers and /proc are", file=sys.stderr)
        return 2
    _say_what_is_measured()
    figures, failures = _measure(options)
    print(table(figures))
    for failure in failures:
        print(failure)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {"figures": [figure.record() for figure in figures], "failed": failures}, file, indent=2
            )
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=MEASUREMENTS, metavar="PERF-N", help="only this goal"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measurement, in place of its own number")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds and little data: a first idea, no verdict"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    return parser


def _measure(options: argparse.Namespace) -> tuple[list[Figure], list[str]]:
    figures: list[Figure] = []
    failures: list[str] = []
    with Lab(rounds=options.rounds, quick=options.quick) as lab:
        for name in options.only or MEASUREMENTS:
            start = time.monotonic()
            print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
            try:
                figures += MEASUREMENTS[name](lab)
            except Failed as error:
                failures.append(f"{name} failed: {error}")
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return figures, failures


def _say_what_is_measured() -> None:
    found = importlib.util.find_spec("longwatch")
    origin = "" if found is None or found.origin is None else os.path.dirname(found.origin)
    print(f"longwatch of {origin}, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    if not origin.startswith(sys.prefix):
        print("that is no installed wheel, so PERF-1 to PERF-3 tell little: run `make bench`")


sys.exit(main())
