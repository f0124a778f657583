"""One incident, one message: what is told, what is not told again, and what is told when it is over."""

from collections.abc import Callable

import pytest

from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.notices import DEFAULT, EVENTS
from longwatch.notify import incidents
from noticed import MINUTE, ONE_OF_EACH, SECOND, WALL, Stage, failed, recovered, stalled, stopped


@pytest.mark.parametrize("event", ONE_OF_EACH)
def test_each_notice_is_told_unless_it_is_not_wanted(event: str) -> None:
    """Every event of the table has a fact that tells it, and is left out where `events` leaves it out."""
    stage = Stage(events=tuple(EVENTS))
    stage.tell(*ONE_OF_EACH[event])
    assert stage.events == [event]
    others = Stage(events=tuple(name for name in EVENTS if name != event))
    others.tell(*ONE_OF_EACH[event])
    assert others.events == []


def test_what_is_told_by_default() -> None:
    """A bad run and a late supervisor are told to those who ask for them."""
    assert set(EVENTS) - set(DEFAULT) == {"run_failed", "late"}
    assert set(EVENTS) - set(ONE_OF_EACH) == {"recovered", "unparked", "test"}


@pytest.mark.fault("P1")
def test_a_stall_that_is_only_told_has_two_notices() -> None:
    """A notify-only stall is told once, however often it is looked at, and its end once."""
    stage = Stage()
    for _ in range(10):
        stage.tell(stalled(), wait=1 * MINUTE)
    stage.tell(recovered())
    stage.tell(recovered())
    assert stage.events == ["stalled", "recovered"]
    assert stage.counts()["stalled", "suppressed"] == 9


@pytest.mark.capability("CAP-129")
def test_an_ordinary_stall_restart_opens_nothing() -> None:
    """A stall that a restart answers is told, and its end is not; one that restarts do not help opens an alert."""
    stage = Stage()
    stage.tell(stalled(action="restart"))
    assert stage.desk.snapshot()["open"] == []
    stage.tell(recovered())
    assert stage.events == ["stalled"]
    stage.tell(stalled(action="restart", gave_up=True, stalls=6), f.GaveUp(0, "w", "stalls"))
    assert [one["event"] for one in stage.desk.snapshot()["open"]] == ["stalled"]
    stage.tell(recovered())
    assert stage.events == ["stalled", "stalled", "recovered"]


@pytest.mark.capability("CAP-129")
@pytest.mark.parametrize("fact", [recovered(), f.Unparked(0, "w", "g"), d.LedgerBack(0)])
def test_nobody_hears_of_the_end_who_did_not_hear_of_the_trouble(fact: f.Recovered) -> None:
    """Without an alert, or with one that is not wanted, its end is not told."""
    stage = Stage(events=("recovered", "unparked"))
    stage.tell(
        failed(), f.GaveUp(0, "w", "quick"), f.Parked(0, "w", "g", None, "usage"), d.LedgerFailed(0, "full")
    )
    stage.tell(fact)
    assert stage.events == []


@pytest.mark.capability("CAP-128")
def test_the_cooldown_is_of_harness_and_event() -> None:
    """For 15 minutes the same event of the same harness is not told again; another event or harness is."""
    stage = Stage()
    loop = f.LoopStopped(0, "w", "w-1", "Bash", 8)
    stage.tell(loop)
    stage.tell(loop, f.IntentLost(0, "w", ""), f.LoopStopped(0, "v", "v-1", "Bash", 8))
    assert [(one["event"], one["harness"]) for one in stage.told] == [
        ("loop_stopped", "w"), ("intent_lost", "w"), ("loop_stopped", "v"),
    ]  # fmt: skip
    stage.sleep(15 * MINUTE - 5 * SECOND)
    stage.tell(loop)
    assert len(stage.events) == 4


def test_without_a_cooldown_everything_is_told() -> None:
    """A cooldown of 0 is none."""
    stage = Stage(cooldown=0)
    for _ in range(3):
        stage.tell(f.LoopStopped(0, "w", "w-1", "Bash", 8))
    assert len(stage.events) == 3


def test_a_recovery_clears_the_cooldowns() -> None:
    """What was well again and fails anew is told at once."""
    stage = Stage()
    stage.tell(failed())
    stage.tell(recovered())
    stage.tell(failed())
    assert stage.events == ["failed", "recovered", "failed"]


@pytest.mark.parametrize("order", [0, 1])
def test_of_what_comes_together_the_gravest_is_told(order: int) -> None:
    """Giving up comes with a failure and after flapping: that is one notice, with what is known of all."""
    facts = [f.Flapping(0, "w", 3), failed(), f.GaveUp(0, "w", "quick", "boom")]
    stage = Stage()
    stage.tell(*(facts if order else facts[::-1]))
    assert stage.events == ["gave_up"]
    assert stage.told[0]["cause"] == "boom"
    stage.tell(recovered())
    assert stage.events == ["gave_up", "recovered"]


@pytest.mark.capability("CAP-114")
@pytest.mark.parametrize("order", [0, 1])
def test_the_last_stall_is_one_notice_with_what_both_facts_know(order: int) -> None:
    """That restarts were given up is told with the stall: tree and idle span are there whichever fact comes first."""
    facts = [stalled(action="restart", gave_up=True, stalls=6), f.GaveUp(0, "w", "stalls")]
    stage = Stage()
    stage.tell(*(facts if order else facts[::-1]))
    assert stage.events == ["stalled"]
    assert stage.told[0]["tree"] == ["10 claude", "11 node"]
    assert stage.told[0]["idle_ms"] == 46 * MINUTE
    assert stage.told[0]["hint"] == "longwatch restart w"


def test_a_graver_trouble_is_told_though_a_lesser_one_is_open() -> None:
    """Flapping that ends in giving up is told twice, and nothing lesser after it; the end once."""
    stage = Stage()
    stage.tell(f.Flapping(0, "w", 3))
    stage.tell(f.GaveUp(0, "w", "quick"))
    stage.tell(f.Flapping(0, "w", 4), failed())
    stage.tell(recovered())
    assert stage.events == ["flapping", "gave_up", "recovered"]


def test_what_happens_after_a_new_start_is_news() -> None:
    """Whoever starts what had failed hears of it when it stalls, and when it is well."""
    stage = Stage()
    stage.tell(f.GaveUp(0, "w", "quick"))
    stage.tell(f.StateChanged(0, "w", "starting", "failed", "start"))
    stage.tell(stalled(run="w-2"))
    stage.tell(recovered())
    assert stage.events == ["gave_up", "stalled", "recovered"]


def test_a_human_who_stops_it_hears_nothing_more() -> None:
    """A stop closes what was open, also while its notice is on its way; a hold does not."""
    stage = Stage()
    stage.tell(failed())
    stage.tell(stopped())
    stage.tell(stalled("v"), stopped("v"))
    assert stage.desk.snapshot()["open"] == []
    stage.tell(recovered(), recovered("v"))
    stage.tell(f.HeldBack(0, "u", ("login",), "please log in"), stopped("u"))
    assert [one["harnesses"] for one in stage.desk.snapshot()["open"]] == [["u"]]
    stage.tell(recovered("u"))
    assert stage.events == ["failed", "stalled", "failed", "recovered"]


def test_a_short_trouble_is_told_with_its_end() -> None:
    """What is over before it could be told is told all the same, and then that it is over."""
    stage = Stage()
    stage.tell(stalled(), recovered(), wait=10 * SECOND)
    assert stage.events == ["stalled", "recovered"]


def test_a_question_that_was_answered_is_not_told() -> None:
    """An answer takes the notice back; the next question is told at once, cooldown or not."""
    asked, answered = f.AgentAsked(0, "w", "w-1"), f.AgentAnswered(0, "w", "w-1")
    stage = Stage()
    stage.tell(asked, answered)
    assert stage.events == []
    stage.tell(asked)
    stage.tell(answered)
    stage.tell(asked)
    assert stage.events == ["asked", "asked"]


def many(make: Callable[[str], f.Stalled | f.Recovered], count: int = 40) -> list[f.Stalled | f.Recovered]:
    """Return the same fact of many harnesses."""
    return [make(f"h{number:02}") for number in range(count)]


@pytest.mark.capability("NEW-12")
@pytest.mark.parametrize("action", ["notify", "restart"])
def test_one_dead_network_is_one_notice_and_one_recovery(action: str) -> None:
    """Forty harnesses that stall together are one notice that lists them, and one when all are back."""
    stage = Stage()
    for fact in many(lambda name: stalled(name, action=action)):
        stage.tell(fact, wait=200)
    stage.sleep(4 * SECOND)
    assert stage.events == ["stalled"]
    (told,) = stage.told
    assert told["harnesses"] == [f"h{number:02}" for number in range(40)]
    assert told["harness"] is None
    assert told["title"] == "40 harnesses stalled"
    assert "h00, h01" in told["message"]
    assert told["hint"] == "longwatch ls"
    for fact in many(recovered):
        stage.tell(fact, wait=2 * SECOND)
    stage.sleep(10 * SECOND)
    assert stage.events == ["stalled", "recovered"]
    assert stage.told[1]["title"] == "40 harnesses are well again"
    assert len(stage.told[1]["harnesses"]) == 40
    assert stage.desk.snapshot()["open"] == []


@pytest.mark.capability("NEW-12")
def test_who_is_back_does_not_wait_for_ever_for_the_others() -> None:
    """Five minutes after the first one is back it is told who is, and who is not yet; those are told later."""
    stage = Stage()
    stage.tell(*many(stalled, 4))
    stage.tell(*many(recovered, 3))
    assert stage.events == ["stalled"]
    stage.sleep(incidents.PATIENCE)
    assert stage.events == ["stalled", "recovered"]
    assert stage.told[1]["harnesses"] == ["h00", "h01", "h02"]
    assert stage.told[1]["still_out"] == ["h03"]
    assert stage.told[1]["message"].endswith("; not yet: h03")
    stage.tell(recovered("h03"))
    assert stage.told[2]["harnesses"] == ["h03"]
    assert stage.told[2]["still_out"] == []


def test_the_rest_of_a_common_trouble_may_be_stopped_or_get_worse() -> None:
    """The recovery of the others is told when the last one is stopped, or has a trouble of its own."""
    for last in (stopped("h01"), f.GaveUp(0, "h01", "quick")):
        stage = Stage()
        stage.tell(*many(stalled, 2))
        stage.tell(recovered("h00"))
        assert stage.events == ["stalled"]
        stage.tell(last, wait=10 * SECOND)
        assert stage.events[-1] == "recovered"
        assert stage.told[-1]["harnesses"] == ["h00"]


def test_a_slow_stream_of_troubles_is_told_before_it_ends() -> None:
    """A notice waits for what comes with it half a minute at most."""
    stage = Stage()
    for fact in many(stalled):
        stage.tell(fact, wait=2 * SECOND)
    assert stage.told[0]["harnesses"][0] == "h00"
    assert len(stage.told[0]["harnesses"]) < 20
    stage.sleep(4 * SECOND)
    assert sum(len(one["harnesses"]) for one in stage.told) == 40


def test_a_park_has_its_own_end() -> None:
    """A usage limit is told when it holds and when it is over, whatever else happens; another one is news."""
    stage = Stage()
    parked = f.Parked(0, "w", "g", WALL + 90 * MINUTE, "usage", "resets at 3pm")
    stage.tell(parked, stopped())
    stage.tell(f.Unparked(0, "w", "g"))
    assert stage.events == ["parked", "unparked"]
    assert stage.told[1]["message"].startswith("w goes on after ")
    assert stage.told[0]["cause"] == "resets at 3pm"


def test_the_record_of_runs_has_its_own_end() -> None:
    """A ledger that cannot be written is told once, and that it can be written again."""
    stage = Stage()
    stage.tell(d.LedgerFailed(0, "disk full"))
    stage.tell(d.LedgerFailed(0, "disk full"), wait=20 * MINUTE)
    stage.tell(d.LedgerFailed(0, "disk full"))
    stage.tell(d.LedgerBack(0))
    assert [one["message"].partition(" after ")[0] for one in stage.told] == [
        "the record of runs cannot be written: runs go on, and what is not written yet is kept",
        "the record of runs is written again",
    ]
    assert stage.told[0]["harnesses"] == []


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"termination_reason": "exited", "exit_code": 3}, "exited with status 3"),
        ({"termination_reason": "signaled", "signal": "SEGV"}, "died of signal SEGV"),
        ({"termination_reason": "idle", "idle_ms": 9, "limit": {"name": "idle", "window_ms": 300_000}, "diagnosis": "curl waits"}, "stopped: no output for 5m"),
        ({"termination_reason": "spawn_failed"}, "could not be started"),
        ({"outcome": "timed_out", "termination_reason": "timeout"}, "stopped: its timeout limit was reached"),
    ],
)  # fmt: skip
def test_how_a_run_went_wrong(record: dict[str, object], words: str) -> None:
    """The notice of a bad run names its end, and the diagnosis where there is one."""
    stage = Stage(events=("run_failed",))
    stage.tell(
        f.RunOpened(0, "w", "w-1", "webhook", 1), f.RunClosed(0, "w", "w-1", {"outcome": "failed"} | record)
    )
    assert stage.told[0]["message"] == f"w had a bad run: {words}"
    assert stage.told[0]["cause"] == ("curl waits" if "diagnosis" in record else None)
    assert stage.told[0]["idle_ms"] == record.get("idle_ms")
    assert stage.told[0]["run"] == "w-1"


def test_a_short_absence_and_a_good_run_are_no_news() -> None:
    """Ten seconds of a held-up supervisor are the least that is told; a resident's end is its restart's matter."""
    stage = Stage(events=tuple(EVENTS))
    bad = {"outcome": "failed", "termination_reason": "idle"}
    stage.tell(d.TickLate(0, 9 * SECOND), f.RunClosed(0, "w", "w-1", {"outcome": "success"}))
    stage.tell(f.RunOpened(0, "w", "w-1", "restart", 2), f.RunClosed(0, "w", "w-1", bad))
    stage.tell(f.RunClosed(0, "v", "v-1", {**bad, "kind": "resident"}))
    stage.tell(f.HeldBack(0, "w", ("hours",), "closed"), f.StateChanged(0, "w", "running", "starting", ""))
    assert stage.events == []
