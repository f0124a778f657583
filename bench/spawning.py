"""What a start costs above the C library's: PERF-19."""

import os
import random
from statistics import median

from bench.figures import Figure, at_most
from bench.lab import Failed, Lab, spawn

#: Starts per round and way; their median counts.
STARTS = 30
BIG = 2048
SPARE = 2 * BIG


class Starter:
    """A process that starts the no-op `STARTS` times whenever it is told to, and says what one start took."""

    def __init__(self, lab: Lab, argv: list[str]) -> None:
        self.argv = argv
        theirs, self._ask = os.pipe()
        self._answer, answers = os.pipe()
        self.pid = spawn(lab, argv, stdin=theirs, stdout=answers)
        os.close(theirs)
        os.close(answers)
        self.us: list[float] = []

    def go(self) -> None:
        os.write(self._ask, b".")
        text = os.read(self._answer, 100)
        if not text:
            raise Failed(f"{' '.join(self.argv)[:200]}: ended")
        self.us.append(float(text))

    def end(self) -> None:
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self.pid, 0)


def perf_19(lab: Lab) -> list[Figure]:
    """Start, two pipes and pidfd included, and wait; from a small parent and from one that holds 2 GiB."""
    noop = lab.tool("noop", static=True)
    ours = [*lab.program("start_many"), str(STARTS)]
    big = _megabytes_free() >= SPARE
    starters = {"longwatch": Starter(lab, [*ours, "0", *noop]), "c": Starter(lab, [*_loop(lab), *noop])}
    if big:
        starters["big"] = Starter(lab, [*ours, str(BIG), *noop])
    try:
        for _ in range(lab.rounds(20, 5) + 1):
            for starter in random.sample(list(starters.values()), len(starters)):
                starter.go()
    finally:
        for starter in starters.values():
            starter.end()
    us = {name: median(starter.us[1:]) for name, starter in starters.items()}
    note = ", ".join(f"{name} {value:.0f}" for name, value in us.items())
    why = note if big else f"less than {SPARE} MiB of memory are free"
    return [
        at_most("PERF-19", "spawn and wait / posix_spawn in C", us["longwatch"] / us["c"], 1.2, note=f"µs: {note}"),
        at_most("PERF-19", "spawn from a parent with 2 GiB / from a small one",
                us["big"] / us["longwatch"] if big else None, 1.25, note="" if big else why),
    ]  # fmt: skip


def _loop(lab: Lab) -> list[str]:
    return [*lab.compiled("start_many"), str(STARTS)]


def _megabytes_free() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("MemAvailable:"))
