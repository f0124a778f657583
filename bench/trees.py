"""Finding and ending a whole tree: PERF-17 and PERF-18."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, Missing, alternate, output, spawn

#: Within the leader's group; in sessions of their own; orphans in sessions of their own.
FOREST = ("900", "50", "50")
CROWD = 5_000
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def perf_17(lab: Lab) -> list[Figure]:
    """A tree of 1,000 of which 100 have got away from their group, one in two of them also from its parent."""
    cases = {name: lambda name=name: _fell(lab, name) for name in ("longwatch", "psutil")}
    why = ""
    try:
        group = _cgroup()
        cases["cgroup"] = lambda: _fell(lab, "cgroup", group)
    except Missing as missing:
        why = str(missing)
    found = alternate(cases, lab.rounds(5, 2))
    took = {name: median(trial["ms"] for trial in trials) for name, trials in found.items()}
    left = {name: max(trial["survivors"] for trial in trials) for name, trials in found.items()}
    note = ", ".join(f"{name} {took[name]:.0f} ms, {left[name]:.0f} left" for name in took)
    ours = took["longwatch"]
    return [
        at_most("PERF-17", "survivors of a tree of 1,000 with 100 escapees", left["longwatch"], 0, "", note),
        at_most("PERF-17", "end of it / cgroup.kill", ours / took["cgroup"] if "cgroup" in took else None, 2.0,
                note=why),
        at_most("PERF-17", "end of it / psutil's", ours / took["psutil"], 1 / 3),
    ]  # fmt: skip


def perf_18(lab: Lab) -> list[Figure]:
    """Twenty-four descendants among thousands of processes of others."""
    with _crowd(lab, CROWD if not lab.quick else CROWD // 5) as count:
        argv = [*lab.program("find_tree"), str(lab.rounds(20, 5)), *lab.compiled("forest"), "24", "0", "0"]
        found = {name: median(values) for name, values in json.loads(output(lab, argv)).items()}
    ours, psutil = found["pids"], found["psutil"]
    note = (
        f"{ours:.2f} and {psutil:.0f} ms; with who each of them is {found['members']:.2f}; {count} processes"
    )
    return [at_least("PERF-18", "psutil / finding the 24 of a tree", psutil / ours, 500, note=note)]


def _fell(lab: Lab, way: str, *more: str) -> dict[str, float]:
    argv = [*lab.program("fell_tree"), way, *more, "--", *lab.compiled("forest"), *FOREST]
    return json.loads(output(lab, argv))


def _cgroup() -> str:
    """Return the folder of a version 2 hierarchy in which we may make groups. Raises Missing."""
    for root in CGROUPS:
        if os.path.exists(f"{root}/cgroup.controllers") and os.access(root, os.W_OK):
            probe = f"{root}/longwatch-bench-{os.getpid()}"
            try:
                os.mkdir(probe)
                usable = os.path.exists(f"{probe}/cgroup.kill")
                os.rmdir(probe)
            except OSError:
                continue
            if usable:
                return root
    raise Missing("there is no cgroup v2 with cgroup.kill to write to")


@contextmanager
def _crowd(lab: Lab, count: int) -> Iterator[int]:
    """Have so many other processes, all of one parent, in a group of their own."""
    argv = [*lab.compiled("forest"), str(count), "0", "0"]
    reading, writing = os.pipe()
    pid = spawn(lab, argv, stdout=writing, new_session=True)
    os.close(writing)
    try:
        _await(reading, count)
        yield count
    finally:
        os.close(reading)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _await(reading: int, count: int) -> None:
    seen = 0
    while seen < count:
        data = os.read(reading, 65536)
        if not data:
            raise Failed(f"only {seen} of {count} processes could be started")
        seen += len(data)
