"""Who a process is: recognised by start time and boot, and signalled only when it is still the same."""

import errno
import os
import signal
import subprocess
import time

import pytest

import helpers
from longwatch.posix import identity as module
from longwatch.posix.identity import (
    GONE,
    SENT,
    Identity,
    cmdline,
    identity,
    parse_stat,
    process,
    signal_verified,
)

LINE = b"%d (%s) %s 7 8 9 34816 8 4194304 1 2 3 4 250 50 0 0 20 0 %d 0 4321 1000 200 18446744073709551615\n"


@pytest.fixture
def sleeper():
    with helpers.ending(subprocess.Popen(["sleep", "60"], start_new_session=True)) as process:
        yield process


@pytest.mark.parametrize("name", [b"sh", b"a) R 1 (b", b"two words", b"(x)"])
def test_a_stat_line_is_read_whatever_the_program_calls_itself(name: bytes) -> None:
    """A program's name may hold spaces and parentheses; the fields after it are still found."""
    info = parse_stat(LINE % (12, name, b"S", 1))
    assert (info.pid, info.ppid, info.pgid, info.sid, info.state) == (12, 7, 8, 9, "S")
    assert (info.start, info.cpu, info.tty, info.threads) == (4321, 300, 34816, 1)
    assert info.comm == name.decode()
    assert info.label == f"12 {name.decode()}"


@pytest.mark.parametrize(
    ("state", "threads", "alive"),
    [(b"S", 1, True), (b"T", 1, True), (b"Z", 1, False), (b"X", 1, False), (b"Z", 3, True)],
)
def test_a_zombie_is_dead_unless_other_threads_run(state: bytes, threads: int, alive: bool) -> None:
    """A process whose first thread has ended looks like a zombie while its other threads work on."""
    assert parse_stat(LINE % (12, b"sh", state, threads)).alive is alive


def test_a_process_is_itself_until_it_ends(sleeper: subprocess.Popen[bytes]) -> None:
    """An identity is alive while the process runs, and neither as a zombie nor when reaped."""
    who = identity(sleeper.pid)
    assert who is not None
    assert who.boot
    assert who.alive()
    assert who == identity(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert who.current() is not None
    assert not who.alive()
    sleeper.wait()
    assert who.current() is None
    assert identity(sleeper.pid) is None


def test_the_command_line_of_a_process(sleeper: subprocess.Popen[bytes]) -> None:
    """The arguments of a living process are read as they were given, and those of no process are empty."""
    helpers.wait_until(lambda: cmdline(sleeper.pid) == ["sleep", "60"])
    sleeper.kill()
    sleeper.wait()
    assert cmdline(sleeper.pid) == []


def test_a_signal_reaches_its_process(sleeper: subprocess.Popen[bytes]) -> None:
    """The same process gets the signal; once it has ended nothing is sent any more."""
    who = identity(sleeper.pid)
    assert who is not None
    assert signal_verified(who, signal.SIGTERM) == SENT
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert signal_verified(who, signal.SIGTERM) == GONE
    sleeper.wait()
    assert signal_verified(who, signal.SIGTERM) == GONE


@pytest.mark.fault("H1")
@pytest.mark.parametrize("change", ["start", "boot"])
def test_a_stranger_with_the_same_pid_is_not_signalled(change: str, sleeper: subprocess.Popen[bytes]) -> None:
    """A pid that now means another process, or that was noted before a reboot, is left alone."""
    who = identity(sleeper.pid)
    assert who is not None
    other = Identity(who.pid, who.start - (change == "start"), "another" if change == "boot" else who.boot)
    assert not other.alive()
    assert signal_verified(other, signal.SIGKILL) == GONE
    assert sleeper.poll() is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSYS])
def test_without_pidfds_signals_still_arrive(
    code: int, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no descriptor left, or on a kernel without pidfds, the check comes right before a plain kill."""

    def refuse(pid: int) -> int:
        raise OSError(code, os.strerror(code))

    who = identity(sleeper.pid)
    assert who is not None
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert signal_verified(Identity(who.pid, who.start - 1, who.boot), signal.SIGKILL) == GONE
    assert signal_verified(who, signal.SIGTERM) == SENT
    assert sleeper.wait() == -signal.SIGTERM


def test_a_process_of_another_user_refuses(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel does not let us signal is told apart from what is gone, with and without pidfds."""

    def refuse(*_: object) -> None:
        raise PermissionError

    who = identity(sleeper.pid)
    assert who is not None
    monkeypatch.setattr(module._signal, "pidfd_send_signal", refuse)
    monkeypatch.setattr(os, "kill", refuse)
    assert signal_verified(who, signal.SIGTERM) == module.REFUSED
    assert module.kill_checked(who, signal.SIGTERM) == module.REFUSED
    monkeypatch.undo()


def test_having_no_descriptor_left_is_not_taken_for_a_process_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the process table cannot be read for want of a descriptor, that is said and not read as "gone"."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        process(os.getpid())


def test_start_times_tell_two_lives_of_a_program_apart() -> None:
    """Two processes started one after the other have different identities, and the later is not the earlier."""
    first = subprocess.Popen(["sleep", "60"])
    with helpers.ending(first):
        earlier = identity(first.pid)
        assert earlier is not None
        # Start times are clock ticks: the next one has to come first.
        helpers.wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) * 100 > earlier.start + 2)
        with helpers.ending(subprocess.Popen(["sleep", "60"])) as second:
            later = identity(second.pid)
            assert later is not None
            assert later.start > earlier.start


def test_what_goes_between_opening_and_reading_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor that is closed while somebody looks at it is no error of whoever looks."""
    subject = os.open(os.devnull, os.O_RDONLY)
    really = os.open

    def and_close(path: str, flags: int) -> int:
        found = really(path, flags)
        os.close(subject)
        return found

    monkeypatch.setattr(os, "open", and_close)
    assert module.read(f"/proc/self/fdinfo/{subject}") is None
