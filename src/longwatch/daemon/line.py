"""One end of a connection that carries one JSON object a line. It never blocks, and what waits in it is bounded.

The other end may be stopped, slow or broken: then what is to be sent waits here, and whoever sends asks `waiting`
before there is too much of it.
"""

import os
from collections import deque

from longwatch.jsonlean import dumps, parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.posix.reactor import Reactor

_CHUNK = 1 << 16
#: A longer line is none of ours: bytes for a terminal are the longest thing that anybody sends.
LONGEST = 4 << 20


class Line:
    """Reads and writes objects. `hear(message)` for each that comes; `ended(why)` once, when it cannot go on.

    It owns the descriptor. Neither callback is called after `close`.
    """

    __slots__ = (
        "_ended", "_hear", "_in", "_lines", "_out", "_paused", "_reactor", "_telling", "_waiting", "_writing", "drained",
    )  # fmt: skip

    def __init__(
        self,
        reactor: "Reactor",
        fd: int,
        hear: "Callable[[dict[str, Any]], object]",
        ended: "Callable[[str], object]",
    ) -> None:
        os.set_blocking(fd, False)
        self._reactor = reactor
        self._hear = hear
        self._ended = ended
        self._waiting = bytearray()
        self._lines: deque[bytes] = deque()
        self._paused = False
        self._telling = False
        self._writing = False
        #: Called when everything has been taken by the other end.
        self.drained: Callable[[], object] | None = None
        self._in = _Incoming(fd)
        # A reactor knows one direction of a descriptor: writing has its own.
        self._out = os.dup(fd)
        reactor.add(fd, self._readable)

    @property
    def waiting(self) -> int:
        """How many bytes the other end has not taken yet."""
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return self._out < 0

    def send(self, message: "dict[str, Any]") -> None:
        """Send a message, or keep it until the other end takes it. Nothing happens when it is over."""
        if self.closed:
            return
        self._waiting += dumps(message).encode() + b"\n"
        if not self._writing:
            self._writable()

    def pause(self, paused: bool) -> None:
        """Leave what comes where it is, or go on reading."""
        if self.closed or paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._reactor.remove(self._in.fd)
        else:
            self._reactor.add(self._in.fd, self._readable)
            self._tell()

    def close(self) -> None:
        """Hang up. What still waits is lost. May be called again."""
        if self.closed:
            return
        self._lines.clear()
        self._reactor.remove(self._in.fd)
        self._reactor.remove(self._out)
        os.close(self._in.fd)
        os.close(self._out)
        self._out = -1
        self._waiting.clear()

    def _readable(self) -> None:
        try:
            lines = self._in.read()
        except BlockingIOError:
            return
        except (OSError, EOFError, ValueError) as error:
            self._end(str(error))
            return
        self._lines += lines
        self._tell()

    def _tell(self) -> None:
        """Hand on what has come, unless a hearer wants a pause: what it answers would pile up."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._lines and not self._paused and not self.closed:
                message = parse_object(self._lines.popleft())
                if message is None:
                    self._end("it said something that is no JSON object")
                else:
                    self._hear(message)
        finally:
            self._telling = False

    def _writable(self) -> None:
        try:
            while self._waiting:
                sent = os.write(self._out, memoryview(self._waiting)[:_CHUNK])
                del self._waiting[:sent]
        except BlockingIOError:
            self._write_later(True)
            return
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        self._write_later(False)
        if self.drained is not None:
            self.drained()

    def _write_later(self, later: bool) -> None:
        if later == self._writing:
            return
        self._writing = later
        if later:
            self._reactor.add(self._out, self._writable, write=True)
        else:
            self._reactor.remove(self._out)

    def _end(self, why: str) -> None:
        if not self.closed:
            self.close()
            self._ended(why)


class _Incoming:
    """Bytes as they come, cut into lines."""

    __slots__ = ("_held", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = bytearray()

    def read(self) -> list[bytes]:
        """Return the lines that are whole now. Raises BlockingIOError, EOFError, OSError, and ValueError if one is too long."""
        chunk = os.read(self.fd, _CHUNK)
        if not chunk:
            raise EOFError("it hung up")
        begin = len(self._held)
        self._held += chunk
        end = self._held.rfind(b"\n", begin)
        if end < 0:
            if len(self._held) > LONGEST:
                raise ValueError("it sent a line without an end")
            return []
        whole = bytes(self._held[:end])
        del self._held[: end + 1]
        return whole.split(b"\n")
