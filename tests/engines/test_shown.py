"""Runs that are elsewhere, as they are seen at home: in `ls` while they run, in `why` and `runs` when they are over."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.cli.batch_home import Positions
from longwatch.cli.batch_shown import Shown
from longwatch.posix import now
from longwatch.posix.identity import boot_id, identity
from longwatch.runtime.rundir import RunDir, meta
from longwatch.store.run_folders import Folder, folders

RUN = "it-abcdef"
#: What the clock of the node says when it answers: it was started long after this machine, or long before.
THERE = 5_000_000
KNOWN = {"name": "it", "command": ["agent"], "attempt": 2, "cwd": None, "log": "/logs/it.log", "preset": None}
DESCRIBED = {"batch": "/p/plan.toml", "plan": "plan", "base": "/p/.longwatch/plan", "item": "plan/it"}


def shown(state: Path) -> Shown:
    """Return a run that this process follows."""
    us = identity(os.getpid())
    assert us is not None
    return Shown(str(state), RUN, KNOWN, DESCRIBED, us)


def told(standing: str, *events: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an answer of a node to a renewal."""
    runner = {"pid": 1, "start": 1, "boot": "another boot"}
    state = {
        "state": standing,
        "host": "node7",
        "runner": runner,
        "alive_ms": None,
        "progress_ms": None,
        **more,
    }
    return {"state": state, "stamp": THERE, "events": list(events)}


def event(name: str, at: int, **more: Any) -> dict[str, Any]:
    """Return an event as the node has written it."""
    return {"seq": 7, "at": "2001-01-01T00:00:00Z", "event": name, "mono_ms": at, **more}


def only(state: Path) -> Folder:
    """Return the one run that is known here."""
    (found,) = folders(str(state))
    return found


def listed(longwatch: str, *words: str) -> dict[str, Any]:
    """Return what `ls` says of the one run."""
    (run,) = json.loads(helpers.run_command([longwatch, "ls", "--json", *words]).out)["runs"]
    return dict(run)


def test_it_is_listed_while_it_runs(state: Path, longwatch: str) -> None:
    """Its item, its state, where it is, and both clocks, though they were read on the clock of another machine."""
    run = shown(state)
    run.news(told("preparing"))
    assert folders(str(state)) == []
    began = event("run_started", THERE - 20_000)
    run.news(told("running", began, alive_ms=THERE - 1_000, progress_ms=THERE - 10_000))
    seen = listed(longwatch)
    assert (seen["item"], seen["state"], seen["attempt"]) == ("plan/it", "running on node7", 2)
    assert (seen["live"], seen["placed"], seen["child_pid"]) == (True, "node7", 0)
    assert seen["progress_ms_ago"] - seen["alive_ms_ago"] == 9_000
    assert seen["age_ms"] - seen["progress_ms_ago"] == 10_000
    assert 1_000 <= seen["alive_ms_ago"] < 60_000
    run.news(told("stopping"))
    assert listed(longwatch)["state"] == "stopping on node7"
    assert "plan/it" in helpers.run_command([longwatch, "ls"]).out
    run.close()


def test_over_it_is_a_run_like_any_other(state: Path) -> None:
    """What happened is in the order in which it was told, on the clock of this machine; the report is that of the run."""
    run = shown(state)
    run.news(told("preparing", event("run_started", THERE - 500)))
    before = now()
    run.news(told("running", event("limit_noted", THERE - 100)))
    run.news(told("ended", event("run_ended", THERE)))
    run.end({"run": RUN, "termination_reason": "exited", "exit_code": 0})
    found = only(state)
    assert not found.live
    assert found.report() == {"run": RUN, "termination_reason": "exited", "exit_code": 0}
    assert [one["event"] for one in found.events()] == ["run_started", "limit_noted", "run_ended"]
    assert [one["seq"] for one in found.events()] == [1, 2, 3]
    assert 0 <= found.events()[1]["mono_ms"] + 100 - before < 60_000


def test_one_that_was_over_at_once_is_kept_too(state: Path) -> None:
    """Nobody was told that it ran, only how it ended."""
    run = shown(state)
    run.news(told("ended", event("run_started", THERE)))
    run.end({"run": RUN, "termination_reason": "exited"})
    assert [one["event"] for one in only(state).events()] == ["run_started"]


def test_on_this_machine_a_clock_is_what_it_is(state: Path) -> None:
    """An answer that came late moves no instant of our own clock."""
    at = now() - 7_000
    run = shown(state)
    told_here = told("running", progress_ms=at, runner={"pid": 1, "start": 1, "boot": boot_id()})
    run.news({**told_here, "stamp": at + 10})
    assert only(state).progressed() == at
    run.close()


def test_a_run_that_keeps_its_folder_itself_is_left_alone(state: Path) -> None:
    """Placed on this very machine it has its own folder, with more in it than is known from afar."""
    us = identity(os.getpid())
    assert us is not None
    own = meta(RUN, "it", ["agent"], us, us, started_ms=now(), limits={}, sources=())
    folder = RunDir.create(str(state), own, now())
    run = shown(state)
    run.news(told("running", event("limit_noted", THERE)))
    run.end({"run": RUN, "termination_reason": "exited"})
    assert only(state).meta["child_pid"] == os.getpid()
    assert only(state).events() == []
    assert only(state).report() is None
    folder.close()


def test_the_next_supervisor_goes_on_with_the_folder(state: Path) -> None:
    """A killed one has left it: the run is live again, and its events go on."""
    first = shown(state)
    first.news(told("running", event("run_started", THERE - 5_000)))
    first.close()
    left = only(state)
    (Path(left.path) / "meta.json").write_text(json.dumps({**left.meta, "pid": 2, "start": 3}))
    assert not only(state).live
    second = shown(state)
    second.news(told("running", event("limit_noted", THERE)))
    again = only(state)
    assert again.live
    assert again.meta["started_boot_ms"] == left.meta["started_boot_ms"]
    assert [(one["seq"], one["event"]) for one in again.events()] == [(1, "run_started"), (2, "limit_noted")]
    second.close()


def test_after_a_reboot_of_this_machine_its_clocks_begin_anew(state: Path) -> None:
    """What was noted on the clock of another boot is no instant of this one."""
    first = shown(state)
    first.news(told("running", alive_ms=THERE + 900_000_000))
    first.close()
    left = only(state)
    (Path(left.path) / "meta.json").write_text(json.dumps({**left.meta, "boot": "the last one"}))
    second = shown(state)
    second.news(told("running", alive_ms=THERE - 1_000))
    assert only(state).seen_alive() < now()
    second.close()


@pytest.mark.parametrize(("reason", "word"), [("unknown", "unknown"), ("interrupted", "interrupted")])
def test_a_lost_run_is_not_live_for_ever(state: Path, longwatch: str, reason: str, word: str) -> None:
    """Nobody knows how it ended: that is what it says, with how long it was seen."""
    run = shown(state)
    run.news(told("running", event("run_started", THERE - 9_000), progress_ms=THERE - 4_000))
    run.end({"termination_reason": reason, "notes": ["lost: its node is gone"]})
    seen = listed(longwatch, "-a")
    assert (seen["live"], seen["state"], seen["duration_ms"]) == (False, f"{word} ({reason})", 5_000)
    assert helpers.run_command([longwatch, "why", RUN]).code == 0


def test_up_to_where_a_run_is_here_outlives_its_end(tmp_path: Path) -> None:
    """Its file is held while it runs only, and is there until the next run of the item: its end may not be kept yet."""
    positions = Positions(str(tmp_path))
    before = helpers.descriptors()
    positions.keep("it", RUN, 5, 7)
    positions.rest("it", RUN)
    assert helpers.descriptors() <= before
    positions.keep("it.too", "it.too-abcdef", 3, 4)
    assert positions.of("it", RUN) == (5, 7)
    assert positions.of("it", "it-fedcba") == (0, 0)
    assert positions.of("it.too", "it.too-abcdef") == (3, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.too=it.too-abcdef", "it=it-fedcba"]
    positions.close()
