"""fell_tree WAY [CGROUP] -- FOREST...: end a forest in one way; print how many ms it took and how many are left."""

import json
import os
import select
import sys
import time

import psutil
from forests import Forest

from longwatch.posix.identity import identity
from longwatch.posix.libc import become_subreaper
from longwatch.posix.tree import Tree

#: Seconds after which what was killed, but not waited for, is dead.
DYING = 0.5


def by_longwatch(forest: Forest, ready: Tree) -> None:
    ready.kill()


def by_psutil(forest: Forest, ready: psutil.Process) -> None:
    for process in [ready, *ready.children(recursive=True)]:
        process.kill()


def by_cgroup(forest: Forest, ready: str) -> None:
    with open(f"{ready}/cgroup.events", "rb") as events:
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        events.read()
        with open(f"{ready}/cgroup.kill", "w", encoding="ascii") as file:
            file.write("1")
        while b"populated 1" in os.pread(events.fileno(), 200, 0):
            poll.poll(1000)


def main(way: str, more: list[str], argv: list[str]) -> None:
    become_subreaper()
    if way == "cgroup":
        group = f"{more[0]}/longwatch-bench-{os.getpid()}"
        os.mkdir(group)
        forest = Forest(argv, before=f"echo $$ >{group}/cgroup.procs; ")
        act, ready = by_cgroup, group
    else:
        forest = Forest(argv)
        made = {"longwatch": lambda: Tree(identity(forest.pid), "bench", subreaper=True),
                "psutil": lambda: psutil.Process(forest.pid)}  # fmt: skip
        act, ready = {"longwatch": by_longwatch, "psutil": by_psutil}[way], made[way]()
    start = time.perf_counter()
    act(forest, ready)
    took = time.perf_counter() - start
    time.sleep(DYING)
    left = len(forest.left())
    forest.clear()
    if way == "cgroup":
        os.rmdir(ready)
    json.dump({"ms": took * 1000, "survivors": left}, sys.stdout)


middle = sys.argv.index("--")
main(sys.argv[1], sys.argv[2:middle], sys.argv[middle + 1 :])
