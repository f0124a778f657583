"""A stream on its way into its log: moved or looked at first, and never taken before it is written."""

import os
import pty
import tty
from pathlib import Path

import pytest

import helpers
from longwatch.core.harness import Harness
from longwatch.posix.reactor import Reactor
from longwatch.runtime.conduit import Conduit, Mirror, Nowhere
from longwatch.runtime.logs import Logs


class Stage:
    """One conduit between a pipe and a log."""

    def __init__(self, folder, *, relayed=False, **log):
        self.reactor, self.mirror, self.warned = Reactor(), Mirror(), []
        self.logs = Logs(str(folder))
        self.log = self.logs.sink(Harness("a", ("x",), log=log), "a-abcdef", False, self.warned.append)
        if relayed:
            source, self.end = pty.openpty()
            tty.setraw(self.end)
            self.relay = os.pipe()
        else:
            source, self.end = os.pipe()
            self.relay = None
        os.set_blocking(source, False)
        self.ended = []
        self.conduit = Conduit(
            self.reactor, source, self.log, self.mirror, self.relay, on_end=lambda: self.ended.append(1)
        )

    def written(self):
        folder = Path(self.log.path).parent
        older = sorted(folder.glob("*.log.*"), key=lambda path: -int(path.suffix[1:]))
        return b"".join(path.read_bytes() for path in (*older, Path(self.log.path)))

    def write(self, data):
        os.write(self.end, data)
        self.reactor.poll(1_000)
        while self.reactor.poll(0):
            pass

    def close(self):
        if not self.conduit.ended:
            self.conduit.finish()
        for fd in self.relay or ():
            os.close(fd)
        self.log.close()
        self.logs.close()
        self.mirror.close()
        self.reactor.close()


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def stage(request, tmp_path):
    made = Stage(tmp_path / "logs", relayed=request.param)
    yield made
    made.close()
    os.close(made.end) if made.end >= 0 else None


def test_bytes_go_into_the_log_and_move_the_clock(stage):
    """What comes is in the log at once, stamped, and the last of it can be shown."""
    stage.write(b"one\n")
    stage.write(b"two\n")
    assert stage.written() == b"one\ntwo\n"
    assert (stage.conduit.bytes, stage.conduit.count, stage.conduit.last > 0) == (8, 2, True)
    assert stage.conduit.captured() == (b"", b"one\ntwo\n", 0)


def test_who_looks_sees_everything_before_it_is_taken(stage):
    """A tap gets each byte; the log has it, too; the head is kept in memory."""
    seen = []
    stage.conduit.taps.append(lambda chunk: seen.append(bytes(chunk)))
    stage.write(b"one\n")
    stage.write(b"two\n")
    assert b"".join(seen) == stage.written() == b"one\ntwo\n"
    assert stage.conduit.captured()[0] == b"one\ntwo\n"
    stage.conduit.taps.clear()
    stage.write(b"three\n")
    assert stage.written() == b"one\ntwo\nthree\n"


def test_the_end_of_the_stream_is_told_once_when_all_is_written(stage):
    """What was still under way is in the log."""
    os.write(stage.end, b"last words\n")
    os.close(stage.end)
    stage.end = -1
    helpers.wait_until(lambda: stage.reactor.poll(10) or stage.ended)
    while stage.reactor.poll(0):
        pass
    assert (stage.ended, stage.written()) == ([1], b"last words\n")


def test_a_log_that_cannot_be_written_does_not_stop_the_reading(tmp_path):
    """What it does not take is lost and counted, and the program goes on."""
    (tmp_path / "logs").write_text("in the way")
    stage = Stage(tmp_path / "logs")
    for _ in range(40):
        stage.write(b"x" * 4000)
    assert (stage.conduit.bytes, stage.conduit.lost + stage.log.lost >= 160_000, bool(stage.warned)) == (
        160_000,
        True,
        True,
    )
    stage.close()
    os.close(stage.end)


def test_files_are_cut_between_lines(tmp_path):
    """Many small files, each of whole lines, none missing and none twice."""
    stage = Stage(tmp_path / "logs", max=1000, keep=1000)
    for i in range(500):
        stage.write(b"line %d\n" % i)
    assert stage.written() == b"".join(b"line %d\n" % i for i in range(500))
    names = os.listdir(tmp_path / "logs")
    assert len(names) > 4
    assert all((tmp_path / "logs" / name).read_bytes().endswith(b"\n") for name in names)
    stage.close()
    os.close(stage.end)


def test_much_is_said_to_be_much(stage):
    """A turn that brought a lot asks not to be made to wait."""
    os.write(stage.end, b"x" * 3000)
    little = stage.conduit.ready()
    assert little is (stage.relay is not None)


def test_a_terminal_that_cannot_be_moved_from_is_read(tmp_path, monkeypatch):
    """On a kernel without it the bytes take the long way."""
    stage = Stage(tmp_path / "logs", relayed=True)
    real = os.splice

    def splice(source, target, count, **more):
        if source == stage.conduit.fd:
            raise OSError(22, "Invalid argument")
        return real(source, target, count, **more)

    monkeypatch.setattr(os, "splice", splice)
    stage.write(b"by hand\n")
    assert stage.written() == b"by hand\n"
    stage.close()
    os.close(stage.end)


def test_nowhere_takes_everything():
    """A harness without a log is read all the same."""
    reactor, mirror, nowhere = Reactor(), Mirror(), Nowhere()
    source, end = os.pipe()
    os.set_blocking(source, False)
    conduit = Conduit(reactor, source, nowhere, mirror)
    os.write(end, b"gone\n")
    reactor.poll(0)
    conduit.taps.append(lambda chunk: None)
    os.write(end, b"seen\n")
    reactor.poll(0)
    assert (conduit.bytes, conduit.lost) == (10, 0)
    conduit.finish()
    for thing in (nowhere, mirror, reactor):
        thing.close()
    os.close(end)
