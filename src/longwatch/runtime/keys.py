"""What is typed into a program from outside: keys for its terminal, lines for its stdin; and its terminal's size.

Nothing of it is a sign of the program's: the terminal's echo is taken out of what counts as progress. What the
program does not read yet waits here, up to a bound, and holds nobody up.
"""

import os
import termios

from longwatch.errors import LongwatchError
from longwatch.posix.echo import expect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.process import Process
    from longwatch.posix.reactor import Reactor

#: What may wait for a program that does not read.
MOST = 64 << 10
#: How long (ms) a terminal is a row smaller, so that its program draws anew.
WIGGLE = 100
_LFLAG = 3
_LARGEST = 10_000


class KeysError(LongwatchError):
    """The program takes no input, or (`busy`) none now; the text is one line."""

    def __init__(self, text: str, *, busy: bool = False) -> None:
        super().__init__(text)
        self.busy = busy


class Keys:
    """The keyboard of one run. `later(instant, callback(now))` is the host's timer."""

    def __init__(
        self, process: "Process", reactor: "Reactor", later: "Callable[[int, Callable[[int], object]], object]",
        now: "Callable[[], int]",
    ) -> None:  # fmt: skip
        child = process.child
        self._process = process
        self._reactor = reactor
        self._later = later
        self._now = now
        self.is_terminal = child.master_fd is not None
        given = child.master_fd if self.is_terminal else child.stdin_fd
        # A descriptor has one callback and one direction in the reactor; the pump reads the other one.
        self._fd = -1 if given is None or process.drained else os.dup(given)
        self._waiting = bytearray()
        self._watched = False
        self._size: tuple[int, int] | None = None

    def send(self, data: bytes, newline: bool = False) -> int:
        """Type these bytes, and the Enter key behind them if wanted; return how many that is. Never blocks.

        Raises KeysError where the program has no terminal and no pipe for its input, and where too much waits.
        """
        self._check("reads no input: neither a terminal nor a pipe was given to it")
        if newline:
            data += b"\r" if self.is_terminal else b"\n"
        if len(self._waiting) + len(data) > MOST:
            raise KeysError("does not read its input, and no more fits into it now", busy=True)
        if self.is_terminal and self._echoes():
            expect(self._process.pumps["stdout"], data)
        self._waiting += data
        if not self._watched:
            self._pass()
        return len(data)

    @property
    def size(self) -> tuple[int, int] | None:
        """Rows and columns of its terminal; None where it has none."""
        if not self.is_terminal or self._fd < 0:
            return None
        return self._size or termios.tcgetwinsize(self._fd)

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal a size; the one it has already makes the program draw anew.

        Raises KeysError where it has no terminal, ValueError for what is no size.
        """
        if not self.is_terminal:
            raise KeysError("has no terminal")
        self._check("has ended")
        if not (0 < rows <= _LARGEST and 0 < columns <= _LARGEST):
            raise ValueError(f"no size of a terminal: {rows} rows, {columns} columns")
        same = self.size == (rows, columns)
        self._size = None
        if same:
            # Two changes at once are seen as none: the second has to wait.
            self._size = (rows, columns)
            self._later(self._now() + WIGGLE, self._settle)
            rows += 1 if rows == 1 else -1
        termios.tcsetwinsize(self._fd, (rows, columns))

    def close(self) -> None:
        """The run is over. May be called twice."""
        if self._fd < 0:
            return
        self._reactor.remove(self._fd)
        os.close(self._fd)
        self._fd = -1

    def _check(self, text: str) -> None:
        if self._fd < 0:
            raise KeysError("has ended" if self._process.drained else text)

    def _settle(self, now: int) -> None:
        """Give the terminal the size back that it had before it was made to draw."""
        size, self._size = self._size, None
        if size is not None and self._fd >= 0:
            termios.tcsetwinsize(self._fd, size)

    def _echoes(self) -> bool:
        try:
            return bool(termios.tcgetattr(self._fd)[_LFLAG] & termios.ECHO)
        except (OSError, termios.error):
            return False

    def _pass(self) -> None:
        try:
            del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._waiting.clear()  # nobody reads it any more
        if bool(self._waiting) != self._watched:
            self._watched = not self._watched
            if self._watched:
                self._reactor.add(self._fd, self._pass, write=True)
            else:
                self._reactor.remove(self._fd)
