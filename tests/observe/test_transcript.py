"""The transcript as a source: what is told, at which instant, and when it is unknown."""

import json
import os
from types import SimpleNamespace

import pytest

import helpers
from longwatch.core.observations import AliveSeen, Paused, ProgressSeen, SourceFound, SourceLost
from longwatch.core.sight import TRANSCRIPT
from longwatch.observe import events as e
from longwatch.observe import transcript as module
from longwatch.observe.sessions import FOLDER, HELPER, Found
from longwatch.observe.tail import Mark
from longwatch.observe.transcript import Lines, Transcript
from transcripts import PlainReader

STARTED = 1_000_000
#: What the wall clock shows, in ms since 1970, when the watch's clock shows 0.
EPOCH = 1_800_000_000_000
PROGRESS, ALIVE = ProgressSeen(TRANSCRIPT), AliveSeen(TRANSCRIPT)
FOUND, LOST = SourceFound(TRANSCRIPT), SourceLost(TRANSCRIPT)


class Bench:
    """A transcript with both clocks in hand, and files that are found when the test says so."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.now = STARTED
        self.step = 0
        self.coming = []
        self.notes = []
        monkeypatch.setattr(module, "time", SimpleNamespace(time_ns=lambda: self.wall * 1_000_000))
        sessions = SimpleNamespace(find=self._find)
        self.transcript = Transcript(
            sessions, lambda found: Lines(found, PlainReader()), STARTED, self.notes.append
        )

    @property
    def wall(self):
        """What the wall clock shows; `step` is how far somebody has set it."""
        return EPOCH + self.now + self.step

    def _find(self):
        found, self.coming = self.coming, []
        return found

    def find(self, name="main", why=FOLDER, **options):
        """Have a file found by the next look."""
        path = self.folder / name
        self.coming.append(Found(str(path), why, **options))
        return path

    def write(self, path, event="text", ago=0, **fields):
        """Append a record that is stamped so many ms ago."""
        fields = {"event": event, "text": "word", "call": "1"} | fields
        if ago is not None:
            fields["timestamp"] = (self.wall - ago) * 1_000_000
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")

    def look(self, after=1_000):
        """Look so many ms later; instants are told in ms since the start."""
        self.now += after
        return [(at - STARTED, seen) for at, seen in self.transcript.look(self.now)]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Return a transcript under control, and leave no descriptor behind."""
    made = Bench(tmp_path, monkeypatch)
    yield made
    made.transcript.close()


# Instants


def test_nothing_yet(bench):
    """Without a file nothing is told: the source is unknown."""
    assert bench.look() == []
    path = bench.find()
    assert bench.look() == []
    path.touch()
    assert bench.look() == []
    assert bench.transcript.files == {str(path): "folder"}


def test_the_instant_of_a_record(bench):
    """A record is told at the instant at which it was written, not at which somebody looked."""
    path = bench.find()
    bench.look()
    bench.now += 10_000
    bench.write(path, "call", ago=7_000)
    bench.write(path, "result", ago=2_500)
    assert bench.look(0) == [
        (4_000, FOUND),
        (4_000, *e.observations(e.ToolCalled("1", "Bash"), TRANSCRIPT)),
        (8_500, *e.observations(e.ToolResult("1"), TRANSCRIPT)),
    ]


@pytest.mark.parametrize(("ago", "told"), [(-5_000, 3_000), (100, 2_900), (1_500, 2_000), (3_600_000, 2_000)])
def test_never_later_than_now_nor_before_the_last_look(bench, ago, told):
    """Whatever a record claims, it was written between the last look and this one."""
    path = bench.find()
    path.touch()
    bench.look(2_000)
    bench.write(path, ago=0)
    bench.now += 1_000
    bench.write(path, ago=ago)
    path.write_text(path.read_text().splitlines(keepends=True)[1])
    assert bench.look(0)[-1] == (told, PROGRESS)


def test_stamps_that_step_back(bench):
    """Of one file nothing is told as earlier than what stands before it."""
    path = bench.find()
    path.touch()
    bench.look()
    bench.now += 1_000
    bench.write(path, ago=200)
    bench.write(path, "call", ago=900)
    assert [at for at, _ in bench.look(0)] == [1_800, 1_800, 1_800]


def test_several_files_in_order(bench):
    """What happened in several files is told in the order in which it happened."""
    one, two = bench.find("one"), bench.find("two")
    bench.now += 10_000
    bench.write(one, "call", ago=900)
    bench.write(one, "result", ago=300)
    bench.write(two, "retry", ago=600)
    bench.write(two, ago=100)
    told = bench.look(0)
    assert [at for at, _ in told] == [9_100, 9_100, 9_400, 9_700, 9_900]
    assert [type(seen).__name__ for _, seen in told][1:] == [
        "CallBegan",
        "AliveSeen",
        "CallEnded",
        "ProgressSeen",
    ]


@pytest.mark.fault("L1")
@pytest.mark.parametrize("hours", [1, -1])
def test_the_wall_clock_is_set(bench, hours):
    """A wall clock that is set, before or after a record was written, moves it by less than one look."""
    path = bench.find()
    bench.write(path)
    bench.look()
    bench.write(path)
    bench.step = hours * 3_600_000
    assert bench.look() in ([(1_000, PROGRESS)], [(2_000, PROGRESS)])
    bench.write(path)
    assert bench.look() == [(2_000, PROGRESS)]


def test_a_wait_that_was_stated_before_the_last_look(bench):
    """Of a stated wait less is left when it is told as of the last look."""
    path = bench.find()
    path.touch()
    bench.look(10_000)
    bench.write(path, "wait", ago=4_000, span=60_000)
    assert bench.look()[-1] == (10_000, Paused(56_000))


# History


@pytest.mark.parametrize("existed", [True, False])
def test_what_is_older_than_the_run(bench, existed):
    """What a file holds from before the run is not told; nor, in an older file, what has no time."""
    path = bench.find(existed=existed)
    bench.write(path, "call", ago=None)
    bench.write(path, ago=5_000)
    bench.write(path, "call", ago=4_000)
    bench.write(path, "result", ago=0)
    told = [type(seen).__name__ for _, seen in bench.look()]
    assert told == [
        *([] if existed else ["SourceFound", "CallBegan"]),
        *(["SourceFound"] if existed else []),
        "CallEnded",
    ]


def test_from_a_mark_on_all_is_new(bench):
    """What comes behind the place where the file ended before the run is new, whatever its time."""
    path = bench.folder / "main"
    bench.write(path)
    size = path.stat().st_size
    bench.find(mark=Mark(path.stat().st_ino, size))
    bench.write(path, "call", ago=3_600_000)
    assert bench.look()[0] == (0, FOUND)
    bench.write(path, "result", ago=None)
    assert [at for at, _ in bench.look()] == [2_000]


def test_history_over_several_looks(bench, monkeypatch):
    """A long history is read over several looks, and all of it is history."""
    monkeypatch.setattr(Lines, "read", _read)
    path = bench.find()
    for _ in range(6_000):
        bench.write(path, ago=60_000)
    bench.write(path, "call")
    told = bench.look()
    assert bench.transcript.behind
    while bench.transcript.behind:
        told += bench.look()
    assert [type(seen).__name__ for _, seen in told] == ["SourceFound", "CallBegan"]


def _read(lines, wall):
    """Read a source with as little as one look can take."""
    for pos, line in lines._tail.read(most=1):
        yield from lines._reader.read(line, pos, wall)


# Lost and found


def test_lost_and_found(bench):
    """A file that was seen and cannot be read makes the source unknown, and known again when it can."""
    path = bench.find()
    bench.write(path)
    assert bench.look(0) == [(0, FOUND), (0, PROGRESS)]
    path.unlink()
    assert bench.look() == [(1_000, LOST)]
    assert bench.look() == []
    path.touch()
    assert bench.look() == [(3_000, FOUND)]
    assert bench.look() == []
    path.unlink()
    assert bench.look() == [(5_000, LOST)]
    bench.write(path)
    bench.now += 500
    assert bench.look() == [(5_000, FOUND), (5_000, PROGRESS)]


def test_one_of_two_is_lost(bench):
    """As long as one file of ours can be read the source is known."""
    one, two = bench.find("one"), bench.find("two")
    bench.write(one)
    two.touch()
    assert bench.look(0)
    one.unlink()
    assert bench.look() == []
    two.unlink()
    assert bench.look() == [(2_000, LOST)]


def test_never_seen_is_never_lost(bench):
    """A file that gave nothing yet cannot be lost."""
    path = bench.find()
    path.touch()
    bench.look()
    path.unlink()
    assert bench.look() == []


def test_unreadable(bench, monkeypatch):
    """A file that may not be read any more is lost, and the rest goes on."""
    one = bench.find("one")
    bench.write(one)
    assert bench.look(0)

    def denied(path, flags):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        assert bench.look() == [(1_000, LOST)]
    assert bench.look() == [(2_000, FOUND)]


# What is told


def test_signs_are_joined(bench):
    """A run of mere signs is told as one, with their number and the last instant; calls are told one by one."""
    path = bench.find()
    bench.now += 1_000
    for ago in (900, 800, 700):
        bench.write(path, ago=ago)
    for ago in (600, 500):
        bench.write(path, "unheard of", ago=ago)
    bench.write(path, ago=400)
    assert bench.look(0)[1:] == [(300, ProgressSeen(TRANSCRIPT, 3)), (500, ALIVE), (600, PROGRESS)]


@pytest.mark.fault("M5")
@pytest.mark.capability("OBS-10")
def test_bad_rows(bench):
    """Bad rows and zero bytes are skipped and counted, said once, and hide nothing behind them."""
    path = bench.find()
    path.write_bytes(b"\0" * 4096 + b"\n")
    bench.write(path)
    with open(path, "ab") as file:
        file.write(b"no record\n\xff\xfe{}\n")
    bench.write(path)
    assert bench.look(0) == [(0, FOUND), (0, ProgressSeen(TRANSCRIPT, 2))]
    with open(path, "ab") as file:
        file.write(b"again\n")
    assert bench.look() == []
    assert bench.transcript.bad == 3
    assert bench.notes == [f"{path}: what is no record is skipped"]


@pytest.mark.fault("M5")
def test_zero_bytes_are_no_progress(bench):
    """Zero bytes alone move nothing."""
    path = bench.find()
    path.write_bytes(b"\0" * 4096 + b"\n" + b"\0" * 10)
    assert bench.look() == []


def test_notes_of_the_reading(bench):
    """What a human should know of the reading is said once."""
    path = bench.find()
    for _ in range(2):
        bench.write(path, note="a time without a zone")
    bench.look()
    assert bench.notes == ["a time without a zone"]


@pytest.mark.fault("D1")
def test_a_helper(bench):
    """What a helper's file says is told as the run's, except that its turn is not the run's."""
    path = bench.find("agent-a1.jsonl", why=HELPER)
    bench.write(path, "call")
    bench.write(path, "turn_end")
    assert [type(seen).__name__ for _, seen in bench.look()] == ["SourceFound", "CallBegan", "AliveSeen"]


def test_a_reader_that_knows_its_helper(bench):
    """A name that the dialect itself has for a helper is kept."""
    reader = PlainReader()
    reader.sub = "a1"
    Lines(Found("/x/agent-b.jsonl", HELPER), reader)
    assert reader.sub == "a1"


# Costs


def test_searching_has_a_rhythm(bench):
    """Folders and processes are looked through once a second at most, files at each look."""
    bench.look(0)
    one = bench.find()
    bench.write(one)
    assert bench.look(999) == []
    assert bench.look(1) != []
    bench.write(one)
    assert bench.look(1) != []


def test_few_descriptors(bench, monkeypatch):
    """Of many files only those that moved last keep a descriptor; the others are read as well."""
    monkeypatch.setattr(module, "OPEN", 3)
    paths = [bench.find(f"file{number}") for number in range(10)]
    for path in paths:
        bench.now += 10
        bench.write(path)
    before = helpers.descriptors()
    assert sum(seen.count for _, seen in bench.look() if isinstance(seen, ProgressSeen)) == 10
    bench.look()
    assert len(helpers.descriptors() - before) == 3
    for path in paths:
        bench.write(path)
    assert sum(seen.count for _, seen in bench.look() if isinstance(seen, ProgressSeen)) == 10
