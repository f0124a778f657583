"""What a keeper costs: its memory (KEEP-1), a start through it (KEEP-2), and its own start (KEEP-3)."""

import os
import signal
import subprocess
import time
from statistics import median

from bench.figures import Figure, at_most
from bench.lab import Failed, Lab, medians, spawn, wall
from bench.memory import _private

RUNS = 10
SETTLED = 1.0


def keep_1(lab: Lab) -> list[Figure]:
    """A keeper of ten programs beside an interpreter that does nothing, both waiting at the same time."""
    found = [_memory(lab) for _ in range(lab.rounds(3, 1))]
    ours, bare = (median(values) for values in zip(*found, strict=True))
    note = f"private: {ours:.2f} and {bare:.2f} MiB"
    return [at_most("KEEP-1", "a keeper of ten runs / python -c sleep", ours / bare, 1.4, note=note)]


def keep_2(lab: Lab) -> list[Figure]:
    """From the request to what a master holds of it, and on to the program's end being known and forgotten."""
    argv = [*lab.program("kept_starts"), str(lab.rounds(300, 50)), *lab.tool("noop", static=True)]
    done = subprocess.run(argv, env=lab.env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {done.stderr[-500:]}")
    kept, direct, whole_kept, whole_direct = map(float, done.stdout.split())
    note = f"µs: {kept:.0f} and {direct:.0f}; to the known end {whole_kept:.0f} and {whole_direct:.0f}"
    return [
        at_most("KEEP-2", "a start through the keeper / by ourselves", kept / direct, 6, note=note),
        at_most("KEEP-2", "start to known end through it / by ourselves", whole_kept / whole_direct, 3),
    ]


def keep_3(lab: Lab) -> list[Figure]:
    """One program that starts a keeper, asks it something and ends it, beside the same program without."""
    once, bare = [*lab.program("kept_starts"), "0"], [*lab.program("kept_starts"), "-1"]
    found = medians({"once": wall(lab, *once), "none": wall(lab, *bare), "python": wall(lab, lab.python, "-c", "pass")},
                    lab.rounds(40, 9))  # fmt: skip
    ours = found["once"] - found["none"]
    note = f"{ours:.1f} and {found['python']:.1f} ms"
    return [
        at_most(
            "KEEP-3", "start and end of a keeper / python -c pass", ours / found["python"], 2.5, note=note
        )
    ]


def _memory(lab: Lab) -> tuple[float, float]:
    reading, writing = os.pipe()
    holder = spawn(lab, [*lab.program("kept_starts"), "hold", str(RUNS)], stdout=writing)
    os.close(writing)
    # Two of them, so that what interpreters share is shared for each.
    bare = [spawn(lab, [lab.python, "-c", "import time; time.sleep(30)"]) for _ in range(2)]
    with open(reading, encoding="ascii") as file:
        keeper = int(file.readline() or "0")
        time.sleep(SETTLED)
        try:
            return _private(keeper), _private(bare[0])
        except OSError as error:
            raise Failed(f"the keeper is gone: {lab.note()}") from error
        finally:
            for pid in (holder, *bare):
                os.kill(pid, signal.SIGTERM)
            for pid in (holder, *bare):
                os.waitpid(pid, 0)
