"""What a human sees of a model's commands: a copy of both streams on the terminal, bounded, and a line around it.

The copy is for the eye alone. What it leaves out is kept all the same, and nothing here waits for the terminal.
"""

from longwatch.posix import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from longwatch.tool.result import ToolResult

    class Writer(Protocol):
        """A terminal. It never blocks, but can be waited for."""

        def write(self, data: memoryview) -> int:
            """Write the beginning of `data` and return how much; 0 when nothing fits."""

        def wait(self, span: int) -> bool:
            """Wait for at most `span` ms; return whether something fits now."""


#: Nobody reads faster than this, and a flood would only push away what could be read.
ALLOWED = 64 << 10
WINDOW = 1_000
#: How long the last line may wait for a terminal that is busy with what went before, in ms.
PATIENCE = 1_000

_DIM, _YELLOW, _RESET = b"\x1b[2m", b"\x1b[33m", b"\x1b[0m"
_COLOURS = {"stdout": _DIM, "stderr": _YELLOW}
# A command of a model's must not drive the terminal of a human: it may break lines and indent them, no more.
_CONTROL = bytes([*(code for code in range(32) if code not in b"\t\n\r"), 127])
_HARMLESS = bytes.maketrans(_CONTROL, b"?" * len(_CONTROL))


class Allowance:
    """So many bytes a window; a new window begins with the first bytes after the last one is over."""

    __slots__ = ("_left", "_limit", "_until", "_window")

    def __init__(self, limit: int = ALLOWED, window: int = WINDOW) -> None:
        self._limit = limit
        self._window = window
        self._left = 0
        self._until: int | None = None

    def take(self, wanted: int, now: int) -> int:
        """Return how many of the wanted bytes are allowed at an instant (ms)."""
        if self._until is None or now >= self._until:
            self._until = now + self._window
            self._left = self._limit
        taken = min(wanted, self._left)
        self._left -= taken
        return taken


class Display:
    """Shows one command on `writer`: a line when it starts, its output, and a line when it is over."""

    def __init__(
        self, writer: "Writer", name: str, *, colour: bool, clock: "Callable[[], int]" = now
    ) -> None:
        self._writer = writer
        self._name = name
        self._colour = colour
        self._clock = clock
        self._allowances: Mapping[str, Allowance] = {stream: Allowance() for stream in _COLOURS}
        self._at_margin = True
        self._torn = False
        #: Bytes of the command that were not shown.
        self.dropped = 0

    def started(self, pid: int) -> None:
        """Say that it runs."""
        self._say(f"started, pid {pid}")

    def show(self, stream: str, chunk: memoryview) -> None:
        """Show what is allowed of a chunk of `stdout` or `stderr`."""
        allowed = self._allowances[stream].take(len(chunk), self._clock())
        text = bytes(chunk[:allowed]).translate(_HARMLESS)
        self.dropped += len(chunk) - allowed
        if text:
            self.dropped += min(len(text), self._put(self._coloured(stream, text)))
            self._at_margin = text.endswith(b"\n") and not self._torn

    def finished(self, result: "ToolResult", signal: str | None) -> None:
        """Say how it ended and how long it took; `signal` is the one it died of."""
        end = f"signal {signal}" if signal is not None else f"exit {result.exit_code}"
        if result.termination_reason not in ("exited", "signaled"):
            end = f"{result.termination_reason}, {end}"
        unseen = f", {self.dropped} bytes not shown" if self.dropped else ""
        self._say(f"{end} after {result.duration_ms / 1000:.1f} s{unseen}", patience=PATIENCE)

    def _coloured(self, stream: str, text: bytes) -> bytes:
        return _COLOURS[stream] + text + _RESET if self._colour else text

    def _say(self, words: str, patience: int = 0) -> None:
        start = "" if self._at_margin else "\n"
        line = "".join(c if c.isprintable() else "?" for c in f"longwatch: {self._name}: {words}")
        self._put(f"{start}{line}\n".encode("utf-8", "replace"), patience)
        self._at_margin = True

    def _put(self, data: bytes, patience: int = 0) -> int:
        """Write what the terminal takes within `patience` ms; return how many bytes it did not take."""
        # What was torn off may have been the end of a colour.
        rest = memoryview(_RESET + data if self._torn and self._colour else data)
        until = self._clock() + patience
        while rest:
            count = self._writer.write(rest)
            rest = rest[count:]
            if not count and not self._writer.wait(until - self._clock()):
                break
        self._torn = bool(rest)
        return len(rest)
