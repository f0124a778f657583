"""Silence that is not a stall: what moves, what may be slow to start, and what only looks silent."""

from pathlib import Path

import pytest

from longwatch.testing import children
from supervised import live, python, shell, supervise

WINDOW = "500ms"


@pytest.mark.fault("A4")
@pytest.mark.capability("CAP-5")
def test_stderr_alone_is_progress() -> None:
    """A program that only writes to stderr lives, and its report names the stream that moved."""
    run = supervise("--idle", WINDOW, program=children.ticker(0.1, count=20, stream="stderr"))
    assert (run.code, run.reason, run.said) == (0, "exited", [])
    assert run.report["progress"]["stderr"]["count"] >= 8
    assert run.report["progress"]["stdout"] == {"last_ms": None, "count": 0}


@pytest.mark.fault("A4")
def test_a_file_alone_is_progress(tmp_path: Path) -> None:
    """A program that only writes to a watched file lives, and the status names the file."""
    beat = tmp_path / "beat"
    script = f"i=0; while [ $i -lt 20 ]; do echo x >>{beat}; sleep 0.1; i=$((i + 1)); done"
    with live("--progress", f"file:{beat}", "--poll", "50ms", "--idle", WINDOW, program=shell(script)) as run:
        source = run.status()["sources"][f"file:{beat}"]
        done = run.finish()
    assert (done.code, done.reason) == (0, "exited")
    assert source["count"] >= 1
    assert source["last_ms_ago"] < 1_000
    assert done.report["progress"][f"file:{beat}"]["count"] >= 8


@pytest.mark.fault("A5")
def test_the_start_has_a_budget_of_its_own() -> None:
    """A program may be silent for three windows before its first word where --first allows it."""
    script = "sleep 1.5; for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"
    run = supervise("--first", "10s", "--idle", WINDOW, program=shell(script))
    assert (run.code, run.reason) == (0, "exited")
    assert run.out.split() == ["1", "2", "3", "4", "5"]


@pytest.mark.fault("A5")
def test_after_the_first_word_the_idle_limit_holds() -> None:
    """The budget of the start is spent with the first word: the silence after it is the idle limit's."""
    run = supervise("--first", "30s", "--idle", WINDOW, program=shell("sleep 0.6; echo up; sleep 60"))
    assert (run.code, run.reason, run.out) == (124, "idle", "up\n")


@pytest.mark.fault("A5")
def test_a_first_word_that_never_comes_is_named() -> None:
    """Where no first word comes the limit of the start stops the program, and says that it was this limit."""
    run = supervise("--first", WINDOW, "--idle", "30s", program=children.silent())
    assert (run.code, run.reason) == (124, "first")
    assert "no first output within 500ms (--first 500ms)" in run.said[0]
    assert len(run.said) == 3


BUFFERED = python("import time", "for i in range(14): print('tick', i); time.sleep(0.1)")


@pytest.mark.fault("A6")
def test_a_program_that_keeps_its_output_back_is_told_how_not_to() -> None:
    """A Python program whose prints stay in its buffer is stopped, with a hint that names pipe and variable."""
    run = supervise("--idle", "600ms", program=BUFFERED)
    assert (run.code, run.reason, run.out) == (124, "idle", "")
    hint = next(line for line in run.said if "PYTHONUNBUFFERED=1" in line)
    assert "pipe" in hint
    assert "--pty" in hint
    assert any("PYTHONUNBUFFERED=1" in note for note in run.report["notes"])
    assert len(run.said) == 3


@pytest.mark.fault("A6")
@pytest.mark.parametrize("way", ["--pty", "PYTHONUNBUFFERED"])
def test_either_way_out_of_the_buffer_works(way: str) -> None:
    """The same program lives with a terminal of its own, and with the variable set."""
    pty = way == "--pty"
    run = supervise(
        "--idle", "600ms", *(["--pty"] if pty else []), program=BUFFERED, env={} if pty else {way: "1"}
    )
    assert (run.code, run.reason) == (0, "exited")
    assert run.out.replace("\r\n", "\n") == "".join(f"tick {i}\n" for i in range(14))


@pytest.mark.fault("A6")
def test_a_program_that_has_written_gets_no_hint() -> None:
    """Once anything came through the pipe nothing is said about buffers."""
    run = supervise("--idle", "300ms", program=children.ticks_then_silent())
    assert run.reason == "idle"
    assert "PYTHONUNBUFFERED" not in run.err
    assert run.report["notes"] == []


@pytest.mark.slow
@pytest.mark.fault("A7")
@pytest.mark.capability("CAP-7", "NEW-2")
def test_age_alone_ends_nothing() -> None:
    """A program that works for twenty windows is never stopped; age and silence are shown as two numbers."""
    with live("--idle", "300ms", program=children.ticker(0.05, count=120)) as run:
        run.wait_for("tick\n" * 60)
        status = run.status()
        done = run.finish()
    assert (done.code, done.reason, done.err) == (0, "exited", "")
    assert done.out == "tick\n" * 120
    assert status["age_ms"] > 2_000
    assert status["progress_ms_ago"] < 300
    assert done.report["duration_ms"] >= 20 * 300
    assert done.report["idle_ms"] < 300


@pytest.mark.fault("A7")
def test_nothing_is_limited_unless_asked_for() -> None:
    """Without a flag there is one limit, the built-in idle window, and it only notifies."""
    with live(program=children.silent(8)) as run:
        limits = run.status()["limits"]
        run.send(15)
        assert run.finish().code == -15
    assert list(limits) == ["idle"]
    assert (limits["idle"]["window_ms"], limits["idle"]["action"]) == (300_000, "notify")
    assert limits["idle"]["source"] == "default"
