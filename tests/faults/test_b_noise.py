"""Noise that hides a stall, and signs that lie."""

import os
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from supervised import live, python, shell, supervise


@pytest.mark.fault("B3")
def test_our_own_lines_are_no_progress() -> None:
    """A line of ours every few milliseconds does not keep a silent program alive."""
    run = supervise("--still-running", "50ms", "--idle", "400ms", program=children.silent())
    assert (run.code, run.reason, run.out) == (124, "idle", "")
    assert len([line for line in run.said if "still running" in line]) >= 3
    assert run.report["progress"]["stderr"]["count"] == 0


@pytest.mark.fault("B3")
def test_a_nested_longwatch_does_not_keep_the_outer_run_alive() -> None:
    """What an inner longwatch says about its own program's silence is no progress of the outer run."""
    inner = [str(helpers.LONGWATCH), "run", "--idle", "off", "--still-running", "80ms", "sleep", "60"]
    run = supervise("--idle", "900ms", program=inner)
    assert (run.code, run.reason) == (124, "idle")
    assert "still running" not in run.err


@pytest.mark.slow
@pytest.mark.fault("B3")
def test_the_status_line_of_a_nested_longwatch_is_not_drawn() -> None:
    """On a terminal that an outer run gave it, an inner longwatch draws no status line: the outer one would count it."""
    inner = [str(helpers.LONGWATCH), "run", "--no-pty", "--idle", "off", "sleep", "60"]
    run = supervise("--pty", "--idle", "6500ms", program=inner)
    assert (run.code, run.reason, run.out) == (124, "idle", "")


@pytest.mark.fault("B3")
def test_nested_runs_have_names_of_their_own() -> None:
    """The address inside an inner run names the inner run below the outer one; the outer's options stay outside."""
    show = "echo $LONGWATCH_RUN_ID $LONGWATCH_IDLE."
    inner = [str(helpers.LONGWATCH), "run", "--name", "inner", "sh", "-c", show]
    run = supervise("--name", "outer", program=inner, env={"LONGWATCH_IDLE": "30s"})
    outer, slash, rest = run.out.strip().partition("/")
    assert outer == run.report["run"]
    assert slash
    assert rest.startswith("inner-")
    assert rest.endswith(" .")


@pytest.mark.fault("B5")
def test_a_busy_silence_is_a_silence() -> None:
    """A program that burns CPU and says nothing is stopped at its window, and the cause says what it did."""
    run = supervise("--idle", "400ms", program=shell("while :; do :; done"))
    assert (run.code, run.reason) == (124, "idle")
    assert "burns CPU" in run.report["post_mortem"]["diagnosis"]
    assert run.report["idle_ms"] >= 400


@pytest.mark.fault("B5")
def test_a_program_that_hardly_works_lives_by_its_file(tmp_path: Path) -> None:
    """A program that uses no CPU and writes a byte now and then to a watched file is left alone."""
    note = tmp_path / "note"
    body = ["import time", f"file = open({str(note)!r}, 'ab', buffering=0)"]
    body.append("for i in range(8): file.write(b'x'); time.sleep(0.2)")
    run = supervise(
        "--progress", f"file:{tmp_path}/n*", "--poll", "50ms", "--idle", "700ms", program=python(*body)
    )
    assert (run.code, run.reason) == (0, "exited")


@pytest.mark.fault("B7")
def test_a_source_that_never_came_condemns_nobody(tmp_path: Path) -> None:
    """A heartbeat file that nobody writes is `never seen`, and no ground for a stop while the output moves."""
    heart = f"file:{tmp_path}/heart"
    flags = ("--progress", "output", "--progress", heart, "--poll", "50ms", "--idle", "400ms")
    with live(*flags, program=children.ticker(0.05, count=36)) as run:
        sources = run.status()["sources"]
        done = run.finish()
    assert (done.code, done.reason) == (0, "exited")
    assert sources[heart] == {"last_ms_ago": None, "last_at": None, "count": 0}
    assert done.report["progress"][heart] == {"last_ms": None, "count": 0}


@pytest.mark.fault("B7")
def test_a_late_heartbeat_is_no_proof_while_better_evidence_moves(tmp_path: Path) -> None:
    """One source may be late by more than its window while another one moves."""
    heart = tmp_path / "heart"
    script = f"touch {heart}; for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done; echo x >{heart}"
    flags = ("--progress", "output", "--progress", f"file:{heart}", "--poll", "50ms", "--idle", "400ms")
    run = supervise(*flags, program=shell(script))
    assert (run.code, run.reason) == (0, "exited")


@pytest.mark.fault("B7", "A4")
def test_a_heartbeat_of_the_first_instant_is_seen(tmp_path: Path) -> None:
    """A file that the program wrote before anything else was written by the program: its silence counts from there."""
    heart = tmp_path / "heart"
    flags = ("--progress", f"file:{heart}", "--poll", "50ms", "--idle", "400ms")
    run = supervise(*flags, program=shell(f"echo x >{heart}; exec sleep 60"))
    assert (run.code, run.reason) == (124, "idle")
    assert run.report["limit"]["source"] == f"file:{heart}"


@pytest.mark.fault("B7")
def test_a_file_of_before_the_run_is_no_sign_of_it(tmp_path: Path) -> None:
    """What was there before the program is not its progress: the source stays unknown, and stops nothing."""
    heart = tmp_path / "heart"
    heart.write_text("old")
    run = supervise(
        "--progress", f"file:{heart}", "--poll", "50ms", "--idle", "200ms", program=shell("sleep 0.9")
    )
    assert (run.code, run.reason) == (0, "exited")
    assert run.report["progress"][f"file:{heart}"]["count"] == 0


@pytest.mark.fault("B7")
def test_without_any_known_source_the_limit_is_held_and_says_so(tmp_path: Path) -> None:
    """Where the only source was never seen nothing can be said of silence: the limit waits, and `ls` shows why."""
    heart = f"file:{tmp_path}/heart"
    with live("--progress", heart, "--poll", "50ms", "--idle", "300ms", program=children.silent(8)) as run:
        status = run.status()
        helpers.wait_until(lambda: run.status()["age_ms"] > 1_200, what="four windows")
        assert "blind" in status["holds"]
        (tmp_path / "heart").write_text("x")
        done = run.finish()
    assert (done.code, done.reason) == (124, "idle")
    assert done.report["limit"]["source"] == heart
    assert os.path.basename(heart) in done.said[0]
