"""What the contract of engines is tried with: a bridge in a loop of the test's own, and programs that leave descendants."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import helpers
from longwatch.core.batch import ITEM, Workstream
from longwatch.core.harness import Harness
from longwatch.core.plan import Item
from longwatch.paths import new_run_id
from longwatch.posix import now
from longwatch.runtime.engines.bridged import Bridge
from longwatch.runtime.engines.protocol import EngineError
from longwatch.runtime.host import Host
from longwatch.runtime.runfiles import STATE, identity_in, read
from longwatch.runtime.work_spec import INHERIT, told

#: A process with three descendants: in its group, in a session of its own, and an orphan. Each writes its pid.
TREE = """
import os, signal, subprocess, sys, time
def note():
    with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()}\\n")
def stay(deaf):
    if deaf: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    while True: time.sleep(60)
deaf = sys.argv[2] == "deaf"
if os.fork() == 0: stay(deaf)
if os.fork() == 0:
    os.setsid(); stay(deaf)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: stay(deaf)
    os._exit(0)
if deaf: signal.signal(signal.SIGTERM, signal.SIG_IGN)
note()
while True:
    print("alive", flush=True)
    time.sleep(0.1)
"""


def work(argv: list[str], env: Mapping[str, str] | None = None, **more: Any) -> Workstream:
    """Return a workstream that runs a command in a folder of its own."""
    log = {"max": more.pop("log", 4 << 20), "keep": 1}
    marked = {name: os.environ[name] for name in (helpers.MARKER,) if name in os.environ}
    harness = Harness(
        "it", tuple(argv), kind=ITEM, restart="no", cwd="", log=log, env={**marked, **(env or {})}, grace=500,
        secrets=tuple(more.pop("secrets", ())),
    )  # fmt: skip
    return Workstream(Item("it"), harness, **more)


class Run:
    """One placed run, followed by hand."""

    def __init__(self, bench: "Bench", spec: dict[str, Any], handle: dict[str, Any]) -> None:
        self.bench = bench
        self.spec = spec
        self.handle = handle
        self.stamp, self.since = handle["stamp"], 0
        self.events: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}

    @property
    def folder(self) -> str:
        """Its folder."""
        return str(self.handle["folder"])

    def renew(self, wait: int = 500) -> dict[str, Any]:
        """Move its lease, and take in what is new."""
        told = self.bench.ask("renew", self.handle, self.since, self.stamp, wait)
        self.stamp, self.since = told["stamp"], told["since"]
        self.events += told["events"]
        self.last = told
        return dict(told)

    def over(self, deadline: float = 15.0) -> dict[str, Any]:
        """Follow it to its end; return its exit record."""

        def ended() -> Any:
            try:
                return self.renew()["exit"]
            except EngineError:
                return read(self.folder, "exit.json")

        return dict(helpers.wait_until(ended, deadline, "its end"))

    def stop(self, grace: int | None = 300) -> None:
        """Ask it to end."""
        self.bench.ask("stop", self.handle, "cancelled", "explicit", grace)

    def output(self, offset: int = 0) -> tuple[int, bytes]:
        """Return what it printed from a byte on, and where that begins."""
        start, data = self.bench.ask("read", self.handle, "output", offset, 1 << 20)
        return start, data

    def who(self) -> list[int]:
        """Return its runner and its keeper."""
        state = read(self.folder, STATE)
        return [who.pid for name in ("runner", "keeper") if (who := identity_in(state, name)) is not None]


class Bench:
    """An engine under test. `beside(handle)` is the process that holds the line of a run."""

    def __init__(self, engine: str, words: dict[str, object], folder: Path) -> None:
        self.engine = engine
        self.words = words
        self.folder = folder
        self.host = Host()
        self.bridge = self.new_bridge()
        self.runs: list[Run] = []

    def new_bridge(self) -> Bridge:
        """Return a bridge: that of another submitter, where there was one before."""
        return Bridge(self.host, self.engine, self.words, str(self.folder / "bridge.log"))

    def ask(self, op: str, *args: Any, limit: int = 60_000) -> Any:
        """Have something done, and wait for the answer. Raises EngineError."""
        got: list[tuple[Any, EngineError | None]] = []
        self.bridge.call(op, list(args), lambda answer, error: got.append((answer, error)), limit)
        deadline = now() + limit + 5_000
        while not got:
            assert now() < deadline
            self.host.turn(500)
        answer, error = got[0]
        if error is not None:
            raise error
        return answer

    def place(
        self, works: Workstream, *, lease: int = 60_000, detached: bool = False, run: str = "", **more: Any
    ) -> Run:
        """Place a run."""
        run = run or new_run_id("it")
        state = {
            "id": "it", "attempt": 1, "resumed": False, "run": run, "policy": works.policy, "over_budget": False,
            "parked_until": None,
        }  # fmt: skip
        spec = {
            "schema": 1, "run": run, "attempt": 1, "work": told(works), "state": state, "plan": "plan.toml",
            "name": "plan", "key": "plan-1", "session": {"tree": "t", "depth": 0, "deepest": 3, "most": 10},
            "inherit": list(INHERIT), "root": str(self.folder / "root"), "detached": detached, "cpus": 0.1, **more,
        }  # fmt: skip
        placed = Run(self, spec, self.ask("place", spec, 1, lease))
        self.runs.append(placed)
        return placed

    def tree(self, tmp_path: Path, how: str = "polite", **more: Any) -> tuple[Run, list[int]]:
        """Place a run with descendants; return it and the pids of its four processes."""
        noted = tmp_path / f"pids-{len(self.runs)}"
        run = self.place(work([sys.executable, "-c", TREE, str(noted), how]), **more)

        def pids() -> list[int]:
            run.renew(50)
            found = [int(line) for line in noted.read_text().split()] if noted.exists() else []
            return found if len(found) == 4 else []

        return run, helpers.wait_until(pids, 15, "four processes")

    def beside(self, run: Run) -> list[int]:
        """Return the processes whose death ends the line of a run."""
        if self.engine == "local":
            return [self.bridge.pid]
        name = "ray::Beside"
        held = [pid for pid in helpers.all_pids() if helpers.command_line(pid).startswith(name)]
        assert held
        return held

    def places(self) -> list[Path]:
        """Return all files that anybody may have written into."""
        folders = [self.folder, *map(Path, self.more)]
        return [
            path
            for folder in folders
            for path in folder.rglob("*")
            if not path.is_fifo() and not path.is_socket()
        ]

    #: Further folders that are written into.
    more: tuple[str, ...] = ()

    def lose_bridge(self) -> None:
        """The submitter is killed."""
        pid = self.bridge.pid
        os.kill(pid, signal.SIGKILL)
        self.bridge.close()
        self.bridge = self.new_bridge()

    def close(self) -> None:
        """End all that was placed."""
        for run in self.runs:
            try:
                self.ask("stop", run.handle, "let go", None, 0, limit=20_000)
            except EngineError:
                continue
        self.bridge.close()
        self.host.close()


def none_left(pids: list[int], deadline: float = 12.0) -> None:
    """All these processes are gone, or about to be."""
    gone: Callable[[], bool] = lambda: not [pid for pid in pids if helpers.alive(pid)]  # noqa: E731
    helpers.wait_until(
        gone, deadline, f"the end of {[helpers.command_line(p)[-60:] for p in pids if helpers.alive(p)]}"
    )
