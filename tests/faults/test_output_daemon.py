"""Output of harnesses: whatever happens to their logs, they run on, and what can be kept is kept."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harnesses
import helpers
from longwatch.core.harness import Harness
from longwatch.posix import rotated
from longwatch.posix.lane import Lane
from longwatch.posix.process import Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import MERGED, NULL, PTY, Launch, spawn
from longwatch.runtime.conduit import Conduit, Mirror
from longwatch.runtime.logs import Logs
from longwatch.testing import children

harness, project = harnesses.harness_fixture, harnesses.project_fixture
MB = 1 << 20


class Followed:
    """A program, its log and the loop between them."""

    def __init__(self, folder, argv, *, pty=False, log=None):
        self.reactor, self.said, self.timers = Reactor(), [], []
        self.lane = Lane(self.reactor, lambda *timer: self.timers.append(timer))
        self.logs, self.mirror = Logs(str(folder)), Mirror()
        self.sink = self.logs.sink(
            Harness("web", ("x",), pty=pty, log=log), "web-aaaaaa", False, self.said.append
        )
        self.relay = os.pipe() if pty else None
        child = spawn(Launch(argv, stdin=NULL, output=PTY if pty else MERGED))
        self.process = Process(child, self.reactor, {}, True, make=self._conduit, shared=True)

    def _conduit(self, _, fd, on_end):
        return Conduit(self.lane, fd, self.sink, self.mirror, self.relay, on_end=on_end)

    def finish(self):
        """Follow it to its end; return how it ended."""
        end = time.monotonic() + 40
        while not self.process.over:
            assert time.monotonic() < end, "it is not over"
            timers, self.timers = self.timers, []
            for _, callback in timers:
                callback(0)
            self.reactor.poll(20)
        return self.process.ended

    def close(self):
        self.process.close()
        self.sink.close()
        self.lane.close()
        self.reactor.close()
        self.mirror.close()
        for fd in self.relay or ():
            os.close(fd)


@pytest.fixture
def follow(tmp_path):
    """Return a starter of followed programs, which leave no descriptor."""
    made = []
    held = helpers.descriptors()

    def start(argv, **options):
        made.append(Followed(tmp_path / "logs", argv, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()
    assert helpers.descriptors() <= held


def script(text):
    return ["sh", "-c", text]


@pytest.mark.fault("E3")
@pytest.mark.parametrize("pty", [False, True], ids=["pipe", "terminal"])
def test_a_full_disk_blocks_no_program(tmp_path, follow, pty):
    """A program that prints more than any pipe holds comes to its end although nothing can be written."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "web.log").symlink_to("/dev/full")
    followed = follow(script("head -c 300000 /dev/zero; exit 3"), pty=pty)
    assert followed.finish() == (3, None)
    assert followed.said == [f"{followed.sink.path}: No space left on device; its output is read on and lost"]
    assert followed.sink.lost == 300_000
    assert followed.process.pumps["stdout"].bytes == 300_000


@pytest.mark.fault("E3")
def test_a_log_that_vanishes_meanwhile(tmp_path, follow, monkeypatch):
    """The folder is removed under a program that prints: it prints on, and the rest is in a new file."""
    monkeypatch.setattr(rotated, "LOOK", 0)
    gate = tmp_path / "gate"
    followed = follow(script(f"echo one; while ! test -e {gate}; do sleep 0.01; done; echo two"))
    helpers.wait_until(lambda: followed.reactor.poll(10) and followed.process.pumps["stdout"].bytes)
    os.unlink(followed.sink.path)
    (tmp_path / "logs").rmdir()
    gate.touch()
    assert followed.finish() == (0, None)
    assert Path(followed.sink.path).read_bytes() == b"two\n"
    assert followed.said == []


@pytest.mark.fault("O1")
@pytest.mark.fault("O3")
def test_a_flood_is_capped_in_memory_and_on_disk(tmp_path, follow):
    """Far more than a log may hold passes; what is kept is the end of it, whole, and little memory is taken."""
    followed = follow(children.flood(60 * MB), log={"max": MB, "keep": 3})
    before = resident()
    assert followed.finish() == (0, None)
    assert resident() - before < 20 * 1024
    assert followed.process.pumps["stdout"].bytes == 60 * MB
    files = list((tmp_path / "logs").iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size <= MB for path in files)
    assert sum(path.stat().st_size for path in files) > 2 * MB
    assert followed.sink.lost == 0


@pytest.mark.fault("O1")
def test_no_line_of_a_judged_flood_is_lost_over_rotations(tmp_path, follow):
    """Where somebody looks at the bytes they take another way into the file: each line is there once, in order."""
    followed = follow(script("seq 1 60000"), log={"max": 30_000, "keep": 99})
    seen = []
    followed.process.pumps["stdout"].taps.append(lambda chunk: seen.append(len(chunk)))
    assert followed.finish() == (0, None)
    files = sorted(
        (tmp_path / "logs").iterdir(), key=lambda path: -int(path.suffix[1:]) if path.suffix != ".log" else 0
    )
    text = b"".join(path.read_bytes() for path in files)
    assert [int(line) for line in text.split()] == list(range(1, 60001))
    assert sum(seen) == len(text)
    assert len(files) > 5


@pytest.mark.fault("N1")
def test_the_end_of_a_terminal_is_an_ordinary_end(follow):
    """The last words of a program on a terminal are in its log, and its end is no failure of anything."""
    followed = follow(script("printf 'last words'; exit 7"), pty=True)
    assert followed.finish() == (7, None)
    assert Path(followed.sink.path).read_bytes() == b"last words"
    assert followed.said == []


@pytest.mark.fault("A3")
def test_a_reader_that_is_stopped_is_nothing_to_the_program(harness):
    """Whoever follows a log may hang for as long as he likes, or die: the program and its log go on."""
    running = harness(
        "import itertools, time\nfor n in itertools.count(): print(n, flush=True); time.sleep(0.005)"
    )
    argv = [helpers.LONGWATCH, "logs", "-f", "web"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as reader, helpers.ending(reader):
        assert reader.stdout is not None
        assert reader.stdout.readline()
        reader.send_signal(signal.SIGSTOP)
        before = running.ask("count")
        helpers.wait_until(lambda: running.ask("count") > before + 20)
        reader.kill()
    after = running.ask("count")
    helpers.wait_until(lambda: running.ask("count") > after)


def resident():
    """Return how much memory this process holds, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
