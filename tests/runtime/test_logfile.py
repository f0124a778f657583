"""The log of a harness: opened on demand, capped, rotated without loss, found again, and never in anybody's way."""

import errno
import itertools
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
from longwatch.core.harness import SCHEDULED, Harness
from longwatch.core.redact import Redactor
from longwatch.posix import rotated
from longwatch.posix.rotated import Place, Rotated
from longwatch.runtime import logfile, marks
from longwatch.runtime.logs import Logs

RUN = "web-abcdef"
MARK = re.compile(r"-- longwatch \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z: (.*) --\r?\n")


def harness(name="web", **fields):
    return Harness(name, ("true",), **fields)


def splice(sink, data):
    """Move bytes as a conduit does: by splice where the sink has room, else by writing them."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        left = len(data)
        while left:
            room = sink.room()
            if not room:
                rest = memoryview(os.read(reading, left))
                while rest and (fits := sink.fits(rest)):
                    os.write(sink.fileno(), rest[:fits])
                    rest = rest[fits:]
                put(sink, rest)
                return
            count = os.splice(reading, sink.fileno(), min(room, left))
            sink.spliced(count)
            left -= count
    finally:
        os.close(reading)
        os.close(writing)


def put(sink, data):
    """Write bytes to a sink; return how many it took."""
    rest = memoryview(data)
    while rest and (count := sink.write(rest)):
        rest = rest[count:]
    return len(data) - len(rest)


WAYS = pytest.mark.parametrize("way", [put, splice], ids=["written", "spliced"])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "daemon" / "logs"


@pytest.fixture
def logs(folder, monkeypatch):
    """Return the logs of a daemon that looks at its folder at each write."""
    monkeypatch.setattr(rotated, "LOOK", 0)
    held = helpers.descriptors()
    made = Logs(str(folder))
    yield made
    made.close()
    assert helpers.descriptors() <= held


@pytest.fixture
def said():
    return []


@pytest.fixture
def sink(logs, said):
    return logs.sink(harness(), RUN, False, said.append)


@pytest.fixture
def clock(monkeypatch):
    """Return the list whose only number is the time of the logs."""
    moment = [1_000_000]
    monkeypatch.setattr(logfile, "now", lambda: moment[0])
    return moment


@pytest.fixture
def full(folder):
    """Let the log lead to a device that is always full; return what ends that."""
    folder.mkdir(parents=True)
    (folder / "web.log").symlink_to("/dev/full")
    return (folder / "web.log").unlink


class TestOpening:
    """A log that nobody writes to costs nothing."""

    def test_nothing_is_opened_before_the_first_byte(self, folder, logs, said):
        """A thousand quiet harnesses hold no descriptor, and leave not even a folder."""
        held = helpers.descriptors()
        sinks = [logs.sink(harness(f"h{n}"), f"h{n}-abcdef", False, said.append) for n in range(1000)]
        assert helpers.descriptors() <= held
        assert not folder.exists()
        assert put(sinks[7], b"hello\n") == 6
        assert len(helpers.descriptors() - held) == 1
        assert os.listdir(folder) == ["h7.log"]

    @WAYS
    def test_log_and_its_folders_are_private(self, folder, sink, way):
        """Only their owner may read what a program printed."""
        way(sink, b"hello\n")
        assert stat.S_IMODE(os.stat(sink.path).st_mode) == 0o600
        assert [stat.S_IMODE(os.stat(place).st_mode) for place in (folder, folder.parent)] == [0o700, 0o700]

    @WAYS
    def test_a_later_run_goes_on_in_the_same_file(self, logs, sink, said, way):
        """A resident harness has one file for all its runs; nothing is ever cut off its beginning."""
        way(sink, b"one\n")
        sink.close()
        again = logs.sink(harness(), "web-bbbbbb", False, said.append)
        way(again, b"two\n")
        assert Path(sink.path).read_bytes() == b"one\ntwo\n"

    @pytest.mark.capability("CAP-123")
    def test_a_scheduled_run_has_its_own_file(self, folder, logs, said):
        """Of the files of scheduled runs the newest `keep_runs` stay, and those that still live."""
        task = harness("task", kind=SCHEDULED, keep_runs=3)
        held = logs.sink(task, "task-000000", False, said.append)
        put(held, b"x")
        os.utime(held.path, (1, 1))
        for number in range(1, 6):
            sink = logs.sink(task, f"task-{number:06}", False, said.append)
            put(sink, b"x\n")
            Path(f"{sink.path}.1").write_text("older\n")
            os.utime(sink.path, (number, number))
            sink.close()
        kept = [f"task-{number:06}.log" for number in (0, 3, 4, 5)]
        assert sorted(os.listdir(folder / "task")) == sorted([*kept, *(f"{name}.1" for name in kept[1:])])
        logs.sink(task, "task-000005", True, said.append)
        assert len(os.listdir(folder / "task")) == 7, "an adopted run is no new one"

    def test_idle_files_are_closed_and_come_back(self, logs, sink):
        """What was not written to between two tidyings holds no descriptor; the next byte opens it again."""
        put(sink, b"one\n")
        logs.tidy()
        assert sink.fileno() >= 0
        logs.tidy()
        assert sink.fileno() == -1
        assert logs.counts()["open"] == 0
        put(sink, b"two\n")
        assert Path(sink.path).read_bytes() == b"one\ntwo\n"

    def test_budget_of_descriptors_holds(self, folder, said):
        """However many write, no more files are open than the budget, and no byte is lost."""
        logs = Logs(str(folder), budget=3)
        sinks = [logs.sink(harness(f"h{n}"), f"h{n}-abcdef", False, said.append) for n in range(10)]
        for turn in range(3):
            for sink in sinks:
                put(sinks[0], b"busy\n")
                put(sink, b"%d\n" % turn)
                assert sum(each.fileno() >= 0 for each in sinks) <= 3
                assert logs.counts()["open"] <= 3
        for sink in sinks[1:]:
            assert Path(sink.path).read_bytes() == b"0\n1\n2\n"
        assert Path(sinks[0].path).read_bytes().count(b"busy\n") == 30
        logs.close()

    def test_the_budget_follows_the_limit_of_the_process(self, folder):
        """Without a number the budget is a part of what the process may open."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert 16 <= Logs(str(folder)).budget <= max(most // 4, 16)


class TestRotation:
    """The cap holds, and nothing is lost for it."""

    @WAYS
    @pytest.mark.capability("CAP-10")
    def test_no_byte_is_lost_and_files_end_with_a_line(self, folder, logs, said, way):
        """All that was written is in the files, oldest first; each begins and ends with a whole line."""
        sink = logs.sink(harness(log={"max": 1000, "keep": 99}), RUN, False, said.append)
        lines = [b"%04d %s\n" % (n, b"x" * (n % 90)) for n in range(400)]
        for line in lines:
            way(sink, line)
        sizes = [os.stat(folder / name).st_size for name in os.listdir(folder)]
        assert len(sizes) > 5
        assert max(sizes) <= 1000
        found = [path.read_bytes() for path in oldest_first(folder)]
        assert b"".join(found) == b"".join(lines)
        assert all(part.endswith(b"\n") for part in found)

    def test_large_pieces_are_cut_between_lines(self, folder, logs, said):
        """What is spliced in large pieces is cut between two lines, too: the last bytes of a file are looked at."""
        sink = logs.sink(harness(log={"max": 256 << 10, "keep": 99}), RUN, False, said.append)
        text = b"".join(b"%06d\n" % n for n in range(8000))
        for _ in range(20):
            splice(sink, text)
        parts = [path.read_bytes() for path in oldest_first(folder)]
        assert b"".join(parts) == text * 20
        assert len(parts) >= 4
        assert all(part.endswith(b"\n") and len(part) <= 256 << 10 for part in parts)

    @given(
        limit=st.integers(1, 60), keep=st.integers(1, 4),
        pieces=st.lists(st.binary(max_size=90) | st.sampled_from([b"\n", b"a\nb\n"]), max_size=30),
    )  # fmt: skip
    def test_any_bytes_under_any_cap(self, tmp_path_factory, limit, keep, pieces):
        """The newest bytes are in the files whole, none is larger than the cap, and there are at most `keep`."""
        folder = tmp_path_factory.mktemp("logs")
        file = Rotated(str(folder / "x.log"), Place(str(folder)), limit, keep)
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                file.prepare()
                rest = rest[file.write(rest) :]
        file.close()
        parts = [path.read_bytes() for path in oldest_first(folder)]
        assert len(parts) <= keep
        assert all(len(part) <= limit for part in parts)
        assert b"".join(pieces).endswith(b"".join(parts))

    def test_only_so_many_files(self, folder, logs, said):
        """The oldest goes; one file in all is allowed, and files of a larger number before are removed."""
        sink = logs.sink(harness(log={"max": 10, "keep": 3}), RUN, False, said.append)
        for number in range(9):
            put(sink, b"line %d...\n" % number)
        assert [path.read_bytes() for path in oldest_first(folder)] == [b"line %d...\n"[:7] % n + b"\n" for n in ()] + [
            b"line 6...\n", b"line 7...\n", b"line 8...\n",
        ]  # fmt: skip
        sink.close()
        one = logs.sink(harness(log={"max": 10, "keep": 1}), RUN, False, said.append)
        put(one, b"line 9...\n")
        assert [path.read_bytes() for path in oldest_first(folder)] == [b"line 9...\n"]
        assert said == []

    def test_size_is_known_again_after_a_restart(self, folder, said):
        """A new daemon goes on with the file and its size: the cap holds over restarts."""
        for number in range(6):
            logs = Logs(str(folder))
            sink = logs.sink(harness(log={"max": 20, "keep": 9}), RUN, False, said.append)
            put(sink, b"number %d\n" % number)
            logs.close()
        assert {path.read_bytes() for path in oldest_first(folder)} == {
            b"number 0\nnumber 1\n", b"number 2\nnumber 3\n", b"number 4\nnumber 5\n",
        }  # fmt: skip

    @pytest.mark.fault("O3")
    @WAYS
    def test_a_file_that_was_moved_is_left_alone(self, sink, said, way):
        """After a rotation from outside, by renaming or deleting, a new file at the path gets what comes."""
        way(sink, b"one\n")
        os.rename(sink.path, f"{sink.path}.moved")
        way(sink, b"two\n")
        assert Path(sink.path).read_bytes() == b"two\n"
        assert Path(f"{sink.path}.moved").read_bytes() == b"one\n"
        os.unlink(sink.path)
        way(sink, b"three\n")
        assert Path(sink.path).read_bytes() == b"three\n"
        os.rename(f"{sink.path}.moved", sink.path)
        way(sink, b"four\n")
        assert Path(sink.path).read_bytes() == b"one\nfour\n"
        assert said == []

    @pytest.mark.fault("O3")
    def test_a_move_is_noticed_although_one_looks_seldom(self, folder, said):
        """A move right after a look, within one tick of the file system's clock, is found at the next look."""
        moment = [1_000]
        logs = Logs(str(folder))
        sink = logs.sink(harness(), RUN, False, said.append)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rotated, "now", lambda: moment[0])
            put(sink, b"one\n")
            moment[0] += rotated.LOOK
            put(sink, b"two\n")
            stamp = os.stat(folder).st_mtime_ns
            os.rename(sink.path, f"{sink.path}.moved")
            os.utime(folder, ns=(stamp, stamp))
            put(sink, b"three\n")
            moment[0] += rotated.LOOK
            put(sink, b"four\n")
        assert Path(f"{sink.path}.moved").read_bytes() == b"one\ntwo\nthree\n"
        assert Path(sink.path).read_bytes() == b"four\n"
        logs.close()

    @pytest.mark.fault("O3")
    @WAYS
    def test_a_file_that_was_cut_short_has_no_hole(self, sink, way):
        """Copied and cut from outside, the file goes on at its new end, without a gap of zeros."""
        way(sink, b"a long line of a program\n")
        os.truncate(sink.path, 0)
        way(sink, b"next\n")
        assert Path(sink.path).read_bytes() == b"next\n"

    @pytest.mark.fault("O3")
    @WAYS
    def test_a_folder_that_is_gone_comes_back(self, folder, sink, said, way):
        """Somebody removes the whole folder: the next byte makes it anew."""
        way(sink, b"one\n")
        os.unlink(sink.path)
        folder.rmdir()
        way(sink, b"two\n")
        assert Path(sink.path).read_bytes() == b"two\n"
        assert said == []


@pytest.mark.fault("E3")
@pytest.mark.fault("O1")
class TestFailure:
    """A log that cannot be written holds nobody up, and says afterwards what is missing."""

    @WAYS
    def test_full_disk(self, clock, full, logs, sink, said, way):
        """One warning; what cannot be written is counted; when there is room again, a line says how much is gone."""
        for _ in range(3):
            way(sink, b"lost bytes\n")
        assert said == [f"{sink.path}: No space left on device; its output is read on and lost"]
        assert (sink.failed, sink.lost) == ("No space left on device", 33)
        assert logs.counts() == {"open": 1, "failing": 1, "lost_bytes": 33}
        full()
        way(sink, b"too soon\n")
        assert sink.lost == 42
        clock[0] += 1_000
        way(sink, b"here again\n")
        text = Path(sink.path).read_text()
        assert MARK.match(text)[1] == "42 bytes are missing here: No space left on device"
        assert text.endswith(" --\nhere again\n")
        assert sink.failed is None
        sink.fail(OSError(errno.EIO, "Input/output error"))
        way(sink, b"12345\n")
        clock[0] += 1_000
        way(sink, b"and again\n")
        assert [text.split()[0] for text in MARK.findall(Path(sink.path).read_text())] == ["42", "6"]
        sink.close()
        assert logs.counts()["lost_bytes"] == 48

    def test_it_is_tried_less_and_less_often(self, clock, full, sink, said):
        """The pause doubles up to half a minute; another warning comes after a minute at the soonest."""
        tries, waits = [], []
        put(sink, b"x")
        for _ in range(120):
            clock[0] += 1_000
            before = sink._again
            put(sink, b"x")
            if sink._again != before:
                tries.append(clock[0])
        waits = [after - before for before, after in itertools.pairwise(tries)]
        assert waits[:5] == [2_000, 4_000, 8_000, 16_000, 30_000]
        assert len(said) == 2

    def test_a_file_in_the_way_of_the_folder(self, clock, folder, sink, said):
        """Where the folder cannot be made, the reason is that."""
        folder.parent.mkdir()
        folder.write_text("in the way")
        assert put(sink, b"x\n") == 0
        assert len(said) == 1
        assert "Not a directory" in said[0] or "cannot make" in said[0]
        folder.unlink()
        clock[0] += 1_000
        assert put(sink, b"y\n") == 2
        assert "2 bytes are missing here" in Path(sink.path).read_text()

    def test_rotation_that_is_refused(self, clock, folder, logs, said, monkeypatch):
        """A full file that cannot be renamed takes no more than its cap; it is tried again."""
        sink = logs.sink(harness(log={"max": 100, "keep": 2}), RUN, False, said.append)
        put(sink, b"x" * 98 + b"\n")

        def refuse(*_):
            raise PermissionError(errno.EACCES, "Permission denied")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", refuse)
            assert put(sink, b"more\n") == 0
        assert said == [f"{sink.path}: Permission denied; its output is read on and lost"]
        clock[0] += 1_000
        put(sink, b"again\n")
        assert [path.name for path in oldest_first(folder)] == ["web.log.1", "web.log"]
        text = Path(sink.path).read_text()
        assert MARK.match(text)[1] == "5 bytes are missing here: Permission denied"
        assert text.endswith(" --\nagain\n")

    def test_notes_wait_for_a_failing_file(self, clock, full, logs, sink):
        """What happens meanwhile is written when the file can be written, also if the program is silent."""
        put(sink, b"x\n")
        for number in range(20):
            sink.note(f"note {number}")
        full()
        clock[0] += 1_000
        logs.tidy()
        found = MARK.findall(Path(sink.path).read_text())
        assert found[0].startswith("2 bytes are missing")
        assert found[1:] == [f"note {number}" for number in range(4, 20)]

    def test_the_end_of_a_run_tries_once_more(self, full, sink):
        """The last note of a run gets through if the disk has room by then, however soon that is."""
        put(sink, b"x\n")
        sink.note("over")
        full()
        sink.close()
        assert MARK.findall(Path(sink.path).read_text())[1] == "over"

    def test_splice_that_is_refused_is_no_failure(self, sink, said):
        """A file that cannot be spliced to is written."""
        assert sink.room() > 0
        sink.fail(OSError(errno.EINVAL, "Invalid argument"))
        assert (sink.failed, sink.splices, sink.room()) == (None, False, 0)
        assert put(sink, b"x\n") == 2
        assert said == []


class TestNotes:
    """Lines of ours."""

    def test_a_note_is_one_line(self, sink):
        """It begins on a line of its own, and nothing in it breaks the line."""
        sink.note("begin")
        put(sink, b"half a line")
        sink.note("a\nb\x1b[2J\rc")
        put(sink, b"next\n")
        lines = Path(sink.path).read_text().splitlines()
        assert [MARK.match(line + "\n")[1] for line in (lines[0], lines[2])] == ["begin", "a?b?[2J?c"]
        assert (lines[1], lines[3:]) == ("half a line", ["next"])

    def test_at_a_terminal_a_line_ends_as_there(self, logs, said):
        """In the log of a terminal it ends with CR LF, so that it is one when shown raw."""
        sink = logs.sink(harness(pty=True), RUN, False, said.append)
        put(sink, b"half")
        sink.note("x")
        data = Path(sink.path).read_bytes()
        assert data.startswith(b"half\r\n-- longwatch ")
        assert data.endswith(b" --\r\n")

    def test_a_note_is_not_cut_by_a_rotation(self, folder, logs, said):
        """A note that does not fit goes into the next file, whole."""
        sink = logs.sink(harness(log={"max": 100, "keep": 3}), RUN, False, said.append)
        put(sink, b"x" * 80 + b"\n")
        sink.note("over")
        assert [len(path.read_bytes().splitlines()) for path in oldest_first(folder)] == [1, 1]

    def test_words_of_runs_are_found_again(self):
        """What begins and what ends a run is told from each other, from other runs, and from what a program prints."""
        begin, end = (marks.mark(text, 0) for text in (marks.started(RUN, 3), marks.ended(RUN, "exited 0")))
        assert begin == b"-- longwatch 1970-01-01T00:00:00.000Z: started web-abcdef (attempt 3) --"
        assert marks.begins(begin + b"\r\n", RUN)
        assert marks.begins(begin)
        assert marks.started_run(begin) == RUN
        assert marks.ends(end, RUN)
        assert marks.ends(end)
        for line in (
            b"started web-abcdef (x",
            b"-- longwatch started web-abcdef --",
            b"",
            b"-- longwatch  --",
        ):
            assert marks.text_of(line) is None
            assert not marks.begins(line)
            assert not marks.ends(line)
            assert marks.started_run(line) is None
        assert not marks.begins(begin, "web-abcde")
        assert not marks.ends(end, "web-abcdee")
        assert not marks.begins(end)


class TestSecrets:
    """Secrets of the file reach no log."""

    @pytest.mark.capability("CAP-132")
    @WAYS
    def test_a_secret_cut_in_two_is_not_written(self, logs, said, way):
        """The bytes go through the redactor, whatever the pieces; what it held back comes with the next note."""
        sink = logs.sink(harness(), RUN, False, said.append, Redactor(["hunter2-secret"]))
        for piece in (b"a hunter2", b"-secret b\n", b"end hunter2-sec"):
            way(sink, piece)
        sink.note("over")
        text = Path(sink.path).read_text()
        assert text.startswith("a [redacted] b\nend hunter2-sec\n-- longwatch")

    def test_what_is_held_back_is_written_at_the_end(self, logs, said):
        """The end of the run ends the waiting."""
        sink = logs.sink(harness(), RUN, False, said.append, Redactor(["hunter2-secret"]))
        put(sink, b"hunter2")
        assert not os.path.exists(sink.path)
        sink.close()
        assert Path(sink.path).read_bytes() == b"hunter2"


def oldest_first(folder):
    """Return the files of one log."""
    return sorted(
        Path(folder).glob("*.log*"), key=lambda path: -int(path.suffix[1:]) if path.suffix != ".log" else 0
    )


def test_a_killed_writer_loses_no_line_and_doubles_none(tmp_path):
    """The bytes go from the pipe to the file inside the kernel: whenever the daemon is killed, each line is there once."""
    body = (
        "import os, sys\n"
        "from longwatch.core.harness import Harness\n"
        "from longwatch.runtime.conduit import Conduit, Mirror\n"
        "from longwatch.runtime.logs import Logs\n"
        "from longwatch.posix.reactor import Reactor\n"
        f"logs, reactor = Logs({str(tmp_path)!r}), Reactor()\n"
        f"sink = logs.sink(Harness('web', ('x',), log={{'max': 4000, 'keep': 10000}}), {RUN!r}, True, print)\n"
        "os.set_blocking(0, False)\n"
        "Conduit(reactor, 0, sink, Mirror())\n"
        "while True: reactor.poll(None)\n"
    )

    def written():
        return sum(path.stat().st_size for path in tmp_path.glob("*"))

    reading, writing = os.pipe()
    numbers = 0
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", body], stdin=reading) as daemon, helpers.ending(daemon):
            before = written()
            for _ in range(300):
                os.write(writing, b"%06d\n" % numbers)
                numbers += 1
            helpers.wait_until(lambda before=before: written() > before)
            for _ in range(200):
                os.write(writing, b"%06d\n" % numbers)
                numbers += 1
            daemon.send_signal(signal.SIGKILL)
    os.close(writing)
    with subprocess.Popen([sys.executable, "-c", body], stdin=reading) as daemon, helpers.ending(daemon):
        helpers.wait_until(lambda: written() == 7 * numbers)
    os.close(reading)
    lines = b"".join(path.read_bytes() for path in oldest_first(tmp_path)).split()
    assert [int(line) for line in lines] == list(range(numbers))
