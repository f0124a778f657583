"""The daemon's way into the ledger: durable before it is told, never waited for, never lost."""

import os
import random
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.core.firing_facts import FiringMissed, FiringQueued, FiringSkipped
from longwatch.core.redact import Redactor
from longwatch.errors import StoreError
from longwatch.paths import rfc3339
from longwatch.posix import now
from longwatch.store import commits, ledger, retention, writer
from longwatch.store.feed import feed
from longwatch.store.firings import decision
from longwatch.store.ledger import Ledger
from longwatch.store.listing import Wanted, listed, recent
from longwatch.store.queries import find, history, last_run, runs
from longwatch.store.writer import PATIENCE, LedgerWriter

DAEMON = "home-12345678"
START = 1_767_323_045_678


class Desk:
    """A writer with an ear: what it said, and who was answered what."""

    def __init__(self, state: Path, **settings: Any) -> None:
        self.failed: list[str] = []
        self.notes: list[str] = []
        self.back = 0
        self.answers: list[tuple[str, Any]] = []
        self.writer = LedgerWriter(
            str(state), DAEMON, failed=self.failed.append, back=self._back, note=self.notes.append, **settings
        )

    def _back(self) -> None:
        self.back += 1

    def done(self, name: str) -> Any:
        return lambda answer: self.answers.append((name, answer))

    def until(self, true: Any) -> None:
        """Wait in the way of a reactor: for the descriptor alone."""

        def looked() -> bool:
            if select.select([self.writer], [], [], 0.05)[0]:
                self.writer.collect()
            return bool(true())

        helpers.wait_until(looked, 10)

    def answered(self, count: int) -> list[tuple[str, Any]]:
        self.until(lambda: len(self.answers) >= count)
        return self.answers


@contextmanager
def desk(state: Path, *, start: bool = True, **settings: Any) -> Iterator[Desk]:
    found = Desk(state, **settings)
    if start:
        found.writer.start()
    try:
        yield found
    finally:
        if not start:
            found.writer.start()
        found.writer.stop()
        assert not found.writer._thread.is_alive()


def record(run: str, **changes: Any) -> dict[str, Any]:
    return {
        "run": run, "harness": "web", "kind": "resident", "trigger": "autostart", "started_at": rfc3339(START),
        "program": "/bin/web", **changes,
    }  # fmt: skip


def end(run: str, **changes: Any) -> dict[str, Any]:
    return {
        "run": run,
        "attempt": 1,
        "termination_reason": "exited",
        "exit_code": 3,
        "duration_ms": 1_500,
        **changes,
    }


def rows(state: Path, **wanted: Any) -> list[dict[str, Any]]:
    with Ledger(str(state)) as opened:
        assert opened.notes == []
        return listed(opened, Wanted(**wanted))


@pytest.mark.capability("CAP-122")
def test_a_run_is_on_record_before_its_start(state: Path) -> None:
    """When `done` is called the run is in the file, open, with whose it is; its end closes the same row."""
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa", generation=4), told.done("open"))
        assert told.answers == []
        assert told.answered(1) == [("open", None)]
        (row,) = rows(state)
        assert {key: row[key] for key in ("outcome", "harness", "trigger", "kind", "generation", "daemon")} == {
            "outcome": "running", "harness": "web", "trigger": "autostart", "kind": "resident", "generation": 4,
            "daemon": DAEMON,
        }  # fmt: skip
        assert "ended_at" not in row
        report = end("web-aaaaaa", stdout={"bytes": 3, "head": "abc", "tail": ""}, program=None, origin=None)
        told.writer.close(report, told.done("close"))
        told.answered(2)
    (row,) = rows(state)
    assert (row["outcome"], row["exit_code"], row["program"], row["trigger"]) == (
        "failed",
        3,
        "/bin/web",
        "autostart",
    )
    assert row["stdout"] == {"bytes": 3}
    assert row["ended_at"] == rfc3339(START + 1_500)
    with Ledger(str(state)) as opened:
        (short,) = recent(opened, "web")
        assert (short.run, short.started, short.ended, short.outcome) == (
            "web-aaaaaa",
            START,
            START + 1_500,
            "failed",
        )
        assert opened.rows("SELECT found FROM runs") == [(0,)]


def test_every_end_is_one_of_the_closed_set(state: Path) -> None:
    """An end without outcome gets it from its reason; one that nobody knows is unknown; a stall carries no verdict."""
    ends = {
        "a": ({"termination_reason": "exited", "exit_code": 0}, "success"),
        "b": ({"termination_reason": "stalled"}, "stalled"),
        "c": ({"termination_reason": "no such"}, "unknown"),
        "d": ({"termination_reason": "cancelled", "origin": "replaced"}, "cancelled"),
        "e": ({"outcome": "quota_parked", "termination_reason": "exited"}, "quota_parked"),
    }
    with desk(state) as told:
        for name, (said, _) in ends.items():
            told.writer.close(
                {"run": f"{name}-000000", "harness": "web", "started_at": rfc3339(START), **said}
            )
    assert {row["run"][0]: row["outcome"] for row in rows(state)} == {
        name: end[1] for name, end in ends.items()
    }


@pytest.mark.capability("CAP-122")
def test_many_starts_share_a_commit(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while the disk is busy is one transaction, answered in the order of the calls."""
    batches: list[int] = []
    write = commits.Commits._write

    def counted(self: commits.Commits, opened: Ledger, batch: list[commits.Job], db: Any) -> Any:
        batches.append(len(batch))
        return write(self, opened, batch, db)

    monkeypatch.setattr(commits.Commits, "_write", counted)
    with desk(state, start=False) as told:
        for number in range(300):
            told.writer.open(record(f"web-{number:06d}"), told.done(str(number)))
        told.writer.start()
        assert told.answered(300) == [(str(number), None) for number in range(300)]
        told.writer.start = lambda: None  # type: ignore[method-assign]
    assert batches == [commits.MOST, 300 - commits.MOST]


def test_what_is_told_before_the_loop_waits_again_shares_a_commit(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end and the start that follows it are one commit, though the thread has nothing else to do."""
    commits: list[int] = []
    write = Ledger.write
    monkeypatch.setattr(Ledger, "write", lambda *given: (commits.append(1), write(*given))[1])
    with desk(state) as told:
        told.writer.open(record("web-1"), told.done("first"))
        told.answered(1)
        before = len(commits)
        told.writer.close(end("web-1"), told.done("end"))
        for _ in range(20):  # whoever is not held back is handed over by now
            os.sched_yield()
        told.writer.open(record("web-2"), told.done("next"))
        assert [name for name, _ in told.answered(3)] == ["first", "end", "next"]
        assert len(commits) == before + 1


def test_many_records_wait_for_no_loop(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that tells without end, and does not come to wait, has them written in portions."""
    monkeypatch.setattr(writer, "TOGETHER", 3)
    with desk(state) as told:
        for number in range(7):
            told.writer.open(record(f"web-{number}"), told.done(str(number)))
        helpers.wait_until(lambda: told.writer.counts()["queued"] == 1)
        assert [name for name, _ in told.answered(7)] == [str(number) for number in range(7)]


def test_a_firing_that_is_no_run(state: Path) -> None:
    """Skipped, missed and parked firings have rows without a run; a queued one becomes the run that it waits to be."""
    with desk(state) as told:
        for number, outcome in enumerate(("skipped", "missed", "quota_parked", "budget_exceeded")):
            told.writer.decided(
                {"harness": "job", "outcome": outcome, "why": "so", "at": rfc3339(START + number)}
            )
        told.writer.open(record("job-rrrrrr", harness="job"))
        told.writer.decided(
            {"harness": "job", "outcome": "queued", "run": "job-qqqqqq", "trigger": "webhook"}
        )
        told.writer.decided(
            {"harness": "job", "outcome": "queued", "run": "job-wwwwww", "trigger": "webhook"}
        )
        told.writer.open(record("job-qqqqqq", harness="job", trigger="webhook"), told.done("open"))
        told.answered(1)
    everything = rows(state)
    found = {row["run"]: row for row in everything}
    assert len(everything) == len(found) == 7
    assert {row["outcome"] for row in found.values()} == {
        "skipped", "missed", "quota_parked", "budget_exceeded", "queued", "running",
    }  # fmt: skip
    assert (found["job-qqqqqq"]["outcome"], found["job-qqqqqq"]["attempt"]) == ("running", 1)
    assert (found["job-wwwwww"]["outcome"], found["job-wwwwww"]["attempt"]) == ("queued", 0)
    with history(str(state)) as opened:
        assert opened.rows("SELECT count(*) FROM runs WHERE attempt=0") == [(5,)]
        assert runs(opened) == []
        assert last_run(opened) is None

        told_of = find(str(state), opened, "job").summary
    assert told_of is not None
    assert told_of["attempt"] == 1


def test_facts_of_firings_become_rows(state: Path) -> None:
    """What was in the way decides the outcome; what else happened is no decision about a firing."""
    facts = [
        FiringSkipped(1, "job", "schedule", START, "busy"),
        FiringSkipped(1, "job", "webhook", None, "park"),
        FiringSkipped(1, "job", "manual", None, "cost"),
        FiringMissed(1, "job", START + 9, 3, START),
    ]
    assert decision(FiringQueued(1, "job", "schedule", START, "busy")) is None
    with desk(state) as told:
        for fact in facts:
            found = decision(fact)
            assert found is not None
            told.writer.decided(found)
    kept = {row["outcome"]: row for row in rows(state)}
    assert kept.keys() == {"skipped", "quota_parked", "budget_exceeded", "missed"}
    assert (kept["missed"]["count"], kept["missed"]["due_at"]) == (3, rfc3339(START + 9))
    assert (kept["skipped"]["why"], kept["skipped"]["trigger"]) == ("busy", "schedule")


@pytest.mark.capability("CAP-122", "NEW-16")
@pytest.mark.fault("I5")
def test_open_runs_are_repaired_at_the_next_start(state: Path) -> None:
    """What a dead daemon left open is closed as interrupted, with its cause; what is adopted, or another's, stays."""
    with desk(state) as told:
        for run in ("web-aaaaaa", "web-bbbbbb", "web-cccccc"):
            told.writer.open(record(run))
    with desk(state) as other:
        other.writer._commits._daemon = "other-00000000"
        other.writer.open(record("far-aaaaaa", harness="far"))
    with desk(state) as told:
        left = told.writer.open_runs()
        assert [found["run"] for found in left] == ["web-aaaaaa", "web-bbbbbb", "web-cccccc"]
        told.writer.repair(left[:1], done=told.done("crash"))
        told.writer.repair([{**left[1], "ended_at": rfc3339(START + 9_000)}], "shutdown")
        told.writer.repair([], done=told.done("none"))
        assert told.answered(2) == [("crash", None), ("none", None)]
        assert [found["run"] for found in told.writer.open_runs()] == ["web-cccccc"]
    found = {row["run"]: row for row in rows(state)}
    crashed, stopped = found["web-aaaaaa"], found["web-bbbbbb"]
    assert (crashed["outcome"], crashed["termination_reason"], crashed["cause"], crashed["origin"]) == (
        "interrupted", "interrupted", "daemon_crash", None,
    )  # fmt: skip
    assert "daemon had died" in crashed["diagnosis"]
    assert (stopped["outcome"], stopped["cause"], stopped["origin"]) == (
        "interrupted",
        "shutdown",
        "shutdown",
    )
    assert stopped["duration_ms"] == 9_000
    assert found["far-aaaaaa"]["outcome"] == "running"


def test_events_are_numbered_when_they_are_durable(state: Path) -> None:
    """Each gets the next number of its daemon, without a gap, also after the next start; its instant is a wall time."""
    with desk(state) as told:
        told.writer.feed(
            {"event": "run_opened", "at": now(), "harness": "web", "run": "web-aaaaaa"}, told.done("a")
        )
        told.writer.feed({"event": "state_changed", "at": rfc3339(START)}, told.done("b"))
        assert told.answered(2) == [("a", 1), ("b", 2)]
    with desk(state) as told:
        told.writer.feed({"event": "odd", "at": "yesterday"}, told.done("c"))
        assert told.answered(1) == [("c", 3)]
    with Ledger(str(state)) as opened:
        first, second, third = feed(opened, DAEMON).events
    assert abs(first["at_ms"] - time.time() * 1000) < 60_000
    assert first["at"] == rfc3339(first["at_ms"])
    assert (second["at_ms"], second["seq"]) == (START, 2)
    assert abs(third["at_ms"] - time.time() * 1000) < 60_000


@pytest.mark.capability("CAP-132")
@pytest.mark.fault("O4")
def test_no_secret_is_written(state: Path) -> None:
    """A secret in any text of any record, however deep, is in no byte of the ledger; names that rows have stay."""
    with desk(state, redactor=Redactor(["hunter22", 'tok-en"quoted'])) as told:
        told.writer.open(record("web-aaaaaa", program="web hunter22", flags=['--token=tok-en"quoted']))
        told.writer.feed(
            {"event": "asked", "harness": "web", "why": {"deep": ["x", b"hunter22", 5]}, "at": now()}
        )
        told.writer.decided(
            {"harness": "web", "outcome": "skipped", "why": "hook https://x/hunter22 says no"}
        )
        told.writer.close(end("web-aaaaaa", diagnosis="hunter22", progress={"file:hunter22": {"count": 1}}))
        told.writer.redactor = Redactor(["swordfish"])
        told.writer.feed({"event": "asked", "text": "swordfish", "at": now()}, told.done("last"))
        told.answered(1)
    data = b"".join(path.read_bytes() for path in state.glob("ledger*"))
    for secret in (b"hunter22", b"tok-en", b"swordfish"):
        assert secret not in data
    (row,) = rows(state, outcomes=("failed",))
    assert (row["program"], row["diagnosis"]) == ("web [redacted]", "[redacted]")
    assert row["progress"] == {"file:[redacted]": {"count": 1}}
    assert row["run"] == "web-aaaaaa"


def test_what_is_too_long_is_trimmed(state: Path) -> None:
    """No record is over 16 KiB: what tells runs apart and what an event is stay."""
    bulk = "x" * 20_000
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa", program="p", cwd=bulk))
        told.writer.feed(
            {"event": "run_closed", "at": now(), "harness": "web", "record": end("web-aaaaaa", cwd=bulk)}
        )
        told.writer.feed({"event": "stalled", "at": now(), "harness": "web", "tree": bulk})
    (row,) = rows(state)
    assert (row["run"], row["program"], row["trimmed"]) == ("web-aaaaaa", "p", ["cwd"])
    with Ledger(str(state)) as opened:
        closed, stalled = feed(opened, DAEMON).events
        longest = opened.rows(
            "SELECT max(length(json)) FROM (SELECT json FROM summaries UNION ALL SELECT json FROM feed)"
        )
    assert (closed["event"], closed["record"]["exit_code"], closed["trimmed"]) == (
        "run_closed",
        3,
        ["record"],
    )
    assert (stalled["event"], stalled["harness"], stalled["trimmed"]) == ("stalled", "web", ["tree"])
    assert longest[0][0] <= 16 * 1024


def test_a_record_that_says_nothing_holds_up_nobody(state: Path) -> None:
    """What cannot be kept is told, answered with why, and the others of its commit are written."""
    wrong: list[dict[str, Any]] = [
        {"harness": "web"},
        record("", started_at="yesterday"),
        record("x", odd={1, 2}),
    ]
    with desk(state, start=False) as told:
        for number, bad in enumerate(wrong):
            told.writer.open(bad, told.done(f"bad{number}"))
        told.writer.close({"run": "nobody-000000"}, told.done("lost"))
        told.writer.feed({"event": "odd", "what": {1, 2}, "at": now()}, told.done("feed"))
        told.writer.feed({"event": "good", "at": now()}, told.done("next"))
        told.writer.open(record("web-aaaaaa"), told.done("good"))
        told.writer.start()
        answers = dict(told.answered(7))
        told.writer.start = lambda: None  # type: ignore[method-assign]
        assert told.writer.counts()["append_errors"] == 5
    assert answers["good"] is None
    assert (answers["feed"], answers["next"]) == (None, 1)
    assert all(answers[name].startswith("not kept: ") for name in ("bad0", "bad1", "bad2", "lost"))
    assert len(told.notes) == 5
    assert [row["run"] for row in rows(state)] == ["web-aaaaaa"]


@pytest.mark.capability("CAP-122")
def test_a_slow_disk_is_waited_for_no_longer_than_two_seconds(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is told after 2 s, the failure is told once, and its end when all is durable; nothing is lost."""
    free = threading.Event()
    write = Ledger.write

    def slow(self: Ledger, work: Any) -> Any:
        free.wait(30)
        return write(self, work)

    monkeypatch.setattr(Ledger, "write", slow)
    with desk(state) as told:
        begun = now()
        told.writer.open(record("web-aaaaaa"), told.done("first"))
        told.writer.feed({"event": "x", "at": now()}, told.done("event"))
        deadline = told.writer.next_deadline()
        assert deadline is not None
        assert begun + PATIENCE <= deadline <= now() + PATIENCE
        told.writer.collect(deadline - 1)
        assert (told.answers, told.failed) == ([], [])
        told.writer.collect(deadline)
        said = "the disk has not taken the ledger's records for 2 s"
        assert told.answers == [("first", said), ("event", None)]
        assert told.failed == [said]
        assert told.writer.next_deadline() is None
        told.writer.open(record("web-bbbbbb"), told.done("second"))
        assert told.answers[2:] == []  # never from within the call
        told.until(lambda: told.answers[2:] == [("second", said)])
        assert (told.failed, told.back) == ([said], 0)
        assert told.writer.counts() == {
            "append_errors": 0, "bytes": 0, "queued": 3, "failing": True, "feed_dropped": 0,
        }  # fmt: skip
        free.set()
        told.until(lambda: told.back)
        assert told.back == 1
        counts = told.writer.counts()
        assert (counts["queued"], counts["failing"]) == (0, False)
        assert counts["bytes"] == (state / "ledger.sqlite3").stat().st_size
        told.writer.open(record("web-cccccc"), told.done("third"))
        told.until(lambda: told.answers[3:] == [("third", None)])
    assert len(rows(state)) == 3


@pytest.mark.capability("CAP-122")
def test_a_disk_that_refuses_is_tried_again(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails is told once however often it fails, and repeated until it succeeds, in order."""
    monkeypatch.setattr(ledger, "BUSY_MS", 5)
    monkeypatch.setattr(commits, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(commits, "LAST_RETRY", 0.02)
    Ledger(str(state)).close()
    holder = sqlite3.connect(state / "ledger.sqlite3", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with desk(state) as told:
        for number in range(3):
            told.writer.open(record(f"web-{number:06d}"), told.done(str(number)))
        told.until(lambda: told.writer.counts()["append_errors"] >= 3)
        assert len(told.failed) == 1
        assert "is busy" in told.failed[0]
        assert [answer is not None and "is busy" in answer for _, answer in told.answers] == [True] * 3
        holder.execute("ROLLBACK")
        told.until(lambda: told.back)
        told.writer.close(end("web-000001"), told.done("end"))
        told.until(lambda: told.answers[3:] == [("end", None)])
        assert (told.back, len(told.failed)) == (1, 1)
    holder.close()
    assert {row["run"]: row["outcome"] for row in rows(state)} == {
        "web-000000": "running", "web-000001": "failed", "web-000002": "running",
    }  # fmt: skip


@pytest.mark.capability("CAP-123")
def test_events_beyond_the_bound_are_dropped_and_counted(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer loses events, never runs; how many is in the feed when it is back."""
    monkeypatch.setattr(writer, "MOST_EVENTS", 3)
    with desk(state, start=False) as told:
        for number in range(5):
            told.writer.feed({"event": "x", "number": number, "at": now()}, told.done(str(number)))
            told.writer.open(record(f"web-{number:06d}"))
        assert told.writer.counts()["feed_dropped"] == 2
        told.writer.start()
        assert told.answered(5) == [("0", 1), ("1", 2), ("2", 3), ("3", None), ("4", None)]
        told.until(lambda: not told.writer.counts()["queued"])
        told.writer.feed({"event": "y", "at": now()}, told.done("y"))
        told.until(lambda: told.answers[5:] == [("y", 5)])
        told.writer.feed({"event": "z", "at": now()}, told.done("z"))
        told.until(lambda: told.answers[6:] == [("z", 6)])
        told.writer.start = lambda: None  # type: ignore[method-assign]
    with Ledger(str(state)) as opened:
        told_of = [(event["event"], event.get("count")) for event in feed(opened, DAEMON).events]
    assert told_of[3:] == [("dropped", 2), ("y", None), ("z", None)]
    assert len(rows(state)) == 5


def test_back_means_that_all_is_durable(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure with more queued than fits into a commit, `back` waits for the last of them."""
    monkeypatch.setattr(ledger, "BUSY_MS", 5)
    monkeypatch.setattr(commits, "FIRST_RETRY", 0.01)
    Ledger(str(state)).close()
    holder = sqlite3.connect(state / "ledger.sqlite3", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    queued: list[int] = []
    with desk(state) as told:
        told.writer._on_back = lambda: queued.append(told.writer.counts()["queued"])
        for number in range(3 * commits.MOST):
            told.writer.open(record(f"web-{number:06d}"))
        told.until(lambda: told.failed)
        holder.execute("ROLLBACK")
        told.until(lambda: queued)
    holder.close()
    assert queued == [0]


@pytest.mark.fault("R2")
def test_a_file_that_moves_between_two_looks(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever moves the file away in the moment of a commit takes nothing with it: it is written again."""
    write = Ledger.write
    moved: list[bool] = []

    def move(self: Ledger, work: Any) -> Any:
        found = write(self, work)
        if not moved:
            moved.append(True)
            os.rename(self.path, self.path + ".aside")
        return found

    monkeypatch.setattr(Ledger, "write", move)
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa"), told.done("open"))
        assert told.answered(1) == [("open", None)]
    assert [row["run"] for row in rows(state)] == ["web-aaaaaa"]


@pytest.mark.fault("R2")
def test_damage_that_cannot_be_set_aside_at_once(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure in the midst of setting a damaged file aside is tried again with a file that is opened anew."""
    monkeypatch.setattr(commits, "FIRST_RETRY", 0.01)
    set_aside = Ledger._set_aside
    refused: list[bool] = []

    def refuse(self: Ledger, error: Any) -> None:
        if not refused:
            refused.append(True)
            raise OSError(13, "no")
        set_aside(self, error)

    monkeypatch.setattr(Ledger, "_set_aside", refuse)
    path = state / "ledger.sqlite3"
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa"), told.done("open"))
        told.answered(1)
        path.write_bytes(bytes(path.stat().st_size))
        told.writer.feed({"event": "x", "at": now()})
        told.until(lambda: told.back)
    assert refused
    assert [row["run"] for row in rows(state)] == ["web-aaaaaa"]


@pytest.mark.fault("R2", "M3")
@pytest.mark.parametrize("harm", ["moved", "removed", "folder", "zeroed"])
def test_a_ledger_that_goes_away_is_made_anew(state: Path, harm: str) -> None:
    """Moved aside by a reader, deleted or destroyed under the writer: what is open is in the new one, numbers go on."""
    path = state / "ledger.sqlite3"
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa"))
        told.writer.open(record("web-bbbbbb"))
        told.writer.close(end("web-bbbbbb"))
        told.writer.feed({"event": "x", "at": now()}, told.done("x"))
        told.answered(1)
        if harm == "folder":
            state.rename(state.with_name("elsewhere"))
        elif harm == "zeroed":
            path.write_bytes(bytes(path.stat().st_size))
        else:
            path.rename(path.with_name("ledger.aside")) if harm == "moved" else path.unlink()
        told.writer.feed({"event": "y", "at": now()}, told.done("y"))
        told.answered(2)
        assert told.answers == [("x", 1), ("y", 2)]
        assert [row["run"] for row in rows(state)] == ["web-aaaaaa"]
        told.writer.close(end("web-aaaaaa"), told.done("end"))
        told.answered(3)
        assert told.failed == []
    assert [row["outcome"] for row in rows(state)] == ["failed"]
    if harm == "zeroed":
        assert len(told.notes) == 1
        assert "was damaged" in told.notes[0]
        assert len([name for name in os.listdir(state) if ".broken-" in name and "-journal" not in name]) == 1


def test_a_newer_ledger_is_a_failure_that_is_told(state: Path) -> None:
    """A file that only a newer longwatch understands is not touched: told, and everything waits."""
    Ledger(str(state)).close()
    db = sqlite3.connect(state / "ledger.sqlite3")
    db.execute("PRAGMA user_version=9")
    db.close()
    with desk(state) as told:
        told.writer.open(record("web-aaaaaa"), told.done("open"))
        told.until(lambda: told.failed)
        assert "newer longwatch (schema 9)" in told.failed[0]
        told.until(lambda: told.answers)
        with pytest.raises(StoreError, match="newer longwatch"):
            told.writer.open_runs()
        assert told.writer.stop() == 1
        told.writer.stop = lambda: 0  # type: ignore[method-assign,assignment]


def test_what_is_left_at_the_end_is_counted(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that never answers does not hold up the daemon's end: whoever waits is told, and how many are lost."""
    free = threading.Event()
    monkeypatch.setattr(Ledger, "write", lambda *_: free.wait(30))
    told = Desk(state)
    told.writer.start()
    told.writer.open(record("web-aaaaaa"), told.done("open"))
    assert told.writer.stop(timeout_ms=20) == 1
    assert told.answers == [("open", "not written when the daemon ended")]
    free.set()
    told.writer._thread.join(10)
    assert not told.writer._thread.is_alive()
    os.close(told.writer._ready)
    os.close(told.writer._bell)


def test_all_that_is_queued_is_written_at_the_end(state: Path) -> None:
    """`stop` drains, and a callback that raises keeps nobody else from being answered."""
    with desk(state, start=False) as told:
        told.writer.open(record("web-aaaaaa"), lambda _: 1 // 0)
        told.writer.open(record("web-bbbbbb"), told.done("b"))
        told.writer.start()
        with pytest.raises(ZeroDivisionError):
            told.until(lambda: told.answers)
        told.answered(1)
        for number in range(600):
            told.writer.open(record(f"web-{number:06d}"), told.done(str(number)))
        assert told.writer.stop() == 0
        assert len(told.answers) == 601
        told.writer.start = told.writer.stop = lambda: None  # type: ignore[method-assign,assignment]
    assert len(rows(state, limit=1000)) == 602


def test_the_writer_costs_the_supervisor_little() -> None:
    """What a supervisor loads with it is neither a web stack nor anything that is slow to start."""
    code = "import sys; import longwatch.store.writer; print(*sorted(sys.modules))"
    loaded = set(helpers.run_command([sys.executable, "-c", code], measured=False).out.split())
    barred = {
        "asyncio",
        "click",
        "pydantic",
        "typing",
        "inspect",
        "dataclasses",
        "socket",
        "subprocess",
        "urllib",
    }
    assert not loaded & barred


# Killed at random

WORKER = """
import select, sys
from longwatch.paths import rfc3339
from longwatch.store.writer import LedgerWriter
state, first = sys.argv[1], int(sys.argv[2])
writer = LedgerWriter(state, "d", note=lambda text: print("note", text, flush=True))
left = writer.open_runs()
writer.start()
print("left", *(record["run"] for record in left), flush=True)
writer.repair(left)
def said(*words):
    return lambda answer: print(*words, answer, flush=True)
def one(number):
    run = f"web-{number:06d}"
    writer.open({"run": run, "harness": "web", "started_at": rfc3339(1_000_000 + number)}, said("open", run))
    writer.feed({"event": "x", "at": rfc3339(1), "run": run}, said("feed"))
    writer.close({"run": run, "termination_reason": "exited", "exit_code": 0}, said("close", run))
number = first
while True:
    for number in range(number, number + 3):
        one(number)
    number += 1
    select.select([writer], [], [], 1)
    writer.collect()
"""


def killed_at_random(state: Path, rounds: int) -> None:
    """Kill a daemon's writer again and again in the midst of its commits, and look at what is left each time."""
    draw = random.Random(7)
    number, acknowledged, events = 0, set[str](), 0
    for _ in range(rounds):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(state), str(number)], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        lines = [worker.stdout.readline(), worker.stdout.readline()]  # it is at work
        time.sleep(draw.uniform(0, 0.05))
        worker.kill()
        lines += worker.stdout.read().splitlines()
        worker.wait()
        worker.stdout.close()
        words = [line.split() for line in lines]
        assert not [line for line in words if line[:1] == ["note"]]
        closed = {line[1] for line in words if line[:1] == ["close"] and line[2:] == ["None"]}
        opened = {line[1] for line in words if line[:1] == ["open"] and line[2:] == ["None"]}
        acknowledged |= opened | closed
        numbers = [int(line[1]) for line in words if line[:1] == ["feed"] and len(line) == 2]
        assert numbers == sorted(numbers)
        assert not numbers or numbers[0] > events
        with Ledger(str(state)) as found:
            assert found.notes == []
            kept = {row["run"]: row for row in listed(found, Wanted(limit=1_000_000))}
            assert found.rows("SELECT count(*) FROM runs") == [(len(kept),)]
            assert acknowledged <= kept.keys()
            assert not {run for run in closed if kept[run]["outcome"] == "running"}
            page = feed(found, "d", limit=1_000_000)
        assert [event["seq"] for event in page.events] == list(range(1, len(page.events) + 1))
        assert page.last >= max(numbers, default=0)
        events = page.last
        number = max([int(run[4:]) for run in kept], default=number) + 1
    with desk(state) as told:
        told.writer._commits._daemon = told.writer._daemon = "d"
        told.writer.repair(told.writer.open_runs(), done=told.done("repaired"))
        told.answered(1)
    assert acknowledged
    assert {row["outcome"] for row in rows(state, limit=1_000_000)} <= {"success", "interrupted"}


@pytest.mark.capability("CAP-122", "NEW-16")
@pytest.mark.fault("R2")
@pytest.mark.slow
def test_killed_in_the_midst_of_commits(state: Path) -> None:
    """However it is killed: the ledger loads, what was acknowledged is there once, and open runs are repaired."""
    killed_at_random(state, 12)


@pytest.mark.soak
@pytest.mark.fault("R2")
@pytest.mark.timeout(600)
def test_killed_two_hundred_times(state: Path) -> None:
    """The same, two hundred times."""
    killed_at_random(state, 200)


def test_retention_is_called_from_here(state: Path, tmp_path: Path) -> None:
    """A sweep and the removal of payloads happen in the thread; a folder that cannot be read is told."""
    payloads = tmp_path / "payloads"
    payloads.mkdir()
    for number in range(3):
        (payloads / f"web-{number:06d}.json").write_text("{}")
        os.utime(payloads / f"web-{number:06d}.json", (number, number))
    odd = tmp_path / "file"
    odd.write_text("no folder")
    with desk(state) as told:
        told.writer.close({**end("old-000000"), "harness": "web", "started_at": rfc3339(START)})
        told.writer.open(record("web-aaaaaa", started_at=rfc3339(START)))
        told.writer.retain(START + retention.DAYS * 86_400_000 + 10_000)
        assert not told.writer._gathered, "it must not overtake what was told before"
        told.writer.keep_payloads(str(payloads), {"web": 1})
        told.writer.keep_payloads(str(odd), {})
        told.until(lambda: told.notes)
        told.writer.open(record("web-bbbbbb"), told.done("still"))
        told.answered(1)
        told.until(lambda: not told.writer._commits._chores)
    assert "was not tidied" in told.notes[0]
    assert [row["run"] for row in rows(state)] == ["web-aaaaaa", "web-bbbbbb"]
    assert os.listdir(payloads) == ["web-000002.json"]
