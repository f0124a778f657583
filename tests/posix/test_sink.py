"""Where bytes go: sinks that never block the loop, logs that never end the run, captures of fixed size."""

import errno
import os
import select
import socket
import sys

import pytest

import helpers
from longwatch.posix import sink as sink_module
from longwatch.posix.capture import Capture, text
from longwatch.posix.sink import Log, Sink


@pytest.fixture
def pipe():
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        if fd is not None:
            os.close(fd)


def view(data):
    return memoryview(data)


def fill(sink):
    """Write until the sink takes nothing; return how much it took."""
    total = 0
    while count := sink.write(view(b"x" * 65536)):
        total += count
    return total


def drain(fd):
    """Read what is there; return how much it was."""
    total = 0
    while select.select([fd], [], [], 0)[0]:
        total += len(os.read(fd, 65536))
    return total


class TestSink:
    """Each kind of descriptor has its way of taking what fits and no more."""

    def test_full_pipe_takes_nothing(self, pipe):
        """A pipe without a reader fills up, takes nothing more, and goes on when it is read."""
        sink = Sink(pipe[1])
        assert fill(sink) == 65536
        assert not sink.broken
        assert drain(pipe[0]) == 65536
        assert sink.write(view(b"more")) == 4
        sink.close()

    def test_our_flags_are_not_touched(self, pipe):
        """The inherited descriptor stays blocking, for others share it."""
        sink = Sink(pipe[1])
        fill(sink)
        assert os.get_blocking(pipe[1])
        sink.close()

    @pytest.mark.parametrize("nowait", [True, False])
    def test_pipe_that_cannot_be_opened_anew(self, pipe, monkeypatch, nowait):
        """After `su` a pipe cannot be opened anew; it still never blocks, with the kernel's help or without."""

        def refuse(fd, mode):
            raise PermissionError(errno.EACCES, "no")

        monkeypatch.setattr(sink_module, "reopen", refuse)
        if not nowait:
            monkeypatch.setattr(sink_module, "_NOWAIT", 1 << 30)
        sink = Sink(pipe[1])
        assert sink.fileno() == pipe[1]
        assert fill(sink) == 65536
        drain(pipe[0])
        assert sink.write(view(b"more")) == 4
        assert os.get_blocking(pipe[1])
        sink.close()
        assert os.fstat(pipe[1])

    def test_reader_gone(self, pipe):
        """A pipe whose reader is gone is broken, and takes nothing for ever."""
        sink = Sink(pipe[1])
        os.close(pipe[0])
        pipe[0] = None
        assert sink.write(view(b"x")) == 0
        assert sink.broken
        assert sink.failed is None
        assert sink.write(view(b"x")) == 0
        sink.close()

    def test_full_device(self):
        """A full device fails once with its reason; it is not called broken."""
        fd = os.open("/dev/full", os.O_WRONLY)
        sink = Sink(fd)
        assert sink.write(view(b"x")) == 0
        assert (sink.broken, sink.failed) == (False, "No space left on device")
        os.close(fd)

    def test_socket(self):
        """A socket that is full takes nothing, and one whose peer is gone is broken."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sink = Sink(ours.fileno())
            assert not sink.splices
            assert fill(sink) > 0
            assert os.get_blocking(ours.fileno())
            theirs.close()
            assert sink.write(view(b"x")) == 0
            assert sink.broken

    def test_terminal(self):
        """A terminal is opened anew for us; it takes bytes and is not spliced to."""
        master, slave = os.openpty()
        sink = Sink(slave)
        assert sink.fileno() != slave
        assert not sink.splices
        assert sink.write(view(b"word\n")) == 5
        assert helpers.wait_until(lambda: os.read(master, 100)) == b"word\r\n"
        sink.close()
        os.close(master)
        os.close(slave)

    def test_regular_file_and_null(self, tmp_path):
        """Files and the null device take everything."""
        for path in (tmp_path / "out", "/dev/null"):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
            sink = Sink(fd)
            assert sink.splices
            assert sink.write(view(b"x" * 100_000)) == 100_000
            sink.close()
            os.close(fd)

    def test_closed_descriptor(self):
        """A descriptor that is not open is an error at once."""
        with pytest.raises(OSError, match="Bad file"):
            Sink(999)


class TestLog:
    """A copy of everything that stays bounded and never ends the run."""

    @pytest.mark.fault("O3")
    def test_bounded_and_rotated_between_lines(self, tmp_path):
        """A small cap keeps two files within twice the cap, cut between lines, with the newest bytes in them."""
        path = tmp_path / "log"
        log = Log(str(path), 1000)
        lines = [b"line %04d\n" % n for n in range(500)]
        for line in lines:
            log.write(view(line))
        log.close()
        assert sorted(os.listdir(tmp_path)) == ["log", "log.1"]
        both = (tmp_path / "log.1").read_bytes() + path.read_bytes()
        assert path.stat().st_size <= 1000
        assert (tmp_path / "log.1").stat().st_size <= 1000
        assert b"".join(lines).endswith(both)
        assert both.startswith(b"line ")

    def test_one_write_larger_than_the_cap(self, tmp_path):
        """A burst larger than the cap, without a line end, is cut; both files stay within it."""
        path = tmp_path / "log"
        log = Log(str(path), 1000)
        data = os.urandom(4500).replace(b"\n", b"x")
        log.write(view(data))
        assert path.read_bytes() == data[4000:]
        assert (tmp_path / "log.1").read_bytes() == data[3000:4000]
        log.close()

    @pytest.mark.fault("O3")
    def test_moved_away(self, tmp_path):
        """A file that was moved by hand is left alone, and a new one appears."""
        path = tmp_path / "log"
        log = Log(str(path))
        log.write(view(b"old\n"))
        os.rename(path, tmp_path / "moved")
        log.write(view(b"new\n"))
        log.close()
        assert (tmp_path / "moved").read_bytes() == b"old\n"
        assert path.read_bytes() == b"new\n"

    def test_appends(self, tmp_path):
        """What was in the file stays there, and counts for the cap."""
        path = tmp_path / "log"
        path.write_bytes(b"before\n")
        log = Log(str(path), 12)
        log.write(view(b"after\n"))
        log.close()
        assert path.read_bytes() == b"after\n"
        assert (tmp_path / "log.1").read_bytes() == b"before\n"

    @pytest.mark.fault("E3")
    def test_full_device(self):
        """A full device costs the bytes and gives one warning, not one per write; it is never rotated."""
        warnings = []
        log = Log("/dev/full", 10, warnings.append)
        for _ in range(5):
            log.write(view(b"x" * 100))
        assert warnings == ["/dev/full: No space left on device"]
        assert log.lost == 500
        log.close()

    def test_folder_gone(self, tmp_path):
        """When the folder is deleted the bytes are lost, and writing goes on when it is back."""
        folder = tmp_path / "logs"
        folder.mkdir()
        warnings = []
        log = Log(str(folder / "log"), 0, warnings.append)
        (folder / "log").unlink()
        folder.rmdir()
        log.write(view(b"lost"))
        assert log.lost == 4
        assert len(warnings) == 1
        folder.mkdir()
        log.write(view(b"kept"))
        assert (folder / "log").read_bytes() == b"kept"
        log.close()
        log.close()
        log.write(view(b"x"))
        assert log.lost == 5

    def test_refused_at_first(self, tmp_path):
        """What cannot be opened at first is an error: a folder, a missing one, a FIFO that nobody reads."""
        os.mkfifo(tmp_path / "fifo")
        for path in (tmp_path, tmp_path / "no" / "log", tmp_path / "fifo"):
            with pytest.raises(OSError):
                Log(str(path))


class TestCapture:
    """The first and the last bytes, exactly."""

    @pytest.mark.parametrize("total", [0, 1, 9, 10, 11, 29, 30, 31, 55, 1000])
    def test_head_tail_and_gap(self, total):
        """Head, gap and tail together are the stream, for every length."""
        data = os.urandom(total)
        capture = Capture(10, 20)
        at = 0
        while at < total:
            count = min(7, total - at, len(capture.space()))
            capture.space()[:count] = data[at : at + count]
            assert capture.took(count) == data[at : at + count]
            at += count
        head, tail, gap = capture.captured()
        assert head == data[:10]
        assert len(head) + gap + len(tail) == total
        assert tail == (data[total - len(tail) :] if tail else b"")
        assert len(tail) == max(0, min(20, total - 10))

    def test_no_memory_before_the_first_byte(self):
        """Nothing was written: nothing is held."""
        assert Capture().captured() == (b"", b"", 0)

    @pytest.mark.fault("O2")
    def test_characters_on_the_border(self):
        """A character that lies across the border of head and tail is whole as long as nothing is missing."""
        data = "aä€😀z".encode()
        for cut in range(len(data) + 1):
            assert text(data[:cut], data[cut:], 0) == "aä€😀z"

    @pytest.mark.fault("O2")
    def test_characters_cut_by_the_gap(self):
        """Characters that the gap cut are left out and counted, never shown as damaged."""
        data = "😀€ä".encode()
        for end in range(len(data) + 1):
            for start in range(len(data) + 1):
                shown = text(data[:end], data[start:], 5)
                assert "\ufffd" not in shown
        assert text(b"a\n", b"b", 5) == "a\n[... 5 bytes left out ...]\nb"
        assert text(b"a\xc3", b"\xa4b", 5) == "a\n[... 7 bytes left out ...]\nb"

    def test_what_is_no_text(self):
        """Bytes that are no UTF-8 become replacement marks."""
        assert text(b"\xff\xfe", b"", 0) == "\ufffd\ufffd"
        assert text(b"\xffa", b"a\xff", 1).count("\ufffd") == 2


def test_nothing_heavy_is_loaded():
    """What a start needs loads none of the modules that cost more than the interpreter's own start."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from longwatch.posix import reactor, spawn, pump, sink, gears, capture, terminal, libc\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = helpers.run_command([sys.executable, "-I", "-c", code], measured=False)
    loaded = set(done.out.split())
    barred = "re enum typing functools contextlib collections dataclasses subprocess json signal argparse"
    barred += (
        " pathlib logging asyncio threading shutil tempfile socket ctypes selectors __future__ struct types"
    )
    # Our own neighbours may still load these.
    assert loaded.isdisjoint(set(barred.split()) - {"__future__"}), done.err
