"""What belongs to the processes of a run: the files they write, the folders they work in, and who works beside them.

An observer asks here whose a file is. Only Linux tells; elsewhere the answers are empty, and nobody guesses.
"""

import os
import sys
import time

from longwatch.core.record import Plain
from longwatch.posix import now
from longwatch.posix.identity import ProcessInfo, cmdline, process, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from longwatch.posix.tree import Tree

#: What runs a program that is a script; digits behind the name do not matter.
_INTERPRETERS = ("node", "nodejs", "bun", "deno", "python", "pypy")


class Worker(Plain):
    """A process: `started` in ms on the watch's clock and `ticks` as the kernel counts it, `folder` where it works."""

    __slots__ = ("folder", "parent", "pid", "started", "ticks", "words")

    def __init__(self, info: ProcessInfo, words: list[str]) -> None:
        self.pid = info.pid
        self.parent = info.ppid
        self.started = started(info)
        self.ticks = info.start
        self.folder = folder_of(info.pid)
        self.words = words

    def plays(self, names: "Collection[str]") -> bool:
        """Whether it is a program of one of these names, also behind its interpreter."""
        return plays(self.words, names)


class Belongings:
    """Of one run's tree, and of others, what /proc shows of them now."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree

    def members(self) -> list[Worker]:
        """Return the living processes of the run."""
        return [Worker(info, cmdline(info.pid)) for info in self._tree.infos()]

    def written(self, wanted: "Callable[[str], bool]") -> list[str]:
        """Return the wanted ones among the files that processes of the run hold open for writing."""
        found = (path for info in self._tree.infos() for path in _written(info.pid, wanted))
        return list(dict.fromkeys(found))

    def beside(self, names: "Collection[str]", folders: "Collection[str]") -> list[Worker]:
        """Return the processes of others that are one of these programs and work in one of these folders.

        What one of them, or of ours, has started (agents start themselves anew) is not another one.
        """
        if sys.platform != "linux":
            return []  # pragma: no cover - macOS
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        near = [pid for pid in pids if folder_of(pid) in folders]
        # Asked afterwards: a child of ours that is born meanwhile must not pass for another's.
        ours = {info.pid for info in self._tree.infos()}
        found = [
            Worker(info, words)
            for pid in near
            if pid not in ours and plays(words := cmdline(pid), names)
            if (info := process(pid)) is not None and info.alive
        ]
        known = {worker.pid for worker in found} | ours
        return [worker for worker in found if worker.parent not in known]


def started(info: ProcessInfo) -> int:
    """Return when a process began, in ms on the clock of all watches."""
    if sys.platform != "linux":
        return info.start * 10 - (time.time_ns() // 1_000_000 - now())  # pragma: no cover - macOS
    return info.start * 1000 // os.sysconf("SC_CLK_TCK")


def folder_of(pid: int) -> str:
    """Return the working directory of a process; empty when it is gone or not ours to see."""
    return _link(f"/proc/{pid}/cwd")


def plays(words: list[str], names: "Collection[str]") -> bool:
    """Return whether a command line is that of a program of one of these names, also behind its interpreter.

    Its name among the words of another program (a wrapper, an editor, ourselves) is none of its doing.
    """
    if not words:
        return False
    first = os.path.basename(words[0])
    if first in names or first.rstrip(".0123456789") not in _INTERPRETERS:
        return first in names
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return os.path.basename(script) in names


def _written(pid: int, wanted: "Callable[[str], bool]") -> list[str]:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    found = []
    for number in numbers:
        path = _link(f"/proc/{pid}/fd/{number}")
        if path.startswith("/") and wanted(path) and _for_writing(pid, number):
            found.append(path)
    return found


def _for_writing(pid: int, number: str) -> bool:
    _, found, rest = (read(f"/proc/{pid}/fdinfo/{number}") or b"").partition(b"flags:\t")
    return bool(found) and int(rest.split(None, 1)[0], 8) & os.O_ACCMODE != os.O_RDONLY


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
