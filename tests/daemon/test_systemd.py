"""The service manager's side channel: what is said, to whom, and that nobody else can say it."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from longwatch.daemon.systemd import Systemd


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Return the manager's end of the channel."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.setblocking(False)
        yield end


def environ(manager: socket.socket, **more: str) -> dict[str, str]:
    """Return the environment that a manager gives."""
    return {"NOTIFY_SOCKET": manager.getsockname(), "PATH": "/bin", **more}


def heard(manager: socket.socket) -> str:
    """Return the next thing that the manager hears, "" when there is none."""
    try:
        return manager.recv(4096).decode()
    except BlockingIOError:
        return ""


@pytest.mark.capability("NEW-14")
def test_the_manager_hears_how_we_are(manager: socket.socket) -> None:
    """Ready, status, reloading, stopping: in the manager's words."""
    systemd = Systemd.taken(environ(manager))
    systemd.ready("3 harnesses")
    assert heard(manager) == "READY=1\nSTATUS=3 harnesses"
    systemd.status("2 harnesses, 1 held")
    systemd.status("2 harnesses, 1 held")
    assert heard(manager) == "STATUS=2 harnesses, 1 held"
    assert heard(manager) == ""
    systemd.status("a\nREADY=0" + "x" * 500)
    assert heard(manager) == "STATUS=a READY=0" + "x" * 191
    systemd.reloading(123)
    assert heard(manager) == "RELOADING=1\nMONOTONIC_USEC=123"
    systemd.ready()
    assert heard(manager) == "READY=1"
    systemd.stopping("lets go of 3 harnesses")
    assert heard(manager) == "STOPPING=1\nSTATUS=lets go of 3 harnesses"
    systemd.close()
    systemd.status("late")
    systemd.close()
    assert heard(manager) == ""


@pytest.mark.capability("NEW-14")
def test_the_watchdog_is_fed_at_half_its_interval_and_by_the_loop_alone(manager: socket.socket) -> None:
    """A tick feeds it once per half interval; a loop that does not come round feeds nothing."""
    systemd = Systemd.taken(environ(manager, WATCHDOG_USEC="60000000"))
    assert systemd.interval_ms == 30_000
    for now in (5_000, 5_001, 34_999):
        systemd.tick(now)
    assert (heard(manager), heard(manager)) == ("WATCHDOG=1", "")
    systemd.tick(35_000)
    assert (heard(manager), heard(manager)) == ("WATCHDOG=1", "")
    systemd.close()


@pytest.mark.fault("B3")
def test_a_watchdog_that_was_meant_for_another_process_is_not_fed(manager: socket.socket) -> None:
    """`WATCHDOG_PID` names whose it is; what was inherited from somebody else is left alone."""
    ours = Systemd.taken(environ(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid())))
    theirs = Systemd.taken(environ(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getppid())))
    assert (ours.interval_ms, theirs.interval_ms) == (500, None)
    theirs.tick(10**9)
    assert heard(manager) == ""
    theirs.ready()
    assert heard(manager) == "READY=1"
    ours.close()
    theirs.close()


@pytest.mark.fault("B3")
def test_a_child_cannot_speak_for_us(manager: socket.socket) -> None:
    """The manager's variables are gone from the environment before anything is started."""
    code = (
        "import os; from longwatch.daemon.systemd import Systemd; s = Systemd.taken(os.environ); s.ready();"
        "os.execvp('env', ['env'])"
    )
    done = helpers.run_command(
        [sys.executable, "-c", code],
        env=environ(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID="1"),
        measured=False,
    )
    assert heard(manager) == "READY=1"
    assert "PATH=/bin" in done.out
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & {
        line.partition("=")[0] for line in done.out.splitlines()
    }


def test_an_abstract_address_is_understood() -> None:
    """An address with an at sign in front is in the abstract namespace."""
    name = f"longwatch-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.setblocking(False)
        end.bind("\0" + name)
        systemd = Systemd.taken({"NOTIFY_SOCKET": "@" + name})
        systemd.ready()
        assert heard(end) == "READY=1"
        systemd.close()


@pytest.mark.parametrize("address", ["", "@", "/", "vsock:2:1234", "relative/path"])
def test_without_a_manager_nothing_happens(address: str) -> None:
    """No address, or one that is none of a Unix socket: every call does nothing, and no descriptor is opened."""
    before = helpers.descriptors()
    systemd = Systemd.taken({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    systemd.ready("x")
    systemd.tick(10**9)
    systemd.stopping()
    assert systemd.interval_ms is None
    assert helpers.descriptors() <= before
    systemd.close()


def test_a_manager_that_does_not_read_or_is_gone_is_no_error(manager: socket.socket, tmp_path: Path) -> None:
    """A full queue never blocks us, and an address that leads nowhere raises nothing."""
    systemd = Systemd.taken(environ(manager))
    for number in range(5_000):
        systemd.status(str(number))
    assert heard(manager) == "STATUS=0"
    gone = Systemd.taken({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    gone.ready()
    systemd.close()
    gone.close()


@pytest.mark.parametrize("interval", ["", "0", "abc", "-5"])
def test_an_interval_that_is_none_is_no_watchdog(interval: str, manager: socket.socket) -> None:
    """Without an interval nothing is fed."""
    systemd = Systemd.taken(environ(manager, WATCHDOG_USEC=interval))
    assert systemd.interval_ms is None
    systemd.close()
