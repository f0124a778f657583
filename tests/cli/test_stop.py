"""`longwatch stop`: through the supervisor, proven, and only by who may."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import folders
import helpers
from folders import verb
from longwatch.cli import stop
from longwatch.posix.identity import REFUSED, Identity
from longwatch.store.run_folders import live_runs

Capture = pytest.CaptureFixture[str]

# A supervisor as `stop` sees one: it has a folder, gets TERM, reads its channel, reports, ends.
SUPERVISOR = """
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import folders
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
run = folders.make(Path(sys.argv[2]), sys.argv[3])
print(run.run, flush=True)
signal.sigwait([signal.SIGTERM])
asked = run.channel()
changes = json.loads(sys.argv[4])
if changes is not None:
    run.write_report({**folders.report(run.run), "asked": asked, **changes})
"""
STOPPED = {"termination_reason": "cancelled", "stopped": {"how": "TERM", "ms": 5}, "survivors": []}


@contextlib.contextmanager
def supervisor(state: Path, name: str = "build", report: object = STOPPED) -> Iterator[tuple[str, Any]]:
    argv = [
        sys.executable,
        "-c",
        SUPERVISOR,
        str(helpers.ROOT / "tests"),
        str(state),
        name,
        json.dumps(report),
    ]
    with helpers.ending(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process


def test_a_run_is_asked_to_end(state: Path, capsys: Capture) -> None:
    """The supervisor finds who asks and with what grace before its TERM; the verb waits for the report."""
    with supervisor(state) as (run, process):
        said = verb(capsys, "stop", "build", "--kill-after", "3s")
        assert process.wait(10) == 0
    assert said.code == 0
    assert said.out.startswith(f"{run}: stopped by TERM, over in ")
    report = json.loads((state / "runs" / run / "report.json").read_text())
    assert report["asked"] == [{"op": "stop", "origin": "explicit", "pid": os.getpid(), "grace_ms": 3_000}]


def test_stop_for_programs(state: Path, capsys: Capture) -> None:
    """JSON holds the report; without --kill-after the run's own grace holds."""
    with supervisor(state) as (run, _):
        told = json.loads(verb(capsys, "stop", run, "--json").out)
    assert (told["schema"], told["run"]) == (1, run)
    assert "grace_ms" not in told["report"]["asked"][0]


def test_a_stopped_supervisor_is_woken(state: Path, capsys: Capture) -> None:
    """A supervisor that somebody suspended gets CONT behind its TERM."""
    with supervisor(state) as (run, process):
        process.send_signal(signal.SIGSTOP)
        assert verb(capsys, "stop", run).code == 0


def test_ends_that_are_no_stop(state: Path, capsys: Capture) -> None:
    """A run that ended by itself meanwhile is told so; survivors and a missing report are failures."""
    with supervisor(state, report={"termination_reason": "exited", "exit_code": 0}) as (run, _):
        assert verb(capsys, "stop", run) == (0, f"{run}: exited 0\n", "")
    with supervisor(state, report={**STOPPED, "stopped": None, "survivors": ["7 stuck"]}) as (run, _):
        said = verb(capsys, "stop", run)
    assert (said.code, said.err) == (1, f"longwatch: {run}: still alive: 7 stuck\n")
    with supervisor(state, report={**STOPPED, "survivors": ["7 stuck"]}) as (run, _):
        said = verb(capsys, "stop", run, "--json")
    assert (said.code, json.loads(said.out)["report"]["survivors"]) == (1, ["7 stuck"])
    with supervisor(state, report=None) as (run, _):
        said = verb(capsys, "stop", run)
    assert said.code == 1
    assert "longwatch ended without a report" in said.err


def test_no_such_run(state: Path, capsys: Capture) -> None:
    """What does not run cannot be stopped (4); several of a name are told apart (2); a bare number is refused (2)."""
    folders.ended(state)
    assert verb(capsys, "stop", "build") == (4, "", "longwatch: no live run build\n")
    for _ in range(2):
        folders.make(state, "twins").close()
    assert verb(capsys, "stop", "twins").code == 2
    said = verb(capsys, "stop", "twins", "-k", "5")
    assert said.code == 2
    assert "--kill-after 5: a bare number" in said.err
    folders.make(state, "there", host="elsewhere").close()
    said = verb(capsys, "stop", "there")
    assert (said.code, said.err.endswith("runs on elsewhere; stop it there\n")) == (1, True)


def test_a_supervised_caller_may_stop_itself_only(
    state: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From inside a run only that run may be stopped; the refusal names what would allow more."""
    with supervisor(state) as (run, process):
        monkeypatch.setenv("LONGWATCH_RUN_ID", f"{run}/inner-abcdef")
        said = verb(capsys, "stop", run)
        assert said.code == 1
        assert "allow_control" in said.err
        assert process.poll() is None
        assert not (state / "runs" / run / "channel").exists()
        monkeypatch.setenv("LONGWATCH_RUN_ID", f"outer-abcdef/{run}")
        assert verb(capsys, "stop", run).code == 0


def test_a_supervisor_that_takes_too_long(
    state: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is bounded; who gives up says where to look."""
    monkeypatch.setattr(stop, "PATIENCE_MS", 50)
    monkeypatch.setattr(stop, "signal_verified", lambda *_: "sent")
    folders.make(state)
    said = verb(capsys, "stop", "build", "--kill-after", "off")
    assert said.code == 1
    assert "is not over yet; longwatch why" in said.err


def test_another_users_supervisor(state: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that we may not signal is named."""
    monkeypatch.setattr(stop, "signal_verified", lambda *_: REFUSED)
    folders.make(state)
    assert f"longwatch (pid {os.getpid()}) belongs to another user" in verb(capsys, "stop", "build").err


@pytest.mark.fault("H1")
def test_a_stranger_is_never_signalled(state: Path, capsys: Capture) -> None:
    """A run folder that names an unrelated live pid stops nobody."""
    with helpers.ending(folders.sleeper()) as stranger:
        own = folders.me()
        folders.make(state, supervisor=Identity(stranger.pid, own.start, own.boot)).close()
        assert verb(capsys, "stop", "build").code == 4
        stop._ask(folders_of(state), Identity(stranger.pid, own.start, own.boot), None)
        assert stranger.poll() is None


def folders_of(state: Path) -> Any:
    from longwatch.store.run_folders import folders as all_folders

    return all_folders(str(state))[0]


def test_waiting_without_a_pidfd(state: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no pidfds the end is seen all the same."""
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(stop, "_POLL_MS", 5)
    with supervisor(state) as (run, _):
        assert verb(capsys, "stop", run).code == 0


@pytest.mark.slow
def test_a_real_run_is_stopped(state: Path) -> None:
    """A command under `longwatch run` ends with its tree, and history says who wanted it."""
    argv = [str(helpers.LONGWATCH), "run", "--name", "server", "--", "sh", "-c", "sleep 300 & sleep 300"]
    with helpers.ending(subprocess.Popen(argv)) as run:
        helpers.wait_until(lambda: live_runs(str(state)))
        done = helpers.run_cli("stop", "server")
        assert (done.code, done.err) == (0, "")
        run.wait(10)
    told = json.loads(helpers.run_cli("runs", "--json").out)["runs"][0]
    assert (told["termination_reason"], told["origin"]) == ("cancelled", "explicit")
