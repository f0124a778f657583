"""Where the output of a harness goes: a log file that is opened when something comes, and holds nothing up.

Whatever happens to the file, a full disk or a folder that is gone, the program is read on: what cannot be written is
counted, one warning is given, it is tried again, and the first line that can be written again says how much is missing.
"""

import errno
import os
import time

from longwatch.errors import StoreError
from longwatch.paths import ensure
from longwatch.posix import now
from longwatch.posix.rotated import Rotated
from longwatch.runtime.marks import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Shelf(Protocol):
        """Where logs stand side by side; see `runtime.logs`."""

        def opened(self, sink: "LogSink") -> None:
            """A file of this log was opened."""

        def forget(self, sink: "LogSink") -> None:
            """The run of this log is over."""

    class Redactor(Protocol):
        """Takes secrets out of a stream; see `core.redact`."""

        def feed(self, chunk: bytes) -> bytes:
            """Return what may be written of all that came so far."""

        def flush(self) -> bytes:
            """Return what was held back."""


#: A file that failed is tried again after so long (ms), each time twice as long.
_RETRY, _RETRY_MOST = 1_000, 30_000
#: No warning comes sooner (ms) after another one of the same log.
_WARN_EVERY = 60_000
#: Notes that wait for a file that fails.
_NOTES = 16
#: The most that is spliced at once.
_MOST = 1 << 30


class LogSink:
    """The log of one run. It takes bytes as a `Sink` does, and is made by `runtime.logs.Logs.sink`.

    `fileno`, `room` and `spliced` are for who moves bytes by splice(2): so many as `room` says, to `fileno` as it is
    then. `failed`: why it cannot be written now. `lost`: the bytes that it did not get.
    """

    __slots__ = ("_again", "_border", "_file", "_line", "_logs", "_missing", "_notes", "_pause", "_redactor", "_warn",
                 "_warned", "failed", "lost", "splices", "used")  # fmt: skip

    broken = False

    def __init__(
        self, logs: "Shelf", file: Rotated, border: int, warn: "Callable[[str], object]",
        redactor: "Redactor | None" = None, *, terminal: bool = False,
    ) -> None:  # fmt: skip
        self._logs = logs
        self._file = file
        self._border = border
        self._warn = warn
        self._redactor = redactor
        self._line = b"\r\n" if terminal else b"\n"
        self.failed: str | None = None
        self.lost = 0
        self.splices = redactor is None
        #: Whether it was written to since somebody asked.
        self.used = False
        self._missing = 0
        self._notes: tuple[bytes, ...] = ()
        self._again = self._pause = 0
        self._warned: int | None = None

    @property
    def path(self) -> str:
        """The file of the newest bytes."""
        return self._file.path

    @property
    def discarded(self) -> int:
        """How many bytes of it have gone, for it was full."""
        return self._file.discarded

    def fileno(self) -> int:
        """Return the descriptor to splice to; -1 while there is none."""
        return self._file.fileno()

    def room(self) -> int:
        """Return how many bytes may be spliced to the file now, unseen. 0: look at them and ask what `fits`."""
        if self.failed is not None or not self.splices:
            return 0
        try:
            self._prepare()
            self.splices = self._file.splices
            return min(max(self._file.room() - self._border, 0), _MOST) if self.splices else 0
        except OSError as error:
            self.fail(error)
            return 0

    def fits(self, data: memoryview) -> int:
        """Return how many of these bytes, which were looked at, may be spliced to the file now. 0: `write` them."""
        if self.failed is not None or not self.splices:
            return 0
        try:
            self._prepare()
            self.splices = self._file.splices
            return self._file.fits(data) if self.splices else 0
        except OSError as error:
            self.fail(error)
            return 0

    def spliced(self, count: int) -> None:
        """Note that so many bytes were spliced: the file itself knows how large it is."""

    def write(self, data: memoryview) -> int:
        """Write bytes and return how many were taken; those that were not are lost, and counted here."""
        if self._redactor is None:
            return self._put(data)
        count = len(data)
        self._put_all(self._redactor.feed(bytes(data)))
        return count

    def note(self, text: str) -> None:
        """Write a line of ours, on a line of its own."""
        self._flush()
        line = mark(text, time.time_ns() // 1_000_000)
        if not (self._is_due() and self._try(lambda: self._write_line(line))):
            self._notes = (*self._notes[1 - _NOTES :], line)

    def fail(self, error: OSError) -> None:
        """Note that the file cannot be written, here or by splice; later it is tried again."""
        if error.errno == errno.EINVAL and self.splices:
            self.splices = False  # not that kind of file: bytes have to be written
            return
        self._file.close()
        moment = now()
        self._pause = _RETRY if self.failed is None else min(2 * self._pause, _RETRY_MOST)
        self._again = moment + self._pause
        self.failed = error.strerror or str(error)
        if self._warned is None or moment - self._warned >= _WARN_EVERY:
            self._warned = moment
            self._warn(f"{self.path}: {self.failed}; its output is read on and lost")

    def retry(self) -> None:
        """Try a failed file again if it is time for it, for the sake of the notes that wait."""
        if self._is_due() and self.failed is not None:
            self._try(self._prepare)

    def rest(self) -> None:
        """Hold no descriptor until there is something to write again."""
        self._file.close()

    def close(self) -> None:
        """The run is over: write what was held back, and let go of the file."""
        self._flush()
        if self.failed is not None:
            self._try(self._prepare)
        self._file.close()
        self._logs.forget(self)

    def _put(self, data: memoryview) -> int:
        taken: list[int] = []

        def put() -> None:
            self._prepare()
            taken.append(self._file.write(data))

        if self._is_due() and self._try(put):
            return taken[0]
        self.lost += len(data)
        self._missing += len(data)
        return 0

    def _put_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and (count := self._put(rest)):
            rest = rest[count:]

    def _flush(self) -> None:
        if self._redactor is not None:
            self._put_all(self._redactor.flush())

    def _is_due(self) -> bool:
        return self.failed is None or now() >= self._again

    def _try(self, action: "Callable[[], object]") -> bool:
        try:
            action()
        except OSError as error:
            self.fail(error)
            return False
        return True

    def _prepare(self) -> None:
        """Have the file open. After a failure it gets first what it has missed, in numbers."""
        self.used = True
        closed = self._file.fileno() < 0
        try:
            self._file.prepare()
        except FileNotFoundError:
            self._make_folder()
            self._file.prepare()
        if closed:
            self._logs.opened(self)
        if self.failed is not None:
            self._catch_up()

    def _make_folder(self) -> None:
        try:
            ensure(os.path.dirname(self.path))
        except StoreError as error:
            raise OSError(errno.ENOENT, str(error)) from error

    def _catch_up(self) -> None:
        if self._missing:
            text = f"{self._missing} bytes are missing here: {self.failed}"
            self._write_line(mark(text, time.time_ns() // 1_000_000), prepared=True)
            self._missing = 0
        while self._notes:
            self._write_line(self._notes[0], prepared=True)
            self._notes = self._notes[1:]
        self.failed = None

    def _write_line(self, line: bytes, *, prepared: bool = False) -> None:
        if not prepared:
            self._prepare()
        whole = line + self._line
        if self._file.room() <= len(whole):
            self._file.rotate()
        data = memoryview((self._line if self._file.in_line() else b"") + whole)
        while data:
            data = data[self._file.write(data) :]
