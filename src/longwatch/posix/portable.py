"""The process table where there is no /proc: through psutil, as well as it goes.

Loaded on other systems than Linux only. A pid that vanishes or may not be looked at reads as not there.
"""

import os

import psutil

from longwatch.posix.identity import ProcessInfo

_LETTERS = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_STOPPED: "T", psutil.STATUS_RUNNING: "R"}


def process(pid: int) -> ProcessInfo | None:
    """Return one process; its start time is in hundredths of a second since the epoch."""
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            state = _LETTERS.get(found.status(), "S")
            start, name, parent = int(found.create_time() * 100), found.name(), found.ppid()
        return ProcessInfo(pid, parent, os.getpgid(pid), os.getsid(pid), state, start, name)
    except (psutil.Error, OSError):
        return None


def table() -> dict[int, ProcessInfo]:
    """Return every process that may be looked at, by pid."""
    return {pid: info for pid in psutil.pids() if (info := process(pid)) is not None}


def cmdline(pid: int) -> list[str]:
    """Return a process's arguments; empty when they cannot be read."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def environ(pid: int) -> bytes | None:
    """Return a process's environment as one block, entries ended by a zero byte."""
    try:
        pairs = psutil.Process(pid).environ().items()
    except psutil.Error:
        return None
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in pairs)
