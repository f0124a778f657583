"""What is behind a descriptor of another process: which pipe and who else holds it, which peer, whose lock.

Only links and tables of /proc are read, never the files they lead to: a stat on a dead network file system would
hang whoever looks.
"""

import os
import sys

from longwatch.posix.identity import process, read

#: Of a process with more descriptors than this the rest is not looked at.
MOST = 512
#: Of a machine with more connections than this in bytes of table the rest is not looked at.
TABLE = 4 << 20

ESTABLISHED, CONNECTING, LISTENING = "01", "02", "0A"


def link(pid: int, fd: int) -> str:
    """Return what a descriptor leads to, as /proc names it (`pipe:[412]`, a path); empty when that is not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def is_terminal(name: str) -> bool:
    """Return whether a link leads to a terminal."""
    return name.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))


def descriptors(pid: int) -> list[int]:
    """Return the numbers of a process's open descriptors; empty when they are not ours to see."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/fd")[:MOST]]
    except OSError:
        return []


class Connection:
    """One TCP socket: the kernel's `state` in hex, and the other side as `address:port`."""

    __slots__ = ("remote", "state")

    def __init__(self, state: str, remote: str) -> None:
        self.state = state
        self.remote = remote


class Descriptors:
    """Answers about the descriptors of some processes, each table read once, when it is first asked for."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._index: dict[str, list[tuple[int, bool, bool]]] = {}
        self._connections: dict[int, dict[str, Connection]] = {}
        self._locks: list[list[str]] | None = None

    def others(self, name: str, than: int, *, writing: bool) -> list[int]:
        """Return which other of the processes can write to (or else read from) the pipe `name`."""
        return sorted(self._holders(name, writing=writing) - {than})

    def holds(self, name: str, pid: int, *, writing: bool) -> bool:
        """Return whether a process itself can write to (or else read from) the pipe `name`."""
        return pid in self._holders(name, writing=writing)

    def _holders(self, name: str, *, writing: bool) -> set[int]:
        if not self._index:
            for pid in self._pids:
                self._enter(pid)
        return {pid for pid, reads, writes in self._index.get(name, []) if (writes if writing else reads)}

    def _enter(self, pid: int) -> None:
        for fd in descriptors(pid):
            name = link(pid, fd)
            if name.startswith(("pipe:", "/")):
                try:
                    # The permissions of the link itself say how it was opened.
                    mode = os.lstat(f"/proc/{pid}/fd/{fd}").st_mode
                except OSError:
                    continue
                self._index.setdefault(name, []).append((pid, bool(mode & 0o400), bool(mode & 0o200)))

    def connection(self, pid: int, name: str) -> Connection | None:
        """Return the TCP connection behind a link like `socket:[412]`; None for other sockets."""
        try:
            space = os.stat(f"/proc/{pid}/ns/net").st_ino
        except OSError:
            return None
        if space not in self._connections:
            self._connections[space] = {**_connections(pid, "tcp"), **_connections(pid, "tcp6")}
        return self._connections[space].get(name)

    def holder(self, pid: int, name: str) -> int | None:
        """Return who holds the lock that process `pid` waits for on the file `name`; None when nobody can tell."""
        if self._locks is None:
            self._locks = [line.split() for line in (read("/proc/locks") or b"").decode().splitlines()]
        wanted = next((line[0] for line in self._locks if line[1] == "->" and line[5] == str(pid)), None)
        holder = next((int(line[4]) for line in self._locks if line[0] == wanted and line[1] != "->"), None)
        if holder is not None and holder > 0 and process(holder) is not None:
            return holder
        # The one who took it may be gone while a child of his still has the file open.
        heirs = self.others(name, pid, writing=False) or self.others(name, pid, writing=True)
        return heirs[0] if heirs else None


def _connections(pid: int, protocol: str) -> dict[str, Connection]:
    raw = read(f"/proc/{pid}/net/{protocol}", limit=TABLE) or b""
    found = {}
    for line in raw.decode().splitlines()[1:]:
        field = line.split()
        if len(field) > 9:
            found[f"socket:[{field[9]}]"] = Connection(field[3], address(field[2]))
    return found


def address(text: str) -> str:
    """Return `0100007F:1F90` of the kernel's tables as `127.0.0.1:8080`; IPv6 is put in brackets.

    The kernel prints each four bytes of an address as one number of the machine's byte order.
    """
    host, _, port = text.partition(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    raw = b"".join(words)
    if len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]
    if len(raw) == 4:
        return ".".join(str(byte) for byte in raw) + f":{int(port, 16)}"
    groups = [f"{raw[at] << 8 | raw[at + 1]:x}" for at in range(0, 16, 2)]
    name = "::1" if raw == bytes(15) + b"\1" else ":".join(groups)
    return f"[{name}]:{int(port, 16)}"
