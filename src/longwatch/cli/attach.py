r"""`longwatch attach`: open the terminal of a harness. Ctrl-\ and then d leaves it; the program runs on.

What it shows is read from its log, what is typed goes to the daemon: nothing here can hold the program up, and when
we are killed it does not notice. Several may be attached; the terminal has the size of the one who came last.
"""

import mmap
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.following import Follower, Waker, begin_in
from longwatch.cli.leaving import Leaving
from longwatch.cli.render import FAILED, clean, fail, note
from longwatch.errors import UsageError
from longwatch.paths import state
from longwatch.posix.modes import ModeTracker
from longwatch.posix.terminal import raw, window_size
from longwatch.runtime import marks

if TYPE_CHECKING:
    from longwatch.api.client import Daemon

NOT_NOW, NO_DAEMON = 75, 3
_KEYS = 4096
#: So much waits with us for a program that does not read; what is typed beyond that waits in our terminal.
_WAITING = 16 << 10
#: What is read of a run that has begun before us: its beginning, for the modes of its terminal, and its end.
_BEGIN, _END = 64 << 10, 1 << 20
#: How often (s) we look whether the daemon lives, and for how long it may be gone, as for an upgrade.
_LOOK, _GONE = 1.0, 5.0
#: How soon (ms) keys are sent again that the program had no room for.
_AGAIN = 50
_ALTERNATE = (1049, 1047, 47)
#: After one of these a screen is drawn from nothing.
_CLEARS = (b"\x1b[?1049h", b"\x1b[2J", b"\x1b[3J", b"\x1bc")
_BELL = b"\a"


@click.command("attach")
@click.argument("name")
@click.option("--read-only", is_flag=True, help="Only look: no key reaches the program, its size stays.")
@config_option
def command(name: str, read_only: bool, config: str | None) -> int:
    r"""Open the terminal of a harness; Ctrl-\ and then d leaves it. Ctrl-C and all other keys go to the program."""
    other = f"longwatch logs -f {name} shows its output, longwatch send {name} TEXT types a line"
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError(f"attach needs a terminal; {other}")
    daemon = daemon_of(config)
    with answers():
        about = daemon.describe(name)
    if not about.get("pty"):
        fail(f"{clean(name)} has no terminal (pty = true gives it one); {other}", FAILED)
    if about.get("pid") is None:
        fail(
            f"{clean(name)} does not run now, it is {clean(about.get('state'))}; longwatch start {name}",
            NOT_NOW,
        )
    return Attached(daemon, name, about, read_only=read_only).stay()


class Attached:
    """Our terminal while it shows another one."""

    def __init__(self, daemon: "Daemon", name: str, about: dict[str, Any], *, read_only: bool) -> None:
        self._daemon = daemon
        self._name = name
        self._run = str(about.get("run"))
        self._log = str(about.get("log"))
        self._read_only = read_only
        self._keys = Leaving(read_only=read_only)
        self._unsent = b""
        self._tracker = ModeTracker()
        self._line = b""
        self._ended: str | None = None
        self._gone_since: float | None = None
        self._looked = time.monotonic()
        #: What we were told to end by, and whether our terminal has another size.
        self._signals: list[int] = []
        self._resized = False

    def stay(self) -> int:
        """Show and type until somebody leaves or it is over; return the exit status."""
        with self._signalled() as woken, Follower(self._log) as follower, Waker(self._log) as waker:
            waker.add(woken)
            with _raw(self._tracker):
                self._show_what_is_there(follower)
                self._resize()
                while not self._is_over():
                    (waker.add if len(self._unsent) < _WAITING else waker.drop)(0)
                    ready = waker.wait(_AGAIN if self._unsent else round(_LOOK * 1000))
                    self._turn(ready, follower, woken)
        return self._say_how_it_ended()

    def _turn(self, ready: set[int], follower: Follower, woken: int) -> None:
        if woken in ready:
            os.read(woken, _KEYS)
            if self._resized:
                self._resized = False
                self._resize()
        for chunk in follower.read():
            self._show(chunk)
        if 0 in ready:
            self._type(_read(0))
        self._send()
        self._look_at_daemon()

    def _is_over(self) -> bool:
        lost = self._gone_since is not None and time.monotonic() - self._gone_since >= _GONE
        return self._keys.over or self._ended is not None or lost or bool(self._signals)

    # -- what is shown

    def _show_what_is_there(self, follower: Follower) -> None:
        """Have the terminal in the modes that the program has set, and show the end of what it drew."""
        for _ in follower.last_lines(0, older=False):
            pass
        begin, end = _history(self._log, self._run, follower.offset)
        self._tracker.feed(begin)
        self._tracker.feed(end)
        _write(b"\x1b[2J\x1b[H" + self._tracker.sets())
        cleared = max(end.rfind(clear) for clear in _CLEARS)
        if cleared < 0 and not any(self._tracker.modes.get(mode) for mode in _ALTERNATE):
            rows = (window_size(1) or (24, 80))[0]
            cleared = begin_in(end, rows - 1)
        if cleared >= 0:
            _write(end[cleared:])

    def _show(self, chunk: bytes) -> None:
        self._tracker.feed(chunk)
        _write(chunk)
        *lines, self._line = (self._line + chunk).split(b"\n")
        self._line = self._line[-_KEYS:]
        ending = next((marks.text_of(line) for line in lines if marks.ends(line, self._run)), None)
        if ending is not None and not self._still_runs():
            self._ended = ending.partition(": ")[2]

    def _still_runs(self) -> bool:
        """Whether the daemon says so, who knows it better than a line that the program may have printed itself."""
        from longwatch.api.client import DaemonError  # noqa: PLC0415

        try:
            about = self._daemon.describe(self._name)
        except DaemonError:
            return False
        return about.get("run") == self._run and about.get("pid") is not None

    # -- what is typed

    def _type(self, keys: bytes) -> None:
        if not keys:
            self._signals.append(signal.SIGHUP)  # our terminal is gone
            return
        self._unsent += self._keys.feed(keys)

    def _send(self) -> None:
        """Hand on what was typed, as far as there is room for it."""
        from longwatch.api.client import DaemonError, NotNowError  # noqa: PLC0415

        while self._unsent:
            try:
                self._daemon.send(self._name, self._unsent[:_KEYS])
            except NotNowError:
                return
            except DaemonError:
                _write(_BELL)
            self._unsent = self._unsent[_KEYS:]

    def _resize(self) -> None:
        """Give the program's terminal the size of ours; where it has that already, the program draws anew."""
        from longwatch.api.client import DaemonError  # noqa: PLC0415

        size = window_size(1)
        if size is not None and not self._read_only:
            with suppress(DaemonError):
                self._daemon.resize(self._name, *size)

    # -- how it ends

    def _look_at_daemon(self) -> None:
        moment = time.monotonic()
        if moment - self._looked < _LOOK:
            return
        from longwatch.api.finding import running  # noqa: PLC0415

        self._looked = moment
        if any(told.get("socket") == self._daemon.path for told in running(state())):
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = moment

    def _say_how_it_ended(self) -> int:
        name = clean(self._name)
        if self._signals:
            _die_of(self._signals[0])
        if self._ended is not None:
            note(f"{name} ended: {clean(self._ended)}")
        elif self._keys.over:
            note(f"left {name}, which runs on; longwatch attach {name} opens it again")
        else:
            note(f"the daemon of {name} is gone; the program runs on, longwatch up finds it again")
            return NO_DAEMON
        return 0

    @contextmanager
    def _signalled(self) -> Iterator[int]:
        """Yield a descriptor that is readable after a signal that we have to do something about."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        caught = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        before = {signum: signal.signal(signum, self._note_signal) for signum in caught}
        old = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield reading
        finally:
            signal.set_wakeup_fd(old)
            for signum, handler in before.items():
                signal.signal(signum, handler)
            os.close(reading)
            os.close(writing)

    def _note_signal(self, signum: int, _frame: FrameType | None) -> None:
        if signum == signal.SIGWINCH:
            self._resized = True
        else:
            self._signals.append(signum)


@contextmanager
def _raw(tracker: ModeTracker) -> Iterator[None]:
    """Have our terminal pass every key on; whatever happens, it is left as it was found."""
    saved = termios.tcgetattr(0)
    termios.tcsetattr(0, termios.TCSADRAIN, raw(saved))
    try:
        yield
    finally:
        with suppress(OSError, termios.error):
            _write(tracker.resets() + b"\x1b[0m\r\n")
            termios.tcsetattr(0, termios.TCSADRAIN, saved)


def _history(path: str, run: str, size: int) -> tuple[bytes, bytes]:
    """Return the beginning and the end of what a run has written, as far as the newest file has it."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            begin = _begin(log, run, size)
            end = max(begin, size - _END)
            return log[begin : min(begin + _BEGIN, end)], log[end:size]
    except (OSError, ValueError):  # not there yet, or still empty
        return b"", b""


def _begin(log: mmap.mmap, run: str, size: int) -> int:
    at = log.rfind(marks.BEGIN, 0, size)
    while at >= 0:
        stop = log.find(b"\n", at)
        if stop >= 0 and marks.begins(log[at:stop], run):
            return stop + 1
        at = log.rfind(marks.BEGIN, 0, at)
    return 0


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _KEYS)
    except OSError:
        return b""


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def _die_of(signum: int) -> None:
    """End by the signal itself, so that whoever sent it sees that."""
    sys.stdout.flush()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
