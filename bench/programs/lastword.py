"""lastword PATH WORDS EVERY: the same as lastword.c, for a machine without a compiler."""

import os
import signal
import sys
import time


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


start, last = now(), 0
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for _ in range(int(sys.argv[2])):
    time.sleep(int(sys.argv[3]) / 1000)
    os.write(1, b"word\n")
    last = now()
with open(sys.argv[1], "w", encoding="ascii") as file:
    if signal.SIGTERM not in signal.sigpending() and signal.sigtimedwait({signal.SIGTERM}, 5):
        stopped = now()
        file.write(f"{start} {last} {stopped}\n")
