"""find_tree ROUNDS FOREST...: grow a small forest; print how many ms each way to find it took, alternating."""

import json
import random
import sys
import time

import psutil
from forests import Forest

from longwatch.posix.identity import identity
from longwatch.posix.libc import become_subreaper
from longwatch.posix.tree import Tree

become_subreaper()
rounds, argv = int(sys.argv[1]), sys.argv[2:]
forest = Forest(argv)
tree = Tree(identity(forest.pid), "bench", subreaper=True)
root = psutil.Process(forest.pid)
size = int(argv[-3])
ways = {
    "pids": lambda: len(tree.pids()),
    "members": lambda: len(tree.members()),
    "psutil": lambda: 1 + len(root.children(recursive=True)),
}
found = {name: [] for name in ways}
try:
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            start = time.perf_counter()
            count = ways[name]()
            found[name].append((time.perf_counter() - start) * 1000)
            if count != size:
                sys.exit(f"{name} found {count} of {size}")
finally:
    forest.clear()
json.dump(found, sys.stdout)
