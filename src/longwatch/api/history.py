"""What happened, read from the ledger and the logs without asking the supervisor: it has better things to do."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from longwatch.api.streaming import Page
from longwatch.daemon.asking import NO_SUCH, Refusal
from longwatch.store.feed import feed, since_time
from longwatch.store.ledger import Ledger
from longwatch.store.listing import Wanted, check_outcomes, listed
from longwatch.store.queries import ManyRunsError, NoSuchRunError, find

_PAGE = 500
#: No event is from then.
_FAR = 1 << 53
_BLOCK = 64 * 1024


class Piece(NamedTuple):
    """A part of a log: where it goes on, and how long the file is, in bytes."""

    data: bytes
    offset: int
    size: int


class History:
    """Ledger and logs of one daemon."""

    def __init__(self, state: str, folder: str) -> None:
        self._state = state
        self._folder = folder
        self.daemon = os.path.basename(folder)

    def runs(self, wanted: Wanted) -> dict[str, Any]:
        """Return the runs that are wanted. Raises UsageError for an outcome that there is not, StoreError."""
        check_outcomes(wanted.outcomes)
        with Ledger(self._state) as ledger:
            return {"runs": listed(ledger, wanted), "notes": list(ledger.notes)}

    def run(self, word: str) -> dict[str, Any]:
        """Return what is kept of one run. Raises Refusal when there is none, or the word fits several."""
        try:
            with Ledger(self._state) as ledger:
                found = find(self._state, ledger, word)
        except (NoSuchRunError, ManyRunsError) as error:
            raise Refusal(NO_SUCH, str(error)) from error
        if found.summary is not None:
            return found.summary
        if found.folder is not None and found.folder.live:
            meta = found.folder.meta
            return {
                "run": found.run,
                "name": found.folder.name,
                "outcome": "running",
                "started_at": meta.get("started_at"),
            }
        raise Refusal(NO_SUCH, f"nothing is kept of {word}")

    def events(self, since: int, harnesses: Iterable[str] = ()) -> Page:
        """Return events after the one of this number, oldest first."""
        with Ledger(self._state) as ledger:
            page = feed(ledger, self.daemon, since=since, limit=_PAGE, harnesses=tuple(harnesses))
        return Page(page.events, page.last, page.dropped, page.renewed)

    def since(self, wall: int) -> int:
        """Return the number after which the events from an instant on (ms since 1970) come."""
        with Ledger(self._state) as ledger:
            return since_time(ledger, self.daemon, wall)

    def newest(self) -> int:
        """Return the number of the newest event."""
        return self.since(_FAR)

    def log_of_run(self, word: str) -> str:
        """Return the file of a run's output. Raises Refusal where it has none of its own."""
        found = self.run(word)
        run, harness = str(found["run"]), str(found.get("harness") or found.get("name"))
        path = os.path.join(self._folder, "logs", harness, f"{run}.log")
        if os.sep in harness or not os.path.isfile(path):
            raise Refusal(NO_SUCH, f"{run} has no log of its own; see that of {harness}")
        return path


def piece(path: str | None, tail: int | None, offset: int | None, most: int) -> Piece:
    """Return bytes of a log from `offset` on, or its last `tail` lines; at most `most` bytes, the newest of a tail.

    An offset beyond the end means that the log was rotated: it begins anew. Raises Refusal when there is none.
    """
    try:
        fd = os.open(path or "", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal(NO_SUCH, f"no log is there yet: {error.strerror}") from error
    try:
        size = os.fstat(fd).st_size
        if offset is not None:
            begin = offset if offset <= size else 0
        else:
            begin = _begin(fd, size, 200 if tail is None else tail, most)
        data = os.pread(fd, most, begin)
    finally:
        os.close(fd)
    return Piece(data, begin + len(data), size)


def _begin(fd: int, size: int, lines: int, most: int) -> int:
    """Return where the last lines begin, no further back than `most`."""
    begin, data = size, b""
    while begin > max(0, size - most) and data[:-1].count(b"\n") < lines:
        step = min(_BLOCK, begin - max(0, size - most))
        begin -= step
        data = os.pread(fd, step, begin) + data
    if lines == 0:
        return size
    at = len(data) - 1
    for _ in range(lines):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return begin
    return begin + at + 1
