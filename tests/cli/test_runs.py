"""`longwatch runs`: the history."""

import json
import time
from pathlib import Path

import pytest

import folders
from folders import verb
from longwatch.paths import rfc3339

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
    assert "did you mean success? outcomes are success, failed, timed_out" in said.err
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
