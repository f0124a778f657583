"""The sockets that people and programs reach the daemon by: a private one, and TCP ports where the file asks for them.

The supervisor binds them and keeps them open, so that whoever serves them can be replaced without a refused client.
"""

import _socket
import os
import stat

from longwatch import paths
from longwatch.core.record import Plain
from longwatch.errors import StoreError, UsageError

_BACKLOG = 128


class Listener(Plain):
    """A socket that waits for connections: `where` for people, `path` and `mark` (device, inode) of a private one."""

    __slots__ = ("mark", "path", "socket", "where")

    def __init__(
        self, socket: "_socket.socket", where: str, path: str | None = None, mark: tuple[int, int] = (0, 0)
    ) -> None:
        self.socket = socket
        self.where = where
        self.path = path
        self.mark = mark

    def close(self) -> None:
        """Close it; remove a private one's file if that is still ours. May be called again."""
        self.socket.close()
        if self.path is None:
            return
        try:
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self.mark:
                os.unlink(self.path)
        except OSError:
            pass  # the next one to bind it replaces it


def private(folder: str) -> Listener:
    """Listen at `api.sock` in a folder that only we may enter. The caller holds the daemon's lock.

    So a socket that is there is left over, even if a stopped process of a daemon that was killed still has it open.
    Raises StoreError.
    """
    path = os.path.join(paths.ensure(folder), "api.sock")
    _make_private(folder)
    _remove_left_over(path)
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        socket.bind(path)
        os.chmod(path, 0o600)
        socket.listen(_BACKLOG)
        found = os.lstat(path)
    except OSError as error:
        socket.close()
        raise StoreError(f"{path}: cannot listen there: {error.strerror or error}") from error
    return Listener(socket, path, path, (found.st_dev, found.st_ino))


def tcp(listen: str, *, allow: bool, what: str) -> Listener:
    """Listen at a TCP address; `what` names the table of the file.

    Raises UsageError for an address that is refused, StoreError when it cannot be had.
    """
    host, port = address(listen, allow=allow, what=what)
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    socket = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        socket.bind((host, port))
        socket.listen(_BACKLOG)
    except OSError as error:
        socket.close()
        raise StoreError(f"{what}: cannot listen at {listen}: {error.strerror or error}") from error
    return Listener(socket, listen)


def address(listen: str, *, allow: bool, what: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, the host as a number: nothing here asks a name server.

    Raises UsageError: no such address, or one that is not loopback without `allow`.
    """
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host == "localhost" else host
    number = port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16
    if not (colon and number and _is_number(host)):
        raise UsageError(f"{what}: listen is ADDRESS:PORT, as in 127.0.0.1:7180, not {listen!r}")
    if not (host == "::1" or host.startswith("127.") or allow):
        raise UsageError(
            f"{what}: {listen} can be reached from other machines; that needs allow_remote = true beside the token"
        )
    return host, int(port)


def _is_number(host: str) -> bool:
    try:
        _socket.inet_pton(_socket.AF_INET6 if ":" in host else _socket.AF_INET, host)
    except OSError:
        return False
    return True


def _make_private(folder: str) -> None:
    found = os.stat(folder)
    if found.st_uid != os.geteuid():
        raise StoreError(f"{folder} belongs to another user; a socket there would not be private")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(folder, 0o700)


def _remove_left_over(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreError(f"{path} is in the way: it is no socket; move it away")
    os.unlink(path)
