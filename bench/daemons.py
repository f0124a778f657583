"""The daemon: thousands of starts and ends (PERF-15) and deadlines (PERF-16), and what it costs while nothing happens."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, Missing, finish, output, percentile, spawn
from bench.many import children, files, supervisord, switches
from longwatch.api.client import Daemon

STARTS, DEADLINES, SPREAD, IDLE = 1_000, 5_000, 10_000, 100
#: A life of this long is followed by the next one at once, in seconds.
GROWN = 10.5
#: Until what a start leaves to do is done; and how long one looks at what is idle, in seconds.
SETTLED, SPAN = 70.0, 20.0
_LIMIT = 300.0


def perf_15(lab: Lab) -> list[Figure]:
    """From the launch of a whole daemon to its last child, with ledger, run folders and logs, beside supervisord's."""
    count = 100 if lab.quick else STARTS
    kept = _kept(lab, count)
    what = f"{count} children"
    figures = [
        at_most("PERF-15", f"{what} of a keeper: KILL to all ends known", kept["known"], 0.1, "s",
                f"all collected after {kept['reaped']:.2f} s; starts through it {kept['starts']:.2f} s"),
    ]  # fmt: skip
    try:
        their_first, theirs, their_end = _supervisord(lab, count)
    except Missing as why:
        return [*figures, at_least("PERF-15", f"start of {what}", None, 18, note=str(why))]
    first, ours, end = _ours(lab, count)
    note = (
        f"{ours:.2f} and {theirs:.1f} s after the launch; the first after {first:.2f} and {their_first:.1f}"
    )
    rate = (theirs - their_first) / (ours - first)
    return [
        at_least("PERF-15", f"start of {what}: supervisord's time / ours", theirs / ours, 18, note=note),
        at_least("PERF-15", "the same, from the first child to the last", rate, 18),
        at_least("PERF-15", "the same / starts by host and keeper alone, without services, ledger and folders",
                 (theirs - their_first) / kept["starts"], 18),
        *figures,
        at_most("PERF-15", "INT to an ended daemon, all proven and written / supervisord's TERM", end / their_end, 1.0,
                note=f"{end:.2f} and {their_end:.1f} s"),
    ]  # fmt: skip


def perf_16(lab: Lab) -> list[Figure]:
    """Programs of a keeper with a timeout each: from the deadline to the signal, which comes after the post-mortem."""
    count = 200 if lab.quick else min(DEADLINES, (files() - 1_000) // 3)
    at_once, spread = _deadlines(lab, count, 0), _deadlines(lab, count, SPREAD)
    bare = _deadlines(lab, count, 0, "bare")
    return [
        at_most("PERF-16", f"{count} deadlines at one instant: the last decided and killed after", bare["late"][-1], 200, "ms",
                "by driver and watch, without post-mortem, story and folder"),
        at_most("PERF-16", "the same, with all that a stop is", at_once["late"][-1], 200, "ms",
                f"all over after {at_once['over']:.0f} ms; {at_once['cpu_us']:.0f} µs of CPU for a stop"),
        at_most("PERF-16", f"the same over {SPREAD // 1000} s, p99", percentile(spread["late"], 0.99), 3, "ms",
                f"p50 {median(spread['late']):.2f}, most {spread['late'][-1]:.1f}; {spread['cpu_us']:.0f} µs of CPU"),
    ]  # fmt: skip


def daemon_1(lab: Lab) -> list[Figure]:
    """A hundred programs that do nothing, followed by a real daemon with its keeper and its API process."""
    with _daemon(lab, IDLE) as house:
        house.wait_for(IDLE)
        time.sleep(GROWN if lab.quick else SETTLED)
        api = next(pid for pid in children(house.pid) if pid != house.keeper)
        before, began = [switches(pid) for pid in (house.pid, house.keeper, api)], time.monotonic()
        time.sleep(3 if lab.quick else SPAN)
        span = time.monotonic() - began
        own, keepers, apis = (
            (switches(pid) - was) / span
            for pid, was in zip((house.pid, house.keeper, api), before, strict=True)
        )
        sizes = [_pss(pid) for pid in (house.pid, house.keeper, api)]
        restarts = sorted(house.restart() for _ in range(lab.rounds(20, 5)))
        asked = sorted(_took(house.status) for _ in range(lab.rounds(50, 10)))
        listed = sorted(_took(lambda: output(lab, house.ls)) for _ in range(lab.rounds(15, 5)))
        house.kill()
        again = house.start()
        house.wait_for(IDLE)
    what = f"{IDLE} idle harnesses"
    note = f"keeper {sizes[1]:.1f}, API process {sizes[2]:.1f} MiB"
    return [
        at_most("DAEMON-1", f"{what}: PSS of the supervisor", sizes[0], 30, "MiB", note),
        at_most("DAEMON-1", "the same, with the API process", sizes[0] + sizes[2], 80, "MiB"),
        at_most("DAEMON-1", "wake-ups of the supervisor", own, 2, "/s", f"keeper {keepers:.2f}, API process {apis:.2f}"),
        at_most("DAEMON-1", "restart of a run over 10 s old after kill -9, p50", median(restarts), 20, "ms",
                f"p99 {percentile(restarts, 0.99):.1f}, most {restarts[-1]:.1f}"),
        at_most("DAEMON-1", "status asked of the socket, p50", median(asked), 150, "ms", f"most {asked[-1]:.1f}"),
        at_most("DAEMON-1", "longwatch ls, p50", median(listed), 150, "ms", f"most {listed[-1]:.0f}"),
        at_most("DAEMON-1", f"the next daemon after kill -9: up, with {IDLE} taken over", again * 1000, 2_000, "ms"),
    ]  # fmt: skip


class House:
    """A real daemon of so many quiet programs, in the lab's home."""

    def __init__(self, lab: Lab, count: int) -> None:
        self._lab = lab
        self._folder = f"{lab.home}/house"
        os.makedirs(self._folder)
        self._config = f"{self._folder}/longwatch.toml"
        (ticker,) = lab.tool("ticker", static=True)
        with open(self._config, "w", encoding="ascii") as file:
            file.writelines(
                f'[harness.h{number:04d}]\ncommand = ["{ticker}", "0"]\n' for number in range(count)
            )
        self.ls = [lab.longwatch, "ls", "--config", self._config]
        self.pid = self.keeper = 0
        self.first = self.last = 0.0
        self._killed: set[int] = set()

    def start(self) -> float:
        """Start it; return after how many seconds it was up."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        self.began = time.monotonic()
        argv = [
            self._lab.python,
            "-m",
            "longwatch.daemon",
            "--config",
            self._config,
            "--ready-fd",
            str(writing),
        ]
        self.pid = spawn(self._lab, argv, new_session=True)
        os.close(writing)
        with open(reading, encoding="utf-8") as file:
            told = json.loads(file.readline() or "{}")
        if not told.get("ready"):
            raise Failed(f"the daemon did not start: {told.get('error')} {self._lab.note()}")
        self.keeper = told["keeper_pid"]
        self.socket = told["socket"]
        return time.monotonic() - self.began

    def wait_for(self, count: int) -> None:
        """Wait until there are so many programs; note when the first one and the last were there."""
        self.first, self.last = _wait_for(self.keeper, count, self.began)

    def status(self) -> None:
        """Ask how all stand."""
        Daemon(self.socket).status()

    def restart(self) -> float:
        """Kill a program that is old enough; return after how many ms the next one was there."""
        before = set(children(self.keeper))
        victim = max(before - self._killed)
        os.kill(victim, signal.SIGKILL)
        began, end = time.perf_counter(), time.monotonic() + _LIMIT
        while not (new := set(children(self.keeper)) - before):
            if time.monotonic() > end:
                raise Failed(f"process {victim} has no successor")
        took = (time.perf_counter() - began) * 1000
        self._killed |= new
        time.sleep(0.1)
        return took

    def kill(self) -> None:
        """End it hard; its programs live on."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def stop(self) -> float:
        """End all of it; return how many seconds that took."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGINT)
        finish(self._lab, self.pid, ["longwatch.daemon"])
        self.pid = 0
        return time.monotonic() - began

    def clear(self) -> None:
        """Leave nothing, however it went."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if os.path.exists(f"/proc/{self.keeper}"):
            os.kill(self.keeper, signal.SIGTERM)
            end = time.monotonic() + _LIMIT
            while os.path.exists(f"/proc/{self.keeper}") and time.monotonic() < end:
                time.sleep(0.05)
        shutil.rmtree(self._folder)


@contextmanager
def _daemon(lab: Lab, count: int) -> Iterator[House]:
    house = House(lab, count)
    try:
        house.start()
        yield house
    finally:
        house.clear()


def _ours(lab: Lab, count: int) -> tuple[float, float, float]:
    """Return when the first child and the last were there, in seconds since the launch, and how long the end took."""
    with _daemon(lab, count) as house:
        house.wait_for(count)
        time.sleep(1)
        return house.first, house.last, house.stop()


def _supervisord(lab: Lab, count: int) -> tuple[float, float, float]:
    with supervisord(lab, count, "0") as argv:
        began = time.monotonic()
        with subprocess.Popen(
            argv, env=lab.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            first, last = _wait_for(process.pid, count, began)
            time.sleep(1)
            began = time.monotonic()
            process.terminate()
            process.wait(_LIMIT)
            return first, last, time.monotonic() - began


def _wait_for(parent: int, count: int, began: float) -> tuple[float, float]:
    """Wait until a process has so many children; return when the first one and the last were seen."""
    first = 0.0
    while True:
        there, at = len(children(parent)), time.monotonic() - began
        first = first or (at if there else 0.0)
        if there >= count:
            return first, at
        if at > _LIMIT:
            raise Failed(f"{there} of {count} programs were started")
        time.sleep(0.005)


def _kept(lab: Lab, count: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(_in_folder(lab, "many_kept", str(count)))
    return found


def _deadlines(lab: Lab, count: int, spread: int, *words: str) -> "dict[str, list[float]]":
    found: dict[str, list[float]] = json.loads(
        _in_folder(lab, "many_deadlines", str(count), str(spread), more=words)
    )
    return found


def _in_folder(lab: Lab, program: str, *words: str, more: tuple[str, ...] = ()) -> bytes:
    folder = f"{lab.home}/kept"
    os.mkdir(folder)
    try:
        return output(
            lab, [*lab.program(program), *words, folder, *lab.tool("ticker", static=True), "0", *more]
        )
    finally:
        shutil.rmtree(folder)


def _pss(pid: int) -> float:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("Pss:"))


def _took(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000
