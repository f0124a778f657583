"""The folder of all logs of a daemon or a batch: which file is whose, how many are open, which have had their time."""

import os
import stat

from longwatch.core.batch import ITEM
from longwatch.core.harness import RESIDENT, Harness
from longwatch.posix.rotated import Place, Rotated
from longwatch.runtime.logfile import LogSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.runtime.logfile import Redactor

#: Of a log that the file says nothing about: the largest size of a file, and how many there are in all.
MAX, KEEP = 10 << 20, 5
#: The last bytes before a file is full are looked at for a line break, at most so many.
_BORDER = 64 << 10
#: No more files than these are open at a time, however many a process may have.
_BUDGET = 8_000


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
