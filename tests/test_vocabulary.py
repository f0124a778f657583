"""What harnesses do is told by notices, logs and verbs: all of them have the words of one vocabulary."""

import time
from typing import Any

import pytest

from longwatch import how, vocabulary
from longwatch.cli import at_daemon, harnesses
from longwatch.core import firing_facts, limits, outcomes, parking, restarts, service_holds, spec
from longwatch.core import service_facts as f
from longwatch.core.daemon_facts import Reloaded
from longwatch.core.service_words import AUTOSTART, MANUAL, RELEASE, RESTART, SCHEDULE
from longwatch.daemon import narration
from longwatch.notify import incidents, messages
from longwatch.notify.document import document

#: What is closed, and its words.
SETS = {
    "limits": (set(limits.ORDER), vocabulary.LIMITS),
    "actions": ({*spec.ACTIONS, spec.RESTART}, vocabulary.ACTIONS),
    "causes": (set(restarts.CAUSES), vocabulary.GAVE_UP),
    "holds": (set(service_holds.KINDS), vocabulary.HOLDS),
    "triggers": ({AUTOSTART, RESTART, RELEASE, MANUAL, SCHEDULE}, vocabulary.TRIGGERS),
    "firings": (set(firing_facts.WHYS), vocabulary.FIRINGS),
    "provider": ({*parking.PASSING, *parking.LASTING}, vocabulary.PROVIDER),
    "origins": (set(outcomes.ORIGINS), vocabulary.ORIGINS),
}


def notice(fact: object) -> str:
    """Return the message of the notice of a fact."""
    word = messages.word(fact, messages.Known())  # type: ignore[arg-type]
    assert word is not None
    told = document(incidents.Telling(word.event, [word]), "here", 0)
    return str(told["message"])


def ended(reason: str) -> dict[str, Any]:
    """Return the record of a run that ended for this reason."""
    name = next((rule.name for rule in limits._ALL if rule.reason == reason), None)
    limit = {"name": name, "window_ms": 60_000, "source": None, "subject": None} if name else None
    word, verdict = outcomes.outcome(reason, 3)
    return {
        "termination_reason": reason, "outcome": word, "verdict": verdict, "limit": limit, "origin": "explicit",
        "exit_code": 3, "signal": "SEGV", "duration_ms": 5_000, "progress": {"stdout": {}},
    }  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_every_member_of_a_closed_set_has_words(name: str) -> None:
    """None is missing, and no words are left over of one that is gone."""
    members, words = SETS[name]
    assert set(words) == members


@pytest.mark.parametrize("cause", restarts.CAUSES)
def test_giving_up_is_told_alike(cause: str) -> None:
    """The log, the notice and the verbs give the same reason; of stalls, what follows from them."""
    fact = f.GaveUp(0, "w", cause)
    line = narration.line(fact)
    assert f"gave up: {vocabulary.GAVE_UP[cause]}" in line
    assert line.endswith("to begin anew: longwatch restart w")
    shared = vocabulary.ONLY_TOLD if cause == restarts.STALLED else vocabulary.GAVE_UP[cause]
    assert shared in notice(fact)
    assert shared in harnesses.state({"name": "w", "gave_up": cause})
    assert shared in at_daemon.harness_line({"name": "w", "gave_up": cause})


@pytest.mark.parametrize("action", vocabulary.ACTIONS)
def test_what_follows_a_stall_is_told_alike(action: str) -> None:
    """It runs on, is nudged, stopped or restarted; what is given up is only told of from then on."""
    fact = f.Stalled(0, "w", "w-1", 90_000, 60_000, action, 2, gave_up=False)
    words = f"no successful call for 1m30s (window 1m), 2 stalls in a row; {vocabulary.ACTIONS[action]}"
    assert narration.line(fact) == f"w: {words}"
    assert notice(fact) == f"w stalled: {words}"
    last = f.Stalled(0, "w", "w-1", 90_000, 60_000, action, 6, gave_up=True)
    assert narration.line(last).endswith(vocabulary.ONLY_TOLD)
    assert notice(last).endswith(vocabulary.ONLY_TOLD)
    line = at_daemon.harness_line({"name": "w", "state": "running", "report_only": True}, "my.toml")
    again = "longwatch restart w --config my.toml"
    assert line == f"w: running, {vocabulary.ONLY_TOLD}; to begin anew: {again}"


@pytest.mark.parametrize("kind", service_holds.KINDS)
def test_a_hold_is_told_alike(kind: str) -> None:
    """Its own reason comes first; without one each kind has its words."""
    words = vocabulary.HOLDS[kind]
    assert narration.line(f.HeldBack(0, "w", (kind,))) == f"w: held: {words}"
    assert at_daemon.hold_text({"kind": kind}) == words
    assert narration.line(f.HeldBack(0, "w", (kind,), "so it is")) == "w: held: so it is"
    skipped = firing_facts.FiringSkipped(0, "w", "schedule", None, kind)
    assert narration.line(skipped) == f"w: a firing was skipped: {words}"


@pytest.mark.parametrize("why", firing_facts.WHYS)
def test_why_a_firing_came_to_nothing_is_told_alike(why: str) -> None:
    """In the log, and on record."""
    words = vocabulary.FIRINGS[why]
    skipped = firing_facts.FiringSkipped(0, "w", "schedule", None, why)
    assert narration.line(skipped) == f"w: a firing was skipped: {words}"
    assert how.in_full({"outcome": "skipped", "why": why}) == f"not started: {words}"


@pytest.mark.parametrize("reason", outcomes.REASONS)
def test_how_a_run_ended_is_told_alike(reason: str) -> None:
    """Every reason has words, short and long; the log and the notice have the same ones."""
    record = ended(reason)
    words = how.in_short(record)
    for text in (words, how.told(record), how.in_full(record)):
        assert text not in ("", reason)
        assert not {"None", "{"} & set(text.split())
    assert words in narration.line(f.RunClosed(0, "w", "w-1", record))
    if record["outcome"] in messages.BAD:
        assert notice(f.RunClosed(0, "w", "w-1", record)) == f"w had a bad run: {how.told(record)}"


@pytest.mark.parametrize("name", [name for name in limits.NAMES if name != "stall"])
def test_a_limit_that_only_tells_is_told_alike(name: str) -> None:
    """What was reached, and that it runs on."""
    fact = f.LimitNotice(0, "w", "w-1", name, 60_000)
    words = f"{vocabulary.limit(name, 60_000)}; it runs on"
    assert narration.line(fact) == f"w: {words}"
    assert notice(fact) == f"w reached its {name} limit: {words}"


@pytest.mark.parametrize("cls", vocabulary.PROVIDER)
def test_a_park_is_told_alike(cls: str) -> None:
    """Because of what, in both."""
    fact = f.Parked(0, "w", "g", None, cls, "no more today")
    words = f"because of {vocabulary.PROVIDER[cls]} of its provider"
    assert narration.line(fact) == f"w: parked {words}: no more today"
    assert notice(fact) == f"w is parked until somebody starts it, {words}"


def test_a_reload_is_told_with_what_it_did() -> None:
    """Nothing is claimed of what is told by other lines: new harnesses, and those that are restarted for it."""
    told = narration.line(Reloaded(0, ("a", "b"), ("b",), ("c",)))
    assert told == "the file was read again; applied: a, b; pending restart: b; gone from the file: c"
    assert narration.line(Reloaded(0)) == "the file was read again"


def test_what_is_missed_is_output_where_only_that_counts() -> None:
    """A program that is watched by its records has made no progress, whatever it printed."""
    record = ended("idle")
    assert how.in_short(record) == "no output for 1m"
    record["progress"]["transcript"] = {}
    assert how.in_short(record) == "no progress for 1m"


def test_an_instant_is_as_short_as_it_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """In local time: only the time today, with its day this year, the day alone after that."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now, day = 1_900_000_000_000, 24 * 3_600_000  # 2030-03-17 17:46:40
    spans = (0, 3_600_000, 7 * day, 365 * day)
    told = [vocabulary.clock(now + span, now) for span in spans]
    monkeypatch.undo()
    time.tzset()
    assert told == ["17:46:40", "18:46:40", "Mar 24 17:46", "2031-03-17"]


def test_a_command_can_be_typed() -> None:
    """A path that a shell would take apart is quoted."""
    assert vocabulary.command("restart", ("a", "b")) == "longwatch restart a b"
    assert vocabulary.command("ls", config="/a b'c") == "longwatch ls --config '/a b'\\''c'"
