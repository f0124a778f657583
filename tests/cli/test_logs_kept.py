"""`longwatch logs` of harnesses: found and followed in files, with a daemon or without one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import folders
import helpers
from folders import verb
from longwatch.cli import following, logs
from longwatch.cli.following import Follower, Waker
from longwatch.core.harness import SCHEDULED, Harness
from longwatch.paths import daemon_folder, daemon_id
from longwatch.posix import now
from longwatch.posix.rotated import Place, Rotated
from longwatch.runtime.agent_log import AgentLog
from longwatch.runtime.logs import Logs
from longwatch.runtime.marks import ended, started

ONE, TWO, THREE = "web-aaaaaa", "web-bbbbbb", "web-cccccc"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return a configuration file in the folder that one works in."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "longwatch.toml").write_text("")
    return folder / "longwatch.toml"


def logs_of(state, file):
    return Logs(os.path.join(daemon_folder(str(state), daemon_id(str(file))), "logs"))


def run(kept, harness, run_id, text, *, attempt=1, end="exited 0"):
    """Leave what a run of a harness writes; without `end` it still runs."""
    sink = kept.sink(harness, run_id, False, pytest.fail)
    sink.note(started(run_id, attempt))
    if text:
        assert sink.write(memoryview(text)) == len(text)
    if end:
        sink.note(ended(run_id, end))
        sink.close()
    return sink


@pytest.fixture
def web(state, file):
    """Leave the log of a resident harness with three runs, the last of which still runs."""
    kept, harness = logs_of(state, file), Harness("web", ("web",))
    run(kept, harness, ONE, b"one\none again\n")
    run(kept, harness, TWO, b"two", attempt=2, end="died of SIGKILL")
    live = run(kept, harness, THREE, b"\x1b[31mthree\x1b[0m\n", attempt=3, end="")
    yield live
    live.close()


def shown(said):
    """Return the lines that a program printed."""
    assert said.code == 0, said
    return [line for line in said.out.splitlines() if not line.startswith("-- longwatch ")]


@pytest.mark.capability("CAP-131")
class TestFinding:
    """Which log a word means."""

    def test_all_runs_of_a_harness(self, web, capsys):
        """A harness is shown with all its runs and the lines between them; -n shows the last lines of all."""
        said = verb(capsys, "logs", "web")
        assert shown(said) == ["one", "one again", "two", "three"]
        assert said.out.count("-- longwatch ") == 5
        assert shown(verb(capsys, "logs", "web", "-n", "1")) == ["three"]
        assert verb(capsys, "logs", "web", "-n", "0").out == ""
        assert json.loads(verb(capsys, "logs", "web", "-n", "1", "--json").out) == {
            "schema": 1, "harness": "web", "output": "\x1b[31mthree\x1b[0m\n",
        }  # fmt: skip

    def test_one_run_is_cut_out_of_it(self, web, capsys):
        """A run is shown from its beginning to its end, without its neighbours."""
        said = verb(capsys, "logs", ONE)
        assert shown(said) == ["one", "one again"]
        assert [line.split(": ", 1)[1] for line in said.out.splitlines() if line.startswith("--")] == [
            f"started {ONE} (attempt 1) --", f"ended {ONE}: exited 0 --",
        ]  # fmt: skip
        assert shown(verb(capsys, "logs", TWO)) == ["two"]
        assert shown(verb(capsys, "logs", THREE)) == ["three"]
        assert verb(capsys, "logs", ONE, "-n", "2").out.startswith("one again\n-- longwatch")
        assert json.loads(verb(capsys, "logs", THREE, "--json").out)["run"] == THREE

    def test_a_run_whose_lines_are_gone(self, web, capsys):
        """Of a run that was rotated away one line says so."""
        said = verb(capsys, "logs", "web-zzzzzz")
        assert (said.code, said.out) == (1, "")
        assert said.err == "longwatch: web-zzzzzz: its lines are no longer in the log of web\n"

    def test_the_runs_of_a_scheduled_harness(self, state, file, capsys):
        """It has a file for each run: its name means the newest one."""
        kept, harness = logs_of(state, file), Harness("nightly", ("x",), kind=SCHEDULED)
        for number, name in enumerate(("nightly-aaaaaa", "nightly-bbbbbb")):
            sink = run(kept, harness, name, name.encode() + b"\n")
            os.utime(sink.path, (number, number))
        assert shown(verb(capsys, "logs", "nightly")) == ["nightly-bbbbbb"]
        assert shown(verb(capsys, "logs", "nightly-aaaaaa")) == ["nightly-aaaaaa"]
        assert shown(verb(capsys, "logs", "-f", "nightly-aaaaaa")) == ["nightly-aaaaaa"]

    def test_files_before_the_newest_one_are_shown(self, state, file, capsys):
        """What was rotated away is shown before the newest file, also where only the last lines are wanted."""
        kept = logs_of(state, file)
        sink = kept.sink(Harness("web", ("x",), log={"max": 40, "keep": 4}), ONE, False, pytest.fail)
        for number in range(12):
            sink.write(memoryview(b"line %05d\n" % number))
        sink.close()
        assert len(os.listdir(kept.folder)) == 4
        assert shown(verb(capsys, "logs", "web")) == [f"line {n:05}" for n in range(12)]
        assert shown(verb(capsys, "logs", "web", "-n", "6")) == [f"line {n:05}" for n in range(6, 12)]
        assert shown(verb(capsys, "logs", "web", "-n", "99")) == [f"line {n:05}" for n in range(12)]

    def test_which_file_is_meant(self, state, tmp_path, file, web, capsys, monkeypatch):
        """--config names the daemon; elsewhere a name that only one has is found, one that several have is refused."""
        other = tmp_path / "other.toml"
        other.write_text("")
        run(logs_of(state, other), Harness("web", ("x",)), "web-dddddd", b"other\n")
        run(logs_of(state, other), Harness("db", ("x",)), "db-dddddd", b"db\n")
        assert shown(verb(capsys, "logs", "web", "--config", str(other))) == ["other"]
        assert shown(verb(capsys, "logs", "db")) == ["db"]
        monkeypatch.chdir(tmp_path)
        assert shown(verb(capsys, "logs", "db")) == ["db"]
        said = verb(capsys, "logs", "web")
        assert said.code == 2
        assert "name one with --config" in said.err
        assert verb(capsys, "logs", "web", "--config", "nowhere.toml").code == 2

    def test_a_run_by_hand_beside_a_harness(self, state, web, capsys):
        """What `run` has left is found as before; a word that means nothing is no harness, whatever is in it."""
        folders.ended(state, "build")
        assert verb(capsys, "logs", "build").out == "hello\n"
        for word in ("../web", "nothing", "", "x" * 300, ".web"):
            assert verb(capsys, "logs", word).code in (0, 4), word

    def test_events_of_an_agent(self, state, file, capsys):
        """Of a harness that is an observed agent its events are shown, as of any agent; --raw shows its output."""
        kept, harness = logs_of(state, file), Harness("agent", ("claude",))
        folder = folders.make(state, "agent", run="agent-aaaaaa")
        log = AgentLog()
        log.keep_in(folder)
        log.heard(now(), {"kind": "tool_call", "call": "c1", "tool": "Bash"})
        log.end()
        run(kept, harness, "agent-aaaaaa", b"drawn\n", end="").close()
        for word in ("agent", "agent-aaaaaa"):
            assert verb(capsys, "logs", word).out.endswith("tool_call  Bash  c1\n")
            assert shown(verb(capsys, "logs", word, "--raw")) == ["drawn"]


@pytest.fixture
def follow():
    """Return a starter of `logs -f` in a process of its own."""
    started_here = []

    def start(*words):
        code = "import sys; from longwatch.cli.verbs import main; sys.exit(main(sys.argv[1:]))"
        process = subprocess.Popen(
            [sys.executable, "-c", code, "logs", "-f", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started_here.append(process)
        return process

    yield start
    for process in started_here:
        with helpers.ending(process):
            pass


def next_line(process):
    """Return the next line that the program printed, without those of ours."""
    while (line := process.stdout.readline()).startswith("-- longwatch "):
        pass
    return line


class TestFollowing:
    """A reader beside the daemon."""

    @pytest.mark.fault("M3")
    @pytest.mark.fault("A3")
    def test_a_harness_is_followed_until_ctrl_c(self, web, follow):
        """Each line comes once, over our rotation, one from outside, a cut and a removal; Ctrl-C ends it, silently."""
        reader = follow("web", "-n", "1")
        assert next_line(reader) == "three\n"
        path = Path(web.path)
        for number, move in enumerate(
            [lambda: None, web._file.rotate, lambda: path.rename(f"{path}.moved"), lambda: os.truncate(path, 0), path.unlink]
        ):  # fmt: skip
            move()
            helpers.wait_until(lambda: web._file._place.look() or True)
            web._file.close()
            web.write(memoryview(b"line %d\n" % number))
            assert next_line(reader) == f"line {number}\n"
        reader.send_signal(signal.SIGINT)
        out, err = reader.communicate(timeout=10)
        assert (reader.returncode, out, err) == (-signal.SIGINT, "", "")

    def test_a_run_is_followed_to_its_end(self, web, follow):
        """A run in a shared file is followed until the daemon writes that it is over."""
        reader = follow(THREE)
        assert next_line(reader) == "three\n"
        web.write(memoryview(b"more\n"))
        assert next_line(reader) == "more\n"
        web.note(ended(THREE, "exited 3"))
        out, err = reader.communicate(timeout=10)
        assert (reader.returncode, err) == (0, "")
        assert out.endswith("exited 3 --\n")

    def test_a_run_in_a_file_of_its_own_too(self, state, file, follow):
        """So is one that has a file of its own; as JSON, a piece a line."""
        kept, harness = logs_of(state, file), Harness("nightly", ("x",), kind=SCHEDULED)
        sink = run(kept, harness, "nightly-aaaaaa", b"begun\n", end="")
        reader = follow("nightly", "--json", "-n", "1")
        assert json.loads(reader.stdout.readline()) == {
            "schema": 1, "harness": "nightly", "run": "nightly-aaaaaa", "output": "begun\n",
        }  # fmt: skip
        sink.note(ended("nightly-aaaaaa", "exited 0"))
        sink.close()
        assert json.loads(reader.stdout.readline())["output"].endswith("exited 0 --\n")
        assert reader.wait(10) == 0

    def test_the_next_run_ends_one_whose_end_was_never_written(self, web, capsys):
        """A daemon that was killed cannot write the end of a run: the beginning of the next one is it."""
        web.note(started("web-dddddd", 4))
        assert shown(verb(capsys, "logs", "-f", THREE)) == ["three"]


PIECES = st.one_of(
    st.tuples(st.just("write"), st.binary(max_size=30) | st.just(b"line\n")),
    st.tuples(st.sampled_from(["read", "rotate", "move", "cut", "remove"]), st.just(b"")),
)


@pytest.mark.fault("M3")
@given(st.lists(PIECES, max_size=40))
def test_every_byte_comes_once(tmp_path_factory, moves):
    """However a log is rotated, moved, cut or removed, what was there when somebody looked comes once, and in order.

    What is cut off, removed or moved elsewhere before anybody has read it is gone; so the test reads before that.
    """
    folder = tmp_path_factory.mktemp("logs")
    path = folder / "x.log"
    writer = Rotated(str(path), Place(str(folder)), 0, 30)
    writer.prepare()
    expected = got = b""
    with Follower(str(path)) as follower:
        for number, (move, piece) in enumerate([*moves, ("read", b"")]):
            data = (
                b"%02d" % number + piece
            )  # the same bytes anew in a cut file cannot be told from the old ones
            writer.prepare()
            if move == "write":
                writer.write(memoryview(data))
                expected += data
            if move in ("read", "move", "cut", "remove"):
                got += b"".join(follower.read())
                assert got == expected
            if move == "rotate":
                writer.rotate()
            elif move == "move":
                path.rename(folder / f"moved{len(os.listdir(folder))}")
                writer.close()
            elif move == "cut":
                os.truncate(path, 0)
            elif move == "remove":
                path.unlink()
                writer.close()
        writer.prepare()
        got += b"".join(follower.read())
    writer.close()
    assert got == expected


class TestFollower:
    """What a look alone cannot show."""

    def test_a_file_written_anew_to_the_same_length(self, tmp_path):
        """A file that is as long as before, or longer, but has other bytes there, is read from its beginning."""
        path = tmp_path / "x.log"
        path.write_bytes(b"one two three\n")
        with Follower(str(path)) as follower:
            assert b"".join(follower.read()) == b"one two three\n"
            path.write_bytes(b"another text, and longer\n")
            assert b"".join(follower.read()) == b"another text, and longer\n"

    def test_what_a_writer_still_has_for_the_old_file(self, tmp_path):
        """After a rename from outside the old file is read until the new one holds something."""
        path = tmp_path / "x.log"
        with path.open("wb", buffering=0) as writer, Follower(str(path)) as follower:
            writer.write(b"one\n")
            path.rename(tmp_path / "moved")
            path.write_bytes(b"")
            assert b"".join(follower.read()) == b"one\n"
            writer.write(b"two\n")
            assert b"".join(follower.read()) == b"two\n"
            writer.write(b"three\n")
            path.write_bytes(b"four\n")
            assert b"".join(follower.read()) == b"three\nfour\n"

    def test_older_files_are_not_read_again(self, tmp_path):
        """A file that was removed is followed by the next one, not by those that were rotated before it."""
        path = tmp_path / "x.log"
        (tmp_path / "x.log.1").write_bytes(b"old\n")
        os.utime(tmp_path / "x.log.1", (1, 1))
        path.write_bytes(b"one\n")
        with Follower(str(path)) as follower:
            assert b"".join(follower.everything()) == b"old\none\n"
            path.unlink()
            path.write_bytes(b"two\n")
            assert b"".join(follower.read()) == b"two\n"

    def test_many_rotations_between_two_looks(self, tmp_path):
        """All files that came in between are read; those beyond the kept ones are gone."""
        file = Rotated(str(tmp_path / "x.log"), Place(str(tmp_path)), 10, 4)
        file.prepare()
        file.write(memoryview(b"line 0000\n"))
        with Follower(file.path) as follower:
            assert b"".join(follower.read()) == b"line 0000\n"
            for number in range(1, 4):
                file.write(memoryview(b"line %04d\n" % number))
            assert b"".join(follower.read()).split() == b"line 0001 line 0002 line 0003".split()
            for number in range(4, 10):
                file.write(memoryview(b"line %04d\n" % number))
            assert b"".join(follower.read()).split()[1::2] == [b"0006", b"0007", b"0008", b"0009"]
        file.close()

    def test_waking_without_inotify(self, tmp_path, monkeypatch):
        """Where the package is missing, or the user's watches are used up, one looks from time to time."""
        monkeypatch.setitem(sys.modules, "longwatch.observe.alarm", None)
        monkeypatch.setattr(following, "LOOK", 1)
        reading, writing = os.pipe()
        with Waker(str(tmp_path / "x")) as waker:
            waker.add(reading)
            assert waker.wait() == set()
            os.write(writing, b"x")
            assert waker.wait() == {reading}
        os.close(reading)
        os.close(writing)

    def test_waking_by_a_write(self, tmp_path):
        """A write wakes at once, long before the next look."""
        path = tmp_path / "x"
        path.write_text("")
        with Waker(str(path)) as waker:
            path.write_text("more")
            before = now()
            assert waker.wait() == set()
            assert now() - before < following.SURE


def test_a_harness_that_has_printed_nothing(state, file, capsys, monkeypatch):
    """The daemon knows it although there is no file yet: nothing is shown, and -f waits for the first line."""

    class Daemon:
        def describe(self, name):
            if name != "silent":
                raise logs.LongwatchError("no harness")
            return {"log": str(file.parent / "silent.log")}

    monkeypatch.setattr(logs, "daemon_if_any", lambda config: Daemon())
    assert verb(capsys, "logs", "silent") == (0, "", "")
    assert verb(capsys, "logs", "other").code == 4
