"""Why nothing moves: the tree of a silent run, and the one process and the one thing that everything waits for.

Taken before the first signal, in one pass and without waiting. A process that may not be looked at is still named.
"""

import os

from longwatch.core.record import Plain
from longwatch.posix import kin
from longwatch.posix.identity import cmdline, process
from longwatch.posix.waits import CHILD, ENDED, STOPPED, STRONG, Wait, Waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from longwatch.posix.identity import ProcessInfo
    from longwatch.posix.tree import Tree

#: A tree of more processes than this is described by its first ones.
MOST = 200
LINES = 12

# Clients of somebody else who does the work, the words that make them start some (empty: always), and where it is.
_CLIENTS = {
    "docker": ("run exec start build compose buildx", "a container"),
    "docker-compose": ("up run exec start build", "a container"),
    "podman": ("run exec start build compose", "a container"),
    "nerdctl": ("run exec start build compose", "a container"),
    "kubectl": ("run exec apply create debug", "the cluster"),
    "oc": ("run exec apply create debug rsh", "the cluster"),
    "ssh": ("", "the remote machine"),
    "mosh": ("", "the remote machine"),
    "srun": ("", "the batch system"),
    "sbatch": ("", "the batch system"),
    "salloc": ("", "the batch system"),
    "systemd-run": ("", "a unit of its own"),
    "flatpak-spawn": ("", "the host"),
    "tmux": ("new new-session new-window send-keys", "the tmux server"),
    "screen": ("", "the screen server"),
    "vagrant": ("ssh up", "the virtual machine"),
}


class PostMortem(Plain):
    """What a silent tree looked like.

    `diagnosis` is one line; `culprit_pid` the process of the run at the end of its chain (None: nothing was alive);
    `lines` the tree in at most 12 lines, root first, children indented; `processes` the same as plain values;
    `elsewhere` says where work may go on that was started through a client, or is None.
    """

    __slots__ = ("culprit_pid", "diagnosis", "elsewhere", "lines", "processes")

    def __init__(
        self,
        diagnosis: str,
        culprit_pid: int | None,
        lines: list[str],
        processes: list[dict[str, object]],
        elsewhere: str | None,
    ) -> None:
        self.diagnosis = diagnosis
        self.culprit_pid = culprit_pid
        self.lines = lines
        self.processes = processes
        self.elsewhere = elsewhere


class _Entry:
    """One process of the tree with what it waits for."""

    __slots__ = ("depth", "info", "wait")

    def __init__(self, info: "ProcessInfo", depth: int, wait: Wait) -> None:
        self.info = info
        self.depth = depth
        self.wait = wait

    @property
    def name(self) -> str:
        return f"{self.info.pid} `{self.info.comm}`"

    @property
    def line(self) -> str:
        return f"{'  ' * self.depth}{self.info.pid} {self.info.comm} {self.info.state} {self.wait.text}"


def capture(root: "Tree | int", *, argv: "Sequence[str]" = ()) -> PostMortem:
    """Describe a tree, or a process and what descends from it, as it is now.

    `argv` is how the run was started, where that is known. Never raises for a process that has gone meanwhile or
    may not be looked at.
    """
    infos = _below(root) if isinstance(root, int) else root.infos(since=kin.LATELY)
    shown = infos[:MOST]
    waits = Waits(shown)
    entries = [_Entry(info, depth, waits.of(info)) for info, depth in _in_order(shown)]
    culprit = find_culprit(entries)
    commands = [list(argv), *(cmdline(info.pid) for info in shown)]
    return PostMortem(
        _diagnose(culprit, entries) if culprit is not None else "nothing of the run is alive",
        culprit.info.pid if culprit is not None else None,
        _lines(entries, culprit, len(infos) - len(shown)),
        [_plain(entry) for entry in entries],
        next((place for command in commands if (place := elsewhere(command))), None),
    )


def _below(pid: int) -> "list[ProcessInfo]":
    lookup = kin.children if kin.has_children_files() else kin.children_in(kin.table())
    found = (process(pid) for pid in kin.descend([pid], set(), lookup))
    return [info for info in found if info is not None and info.alive]


def find_culprit(entries: list[_Entry]) -> _Entry | None:
    """Return the process to blame: the deepest that is blocked on something outside the run.

    Who waits for another process of the run is not to blame, least of all a shell for its child. What explains a
    silence by itself goes before what an idle server looks like as well, and a stopped process before anything.
    """
    known = {entry.info.pid for entry in entries}
    alive = [entry for entry in entries if entry.wait.kind != ENDED]
    alone = [
        entry for entry in alive if not known.intersection(entry.wait.peers) and entry.wait.kind != CHILD
    ]
    stopped = [entry for entry in alive if entry.wait.kind == STOPPED]
    strong = [entry for entry in alone if entry.wait.kind in STRONG]
    for group in (stopped, strong, alone, alive):
        if group:
            return max(group, key=lambda entry: (entry.depth, entry.info.start, entry.info.pid))
    return None


def _diagnose(culprit: _Entry, entries: list[_Entry]) -> str:
    """Say it in one line, with the process that waits for the culprit where that is not one of its own helpers."""
    below = {culprit.info.pid}
    for entry in entries:  # parents come first
        if entry.info.ppid in below:
            below.add(entry.info.pid)
    for entry in reversed(entries):
        if (
            entry.wait.kind != CHILD
            and entry.wait.peers[:1] == [culprit.info.pid]
            and entry.info.pid not in below
        ):
            return f"{entry.name} {entry.wait.text}, which {culprit.wait.text}"
    return f"{culprit.name} {culprit.wait.text}"


def _in_order(infos: "list[ProcessInfo]") -> "list[tuple[ProcessInfo, int]]":
    """Return the processes with their depths, children right after their parents."""
    known = {info.pid for info in infos}
    below: dict[int, list[ProcessInfo]] = {}
    for info in infos:
        below.setdefault(info.ppid if info.ppid in known else 0, []).append(info)
    ordered: list[tuple[ProcessInfo, int]] = []
    stack = [(info, 0) for info in reversed(below.get(0, []))]
    while stack:
        info, depth = stack.pop()
        ordered.append((info, depth))
        stack += [(child, depth + 1) for child in reversed(below.get(info.pid, []))]
    return ordered


def _lines(entries: list[_Entry], culprit: _Entry | None, unseen: int) -> list[str]:
    """Return the tree in few lines; the culprit's is never left out."""
    if len(entries) + unseen <= LINES:
        return [entry.line for entry in entries]
    shown = entries[: LINES - 1]
    if culprit is not None and culprit not in shown:
        shown[-1] = culprit
    return [*(entry.line for entry in shown), f"... and {len(entries) + unseen - len(shown)} more"]


def _plain(entry: _Entry) -> dict[str, object]:
    info = entry.info
    cpu_ms = info.cpu * 1000 // os.sysconf("SC_CLK_TCK")
    return {
        "pid": info.pid, "ppid": info.ppid, "name": info.comm, "state": info.state, "depth": entry.depth,
        "waits": entry.wait.kind, "what": entry.wait.text, "cpu_ms": cpu_ms,
    }  # fmt: skip


def elsewhere(argv: "Sequence[str]") -> str | None:
    """Say where work may go on when this client is stopped, or None: `work may continue in a container (docker)`."""
    if not argv:
        return None
    name = os.path.basename(argv[0])
    words, place = _CLIENTS.get(name, ("", ""))
    if not place or (words and not set(words.split()).intersection(argv[1:8])):
        return None
    return f"work may continue in {place} ({name})"


def unbuffered_hint(argv: "Sequence[str]") -> str:
    """Say how to make a program write at once that has a pipe as stdout and has written nothing to it."""
    if os.path.basename(argv[0] if argv else "").startswith(("python", "pypy")):
        return "stdout is a pipe and nothing came: Python keeps its output back; set PYTHONUNBUFFERED=1 or use --pty"
    return "stdout is a pipe and nothing came: the program may keep its output back; --pty makes it write at once"
