"""Recordings of real agents, where they are at hand: what is read equals what is known to have happened.

LONGWATCH_RECORDINGS names a folder with recordings and `truth.tsv`, one row of expected counts a file.
"""

import csv
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import corpus
from longwatch.observe import events as e
from longwatch.observe.dialects import detect
from longwatch.observe.dialects.opencode import Database
from longwatch.observe.lines import Splitter
from longwatch.observe.record import Record

# Read before the tests' own environment is cleaned.
GIVEN = os.environ.get("LONGWATCH_RECORDINGS", "")
FOLDER = Path(GIVEN)
TABLE = (FOLDER / "truth.tsv").read_text().splitlines() if GIVEN else []
ROWS = {row["file"]: row for row in csv.DictReader(TABLE, delimiter="\t")}
#: Between a file's first record and the first that the table has a time of: a session's own begin, of a database.
SPAN = 5_000


def spelled(ms: int) -> str:
    """Return an instant as the table writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Reading:
    """What was read of one file, in the words of the table."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[int, int] = {}
        self.bad = 0
        data = path.read_bytes()
        found = detect(data[: 256 << 10])
        assert found is not None
        self.name, self.source = found[0].name, found[1]
        if self.source == "db":
            base = Database(str(path))
            self.records = list(base.read(base.newest()))
        else:
            self.lines = {pos: number for number, (pos, _) in enumerate(Splitter().places(data), 1)}
            told = corpus.read(found[0], self.source, data)
            self.records, self.bad = told.records, told.reader.bad
            assert told.reader.failures == 0
        self.events = [(event, record) for record in self.records for event in record.events]
        #: Ends of calls that are in the file; an orphaned one is our conclusion.
        self.ends = [
            (event, record)
            for event, record in self.events
            if isinstance(event, e.ToolResult) and not event.partial and event.why != "orphaned"
        ]

    def count(self, kind: type[e.Event], **fields: object) -> int:
        return sum(
            isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items())
            for event, _ in self.events
        )

    def counts(self) -> dict[str, Any]:
        started = self.count(e.ToolCalled)
        return {
            "started": started,
            "ok": sum(event.ok_native for event, _ in self.ends),
            "failed": sum(not event.ok_native for event, _ in self.ends),
            "failed_sem": sum(not event.ok for event, _ in self.ends),
            "open": started - len(self.ends),
            "sub_calls": sum(
                isinstance(event, e.ToolCalled) and bool(record.sub) for event, record in self.events
            ),
            "retries": self.count(e.Retry),
            "limits": self.count(e.Limited, lifted=False),
            "api_err": self.count(e.Failed),
            "compact": self.count(e.Compacted),
            "perm": self.count(e.Permission, state="waiting"),
            "bad": self.bad,
        }

    def last(self, truth: str, ends: list[tuple[Any, Record]]) -> str:
        """Return when the last of these calls ended: a time, or a line where the format has none."""
        if truth.startswith("L"):
            return f"L{self.lines[ends[-1][1].pos]:06}"
        stamped = [record.at for _, record in ends if record.at_source == "record" and record.at is not None]
        return spelled(max(stamped)) if stamped else "-"


@pytest.mark.capability("OBS-1", "OBS-2", "OBS-3", "OBS-4", "OBS-5", "OBS-6")
@pytest.mark.skipif(not GIVEN, reason="no recordings: LONGWATCH_RECORDINGS names no folder")
@pytest.mark.parametrize("name", ROWS)
def test_recording(name: str) -> None:
    """All counts and the times of the last good call equal the table's, and the file's content tells its dialect."""
    row, reading = ROWS[name], Reading(FOLDER / name)
    shape = "db" if name.endswith(".db") else name.split(".")[-2]
    assert (reading.name, reading.source) == (name.partition("-")[0], shape)
    assert {key: str(value) for key, value in reading.counts().items()} == {
        key: row[key] for key in reading.counts()
    }
    good = [(event, record) for event, record in reading.ends if event.ok_native]
    truly = [(event, record) for event, record in good if event.ok]
    assert reading.last(row["last_ok"], good) == row["last_ok"]
    assert reading.last(row["last_ok_sem"], truly) == row["last_ok_sem"]


@pytest.mark.skipif(not GIVEN, reason="no recordings: LONGWATCH_RECORDINGS names no folder")
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["first"] != "-"])
def test_times_of_a_recording(name: str) -> None:
    """The first and last time are those of the table, but for times that it did not look at."""
    row, reading = ROWS[name], Reading(FOLDER / name)
    stamped = [
        record.at for record in reading.records if record.at_source == "record" and record.at is not None
    ]
    first, last = (round(datetime.fromisoformat(row[key]).timestamp() * 1000) for key in ("first", "end"))
    assert first - SPAN <= min(stamped) <= first
    assert abs(max(stamped) - last) < 100
