"""A Ray cluster on this machine's loopback: a head without places, and nodes with them. Never left behind.

Ray lives in a process of its own (`cluster_main`), so that the tests' process never becomes a driver of it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import helpers

#: Everything stays on 127.0.0.1, and nothing is sent home.
ENVIRON = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}


class Cluster:
    """A head and two nodes, with four places each."""

    def __init__(self, folder: Path) -> None:
        self.log = open(folder / "cluster.log", "wb")  # noqa: SIM115 - closed with it
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("cluster_main.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env={**os.environ, **ENVIRON},
            start_new_session=True, cwd="/",
        )  # fmt: skip
        told = self._answer()
        self.address, self.session = str(told["address"]), str(told["session"])
        self.head: list[int] = told["pids"]
        self.nodes: dict[int, list[int]] = {}
        for _ in range(2):
            self.add()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, Path(str(self.log.name)).read_text(errors="replace")[-2_000:]
        return dict(json.loads(line))

    def _ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self._answer()

    def add(self, places: int = 4) -> int:
        """Add a node; return its number."""
        told = self._ask(f"add {places}")
        self.nodes[told["node"]] = told["pids"]
        return int(told["node"])

    def node_of(self, pid: int) -> int:
        """Return the number of the node that a worker belongs to."""
        above = pid
        while above > 1:
            for number, pids in self.nodes.items():
                if above in pids:
                    return number
            found = helpers.stat(above)
            above = 0 if found is None else found[1]
        raise AssertionError(f"{pid} is of no node")

    def remove(self, number: int) -> None:
        """Kill a node's raylet, and what belongs to it."""
        del self.nodes[number]
        self._ask(f"remove {number}")

    def pids(self) -> list[int]:
        """Return all its processes."""
        return [self.process.pid, *helpers.descendants(self.process.pid)]

    def close(self) -> None:
        """End all of it."""
        found = self.pids()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        helpers.kill_all([pid for pid in found if helpers.alive(pid) and "ray" in helpers.command_line(pid)])
        self.process.stdout.close()
        self.log.close()
