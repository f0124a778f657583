"""appender LINES INTERVAL FILES: append stamped lines to the files named in the file FILES, one by one, then end."""

import os
import sys
import time

count, interval, names = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
with open(names, encoding="utf-8") as listed:
    paths = listed.read().split()
for number in range(count):
    time.sleep(interval)
    # As agents do: open, write, close.
    file = os.open(paths[number * 7919 % len(paths)], os.O_WRONLY | os.O_APPEND)
    os.write(file, b'{"sent":%d}\n' % time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    os.close(file)
