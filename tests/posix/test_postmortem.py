"""The post-mortem: of staged hangs, the right process and what it waits for."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from longwatch.posix import descriptors, waits
from longwatch.posix.identity import Identity, ProcessInfo, identity, process
from longwatch.posix.postmortem import LINES, PostMortem, capture, elsewhere, unbuffered_hint
from longwatch.posix.tree import Tree

# The kernel names a process after the last part of the path it was started by.
PYTHON = os.path.basename(sys.executable)[:15]


@contextlib.contextmanager
def hanging(script: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a shell script that gets stuck, and end everything of it afterwards."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True} | options
    leader = subprocess.Popen(["sh", "-c", script], **options)  # type: ignore[call-overload]
    try:
        with helpers.ending(leader):
            yield leader
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)


def tree_of(leader: subprocess.Popen[bytes]) -> Tree:
    who = identity(leader.pid)
    assert who is not None
    return Tree(who, "stuck-1", subreaper=False)


def diagnosed(leader: subprocess.Popen[bytes], words: str) -> PostMortem:
    """Return the post-mortem once its diagnosis says `words` without pids: the stage may need a moment."""
    last: list[str] = []

    def found() -> PostMortem | None:
        report = capture(tree_of(leader))
        last[:] = [re.sub(r"\d+ `", "`", report.diagnosis)]
        # A shell that has only just started its children still runs for an instant.
        calm = report.culprit_pid == leader.pid or f"{leader.pid} sh R " not in report.lines[0]
        return report if last == [words] and calm else None

    try:
        return helpers.wait_until(found)  # type: ignore[return-value]
    except AssertionError:
        pytest.fail(f"diagnosed {last[0]!r}, not {words!r}")


def pid_of(leader: subprocess.Popen[bytes], name: str) -> int:
    def found() -> list[int]:
        return [
            pid for pid in helpers.descendants(leader.pid) if (info := process(pid)) and info.comm == name
        ]

    return int(helpers.wait_until(found, what=name)[0])


@pytest.fixture
def silent() -> Iterator[int]:
    """Return the port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# The five staged hangs


@pytest.mark.capability("NEW-5")
def test_a_reader_of_a_stopped_writer() -> None:
    """A pipe's reader is named with the writer that somebody has stopped, who is the culprit."""
    with hanging("sleep 60 | cat; true") as leader:
        sleeper = pid_of(leader, "sleep")
        os.kill(sleeper, signal.SIGSTOP)
        report = diagnosed(leader, "`cat` reads a pipe from `sleep`, which is stopped (SIGSTOP)")
        assert report.culprit_pid == sleeper
        assert report.diagnosis.startswith(
            f"{pid_of(leader, 'cat')} `cat` reads a pipe from {sleeper} `sleep`"
        )


@pytest.mark.capability("NEW-5")
@pytest.mark.parametrize("options", ["", ", timeout=60"])
def test_a_client_of_a_silent_server(options: str, silent: int) -> None:
    """A connection whose other side says nothing is named with its address, waited for by read or by poll."""
    code = f"import socket; socket.create_connection(('127.0.0.1', {silent}){options}).recv(1)"
    with hanging(f'{sys.executable} -c "{code}"; true') as leader:
        diagnosed(leader, f"`{PYTHON}` waits for data from 127.0.0.1:{silent} (TCP)")


@pytest.mark.capability("NEW-5")
@pytest.mark.parametrize("call", ["fcntl.flock(f, 2)", "fcntl.lockf(f, 2)"])
def test_a_lock_that_another_holds(call: str, tmp_path: Path) -> None:
    """Who waits for a file's lock is named with the file and with who holds it."""
    path = tmp_path / "index.lock"
    with path.open("w") as held:
        import fcntl

        (fcntl.flock if "flock" in call else fcntl.lockf)(held, fcntl.LOCK_EX)
        code = f"import fcntl; f = open('{path}', 'w'); {call}"
        with hanging(f'{sys.executable} -c "{code}"; true') as leader:
            child = pid_of(leader, PYTHON)
            me = process(os.getpid())
            assert me is not None
            report = diagnosed(leader, f"`{PYTHON}` waits for the lock on {path} held by `{me.comm}`")
            assert f"held by {os.getpid()} `" in report.diagnosis
            assert report.culprit_pid == child


@pytest.mark.capability("NEW-5")
@pytest.mark.fault("C4")
def test_a_question_on_the_terminal() -> None:
    """A program that reads from the terminal waits for a human: the reason says input wait."""
    with helpers.Screen(["sh", "-c", "cat; true"]) as screen:
        report = diagnosed(screen.process, "`cat` waits for input from the terminal (input wait)")
        assert report.culprit_pid == pid_of(screen.process, "cat")
        os.killpg(screen.process.pid, signal.SIGKILL)


@pytest.mark.capability("NEW-5")
def test_a_stopped_process() -> None:
    """A process that was stopped is named, and not the shell that waits for it."""
    with hanging("sleep 60; true") as leader:
        sleeper = pid_of(leader, "sleep")
        os.kill(sleeper, signal.SIGSTOP)
        report = diagnosed(leader, "`sleep` is stopped (SIGSTOP)")
        assert report.culprit_pid == sleeper


# Other ways of being silent


@pytest.mark.fault("C4")
def test_an_open_stdin_that_nobody_writes() -> None:
    """A program that waits for the end of an inherited stdin is said to be reading stdin."""
    with hanging("cat; true", stdin=subprocess.PIPE) as leader:
        diagnosed(leader, "`cat` is reading stdin, which nobody closes")


# What Python code waits in, and how that is said.
CODES = {
    "import time; time.sleep(60)": "sleeps",
    "import signal; signal.pause()": "waits for a signal",
    "import threading; l = threading.Lock(); l.acquire(); l.acquire()": "waits for a lock inside the process",
    "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()": "sleeps",
    "import os, select; r, w = os.pipe(); select.select([r], [], [])": "reads a pipe that only it can write to",
    "import os, select; p = select.poll(); [p.register(f) for f in os.pipe() + os.pipe()[:1]]; p.poll()": None,
    "import select; select.epoll().poll()": "waits for events",
    "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()": "waits for connections",
    "import socket; a, b = socket.socketpair(); a.recv(1)": "waits for data on a socket",
    "import os; os.mkfifo('fifo'); open('fifo')": "opens a named pipe whose other end nobody opens",
    "import os; os.dup2(os.pipe()[1], 1); os.write(1, b'x' * 99999)": "writes to a full pipe whose reader is outside the run",
}


@pytest.mark.parametrize("code", [code for code, text in CODES.items() if text])
def test_what_a_process_waits_for(code: str, tmp_path: Path) -> None:
    """Each way of waiting is said in words of its own."""
    with hanging(f'exec {sys.executable} -c "{code}"', cwd=tmp_path) as leader:
        diagnosed(leader, f"`{PYTHON}` {CODES[code]}")


def test_a_busy_process() -> None:
    """A process that computes is not waiting at all, and its processor time is told."""
    with hanging("while :; do :; done") as leader:
        report = diagnosed(leader, "`sh` runs and burns CPU (0 s so far)")
        assert report.processes[0]["state"] == "R"


def test_several_descriptors_at_once() -> None:
    """A wait for several things is said as that, with the terminal where it is one of them."""
    code = (
        "import select; p = select.poll(); import os; [p.register(f, 1) for f in (0, os.pipe()[0])]; p.poll()"
    )
    with helpers.Screen([sys.executable, "-c", code]) as screen:
        text = "waits for events on 2 descriptors, the terminal among them"
        diagnosed(screen.process, f"`{PYTHON}` {text}")


def test_a_reader_that_does_not_read() -> None:
    """Who fills a pipe is named with the one at its other end that does not empty it."""
    with hanging("yes | sleep 60; true") as leader:
        text = "`yes` writes to a full pipe that `sleep` does not read, which sleeps"
        assert diagnosed(leader, text).culprit_pid == pid_of(leader, "sleep")


def test_a_shell_is_never_to_blame_for_its_child() -> None:
    """Who waits for a child, or reads what it says, is not the culprit; the child is."""
    with hanging("sh -c 'sleep 60; true'; true") as leader:
        report = diagnosed(leader, "`sleep` sleeps")
        assert [line.split()[1] for line in report.lines] == ["sh", "sh", "sleep"]
        assert "waits for its child" in report.lines[0]
    with hanging("x=$(sleep 60); true") as leader:
        diagnosed(leader, "`sh` reads a pipe from `sleep`, which sleeps")


def test_an_idle_helper_is_not_to_blame(silent: int, tmp_path: Path) -> None:
    """A helper that waits for its parent's word is passed over for what the parent waits for."""
    code = f"""
import socket, subprocess
helper = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
socket.create_connection(("127.0.0.1", {silent})).recv(1)
"""
    (tmp_path / "agent.py").write_text(code)
    with hanging(f"exec {sys.executable} agent.py", cwd=tmp_path) as leader:
        report = diagnosed(leader, f"`{PYTHON}` waits for data from 127.0.0.1:{silent} (TCP)")
        assert report.culprit_pid == leader.pid
        assert "reads a pipe from" in report.lines[1]


def test_two_that_wait_for_each_other(tmp_path: Path) -> None:
    """A deadlock of two is said as what it is."""
    code = "import subprocess; c = subprocess.Popen(['cat'], stdin=-1, stdout=-1); c.stdout.read()"
    with hanging(f'exec {sys.executable} -c "{code}"') as leader:
        report = diagnosed(leader, f"`{PYTHON}` reads a pipe from `cat`, which reads a pipe from `{PYTHON}`")
        assert report.culprit_pid == pid_of(leader, "cat")


# The report itself


def test_a_large_tree_is_told_in_few_lines() -> None:
    """At most twelve lines, the root first and the culprit among them; the rest is counted."""
    with hanging("for i in $(seq 20); do sleep 60 & done; cat /dev/zero & wait") as leader:
        helpers.wait_until(lambda: len(helpers.descendants(leader.pid)) == 21)
        last = pid_of(leader, "cat")
        os.kill(last, signal.SIGSTOP)
        report = diagnosed(leader, "`cat` is stopped (SIGSTOP)")
        assert len(report.lines) == LINES
        assert report.lines[0].startswith(f"{leader.pid} sh ")
        assert report.lines[-2] == f"  {last} cat T is stopped (SIGSTOP)"
        assert report.lines[-1] == "... and 11 more"
        assert len(report.processes) == 22


def test_the_processes_are_told_as_plain_values() -> None:
    """Each process is told with its parent, state, kind of wait, depth and processor time."""
    with hanging("sleep 60; true") as leader:
        report = diagnosed(leader, "`sleep` sleeps")
        assert report.processes[1] == {
            "pid": report.culprit_pid, "ppid": leader.pid, "name": "sleep", "state": "S", "depth": 1,
            "waits": "sleeps", "what": "sleeps", "cpu_ms": report.processes[1]["cpu_ms"],
        }  # fmt: skip
        assert capture(leader.pid).diagnosis == report.diagnosis


def test_nothing_alive() -> None:
    """A tree that has gone meanwhile gives a report all the same."""
    report = capture(Tree(Identity(1 << 30, 1, ""), "none-1", subreaper=False))
    assert (report.diagnosis, report.culprit_pid, report.lines) == ("nothing of the run is alive", None, [])


def test_where_the_kernel_hides_system_calls_wait_functions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to see system calls the diagnosis is coarser, and still there."""
    real = waits.read
    monkeypatch.setattr(waits, "read", lambda path: None if path.endswith("syscall") else real(path))
    with hanging("sleep 60; true") as leader:
        report = diagnosed(leader, "`sleep` sleeps")
        assert report.lines[0].endswith("waits for its child")
    with hanging("cat; true", stdin=subprocess.PIPE) as leader:
        diagnosed(leader, "`cat` reads a pipe")


def test_a_process_that_may_not_be_looked_at_is_still_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another user's process only its name is known, and that is said."""
    monkeypatch.setattr(waits, "read", lambda path: None)
    monkeypatch.setattr(waits, "link", lambda pid, fd: "")
    with hanging("exec sleep 60") as leader:
        diagnosed(leader, "`sleep` may not be looked at")


@pytest.mark.parametrize(
    ("state", "channel", "text"),
    [
        ("D", b"folio_wait_bit", "is stuck in the kernel (folio_wait_bit), where no signal reaches it"),
        ("D", b"kernel_clone", "waits for the child it is starting"),
        ("t", b"", "is stopped by a debugger"),
        ("Z", b"", "has ended and is not yet reaped"),
        ("S", b"some_driver_wait", "waits in some_driver_wait"),
    ],
)
def test_states_that_cannot_be_staged(
    state: str, channel: bytes, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel says of an uninterruptible, traced or dead process is put into words."""
    monkeypatch.setattr(waits, "read", lambda path: channel if path.endswith("wchan") else b"-1 0x0 0x0")
    info = ProcessInfo(4, 1, 4, 4, state, 100, "x")
    assert waits.Waits([info]).of(info).text == text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F:1F90", "127.0.0.1:8080"),
        ("0000000000000000FFFF00000100007F:0050", "127.0.0.1:80"),
        ("00000000000000000000000001000000:01BB", "[::1]:443"),
        ("B80D01200000000000000000010000AA:01BB", "[2001:db8:0:0:0:0:aa00:1]:443"),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the examples are a little-endian machine's")
def test_addresses_are_put_as_people_write_them(text: str, address: str) -> None:
    """The kernel's addresses of both families are read, IPv4 within IPv6 as IPv4."""
    assert descriptors.address(text) == address


def test_a_lock_whose_taker_has_gone_is_held_by_its_heir(tmp_path: Path) -> None:
    """When the taker has ended, whoever still has the file open is named as the holder."""
    lock = tmp_path / "lock"
    script = f"(flock 9; exec sleep 60) 9>{lock} & sleep 0.2; flock {lock} true"
    if not helpers.have("flock"):
        pytest.skip("flock is not installed")
    with hanging(script) as leader:
        report = diagnosed(leader, f"`flock` waits for the lock on {lock} held by `sleep`, which sleeps")
        assert report.culprit_pid is not None


# Hints


@pytest.mark.fault("F4")
@pytest.mark.parametrize(
    ("argv", "place"),
    [
        (["docker", "run", "-it", "image"], "work may continue in a container (docker)"),
        (
            ["/usr/bin/docker", "--context", "x", "exec", "c", "sh"],
            "work may continue in a container (docker)",
        ),
        (["docker", "ps"], None),
        (["kubectl", "exec", "pod"], "work may continue in the cluster (kubectl)"),
        (["ssh", "host", "make"], "work may continue in the remote machine (ssh)"),
        (["make"], None),
        ([], None),
    ],
)
def test_clients_of_somebody_else_are_known(argv: list[str], place: str | None) -> None:
    """A client whose end does not end the work is named with the place where it may go on."""
    assert elsewhere(argv) == place


@pytest.mark.fault("F4")
def test_a_client_anywhere_in_the_tree_is_noticed(tmp_path: Path) -> None:
    """The post-mortem says where work may go on, whichever process of the tree is the client."""
    (tmp_path / "ssh").symlink_to("/bin/sleep")
    with hanging(f"{tmp_path}/ssh 60; true") as leader:
        report = diagnosed(leader, "`ssh` sleeps")
        assert report.elsewhere == "work may continue in the remote machine (ssh)"
        assert (
            capture(leader.pid, argv=["podman", "start", "x"]).elsewhere
            == "work may continue in a container (podman)"
        )


@pytest.mark.fault("A6")
def test_a_silent_pipe_gets_a_hint() -> None:
    """A program that may hold its output back is told how to make it write, Python by its own variable."""
    assert "PYTHONUNBUFFERED=1" in unbuffered_hint(["/usr/bin/python3.12", "x.py"])
    assert "PYTHONUNBUFFERED" not in unbuffered_hint(["make"])
    assert "--pty" in unbuffered_hint([])
