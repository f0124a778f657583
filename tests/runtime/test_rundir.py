"""The run folder: complete or absent, readable at any instant, never a reason for a run to end."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import folders
import helpers
from longwatch.channel import channel_append
from longwatch.errors import StoreError
from longwatch.options import flag_names
from longwatch.paths import new_run_id
from longwatch.posix import clocks as layout
from longwatch.posix import now
from longwatch.posix.clocks import RUNNING, STOPPING, Clocks
from longwatch.posix.identity import Identity, identity
from longwatch.runtime import rundir
from longwatch.runtime.rundir import RunDir, gc

DAY = 86_400


def read(run: RunDir, name: str) -> bytes:
    return (Path(run.path) / name).read_bytes()


@pytest.mark.capability("NEW-17")
def test_a_run_leaves_a_folder(state: Path) -> None:
    """The folder tells who runs what since when, and is the user's alone."""
    run = folders.make(state, log="/tmp/x.log")
    told = json.loads(read(run, "meta.json"))
    run.close()
    assert told["schema"] == 1
    assert (told["run"], told["name"], told["attempt"], told["parent"]) == (run.run, "build", 1, None)
    assert (told["pid"], told["child_pid"], told["host"]) == (os.getpid(), os.getpid(), os.uname().nodename)
    assert (told["program"], told["flags"]) == ("/bin/build", ["--model"])
    assert told["limits"]["idle"]["window_ms"] == 5_000
    assert told["log"] == "/tmp/x.log"
    assert told["started_at"].endswith("Z")
    modes = {stat.S_IMODE(entry.stat().st_mode) for entry in Path(run.path).iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(os.stat(run.path).st_mode) == 0o700


@pytest.mark.capability("CAP-132")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--model=gpt", "--token", "hunter2", "-v"], ["--model", "--token", "-v"]),
        (["-phunter2", "-p", "hunter2"], ["-p", "-p"]),
        (["- fix the bug", "--fix the bug", "-5", "-", "--dry_run"], ["--dry_run"]),
        (["-a", "--", "-b"], ["-a"]),
        (["--" + "x" * 50, "--é"], []),
    ],
)
def test_no_value_is_recorded(arguments: list[str], names: list[str]) -> None:
    """Of a command line only the names of flags are kept: no value, no prompt, no password glued to a letter."""
    assert flag_names(arguments) == names


def test_the_folder_appears_whole(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader never sees half a folder: when one part cannot be made nothing stays, and the caller is told why."""

    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rundir, "_write", full)
    with pytest.raises(
        StoreError, match="no run folder, `ls` and `why` see nothing: No space left on device"
    ):
        folders.make(state)
    assert os.listdir(state / "runs") == []


def test_an_id_is_used_once(state: Path) -> None:
    """A second run with the same id gets no folder, and the first one's stays."""
    run = folders.make(state, run="build-abcdef")
    run.write_report({"a": 1})
    with pytest.raises(StoreError, match="build-abcdef: no run folder"):
        folders.make(state, run="build-abcdef")
    assert json.loads(read(run, "report.json")) == {"a": 1}
    run.close()
    assert os.listdir(state / "runs") == ["build-abcdef"]


def test_no_place_for_a_folder(state: Path) -> None:
    """Where the state folder cannot be made the caller gets one line."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("in the way")
    with pytest.raises(StoreError, match="cannot make this folder"):
        folders.make(state)


def test_events_are_numbered_facts(state: Path) -> None:
    """Each fact is one line with its number and its instant, by the wall clock and by the run's own."""
    run = folders.make(state)
    at = now() - 60_000
    assert run.append_event({"event": "limit_fired", "mono_ms": at, "at": 5, "limit": "idle"})
    assert run.append_event({"event": "run_ended"})
    first, second = [json.loads(line) for line in read(run, "events.jsonl").splitlines()]
    run.close()
    assert (first["schema"], first["seq"], first["mono_ms"], first["limit"]) == (1, 1, at, "idle")
    assert second["seq"] == 2
    assert 55 < folders_age(first["at"]) < 65
    assert folders_age(second["at"]) < 5


def folders_age(at: str) -> float:
    from datetime import datetime

    return time.time() - datetime.fromisoformat(at).timestamp()


@pytest.mark.fault("R2")
def test_a_report_is_whole_or_absent(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that cannot be written leaves the one before, and a remark instead of an exception."""
    run = folders.make(state)
    assert run.write_report({"a": 1})
    monkeypatch.setattr(
        os, "write", lambda fd, data: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    assert not run.write_report({"a": 2})
    assert not run.append_event({"event": "x"})
    monkeypatch.undo()
    assert run.failed == f"{run.path}/report.json: No space left on device"
    assert json.loads(read(run, "report.json")) == {"a": 1}
    run.close()


@pytest.mark.capability("NEW-11")
def test_a_folder_goes_on_with_the_next_incarnation(state: Path) -> None:
    """The next incarnation has clocks of its own; the report of the one before stays, beside the one of the run."""
    run = folders.make(state)
    folders.make(state).close()
    told = json.loads(read(run, "meta.json"))
    assert run.write_report({"attempt": 1, "exit_code": 1}, over=False)
    assert not (Path(run.path) / "report.json").exists()
    run.renew({**told, "attempt": 2}, 7_000)
    read_back = Clocks.open(str(Path(run.path) / "clocks"))
    assert read_back is not None
    assert list(read_back.header)[1:] == [7_000, 0, 0, 0, RUNNING]
    assert [list(read_back.source(index)) for index in range(2)] == [[0, 0, 0, 0]] * 2
    assert json.loads(read(run, "meta.json"))["attempt"] == 2
    assert run.write_report({"attempt": 2})
    names = {entry.name for entry in Path(run.path).iterdir()}
    assert {"report-1.json", "report.json"} <= names
    assert not {name for name in names if name.startswith(".")}
    run.close()
    assert gc(str(state), moment=time.time() + 31 * DAY) == 1
    assert not Path(run.path).exists()


def test_a_meta_that_cannot_be_written(state: Path) -> None:
    """A disk that takes no more is noted; the run goes on."""
    run = folders.make(state)
    (Path(run.path) / ".meta.new").mkdir()
    assert not run.write_meta({})
    assert run.failed is not None
    assert "meta.json" in run.failed
    run.close()


def test_a_disk_that_takes_half_a_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that went out only in part is a failure that is remembered once."""
    run = folders.make(state)
    monkeypatch.setattr(os, "write", lambda fd, data: len(data) - 1)
    assert not run.append_event({"event": "x"})
    monkeypatch.undo()
    assert run.failed == f"{run.path}/events.jsonl: the disk is full"
    run.close()


def test_a_folder_that_goes_away(state: Path) -> None:
    """When somebody removes the folder under a live run nothing raises, and the report says it has no place."""
    run = folders.make(state)
    for entry in Path(run.path).iterdir():
        entry.unlink()
    Path(run.path).rmdir()
    assert not run.append_event({"event": "x"})
    assert run.channel() == []
    run.clocks.header[layout.ALIVE] = 5
    assert not run.write_report({})
    assert run.failed is not None
    run.close()


# The channel


@given(st.lists(st.integers(0, 200), max_size=5))
def test_messages_come_whole(cuts: list[int]) -> None:
    """However a message arrives, it is read once, and only when its line has its end."""
    import tempfile

    with tempfile.TemporaryDirectory() as state:
        run = folders.make(Path(state))
        data = b'\n{"op": "quiet", "span_ms": 5}\n\nnonsense\n[1]\n{"op": "stop"}\n{"op"'
        messages, at = [], 0
        for cut in [*sorted(cuts), len(data)]:
            with open(run.channel_path, "ab") as channel:
                channel.write(data[at:cut])
            at = max(at, cut)
            messages += run.channel()
        assert messages == [{"op": "quiet", "span_ms": 5}, {"op": "stop"}]
        with open(run.channel_path, "ab") as channel:
            channel.write(b": 1}\n")
        assert run.channel() == [{"op": 1}]
        run.close()


def test_the_channel_is_read_as_it_grows(state: Path) -> None:
    """Messages of other processes arrive in order, large ones too, and none twice."""
    run = folders.make(state)
    assert run.channel() == []
    for number in range(3):
        channel_append(str(state), run.run, {"number": number, "bulk": "x" * 100_000})
    assert [message["number"] for message in run.channel()] == [0, 1, 2]
    assert run.channel() == []
    run.close()


def test_a_channel_that_cannot_be_read(state: Path) -> None:
    """A channel that is no file is no message, and is remarked."""
    run = folders.make(state)
    os.mkdir(run.channel_path)
    assert run.channel() == []
    assert run.failed is not None
    assert "Is a directory" in run.failed
    run.close()


# The clocks


def test_clocks_are_seen_at_once(state: Path) -> None:
    """What the supervisor stores is what a reader finds, without any call in between."""
    run = folders.make(state, age_ms=7_000)
    slot = run.clocks.source(7)
    slot[layout.LAST], slot[layout.COUNT], slot[layout.BYTES], slot[layout.SOURCE_ALIVE] = 1, 2, 3, 4
    run.clocks.set_state(STOPPING, ["quiet", "call"])
    code = (
        "import sys; from longwatch.posix.clocks import Clocks; c = Clocks.open(sys.argv[1])\n"
        "print(list(c.source(7)), c.state, c.holds, c.header[1])"
    )
    done = helpers.run_command([sys.executable, "-c", code, run.path + "/clocks"])
    assert done.out == f"[1, 2, 3, 4] stopping ('call', 'quiet') {run.clocks.header[layout.STARTED]}\n"
    run.clocks.set_state(RUNNING)
    seen = Clocks.open(run.path + "/clocks")
    assert seen is not None
    assert (seen.state, seen.holds) == ("running", ())
    run.close()
    slot[layout.COUNT] = 9
    again = Clocks.open(run.path + "/clocks")
    assert again is not None
    assert again.source(7)[layout.COUNT] == 9


@pytest.mark.parametrize(
    "content", [None, b"", b"short", bytes(layout.CLOCKS_BYTES), b"x" * layout.CLOCKS_BYTES]
)
def test_odd_clocks_are_no_clocks(tmp_path: Path, content: bytes | None) -> None:
    """A missing, short, zeroed or foreign file reads as none."""
    if content is not None:
        (tmp_path / "clocks").write_bytes(content)
    assert Clocks.open(str(tmp_path / "clocks")) is None
    assert Clocks.open(str(tmp_path)) is None


def test_newer_clocks_are_refused(tmp_path: Path) -> None:
    """A file of a newer version is refused with one line; a state that is unknown here reads as running."""
    made = Clocks.create(str(tmp_path / "clocks"), 1)
    made.header[layout.STATE] = 77
    assert made.state == "running"
    made.header[layout.MAGIC] += 1
    made.close()
    with pytest.raises(
        StoreError, match=r"was written by a newer longwatch \(clocks 2\); upgrade to read it"
    ):
        Clocks.open(str(tmp_path / "clocks"))


def test_clocks_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk too full for the clocks says so when they are made: a store into a hole would kill the supervisor."""
    monkeypatch.setattr(os, "write", lambda fd, data: len(data) - 1)
    with pytest.raises(OSError, match="No space left on device"):
        Clocks.create(str(tmp_path / "clocks"), 1)


# Retention


def past(
    state: Path, days: float, *, report: bool = True, supervisor: Identity | None = None, bulk: int = 0
) -> str:
    run = folders.make(state, run=new_run_id("old"), supervisor=supervisor)
    if report:
        run.write_report({"bulk": "x" * bulk})
    run.close()
    age(run.path, days)
    return run.run


def age(path: str, days: float) -> None:
    at = time.time() - days * DAY
    for entry in [*Path(path).iterdir(), Path(path)]:
        os.utime(entry, (at, at))


def test_old_runs_go_once_a_day(state: Path) -> None:
    """Folders past 30 days are pruned with the first run of a day, later ones of that day look no more."""
    old, young = past(state, 31), past(state, 29)
    assert gc(str(state)) == 1
    assert sorted(name for name in os.listdir(state / "runs") if not name.startswith(".")) == [young]
    late = past(state, 31)
    assert gc(str(state)) == 0
    assert (state / "runs" / late).exists()
    assert gc(str(state), moment=time.time() + DAY) == 2
    assert old != late


@pytest.mark.slow
def test_many_runs_are_cut_to_the_newest(state: Path) -> None:
    """Past 220 folders the newest 200 stay, on any run of the day."""
    runs = [past(state, number / 1000) for number in range(1, 221)]
    with (state / "runs" / ".pruned").open("w"):
        assert gc(str(state)) == 0
    runs.insert(0, past(state, 0))
    assert gc(str(state)) == 21
    assert set(os.listdir(state / "runs")) == {*runs[:200], ".pruned"}


def test_bytes_are_bounded(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All folders together stay within their budget; the newest are kept."""
    monkeypatch.setattr(rundir, "KEEP_BYTES", 25_000)
    runs = [past(state, number, bulk=10_000) for number in range(4)]
    assert gc(str(state)) == 2
    assert {name for name in os.listdir(state / "runs") if name != ".pruned"} == set(runs[:2])


def test_live_runs_take_no_ended_ones_place(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of a thousand programs keeps its last two hundred ended runs all the same, and looks only when there are more."""
    monkeypatch.setattr(rundir, "KEEP_RUNS", 2)
    monkeypatch.setattr(rundir, "PRUNE_SLACK", 1)
    me = identity(os.getpid())
    live = {past(state, 0, report=False, supervisor=me) for _ in range(4)}
    ended = [past(state, number) for number in (1, 2, 3)]
    with (state / "runs" / ".pruned").open("w"):
        assert gc(str(state), live=4) == 0
    ended.append(past(state, 4))
    assert gc(str(state), live=4) == 2
    assert set(os.listdir(state / "runs")) == {*live, *ended[:2], ".pruned"}


def test_a_live_run_and_strangers_stay(state: Path) -> None:
    """Never pruned: a live run, a run of another machine, and whatever is not ours."""
    with helpers.ending(folders.sleeper()) as process:
        dead = past(state, 99, report=False, supervisor=Identity(process.pid, 1, folders.me().boot))
        live = past(state, 99, report=False, supervisor=identity(process.pid))
        there = folders.make(state, host="elsewhere")
        there.close()
        age(there.path, 99)
        odd = past(state, 99)
        (state / "runs" / odd / "mine.txt").touch()
        age(str(state / "runs" / odd), 99)
        (state / "runs" / "notes-abcdef").write_text("a file")
        (state / "runs" / "other").mkdir()
        half = state / "runs" / ".new-build-abcdef"
        half.mkdir()
        os.utime(half, (0, 0))
        assert gc(str(state)) == 2
        left = set(os.listdir(state / "runs")) - {".pruned"}
    assert left == {live, there.run, odd, "notes-abcdef", "other"}
    assert dead not in left


def test_nothing_to_prune(state: Path) -> None:
    """Without a state folder there is nothing to do, and nothing is raised."""
    assert gc(str(state)) == 0


# What it costs


def test_the_folder_is_lean() -> None:
    """Making run folder and spool line imports none of what would slow a start down, not even lazily."""
    code = """
import os, sys
before = set(sys.modules)
from longwatch import channel, paths
from longwatch.posix.identity import identity
from longwatch.posix import now
from longwatch.runtime import rundir
from longwatch.store import spool
me = identity(os.getpid())
about = rundir.meta(paths.new_run_id("x"), "x", ["x"], me, me, started_ms=now(), limits={}, sources=["stdout"])
run = rundir.RunDir.create(paths.state(), about, now())
run.append_event({"event": "x"})
channel.channel_append(paths.state(), run.run, {"op": "stop"})
assert run.channel()
run.write_report({})
spool.append(paths.state(), spool.summary({"run": run.run}))
rundir.gc(paths.state())
barred = "re enum typing functools contextlib collections dataclasses subprocess json signal argparse pathlib logging"
barred += " asyncio threading shutil tempfile socket ctypes selectors datetime sqlite3"
print([name for name in barred.split() if name in set(sys.modules) - before])
"""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(helpers.ROOT / 'src')!r})\n{code}"],
        capture_output=True, text=True, timeout=30, env=helpers.environment(measured=False), check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")
