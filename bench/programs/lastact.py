"""lastact MS: the same as lastact.c, for a machine without a compiler."""

import os
import sys
import time

time.sleep(int(sys.argv[1]) / 1000)
os.write(1, b"%d" % time.clock_gettime_ns(time.CLOCK_MONOTONIC))
os._exit(0)
