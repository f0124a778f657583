"""Who descends from whom, and who carries a run's mark.

`/proc/P/task/T/children` answers for one process without looking at any other, so a tree of twenty among five
thousand costs twenty small reads. Kernels built without it, and other systems, get one scan of the whole table.
"""

import os
import sys

from longwatch.posix.identity import ProcessInfo, process, read

if sys.platform != "linux":
    from longwatch.posix import portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Names the run that a process belongs to: `outer/inner` where one run is inside another.
RUN_VARIABLE = "LONGWATCH_RUN_ID"
#: Of a look that proves nothing: see `Tree.infos`.
LATELY = -1


def has_children_files() -> bool:
    """Return whether this kernel lists children per thread (CONFIG_PROC_CHILDREN)."""
    return os.access("/proc/thread-self/children", os.R_OK)


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process, zombies included; empty when it is gone.

    The list of a process that runs may miss some while others exit; that of a stopped one is complete.
    """
    return [int(child) for child in children_words(pid)]


def children_words(pid: int) -> list[bytes]:
    """Return the same as the kernel writes it: of thousands most are only looked up."""
    try:
        # The link count of the folder is 2 and one for each thread: it saves the listing for most processes.
        if os.stat(f"/proc/{pid}/task").st_nlink == 3:
            return (read(f"/proc/{pid}/task/{pid}/children") or b"").split()
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    lists = [read(f"/proc/{pid}/task/{thread}/children") or b"" for thread in threads]
    return b" ".join(lists).split()


def table() -> dict[int, ProcessInfo]:
    """Return every process there is, by pid."""
    if sys.platform != "linux":
        return portable.table()
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (info := process(int(name))) is not None:
            found[info.pid] = info
    return found


def children_in(everything: dict[int, ProcessInfo]) -> "Callable[[int], list[int]]":
    """Return a stand-in for `children` that looks in a table: for kernels without children files."""
    by_parent: dict[int, list[int]] = {}
    for info in everything.values():
        by_parent.setdefault(info.ppid, []).append(info.pid)
    return lambda pid: by_parent.get(pid, [])


def descend(
    roots: "Iterable[int]",
    skip: set[int],
    lookup: "Callable[[int], list[int]]" = children,
    visit: "Callable[[int], object] | None" = None,
) -> list[int]:
    """Return the roots and all their descendants, parents before children, without `skip` and what is below it.

    `visit` is called with each pid as soon as it is met, before its own children are read; roots are drawn from
    their iterator one by one in between, so that whoever yields them can look first.
    """
    seen = set(skip)
    found: list[int] = []

    def meet(pid: int) -> None:
        if pid not in seen:
            seen.add(pid)
            found.append(pid)
            if visit is not None:
                visit(pid)

    for pid in roots:
        meet(pid)
    for pid in found:  # it grows while we go
        for child in lookup(pid):
            meet(child)
    return found


def carries(pid: int, entry: str) -> bool:
    """Return whether a process was started with this `NAME=id`, or `NAME=id/inner`, in its environment."""
    if sys.platform != "linux":
        environ = portable.environ(pid)
    else:
        environ = read(f"/proc/{pid}/environ")
    return environ is not None and marked(environ, os.fsencode(entry))


def marked(environ: bytes, entry: bytes) -> bool:
    """Return whether an environment block has `NAME=id`, or with a nested id `NAME=id/inner`."""
    return any(
        part == entry or (part.startswith(entry) and part[len(entry) :].startswith(b"/"))
        for part in environ.split(b"\0")
    )
