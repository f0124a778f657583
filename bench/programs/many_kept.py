"""many_kept COUNT FOLDER COMMAND...: have a keeper start so many programs, then kill all that it holds.

Prints as JSON, in seconds: the starts; KILL to every program until each is known to be over, and until the keeper has
collected all of them.
"""

import json
import os
import resource
import sys
import time

from longwatch.posix.kin import children
from longwatch.posix.nursery import Nursery, Runs
from longwatch.posix.spawn import MERGED, NULL, Launch, SpawnError
from longwatch.posix.tree import NOBODY, Tree
from longwatch.runtime.errands import Errands
from longwatch.runtime.host import Host
from longwatch.runtime.kept import Keeper

count, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

host = Host()
keeper = Keeper.at(f"{folder}/keeper.sock")
errands = Errands(host, keeper)
programs, ends = [], []


def started(told):
    """Wait for a program's end, which the keeper then may forget."""
    if isinstance(told, SpawnError):
        sys.exit(str(told))
    programs.append(told)
    host.reactor.add(told.pidfd, lambda: ended(told))


def ended(program):
    """Note how it ended."""
    host.reactor.remove(program.pidfd)
    ends.append(program.peek())
    errands.forget(program.run_id)


begun = time.perf_counter()
for number in range(count):
    errands.start(Launch(command, {}, "/", NULL, MERGED), f"run-{number:06d}", started)
while len(programs) < count:
    host.turn()
starts = time.perf_counter() - begun
time.sleep(1)
begun = time.perf_counter()
left = Tree(NOBODY, "", subreaper=False, nursery=Nursery(keeper.talk.identity, "", Runs())).kill()
while len(ends) < count:
    host.turn()
known = time.perf_counter() - begun
while children(keeper.pid):
    host.turn(1)
reaped = time.perf_counter() - begun
errands.close()
left += keeper.stop()
if left or set(ends) != {(None, 9)}:
    sys.exit(f"{left} are left; ends: {set(ends)}")
print(json.dumps({"starts": starts, "known": known, "reaped": reaped}))
sys.stdout.flush()
os._exit(0)
