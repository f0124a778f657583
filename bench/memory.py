"""Memory: a run that waits (PERF-4), and a run whose program writes more than memory holds (PERF-7)."""

import os
import signal
import time
from statistics import median

from bench.figures import Figure, at_most
from bench.lab import Failed, Lab, output, spawn
from bench.streams import Stream

MIB = 1 << 20
#: Everything that a run loads later is loaded by then, and its guardian is there.
SETTLED = 2.0
LONG = "30"
#: ms after which a short run has loaded what a long one has, its guardian included.
LOADED = 400


def perf_4(lab: Lab) -> list[Figure]:
    """All wait at the same time, so that what they share with other interpreters is shared for each of them."""
    found: dict[str, list[float]] = {"longwatch": [], "python": [], "asyncio": []}
    for _ in range(lab.rounds(3, 1)):
        for name, value in _waiting(lab).items():
            found[name].append(value)
    ours, bare, loop = (median(found[name]) for name in ("longwatch", "python", "asyncio"))
    note = (
        f"private: {ours:.2f}, {bare:.2f} and {loop:.2f} MiB; pages shared with its guardian only count once"
    )
    return [
        at_most("PERF-4", "a waiting run and its guardian / python -c sleep", ours / bare, 1.45, note=note),
        at_most("PERF-4", "a waiting run and its guardian / the same with asyncio", ours / loop, 0.40),
    ]


def perf_7(lab: Lab) -> list[Figure]:
    """How much higher the peak is when the program writes a lot than when it writes a line."""
    size = 128 * MIB if lab.quick else 2048 * MIB
    rounds = lab.rounds(3, 1)
    little = median(_peak(lab, 1_000) for _ in range(rounds))
    much = median(_peak(lab, size) for _ in range(rounds))
    captured = 128 * MIB
    buffered = _peak_of_communicate(lab, captured)
    note = f"peak {much:.1f} MiB for {size // MIB} MiB of output; communicate() takes {buffered:.0f} for 128"
    return [
        at_most("PERF-7", "peak of a run with much output - with little", much - little, 1.0, "MiB", note)
    ]


def _waiting(lab: Lab) -> dict[str, float]:
    """Return the private memory, in MiB, of each way to wait for `sleep`."""
    programs = {
        "longwatch": lab.run("sleep", LONG),
        "python": [lab.python, "-c", f"import time; time.sleep({LONG})"],
        "asyncio": [*lab.program("asyncio_pump"), "sleep", LONG],
        "another": [lab.python, "-c", f"import time; time.sleep({LONG})"],
    }
    pids = {name: spawn(lab, argv) for name, argv in programs.items()}
    time.sleep(SETTLED)
    try:
        return {name: _private(pids[name]) for name in ("longwatch", "python", "asyncio")}
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
        for pid in pids.values():
            os.waitpid(pid, 0)


def _private(pid: int) -> float:
    """Return what would be free if the process, and those it forked off itself, were gone.

    A fork shares the pages that neither has written: the proportional share counts these once over the two.
    """
    family = [pid, *(child for child in _children(pid) if _same_program(pid, child))]
    return sum(_rollup(member, "Pss_Anon", "Private_Clean") for member in family) / 1024


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
        return [int(child) for child in file.read().split()]


def _same_program(one: int, other: int) -> bool:
    return os.readlink(f"/proc/{one}/exe") == os.readlink(f"/proc/{other}/exe")


def _rollup(pid: int, *names: str) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        fields = (line.split() for line in file)
        return sum(int(words[1]) for words in fields if words[0].rstrip(":") in names)


def _peak(lab: Lab, size: int) -> float:
    """Return the peak resident size of a run, in MiB, while its program still lives after its last byte."""
    producer = [*lab.tool("producer"), str(size), "65536", str(LOADED + 300)]
    stream = Stream(lab, lab.run(*producer))
    stream.read(size)
    time.sleep(LOADED / 1000)
    peak = _high_water(stream.pump)
    stream.end(size)
    return peak


def _high_water(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise Failed(f"process {pid} is gone")


def _peak_of_communicate(lab: Lab, size: int) -> float:
    return int(output(lab, [*lab.program("communicate"), *lab.tool("producer"), str(size)])) / 1024
