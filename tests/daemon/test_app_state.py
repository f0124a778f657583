"""What a daemon remembers: whole files, written beside the loop."""

import json

import pytest

import helpers
from longwatch.daemon.state import Remembered, Scribe
from longwatch.errors import StoreError
from longwatch.runtime.host import Host


def test_what_was_written_is_read(tmp_path):
    """A file that is not there is empty; one that was written is what it was."""
    file = Remembered(str(tmp_path), "x.json")
    assert (file.read(), file.problem) == ({}, "")
    file.write({"a": 1})
    assert Remembered(str(tmp_path), "x.json").read() == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.fault("R2")
@pytest.mark.parametrize("torn", ['{"a": ', "\0\0\0", "[1]"])
def test_a_damaged_file_is_set_aside_and_kept(tmp_path, torn):
    """Each one under a name of its own."""
    for number in (1, 2):
        (tmp_path / "x.json").write_text(torn)
        file = Remembered(str(tmp_path), "x.json")
        assert file.read() == {}
        assert f"x.json.damaged-{number}" in file.problem
        assert (tmp_path / f"x.json.damaged-{number}").read_text() == torn


def test_what_cannot_be_written_is_named(tmp_path):
    """The path is in the error."""
    file = Remembered(str(tmp_path / "gone"), "x.json")
    with pytest.raises(StoreError, match=r"gone/x\.json: cannot be written"):
        file.write({})


def test_a_scribe_writes_the_last_version_and_says_what_it_could_not(tmp_path):
    """Files are written in a thread, in order; errors and who waits are told in the loop; the end waits for all."""
    host, failed = Host(), []
    scribe = Scribe(host, failed.append)
    file = Remembered(str(tmp_path), "x.json")
    done: list[object] = []
    for number in range(50):
        scribe.write(file, {"n": number}, lambda number=number: done.append(number))
    scribe.write(Remembered(str(tmp_path / "gone"), "y.json"), {}, lambda: done.append("gone"))
    helpers.wait_until(lambda: host.turn(10) or len(done) == 51)
    assert done == [*range(50), "gone"]
    scribe.close()
    scribe.close()
    assert json.loads((tmp_path / "x.json").read_text()) == {"n": 49}
    assert len(failed) == 1
    host.close()


def test_timers_of_a_host_go_off_in_order_and_a_defect_stops_nobody(tmp_path):
    """Cancelled ones do not; what raises is told, and the others go on."""
    host, seen, defects = Host(), [], []
    host.failed = defects.append
    now = host.now()
    host.at(now + 30, lambda at: seen.append("late"))
    host.at(now + 10, lambda at: 1 / 0)
    gone = host.at(now + 15, lambda at: seen.append("never"))
    host.at(now + 20, lambda at: seen.append("early"))
    host.cancel(gone)
    host.soon(lambda at: seen.append("now"))
    helpers.wait_until(lambda: host.turn(50) or len(seen) == 3)
    assert seen == ["now", "early", "late"]
    assert [type(error) for error in defects] == [ZeroDivisionError]
    host.close()


def test_a_short_command_runs_in_its_folder_and_has_its_limit(tmp_path):
    """Its own folder without moving ours; cut off at the limit with all it started."""
    host, ends = Host(), []
    host.command(
        ["sh", "-c", "pwd; cat"],
        limit_ms=5_000,
        cwd=str(tmp_path),
        stdin=b"told\n",
        on_done=lambda *end: ends.append(end),
    )
    host.command(["sh", "-c", "sleep 600 & sleep 600"], limit_ms=100, on_done=lambda *end: ends.append(end))
    helpers.wait_until(lambda: host.turn(50) or len(ends) == 2)
    assert ends == [(0, f"{tmp_path}\ntold\n"), (None, "")]
    host.close()
