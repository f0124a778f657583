"""What every engine keeps to, whatever is killed, frozen or lost: nothing of a run is left, and no two attempts overlap."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import helpers
from longwatch.core.fencing import margin
from longwatch.posix import now
from longwatch.runtime.engines.protocol import EngineError
from longwatch.runtime.runfiles import EXIT, read
from placed import Bench, none_left, work

pytestmark = pytest.mark.long


def test_a_run_goes_to_its_end(bench: Bench) -> None:
    """Output, numbered events and the exit record come back; the exit record is the last thing."""
    run = bench.place(work(["sh", "-c", "echo one; echo two >&2; pwd; exit 3"]))
    ended = run.over()
    assert ended["report"]["termination_reason"] == "exited"
    assert (ended["state"]["exit_code"], ended["state"]["lifecycle"]) == (3, "failed_terminal")
    lines = run.output()[1].decode().splitlines()
    assert [line for line in lines if not line.startswith("--")][:2] == ["one", "two"]
    assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))
    assert run.events[-1]["event"] == "ended"
    none_left(run.who())


@pytest.mark.engine
def test_a_cancelled_run_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    """A stop reaches what is in another session and what is nobody's child any more."""
    run, pids = bench.tree(tmp_path)
    run.stop()
    ended = run.over()
    assert (ended["report"]["termination_reason"], ended["report"]["origin"]) == ("cancelled", "explicit")
    assert ended["cause"] == "request"
    none_left([*pids, *run.who()])


@pytest.mark.engine
def test_a_deaf_tree_is_killed(bench: Bench, tmp_path: Path) -> None:
    """What ignores the signal is killed after the grace."""
    run, pids = bench.tree(tmp_path, "deaf")
    run.stop(grace=200)
    run.over()
    none_left([*pids, *run.who()])


@pytest.mark.engine
def test_let_go_means_gone(bench: Bench, tmp_path: Path) -> None:
    """A forced cancel: whoever holds the run is killed, and the run with it."""
    run, pids = bench.tree(tmp_path, "deaf")
    bench.ask("stop", run.handle, "let go", None, 0)
    none_left([*pids, *run.who()])
    assert read(run.folder, EXIT) is not None


@pytest.mark.engine
def test_a_killed_worker_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    """Whoever holds the line is killed hard: the run ends itself, and how it ended can be asked for."""
    run, pids = bench.tree(tmp_path, "deaf")
    helpers.kill_all(bench.beside(run))
    none_left([*pids, *run.who()])
    if bench.engine == "local":
        bench.lose_bridge()
    told = bench.ask("locate", run.handle)
    assert (told["here"], told["clean"]) == (False, True)
    assert told["exit"]["cause"] == "parent"


def test_a_killed_runner_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    """The runner is killed hard: its keeper ends the tree, the engine says that it is gone and its node clean."""
    run, pids = bench.tree(tmp_path, "deaf")
    runner, keeper = run.who()
    os.kill(runner, signal.SIGKILL)
    none_left([*pids, keeper])
    assert not run.renew()["held"]
    told = bench.ask("locate", run.handle)
    assert (told["here"], told["clean"], told["exit"]) == (False, True, None)


def test_nobody_renews(bench: Bench, tmp_path: Path) -> None:
    """Without renewals a run ends itself within its lease and the margin, whoever else is well."""
    run, pids = bench.tree(tmp_path, "deaf", lease=2_000, detached=True)
    last = now()
    none_left([*pids, *run.who()])
    assert now() - last <= 2_000 + margin(2_000)
    ended = read(run.folder, EXIT)
    assert ended is not None
    assert (ended["cause"], ended["report"]["termination_reason"]) == ("lease", "interrupted")


@pytest.mark.engine
def test_an_old_stamp_moves_no_lease(bench: Bench, tmp_path: Path) -> None:
    """However often a renewal with an old stamp arrives, the lease ends where that allows: a delayed one revives nothing."""
    run, pids = bench.tree(tmp_path, lease=2_000)
    first, last = run.handle["stamp"], run.stamp

    def over() -> bool:
        try:
            bench.ask("renew", run.handle, 0, first, 0)
        except EngineError:
            pass
        return read(run.folder, EXIT) is not None

    helpers.wait_until(over, 10, "its end")
    assert read(run.folder, EXIT)["cause"] == "lease"
    assert now() <= last + 2_000 + margin(2_000)
    none_left([*pids, *run.who()])


@pytest.mark.engine
def test_a_frozen_run_is_fenced_when_it_thaws(bench: Bench, tmp_path: Path) -> None:
    """Frozen past its lease, it ends itself when it goes on; a renewal that comes late changes nothing."""
    run, pids = bench.tree(tmp_path, "deaf", lease=1_500, detached=True)
    frozen = [*bench.beside(run), *run.who(), *pids]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    until = now() + 1_700
    helpers.wait_until(lambda: now() > until)
    assert all(map(helpers.alive, pids))
    late = run.stamp + 60_000
    with open(os.path.join(run.folder, "control"), "w") as control:
        control.write(f"renew {late}\n")
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    none_left([*run.who(), *pids], 5)
    ended = read(run.folder, EXIT)
    assert ended is not None
    assert ended["cause"] == "lease"


@pytest.mark.engine
def test_another_submitter_takes_it_up(bench: Bench, tmp_path: Path) -> None:
    """The submitter is killed: the run goes on, is found by its handle, and tells everything from the start."""
    run, pids = bench.tree(tmp_path, detached=True)
    bench.lose_bridge()
    told = bench.ask("locate", json.loads(json.dumps(run.handle)))
    assert told["here"]
    assert all(map(helpers.alive, pids))
    run.handle, run.stamp, run.since, run.events = told["handle"], told["stamp"], 0, []
    run.renew()
    assert run.events[0]["seq"] == 1
    assert b"alive" in run.output()[1]
    run.stop()
    assert run.over()["cause"] == "request"
    none_left([*pids, *run.who()])


@pytest.mark.engine
def test_no_two_of_one(bench: Bench, tmp_path: Path) -> None:
    """A run that is placed is not placed a second time."""
    run, pids = bench.tree(tmp_path)
    with pytest.raises(EngineError, match="placed already"):
        bench.ask("place", run.spec, 1, 60_000)
    assert all(map(helpers.alive, pids))
    run.stop()
    run.over()


def flooded(bench: Bench, size: int) -> None:
    """Of a flood the newest is kept, within the cap; a reader from the start is told where that begins."""
    flood = f"head -c {size} /dev/zero | tr '\\0' '\\n'; echo done"
    run = bench.place(work(["sh", "-c", flood], log=8 << 20))
    run.over(50)
    kept = sum(file.stat().st_size for file in Path(run.folder).glob("output*.log"))
    assert kept <= 8 << 20
    assert run.output(0)[0] > size - (9 << 20)
    end = run.last["output"][1]
    assert end > size
    offset, tail = end - 2_000, b""
    while offset < end:
        start, data = run.output(offset)
        tail, offset = tail + data, start + len(data)
    assert b"done" in tail


@pytest.mark.engine
def test_a_flood_is_capped(bench: Bench) -> None:
    """Of much output the newest is kept."""
    flooded(bench, 20 << 20)


@pytest.mark.engine
def test_a_gigabyte_is_capped(bench: Bench) -> None:
    """Of a gigabyte, too."""
    flooded(bench, 1 << 30)


@pytest.mark.capability("CAP-31")
def test_a_secret_is_seen_by_its_program_only(bench: Bench, tmp_path: Path) -> None:
    """It is in no command line, no environment but the program's own, and in no file that anybody writes."""
    secret = "s3cret-9f1c7e55d2"
    argv = [
        sys.executable,
        "-c",
        "import os, time; print('<' + os.environ['API'] + '>', flush=True); time.sleep(60)",
    ]
    run = bench.place(work(argv, env={"API": secret}, secrets=[secret]))
    helpers.wait_until(lambda: run.renew(100) and b"redacted" in run.output()[1], 15, "its output")
    program = run.last["state"]["pid"]
    seen = []
    for pid in helpers.all_pids():
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            seen += [(pid, name)] if secret.encode() in text else []
    assert [(pid, name) for pid, name in seen if pid != os.getpid()] == [(program, "environ")]
    run.stop()
    run.over()
    found = [path for path in bench.places() if path.is_file() and secret.encode() in path.read_bytes()]
    assert found == []
