"""Where measuring happens: a clean environment, a home of its own on tmpfs, peers, and small compiled programs."""

import compileall
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Self, TypeVar

Measured = TypeVar("Measured")

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
#: What a peer that is not installed is installed with.
PACKAGES = {"pv": "pv", "unbuffer": "expect", "script": "bsdutils", "timeout": "coreutils"}
MEMORY_DISK = "/dev/shm"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class Missing(Exception):
    """A peer or a facility of the system is not here; the figure is skipped and the text says so."""


class Failed(Exception):
    """A measured program did not do what it was measured at."""


class Lab:
    """Everything that a measurement needs to know about this machine and this run."""

    def __init__(self, *, rounds: int | None = None, quick: bool = False) -> None:
        self.quick = quick
        self._rounds = rounds
        self.python = sys.executable
        self.longwatch = os.path.join(os.path.dirname(sys.executable), "longwatch")
        self._made: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        self.folder = tempfile.mkdtemp(prefix="longwatch-bench-")
        on_disk = not os.access(MEMORY_DISK, os.W_OK)
        self.home = tempfile.mkdtemp(prefix="longwatch-bench-", dir=None if on_disk else MEMORY_DISK)
        self.env = {
            "PATH": SYSTEM_PATH, "HOME": self.home, "LANG": "C.UTF-8", "TERM": "xterm",
            "XDG_STATE_HOME": f"{self.home}/state", "XDG_CONFIG_HOME": f"{self.home}/config",
            "XDG_CACHE_HOME": f"{self.home}/cache", "XDG_RUNTIME_DIR": self.home,
        }  # fmt: skip
        self.null = os.open(os.devnull, os.O_RDWR)
        self.complaints = os.open(f"{self.home}/stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _compile_byte_code()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.null)
        os.close(self.complaints)
        for folder in (self.folder, self.home):
            shutil.rmtree(folder, ignore_errors=True)

    def rounds(self, full: int, quick: int) -> int:
        return self._rounds or (quick if self.quick else full)

    def run(self, *command: str, options: Sequence[str] = ()) -> list[str]:
        """Return the words of `longwatch run` for a command; as stdin is /dev/null it gets pipes."""
        return [self.longwatch, "run", *options, "--", *command]

    def peer(self, name: str) -> str:
        """Return a peer's path. Raises Missing with what installs it."""
        path = shutil.which(name)
        if path is None:
            raise Missing(f"{name} is not installed (package {PACKAGES.get(name, name)})")
        return path

    def program(self, name: str) -> list[str]:
        """Return how to start a Python program of ours."""
        return [self.python, os.path.join(PROGRAMS, f"{name}.py")]

    def tool(self, name: str, *, static: bool = False) -> list[str]:
        """Return how to start a small C program, compiled now; without a compiler its stand-in in Python."""
        if name not in self._made:
            self._made[name] = self._compile(name, static) or self._stand_in(name)
        return self._made[name]

    def compiled(self, name: str) -> list[str]:
        """Return how to start a C program that has no stand-in. Raises Missing without a compiler."""
        found = self._compile(name, static=False)
        if not found:
            raise Missing("there is no C compiler")
        return found

    def note(self) -> str:
        """Return what measured programs have written to stderr, for the message about a failure."""
        return (
            os.pread(self.complaints, 2_000, max(0, os.fstat(self.complaints).st_size - 2_000))
            .decode()
            .strip()
        )

    def _compile(self, name: str, static: bool) -> list[str]:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return []
        target = os.path.join(self.folder, name)
        source = os.path.join(PROGRAMS, f"{name}.c")
        for flags in (["-static"], []) if static else ([],):
            done = subprocess.run(
                [compiler, "-O2", *flags, "-o", target, source], capture_output=True, check=False
            )
            if done.returncode == 0:
                return [target]
        print(f"{name}.c does not compile here: {done.stderr.decode()[:300]}", file=sys.stderr)
        return []

    def _stand_in(self, name: str) -> list[str]:
        if not os.path.exists(os.path.join(PROGRAMS, f"{name}.py")):
            raise Missing("there is no C compiler")
        return self.program(name)


def alternate(cases: Mapping[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
    """Run each case once per round, in another order each time; the first round only warms up."""
    found: dict[str, list[Measured]] = {name: [] for name in cases}
    for count in range(rounds + 1):
        for name in random.sample(list(cases), len(cases)):
            value = cases[name]()
            if count:
                found[name].append(value)
    return found


def medians(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    return {name: median(values) for name, values in alternate(cases, rounds).items()}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spawn(
    lab: Lab, argv: Sequence[str], *, stdin: int | None = None, stdout: int | None = None,
    new_session: bool = False,
) -> int:  # fmt: skip
    """Start a program in the clean environment and return its pid; what is not given is /dev/null.

    stderr goes to a file, for the message about a failure.
    """
    wanted = (
        lab.null if stdin is None else stdin,
        lab.null if stdout is None else stdout,
        lab.complaints,
    )
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(wanted)]
    return os.posix_spawn(argv[0], list(argv), lab.env, file_actions=actions, setsid=new_session)


def finish(lab: Lab, pid: int, argv: Sequence[str], expected: Sequence[int] = (0,)) -> None:
    """Collect a program. Raises Failed unless it ended with an expected status."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in expected:
        raise Failed(f"{' '.join(argv)[:200]} ended with {code}: {lab.note()}")


def output(lab: Lab, argv: Sequence[str]) -> bytes:
    """Run a program to its end and return what it printed."""
    reading, writing = os.pipe()
    pid = spawn(lab, argv, stdout=writing)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read()
    finish(lab, pid, argv)
    return text


def wall(lab: Lab, *argv: str) -> Callable[[], float]:
    """Return a case: milliseconds from the start of a program to its end."""

    def case() -> float:
        start = time.perf_counter_ns()
        pid = spawn(lab, argv)
        finish(lab, pid, argv)
        return (time.perf_counter_ns() - start) / 1e6

    return case


def _compile_byte_code() -> None:
    """Whoever installed the wheel may have been told to write no byte code; every start would compile it anew."""
    found = importlib.util.find_spec("longwatch")
    if found is not None and found.origin is not None:
        compileall.compile_dir(os.path.dirname(found.origin), quiet=2)
