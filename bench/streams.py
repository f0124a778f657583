"""Bytes from a program through a supervisor to a reader: PERF-5, PERF-6 and PERF-8."""

import os
import time
from collections.abc import Callable, Sequence
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, Missing, alternate, finish, percentile, spawn

GIB = 1 << 30
#: Lines whose delay is measured, and those before them, which are written while everything still loads.
LINES, WARMING = 1_000, 200


class Stream:
    """A program whose output comes to us through a pump: a supervisor that starts it, or a filter behind it.

    Every pipe that we make has the size that a shell would give it.
    """

    def __init__(self, lab: Lab, supervisor: Sequence[str], producer: Sequence[str] = ()) -> None:
        self.lab = lab
        self.argv = supervisor
        self.others: list[tuple[int, Sequence[str]]] = []
        self.pipe, writing = os.pipe()
        stdin = None
        if producer:
            stdin, between = os.pipe()
            self.others.append((spawn(lab, producer, stdout=between), producer))
            os.close(between)
        self.pump = spawn(lab, supervisor, stdin=stdin, stdout=writing)
        os.close(writing)
        if stdin is not None:
            os.close(stdin)
        self.count = 0
        self.started = self.stopped = 0

    def read(self, size: int) -> None:
        """Move what comes into /dev/null, until `size` bytes or the end have been seen."""
        while self.count < size:
            moved = os.splice(self.pipe, self.lab.null, 1 << 20)
            self.stopped = time.perf_counter_ns()
            self.started = self.started or self.stopped
            if not moved:
                break
            self.count += moved

    def end(self, size: int) -> float:
        """Read to the end and collect everything; return the CPU seconds of the pump alone.

        Raises Failed when bytes are missing or too many.
        """
        self.read(size + 1)
        os.close(self.pipe)
        os.waitid(os.P_PID, self.pump, os.WEXITED | os.WNOWAIT)
        spent = _on_cpu(self.pump)
        finish(self.lab, self.pump, self.argv)
        for pid, argv in self.others:
            finish(self.lab, pid, argv)
        if self.count != size:
            raise Failed(f"{' '.join(self.argv)[:200]}: {self.count} bytes came, {size} were sent")
        return spent


def _on_cpu(pid: int) -> float:
    """Return the CPU seconds of a process with one thread, without those of its children; a zombie has them still."""
    with open(f"/proc/{pid}/schedstat", "rb") as file:
        return int(file.read().split()[0]) / 1e9


def flow(lab: Lab, supervisor: Sequence[str], producer: Sequence[str], size: int) -> tuple[float, float]:
    """Return GB per second between the first and the last byte, and the pump's CPU seconds."""
    stream = Stream(lab, supervisor, producer)
    stream.read(size)
    seconds = (stream.stopped - stream.started) / 1e9
    return size / 1e9 / max(seconds, 1e-9), stream.end(size)


class Way:
    """One way to bring a producer's output to us."""

    def __init__(self, argv: Callable[[], list[str]], *, behind: bool = False) -> None:
        self.argv = argv
        self.behind = behind

    def flow(self, lab: Lab, producer: Sequence[str], size: int) -> Callable[[], tuple[float, float]]:
        argv = self.argv()
        if self.behind:
            return lambda: flow(lab, argv, producer, size)
        return lambda: flow(lab, [*argv, *producer], (), size)


def ways(lab: Lab) -> dict[str, Way]:
    return {
        "longwatch": Way(lab.run),
        "cat": Way(lambda: [lab.peer("cat")], behind=True),
        "tee": Way(lambda: [lab.peer("tee"), os.devnull], behind=True),
        "pv": Way(lambda: [lab.peer("pv"), "-q"], behind=True),
        "timeout": Way(lambda: [lab.peer("timeout"), "1000"]),
        "asyncio": Way(lambda: lab.program("asyncio_pump")),
    }


def producers(lab: Lab) -> dict[str, Callable[[int], list[str]]]:
    """Return the programs that write: one in large pieces, one in pieces of 8 KiB."""
    large: Callable[[int], list[str]] = lambda size: [*lab.tool("producer"), str(size)]  # noqa: E731
    small: Callable[[int], list[str]] = lambda size: [*lab.tool("producer"), str(size), "8192"]  # noqa: E731
    return {"64 KiB": large} if lab.quick else {"64 KiB": large, "8 KiB": small}


def perf_5(lab: Lab) -> list[Figure]:
    """Throughput with the idle clock and both ends of the output kept."""
    goals = {"cat": 1.3, "tee": 1.7, "pv": 1.0, "timeout": 0.95}
    figures = []
    for pieces, producer in producers(lab).items():
        size = GIB // 2 if lab.quick else 2 * GIB
        cases, skipped = _cases(lab, ["longwatch", *goals], producer(size), size)
        found = {
            name: median(rate for rate, _ in all_) for name, all_ in alternate(cases, _rounds(lab)).items()
        }
        for name, bound in goals.items():
            what = f"throughput in writes of {pieces}: run / {name}"
            ratio = None if name in skipped else found["longwatch"] / found[name]
            note = skipped.get(name) or f"{found['longwatch']:.2f} and {found[name]:.2f} GB/s"
            figures.append(at_least("PERF-5", what, ratio, bound, note=note))
    return figures


def perf_6(lab: Lab) -> list[Figure]:
    """Throughput and CPU against asyncio's stream reader."""
    figures = []
    for pieces, producer in producers(lab).items():
        size = GIB // 4 if lab.quick else GIB
        cases, _ = _cases(lab, ["longwatch", "asyncio"], producer(size), size)
        idle, _ = _cases(lab, ["longwatch", "asyncio"], producer(1), 1)
        rounds = _rounds(lab)
        found, start = alternate(cases, rounds), alternate(idle, rounds)
        rate = {name: median(rate for rate, _ in found[name]) for name in cases}
        cpu = {n: median(c for _, c in found[n]) - median(c for _, c in start[n]) for n in cases}
        per_gb = ", ".join(f"{name} {cpu[name] / size * 1e12:.0f}" for name in cases)
        figures += [
            at_least(
                "PERF-6", f"throughput in writes of {pieces}: run / asyncio", rate["longwatch"] / rate["asyncio"], 3.0,
                note=f"{rate['longwatch']:.2f} and {rate['asyncio']:.2f} GB/s",
            ),
            at_most(
                "PERF-6", f"CPU per GB in writes of {pieces}: run / asyncio",
                cpu["longwatch"] / max(cpu["asyncio"], 1e-9), 0.3, note=f"ms per GB: {per_gb}",
            ),
        ]  # fmt: skip
    return figures


def perf_8(lab: Lab) -> list[Figure]:
    """From the program's write of a line to the moment its reader has it."""
    emitter = [*lab.tool("emitter"), str(LINES + WARMING)]
    cases = {}
    for name in ("longwatch", "tee", "asyncio"):
        way = ways(lab)[name]
        argv = way.argv() if way.behind else [*way.argv(), *emitter]
        behind = emitter if way.behind else []
        cases[name] = lambda argv=argv, behind=behind: _delays(lab, argv, behind)
    found = {n: [d for run in runs for d in run] for n, runs in alternate(cases, lab.rounds(5, 1)).items()}
    middle = {name: median(delays) for name, delays in found.items()}
    note = ", ".join(f"{n} {middle[n]:.0f} (p99 {percentile(found[n], 0.99):.0f})" for n in found)
    return [
        at_most(
            "PERF-8",
            "delay of a line: run / tee",
            middle["longwatch"] / middle["tee"],
            1.3,
            note=f"µs: {note}",
        ),
        at_most("PERF-8", "delay of a line: run / asyncio", middle["longwatch"] / middle["asyncio"], 0.5),
    ]


def _delays(lab: Lab, argv: Sequence[str], producer: Sequence[str]) -> list[float]:
    """Return the microseconds between each line's write, which it carries as text, and its arrival."""
    stream = Stream(lab, argv, producer)
    delays: list[float] = []
    rest = b""
    while data := os.read(stream.pipe, 65536):
        seen = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        *lines, rest = (rest + data).split(b"\n")
        delays += [(seen - int(line)) / 1e3 for line in lines]
    stream.end(0)
    if len(delays) != LINES + WARMING:
        raise Failed(f"{' '.join(argv)[:200]}: {len(delays)} lines came, {LINES + WARMING} were written")
    return delays[WARMING:]


def _cases(
    lab: Lab, names: Sequence[str], producer: Sequence[str], size: int
) -> tuple[dict[str, Callable[[], tuple[float, float]]], dict[str, str]]:
    """Return a case for each way that is here, and why not for the others."""
    cases, skipped = {}, {}
    for name in names:
        try:
            cases[name] = ways(lab)[name].flow(lab, producer, size)
        except Missing as why:
            skipped[name] = str(why)
    return cases, skipped


def _rounds(lab: Lab) -> int:
    return lab.rounds(3, 2)
