"""The daemon's way into the ledger: told in the reactor's thread, written by another one, answered through a descriptor.

No call here waits for a disk. A record that is not durable after two seconds counts as failed for whoever waits for
it, and stays queued: a daemon whose disk is slow or full goes on with its work and says so once.
"""

import contextlib
import os
import threading
import time
from collections import deque

from longwatch.paths import rfc3339
from longwatch.posix import now as clock
from longwatch.posix import wall_of
from longwatch.store import entries, intake, listing, retention
from longwatch.store.commits import CHORE, CLOSE, DECIDED, FEED, OPEN, STOP, Commits, Job
from longwatch.store.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from longwatch.core.redact import Redactor

#: How long somebody waits for a record to be durable, in ms.
PATIENCE = 2_000
#: So many records are handed to the thread at once, though more may be told before the loop waits again.
TOGETHER = 64
#: So many events wait for a disk that does not answer; what comes then is dropped, and counted.
MOST_EVENTS = 10_000
_SLOW = "the disk has not taken the ledger's records for 2 s"
_ENDED = "not written when the daemon ended"


class LedgerWriter:
    """What a daemon writes into the ledger. All calls come from one thread, which waits for `fileno` and `next_deadline`.

    `failed(text)` is called once when records do not become durable in time, `back()` once when all of them are;
    `note(text)` says what else has to be said. Those, and each `done`, are called by `collect` and nowhere else.
    """

    def __init__(
        self,
        state_folder: str,
        daemon: str,
        *,
        redactor: "Redactor | None" = None,
        failed: "Callable[[str], object]" = lambda _: None,
        back: "Callable[[], object]" = lambda: None,
        note: "Callable[[str], object]" = lambda _: None,
    ) -> None:
        self._state = state_folder
        self._daemon = daemon
        self._on_failed, self._on_back, self._on_note = failed, back, note
        self._said: deque[tuple[str, str]] = deque()
        self._pending: deque[Job] = deque()
        #: What was told since the loop waited last: an end and the start that follows it share a commit.
        self._gathered: list[Job] = []
        self._trouble: str | None = None
        self._events = self._dropped = self._untold = 0
        self._asked = 0
        self._ready, self._bell = os.pipe()
        for end in (self._ready, self._bell):
            os.set_blocking(end, False)
        self._commits = Commits(state_folder, daemon, self._say)
        self._thread = threading.Thread(target=self._commits.serve, name="ledger", daemon=True)
        #: Takes secrets out of the texts of each record that is told from now on.
        self.redactor = redactor

    def start(self) -> None:
        """Start the thread; the file is opened there."""
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to collect."""
        return self._ready

    def open(self, record: "Mapping[str, Any]", done: "Callable[[str | None], object] | None" = None) -> None:
        """Tell of a run that is about to start: `run`, `harness`, `started_at`, and anything else to keep.

        `done(None)` when it is durable; `done(text)` when it is not in time. It must not be changed afterwards.
        """
        self._put(OPEN, record, done)

    def close(
        self, record: "Mapping[str, Any]", done: "Callable[[str | None], object] | None" = None
    ) -> None:
        """Tell of a run's end: `run`, `attempt`, and its report or the summary of that."""
        self._put(CLOSE, record, done)

    def decided(
        self, record: "Mapping[str, Any]", done: "Callable[[str | None], object] | None" = None
    ) -> None:
        """Tell of a firing that is no run: `harness`, `outcome`, `why`. With `run` a later `open` takes its place."""
        self._put(DECIDED, record, done)

    def feed(self, fact: "Mapping[str, Any]", done: "Callable[[int | None], object] | None" = None) -> None:
        """Tell of an event; `at` is an instant of the boot clock, in ms, or RFC 3339.

        `done(seq)` when it is durable, under this number; `done(None)` when that did not come in time.
        """
        if self._events - self._commits.fed >= MOST_EVENTS:
            self._drop(done)
            return
        if self._untold:
            self._put(FEED, _event({"event": "dropped", "count": self._untold}), None)
            self._events += 1
            self._untold = 0
        self._put(FEED, _event(fact), done)
        self._events += 1

    def _drop(self, done: "Callable[[int | None], object] | None") -> None:
        self._dropped += 1
        self._untold += 1
        self._answer_later(Job(FEED, None, done))

    def _answer_later(self, job: Job) -> None:
        """Answer in its turn what there is nothing to write of."""
        job.finished = True
        self._pending.append(job)
        self._wake()

    def _put(self, kind: str, record: "Any", done: "Callable[[Any], object] | None") -> None:
        redact = None if self.redactor is None else self.redactor.text
        job = Job(kind, record, done, clock(), redact)
        self._pending.append(job)
        self._asked += 1
        self._gathered.append(job)
        if len(self._gathered) >= TOGETHER:
            self._hand_over()
        elif len(self._gathered) == 1 or self._trouble is not None:
            self._wake()

    def _hand_over(self) -> None:
        """Have the thread write what was told."""
        for job in self._gathered:
            self._commits.queue.put(job)
        self._gathered.clear()

    def open_runs(self) -> "list[dict[str, Any]]":
        """Return the records of this daemon's runs that are open, read here and now. Raises StoreError."""
        with Ledger(self._state) as ledger:
            found = listing.open_records(ledger, self._daemon)
            for text in ledger.notes:
                self._say("note", text)
        return found

    def repair(
        self,
        records: "Sequence[Mapping[str, Any]]",
        cause: str = entries.CRASH,
        done: "Callable[[str | None], object] | None" = None,
    ) -> None:
        """Close runs that nobody runs any more, as interrupted; `done` once, with the last of them."""
        at = time.time_ns() // 1_000_000
        for number, record in enumerate(records, 1):
            self.close(entries.repaired(record, cause, at), done if number == len(records) else None)
        if not records and done is not None:
            self._answer_later(Job(CLOSE, None, done))

    def retain(self, wall_ms: int, days: int = retention.DAYS, size: int = retention.SIZE) -> None:
        """Remove what is older than so many days, and the oldest of what is more than `size` bytes: in small steps, later."""
        self._do(retention.Sweep(wall_ms, days, size).step)

    def keep_payloads(self, folder: str, keep: "Mapping[str, int]") -> None:
        """Remove what came with the triggers of older runs, but so many by harness: see `retention.Payloads`."""
        self._do(retention.Payloads(folder, dict(keep)).step)

    def _do(self, step: "Callable[..., object]") -> None:
        """Have the thread do what can wait: after what was told before."""
        self._hand_over()
        self._commits.queue.put(Job(CHORE, step))

    def next_deadline(self) -> int | None:
        """Return when `collect` has to be called though the descriptor is quiet, on the boot clock in ms."""
        if self._trouble is not None or not self._pending:
            return None
        return self._pending[0].queued + PATIENCE

    def collect(self, now: int | None = None) -> None:
        """Answer those whose records are durable, or overdue; say what has to be said."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ready, 4096)
        self._hand_over()
        while self._said:
            self._hear(*self._said.popleft())
        deadline = self.next_deadline()
        if (
            deadline is not None
            and not self._pending[0].finished
            and (clock() if now is None else now) >= deadline
        ):
            self._hear("failed", _SLOW)
        self._answer()

    def _hear(self, kind: str, text: str) -> None:
        if kind == "note":
            self._on_note(text)
        elif kind == "failed":
            first, self._trouble = self._trouble is None, text
            if first:
                self._on_failed(text)
        elif kind == "caught up" and self._trouble is not None:
            self._trouble = None
            self._on_back()

    def _answer(self) -> None:
        """Call back in the order of the calls. What is asked for meanwhile is answered the next time."""
        try:
            for _ in range(len(self._pending)):
                job = self._pending[0]
                if not job.finished and self._trouble is None:
                    return
                self._pending.popleft()
                if job.done is not None:
                    job.done(job.result if job.finished else None if job.kind == FEED else self._trouble)
        except BaseException:
            self._wake()  # whoever raised must not keep the others waiting
            raise

    def counts(self) -> "dict[str, Any]":
        """Return how the ledger does: failed commits, its size, what waits, whether it fails, events dropped."""
        return {
            "append_errors": self._commits.errors,
            "bytes": self._commits.bytes,
            "queued": self._asked - self._commits.written,
            "failing": self._trouble is not None,
            "feed_dropped": self._dropped,
        }

    def stop(self, timeout_ms: int = PATIENCE) -> int:
        """Write what is queued and end the thread, within this time; return how many records are not written."""
        self._hand_over()
        self._commits.queue.put(Job(STOP, None))
        self._thread.join(timeout_ms / 1000)
        left = self._asked - self._commits.written
        self._trouble = self._trouble or _ENDED
        self.collect()
        if (
            not self._thread.is_alive()
        ):  # else it may still say something: the number must not become another file's
            os.close(self._ready)
            os.close(self._bell)
        return left

    def _say(self, kind: str, text: str) -> None:
        """Called by the thread."""
        self._said.append((kind, text))
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._bell, b"!")


def _event(fact: "Mapping[str, Any]") -> "dict[str, Any]":
    at = fact.get("at")
    try:
        wall = wall_of(at) if isinstance(at, int) else intake.instant(at)
    except intake.BadLineError:
        wall = time.time_ns() // 1_000_000
    return {**fact, "at": rfc3339(wall), "at_ms": wall}
