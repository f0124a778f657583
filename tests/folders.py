"""Run folders and spools as runs leave them, and the verbs that read them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from longwatch.cli import verbs
from longwatch.core.facts import Fact, LimitFired, RunEnded, RunStarted, StopBegan
from longwatch.core.report import Stream, build
from longwatch.options import recorded
from longwatch.paths import new_run_id, rfc3339
from longwatch.posix import now, wall_of
from longwatch.posix.clocks import ALIVE, COUNT, LAST, LOOKED, PROGRESS
from longwatch.posix.identity import Identity, identity
from longwatch.runtime.rundir import RunDir, meta
from longwatch.store import spool

IDLE = {"idle": {"window_ms": 5_000, "action": "stop", "source": "flag"}}


class Said(NamedTuple):
    """What a verb answered."""

    code: int
    out: str
    err: str


def verb(capsys: pytest.CaptureFixture[str], *args: str) -> Said:
    """Perform a verb in this process."""
    capsys.readouterr()
    code = verbs.main(args)
    out, err = capsys.readouterr()
    return Said(code, out, err)


def me() -> Identity:
    """Return this process's identity."""
    found = identity(os.getpid())
    assert found is not None
    return found


def make(
    state: Path,
    name: str = "build",
    *,
    run: str | None = None,
    supervisor: Identity | None = None,
    child: Identity | None = None,
    age_ms: int = 2_000,
    progress_ago: int | None = 1_000,
    alive_ago: int | None = 500,
    limits: Mapping[str, Mapping[str, object]] = IDLE,
    sources: Sequence[str] = ("stdout", "file:*.log"),
    log: str | None = None,
    host: str | None = None,
) -> RunDir:
    """Make the folder of a run that began `age_ms` ago and is watched by `supervisor` (this process)."""
    started = now() - age_ms
    about = meta(
        run or new_run_id(name), name, recorded(["/bin/" + name, "--model=x", "a prompt"]), supervisor or me(),
        child or supervisor or me(), started_ms=started, limits=limits, sources=sources, log=log,
    )  # fmt: skip
    if host is not None:
        about["host"] = host
    folder = RunDir.create(str(state), about, started)
    header, first = folder.clocks.header, folder.clocks.source(0)
    header[LOOKED] = now()
    header[ALIVE] = 0 if alive_ago is None else now() - alive_ago
    header[PROGRESS] = first[LAST] = 0 if progress_ago is None else now() - progress_ago
    first[COUNT] = int(progress_ago is not None)
    return folder


def standing(**changes: Any) -> dict[str, Any]:
    """Return how an observed agent stands: in a call of Bash for 3 minutes."""
    known = {
        "preset": "claude", "dialect": "claude", "headless": True, "live": False, "session": "s-1", "model": "m",
        "state": "call", "limit": None, "last_error": "", "questions": [],
        "calls": [{"call": "c1", "tool": "Bash", "since_ms": 180_000, "sub": ""}],
        "counts": {"records": 9, "started": 4, "ok": 2, "failed": 1, "retries": 0, "limits": 0, "errors": 0, "open": 1},
        "longest": [], "result_ok": None, "pending": "", "files": [],
    }  # fmt: skip
    return {**known, **changes}


def observe(folder: RunDir, *, ago: int = 0, **changes: Any) -> None:
    """Leave beside a run how its agent stands, as it was `ago` ms ago."""
    text = json.dumps({"schema": 1, "at_ms": now() - ago, **standing(**changes)})
    Path(folder.path, "agent.json").write_text(text)


def report(
    run: str, name: str = "build", *, facts: Sequence[Fact] | None = None, **changes: Any
) -> dict[str, Any]:
    """Return the report of a run that its idle limit stopped 5 s after its start, which is 10 s ago."""
    begun = now() - 10_000
    story = facts or [
        RunStarted(begun),
        LimitFired(begun + 5_000, "idle", 5_000, begun, "stop", "stdout"),
        StopBegan(begun + 5_000, "idle", 15),
        RunEnded(begun + 5_100, "idle", None, 15, None, "idle"),
    ]
    found = build(
        run=run, name=name, attempt=1, started_at=rfc3339(wall_of(begun)), started=begun, facts=story,
        progress={"stdout": {"last_ms": 5_000, "count": 1}}, last_progress=begun,
        streams={"stdout": Stream(6, b"hello\n", b"", 0), "stderr": Stream(0, b"", b"", 0)}, merged=False,
        post_mortem={"diagnosis": "2314 sort waits for input", "culprit_pid": 2314, "lines": ["2300 sh", "  2314 sort"]},
    )  # fmt: skip
    return {**found, **changes}


def ended(state: Path, name: str = "build", **changes: Any) -> str:
    """Leave a run as one that is over does: its folder with a report, its line in the spool. Returns its id."""
    folder = make(state, name)
    told = report(folder.run, name, **changes)
    assert folder.write_report(told)
    folder.close()
    spool.append(str(state), spool.summary(told))
    return folder.run


def sleeper() -> "subprocess.Popen[bytes]":
    """Start a process that does nothing until it is ended."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
