"""Our terminal while a child has one of its own: keys go in, sizes too, and all is as it was when we leave."""

import os
import select
import termios

from longwatch.posix.identity import ignores
from longwatch.posix.modes import ModeTracker
from longwatch.posix.sink import reopen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any, Protocol, Self

    from longwatch.posix.child import Child
    from longwatch.posix.pump import Pump
    from longwatch.posix.reactor import Reactor

    class Process(Protocol):
        """What `over` has to know of a started program."""

        child: Child
        reactor: Reactor
        pumps: dict[str, Pump]
else:
    import _signal


_KEYS = 4096
# A terminal that takes nothing for so long (ms) is not waited for with its reset.
_PATIENCE = 200
# Where the list of a terminal's settings has its flags, and its characters.
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6


class Terminal:
    """Joins our terminal to the PTY whose master is `master`, from now until `close`.

    What is typed goes to the child as it is, Ctrl-C too: the child's terminal makes the signal. `tracker` has to be
    fed the child's output; whatever the child leaves switched on is undone on the way out. Where `tty_in` is no
    terminal its bytes are still passed on, and its end is typed as the end-of-file key. In the background our
    terminal is another's, and nothing is touched until `resume`.
    """

    __slots__ = (
        "_active", "_blocked", "_given", "_in", "_keys", "_last", "_leader", "_master", "_out", "_reactor", "_saved",
        "_typed", "on_suspend", "pressed", "tracker",
    )  # fmt: skip

    def __init__(
        self, reactor: "Reactor", tty_in: int, tty_out: int, master: int, *, keys: bool = True
    ) -> None:
        self.tracker = ModeTracker()
        #: The last signal that a key asked for (INT or QUIT; 0 for none), whoever makes it of the key.
        self.pressed = 0
        #: Called at the suspend key; see `_suspends`.
        self.on_suspend: Callable[[], object] | None = None
        self._leader = 0
        self._reactor = reactor
        self._given = tty_in
        self._out = tty_out
        # A descriptor has one callback and one direction in the reactor; the pump reads the other one.
        self._master = os.dup(master)
        self._saved = _settings(tty_in)
        self._in = _own(tty_in) if keys else -1
        self._keys = keys
        self._typed = bytearray()
        self._last = b"\n"
        self._blocked = False
        self._active = False
        self.resume()

    @classmethod
    def over(cls, process: "Process", tty_in: int, tty_out: int, *, keys: bool = True) -> "Self":
        """Join our terminal to the one of a started process, and follow what it writes."""
        master = process.child.master_fd
        assert master is not None
        terminal = cls(process.reactor, tty_in, tty_out, master, keys=keys)
        terminal._leader = process.child.pid
        process.pumps["stdout"].taps.append(terminal.tracker.feed)
        return terminal

    def resume(self) -> None:
        """Take our terminal (again): raw, with the child's modes, at the size it has now. No-op in the background."""
        if self._active or not (self._saved is None or is_foreground(self._given)):
            return
        self._active = True
        if self._saved is not None:
            _apply(self._given, raw(self._saved))
        self._show(self.tracker.sets())
        self.resized()
        self._listen()

    def suspend(self) -> None:
        """Give our terminal back as it was found, for the time of a job-control stop."""
        if not self._active:
            return
        self._silence()
        self._active = False
        # Taken from us meanwhile, it is not ours to change, and trying would stop us.
        if self._saved is None or is_foreground(self._given):
            self._show(self.tracker.resets())
            if self._saved is not None:
                _apply(self._given, self._saved)

    def close(self) -> None:
        """Give our terminal back for good. May be called twice."""
        self.suspend()
        if self._in not in (-1, self._given):
            os.close(self._in)
        self._in = -1
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def type(self, text: str) -> None:
        """Type a line into the child as a person would, with the Enter key behind it."""
        self._typed += text.encode("utf-8", "surrogateescape") + b"\r"
        self._pass()

    @property
    def waiting(self) -> bool:
        """Whether our terminal is a real one and another job's now."""
        return not self._active and self._saved is not None and self._master >= 0

    @property
    def joined(self) -> bool:
        """Whether our terminal is a real one and the child's now."""
        return self._active and self._saved is not None

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the child's terminal."""
        return termios.tcgetwinsize(self._master)

    def resized(self) -> None:
        """Tell the child the size of our terminal; the kernel signals it only if that is a new one."""
        for fd in (self._out, self._given):
            size = window_size(fd)
            if size is not None:
                termios.tcsetwinsize(self._master, size)
                return

    def _listen(self) -> None:
        """Watch what has to be watched: the keys, or the master while it does not take them."""
        if self._typed:
            self._blocked = True
            self._reactor.add(self._master, self._pass, write=True)
        elif self._in >= 0:
            self._reactor.add(self._in, self._read)

    def _silence(self) -> None:
        self._reactor.remove(self._master if self._blocked else self._in)
        self._blocked = False

    def _read(self) -> None:
        try:
            keys = os.read(self._in, _KEYS)
        except BlockingIOError:
            return
        except OSError:
            # Hung up: HUP says so to everybody, and there is nothing more to read.
            keys = b""
        if not keys:
            self._ended()
            return
        settings = _settings(self._master)
        while self._suspends(settings) and (key := settings[_CC][termios.VSUSP]) in keys:  # type: ignore[index]
            before, _, keys = keys.partition(key)
            self._take(before, settings)
            self.on_suspend()  # type: ignore[misc]
        self._take(keys, settings)

    def _take(self, keys: bytes, settings: "list[Any] | None") -> None:
        if not keys:
            return
        if settings is not None:
            for key, signum in ((termios.VINTR, _signal.SIGINT), (termios.VQUIT, _signal.SIGQUIT)):
                if settings[_CC][key] in keys:
                    self.pressed = signum
        self._last = keys[-1:]
        self._typed += keys
        self._pass()

    def _suspends(self, settings: "list[Any] | None") -> bool:
        """Return whether the suspend key is for us: it would make a signal that cannot stop who it is for.

        The kernel lets no TSTP stop a program that leads its session without a shell above it there; our shell is
        outside. So we stop it and ourselves, unless it ignores the signal or another of its jobs has its terminal.
        """
        if self.on_suspend is None or self._saved is None or settings is None:
            return False
        try:
            leads = os.tcgetpgrp(self._master) == self._leader
        except OSError:
            return False
        return bool(settings[_LFLAG] & termios.ISIG) and leads and not ignores(self._leader, _signal.SIGTSTP)

    def _ended(self) -> None:
        """The input is over. A terminal has no end but a key, and in the middle of a line it takes two."""
        self._reactor.remove(self._in)
        if self._in != self._given:
            os.close(self._in)
        self._in = -1
        if self._saved is None:
            end = _end_key(self._master)
            self._typed += end if self._last == b"\n" else end * 2
            self._pass()

    def _pass(self) -> None:
        try:
            del self._typed[: os.write(self._master, self._typed)]
        except BlockingIOError:
            pass
        except OSError:
            # The child's side is gone; nobody will read this.
            self._typed.clear()
        if bool(self._typed) != self._blocked:
            self._silence()
            self._listen()

    def _show(self, sequences: bytes) -> None:
        """Write to our terminal, unless it is stuck: settings are worth more than colours."""
        if not sequences or not os.isatty(self._out):
            return
        poll = select.poll()
        poll.register(self._out, select.POLLOUT)
        if poll.poll(_PATIENCE):
            try:
                os.write(self._out, sequences)
            except OSError:
                return


def raw(settings: "list[Any]") -> "list[Any]":
    """Return settings under which every key arrives at once and as it is, and output is not touched."""
    changed = [*settings[:_CC], list(settings[_CC])]
    changed[_IFLAG] &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR
        | termios.ICRNL | termios.IXON
    )  # fmt: skip
    changed[_OFLAG] &= ~termios.OPOST
    changed[_CFLAG] = changed[_CFLAG] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    changed[_LFLAG] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    changed[_CC][termios.VMIN] = 1
    changed[_CC][termios.VTIME] = 0
    return changed


def window_size(fd: int) -> tuple[int, int] | None:
    """Return a terminal's rows and columns; None for what is no terminal or has no size."""
    try:
        rows, columns = termios.tcgetwinsize(fd)
    except (OSError, termios.error):
        return None
    return (rows, columns) if rows and columns else None


def is_foreground(fd: int) -> bool:
    """Return whether our group is the one that may read from and change this terminal."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def _settings(fd: int) -> "list[Any] | None":
    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None


def _apply(fd: int, settings: "list[Any]") -> None:
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, settings)
    except (OSError, termios.error):
        # Hung up: there is nothing left to restore.
        return


def _own(fd: int) -> int:
    """Return a non-blocking description of our own: a read of the shared one could wait for somebody else's key."""
    try:
        return reopen(fd, os.O_RDONLY)
    except OSError:
        return fd


def _end_key(master: int) -> bytes:
    """Return the character that ends the input of the child's terminal."""
    settings = _settings(master)
    return settings[_CC][termios.VEOF] if settings is not None else b"\x04"
