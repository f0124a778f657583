"""parting PATH SIZE MS: the same as parting.c, for a machine without a compiler."""

import os
import sys
import time

path, left, held = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if os.fork() == 0:
    time.sleep(held / 1000)
    os._exit(0)
while left > 0:
    left -= os.write(1, bytes(min(left, 4096)))
with open(path, "w", encoding="ascii") as file:
    file.write(str(time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
os._exit(0)
