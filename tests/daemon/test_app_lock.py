"""One daemon for one file: who gets the lock, and what the others do."""

import os
import stat
from pathlib import Path

import pytest

import helpers
from daemons import Daemon, daemon, shell
from longwatch.daemon.lock import Lock, Taken
from longwatch.errors import StoreError


def test_the_second_is_refused_with_what_the_first_says_of_itself(tmp_path):
    """A refusal names pid and socket, as far as they were said."""
    first = Lock(str(tmp_path), "x.toml")
    with pytest.raises(Taken, match="another daemon runs"):
        Lock(str(tmp_path), "x.toml")
    (tmp_path / "daemon.json").write_text('{"pid": 77, "socket": "/run/x/api.sock"}')
    with pytest.raises(Taken, match=r"pid 77 runs its harnesses already, at /run/x/api\.sock") as caught:
        Lock(str(tmp_path), "x.toml")
    assert (caught.value.pid, caught.value.socket) == (77, "/run/x/api.sock")
    first.release()
    Lock(str(tmp_path), "x.toml").release()


def test_the_lock_is_no_childs(tmp_path):
    """What a daemon starts does not hold its lock."""
    lock = Lock(str(tmp_path), "x.toml")
    assert not os.get_inheritable(lock._fd)
    assert stat.S_IMODE(os.stat(tmp_path / "lock").st_mode) == 0o600
    lock.release()


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/1").exists(), reason="needs a folder that refuses")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """No lock, no daemon: the path is in the error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=str(tmp_path / "file")):
        Lock(str(tmp_path / "file" / "below"), "x.toml")


@pytest.mark.fault("H2")
@pytest.mark.fault("H3")
def test_of_twenty_starts_at_once_one_daemon_is_left(tmp_path):
    """One is up; nineteen say who has it, and remove nothing."""
    place = Daemon(tmp_path, shell("a", "exec sleep 60"))
    try:
        started = [place.begin() for _ in range(20)]
        told = []
        for process, ready in started:
            with os.fdopen(ready) as file:
                told.append((process, __import__("json").loads(file.readline())))
        up = [(process, line) for process, line in told if line.get("ready")]
        assert len(up) == 1, [line for _, line in told]
        place.process = up[0][0]
        for process, line in told:
            if process is not place.process:
                assert process.wait(10) == 1
                assert "runs its harnesses already" in line["error"]
        assert place.running("a")["pid"]
        assert (place.folder / "daemon.json").exists()
        assert len([pid for pid in helpers.descendants() if "sleep 60" in helpers.command_line(pid)]) <= 1
        assert place.ask("ping")["pid"] == place.process.pid
    finally:
        place.end()


@pytest.mark.fault("H3")
def test_where_nothing_can_be_written_no_job_runs(tmp_path, home):
    """The daemon exits non-zero, naming the path, and started nothing."""
    state = home / ".local" / "state"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("a file where a folder should be")
    place = Daemon(tmp_path, shell("a", f"touch {tmp_path}/ran; sleep 60"))
    told = place.start()
    assert str(state) in told["error"]
    assert told["status"] == 1
    assert not (tmp_path / "ran").exists()


def test_the_lock_goes_with_its_holder(tmp_path):
    """After a kill -9 the next one starts at once."""
    with daemon(tmp_path, shell("a", "exec sleep 60")) as place:
        place.kill()
        assert place.start()["ready"]
