"""Many children of one supervisor: quiet ones (PERF-13), and such that write a line a second, with logs (PERF-14)."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from bench.figures import Figure, at_most
from bench.lab import Failed, Lab, Missing

QUIET, FEW, SOME, MANY = 9_900, 200, 1_000, 5_000
#: Descriptors that a supervisor needs beside two or three for each child.
_OWN = 100
#: How long one waits before a measurement, and how long that takes, in seconds.
SETTLED, SPAN = 2.0, 6.0
PERIOD = "1000"
#: In the working folder, so that they are installed once.
PEERS = os.path.join(".cache", "peers")
_STARTING = 300.0


class Load(NamedTuple):
    """What a supervisor has cost: share of a core, wake-ups a second, KiB of memory, lines a second in the logs."""

    cpu: float
    wakeups: float
    kib: float
    lines: float


def perf_13(lab: Lab) -> list[Figure]:
    """As many as the limit of open files allows, all silent; each has a pipe, a pidfd and a log that nobody opened."""
    count = min(QUIET if not lab.quick else 1_000, (files() - _OWN) // 2)
    loads = [_ours(lab, count, "0") for _ in range(lab.rounds(1, 1))]
    cpu, wakeups, kib = (median(load[index] for load in loads) for index in range(3))
    what = f"{count} quiet children"
    return [
        at_most("PERF-13", f"{what}: wake-ups a second", wakeups, 1.0, "/s"),
        at_most("PERF-13", f"{what}: CPU", cpu * 100, 0.1, "%"),
        at_most("PERF-13", f"{what}: memory of each", kib / count, 2.0, "KiB"),
    ]


def perf_14(lab: Lab) -> list[Figure]:
    """Each child writes a line a second, which goes into a log of its own; the supervisor's own CPU is compared."""
    few, some, many = (100, 100, 500) if lab.quick else (FEW, SOME, min(MANY, (files() - _OWN) // 3))
    return [
        _beside(lab, "supervisord", _supervisord, some, 1 / 25),
        _beside(lab, "asyncio streams", _asyncio, many, 1 / 4),
        _beside(lab, "circus", _circus, few, 1.0),
        _beside(lab, "pm2", _pm2, few, 1.0),
    ]


def _beside(lab: Lab, name: str, peer: Callable[[Lab, int], Load], count: int, bound: float) -> Figure:
    what = f"{count} children, a line a second, logs: CPU / {name}'s"
    loads: dict[str, list[Load]] = {"longwatch": [], name: []}
    try:
        # Without a round to warm up: what is measured is the middle of a long life.
        for _ in range(lab.rounds(1, 1)):
            loads[name].append(peer(lab, count))
            loads["longwatch"].append(_ours(lab, count, PERIOD))
    except Missing as why:
        return at_most("PERF-14", what, None, bound, note=str(why))
    ours, theirs = (median(load.cpu for load in loads[who]) for who in ("longwatch", name))
    lines = median(load.lines for load in loads["longwatch"])
    note = f"{ours * 100:.1f} and {theirs * 100:.1f} % of a core; {ours / lines * 1e6:.0f} and {theirs / lines * 1e6:.0f} µs a line"
    return at_most("PERF-14", what, ours / theirs, bound, note=note)


def _ours(lab: Lab, count: int, period: str) -> Load:
    return _ready_made(lab, "many_logs", count, period)


def _asyncio(lab: Lab, count: int) -> Load:
    return _ready_made(lab, "many_asyncio", count, PERIOD)


def _ready_made(lab: Lab, program: str, count: int, period: str) -> Load:
    """Measure a supervisor that is a program of ours."""
    with _folder(lab) as folder:
        argv = [*lab.program(program), str(count), folder, *lab.tool("ticker", static=True), period]
        with subprocess.Popen(
            argv, env=lab.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _expect(process, "ready")
                before = _resident(process.pid)
                process.stdin.write("go\n")
                process.stdin.flush()
                _expect(process, "started")
                return _measured(process.pid, folder, before)
            finally:
                process.stdin.close()


@contextmanager
def supervisord(lab: Lab, count: int, period: str) -> Iterator[list[str]]:
    """Yield how to start it with so many programs, logs beside its configuration. Raises Missing."""
    program = _installed("supervisord", "supervisor")
    with _folder(lab) as folder:
        path = f"{folder}/supervisord.conf"
        with open(path, "w", encoding="ascii") as file:
            file.write(
                f"[supervisord]\nnodaemon=true\nlogfile={folder}/own\npidfile={folder}/pid\nminfds={files()}\n"
                f"[program:ticker]\ncommand={' '.join(lab.tool('ticker', static=True))} {period}\nnumprocs={count}\n"
                "process_name=%(process_num)05d\nredirect_stderr=true\nstartsecs=0\nautorestart=false\n"
                f"stdout_logfile={folder}/%(process_num)05d.log\nstdout_logfile_maxbytes=10MB\nstdout_logfile_backups=4\n"
            )
        yield [program, "-c", path]


def _supervisord(lab: Lab, count: int) -> Load:
    with supervisord(lab, count, PERIOD) as argv:
        return _other(lab, argv, count, os.path.dirname(argv[-1]))


def _circus(lab: Lab, count: int) -> Load:
    program = _installed("circusd", "circus")
    with _folder(lab) as folder:
        path = f"{folder}/circus.ini"
        with open(path, "w", encoding="ascii") as file:
            file.write(
                f"[circus]\nendpoint=ipc://{folder}/e\npubsub_endpoint=ipc://{folder}/p\nstats_endpoint=ipc://{folder}/s\n"
                f"[watcher:ticker]\ncmd={' '.join(lab.tool('ticker', static=True))} {PERIOD}\nnumprocesses={count}\n"
                f"stdout_stream.class=FileStream\nstdout_stream.filename={folder}/ticker.log\nwarmup_delay=0\n"
                f"rlimit_nofile={files()}\n"
            )
        # It asks for no more files than it was given.
        argv = ["/bin/sh", "-c", f'ulimit -n {files()}; exec "$@"', "sh", program, path]
        return _other(lab, argv, count, folder)


def _pm2(lab: Lab, count: int) -> Load:
    program = _installed_by_npm("pm2")
    with _folder(lab) as folder:
        (ticker,) = lab.tool("ticker", static=True)
        path = f"{folder}/ticker.config.js"
        with open(path, "w", encoding="ascii") as file:
            file.write(
                f"module.exports = {{ apps: [{{ name: 't', script: '{ticker}', args: '{PERIOD}', interpreter: 'none',"
                f" exec_mode: 'fork', instances: {count}, out_file: '{folder}/t.log', error_file: '{folder}/e.log' }}] }};"
            )
        env = {**lab.env, "PM2_HOME": f"{folder}/home", "PATH": os.environ["PATH"]}
        argv = [program, "start", path, "--silent"]
        daemon = 0
        try:
            subprocess.run(argv, env=env, timeout=_STARTING, capture_output=True, check=True)
            with open(f"{folder}/home/pm2.pid", encoding="ascii") as file:
                daemon = int(file.read())
            return _measured(daemon, folder, 0)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"pm2 did not start {count} programs in {_STARTING:.0f} s: {error}") from error
        finally:
            subprocess.run([program, "kill"], env=env, timeout=_STARTING, capture_output=True, check=False)


def _other(lab: Lab, argv: Sequence[str], count: int, folder: str) -> Load:
    """Measure a supervisor of others, which stops its programs when it is told to end."""
    with open(f"{folder}/said", "wb") as said:
        process = subprocess.Popen(argv, env=lab.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    tickers: list[int] = []
    try:
        end = time.monotonic() + _STARTING
        while len(tickers) < count:
            tickers = children(process.pid)
            if process.poll() is not None or time.monotonic() > end:
                with open(f"{folder}/said", encoding="utf-8") as said_text:
                    raise Failed(
                        f"{argv[0]} has {len(tickers)} of {count} programs: {said_text.read()[-300:]}"
                    )
            time.sleep(0.2)
        return _measured(process.pid, folder, 0)
    finally:
        # Told to end, it would stop them one by one, for minutes.
        process.kill()
        process.wait()
        for pid in tickers:
            os.kill(pid, signal.SIGKILL)


def _measured(pid: int, folder: str, before: int) -> Load:
    time.sleep(SETTLED)
    start, cpu, wakeups, size = time.monotonic(), _cpu(pid), switches(pid), _written(folder)
    time.sleep(SPAN)
    span = time.monotonic() - start
    lines = (_written(folder) - size) / len("00000000 a line as a quiet server writes it\n")
    return Load(
        (_cpu(pid) - cpu) / span, (switches(pid) - wakeups) / span, _resident(pid) - before, lines / span
    )


def _cpu(pid: int) -> float:
    """Return the seconds that all threads of a process have run."""
    return sum(int(text.split()[0]) for text in _of_threads(pid, "schedstat")) / 1e9


def switches(pid: int) -> int:
    """Return how often its threads have slept."""
    lines = (line for text in _of_threads(pid, "status") for line in text.splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def _resident(pid: int) -> int:
    """Return its memory, in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def _of_threads(pid: int, name: str) -> Iterator[str]:
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/{name}", encoding="ascii") as file:
            yield file.read()


def children(pid: int) -> list[int]:
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            found += [int(word) for word in file.read().split()]
    return found


def _written(folder: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".log"))


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise Failed(f"{' '.join(map(str, process.args))[:200]} said {line!r}")  # type: ignore[arg-type]


@contextmanager
def _folder(lab: Lab) -> Iterator[str]:
    """Yield a folder of logs on the disk in memory: the disk is not what is compared."""
    folder = f"{lab.home}/logs"
    os.mkdir(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _installed(program: str, package: str) -> str:
    """Return a peer from the Python index, installed into a folder of its own. Raises Missing."""
    venv = os.path.abspath(os.path.join(PEERS, package))
    path = os.path.join(venv, "bin", program)
    if not os.path.exists(path):
        _run([sys.executable, "-m", "venv", venv], package)
        _run([f"{venv}/bin/python", "-m", "pip", "install", "--quiet", package, "setuptools<81"], package)
    return path


def _installed_by_npm(package: str) -> str:
    folder = os.path.abspath(os.path.join(PEERS, package))
    path = os.path.join(folder, "node_modules", ".bin", package)
    npm = shutil.which("npm")
    if npm is None:
        raise Missing(f"{package} is not installed, and there is no npm")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        _run([npm, "install", "--no-audit", "--no-fund", "--prefix", folder, package], package)
    return path


def _run(argv: Sequence[str], package: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{package} cannot be installed: {done.stderr[-200:].strip()}")
