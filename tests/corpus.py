"""The synthetic transcripts of `tests/data/transcripts`: one scripted conversation in every dialect's shapes."""

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from longwatch.observe import events as e
from longwatch.observe.dialects import Dialect, detect, load
from longwatch.observe.dialects.base import Reader
from longwatch.observe.dialects.generic import with_rules
from longwatch.observe.dialects.opencode import Database
from longwatch.observe.lines import Splitter
from longwatch.observe.record import Record

FOLDER = Path(__file__).parent / "data" / "transcripts"
#: 2030-01-02T03:04:05Z, when the conversation begins.
BEGIN = 1_893_553_445_000
#: What the generic conversation's records mean.
RULES = (
    "record: -> at=ts",
    "turn_start: kind=ask",
    "text: kind=say -> text=words",
    "tool_call: kind=begin -> call=n tool=what",
    "tool_result: kind=end -> call=n exit_code=rc",
    "turn_end: kind=finished",
)
#: Every shape of the conversation.
SHAPES = sorted(path.name for path in FOLDER.glob("*-steps.*"))


class Told(NamedTuple):
    """What came out of a file: its records, and what read it."""

    records: list[Record]
    reader: Reader

    @property
    def events(self) -> list[e.Event]:
        return [event for record in self.records for event in record.events]


def read(dialect: Dialect, source: str, data: bytes, chunk: int = 1 << 20) -> Told:
    """Read bytes as a follower would: in chunks, whole lines only, and the unfinished rest at the end."""
    reader, splitter = dialect.reader(source), Splitter()
    records: list[Record] = []
    for begin in range(0, len(data), chunk):
        for pos, line in splitter.places(data[begin : begin + chunk]):
            records += reader.read(line, pos)
    return Told(records, reader)


def read_lines(name: str, source: str, *lines: object) -> Told:
    """Read objects as lines of a dialect."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return read(load(name), source, data)


def database(folder: Path, name: str = "opencode-steps.db.jsonl") -> Path:
    """Make opencode's database of the events in a file, in its own schema as far as it is read."""
    path = folder / "opencode.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE session (id text PRIMARY KEY, parent_id text, time_created integer NOT NULL);
            CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL,
                type text NOT NULL, data text NOT NULL);
            INSERT INTO session VALUES ('ses_1', NULL, 1), ('ses_2', 'ses_1', 2), ('ses_0', NULL, 0);
        """)
        for place, line in enumerate((FOLDER / name).read_text().splitlines()):
            add_event(connection, place, json.loads(line))
    connection.close()
    return path


def add_event(connection: sqlite3.Connection, place: int, row: dict[str, object]) -> None:
    """Append one event."""
    values = (f"evt_{place}", row["aggregate_id"], row["seq"], row["type"], json.dumps(row["data"]))
    connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", values)


def shape(name: str, folder: Path) -> Told:
    """Read one shape of the conversation, found by its content as `replay` does."""
    if name.endswith(".db.jsonl"):
        found = Database(str(database(folder)))
        records = list(found.read(found.newest()))
        return Told(records, found.readers["ses_1"])
    data = (FOLDER / name).read_bytes()
    if name.startswith("generic"):
        return read(with_rules(RULES), "disk", data)
    dialect, source = detect(data) or (load("generic"), "")
    assert f"{dialect.name}-steps.{source}.jsonl" == name
    return read(dialect, source, data)
