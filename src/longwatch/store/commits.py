"""The ledger's side of the writer: one thread that takes jobs from a queue, many into one commit.

Nothing that waits is lost by a failure: it is tried again, at longer and longer intervals. Runs that are open are
kept in mind too, so that a ledger that has to be made anew begins with them.
"""

import contextlib
import os
import queue
import signal
import sqlite3
import time
from functools import partial

from longwatch.errors import StoreError
from longwatch.store import entries, spool
from longwatch.store.intake import BadLineError, Row, clean, insert
from longwatch.store.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPEN, CLOSE, DECIDED, FEED, CHORE, STOP = "open", "close", "decided", "feed", "chore", "stop"
#: So many records share a commit at most: a burst is not one long transaction that readers have to wait for.
MOST = 256
#: Seconds until a failed commit is tried again: the first time, and at most.
FIRST_RETRY, LAST_RETRY = 0.25, 15.0
#: What a record may be wrong by: it is passed over and told, and holds up nobody.
_WRONG = (BadLineError, TypeError, ValueError, RecursionError)


class Job:
    """One thing to write. The thread sets `result`, then `finished`; the rest belongs to the caller's side.

    `redact` is what took secrets out of texts when it was told: later ones know other secrets.
    """

    __slots__ = ("done", "finished", "kind", "queued", "record", "redact", "result")

    def __init__(
        self, kind: str, record: "Any", done: "Callable[[Any], object] | None" = None, queued: int = 0,
        redact: "Callable[[str], str] | None" = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.record = record
        self.done = done
        self.queued = queued
        self.redact = redact
        self.result: Any = None
        self.finished = False


class Commits:
    """Runs in a thread of its own: `serve`. What it has to say goes through `say(kind, text)`.

    Kinds: `failed` (a commit did not succeed), `caught up` (all that was asked for is durable), `note`, `progress`.
    """

    def __init__(self, state: str, daemon: str, say: "Callable[[str, str], None]") -> None:
        self.queue: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.errors = 0
        self.bytes = 0
        #: Records that are done with, written or passed over, and how many of them are events.
        self.written = 0
        self.fed = 0
        self._state = state
        self._daemon = daemon
        self._say = say
        self._ledger: Ledger | None = None
        self._home = 0
        self._waiting: list[Job] = []
        self._chores: list[Job] = []
        self._open: dict[tuple[str, int], Row] = {}
        self._wrong: list[str] = []
        self._seq = 0
        self._retry = 0.0
        self._stopping = False

    def serve(self) -> None:
        """Work until a job says STOP and nothing is left, or what is left cannot be written now."""
        # Signals are for the thread that waits in the reactor.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not (self._stopping and (self._retry or not self._waiting)):
            self._take()
            if self._waiting:
                self._turn()
            elif self._chores and not self._stopping:
                self._do_chore()
        self._let_go()

    def _take(self) -> None:
        """Wait for a job, or until it is time to try again; bring in all that have come."""
        until = time.monotonic() + self._retry
        try:
            if self._retry:
                while not self._stopping and (left := until - time.monotonic()) > 0:
                    self._sort(self.queue.get(timeout=left))
            elif not (self._waiting or self._chores):
                self._sort(self.queue.get())
            while len(self._waiting) < MOST:
                self._sort(self.queue.get_nowait())
        except queue.Empty:
            pass

    def _sort(self, job: Job) -> None:
        if job.kind == STOP:
            self._stopping = True
        elif job.kind == CHORE:
            self._chores.append(job)
        else:
            self._waiting.append(job)

    def _turn(self) -> None:
        """Try to bring what waits into the ledger, and say how that went."""
        batch = self._waiting[:MOST]
        try:
            rows, seq = self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is: a record that waits is no reason to lose the others
            self._failed(error)
            return
        self._retry = 0.0
        self._remember(rows, seq)
        del self._waiting[: len(batch)]
        for job in batch:
            self.fed += job.kind == FEED
            job.finished = True
        self.written += len(batch)
        self._say("caught up" if not self._waiting and self.queue.empty() else "progress", "")

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self._retry = min(max(2 * self._retry, FIRST_RETRY), LAST_RETRY)
        self._tell_notes()
        self._let_go()
        self._say("failed", str(error) if isinstance(error, StoreError) else f"the ledger: {error!r}")

    def _commit(self, batch: list[Job]) -> tuple[list[Row], int]:
        """Write a batch in one transaction, into the file that its path names also after that."""
        while True:
            ledger = self._at_home()
            found = ledger.write(partial(self._write, ledger, batch))
            if ledger.is_in_place():
                self._home = ledger.inode
                self._measure(ledger)
                self._tell_notes()
                self._tell_wrong()
                return found

    def _at_home(self) -> Ledger:
        """Return the ledger, opened anew where somebody has moved the file away."""
        if self._ledger is not None and not self._ledger.is_in_place():
            self._let_go()
        if self._ledger is None:
            self._ledger = Ledger(self._state, writer=True)
        return self._ledger

    def _let_go(self) -> None:
        """Close the file. The next one may be another, even under the same inode."""
        if self._ledger is not None:
            with contextlib.suppress(sqlite3.Error):
                self._ledger.close()
        self._ledger = None
        self._home = 0

    def _write(self, ledger: Ledger, batch: list[Job], db: sqlite3.Connection) -> tuple[list[Row], int]:
        seq = self._begin(db) if ledger.inode != self._home else self._seq
        rows = []
        self._wrong = []
        for job in batch:
            job.result = None
            try:
                if job.kind == FEED:
                    seq += 1
                    self._insert_event(db, seq, job)
                    job.result = seq
                else:
                    rows.append(self._insert_run(db, job))
            except _WRONG as error:
                seq -= job.kind == FEED
                self._pass_over(job, error)
        return rows, seq

    def _begin(self, db: sqlite3.Connection) -> int:
        """Begin with a file: the runs that are open are in it, and its events are counted on from its last one."""
        for row in self._open.values():
            insert(db, row, found=True)
        (last,) = db.execute("SELECT max(seq) FROM feed WHERE daemon=?", (self._daemon,)).fetchone()
        return max(self._seq, last or 0)

    def _insert_event(self, db: sqlite3.Connection, seq: int, job: Job) -> None:
        event = {**entries.without_secrets(job.record, job.redact), "seq": seq}
        db.execute(
            "INSERT INTO feed (daemon, seq, at, harness, json) VALUES (?, ?, ?, ?, ?)",
            (self._daemon, seq, event["at_ms"], clean(event.get("harness")), entries.fitted_event(event)),
        )

    def _insert_run(self, db: sqlite3.Connection, job: Job) -> Row:
        record = entries.without_secrets(job.record, job.redact)
        if job.kind == OPEN:
            row = entries.opened(record, self._daemon)
            db.execute("DELETE FROM runs WHERE run=? AND attempt=0", (row.run,))
            db.execute("DELETE FROM summaries WHERE run=? AND attempt=0", (row.run,))
        elif job.kind == CLOSE:
            record = spool.summary(record)
            before = entries.before(db, record.get("run"), record.get("attempt", 1))
            row = entries.closed(record, before, self._daemon)
        else:
            row = entries.decided(record, self._daemon)
        insert(db, row)
        return row

    def _pass_over(self, job: Job, error: Exception) -> None:
        self._wrong.append(f"the ledger: a record of {job.kind} is not kept: {error}")
        job.result = None if job.kind == FEED else f"not kept: {error}"

    def _tell_wrong(self) -> None:
        self.errors += len(self._wrong)
        for text in self._wrong:
            self._say("note", text)

    def _remember(self, rows: list[Row], seq: int) -> None:
        self._seq = seq
        for row in rows:
            if row.ended is None:
                self._open[row.run, row.attempt] = row
            else:
                self._open.pop((row.run, row.attempt), None)

    def _measure(self, ledger: Ledger) -> None:
        try:
            self.bytes = os.stat(ledger.path).st_size
        except OSError:
            self.bytes = 0

    def _tell_notes(self) -> None:
        if self._ledger is not None:
            for text in self._ledger.notes:
                self._say("note", text)
            self._ledger.notes.clear()

    def _do_chore(self) -> None:
        """Do one step of what can wait; it goes on as long as its step says that there is more to do."""
        chore = self._chores.pop(0)
        try:
            more = chore.record(self._at_home)
            self._tell_notes()
        except Exception as error:  # noqa: BLE001 - what cannot be tidied must not end the thread that writes
            self.errors += 1
            self._say("note", f"the ledger was not tidied: {error}")
            more = False
        if more:
            self._chores.append(chore)
        else:
            chore.finished = True
            self._say("progress", "")
