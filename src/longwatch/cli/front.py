"""What `run` holds from its first instant: the values, the process, signals that came, and its voice.

Loaded before the child is spawned; all else comes after.
"""

import os
import sys

from longwatch.posix.reactor import Reactor, SignalPipe
from longwatch.runtime.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from longwatch.options import Values
    from longwatch.posix.log import Log
    from longwatch.posix.sink import Sink
    from longwatch.posix.terminal import Terminal
else:
    import _signal

#: Told to end; told to a program for its own purposes; told about the terminal.
ENDING = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
PASSED_ON = (_signal.SIGUSR1, _signal.SIGUSR2)
JOB_CONTROL = (_signal.SIGTSTP, _signal.SIGCONT)


def say(text: str) -> None:
    """Print one line of ours on stderr; nobody there to read it is no error."""
    try:
        os.write(2, f"longwatch: {text}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def leave(status: int) -> "NoReturn":
    """End at once: nothing is buffered, and an interpreter's farewell costs more than a fast child's whole life."""
    os._exit(status)


def leave_by(signum: int) -> "NoReturn":
    """End by the very signal, so that a shell's loop ends too; a signal that does not end us becomes 128+N."""
    _signal.signal(signum, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    if signum == _signal.SIGQUIT:
        _no_core_dump()
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)


def _no_core_dump() -> None:
    """QUIT is meant for the program; the core it leaves is no use when it is ours."""
    import resource  # noqa: PLC0415 - a C module that is only needed here, at the very end

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def fill_standard_descriptors() -> None:
    """A caller may have closed 0, 1 or 2; a pipe of ours must not take such a number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


class Ear:
    """Hears the signals sent to us. Until somebody acts on them they wait in `caught`."""

    __slots__ = ("_on_signal", "_pipe", "caught")

    def __init__(self, reactor: Reactor, signals: "Iterable[int]") -> None:
        self._pipe = SignalPipe(signals)
        self.caught: list[int] = []
        self._on_signal: Callable[[int], object] = self.caught.append
        reactor.add(self._pipe.fileno(), self._read)

    def act(self, on_signal: "Callable[[int], object]") -> None:
        """From now on call `on_signal` for each, and first for those that wait."""
        self._on_signal = on_signal
        waiting, self.caught = self.caught, []
        for signum in waiting:
            on_signal(signum)

    def _read(self) -> None:
        for signum in self._pipe.read():
            self._on_signal(signum)


class Front:
    """One foreground run, from the spawn on."""

    __slots__ = (
        "argv", "ear", "ended_by", "log", "merged", "name", "process", "reactor", "report_fd", "run_id", "screen",
        "sinks", "strangers", "subreaper", "terminal", "values",
    )  # fmt: skip

    def __init__(self, values: "Values", argv: list[str], run_id: str, name: str) -> None:
        self.values = values
        self.argv = argv
        self.run_id = run_id
        self.name = name
        self.reactor = Reactor()
        self.ear = Ear(self.reactor, (*ENDING, *PASSED_ON, *JOB_CONTROL, _signal.SIGWINCH))
        self.process: Process
        #: The signal that this process is to end by, once the tree is gone.
        self.ended_by: int | None = None
        self.merged = False
        self.subreaper = False
        #: Children that we had before this run, as in `sleep 9 & exec longwatch run ...`.
        self.strangers: list[int] = []
        self.sinks: dict[str, Sink | None] = {}
        self.log: Log | None = None
        self.terminal: Terminal | None = None
        self.screen: object | None = None
        self.report_fd: int | None = None


def open_report(path: str) -> int:
    """Open the report's file before the run, so that a wrong path is told now; the content comes at the end."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)


def write_report(descriptor: int, text: str) -> str | None:
    """Write the report over what was there; return why not, if so."""
    data = text.encode() + b"\n"
    try:
        try:
            os.ftruncate(descriptor, 0)
        except OSError:
            pass  # a pipe or a terminal
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as error:
        return error.strerror or str(error)
    return None


def version() -> str:
    """Return our version, as `--version` prints it."""
    from longwatch import __version__  # noqa: PLC0415

    return f"longwatch {__version__} (Python {sys.version.split()[0]})"
