"""The loop: readiness, one deadline, regular files, forks, and signals as bytes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from longwatch.posix import now
from longwatch.posix.reactor import Reactor
from longwatch.posix.signals import SignalPipe


@pytest.fixture
def reactor():
    made = Reactor()
    yield made
    made.close()


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_runs_what_is_ready(reactor, pipe):
    """A readable descriptor runs its callback once per poll, and poll says that something ran."""
    seen = []
    reactor.add(pipe[0], lambda: seen.append(os.read(pipe[0], 10)))
    os.write(pipe[1], b"a")
    assert reactor.poll(1000)
    assert seen == [b"a"]
    assert not reactor.poll(0)


def test_never_returns_early(reactor):
    """After poll(n) the clock has advanced by n at least, from whatever fraction of a millisecond it began."""
    for fraction in range(20):
        end = time.perf_counter_ns() + fraction * 50_000
        while time.perf_counter_ns() < end:
            pass
        start = now()
        assert not reactor.poll(3)
        assert now() - start >= 3


def test_is_hardly_late(reactor):
    """A deadline is met within a millisecond at the median: floats and whole milliseconds add nothing."""
    late = []
    for _ in range(25):
        start = now()
        reactor.poll(4)
        late.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6 - start - 4)
    assert sorted(late)[len(late) // 2] < 1.0


def test_event_during_the_last_fraction(reactor, pipe):
    """What becomes ready within the last millisecond of a wait still runs."""
    seen = []
    reactor.add(pipe[0], lambda: seen.append(os.read(pipe[0], 1)))
    code = f"import os,time; time.sleep(0.05); os.write({pipe[1]}, b'x')"
    with subprocess.Popen([sys.executable, "-c", code], pass_fds=[pipe[1]]):
        deadline = now() + 10_000
        while not seen and now() < deadline:
            reactor.poll(1)
    assert seen == [b"x"]


def test_waits_without_a_deadline(reactor, pipe):
    """None waits until something is ready."""
    os.write(pipe[1], b"a")
    reactor.add(pipe[0], lambda: None)
    assert reactor.poll(None)


def test_removed_in_the_same_round(reactor):
    """A callback may remove another descriptor that is ready too; its callback does not run any more."""
    one, two = os.pipe(), os.pipe()
    ran = []

    def run(mine, other):
        ran.append(mine)
        reactor.remove(other)

    reactor.add(one[0], lambda: run(one[0], two[0]))
    reactor.add(two[0], lambda: run(two[0], one[0]))
    os.write(one[1], b"a")
    os.write(two[1], b"a")
    reactor.poll(1000)
    assert len(ran) == 1
    for fd in (*one, *two):
        os.close(fd)


def test_regular_file_is_always_ready(reactor, tmp_path):
    """Epoll refuses regular files; they count as ready, and removing one makes poll wait again."""
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    fd = os.open(path, os.O_RDONLY)
    seen = []
    reactor.add(fd, lambda: seen.append(os.read(fd, 10)))
    reactor.modify(fd, write=False)
    assert reactor.poll(10_000)
    assert seen == [b"abc"]
    reactor.remove(fd)
    assert not reactor.poll(1)
    os.close(fd)


def test_write_direction(reactor, pipe):
    """A descriptor added for reading can be turned to writing."""
    seen = []
    reactor.add(pipe[1], lambda: seen.append(1))
    assert not reactor.poll(0)
    reactor.modify(pipe[1], write=True)
    assert reactor.poll(0)
    assert seen == [1]


def test_adding_twice_is_refused(reactor, pipe):
    """A descriptor has one callback."""
    reactor.add(pipe[0], lambda: None)
    with pytest.raises(FileExistsError):
        reactor.add(pipe[0], lambda: None)


def test_remove_is_idempotent(reactor, pipe):
    """Removing what was never added, or twice, is no error."""
    reactor.add(pipe[0], lambda: None)
    reactor.remove(pipe[0])
    reactor.remove(pipe[0])
    reactor.remove(12345)


def test_poisoned_after_a_fork(reactor, pipe):
    """A forked child cannot use its parent's reactor, but may close it; the parent's goes on."""
    reactor.add(pipe[0], lambda: os.read(pipe[0], 1))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            reactor.poll(0)
        except RuntimeError:
            reactor.close()
            status = 0
        os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    os.write(pipe[1], b"a")
    assert reactor.poll(1000)


def test_fileno_is_readable_when_something_is_ready(reactor, pipe):
    """A host can wait for the reactor's own descriptor in a loop of its own."""
    outer = Reactor()
    seen = []
    reactor.add(pipe[0], lambda: seen.append(os.read(pipe[0], 1)))
    outer.add(reactor.fileno(), lambda: reactor.poll(0))
    assert not outer.poll(0)
    os.write(pipe[1], b"a")
    assert outer.poll(1000)
    assert seen == [b"a"]
    outer.close()


def test_high_descriptor_waits_as_well(pipe):
    """A reactor whose own number is too high for select(2) keeps its deadlines too."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1100:
        pytest.skip("not enough descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    first = os.open(os.devnull, os.O_RDONLY)
    opened = [first]
    while opened[-1] < 1025:
        opened.append(os.dup(first))
    reactor = Reactor()
    for fd in opened:
        os.close(fd)
    start = now()
    assert not reactor.poll(3)
    assert now() - start >= 3
    reactor.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_signals_become_bytes(reactor):
    """Signals are read in their order from a descriptor, and the former handlers come back."""
    before = signal.getsignal(signal.SIGUSR1)
    pipe = SignalPipe((signal.SIGUSR1, signal.SIGUSR2))
    seen = []
    reactor.add(pipe.fileno(), lambda: seen.extend(pipe.read()))
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert reactor.poll(1000)
    assert seen == [signal.SIGUSR1, signal.SIGUSR2]
    assert pipe.read() == []
    reactor.remove(pipe.fileno())
    pipe.restore()
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.capability("NEW-19")
def test_inherited_ignored_signals_stay_ignored():
    """HUP, INT and QUIT that were inherited ignored are left alone; TERM is taken all the same."""
    code = (
        "import _signal as s\n"
        "from longwatch.posix.signals import SignalPipe\n"
        "SignalPipe((s.SIGHUP, s.SIGINT, s.SIGQUIT, s.SIGTERM))\n"
        "print([s.getsignal(n) == s.SIG_IGN for n in (1, 2, 3, 15)])\n"
    )
    shell = f"trap '' HUP INT QUIT TERM; exec {sys.executable} -c '{code}'"
    assert subprocess.check_output(["sh", "-c", shell], text=True) == "[True, True, True, False]\n"
