"""One suite for all dialects: the same conversation means the same in every shape, and nothing makes them fail."""

import importlib.metadata
import json
import random
import sys
from pathlib import Path

import pytest

import corpus
from helpers import ROOT
from longwatch.core import observations as o
from longwatch.errors import UsageError
from longwatch.observe import dialects
from longwatch.observe import events as e
from longwatch.observe.dialects import Dialect, detect, load, names
from longwatch.observe.dialects.base import Reader
from longwatch.observe.dialects.generic import FIELDS
from longwatch.observe.dialects.loose import decode

#: What each call of the conversation came to: ok by its own flag or not is the agent's affair, ok in truth is not.
OUTCOMES = {"c1": (True, 0), "c2": (True, 0), "c3": (False, 3), "c4": (False, 1)}
#: Shapes in which a failed command cannot be told from a good one.
UNSEEN = {"qwen-steps.stream.jsonl": ("c3", "c4"), "gemini-steps.stream.jsonl": ("c4",)}
#: Shapes that do not have who spoke, or whether the turn is over.
NO_START = ("claude-steps.stream.jsonl", "qwen-steps.stream.jsonl", "opencode-steps.stream.jsonl")
NO_END = ("gemini-steps.disk.jsonl",)
#: Shapes whose last record says that the conversation is over.
FINAL = (
    "copilot-steps.disk.jsonl",
    *(name for name in corpus.SHAPES if ".stream." in name and "opencode" not in name),
)
NO_TIMES = ("codex-steps.stream.jsonl", "qwen-steps.stream.jsonl")
SECOND = 1_000


@pytest.mark.capability("OBS-8")
@pytest.mark.parametrize("name", corpus.SHAPES)
def test_calls(name: str, tmp_path: Path) -> None:
    """Each call begins once, in order, and ends once with what it truly came to."""
    events = corpus.shape(name, tmp_path).events
    begun = [event.call for event in events if isinstance(event, e.ToolCalled)]
    named = dict(zip(begun, OUTCOMES, strict=True))
    assert name == "codex-steps.stream.jsonl" or begun == list(OUTCOMES)  # there calls are items, and counted
    ends = {named[event.call]: event for event in events if isinstance(event, e.ToolResult)}
    assert len(ends) == sum(isinstance(event, e.ToolResult) for event in events)
    unseen = UNSEEN.get(name, ())
    assert {call: end.ok for call, end in ends.items()} == {
        call: ok or call in unseen for call, (ok, _) in OUTCOMES.items()
    }
    codes = {
        call: end.exit_code for call, end in ends.items() if call not in unseen and end.exit_code is not None
    }
    assert codes == {call: OUTCOMES[call][1] for call in codes}
    assert all(ends[call].exit_code for call in ("c3", "c4") if call not in unseen)


@pytest.mark.parametrize("name", corpus.SHAPES)
def test_words_and_turns(name: str, tmp_path: Path) -> None:
    """The model's words come once, between the turn's begin and its end, and the session is known."""
    told = corpus.shape(name, tmp_path)
    kinds = [
        event.kind for event in told.events if event.kind in ("turn_start", "text", "turn_end", "session_end")
    ]
    assert kinds == [
        *(["turn_start"] * (name not in NO_START)),
        *(["text"] * 3),
        *(["turn_end"] * (name not in NO_END)),
        *(["session_end"] * (name in FINAL)),
    ]
    said = [event.text for event in told.events if isinstance(event, e.Text)]
    assert said == ["Step one.", "Now a failing one.", "All done."]
    assert (told.reader.bad, told.reader.failures) == (0, 0)
    assert all(event.ok for event in told.events if isinstance(event, e.SessionEnded | e.TurnEnded))
    if "generic" not in name:
        assert told.records[-1].session in ("s-1", "ses_1")


@pytest.mark.parametrize("name", [name for name in corpus.SHAPES if name not in NO_TIMES])
def test_times(name: str, tmp_path: Path) -> None:
    """What happened is stamped with its own time, also where one record tells two instants."""
    records = corpus.shape(name, tmp_path).records
    when = {}
    for record in records:
        for event in record.events:
            if isinstance(event, e.ToolResult) and record.at_source == "record":
                when[event.call] = record.at
    if name != "pi-steps.stream.jsonl":  # tools are not stamped there
        expected = {"c1": 2 * SECOND, "c2": 4 * SECOND, "c3": 4_100, "c4": 6 * SECOND}
        assert when == {call: corpus.BEGIN + at for call, at in expected.items()}
    known = [record.at for record in records if record.at_source == "record" and record.at is not None]
    assert corpus.BEGIN <= min(known) <= max(known) <= corpus.BEGIN + 8 * SECOND


@pytest.mark.parametrize("name", NO_TIMES)
def test_receipt_stands_in_for_missing_times(name: str) -> None:
    """A record without a time has that of its receipt; where nobody received it, none."""
    line = (corpus.FOLDER / name).read_bytes().splitlines()[2]
    reader = load(name.partition("-")[0]).reader("stream")
    assert [(r.at, r.at_source) for r in reader.read(line)] == [(None, "receipt")]
    assert [(r.at, r.at_source) for r in reader.read(line, wall=77)] == [(77, "receipt")]


@pytest.mark.parametrize(
    "name", [name for name in corpus.SHAPES if ".db." not in name and "generic" not in name]
)
def test_told_twice_counts_once(name: str, tmp_path: Path) -> None:
    """A history that is repeated, as after resuming, begins and ends no call again."""
    data = (corpus.FOLDER / name).read_bytes()
    dialect, source = detect(data) or (load("generic"), "")
    told = corpus.read(dialect, source, data + data)
    counts = {kind: sum(event.kind == kind for event in told.events) for kind in ("tool_call", "tool_result")}
    if name == "codex-steps.stream.jsonl":  # a new process counts its items anew
        assert counts == {"tool_call": 8, "tool_result": 8}
    else:
        assert counts == {"tool_call": 4, "tool_result": 4}


@pytest.mark.fault("M1")
@pytest.mark.parametrize(
    "name", [name for name in corpus.SHAPES if ".db." not in name and "generic" not in name]
)
def test_chunks_change_no_records(name: str) -> None:
    """However the bytes arrive, the records are the same."""
    data = (corpus.FOLDER / name).read_bytes()
    dialect, source = detect(data) or (load("generic"), "")
    whole = corpus.read(dialect, source, data).records
    assert corpus.read(dialect, source, data, chunk=997).records == whole


@pytest.mark.capability("OBS-8")
@pytest.mark.fault("B1")
@pytest.mark.parametrize("name", [n for n in names() if n != "generic"])
@pytest.mark.parametrize("source", ["disk", "stream"])
def test_unknown_records_are_signs_of_life(name: str, source: str) -> None:
    """What a dialect does not know shows that the file is alive, and is no progress of anything."""
    reader = load(name).reader(source)
    for line in (b'{"type":"brand-new","timestamp":"2030-01-02T03:04:05Z"}', b"[1,2]", b'"text"', b"7"):
        heard = [seen for record in reader.read(line) for seen in record.observations("transcript")]
        assert heard == [o.AliveSeen("transcript")]
    assert (reader.bad, reader.failures) == (0, 0)


@pytest.mark.fault("M5")
def test_bad_lines_are_counted() -> None:
    """A line that is no JSON is skipped and counted, and the ones behind it still count."""
    data = (corpus.FOLDER / "claude-steps.disk.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    told = corpus.read(
        load("claude"), "disk", b"\0\0\0" + b"".join([*lines[:5], b'{"type":"us\n', b"null\n", *lines[5:]])
    )
    assert told.reader.bad == 2
    assert sum(isinstance(event, e.ToolResult) for event in told.events) == 4


def test_cut_texts_are_still_records() -> None:
    """Half a surrogate pair and broken UTF-8, as cutting a text leaves behind, spoil no record."""
    assert decode(rb'{"a":"x\ud83d"}') == {"a": "x\ud83d"}
    assert decode(b'{"a":"x\xc3"}') == {"a": "x\ufffd"}
    assert decode(b"[" * 100_000) is None


# -- finding the dialect


@pytest.mark.parametrize(
    "name", [name for name in corpus.SHAPES if "generic" not in name and ".db." not in name]
)
@pytest.mark.parametrize("size", [4_000, 1_000_000])
def test_content_tells_the_dialect(name: str, size: int) -> None:
    """A file's first records tell its dialect and shape, also where the last of them is cut."""
    found = detect((corpus.FOLDER / name).read_bytes()[:size])
    assert found is not None
    assert [found[0].name, found[1]] == [name.partition("-")[0], name.split(".")[1]]


def test_a_database_is_known_by_its_head(tmp_path: Path) -> None:
    """A file of SQLite is opencode's."""
    head = corpus.database(tmp_path).read_bytes()[:100]
    found = detect(head)
    assert found is not None
    assert (found[0].name, found[1]) == ("opencode", "db")


@pytest.mark.parametrize(
    "head", [b"", b"plain text\n", b'{"a":1}\n', b"[]\n", b"\x00\xff" * 100, b'{"type":"x"']
)
def test_what_no_dialect_knows(head: bytes) -> None:
    """Anything else is nobody's."""
    assert detect(head) is None


def test_unknown_names_are_refused() -> None:
    """A name that is none is refused in one line, with the nearest one."""
    with pytest.raises(UsageError, match="cluade: no such dialect; did you mean claude"):
        load("cluade")
    with pytest.raises(UsageError, match="dialects are codex"):
        load("something-else")


# -- plug-ins


class Shouting(Reader):
    """A dialect of somebody else's."""

    def interpret(self, value: dict[str, object]) -> list[object]:
        if "boom" in value:
            raise RuntimeError
        return [self.made(e.Text(str(value["shout"])))]


class Point(importlib.metadata.EntryPoint):
    """An entry point that need not be installed."""


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install three plug-ins: a good one, one that does not load, and one that is no dialect."""
    module = sys.modules[__name__]
    module.SHOUT = Dialect("shout", Shouting, lambda records: "disk" if "shout" in records[0] else "")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shouting", module)
    points = [
        Point("shout", "shouting:SHOUT", dialects.GROUP),
        Point("gone", "no_such_module_here:X", dialects.GROUP),
        Point("odd", "shouting:SECOND", dialects.GROUP),
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == dialects.GROUP else []
    )


@pytest.mark.usefixtures("plugins")
def test_plug_ins() -> None:
    """Others add dialects by an entry point; one that fails at a record costs that record only."""
    assert names()[-4:] == ["gone", "odd", "shout", "generic"]
    reader = load("shout").reader()
    assert [record.events for record in reader.read(b'{"shout":"hey"}')] == [(e.Text("hey"),)]
    assert [record.events for record in reader.read(b'{"boom":1}')] == [()]
    assert reader.failures == 1
    assert load("shout").classify(b'{"shout":"hey"}') == "text"


@pytest.mark.usefixtures("plugins")
def test_bad_plug_ins_are_named() -> None:
    """A plug-in that does not load, or is none, is refused by name."""
    with pytest.raises(UsageError, match="dialect gone: the plug-in no_such_module_here:X does not load"):
        load("gone")
    with pytest.raises(UsageError, match="dialect odd: its entry point names no Dialect"):
        load("odd")


# -- anything at all


def mutants(seed: int, count: int) -> list[bytes]:
    """Return lines of the corpus, damaged: bytes changed, values of other kinds, parts left out, and plain noise."""
    draw = random.Random(seed)
    lines = [
        line for path in sorted(corpus.FOLDER.glob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    odd: list[object] = [None, True, 7, -1.5, 10**30, "", "x" * 50, [], {}, [{}], {"a": []}, [[[]]], "\ud800"]
    found = []
    for _ in range(count):
        line = draw.choice(lines)
        way = draw.randrange(4)
        if way == 0:
            damaged = bytearray(line)
            for _ in range(draw.randrange(1, 5)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            found.append(bytes(damaged))
        elif way == 1:
            value = json.loads(line)
            damage(value, draw, odd)
            found.append(json.dumps(value).encode("utf-8", "surrogatepass"))
        elif way == 2:
            found.append(line[: draw.randrange(len(line))])
        else:
            found.append(draw.randbytes(draw.randrange(200)))
    return found


def damage(value: object, draw: random.Random, odd: list[object]) -> None:
    """Put something else in the place of some values."""
    items = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    for key, item in items:
        if draw.random() < 0.12:
            value[key] = draw.choice(odd)  # type: ignore[index]
        else:
            damage(item, draw, odd)


@pytest.mark.capability("OBS-8")
@pytest.mark.parametrize("name", [n for n in names() if n != "generic"])
@pytest.mark.parametrize("source", ["disk", "stream"])
def test_nothing_makes_a_dialect_fail(name: str, source: str) -> None:
    """Damaged records of every dialect, and noise, raise nothing and leave a dialect no larger."""
    reader = load(name).reader(source)
    for line in mutants(20300102, 3_000):
        for record in reader.read(line, wall=corpus.BEGIN):
            record.observations("transcript", late=5)
        reader.stderr(line)
    assert reader.failures == 0
    assert len(reader.calls.open) < 10_000


def test_memory_of_calls_is_bounded() -> None:
    """A file of calls that never end, or that are all over, does not grow what is remembered."""
    reader = load("claude").reader()
    for number in range(12_000):
        block = {"type": "tool_use", "id": f"c{number}", "name": "t"}
        reader.read(json.dumps({"type": "assistant", "message": {"content": [block]}}).encode())
    assert len(reader.calls.open) == 10_000
    for number in range(12_000):
        block = {"type": "tool_result", "tool_use_id": f"c{number}"}
        reader.read(json.dumps({"type": "user", "message": {"content": [block]}}).encode())
    assert not reader.calls.open


def test_the_reference_names_them_all() -> None:
    """The page of dialects has each dialect, each kind of event with its fields, and each kind of rule with its own."""
    page = (ROOT / "docs" / "reference" / "dialects.md").read_text()
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    pairs = [row for row in page.splitlines() if row.startswith("| `")]
    assert [name for name in (*dialects.BUILT_IN, "generic") if name not in rows] == []
    for kind, cls in e.KINDS.items():
        assert any(f"`{kind}`" in row and all(field in row for field in cls.__slots__) for row in pairs), kind
    for kind, fields in FIELDS.items():
        assert any(
            row.startswith(f"| `{kind}` |") and all(f"`{field}`" in row for field in fields) for row in pairs
        ), kind
