"""producer SIZE [PIECE [HOLD]]: the same as producer.c, for a machine without a compiler."""

import os
import sys
import time

left, piece, hold = (int(word) for word in (sys.argv[1:] + ["65536", "0"][len(sys.argv) - 2 :]))
buffer = memoryview(bytes(piece))
while left > 0:
    left -= os.write(1, buffer[:left])
time.sleep(hold / 1000)
