"""Streams: byte for byte through both gears, whatever the reader does, in fixed memory."""

import fcntl
import hashlib
import os
import select
import signal
import subprocess
import sys
import termios
import threading

import pytest

import helpers
from longwatch.posix import gears, now
from longwatch.posix import pump as pump_module
from longwatch.posix.judge import LineJudge
from longwatch.posix.pump import ALIVE, BYTES, COUNT, LAST, Pump
from longwatch.posix.reactor import Reactor
from longwatch.posix.sink import Log, Sink
from longwatch.posix.spawn import PTY, Launch, spawn

MIB = 1 << 20


@pytest.fixture
def reactor():
    made = Reactor()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """Offer the fast gear, for this test only."""
    monkeypatch.setattr(Pump, "gearbox", None)
    gears.offer()


@pytest.fixture
def slow(fast, monkeypatch):
    """Leave only the slow gear."""
    monkeypatch.setattr(Pump, "gearbox", None)


class Source:
    """A pipe whose read end a pump gets, and a thread that writes into it."""

    def __init__(self, size=MIB):
        self.fd, self.write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, size)

    def write(self, data):
        os.write(self.write_fd, data)

    def close(self):
        os.close(self.write_fd)

    def feed(self, data, piece=65536):
        """Write all of it in a thread, and close."""

        def work():
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self.write_fd, rest[:piece]) :]
            except BrokenPipeError:
                pass
            self.close()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


class Target:
    """A pipe that a sink writes to, and a thread that reads it."""

    def __init__(self):
        self.fd, write_fd = os.pipe()
        self.write_fd = write_fd
        self.data = bytearray()
        self.thread = None

    def start(self):
        def work():
            while chunk := os.read(self.fd, 65536):
                self.data += chunk

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def close(self):
        os.close(self.write_fd)
        if self.thread:
            self.thread.join()
        os.close(self.fd)


def drive(reactor, *pumps, deadline=30.0):
    """Run the loop until all pumps have ended."""
    end = now() + int(deadline * 1000)
    while not all(pump.ended for pump in pumps):
        assert now() < end, "the pump did not end"
        reactor.poll(1000)


def check_capture(pump, data, head=65536, tail=262144):
    """The capture is exactly the stream's head and tail, and the numbers add up."""
    got_head, got_tail, gap = pump.captured()
    assert got_head == data[:head]
    assert len(got_head) + gap + len(got_tail) == len(data) == pump.bytes
    assert len(got_tail) == max(0, min(tail, len(data) - head))
    assert data.endswith(got_tail)


def unread(fd):
    """Return how many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def engaged(pump):
    return pump._gear is not None


def test_a_line_is_stamped_and_passed_on(reactor):
    """A line reaches the sink at once, with its time, its count and its size."""
    source, target = Source(), Target()
    ended = []
    pump = Pump(reactor, source.fd, Sink(target.write_fd), on_end=lambda: ended.append(1))
    assert (pump.last, pump.count, pump.bytes, pump.alive) == (0, 0, 0, 0)
    before = now()
    source.write(b"line\n")
    reactor.poll(1000)
    assert os.read(target.fd, 100) == b"line\n"
    assert before <= pump.last == pump.alive <= now()
    assert (pump.count, pump.bytes, pump.ended) == (1, 5, False)
    source.close()
    drive(reactor, pump)
    assert ended == [1]
    assert pump.captured() == (b"line\n", b"", 0)
    pump.finish()
    assert ended == [1]
    target.close()


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 327680, 327681, 3 * MIB])
@pytest.mark.parametrize("piece", [100_000, 8192])
def test_identical_in_the_slow_gear(reactor, slow, size, piece):
    """Random bytes arrive identically, in order, and so does what is captured of them."""
    data = os.urandom(size)
    source, target = Source(), Target()
    target.start()
    pump = Pump(reactor, source.fd, Sink(target.write_fd))
    thread = source.feed(data, piece)
    drive(reactor, pump)
    thread.join()
    pump.sink.close()
    target.close()
    assert target.data == data
    check_capture(pump, data)


@pytest.mark.parametrize("piece", [65536, 8192, 5000, 4097])
def test_identical_in_the_fast_gear(reactor, tmp_path, piece):
    """Moved inside the kernel, random bytes and their tail are identical as well, whatever the writes' size."""
    data = os.urandom(24 * MIB + 12_345)
    (tmp_path / "data").write_bytes(data)
    child = spawn(Launch(["dd", f"if={tmp_path}/data", f"bs={piece}", "status=none"], output="merged"))
    target = Target()
    target.start()
    pump = Pump(reactor, child.stdout_fd, Sink(target.write_fd))
    was_engaged = False
    while not pump.ended:
        if not was_engaged:
            # Until it has shifted, let the pipe fill up, as a busy machine would.
            helpers.wait_until(lambda: unread(pump.fd) > 300_000)
        reactor.poll(1000)
        was_engaged = was_engaged or engaged(pump)
    assert helpers.wait_until(child.peek) == (0, None)
    child.reap()
    child.close()
    pump.sink.close()
    target.close()
    assert was_engaged
    assert hashlib.sha256(target.data).digest() == hashlib.sha256(data).digest()
    check_capture(pump, data)


@pytest.mark.slow
def test_tail_after_a_hundred_mebibytes(reactor):
    """After more than 100 MiB of random bytes from a child the last 256 KiB are the very last, and nothing is lost."""
    script = (
        "import os,random\n"
        "r = random.Random(7); n = 0\n"
        "block = r.randbytes(1 << 20)\n"
        "for i in range(110):\n"
        "    block = block[i * 97 % 4096:] + r.randbytes(i * 97 % 4096)\n"
        "    rest = memoryview(block)\n"
        "    while rest: rest = rest[os.write(1, rest):]\n"
    )
    child = spawn(Launch([sys.executable, "-c", script], output="merged"))
    target = Target()
    target.start()
    pump = Pump(reactor, child.stdout_fd, Sink(target.write_fd))
    drive(reactor, pump)
    helpers.wait_until(child.peek)
    assert child.reap() == (0, None)
    child.close()
    pump.sink.close()
    target.close()
    assert len(target.data) == 110 * MIB
    check_capture(pump, bytes(target.data))


def test_capture_looked_at_while_it_runs(reactor):
    """Looking at the capture in the middle changes nothing of what follows."""
    data = os.urandom(30 * MIB)
    source, target = Source(), Target()
    target.start()
    pump = Pump(reactor, source.fd, Sink(target.write_fd))
    thread = source.feed(data)
    looks = 0
    while not pump.ended:
        reactor.poll(1000)
        if engaged(pump):
            looks += 1
            head, tail, gap = pump.captured()
            assert head == data[:65536]
            assert tail == data[len(head) + gap : pump.bytes]
    thread.join()
    pump.sink.close()
    target.close()
    assert looks
    assert target.data == data
    check_capture(pump, data)


def test_capture_only(reactor):
    """Without a sink the fast gear keeps the tail at the kernel's speed, exactly."""
    data = os.urandom(20 * MIB + 77)
    source = Source()
    pump = Pump(reactor, source.fd)
    thread = source.feed(data, 7000)
    drive(reactor, pump)
    thread.join()
    check_capture(pump, data)


def test_tiny_writes_leave_the_fast_gear(reactor):
    """A stream that falls into dribbling goes back to the slow gear, and its tail stays exact."""
    data = os.urandom(8 * MIB)
    source, target = Source(), Target()
    target.start()
    pump = Pump(reactor, source.fd, Sink(target.write_fd))
    rest = memoryview(data)
    written = 0
    # This thread reads as well: a write that waited for room would wait for itself.
    os.set_blocking(source.write_fd, False)
    while not engaged(pump):
        try:
            written += os.write(source.write_fd, rest[written : written + 262144])
        except BlockingIOError:
            pass
        reactor.poll(1000)
    os.set_blocking(source.write_fd, True)
    small = 0
    while engaged(pump):
        source.write(bytes(rest[written : written + 10]))
        written += 10
        small += 1
        assert small < 1000
        reactor.poll(1000)
    source.close()
    drive(reactor, pump)
    pump.sink.close()
    target.close()
    assert target.data == data[:written]
    check_capture(pump, data[:written])


@pytest.mark.parametrize("gear", ["fast", "slow"])
def test_append_only_file(reactor, tmp_path, monkeypatch, gear):
    """A file opened to append, which cannot be spliced to, gets every byte once."""
    if gear == "slow":
        monkeypatch.setattr(Pump, "gearbox", None)
    path = tmp_path / "out"
    path.write_bytes(b"before")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    data = os.urandom(9 * MIB)
    source = Source()
    pump = Pump(reactor, source.fd, Sink(fd))
    thread = source.feed(data)
    drive(reactor, pump)
    thread.join()
    os.close(fd)
    assert path.read_bytes() == b"before" + data
    check_capture(pump, data)


def test_ordinary_file(reactor, tmp_path):
    """A file opened to write is spliced to, at the position that others share."""
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"first")
    data = os.urandom(9 * MIB)
    source = Source()
    pump = Pump(reactor, source.fd, Sink(fd))
    thread = source.feed(data)
    drive(reactor, pump)
    thread.join()
    os.write(fd, b"last")
    os.close(fd)
    assert (tmp_path / "out").read_bytes() == b"first" + data + b"last"


@pytest.mark.fault("O2")
def test_characters_cut_over_reads(reactor):
    """The bytes of one character that come one by one pass unchanged, and are whole in the capture."""
    source, target = Source(), Target()
    pump = Pump(reactor, source.fd, Sink(target.write_fd))
    word = "ä😀".encode()
    for byte in word:
        source.write(bytes([byte]))
        reactor.poll(1000)
    assert os.read(target.fd, 100) == word
    assert pump.captured()[0].decode() == "ä😀"
    source.close()
    drive(reactor, pump)
    pump.sink.close()
    target.close()


class TestBlockedReader:
    """Back-pressure: nothing lost, nothing reordered, and the loop goes on."""

    @pytest.mark.parametrize("gear", ["fast", "slow"])
    def test_stops_and_goes_on(self, reactor, monkeypatch, gear):
        """While the reader takes nothing the pump says since when; when it reads again all arrives in order."""
        if gear == "slow":
            monkeypatch.setattr(Pump, "gearbox", None)
        data = os.urandom(12 * MIB)
        source, target = Source(), Target()
        pump = Pump(reactor, source.fd, Sink(target.write_fd))
        thread = source.feed(data)
        got = bytearray()
        blocked = 0
        while not pump.ended:
            reactor.poll(20)
            if pump.blocked_since is not None:
                blocked += 1
                assert pump.blocked_since <= now()
                assert pump.bytes < len(data) or not thread.is_alive()
                got += os.read(target.fd, 777_777)
        thread.join()
        pump.sink.close()
        os.close(target.write_fd)
        while chunk := os.read(target.fd, MIB):
            got += chunk
        os.close(target.fd)
        assert blocked > 3
        assert pump.blocked_since is None
        assert got == data
        check_capture(pump, data)

    def test_the_other_stream_is_not_held_up(self, reactor):
        """While one reader is stuck the other stream flows."""
        one, two, stuck, free = Source(), Source(), Target(), Target()
        first, second = (
            Pump(reactor, one.fd, Sink(stuck.write_fd)),
            Pump(reactor, two.fd, Sink(free.write_fd)),
        )
        thread = one.feed(bytes(4 * MIB))
        while first.blocked_since is None:
            reactor.poll(1000)
        two.write(b"through")
        reactor.poll(1000)
        assert os.read(free.fd, 100) == b"through"
        assert not reactor.poll(5)
        first.finish()
        thread.join()
        two.close()
        drive(reactor, second)
        for target in (stuck, free):
            target.close()

    def test_ended_only_when_all_was_delivered(self, reactor):
        """The source's end is not the pump's end while the sink has not taken everything."""
        source, target = Source(), Target()
        pump = Pump(reactor, source.fd, Sink(target.write_fd))
        source.write(b"x" * 200_000)
        source.close()
        for _ in range(3):
            reactor.poll(5)
        assert not pump.ended
        target.start()
        drive(reactor, pump)
        pump.sink.close()
        target.close()
        assert len(target.data) == 200_000

    @pytest.mark.parametrize("gear", ["fast", "slow"])
    def test_given_up_while_blocked(self, reactor, monkeypatch, gear):
        """Abandoned while its reader is stuck, a stream still has its last words captured, and says what was lost."""
        if gear == "slow":
            monkeypatch.setattr(Pump, "gearbox", None)
        source, target = Source(), Target()
        pump = Pump(reactor, source.fd, Sink(target.write_fd))
        data = os.urandom(32 * MIB)
        thread = source.feed(data)
        got = 0
        while (gear == "fast" and not engaged(pump)) or pump.bytes < 4 * MIB:
            reactor.poll(100)
            if select.select([target.fd], [], [], 0)[0]:
                got += len(os.read(target.fd, MIB))
        # From here on nobody reads.
        while pump.blocked_since is None:
            reactor.poll(1000)
        pump.finish()
        thread.join()
        assert pump.ended
        assert pump.blocked_since is None
        check_capture(pump, data[: pump.bytes])
        pump.sink.close()
        os.close(target.write_fd)
        while chunk := os.read(target.fd, MIB):
            got += len(chunk)
        os.close(target.fd)
        assert got + pump.lost == pump.bytes


@pytest.mark.fault("E5")
@pytest.mark.parametrize("gear", ["fast", "slow"])
def test_reader_gone(reactor, monkeypatch, gear):
    """A reader that quits is told once; the child is read to its end all the same, and what was lost is counted."""
    if gear == "slow":
        monkeypatch.setattr(Pump, "gearbox", None)
    data = os.urandom(12 * MIB)
    source, target = Source(), Target()
    told = []
    pump = Pump(reactor, source.fd, Sink(target.write_fd), on_broken=lambda: told.append(now()))
    thread = source.feed(data)
    got = 0
    while got < 5 * MIB:
        reactor.poll(100)
        if select.select([target.fd], [], [], 0)[0]:
            got += len(os.read(target.fd, 65536))
    os.close(target.fd)
    drive(reactor, pump)
    thread.join()
    assert len(told) == 1
    assert pump.sink.broken
    assert pump.lost > 0
    check_capture(pump, data)
    pump.sink.close()
    os.close(target.write_fd)


def test_finished_by_its_own_callback(reactor):
    """Whoever hears of the broken reader may give the stream up at once."""
    source, target = Source(), Target()
    pump = Pump(reactor, source.fd, Sink(target.write_fd))
    pump.on_broken = pump.finish
    os.close(target.fd)
    source.write(b"x" * 500_000)
    reactor.poll(1000)
    assert pump.ended
    source.close()
    pump.sink.close()
    os.close(target.write_fd)


@pytest.mark.fault("E3")
@pytest.mark.parametrize("where", ["sink", "log"])
def test_full_device(reactor, where):
    """With a full device as sink or as log a child that prints 1 MB ends promptly with 0, after one warning."""
    warnings = []
    fd = os.open("/dev/full", os.O_WRONLY)
    child = spawn(Launch(["sh", "-c", "head -c 1000000 /dev/zero"], output="merged"))
    pump = Pump(reactor, child.stdout_fd, Sink(fd) if where == "sink" else None, on_warning=warnings.append)
    if where == "log":
        pump.log = Log("/dev/full", 0, warnings.append)
    drive(reactor, pump)
    assert helpers.wait_until(child.peek) == (0, None)
    child.reap()
    child.close()
    os.close(fd)
    assert len(warnings) == 1
    assert "No space" in warnings[0]
    assert pump.bytes == 1_000_000
    assert (pump.lost if where == "sink" else pump.log.lost) == 1_000_000


@pytest.mark.fault("O2")
def test_log_is_identical(reactor, tmp_path):
    """The log of two streams that share it holds every byte, each stream in its order, characters cut or not."""
    log = Log(str(tmp_path / "log"))
    script = "import os\nfor i in range(300):\n for b in 'ä'.encode(): os.write(1, bytes([b]))\n os.write(2, b'e')\n"
    child = spawn(Launch([sys.executable, "-c", script]))
    pumps = [Pump(reactor, fd, log=log) for fd in (child.stdout_fd, child.stderr_fd)]
    drive(reactor, *pumps)
    helpers.wait_until(child.peek)
    child.reap()
    child.close()
    log.close()
    data = (tmp_path / "log").read_bytes()
    assert data.replace(b"e", b"") == "ä".encode() * 300
    assert data.count(b"e") == 300


def test_a_log_keeps_it_in_the_slow_gear(reactor, tmp_path):
    """What has to be looked at is never moved unseen; a log set late is obeyed from then on."""
    data = os.urandom(20 * MIB)
    source = Source()
    pump = Pump(reactor, source.fd)
    thread = source.feed(data)
    while not engaged(pump):
        reactor.poll(1000)
    before = pump.bytes
    log = pump.log = Log(str(tmp_path / "log"))
    drive(reactor, pump)
    thread.join()
    log.close()
    assert not engaged(pump)
    assert (tmp_path / "log").read_bytes() == data[before:]
    check_capture(pump, data)


def test_taps_see_every_chunk(reactor):
    """Each tap sees all bytes in order."""
    data = os.urandom(3 * MIB)
    one, two = bytearray(), bytearray()
    source = Source()
    pump = Pump(reactor, source.fd, taps=[one.extend])
    pump.taps.append(two.extend)
    thread = source.feed(data)
    drive(reactor, pump)
    thread.join()
    assert one == two == data


def test_before_write(reactor):
    """What must happen before anything is drawn happens before, and only if something is drawn."""
    source, target = Source(), Target()
    pump = Pump(
        reactor, source.fd, Sink(target.write_fd), before_write=lambda: os.write(target.write_fd, b"<")
    )
    source.write(b"a")
    reactor.poll(1000)
    assert os.read(target.fd, 10) == b"<a"
    source.close()
    drive(reactor, pump)
    pump.sink.close()
    target.close()
    assert not target.data


def test_slot_moves(reactor):
    """The stamps can move into memory that others map, with their values."""
    source = Source()
    pump = Pump(reactor, source.fd)
    source.write(b"abc")
    reactor.poll(1000)
    shared = memoryview(bytearray(64)).cast("q")[2:6]
    pump.move_slot(shared)
    assert shared[LAST] == shared[ALIVE] == pump.last > 0
    source.write(b"d")
    reactor.poll(1000)
    assert (shared[COUNT], shared[BYTES]) == (2, 4)
    source.close()
    drive(reactor, pump)


def test_no_pipes_left_for_the_fast_gear(reactor, monkeypatch):
    """Where the fast gear cannot be had the slow one goes on, and nothing is lost or left open."""

    def refuse(fd, size):
        return False

    monkeypatch.setattr(gears, "set_pipe_size", refuse)
    before = helpers.descriptors()
    data = os.urandom(9 * MIB)
    source = Source()
    pump = Pump(reactor, source.fd)
    thread = source.feed(data)
    drive(reactor, pump)
    thread.join()
    assert pump.steady
    check_capture(pump, data)
    assert helpers.descriptors() <= before


def test_finish_keeps_last_words(reactor):
    """A stream that is given up is read once more, and its descriptor is closed."""
    source = Source()
    pump = Pump(reactor, source.fd)
    source.write(b"last words")
    pump.finish()
    assert pump.captured()[0] == b"last words"
    assert pump.ended
    with pytest.raises(BrokenPipeError):
        source.write(b"x")
    source.close()
    # A callback that was already on its way does no harm.
    pump.ready()


@pytest.mark.fault("N1")
def test_pty_through_a_pump(reactor):
    """The I/O error at the end of a terminal ends the stream without a warning, with the word and the code kept."""
    warnings = []
    child = spawn(Launch(["sh", "-c", "echo word; exit 3"], output=PTY))
    pump = Pump(reactor, child.master_fd, on_warning=warnings.append)
    drive(reactor, pump)
    assert helpers.wait_until(child.peek) == (3, None)
    assert child.reap() == (3, None)
    child.close()
    assert pump.captured()[0] == b"word\r\n"
    assert warnings == []


def test_merged_order(reactor):
    """With one pump for both streams the order of the writes holds."""
    script = "import os\nfor i in range(2000): os.write(1 + i % 2, b'%d\\n' % i)"
    child = spawn(Launch([sys.executable, "-c", script], output="merged"))
    pump = Pump(reactor, child.stdout_fd)
    drive(reactor, pump)
    helpers.wait_until(child.peek)
    child.reap()
    child.close()
    assert pump.captured()[0] == b"".join(b"%d\n" % i for i in range(2000))


def test_two_floods_share_the_loop(reactor):
    """Two children that flood both make progress all the time."""
    children = [spawn(Launch(["sh", "-c", "exec cat /dev/zero"], output="merged")) for _ in range(2)]
    pumps = [Pump(reactor, child.stdout_fd) for child in children]
    for _ in range(400):
        reactor.poll(1000)
        if all(pump.bytes > 20 * MIB for pump in pumps):
            break
    one, two = (pump.bytes for pump in pumps)
    assert min(one, two) > 20 * MIB
    for child, pump in zip(children, pumps, strict=True):
        os.kill(child.pid, signal.SIGKILL)
        pump.finish()
        helpers.wait_until(child.peek)
        child.reap()
        child.close()


@pytest.mark.slow
@pytest.mark.fault("O1")
@pytest.mark.parametrize("gear", ["fast", "slow"])
def test_memory_is_bounded(gear):
    """300 MB from one child grow the memory by less than 5 MB, with a log of small cap that drops the rest."""
    script = f"""
import os, resource, sys
from longwatch.posix import gears
from longwatch.posix.pump import Pump
from longwatch.posix.reactor import Reactor
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import Launch, spawn
if {gear == "fast"}: gears.offer()
reactor = Reactor()
child = spawn(Launch(["head", "-c", "300000000", "/dev/zero"]))
done = []
pumps = [Pump(reactor, fd, Sink(1), on_end=lambda: done.append(1)) for fd in (child.stdout_fd, child.stderr_fd)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
while len(done) < 2: reactor.poll(1000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(pumps[0].bytes, after - before, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    count, grown = map(int, done.stderr.split())
    assert count == 300_000_000
    assert grown < 5000


class TestLineJudge:
    """Which lines are progress."""

    def feed(self, judge, *chunks):
        return [judge.feed(memoryview(chunk), at) for at, chunk in enumerate(chunks, 1)]

    @pytest.mark.fault("B2")
    def test_matching_lines_are_not_progress(self):
        """A line in which the rule is found is none; any other is."""
        judge = LineJudge("^: ping")
        assert self.feed(judge, b": ping 1\n", b"work\n: ping\n", b": ping 2\r\n") == [False, True, False]
        assert (judge.last, judge.count) == (2, 1)

    def test_lines_are_cut_anywhere(self):
        """Chunking changes nothing: a line counts when it is complete."""
        judge = LineJudge("ping")
        assert self.feed(judge, b"pi", b"n", b"g\n", b"wo", b"rk", b"\n") == [False] * 5 + [True]
        assert judge.last == 6

    def test_redraws_are_lines(self):
        """A carriage return ends a line, so a spinner that matches is no progress."""
        judge = LineJudge(r"^[|/\\-] \d+s$")
        assert self.feed(judge, b"| 1s\r", b"/ 2s\r", b"- 3s\r", b"done\r") == [False, False, False, True]

    def test_empty_lines_say_nothing(self):
        """Line ends alone are no progress; a pair of them is one end."""
        judge = LineJudge("ping")
        assert self.feed(judge, b"\n", b"\r\n", b"ping\r", b"\n", b"  \n") == [False] * 5

    def test_an_unfinished_line_is_judged_when_asked(self):
        """A prompt without a line end counts when somebody has to decide, once, with the time of its newest byte."""
        judge = LineJudge("ping")
        self.feed(judge, b"Password", b": ")
        assert judge.count == 0
        assert judge.settle()
        assert (judge.last, judge.count) == (2, 1)
        assert not judge.settle()
        self.feed(judge, b"\npin", b"g")
        assert not judge.settle()

    def test_endless_line_is_bounded(self):
        """A line that never ends is kept by its beginning only."""
        judge = LineJudge("ping")
        self.feed(judge, *[b"x" * 10_000] * 20)
        assert len(judge._line) <= 8192
        assert judge.settle()

    def test_no_rule(self):
        """What is no regular expression is refused."""
        with pytest.raises(ValueError, match="not a regular expression"):
            LineJudge("(")

    def test_in_a_pump(self, reactor):
        """In a pump a matching line moves `alive` alone, and a partial one counts when it settles."""
        source = Source()
        pump = Pump(reactor, source.fd, judge=LineJudge("ping"))
        source.write(b"ping\n")
        reactor.poll(1000)
        assert pump.alive > 0
        assert (pump.last, pump.count) == (0, 0)
        source.write(b"half")
        reactor.poll(1000)
        assert pump.last == 0
        pump.settle()
        assert pump.last > 0
        assert pump.count == 1
        source.write(b" line\n")
        source.close()
        drive(reactor, pump)
        assert pump.count == 2


def test_limits_of_a_turn_are_bounded():
    """One turn of a flooding stream is bounded, so that deadlines are met."""
    assert pump_module._TURN * 262144 <= 8 * MIB
    assert gears._TURN <= 8 * MIB
