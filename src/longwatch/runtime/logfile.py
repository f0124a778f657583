"""Where the output of a harness goes: a log file that is opened when something comes, and holds nothing up.

Whatever happens to the file, a full disk or a folder that is gone, the program is read on: what cannot be written is
counted, one warning is given, it is tried again, and the first line that can be written again says how much is missing.
"""

import errno
import os
import stat
import time

from longwatch.core.batch import ITEM
from longwatch.core.harness import RESIDENT, Harness
from longwatch.errors import StoreError
from longwatch.paths import ensure
from longwatch.posix import now
from longwatch.posix.rotated import Place, Rotated
from longwatch.runtime.marks import ended, mark, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Redactor(Protocol):
        """Takes secrets out of a stream; see `core.redact`."""

        def feed(self, chunk: bytes) -> bytes: ...
        def flush(self) -> bytes: ...


#: Of a log that the file says nothing about: the largest size of a file, and how many there are in all.
MAX, KEEP = 10 << 20, 5
#: A file that failed is tried again after so long (ms), each time twice as long.
_RETRY, _RETRY_MOST = 1_000, 30_000
#: No warning comes sooner (ms) after another one of the same log.
_WARN_EVERY = 60_000
#: Notes that wait for a file that fails.
_NOTES = 16
#: The last bytes before a file is full are looked at for a line break, at most so many.
_BORDER = 64 << 10
#: No more files than these are open at a time, however many a process may have.
_BUDGET = 8_000
#: The most that is spliced at once.
_MOST = 1 << 30


class LogSink:
    """The log of one run. It takes bytes as a `Sink` does, and is made by `Logs.sink`.

    `fileno`, `room` and `spliced` are for who moves bytes by splice(2): so many as `room` says, to `fileno` as it is
    then. `failed`: why it cannot be written now. `lost`: the bytes that it did not get.
    """

    __slots__ = ("_again", "_border", "_file", "_line", "_logs", "_missing", "_notes", "_pause", "_redactor", "_warn",
                 "_warned", "failed", "lost", "splices", "used")  # fmt: skip

    broken = False

    def __init__(
        self, logs: "Logs", file: Rotated, border: int, warn: "Callable[[str], object]",
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


class Logs:
    """All logs of a daemon, below one folder. At most `budget` of them hold a descriptor at a time.

    A resident harness has one file, NAME.log, for all its runs; any other a file for each run, NAME/RUN.log.
    """

    def __init__(self, folder: str, budget: int | None = None) -> None:
        self.folder = folder
        self.budget = _budget() if budget is None else max(budget, 1)
        self.lost = 0
        self._place = Place(folder)
        self._open: dict[LogSink, None] = {}
        self._sinks: set[LogSink] = set()

    def sink(
        self, harness: Harness, run: str, resumed: bool, warn: "Callable[[str], object]",
        redactor: "Redactor | None" = None,
    ) -> LogSink:  # fmt: skip
        """Return the log of a run; nothing is opened yet. `warn(text)` is told when it cannot be written.

        Of a harness with a file for each run, those beyond its `keep_runs` newest go, unless the run is `resumed`.
        """
        limit, keep = int(harness.log.get("max", MAX)), int(harness.log.get("keep", KEEP))
        if harness.kind in (RESIDENT, ITEM):
            path, place = os.path.join(self.folder, f"{harness.name}.log"), self._place
        else:
            folder = os.path.join(self.folder, harness.name)
            path, place = os.path.join(folder, f"{run}.log"), Place(folder)
            if not resumed:
                self._prune(folder, harness.keep_runs - 1)
        file = Rotated(path, place, limit, keep)
        sink = LogSink(self, file, min(_BORDER, limit // 8), warn, redactor, terminal=harness.pty)
        self._sinks.add(sink)
        return sink

    def tidy(self) -> None:
        """Close the files that nobody wrote to since the last time, and try those that failed again."""
        for sink in list(self._sinks):
            sink.retry()
            if not sink.used:
                self._rest(sink)
            sink.used = False

    def counts(self) -> dict[str, int]:
        """Return how many files are open, how many cannot be written, and the bytes lost in all."""
        return {
            "open": len(self._open),
            "failing": sum(sink.failed is not None for sink in self._sinks),
            "lost_bytes": self.lost + sum(sink.lost for sink in self._sinks),
        }

    def close(self) -> None:
        """Let go of all files."""
        for sink in list(self._sinks):
            sink.close()

    def opened(self, sink: LogSink) -> None:
        """A file was opened; the one that has been open for the longest time may have to be closed for it.

        It opens again when it is written to: for a busy one that happens once in as many openings as are allowed.
        """
        while len(self._open) >= self.budget:
            self._rest(next(iter(self._open)))
        self._open[sink] = None

    def forget(self, sink: LogSink) -> None:
        """The run of this log is over."""
        if sink in self._sinks:
            self._sinks.discard(sink)
            self.lost += sink.lost
        self._open.pop(sink, None)

    def _rest(self, sink: LogSink) -> None:
        sink.rest()
        self._open.pop(sink, None)

    def _prune(self, folder: str, keep: int) -> None:
        """Remove the oldest files of ended runs, with what was rotated away from them."""
        live = {sink.path for sink in self._sinks}
        try:
            paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".log")]
            past = sorted((path for path in paths if path not in live), key=_written, reverse=True)
        except OSError:
            return
        for path in past[max(keep, 0) :]:
            _remove_with_older(path)


def _written(path: str) -> int:
    found = os.stat(path, follow_symlinks=False)
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else 0


def _remove_with_older(path: str) -> None:
    number = 0
    try:
        while True:
            os.unlink(f"{path}.{number}" if number else path)
            number += 1
    except OSError:
        return  # no more of them, or not ours to remove


def _budget() -> int:
    import resource  # noqa: PLC0415 - a C module, asked once at the start

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _BUDGET if most == resource.RLIM_INFINITY else min(max(most // 5, 16), _BUDGET)


__all__ = ["KEEP", "MAX", "LogSink", "Logs", "ended", "mark", "started"]
