"""`longwatch logs`: the log file, else what the report keeps."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import folders
import helpers
from folders import verb
from longwatch.cli import following, logs
from longwatch.cli.cleaner import Cleaner
from longwatch.posix import now
from longwatch.posix.identity import Identity, identity
from longwatch.runtime.agent_log import AgentLog
from longwatch.runtime.rundir import RunDir
from longwatch.store.run_folders import live_runs

Capture = pytest.CaptureFixture[str]


def stream(head: str, tail: str = "", size: int | None = None) -> dict[str, object]:
    size = len(head) + len(tail) if size is None else size
    return {"bytes": size, "head": head, "tail": tail, "truncated": size > len(head) + len(tail)}


def test_output_of_a_run_without_a_log(state: Path, capsys: Capture) -> None:
    """Head and tail of the report are shown, and where something is missing between them."""
    folders.ended(state)
    assert verb(capsys, "logs") == (0, "hello\n", "")
    folders.ended(state, "both", stdout=stream("out"), stderr=stream("err\n"))
    assert verb(capsys, "logs", "both").out == "==> stdout <==\nout\n==> stderr <==\nerr\n"
    folders.ended(state, "large", stdout=stream("begin\n", "end\n", 5_000))
    lines = verb(capsys, "logs", "large").out.splitlines()
    assert (lines[0], lines[-1]) == ("begin", "end")
    assert "4990" in lines[1] or "4,990" in lines[1]
    assert verb(capsys, "logs", "large", "-n", "1").out == "end\n"


def test_logs_for_programs(state: Path, capsys: Capture) -> None:
    """JSON holds the output as text."""
    run = folders.ended(state)
    assert json.loads(verb(capsys, "logs", "--json").out) == {"schema": 1, "run": run, "output": "hello\n"}


def test_the_log_file_is_shown(state: Path, capsys: Capture, tmp_path: Path) -> None:
    """With --log the file is shown, whole or its last lines, also while the run lives."""
    log = tmp_path / "x.log"
    log.write_text("one\ntwo\nthree\n")
    folders.make(state, log=str(log))
    assert verb(capsys, "logs", "build").out == "one\ntwo\nthree\n"
    assert verb(capsys, "logs", "build", "-n", "2").out == "two\nthree\n"
    assert verb(capsys, "logs", "build", "-n", "9").out == "one\ntwo\nthree\n"
    assert verb(capsys, "logs", "build", "-n", "0").out == ""


@given(st.lists(st.sampled_from([b"a", b"bb\n", b"\n"]), max_size=40), st.integers(0, 9))
def test_last_lines_of_any_file(parts: list[bytes], lines: int) -> None:
    """The last lines are found from the end of a file, whatever it holds and however it is read."""
    data = b"".join(parts)
    expected = b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
    assert logs._last(data, lines) == expected
    descriptor = os.memfd_create("log")
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(following, "_BLOCK", 3)
            begin, found = following.begin_of_last(descriptor, lines)
            assert data[begin:] == expected
            assert found == len(expected.splitlines())


def test_what_cannot_be_shown_is_one_line(state: Path, capsys: Capture, tmp_path: Path) -> None:
    """A live run without a log, a log that is gone, a run without a folder, no run: one line each."""
    live = folders.make(state, "server")
    said = verb(capsys, "logs", "server")
    assert (said.code, said.out) == (1, "")
    assert "only the output of a run with --log FILE can be read before it is over" in said.err
    assert "only a run with --log FILE can be followed" in verb(capsys, "logs", "-f", "server").err
    live.close()
    gone = folders.make(state, "gone", log=str(tmp_path / "gone.log"))
    gone.write_report(folders.report(gone.run, "gone"))
    said = verb(capsys, "logs", "gone")
    assert said.out == "hello\n"
    assert "gone.log is gone; this is what the report keeps" in said.err
    (Path(gone.path) / "report.json").write_text("{")
    assert "no output is kept, and" in verb(capsys, "logs", gone.run).err
    from longwatch.store import spool

    spool.append(str(state), spool.summary(folders.report("short-abcdef", "short")))
    assert (
        verb(capsys, "logs", "short").err
        == "longwatch: short-abcdef: no output is kept; --log FILE would keep it\n"
    )
    assert verb(capsys, "logs", "zzz").code == 4


def test_no_run_no_log(state: Path, capsys: Capture) -> None:
    """An empty history has nothing to show."""
    assert verb(capsys, "logs") == (1, "", "longwatch: no run is on record yet\n")


def test_notes_of_the_ledger_are_told(state: Path, capsys: Capture) -> None:
    """What the ledger has to say goes to stderr."""
    folders.ended(state)
    (state / "ledger.sqlite3").write_text("rot" * 1000)
    assert "was damaged" in verb(capsys, "logs").err


def test_what_draws_is_taken_out(state: Path, capsys: Capture, tmp_path: Path) -> None:
    """Control sequences are taken out, a progress bar becomes lines; --raw is the bytes as they came."""
    log = tmp_path / "x.log"
    log.write_bytes(b"\x1b[31mred\x1b[0m\r\n10%\r20%\r\n\x1b]0;title\x07\x1b(Bok\x1b7 \x07\xff\tend\x1b[2")
    folders.make(state, log=str(log))
    code = "import sys; from longwatch.cli.verbs import main; sys.exit(main(sys.argv[1:]))"
    shown = subprocess.run([sys.executable, "-c", code, "logs", "build"], capture_output=True, check=True)
    assert shown.stdout == b"red\n10%\n20%\nok \xff\tend[2"
    raw = subprocess.run(
        [sys.executable, "-c", code, "logs", "build", "--raw"], capture_output=True, check=True
    )
    assert raw.stdout == log.read_bytes()
    assert json.loads(verb(capsys, "logs", "build", "--json").out)["output"].startswith("\x1b[31mred")


EVENTS: list[tuple[dict[str, object], str]] = [
    ({"kind": "session_start", "session": "s-1"}, "session_start  s-1"),
    ({"kind": "turn_start", "by": "user"}, "turn_start  user"),
    ({"kind": "text", "chars": 12}, "text  12 characters"),
    ({"kind": "tool_call", "call": "c1", "tool": "Bash"}, "tool_call  Bash  c1"),
    ({"kind": "tool_result", "call": "c1", "ok": True}, "tool_result  Bash  ok  c1"),
    ({"kind": "tool_result", "call": "c2", "partial": True}, "tool_result  still runs  c2"),
    (
        {"kind": "tool_result", "call": "c3", "ok": False, "why": "error", "exit_code": 3},
        "error (exit status 3)  c3",
    ),
    ({"kind": "retry", "class": "overload", "status": 529, "delay_ms": 2_000}, "retry  overload  529  in 2s"),
    ({"kind": "limit", "class": "usage", "span_ms": 3_600_000}, "limit  usage  for 1h"),
    ({"kind": "limit", "class": "usage", "lifted": True}, "limit  usage  over"),
    ({"kind": "permission", "state": "waiting", "tool": "Bash"}, "permission  Bash  waiting"),
    ({"kind": "error", "class": "auth", "message": "no\x1b[2J", "sub": "h"}, "error  auth  no?[2J  [h]"),
    ({"kind": "turn_end", "ok": True, "reason": "end_turn"}, "turn_end  end_turn"),
]


def acted(state: Path, name: str = "agent", **options: object) -> RunDir:
    """Leave a run whose agent did all that there is a line for."""
    folder = folders.make(state, name, **options)  # type: ignore[arg-type]
    log = AgentLog()
    log.keep_in(folder)
    for fields, _ in EVENTS:
        log.heard(now(), fields)
    log.end()
    return folder


def test_what_an_agent_did_is_shown(state: Path, capsys: Capture) -> None:
    """Of an agent `logs` shows its events, one a line with its time; --raw is still what it printed."""
    folder = acted(state)
    said = verb(capsys, "logs", "agent")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) == len(EVENTS)
    for line, (_, expected) in zip(lines, EVENTS, strict=True):
        assert line.endswith(expected), line
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  [a-z]", line)
    assert verb(capsys, "logs").out == said.out  # nothing has ended yet
    assert verb(capsys, "logs", "agent", "-n", "2").out.splitlines() == lines[-2:]
    assert verb(capsys, "logs", "agent", "-n", "0").out == ""
    told = json.loads(verb(capsys, "logs", "agent", "--json", "-n", "99").out)
    assert [event["kind"] for event in told["events"]] == [fields["kind"] for fields, _ in EVENTS]
    folder.write_report(folders.report(folder.run, "agent"))
    assert verb(capsys, "logs", "agent", "--raw").out == "hello\n"
    assert verb(capsys, "logs", "agent").out == said.out


def test_torn_events_are_passed_over(state: Path, capsys: Capture) -> None:
    """A line that is no event, or without its end, is not shown; the file before the newest one is."""
    folder = acted(state)
    log = Path(folder.path, "agent.jsonl")
    before = log.rename(f"{log}.1")
    before.write_bytes(before.read_bytes() + b'{"kind": "torn')
    log.write_bytes(b'{"kind": "text"}\ntorn}\n[1]\n{"kind": "text"}\n{"kind": "te')
    lines = verb(capsys, "logs", "agent").out.splitlines()
    assert len(lines) == len(EVENTS) + 2
    assert lines[-1] == "?  text"


def test_events_are_followed_to_the_end_of_the_run(state: Path) -> None:
    """-f waits for the first event, shows each as it comes, and ends with the run; as JSON one object a line."""
    code = "import sys; from longwatch.cli.verbs import main; sys.exit(main(sys.argv[1:]))"
    with helpers.ending(folders.sleeper()) as supervisor:
        folder = folders.make(state, "agent", supervisor=identity(supervisor.pid))
        folders.observe(folder)
        log = AgentLog()
        log.keep_in(folder)
        argv = [sys.executable, "-c", code, "logs", "-f", "--json", "agent"]
        with helpers.ending(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as follower:
            assert follower.stdout is not None
            for call in ("c1", "c2"):
                log.heard(now(), {"kind": "tool_call", "call": call})
                log.looked()
                told = json.loads(follower.stdout.readline())
                assert (told["schema"], told["run"], told["event"]["call"]) == (1, folder.run, call)
            log.heard(now(), {"kind": "turn_end"})
            log.end()
            supervisor.kill()
            supervisor.wait()
            assert [json.loads(line)["event"]["kind"] for line in follower.stdout] == ["turn_end"]
            assert follower.wait(10) == 0


def test_following_an_agent_that_does_nothing(state: Path, capsys: Capture) -> None:
    """An agent without any event is waited for only while its run lives; one that is over shows its last ones."""
    with helpers.ending(folders.sleeper()) as supervisor:
        folder = folders.make(state, "agent", supervisor=identity(supervisor.pid))
        folders.observe(folder)
        assert verb(capsys, "logs", "agent") == (0, "", "")
        (live,) = live_runs(str(state))
        supervisor.kill()
        supervisor.wait()
        logs._show_events(live, 10, follow=True, as_json=False)
        assert capsys.readouterr().out == ""
    over = acted(state, "over")
    over.write_report(folders.report(over.run, "over"))
    about = json.loads(Path(over.path, "meta.json").read_text())
    Path(over.path, "meta.json").write_text(json.dumps({**about, "start": 1}))
    assert len(verb(capsys, "logs", "-f", "over").out.splitlines()) == 10


PIECES = st.sampled_from(
    [
        b"a",
        b"\n",
        b"\r",
        b"\r\n",
        b"\x1b",
        b"[",
        b"]",
        b"0;",
        b"m",
        b"\x07",
        b"\\",
        b"P",
        b"\x1b[31m",
        b"\x1b]x\x07",
    ]
)


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 60), max_size=8))
@example([b"\x1b", b"P", b"\x1b[31m"], [3])
@example([b"\x1b]", b"\r\n"], [3])
def test_cleaning_does_not_depend_on_chunks(parts: list[bytes], cuts: list[int]) -> None:
    """However the bytes come, no control sequence gets through, and line breaks stay."""
    data = b"".join(parts)
    whole = Cleaner()
    expected = whole.feed(data) + whole.flush()
    cleaner, out, at = Cleaner(), b"", 0
    for cut in [*sorted(cuts), len(data)]:
        out += cleaner.feed(data[at:cut])
        at = max(at, cut)
    out += cleaner.flush()
    assert out == expected
    assert b"\x1b" not in out
    assert b"\r" not in out


def test_a_sequence_without_end_does_not_hold_the_stream() -> None:
    """What looks like the beginning of a sequence is given up when it grows too long."""
    cleaner = Cleaner()
    assert cleaner.feed(b"\x1b]" + b"x" * 100) == b""
    assert len(cleaner.feed(b"x" * 5_000)) > 5_000


def test_a_log_is_followed_to_the_end_of_the_run(state: Path, tmp_path: Path) -> None:
    """-f shows the last lines, what comes, what comes after a rotation, and ends with the run."""
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {n}\n" for n in range(20)))
    code = "import sys; from longwatch.cli.verbs import main; sys.exit(main(sys.argv[1:]))"
    with helpers.ending(folders.sleeper()) as supervisor:
        folders.make(state, log=str(log), supervisor=identity(supervisor.pid)).close()
        argv = [sys.executable, "-c", code, "logs", "-f", "build"]
        with helpers.ending(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as follower:
            assert follower.stdout is not None
            assert [follower.stdout.readline() for _ in range(10)] == [f"line {n}\n" for n in range(10, 20)]
            with log.open("a") as writer:
                writer.write("more\n")
            assert follower.stdout.readline() == "more\n"
            log.rename(tmp_path / "x.log.1")
            log.write_text("after the rotation\n")
            assert follower.stdout.readline() == "after the rotation\n"
            with log.open("a") as writer:
                writer.write("last words\n")
            supervisor.kill()
            supervisor.wait()
            assert follower.stdout.read() == "last words\n"
            assert follower.wait(10) == 0


def test_following_what_is_over(state: Path, capsys: Capture, tmp_path: Path) -> None:
    """Following a run that is over shows its end and returns; a log that cannot be opened is one line."""
    log = tmp_path / "x.log"
    log.write_text("one\ntwo\n")
    run = folders.make(state, log=str(log))
    run.write_report(folders.report(run.run))
    about = json.loads(Path(run.path, "meta.json").read_text())
    Path(run.path, "meta.json").write_text(json.dumps({**about, "start": 1}))
    assert verb(capsys, "logs", "-f", "-n", "1").out == "two\n"
    told = [json.loads(line) for line in verb(capsys, "logs", "-f", "--json").out.splitlines()]
    assert [line["output"] for line in told] == ["one\ntwo\n"]
    log.unlink()
    said = verb(capsys, "logs", "-f", "build")
    assert (said.code, said.err) == (1, f"longwatch: {log}: No such file or directory\n")


def test_a_log_that_vanishes_is_followed_to_its_end(state: Path, tmp_path: Path) -> None:
    """A followed file that somebody removes is read to its end, and that is all."""
    log = tmp_path / "x.log"
    log.write_text("one\n")
    folders.make(
        state, log=str(log), supervisor=Identity(os.getpid(), 1, "another boot"), host="elsewhere"
    ).close()
    (folder,) = live_runs(str(state))
    chunks = logs._follow(folder, str(log), 9)
    assert next(chunks) == b"one\n"
    log.unlink()
    assert list(chunks) == []
