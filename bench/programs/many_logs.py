"""many_logs COUNT FOLDER COMMAND...: supervise so many copies by longwatch, each with a log, in one plain loop.

Says `ready` before the first start, and `started` after the last; waits for a line on stdin in between, ends with it.
"""

import heapq
import os
import resource
import sys

from longwatch.core.harness import Harness
from longwatch.posix import now
from longwatch.posix.lane import Lane
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import MERGED, NULL, Launch, spawn
from longwatch.runtime.conduit import Conduit, Mirror
from longwatch.runtime.logs import Logs

count, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

reactor, timers, over = Reactor(), [], []
lane = Lane(reactor, lambda instant, callback: heapq.heappush(timers, (instant, id(callback), callback)))
logs, mirror = Logs(folder), Mirror()


def start(number: int) -> Process:
    """Start one program, with its output on the way into a log."""
    name = f"ticker-{number:05}"
    sink = logs.sink(Harness(name, tuple(command)), f"{name}-aaaaaa", False, print)
    child = spawn(Launch(command, stdin=NULL, output=MERGED))
    return Process(
        child, reactor, {}, True, shared=True,
        make=lambda _, fd, on_end: Conduit(lane, fd, sink, mirror, on_end=on_end),
    )  # fmt: skip


print("ready", flush=True)
sys.stdin.readline()
processes = [start(number) for number in range(count)]
print("started", flush=True)
reactor.add(0, lambda: over.append(not os.read(0, 1)))
while not any(over):
    while timers and timers[0][0] <= now():
        heapq.heappop(timers)[2](now())
    reactor.poll(max(timers[0][0] - now(), 0) if timers else None)
for process in processes:
    os.kill(process.child.pid, 9)
