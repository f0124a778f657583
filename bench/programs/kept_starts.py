"""kept_starts COUNT COMMAND...: print the medians, in microseconds, of starting a program through a keeper and by
ourselves, and of the whole way to its known end. With 0 only start and end a keeper, with -1 not even that; with
`hold N` print the pid of a keeper of N programs and wait."""

import os
import select
import sys
import time
from statistics import median

from longwatch.posix.spawn import Launch, spawn
from longwatch.runtime.kept import Keeper


def both(keeper: Keeper, count: int, command: list[str]) -> list[tuple[float, ...]]:
    found = []
    for number in range(count):
        for starter in (lambda what, number=number: keeper.spawn(what, f"r{number}"), spawn):
            began = time.perf_counter_ns()
            child = starter(Launch(command))
            started = time.perf_counter_ns()
            poll = select.poll()
            poll.register(child.pidfd, select.POLLIN)
            poll.poll()
            child.reap()
            ended = time.perf_counter_ns()
            for fd in (child.stdout_fd, child.stderr_fd):
                os.close(fd)
            child.close()
            found.append(((started - began) / 1e3, (ended - began) / 1e3))
    return found


if sys.argv[1] == "hold":
    with Keeper.start() as keeper:
        children = [keeper.spawn(Launch(["sleep", "60"]), f"r{number}") for number in range(int(sys.argv[2]))]
        print(keeper.pid, flush=True)
        time.sleep(60)
elif int(sys.argv[1]) >= 0:
    with Keeper.start() as keeper:
        keeper.runs()
        found = both(keeper, int(sys.argv[1]), sys.argv[2:])
        if found:
            kept, direct = found[::2], found[1::2]
            print(*(f"{median(row[at] for row in rows):.1f}" for at in (0, 1) for rows in (kept, direct)))
