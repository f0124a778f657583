"""`longwatch runs`: the history."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import folders
from folders import verb
from longwatch.paths import daemon_folder, rfc3339
from longwatch.store import entries, intake
from longwatch.store.ledger import Ledger

Capture = pytest.CaptureFixture[str]


def hours_ago(hours: float) -> str:
    return rfc3339(round((time.time() - hours * 3_600) * 1_000))


def test_runs_are_listed_newest_first(state: Path, capsys: Capture) -> None:
    """Each run is one row: id, start, how long, outcome and why."""
    old = folders.ended(state, "old", started_at=hours_ago(50))
    new = folders.ended(state, "new", outcome="success", termination_reason="exited", exit_code=0)
    said = verb(capsys, "runs")
    assert (said.code, said.err) == (0, "")
    head, first, second = said.out.splitlines()
    assert head.split() == ["RUN", "STARTED", "TOOK", "OUTCOME", "WHY"]
    assert first.startswith(new)
    assert "success" in first
    assert second.startswith(old)
    assert "its idle limit of 5s was reached" in second
    assert "(2314 sort waits for input)" in second


def test_runs_for_programs(state: Path, capsys: Capture) -> None:
    """JSON holds the summaries; an empty history is an empty list."""
    assert verb(capsys, "runs", "--json") == (0, '{"schema": 1, "runs": []}\n', "")
    run = folders.ended(state)
    (told,) = json.loads(verb(capsys, "runs", "--json").out)["runs"]
    assert (told["run"], told["termination_reason"], told["limit"]["window_ms"]) == (run, "idle", 5_000)


def test_runs_are_narrowed_down(state: Path, capsys: Capture) -> None:
    """By name or id, since when, how it ended, and how many."""
    ids = [folders.ended(state, "a", started_at=hours_ago(hour)) for hour in (5, 3, 1)]
    other = folders.ended(
        state, "b", started_at=hours_ago(2), outcome="success", termination_reason="exited", exit_code=0
    )

    def listed(*args: str) -> list[str]:
        return [summary["run"] for summary in json.loads(verb(capsys, "runs", "--json", *args).out)["runs"]]

    assert listed() == [ids[2], other, ids[1], ids[0]]
    assert listed("a") == ids[::-1]
    assert listed("--since", "4h") == [ids[2], other, ids[1]]
    assert listed("--outcome", "success") == [other]
    assert listed("-n", "1") == [ids[2]]
    assert listed(ids[0]) == [ids[0]]
    assert listed("b", "--outcome", "failed") == []
    assert verb(capsys, "runs", "b", "--outcome", "failed").err == "longwatch: no such runs are on record\n"
    assert verb(capsys, "runs", "--since", "0").out.count("\n") == 5


def test_wrong_words_are_one_line(state: Path, capsys: Capture) -> None:
    """An outcome or a duration that there is not is refused with what there is (2), a name with the nearest (4)."""
    said = verb(capsys, "runs", "--outcome", "succes")
    assert said.code == 2
    assert "did you mean success? outcomes are success, failed, timed_out, stalled," in said.err
    assert verb(capsys, "runs", "--outcome", "zzzzzzzz").err.count("outcomes are") == 1
    said = verb(capsys, "runs", "--since", "5")
    assert (said.code, said.err[:40]) == (2, "longwatch: --since 5: a bare number is n")
    folders.ended(state)
    assert verb(capsys, "runs", "biuld") == (4, "", "longwatch: no run biuld; did you mean build?\n")
    for _ in range(2):
        folders.make(state, "twins").close()
    assert verb(capsys, "runs", "twins").code == 2


def test_a_live_run_is_no_past_run(state: Path, capsys: Capture) -> None:
    """A name that only a live run has leads to `ls`."""
    run = folders.make(state, "server")
    said = verb(capsys, "runs", "server")
    assert (said.code, said.err) == (1, f"longwatch: {run.run} still runs; longwatch ls shows it\n")


def test_an_empty_history_says_so(state: Path, capsys: Capture) -> None:
    """No run is no failure."""
    assert verb(capsys, "runs") == (0, "", "longwatch: no run is on record yet\n")


def test_an_interrupted_run_is_told_once(state: Path, capsys: Capture) -> None:
    """A run that a reader found open says so in its row, without repeating itself."""
    from longwatch.posix.identity import Identity

    own = folders.me()
    folders.make(state, supervisor=Identity(own.pid, own.start + 1, own.boot)).close()
    out = verb(capsys, "runs").out
    assert "interrupted" in out
    assert out.count("without a report") == 1


def test_notes_of_the_ledger_are_told(state: Path, capsys: Capture) -> None:
    """What the ledger has to say goes to stderr."""
    (state / "spool").mkdir(parents=True)
    (state / "spool" / "2026-01-01.jsonl").write_text("junk\n")
    assert "1 unreadable line; copied to" in verb(capsys, "runs").err


def test_a_limit_that_an_agent_met_is_told(state: Path, capsys: Capture) -> None:
    """An agent that ended by its provider's limit says so in the history, and is found by its conversation."""
    limit = {"cls": "usage", "until": "2999-01-02T03:04:05Z", "text": "You've hit your limit"}
    ended = {"termination_reason": "exited", "exit_code": 1, "post_mortem": None}
    folders.ended(state, "limited", agent=folders.standing(calls=[], limit=limit), **ended)
    out = verb(capsys, "runs").out
    assert "failed by itself with exit status 1; met a usage limit until 2999-01-0" in out
    (told,) = json.loads(verb(capsys, "runs", "--json").out)["runs"]
    assert told["agent"]["session"] == "s-1"
    folders.ended(state, "fine", agent=folders.standing(), **ended)
    assert "met" not in verb(capsys, "runs", "fine").out


# What a daemon has written

DAEMON = "home-12345678"


def harness_run(state: Path, run: str, hours: float, *, outcome: str | None = None, **record: Any) -> str:
    """Put a run of a harness on record, open if it has no outcome."""
    opened = {
        "run": run,
        "harness": run[:-7],
        "started_at": hours_ago(hours),
        "trigger": "schedule",
        **record,
    }
    with Ledger(str(state), writer=True) as ledger:
        ledger.write(lambda db: intake.insert(db, entries.opened(opened, DAEMON)))
        if outcome:
            over = {"run": run, "outcome": outcome, "termination_reason": "stalled", "duration_ms": 1_000}
            ledger.write(lambda db: intake.insert(db, entries.closed(over, opened, DAEMON)))
    return run


def decided(state: Path, **record: Any) -> None:
    with Ledger(str(state), writer=True) as ledger:
        ledger.write(lambda db: intake.insert(db, entries.decided(record, DAEMON)))


def daemon_lives(state: Path) -> None:
    """Let this process be the daemon."""
    folder = Path(daemon_folder(str(state), DAEMON))
    folder.mkdir(parents=True)
    about = {**folders.me().as_dict(), "host": os.uname().nodename, "config": "/x/longwatch.toml"}
    (folder / "daemon.json").write_text(json.dumps(about))


def listed(capsys: Capture, *args: str) -> list[str]:
    return [summary["run"] for summary in json.loads(verb(capsys, "runs", "--json", *args).out)["runs"]]


@pytest.mark.capability("CAP-124")
@pytest.mark.fault("I5")
def test_an_open_run_has_a_question_mark_when_no_daemon_answers(state: Path, capsys: Capture) -> None:
    """A mark in a file is no process: a run is running if its daemon lives, else nobody can say."""
    harness_run(state, "web-aaaaaa", 1)
    (row,) = verb(capsys, "runs").out.splitlines()[1:]
    assert "running?" in row.split()
    # Right after midnight the start has a date, which is a word more.
    assert "?" in row.split()[2:5]
    assert "started by the clock, no end on record yet" in row
    assert json.loads(verb(capsys, "runs", "--json").out)["runs"][0]["daemon_answers"] is False
    daemon_lives(state)
    (row,) = verb(capsys, "runs").out.splitlines()[1:]
    assert "running" in row.split()
    assert any(word.startswith(("1h", "59m")) for word in row.split()[2:5])
    assert json.loads(verb(capsys, "runs", "--json").out)["runs"][0]["daemon_answers"] is True


@pytest.mark.capability("CAP-124")
def test_runs_are_found_by_more_than_one_word(state: Path, capsys: Capture) -> None:
    """Several names, outcomes (stalled is one) and triggers; from and to an instant or so long ago."""
    web = harness_run(state, "web-aaaaaa", 5, outcome="stalled", trigger="autostart")
    job = harness_run(state, "job-bbbbbb", 4, outcome="failed")
    still = harness_run(state, "job-cccccc", 3)
    own = folders.ended(state, "build", started_at=hours_ago(2))
    assert listed(capsys) == [own, still, job, web]
    assert listed(capsys, "job", "web") == [still, job, web]
    assert listed(capsys, "web", own, "job") == [still, job, web, own]
    assert listed(capsys, "--outcome", "stalled", "--outcome", "running") == [still, web]
    assert listed(capsys, "--trigger", "autostart") == [web]
    assert listed(capsys, "--until", "210m", "--since", "270m") == [job]
    assert listed(capsys, "--since", hours_ago(3.5)) == [own, still]
    assert listed(capsys, "--limit", "1", "job") == [still]
    said = verb(capsys, "runs", "--until", "yesterday")
    assert said.code == 2
    assert "--until yesterday" in said.err
    assert "2030-01-31T08:00" in said.err


@pytest.mark.capability("CAP-124")
def test_twenty_are_shown_and_fifty_wide(state: Path, capsys: Capture) -> None:
    """The defaults; --wide also has attempt, trigger, end and exit status."""
    with Ledger(str(state), writer=True) as ledger:
        for number in range(60):
            opened = {
                "run": f"web-{number:06d}",
                "harness": "web",
                "trigger": "restart",
                "started_at": hours_ago(number),
            }
            over = {
                "run": opened["run"],
                "exit_code": 7,
                "termination_reason": "exited",
                "duration_ms": 1_000,
            }
            row = entries.closed(over, opened, DAEMON)
            ledger.write(lambda db, row=row: intake.insert(db, row))  # type: ignore[misc]
    assert len(listed(capsys)) == 20
    assert len(listed(capsys, "--wide")) == 50
    assert len(listed(capsys, "--wide", "-n", "55")) == 55
    head, first, *_ = verb(capsys, "runs", "--wide").out.splitlines()
    assert head.split() == ["RUN", "ATTEMPT", "TRIGGER", "STARTED", "ENDED", "TOOK", "EXIT", "OUTCOME", "WHY"]
    assert first.split()[:3] == ["web-000000", "1", "restart"]
    assert first.split()[6:8] == ["7", "failed"]


def test_firings_that_became_no_run_are_listed(state: Path, capsys: Capture) -> None:
    """Skipped and missed firings say why and how often; they are no run that `why` or `logs` would show by themselves."""
    decided(state, harness="job", outcome="skipped", why="still running", at=hours_ago(2), trigger="schedule")
    decided(state, harness="job", outcome="missed", why="the daemon was down", at=hours_ago(1), count=3)
    first, second = verb(capsys, "runs", "--wide").out.splitlines()[1:]
    assert "missed" in first
    assert "not started, 3 times: the daemon was down" in first
    assert "not started: still running" in second
    assert second.split()[1] == "-"
    assert listed(capsys, "--outcome", "queued") == []
    assert verb(capsys, "why").code == 1
    assert verb(capsys, "logs").code == 1
    assert "not started, 3 times" in verb(capsys, "why", "job").out


@pytest.mark.fault("I5")
def test_other_verbs_go_on_beside_an_open_run(state: Path, capsys: Capture) -> None:
    """`ls`, `why` and `logs` neither break on a row without an end nor take it for one."""
    harness_run(state, "web-aaaaaa", 1)
    assert verb(capsys, "ls", "-a").code == 0
    said = verb(capsys, "why", "web")
    assert said.code == 0
    assert "no end on record yet" in said.out
    assert "ended: None" not in said.out
    assert verb(capsys, "logs", "web").code == 1
    done = folders.ended(state, "build")
    assert done in verb(capsys, "why").out
    harness_run(state, "web-bbbbbb", 0.5, outcome="stalled")
    assert "stopped by longwatch: its stall limit was reached" in verb(capsys, "why", "web").out
