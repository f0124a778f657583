"""notice TRIALS COMMAND...: how long after its last act an exit is noticed, in ms, by longwatch.run and by Popen.

The command is given the ms that it is to live, and prints the instant of its last act. `noticed` is when longwatch
has seen that the leader ended, without the rest of the run's end.
"""

import json
import random
import subprocess
import sys
import time

import longwatch.library

trials, command = int(sys.argv[1]), sys.argv[2:]
found = {"longwatch": [], "noticed": [], "popen": []}
seen_at = [0]


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Noticing(longwatch.library.Process):
    """A process that remembers when its end was seen."""

    __slots__ = ()

    def look(self) -> None:
        was = self.ended
        super().look()
        if was is None and self.ended is not None:
            seen_at[0] = now()


def by_longwatch(span: str) -> None:
    result = longwatch.run([*command, span])
    seen = now()
    found["longwatch"].append((seen - int(result.stdout)) / 1e6)
    found["noticed"].append((seen_at[0] - int(result.stdout)) / 1e6)


def by_popen(span: str) -> None:
    with subprocess.Popen([*command, span], stdout=subprocess.PIPE) as process:
        process.wait(timeout=60)
        seen = now()
        found["popen"].append((seen - int(process.stdout.read())) / 1e6)


longwatch.library.Process = Noticing
for _ in range(trials):
    for way in random.sample((by_longwatch, by_popen), 2):
        way(str(random.randint(30, 80)))
json.dump({name: values[1:] or values for name, values in found.items()}, sys.stdout)
