"""The signals sent to us, as bytes on a descriptor. For the command line only: a host's are not ours to take."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterable

    from longwatch.posix.reactor import Reactor
else:
    import _signal

_INHERITED_IGNORED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT)


class SignalPipe:
    """Turns signals sent to us into bytes on a descriptor. For the command line only: a host's are not ours.

    HUP, INT and QUIT stay ignored where they were inherited so (`nohup`, `&`).
    """

    __slots__ = ("_handlers", "_read", "_wakeup", "_write")

    def __init__(self, signals: "Iterable[int]") -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._wakeup = _signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers: dict[int, object] = {}
        for signum in signals:
            if signum in _INHERITED_IGNORED and _signal.getsignal(signum) == _signal.SIG_IGN:
                continue
            self._handlers[signum] = _signal.signal(signum, _nothing)

    def fileno(self) -> int:
        """Return the descriptor that is readable once a signal came."""
        return self._read

    def read(self) -> list[int]:
        """Return the numbers of the signals that came since the last call, oldest first; [] if none did."""
        try:
            return list(os.read(self._read, 4096))
        except BlockingIOError:
            return []

    def restore(self) -> None:
        """Give every signal its former handler and close the pipe."""
        for signum, handler in self._handlers.items():
            # None: installed by C code that Python cannot name.
            if handler is not None:
                _signal.signal(signum, handler)  # type: ignore[arg-type]
        self._handlers.clear()
        _signal.set_wakeup_fd(self._wakeup)
        os.close(self._read)
        os.close(self._write)


def _nothing(signum: int, frame: object) -> None:
    """Exist, so that the signal interrupts and reaches the wake-up descriptor."""


class Ear:
    """Hears the signals sent to us. Until somebody acts on them they wait in `caught`."""

    __slots__ = ("_heard", "_on_signal", "_pipe", "caught")

    def __init__(self, signals: "Iterable[int]") -> None:
        self._pipe = SignalPipe(signals)
        self._heard: list[int] = []
        self.caught: list[int] = []
        self._on_signal: Callable[[int], object] = self.caught.append

    def listen(self, reactor: "Reactor") -> None:
        """Hear from now on whenever the reactor turns."""
        reactor.add(self._pipe.fileno(), self._read)

    def act(self, on_signal: "Callable[[int], object]") -> None:
        """From now on call `on_signal` for each, and first for those that wait."""
        self._on_signal = on_signal
        waiting, self.caught = self.caught, []
        for signum in waiting:
            on_signal(signum)

    def wait(self) -> None:
        """Let signals wait in `caught` again, until somebody else acts."""
        self._on_signal = self.caught.append

    def heard(self, signum: int) -> bool:
        """Return whether a signal has come that is still to be acted on."""
        self._heard += self._pipe.read()
        return signum in self._heard

    def _read(self) -> None:
        self._heard += self._pipe.read()
        while self._heard:
            self._on_signal(self._heard.pop(0))
