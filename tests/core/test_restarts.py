"""What follows an exit: respawn, backoff, stay down, give up."""

import itertools

import pytest

from longwatch.core.outcomes import OUTCOMES
from longwatch.core.restarts import (
    ALWAYS,
    GAVE_UP,
    HEALTHY,
    INTENSITY,
    NO,
    ON_FAILURE,
    PERIOD,
    QUICK,
    RESPAWN,
    STALLS,
    STAY,
    UNLESS_STOPPED,
    Decision,
    History,
    Life,
    backoff,
    decide,
    normalised,
    wanted,
)
from longwatch.core.spec import HOUR, MINUTE, SECOND

FAILURES = {"failed", "timed_out", "unknown"}


def lives(
    policy: str, spans: list[int], outcome: str = "failed", pause: int = 0, **more: bool
) -> list[Decision]:
    """Return the decisions after each of a row of lives, as far as it goes on."""
    now, history, made = 0, History(), []
    for span in spans:
        decision = decide(policy, Life(now, now + span, outcome, **more), history, 0.5)
        made.append(decision)
        now, history = now + span + decision.after + pause, decision.history
        if decision.action != RESPAWN:
            break
    return made


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (ALWAYS, set(OUTCOMES)),
        (UNLESS_STOPPED, set(OUTCOMES)),
        (ON_FAILURE, FAILURES),
        (NO, set()),
    ],
)
def test_policy(policy: str, outcomes: set[str]) -> None:
    """Each policy wants another life after exactly these outcomes."""
    assert {word for word in OUTCOMES if wanted(policy, Life(0, 1, word))} == outcomes


def test_a_stop_that_was_asked_for_is_final() -> None:
    """What somebody stopped stays down, under every policy, even if it was to be revived."""
    for policy, revive in itertools.product((ALWAYS, UNLESS_STOPPED, ON_FAILURE, NO), (True, False)):
        life = Life(0, HOUR, "cancelled", requested=True, revive=revive)
        decision = decide(policy, life, History(), 0.5)
        assert (decision.action, decision.why) == (STAY, "cancelled")


@pytest.mark.parametrize("policy", [ALWAYS, UNLESS_STOPPED, ON_FAILURE, NO])
def test_the_revive_mark_overrules_the_policy(policy: str) -> None:
    """A stall that was to restart brings the program back, even with `restart = "no"`, and at once."""
    decision = decide(policy, Life(0, HOUR, "stalled", revive=True), History(), 0.5)
    assert (decision.action, decision.after) == (RESPAWN, 0)


def test_short_lives_back_off() -> None:
    """After lives under ten seconds the delay doubles from one second to thirty, as far as it may go on."""
    assert QUICK == 10 * SECOND
    delays, history = [], History()
    for number in range(1, 9):
        now = number * HOUR  # far apart, so that the budget does not matter
        decision = decide(ALWAYS, Life(now, now + 9_999, "failed"), history, 0.5, intensity=100)
        delays.append(decision.after // SECOND)
        history = decision.history
    assert delays == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_longer_life_is_followed_by_none() -> None:
    """A life of ten seconds comes back at once, but the memory of the short ones stays until five healthy minutes."""
    assert HEALTHY == 5 * MINUTE
    made = lives(ALWAYS, [1, 1, QUICK, 1, HEALTHY, 1], pause=HOUR)
    assert [decision.after // SECOND for decision in made] == [1, 2, 0, 4, 0, 1]


@pytest.mark.parametrize(
    ("quick", "drawn", "delay"),
    [
        (1, 0.0, 900),
        (1, 0.5, 1000),
        (1, 0.999_999, 1099),
        (6, 0.0, 27_000),
        (6, 0.999_999, 32_999),
        (500, 0.5, 30_000),  # many in a row do not overflow
    ],
)
def test_backoff_is_spread_by_a_tenth(quick: int, drawn: float, delay: int) -> None:
    """Chance is an argument: the same draw gives the same delay, within ten per cent either way."""
    assert backoff(quick, drawn) == delay


def test_five_restarts_in_ten_minutes() -> None:
    """The budget counts restarts of all causes, however long each life was; the sixth within the period is refused."""
    assert (INTENSITY, PERIOD) == (5, 10 * MINUTE)
    made = lives(ALWAYS, [MINUTE] * 10, outcome="success")
    assert [decision.action for decision in made] == [RESPAWN] * 5 + [GAVE_UP]
    assert made[-1].why == "intensity"


def test_the_budget_is_rolling() -> None:
    """Restarts older than the period are forgotten, so a life of minutes may go on for ever."""
    made = lives(ALWAYS, [2 * MINUTE] * 50)
    assert {decision.action for decision in made} == {RESPAWN}
    assert all(len(decision.history.restarts) <= INTENSITY for decision in made)


def test_the_budget_is_configurable() -> None:
    """`intensity` and `period` of the file take the place of the built-in ones."""
    decision = decide(ALWAYS, Life(0, MINUTE, "failed"), History((0,)), 0.5, intensity=1, period=HOUR)
    assert decision.action == GAVE_UP
    decision = decide(ALWAYS, Life(0, MINUTE, "failed"), History((0,)), 0.5, intensity=1, period=MINUTE)
    assert decision.action == RESPAWN


def test_a_manual_start_clears_everything() -> None:
    """A human's start begins with an empty history."""
    spent = lives(ALWAYS, [1] * 10)[-1]
    assert spent.action == GAVE_UP
    assert decide(ALWAYS, Life(0, MINUTE, "failed"), History(), 0.5).action == RESPAWN


def test_five_stalls_without_progress() -> None:
    """Stalls are far apart, so they are counted by themselves: after five revivals without progress it is over."""
    made = lives(NO, [HOUR] * 10, outcome="stalled", revive=True)
    assert [decision.action for decision in made] == [RESPAWN] * STALLS + [GAVE_UP]
    assert made[-1].why == "stalls"


def test_one_progress_resets_the_stalls() -> None:
    """A stall after any progress is the first of a new row; an end of another kind is none, and resets nothing."""
    history = History(stalls=STALLS)
    assert history.report_only
    assert decide(NO, Life(0, HOUR, "stalled", revive=True), history, 0.5).action == GAVE_UP
    better = decide(NO, Life(0, HOUR, "stalled", revive=True, progressed=True), history, 0.5)
    assert (better.action, better.history.stalls) == (RESPAWN, 1)
    assert decide(ALWAYS, Life(0, HOUR, "failed"), history, 0.5).history.stalls == STALLS
    assert decide(ALWAYS, Life(0, HOUR, "failed", progressed=True), history, 0.5).history.stalls == 0


def test_a_quick_stall_backs_off_too() -> None:
    """A stall window below ten seconds makes short lives, and they are treated as such."""
    made = lives(NO, [5 * SECOND] * 3, outcome="stalled", revive=True)
    assert [decision.after for decision in made] == [1000, 2000, 4000]


@pytest.mark.capability("CAP-117")
@pytest.mark.parametrize(("intensity", "starts"), [(5, 6), (1, 2), (10, 11)])
def test_more_quick_lives_than_allowed(intensity: int, starts: int) -> None:
    """More than five quick lives in a row end it at any pace, unless more restarts were allowed than that."""
    history, count = History(), 0
    for number in itertools.count(1):
        now = number * HOUR
        count += 1
        decision = decide(
            ALWAYS, Life(now, now + 1, "success"), history, 0.5, intensity=intensity, period=HOUR - 1
        )
        history = decision.history
        if decision.action != RESPAWN:
            break
    assert (decision.why, count) == ("quick", max(starts, 6))


def test_no_bounds() -> None:
    """Where no intensity is wanted it is tried for ever, at the pace of the backoff."""
    history = History()
    for number in range(50):
        decision = decide(ALWAYS, Life(number, number + 1, "failed"), history, 0.5, intensity=0)
        assert decision.action == RESPAWN
        history = decision.history
    assert (decision.after, history.restarts) == (30 * SECOND, ())


@pytest.mark.fault("J3")
@pytest.mark.parametrize(
    ("errors", "spans", "outcomes", "alike"),
    [
        (["login"] * 3, [1] * 3, ["failed"] * 3, 3),
        (["Error: pid 17", "error:  pid 18", "Error: pid 0x7f3a"], [1] * 3, ["failed"] * 3, 3),
        (["login", "other", "login"], [1] * 3, ["failed"] * 3, 1),
        (["", "", ""], [1] * 3, ["failed"] * 3, 0),
        (["login"] * 3, [1, QUICK, 1], ["failed"] * 3, 1),
        (["login"] * 3, [1] * 3, ["failed", "success", "failed"], 1),
        (["login"] * 3, [1] * 3, ["failed", "unknown", "timed_out"], 3),
    ],
)
def test_failures_alike(errors: list[str], spans: list[int], outcomes: list[str], alike: int) -> None:
    """Quick failures in a row with the same words, numbers aside, are counted; anything else begins anew."""
    history = History()
    for error, span, outcome in zip(errors, spans, outcomes, strict=True):
        decision = decide(ALWAYS, Life(0, span, outcome, error=error), history, 0.5, intensity=0, alike=3)
        history = decision.history
    assert history.alike == alike
    assert (decision.action, decision.why) == ((GAVE_UP, "alike") if alike == 3 else (RESPAWN, ""))


def test_what_lines_have_in_common() -> None:
    """Words with a digit in them are not compared, nor what lies far behind."""
    assert normalised("  [12:03:01] Error:\tno  SUCH user 42 ") == "# error: no such user #"
    assert normalised("x" * 500) == "x" * 200
    assert normalised("") == ""


def test_no_restart_keeps_the_memory() -> None:
    """Staying down forgets nothing."""
    history = History((1, 2), 3, 1)
    assert decide(NO, Life(0, 1, "success"), history, 0.5) == Decision(STAY, history, why="success")
