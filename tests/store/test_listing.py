"""Lists of runs and events: narrowed down, in order, from the index."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.errors import UsageError
from longwatch.paths import rfc3339
from longwatch.store import entries, intake
from longwatch.store.feed import daemons, feed, newest_of, since_time
from longwatch.store.ledger import Ledger
from longwatch.store.listing import LISTED, Wanted, check_outcomes, listed, open_records, recent

START = 1_767_323_045_000


@pytest.fixture
def ledger(state: Path) -> Iterator[Ledger]:
    """Return a ledger with six runs of three harnesses of two daemons, a minute apart, and a run of no daemon."""
    ends = [
        ("web", "d", "autostart", "success"), ("web", "d", "restart", "stalled"), ("job", "d", "schedule", "failed"),
        ("job", "d", "schedule", "timed_out"), ("far", "e", "autostart", "failed"), ("web", "d", "restart", None),
    ]  # fmt: skip

    def work(db: intake.sqlite3.Connection) -> None:
        for number, (harness, daemon, trigger, outcome) in enumerate(ends):
            record = {
                "run": f"{harness}-{number:06d}", "harness": harness, "trigger": trigger, "kind": "resident",
                "started_at": rfc3339(START + number * 60_000),
            }  # fmt: skip
            intake.insert(db, entries.opened(record, daemon))
            if outcome:
                over = {
                    "run": record["run"],
                    "outcome": outcome,
                    "duration_ms": 5,
                    "termination_reason": "exited",
                }
                intake.insert(db, entries.closed(over, record, daemon))
        line = {
            "run": "build-aaaaaa",
            "name": "build",
            "attempt": 1,
            "started_at": rfc3339(START + 1),
            "outcome": "failed",
        }
        intake.insert(db, intake.row(line))

    with Ledger(str(state)) as opened:
        opened.write(work)
        yield opened


def runs(ledger: Ledger, *names: str, **wanted: object) -> list[str]:
    """Return the last digit of the runs that are listed."""
    return [found["run"][-1] for found in listed(ledger, Wanted(names, **wanted))]  # type: ignore[arg-type]


@pytest.mark.capability("CAP-124")
def test_rows_are_narrowed_down(ledger: Ledger) -> None:
    """By names, time of the start, outcomes, triggers, kinds, daemon and number; the newest first."""
    assert runs(ledger) == ["5", "4", "3", "2", "1", "a", "0"]
    assert runs(ledger, "job", "far", "far") == ["4", "3", "2"]
    assert runs(ledger, "job", "far", limit=2) == ["4", "3"]
    assert runs(ledger, "nobody") == []
    assert runs(ledger, since=START + 120_000) == ["5", "4", "3", "2"]
    assert runs(ledger, until=START + 60_000) == ["1", "a", "0"]
    assert runs(ledger, outcomes=("stalled",)) == ["1"]
    assert runs(ledger, outcomes=("stalled", "timed_out", "running")) == ["5", "3", "1"]
    assert runs(ledger, triggers=("schedule", "autostart")) == ["4", "3", "2", "0"]
    assert runs(ledger, kinds=("resident",), daemon="e") == ["4"]
    assert runs(ledger, "web", outcomes=("success",), triggers=("restart",)) == []


@pytest.mark.capability("CAP-124")
def test_whose_it_is_stands_in_the_row(ledger: Ledger) -> None:
    """What a daemon ran says so, a run of `longwatch run` has none of those keys, an open run is running."""
    found = {summary["run"]: summary for summary in listed(ledger, Wanted())}
    assert "harness" not in found["build-aaaaaa"]
    assert found["web-000001"]["daemon"] == "d"
    assert "termination_reason" not in found["web-000005"]
    assert [record["run"] for record in open_records(ledger, "d")] == ["web-000005"]
    assert open_records(ledger, "e") == []


def test_a_line_of_the_run_itself_leaves_whose_it_is(ledger: Ledger) -> None:
    """A run that also wrote a line of its own is still that of its harness."""
    line = {
        "run": "web-000005",
        "name": "web",
        "attempt": 1,
        "started_at": rfc3339(START),
        "outcome": "failed",
    }
    ledger.write(lambda db: intake.insert(db, intake.row(line)))
    (found,) = [found for found in listed(ledger, Wanted(("web",))) if found["run"] == "web-000005"]
    assert (found["outcome"], found["daemon"], found["trigger"]) == ("failed", "d", "restart")


@pytest.mark.capability("CAP-124")
def test_an_unknown_outcome_is_refused_with_all_there_are() -> None:
    """The nearest one first, then the closed set; `stalled` is one of them."""
    assert check_outcomes(["stalled", "running"]) == ("stalled", "running")
    with pytest.raises(
        UsageError, match=r"staled: no such outcome; did you mean stalled\? outcomes are success, .*stalled"
    ):
        check_outcomes(["success", "staled"])
    with pytest.raises(UsageError, match="no such outcome; outcomes are"):
        check_outcomes(["zzzzzzzzz"])
    assert {"success", "stalled", "skipped", "missed", "quota_parked", "budget_exceeded", "running"} <= set(
        LISTED
    )


def test_the_last_of_a_harness_come_from_the_index(ledger: Ledger) -> None:
    """Not one row of the table is read for them."""
    assert [short.run for short in recent(ledger, "web", 2)] == ["web-000005", "web-000001"]
    sql = "SELECT run, attempt, started, ended, outcome, reason, trigger, daemon FROM runs WHERE name='web' ORDER BY started DESC LIMIT 50"
    ((_, _, _, plan),) = ledger.rows(f"EXPLAIN QUERY PLAN {sql}")
    assert "USING COVERING INDEX runs_by_name" in plan


def events(ledger: Ledger, daemon: str, count: int) -> None:
    """Put events into the feed, a second apart, of two harnesses in turn."""

    def work(db: intake.sqlite3.Connection) -> None:
        for number in range(1, count + 1):
            harness, text = ("web", "job")[number % 2], f'{{"seq": {number}}}'
            db.execute(
                "INSERT INTO feed VALUES (?, ?, ?, ?, ?)",
                (daemon, number, START + number * 1_000, harness, text),
            )

    ledger.write(work)


@pytest.mark.capability("CAP-123")
def test_events_are_read_from_a_number_on(ledger: Ledger) -> None:
    """Page by page, of one daemon, of some harnesses; where to go on is told also when nothing was for us."""
    assert feed(ledger, "d").last == 0
    events(ledger, "d", 10)
    events(ledger, "e", 3)
    page = feed(ledger, "d", 4, limit=3)
    assert [event["seq"] for event in page.events] == [5, 6, 7]
    assert (page.last, page.dropped, page.renewed) == (7, 0, False)
    page = feed(ledger, "d", page.last, limit=3)
    assert ([event["seq"] for event in page.events], page.last) == ([8, 9, 10], 10)
    assert feed(ledger, "d", page.last).events == []
    page = feed(ledger, "d", 2, harnesses=("web",))
    assert ([event["seq"] for event in page.events], page.last) == ([4, 6, 8, 10], 10)
    page = feed(ledger, "d", 9, harnesses=("job",))
    assert (page.events, page.last) == ([], 10)
    assert daemons(ledger) == ["d", "e"]


@pytest.mark.capability("CAP-123")
def test_readers_are_told_what_is_gone(ledger: Ledger) -> None:
    """What retention took before they came is counted; a ledger that was made anew says so and begins anew."""
    events(ledger, "d", 10)
    ledger.write(lambda db: db.execute("DELETE FROM feed WHERE seq <= 6"))
    assert [feed(ledger, "d", since).dropped for since in (0, 3, 6, 8)] == [6, 3, 0, 0]
    page = feed(ledger, "d", 4_711)
    assert (len(page.events), page.last, page.renewed) == (4, 10, True)
    assert feed(ledger, "nobody", 7).renewed


def test_a_time_becomes_a_number(ledger: Ledger) -> None:
    """The events from an instant on, or the newest so many, are behind a number."""
    events(ledger, "d", 10)
    assert since_time(ledger, "d", START + 4_000) == 3
    assert since_time(ledger, "d", 0) == 0
    assert since_time(ledger, "d", START * 2) == 10
    assert since_time(ledger, "nobody", 0) == 0
    assert newest_of(ledger, "d", 3) == 7
    assert newest_of(ledger, "d", 3, ("web",)) == 4
    assert newest_of(ledger, "d", 99) == 0
