"""`longwatch watch --pid`: limits for a process that somebody else started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers

WRITER = "import sys, time\nfor _ in range(int(sys.argv[2])):\n    open(sys.argv[1], 'a').write('x'); time.sleep(0.1)\n"


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """Start something that is not ours to stop: in a session of its own, silent."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def watch(pid: int, *words: str, deadline: float = 30) -> helpers.Finished:
    """Watch a process to the end."""
    return helpers.run_cli("watch", "--pid", str(pid), *words, deadline=deadline)


@pytest.mark.capability("NEW-13")
def test_a_file_that_stands_still_stops_the_process(
    sleeper: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """The limit applies to a running process by the file that it writes, and names it when it stops it."""
    beat = tmp_path / "beat"
    code = WRITER + "time.sleep(60)\n"
    process = subprocess.Popen([sys.executable, "-c", code, str(beat), "8"], start_new_session=True)
    try:
        done = watch(process.pid, "--progress", f"file:{beat}", "--idle", "500ms", "--poll", "50ms")
        assert done.code == 124
        assert "no progress for 500ms" in done.err
        assert f"{process.pid}" in done.err
        assert process.wait() == -signal.SIGTERM
        assert beat.stat().st_size == 8
        assert sleeper.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.capability("NEW-13")
@pytest.mark.parametrize("words", [(), ("--idle", "1s"), ("--progress", "stdout"), ("--progress", "screen")])
def test_without_a_source_it_is_refused(sleeper: "subprocess.Popen[bytes]", words: tuple[str, ...]) -> None:
    """What cannot be seen from outside is no source: one line says what to name, and the process goes on."""
    done = watch(sleeper.pid, *words)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "--progress file:GLOB" in done.err
    assert sleeper.poll() is None


@pytest.mark.capability("NEW-13")
def test_identity_is_looked_at() -> None:
    """A number that names nobody, or ourselves, is refused."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid, words in ((gone.pid, "no such process"), (os.getpid(), "watch either")):
        done = watch(pid, "--timeout", "1s")
        assert (done.code, words in done.err, done.err.count("\n")) == (2, True, 1)


def test_elapsed_time_needs_no_source(sleeper: "subprocess.Popen[bytes]") -> None:
    """A limit of time can be applied to anything; no silence of unseen streams is claimed."""
    done = watch(sleeper.pid, "--timeout", "300ms")
    assert done.code == 124
    assert "the timeout of 300ms is over" in done.err
    assert "stdout" not in done.err
    assert sleeper.wait() == -signal.SIGTERM


def test_its_own_end_is_told() -> None:
    """A process that ends by itself gives its own status, although it is nobody's child here."""
    process = subprocess.Popen(["sh", "-c", "read line; exit 7"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    command = [str(helpers.LONGWATCH), "watch", "--pid", str(process.pid), "--timeout", "30s"]
    watcher = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        helpers.wait_until(lambda: "longwatch" in Path(f"/proc/{watcher.pid}/cmdline").read_text())
        process.stdin.close()
        assert watcher.wait(timeout=20) in (7, 2)  # 2: it was over before it could be looked at
    finally:
        process.wait()
        watcher.kill()
        watcher.communicate()


def test_ending_the_watch_leaves_the_process(sleeper: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C and TERM end the watching, say so, and touch nothing."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        command = [str(helpers.LONGWATCH), "watch", "--pid", str(sleeper.pid), "--timeout", "60s"]
        watcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        helpers.wait_until(lambda pid=watcher.pid: _hears(pid))
        watcher.send_signal(signum)
        _, err = watcher.communicate(timeout=20)
        assert f"process {sleeper.pid} goes on" in err
        assert sleeper.poll() is None


def _hears(pid: int) -> bool:
    """Whether a process has a handler for TERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("watched", ["$$", "$X"])
def test_whoever_started_the_watch_is_refused(watched: str) -> None:
    """Stopping the shell that started it, or the one around that, would end the watch itself with all beside it."""
    words = f"{helpers.LONGWATCH} watch --pid {watched} --progress file:/nowhere --idle 1h --idle-action none"
    done = helpers.run_command(["sh", "-c", f"X=$$ sh -c '{words}; echo $?'; :"])
    assert (done.out, "itself or who started it" in done.err) == ("2\n", True)
