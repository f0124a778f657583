"""Between a keeper and its master: messages over a local socket, with descriptors.

A message is one packet: who is killed while it writes has sent all of it or nothing. It is a JSON object; one that
is too long for a packet (an environment may have megabytes) travels as a file. Nothing here waits without a limit.
"""

import _socket
import errno
import os
import select
import stat
import struct

from longwatch.jsonlean import dumps, parse_object
from longwatch.posix import now
from longwatch.posix.files import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Message = dict[str, Any]

#: What a keeper and its master have to agree on. A keeper outlives upgrades: raise it with every change.
VERSION = 1
#: Longer messages travel as a file, announced by this packet.
PACKET = 48 * 1024
_BY_FILE = b"@"
#: More descriptors than any message has.
_MOST_FDS = 16
_BACKLOG = 8
#: The number of what is no question.
NO_ANSWER = -1
_CREDENTIALS = struct.Struct("iII")


class Wire:
    """One end of a connection. Of the descriptors that come with a message the receiver is the owner."""

    __slots__ = ("_socket",)

    def __init__(self, socket: "_socket.socket") -> None:
        socket.setblocking(False)
        self._socket = socket

    def fileno(self) -> int:
        """Return the descriptor that is readable once a message, or the end, has come."""
        return self._socket.fileno()

    def peer(self) -> tuple[int, int]:
        """Return pid and user id of who made the connection at the other end; pid 0: of a space not visible here."""
        raw = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, _ = _CREDENTIALS.unpack(raw)
        return pid, user

    def send(self, message: "Message", fds: "Iterable[int]" = (), *, limit_ms: int) -> None:
        """Send a message, with copies of some descriptors, whole or not at all.

        Raises TimeoutError when the other end takes nothing for so long, OSError when it is gone.
        """
        packet = dumps(message).encode()
        given = list(fds)
        body = readable(packet) if len(packet) > PACKET else None
        if body is not None:
            packet = _BY_FILE
            given.insert(0, body)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(given)}i", *given))]
        deadline = now() + limit_ms
        try:
            while True:
                try:
                    self._socket.sendmsg([packet], rights if given else [], _socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    if not self._ready(select.POLLOUT, deadline):
                        raise TimeoutError(errno.ETIMEDOUT, "nobody takes the message") from None
                else:
                    return
        finally:
            if body is not None:
                os.close(body)

    def receive(self) -> "tuple[Message, list[int]] | None":
        """Return a message that is there, with its descriptors, which are close-on-exec; None when there is none.

        Raises EOFError when the other end is gone, and OSError (EMFILE) when not all descriptors could be taken in;
        that message is lost.
        """
        room = _socket.CMSG_SPACE(_MOST_FDS * 4)
        try:
            packet, ancillary, flags, _ = self._socket.recvmsg(PACKET, room, _socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except ConnectionError:
            packet, ancillary, flags = b"", [], 0
        fds = [fd for _, _, raw in ancillary for (fd,) in struct.iter_unpack("i", raw[: len(raw) // 4 * 4])]
        if flags & _socket.MSG_CTRUNC:
            close(fds)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not packet:
            raise EOFError("the other end is gone")
        if packet == _BY_FILE and fds:
            packet = _read_whole(fds.pop(0))
        return parse_object(packet) or {}, fds

    def wait(self, deadline: int) -> bool:
        """Wait until a message, or the end, has come; False when `deadline` (ms) came first."""
        return self._ready(select.POLLIN, deadline)

    def ended(self) -> bool:
        """Return whether the other end is gone."""
        return self._ready(select.POLLRDHUP, 0)

    def close(self) -> None:
        """Hang up. May be called again."""
        self._socket.close()

    def _ready(self, events: int, deadline: int) -> bool:
        poll = select.poll()
        fd = self._socket.fileno()
        if fd < 0:
            raise OSError(errno.EBADF, "it was closed")
        poll.register(fd, events)
        return bool(poll.poll(max(0, deadline - now())))


def pair() -> "tuple[Wire, _socket.socket]":
    """Return both ends of a new connection: one to use here, one to hand to another process. Raises OSError."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return Wire(ours), theirs


def listen(path: str) -> "_socket.socket":
    """Return a socket that waits for connections at `path`, for our own user only.

    A socket that nobody listens at is left over, and replaced. Raises OSError: EADDRINUSE when somebody listens
    there already, or when the file is something else.
    """
    folder = _folder(path)
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        _remove_left_over(path)
        socket.bind(_address(folder, path))
        os.chmod(path, 0o600)
        socket.listen(_BACKLOG)
        socket.setblocking(False)
    except OSError:
        socket.close()
        raise
    finally:
        os.close(folder)
    return socket


def connect(path: str, limit_ms: int) -> Wire:
    """Connect to who listens at `path`. Raises OSError: ENOENT or ECONNREFUSED when nobody does."""
    folder = _folder(path)
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        # With a full backlog it would wait for as long as the other side is stopped.
        socket.settimeout(limit_ms / 1000)
        socket.connect(_address(folder, path))
    except OSError:
        socket.close()
        raise
    finally:
        os.close(folder)
    return Wire(socket)


def accept(listener: "_socket.socket") -> Wire | None:
    """Return the next connection; None when there is none. Raises OSError, as for no descriptor left."""
    try:
        fd, _ = listener._accept()  # type: ignore[attr-defined] # noqa: SLF001 - what `socket.socket.accept` calls
    except (BlockingIOError, ConnectionError):
        return None
    return Wire(_socket.socket(fileno=fd))


def close(fds: "Iterable[int]") -> None:
    """Close descriptors that came with a message."""
    for fd in fds:
        os.close(fd)


def _read_whole(fd: int) -> bytes:
    try:
        data = b""
        while chunk := os.read(fd, 1 << 20):
            data += chunk
        return data
    finally:
        os.close(fd)


def _folder(path: str) -> int:
    return os.open(os.path.dirname(path) or os.curdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _address(folder: int, path: str) -> str:
    """Return a name for `path` that is never too long: the kernel takes 107 bytes, and homes may be deep."""
    return f"/proc/self/fd/{folder}/{os.path.basename(path)}"


def _remove_left_over(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        connect(path, 1_000).close()
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        os.unlink(path)
    else:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
