"""A batch of items that do nothing beside GNU parallel with the same words, on the disk: BATCH-1."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable

from bench.figures import Figure, at_most
from bench.lab import Lab, Missing, finish, medians, spawn

ITEMS, JOBS = 1_000, 8
PEERS = os.path.join(".cache", "peers")


def batch_1(lab: Lab) -> list[Figure]:
    """From the start of the program to its end; ours has a state of each item on the disk by then, synced."""
    count = 100 if lab.quick else ITEMS
    what = f"{count} items of true, {JOBS} at a time, states synced / GNU parallel with a job log"
    try:
        peer = _parallel()
    except Missing as why:
        return [at_most("BATCH-1", what, None, 1.5, note=str(why))]
    found = medians({"ours": _ours(lab, count), "peer": _theirs(lab, peer, count)}, lab.rounds(5, 1))
    note = f"{found['ours'] / count:.2f} and {found['peer'] / count:.2f} ms an item"
    return [at_most("BATCH-1", what, found["ours"] / found["peer"], 1.5, note=note)]


def _ours(lab: Lab, count: int) -> Callable[[], float]:
    folder = os.path.join(lab.folder, "batch")

    def case() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        plan = {"base": "b", "item": [{"id": f"i{number}", "command": "true"} for number in range(count)]}
        with open(f"{folder}/plan.json", "w", encoding="ascii") as file:
            json.dump(plan, file)
        took = _wall(lab, [lab.longwatch, "batch", "run", f"{folder}/plan.json", "--jobs", str(JOBS)])
        states = [name for name in os.listdir(f"{folder}/b/state") if name.endswith(".json")]
        assert len(states) == count
        return took

    return case


def _theirs(lab: Lab, program: str, count: int) -> Callable[[], float]:
    words = ["--will-cite", "--jobs", str(JOBS), "--joblog", f"{lab.folder}/jobs", "true", ":::"]
    argv = [program, *words, *map(str, range(count))]

    def case() -> float:
        took = _wall(lab, argv)
        with open(f"{lab.folder}/jobs", encoding="ascii") as log:
            assert len(log.readlines()) == count + 1
        return took

    return case


def _wall(lab: Lab, argv: list[str]) -> float:
    start = time.perf_counter_ns()
    finish(lab, spawn(lab, argv), argv)
    return (time.perf_counter_ns() - start) / 1e6


def _parallel() -> str:
    """Return GNU parallel: the installed one, which is not that of moreutils, or Debian's package, unpacked. Raises Missing."""
    unpacked = os.path.abspath(os.path.join(PEERS, "parallel", "usr", "bin", "parallel"))
    for path in (shutil.which("parallel"), unpacked):
        if path is not None and _is_gnu(path):
            return path
    os.makedirs(PEERS, exist_ok=True)
    try:
        subprocess.run(
            ["apt-get", "download", "parallel"], cwd=PEERS, capture_output=True, timeout=60, check=True
        )
        (package,) = [
            name for name in os.listdir(PEERS) if name.startswith("parallel_") and name.endswith(".deb")
        ]
        subprocess.run(
            ["dpkg", "-x", package, "parallel"], cwd=PEERS, capture_output=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Missing(f"GNU parallel is not installed, and cannot be fetched: {error}") from error
    if not _is_gnu(unpacked):
        raise Missing("GNU parallel does not run here: it needs perl")
    return unpacked


def _is_gnu(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=20, check=False)
    except OSError:
        return False
    return b"GNU parallel" in done.stdout
