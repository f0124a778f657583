"""start_many COUNT MEGABYTES COMMAND...: the same as start_many.c by longwatch, in a process that holds so much."""

import os
import sys
import time
from statistics import median

from longwatch.posix.spawn import Launch, spawn

count, megabytes, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
held = bytearray(b"x") * (megabytes << 20)


def start() -> float:
    """Start with an output pipe for each stream, wait, give everything back; return the microseconds."""
    began = time.perf_counter_ns()
    child = spawn(Launch(command))
    os.waitpid(child.pid, 0)
    took = (time.perf_counter_ns() - began) / 1e3
    for fd in (child.stdout_fd, child.stderr_fd):
        os.close(fd)
    child.close()
    return took


while os.read(0, 1):
    print(f"{median(start() for _ in range(count)):.1f}", flush=True)
