"""What is kept: so many days and bytes of the ledger, the newest logs of each harness."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.store import intake, retention
from longwatch.store.feed import feed
from longwatch.store.ledger import Ledger
from longwatch.store.retention import Payloads, Sweep

DAY = 86_400_000
NOW = 1_800_000_000_000


@pytest.fixture
def ledger(state: Path) -> Iterator[Ledger]:
    """Return an open ledger."""
    with Ledger(str(state), writer=True) as opened:
        yield opened


def fill(
    ledger: Ledger, *, runs: int = 0, events: int = 0, first: int = NOW, apart: int = DAY, size: int = 10
) -> None:
    """Put runs and events into it: the first one at an instant, each next one `apart` before."""

    def work(db: intake.sqlite3.Connection) -> None:
        for number in range(runs):
            at = first - number * apart
            intake.insert(db, intake.Row(f"r-{number:06d}", 1, "r", at, at, '"' + "x" * size + '"'))
        for number in range(events):
            at = first - (events - 1 - number) * apart
            db.execute(
                "INSERT INTO feed VALUES ('d', ?, ?, 'r', ?)", (number + 1, at, '"' + "x" * size + '"')
            )

    ledger.write(work)


def sweep(ledger: Ledger, days: int = retention.DAYS, size: int = retention.SIZE, now: int = NOW) -> int:
    """Sweep to the end; returns the number of steps."""
    work = Sweep(now, days, size)
    steps = 1
    while work.step(lambda: ledger):
        steps += 1
    return steps


def count(ledger: Ledger, table: str) -> int:
    return int(ledger.rows(f"SELECT count(*) FROM {table}")[0][0])


@pytest.mark.capability("CAP-123")
def test_ninety_days_are_kept(ledger: Ledger) -> None:
    """What ended, or happened, longer ago goes; less than a day is taken for a day; what is open stays."""
    fill(ledger, runs=100, events=100)
    ledger.write(lambda db: intake.insert(db, intake.Row("o-000000", 1, "o", 5, None, "{}", daemon="d")))
    sweep(ledger)
    assert (count(ledger, "runs"), count(ledger, "summaries"), count(ledger, "feed")) == (92, 92, 91)
    sweep(ledger, days=0)
    assert (count(ledger, "runs"), count(ledger, "summaries"), count(ledger, "feed")) == (3, 3, 2)
    assert ledger.rows("SELECT run FROM runs WHERE ended IS NULL") == [("o-000000",)]


@pytest.mark.capability("CAP-123")
def test_numbers_go_on_after_everything_is_old(ledger: Ledger) -> None:
    """The newest event of a daemon stays however old it is, and a reader is told how many it missed."""
    fill(ledger, events=10)
    sweep(ledger, now=NOW + 1_000 * DAY)
    page = feed(ledger, "d", since=4)
    assert (len(page.events), page.last, page.dropped, page.renewed) == (1, 10, 5, False)


@pytest.mark.capability("CAP-123")
def test_steps_are_small(ledger: Ledger) -> None:
    """A sweep of much is many transactions of at most 500 rows."""
    fill(ledger, runs=1_200, events=600, first=NOW - 100 * DAY, apart=1)
    assert sweep(ledger) == 2 + 3 + 1
    assert (count(ledger, "runs"), count(ledger, "feed")) == (0, 1)


@pytest.mark.capability("CAP-123")
def test_so_many_bytes_are_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is too large the oldest goes, runs and events alike; less than 16 MiB is taken for 16; space is given back."""
    monkeypatch.setattr(retention, "LEAST_SIZE", 400_000)
    monkeypatch.setattr(retention, "STEP", 50)
    fill(ledger, runs=400, events=400, apart=1_000, size=1_000)
    path = Path(ledger.path)
    before = path.stat().st_size
    assert before > 1_000_000
    sweep(ledger, size=1)
    after = path.stat().st_size
    assert 300_000 < after <= 400_000
    assert count(ledger, "runs") >= 50
    assert count(ledger, "feed") >= 50
    (oldest,) = ledger.rows("SELECT min(at) FROM feed")
    (run,) = ledger.rows("SELECT min(ended) FROM runs")
    assert abs(oldest[0] - run[0]) <= 100_000
    assert feed(ledger, "d", since=0).dropped == 400 - count(ledger, "feed")


def test_what_cannot_be_made_smaller_is_left(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing but open runs and newest events is left a sweep ends, however large that is."""
    monkeypatch.setattr(retention, "LEAST_SIZE", 1)
    fill(ledger, runs=3, events=3)
    ledger.write(lambda db: intake.insert(db, intake.Row("o-000000", 1, "o", 5, None, "{}", daemon="d")))
    sweep(ledger, size=1)
    assert (count(ledger, "runs"), count(ledger, "feed")) == (1, 1)
    fill(ledger, runs=3)
    sweep(ledger, size=1)
    assert count(ledger, "runs") == 1


def came(folder: Path, name: str, changed: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    os.utime(folder / name, (changed, changed))


@pytest.mark.capability("CAP-123")
def test_what_came_with_the_newest_runs_is_kept(ledger: Ledger, tmp_path: Path) -> None:
    """Of each harness so many as it keeps runs, one at least; what open runs have stays, and what is not ours."""
    folder = tmp_path / "payloads"
    for number in range(6):
        came(folder, f"job-{number:06d}.json", number)
        came(folder, f"web-hook-{number:06d}.json", 9 - number)
    for name in ("notes.txt", ".incoming-0123456789abcdef", "job-000001.json.old", "x.json"):
        came(folder, name, 0)
    ledger.write(lambda db: intake.insert(db, intake.Row("job-000002", 1, "job", 5, None, "{}", daemon="d")))
    assert Payloads(str(folder), {"job": 2, "web-hook": 0}).step(lambda: ledger) is False
    assert sorted(os.listdir(folder)) == [
        ".incoming-0123456789abcdef", "job-000001.json.old", "job-000002.json", "job-000004.json", "job-000005.json",
        "notes.txt", "web-hook-000000.json", "x.json",
    ]  # fmt: skip


def test_twenty_stay_of_what_the_file_does_not_name(ledger: Ledger, tmp_path: Path) -> None:
    """A harness that was removed keeps what is usual; a folder that is not there has nothing."""
    for number in range(25):
        came(tmp_path / "payloads", f"old-{number:06d}.json", number)
    Payloads(str(tmp_path / "payloads"), {}).step(lambda: ledger)
    assert min(os.listdir(tmp_path / "payloads")) == "old-000005.json"
    assert len(os.listdir(tmp_path / "payloads")) == 20
    assert Payloads(str(tmp_path / "nowhere"), {}).step(lambda: ledger) is False
