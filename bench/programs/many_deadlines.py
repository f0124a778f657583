"""many_deadlines COUNT SPREAD FOLDER PROGRAM ARGUMENT [bare]: follow so many programs in one loop, each with a timeout.

The timeouts come due at one instant, or spread over so many ms. Prints as JSON: how late each program got its
signal, in ms; when the last was over after the last was due; and what a stop cost the loop, in µs of CPU. `bare`:
what a watch decides is KILL, and done by number; there is neither post-mortem nor story nor run folder.
"""

import json
import os
import resource
import sys
import time

from longwatch.core import commands as c
from longwatch.core import observations as o
from longwatch.core.harness import Harness
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix.spawn import MERGED, NULL, Launch, SpawnError
from longwatch.runtime.driver import Driver
from longwatch.runtime.errands import Errands
from longwatch.runtime.host import Host
from longwatch.runtime.kept import Keeper
from longwatch.runtime.making import Begun, Parts
from longwatch.runtime.running import Running

count, spread, folder, command, bare = (
    int(sys.argv[1]),
    int(sys.argv[2]),
    sys.argv[3],
    sys.argv[4:6],
    sys.argv[6:],
)
#: What lies between the last start and the first deadline, in ms.
AHEAD = 2_000
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

host = Host()
keeper = Keeper.at(f"{folder}/keeper.sock")
errands = Errands(host, keeper)
parts = Parts(f"{folder}/state")
children, late, over = {}, [], []


def started(run, told):
    """Note a program that was started."""
    if isinstance(told, SpawnError):
        sys.exit(f"{run}: {told}")
    children[run] = told


class Bare:
    """The effects of a watch that only kills."""

    def __init__(self, child, due):
        self.child, self.due = child, due
        self.tell = self.later = None

    def stamps(self):
        """Return nothing: it never says a word."""
        return ()

    evidence = stamps

    def poll(self, timeout_ms):
        """Take nothing in: its output is looked at by nobody."""

    def blocked(self, now):
        """Return 0: nobody waits for us."""
        return 0

    def looked(self, watch, now):
        """Give it back when it is over."""
        if watch.over:
            host.rounds.leave(self.seat)
            self.child.close()
            over.append(self)

    def ended(self):
        """Tell that it is over, with all that belongs to it."""
        host.reactor.remove(self.child.pidfd)
        self.tell(o.Exited(*self.child.peek()))
        self.tell(o.Drained())
        self.seat.sooner(host.now())

    def perform(self, command):
        """Kill at once what is to be signalled."""
        if isinstance(command, c.CapturePostMortem):
            self.tell(o.Prepared())
        elif isinstance(command, c.SignalTree):
            os.kill(self.child.pid, 9)
            late.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6 - self.due)
        elif isinstance(command, c.SweepTree):
            self.tell(o.TreeGone())


def follow_bare(child, due):
    """Follow a program with nothing but a watch and its driver."""
    effects = Bare(child, due)
    spec = Spec({"timeout": LimitSpec(due - child.started, STOP)}, ())
    effects.seat = host.rounds.join(spec)
    driver = Driver(Watch(spec, child.started), effects, host.now, effects.seat)
    effects.seat.driver, effects.tell = driver, driver.tell
    host.reactor.add(child.pidfd, effects.ended)
    driver.start()


def follow(run, child, due):
    """Follow a program until its deadline and its end."""
    harness = Harness(
        run, tuple(command), cwd="/", grace=60_000, limits={"timeout": LimitSpec(due - child.started, STOP)}
    )
    running = Running(host, parts, harness, Begun(run), child, on_over=over.append)
    signal = running.tree.signal

    def stamped(signum):
        late.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6 - due)
        return signal(signum)

    running.tree.signal = stamped


for number in range(count):
    run = f"run-{number:06d}"
    launch = Launch(command, {"LONGWATCH_RUN_ID": run}, "/", NULL, MERGED)
    errands.start(launch, run, lambda told, run=run: started(run, told))
while len(children) < count:
    host.turn()
# Following them takes as long as it takes: the deadlines are after that.
begun = host.now()
first = begun + AHEAD + count * 2
for number, (run, child) in enumerate(children.items()):
    due = first + spread * number // count
    if bare:
        follow_bare(child, due)
    else:
        follow(run, child, due)
if host.now() >= first:
    sys.exit("it took too long to follow them")
while host.now() < first - 200:
    host.turn(100)
cpu = time.process_time()
while len(over) < count:
    host.turn()
cpu = time.process_time() - cpu
last = host.now() - first - spread
reasons = set() if bare else {running.report["termination_reason"] for running in over}
errands.close()
left = keeper.stop()
if left or len(late) != count or reasons - {"timeout"}:
    sys.exit(f"{len(late)} were told to end, by {reasons}; {left} are left")
print(json.dumps({"late": sorted(late), "over": last, "cpu_us": cpu / count * 1e6}))
sys.stdout.flush()
os._exit(0)
