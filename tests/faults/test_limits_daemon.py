"""Faults of kind K under a daemon: a provider's limit is waited for, once, by whom it concerns, and costs no restart."""

import json
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fake_agents import Claude, Step
from harnessed import Daemon
from longwatch.core import parking, quota, service_ends
from longwatch.core.harness import Harness
from longwatch.daemon.endings import End, Patterns, judge
from longwatch.observe import wording

SPREAD = 1_500
#: A program that does what the line of its own start in a file says.
PLAYS = """
import os, sys, time
with open("starts", "a+") as file:
    file.write("%d\\n" % (time.time_ns() // 1_000_000))
    file.seek(0)
    count = len(file.read().splitlines())
with open("plan") as file:
    plan = file.read().splitlines()
act = plan[min(count, len(plan)) - 1]
if act == "run":
    time.sleep(60)
words, _, status = act.rpartition(" | ")
print(words.replace("\\\\n", "\\n"), flush=True)
sys.exit(int(status))
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a quarter of an hour here, and a reset may be in a second."""
    monkeypatch.setattr(parking, "HARNESS", parking.Terms(8 * 24 * 3_600_000, 0, 60, 120, guess=True))
    for module in (parking, quota):
        monkeypatch.setattr(module, "JITTER", 1)
    monkeypatch.setattr(service_ends, "HARNESS", parking.HARNESS)


def player(home: Path, *plan: str, name: str = "worker", **more: Any) -> Harness:
    """Return a harness whose starts go by a plan."""
    folder = home / name
    folder.mkdir()
    (folder / "plan").write_text("\n".join(plan))
    return Harness(name, (sys.executable, "-c", PLAYS), cwd=str(folder), grace=500, **more)


def starts(harness: Harness) -> list[int]:
    """Return when it was started, in ms since 1970."""
    file = Path(harness.cwd) / "starts"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.fault("K3")
@pytest.mark.capability("CAP-125", "NEW-11")
def test_a_pattern_of_the_users_parks_and_costs_no_restart(home: Path) -> None:
    """Six times in a row it is parked rather than restarted, and the seventh time it runs."""
    limited = player(
        home, *["out of juice, sorry | 1"] * 6, "run", limit_patterns=("OUT of juice",), intensity=2
    )
    with Daemon(home, limited) as daemon:
        daemon.begin()
        daemon.until(lambda: len(starts(limited)) == 7)
        assert [fact.cls for fact in daemon.told("parked")] == ["usage"] * 6
        assert {fact.text for fact in daemon.told("parked")} == {"out of juice, sorry"}
        assert daemon.told("restart_planned") == daemon.told("gave_up") == []
        snapshot = daemon.snapshot("worker")
        assert (snapshot["restarts"], snapshot["gave_up"]) == (0, None)
        outcomes = [fact.record["outcome"] for fact in daemon.told("run_closed")]
        assert outcomes == ["quota_parked"] * 6


@pytest.mark.fault("K4")
def test_whoever_writes_about_limits_is_not_limited(home: Path) -> None:
    """A page of limits as source code, and an end that is well: nothing is parked; nor where more was said after it."""
    page = "\\n".join(
        ["Claude usage limit reached|1900000000", "You've hit your limit", "HTTP 429 Too Many Requests"] * 9
    )
    tail = page + "\\ntests/test_limits.py failed\\n1 failed, 8 passed\\nsee the log"
    writer = player(home, f"{page} | 0", f"{tail} | 1", "run", limit_patterns=("usage limit",))
    with Daemon(home, writer) as daemon:
        daemon.begin()
        daemon.until(lambda: len(starts(writer)) == 3)
        assert daemon.told("parked") == []
        outcomes = [fact.record["outcome"] for fact in daemon.told("run_closed")]
        assert outcomes == ["success", "failed"]


def refused(claude: Claude, until: int | None, error: str = "rate_limit", status: int = 429) -> list[Step]:
    """Return the records of an agent that gives up at a limit."""
    said = "You've hit your limit" if until is None else f"Claude usage limit reached|{until}"
    content = [{"type": "text", "text": said if error == "rate_limit" else "Invalid API key"}]
    return [
        claude.line(
            "assistant", message={"id": "e", "model": "<synthetic>", "content": content}, isApiErrorMessage=True,
            error=error, apiErrorStatus=status,
        )
    ]  # fmt: skip


def agent(claude: Claude, *steps: Step | list[Step], **more: Any) -> Harness:
    """Return a harness of an agent that plays a part, and notes each start."""
    env = {name: str(value) for name, value in claude.part(*steps).items()}
    note = f'echo "$@" >>{claude.home}/argv; exec "$@"'
    command = ("sh", "-c", note, "sh", str(claude.program), "-p", "Do it.")
    return Harness("agent", command, env=env, preset="claude", cwd=str(claude.work), grace=500, **more)


@pytest.mark.fault("K6")
@pytest.mark.capability("CAP-125", "NEW-10", "NEW-11")
def test_a_limit_is_waited_for_once_and_its_conversation_goes_on(home: Path) -> None:
    """Limited twice past its reset, then well: three starts in all, each in the same conversation."""
    claude = Claude(home)
    reset = int(time.time()) + 2
    again = (
        f'echo "$0" >>{home}/told; test -e {home}/once && exec sleep 60; touch {home}/once; '
        "echo 'You have hit your usage limit'; exit 1"
    )
    limited = agent(
        claude, claude.begins(), *refused(claude, reset), ("exit", 1),
        resume=("sh", "-c", again, "{session}"), intensity=1,
    )  # fmt: skip
    with Daemon(home, limited) as daemon:
        daemon.begin()
        daemon.until(lambda: (home / "told").exists() and len((home / "told").read_text().split()) == 2, 20)
        parks = daemon.told("parked")
        assert [fact.cls for fact in parks] == ["usage", "usage"]
        assert parks[0].until >= reset * 1000
        assert len((home / "argv").read_text().splitlines()) == 1
        assert (home / "told").read_text().split() == [claude.session] * 2
        snapshot = daemon.snapshot("agent")
        assert (snapshot["restarts"], snapshot["gave_up"]) == (0, None)


@pytest.mark.fault("K7")
def test_all_who_wait_for_one_moment_come_back_one_by_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight of one quota are spread over the jitter, and none is there before the moment."""
    monkeypatch.setattr(quota, "JITTER", SPREAD)
    reset = int(time.time()) + 3
    crowd = [
        player(
            home, f"usage limit reached|{reset} | 1", "run", name=f"w{n}", limit_patterns=("limit reached",),
            quota_group="ours",
        )
        for n in range(8)
    ]  # fmt: skip
    with Daemon(home, *crowd) as daemon:
        daemon.begin()
        daemon.until(lambda: daemon.told("parked"))
        park = daemon.supervisor.admission.quota._parks["ours"]
        daemon.until(lambda: all(len(starts(each)) == 2 for each in crowd), 30)
        parks = daemon.told("parked")
        assert {fact.group for fact in parks} == {"ours"}
        due = {each.name: park.comes_back(each.name) for each in crowd}
        assert all(starts(each)[1] >= due[each.name] >= reset * 1000 for each in crowd)
        places = sorted(due.values())
        assert all(later - sooner > SPREAD // 20 for sooner, later in pairwise(places))
        assert places[-1] - reset * 1000 < SPREAD + 1_000


@pytest.mark.capability("NEW-11")
def test_a_refused_login_needs_a_human(home: Path) -> None:
    """It is held, never restarted, and costs none of the budget; a manual start tries again."""
    claude = Claude(home)
    locked_out = agent(
        claude, claude.begins(), *refused(claude, None, "authentication_failed", 401), ("exit", 1)
    )
    with Daemon(home, locked_out) as daemon:
        daemon.begin()
        daemon.until(lambda: daemon.told("run_closed"))
        daemon.until(lambda: daemon.snapshot("agent")["holds"])
        snapshot = daemon.snapshot("agent")
        assert [hold["kind"] for hold in snapshot["holds"]] == ["login"]
        assert (snapshot["state"], snapshot["restarts"], snapshot["gave_up"]) == ("stopped", 0, None)
        assert daemon.told("restart_planned") == []
        assert len((home / "argv").read_text().splitlines()) == 1


# How an end is judged


def report(
    stdout: str = "", reason: str = "exited", code: int | None = 1, stderr: str = ""
) -> dict[str, Any]:
    """Return what the judge reads of a report."""
    streams = {
        name: {"head": text[:40], "tail": text[40:]}
        for name, text in (("stdout", stdout), ("stderr", stderr))
    }
    return {"termination_reason": reason, "exit_code": code, **streams}


WALL = int(datetime(2031, 5, 6, 10, 3, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000


@pytest.mark.fault("K2", "K5")
@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("limit reached, resets 10am (UTC)", 0),  # over by three minutes: now
        ("limit reached, resets 11am (UTC)", 58 * MINUTE),  # told to the minute, so it ends with it
        ("limit reached, resets at 10:30 (Europe/Paris)", None),  # morning or evening?
        ("limit reached, resets 30", None),
        ("limit reached, resets soon", None),
        ("limit reached, try again in 5m30s", 330_000),
        (f"limit reached|{WALL // 1000 + 60}", MINUTE),
        ("limit reached", None),
    ],
)
def test_when_a_limit_ends_by_its_words(text: str, after: int | None) -> None:
    """What can be read is read; the recent past means now; all else is left to a backoff, and nothing crashes."""
    end = judge(report(text), patterns=Patterns(("limit reached",)), wall=WALL)
    assert (end.cls, end.text) == ("usage", text)
    assert end.until == (None if after is None else WALL + after)


@pytest.mark.fault("K3")
def test_a_pattern_may_say_where_its_end_stands() -> None:
    """A group of the name `reset` is read instead of the whole line."""
    patterns = Patterns((r"resting; back (?P<reset>\S+), resets soon",))
    end = judge(report("resting; back 90s, resets soon"), patterns=patterns, wall=WALL)
    assert end.until is None  # a bare span is no end: see what is read in words
    end = judge(report(f"resting; back until|x, resets soon\nresting; back limit reached|{WALL // 1000 + 9}, resets soon"),
                patterns=patterns, wall=WALL)  # fmt: skip
    assert end.until is None
    patterns = Patterns((r"resting (?P<reset>until .*), resets soon",))
    end = judge(report("resting until 11am (UTC), resets soon"), patterns=patterns, wall=WALL)
    assert end.until == WALL + 58 * MINUTE


@pytest.mark.fault("K4")
@pytest.mark.parametrize(
    ("told", "cls"),
    [
        (report("rate limit"), "rate"),
        (report("rate limit", "signaled", None), "rate"),
        (report("rate limit", "idle", None), "rate"),
        (report("rate limit", "stalled", None), "rate"),
        (report("\x1b[31mrate limit\x1b[0m\r\n\n  \n"), "rate"),
        (report(stderr="Invalid API key · Please run /login"), "auth"),
        (report("Credit balance is too low"), "money"),
        (report("prompt is too long: 210000 tokens"), "context"),
        (report("Overloaded"), None),
        (report("rate limit", code=0), None),
        (report("rate limit", "cancelled", None), None),
        (report("rate limit", "timeout", None), None),
        (report("rate limit", "call", None), None),
        (report("rate limit\none\ntwo\nthree"), None),
        (report(""), None),
        ({"termination_reason": "exited", "exit_code": 1}, None),
    ],
)
def test_words_count_at_the_very_end_and_with_a_failure(told: dict[str, Any], cls: str | None) -> None:
    """Of an agent only; where it was stopped for another reason that is the reason."""
    assert judge(told, wording=wording, wall=WALL).cls == cls
    assert judge(told, wall=WALL).cls is None


@pytest.mark.parametrize("reason", ["exited", "lingered", "idle", "stalled", "cancelled", "call"])
@pytest.mark.fault("K4")
def test_what_a_record_states_counts_unless_something_else_ended_it(reason: str) -> None:
    """Also with exit status 0, which proves nothing of an agent."""
    from longwatch.observe.standing import AgentLimit

    limit = AgentLimit("usage", WALL + 1, "five_hour")
    end = judge(report("", reason, 0), limit=limit, wording=wording, trouble="refused", wall=WALL)
    if reason in ("cancelled", "call"):
        assert end == End(last_error="refused")
    else:
        assert end == End("usage", WALL + 1, "five_hour", last_error="refused", sure=True)


def test_what_an_agent_complained_of_goes_before_its_last_line() -> None:
    """The last error is what a human reads, and what tells equal failures from others."""
    assert (
        judge(report("bye"), wording=wording, trouble="overloaded 529", wall=WALL).last_error
        == "overloaded 529"
    )
    assert judge(report("one\nbye"), wall=WALL).last_error == "bye"
    assert judge(report("bye", code=0), wall=WALL).last_error == ""
    assert json.dumps(judge(report("bye"), wall=WALL).as_dict())
