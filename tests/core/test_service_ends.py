"""What follows an end: the policy, its bounds, a wait for the provider, a human."""

import itertools

import pytest

from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.harness import Harness
from longwatch.core.parking import Limited
from longwatch.core.restarts import HEALTHY, QUICK, STALLS
from longwatch.core.service_holds import Hold
from longwatch.core.service_memory import Memory
from longwatch.core.service_states import DEGRADED, FAILED, RESTARTING, RUNNING, STOPPED, STOPPING
from longwatch.core.spec import HOUR, MINUTE, SECOND, STOP
from services import HOURS, House, resident, scheduled


def record(house: House) -> dict[str, object]:
    """Return what the ledger keeps of the run that was over last."""
    return [fact.as_dict()["record"] for fact in house.facts if fact.name == "run_closed"][-1]  # type: ignore[return-value]


# -- policies


@pytest.mark.capability("CAP-116")
@pytest.mark.parametrize(
    ("policy", "outcome", "again"),
    [
        ("always", "success", True),
        ("always", "failed", True),
        ("unless-stopped", "success", True),
        ("on-failure", "success", False),
        ("on-failure", "failed", True),
        ("on-failure", "timed_out", True),
        ("no", "success", False),
        ("no", "failed", False),
    ],
)
def test_policies(policy: str, outcome: str, again: bool) -> None:
    """Four policies; an end that is not followed by another clears the intent and goes to `stopped`."""
    house = resident(restart=policy)
    house.over(outcome, after=MINUTE)
    assert (house.state, house.service.memory.enabled) == ((RUNNING, True) if again else (STOPPED, False))
    kept = orders.KeepIntent(enabled=False) in house.orders
    assert kept is not again


@pytest.mark.capability("CAP-116")
def test_an_end_by_other_means() -> None:
    """Who ends its run past the daemon (by its run folder) has stopped it."""
    house = resident()
    house.over("cancelled", "cancelled", after=MINUTE)
    assert (house.state, house.service.memory.enabled) == (STOPPED, False)


@pytest.mark.fault("J5")
@pytest.mark.capability("CAP-112", "CAP-113")
@pytest.mark.parametrize("policy", ["no", "on-failure", "always"])
def test_a_stall_is_an_end_like_others(policy: str) -> None:
    """A stall that was to restart it goes the ordinary way out, and brings it back under every policy."""
    house = resident(restart=policy, revive=("stall",))
    house.tell(w.StallFound(1, HOUR, HOUR, STOP, ("serve 1",)))
    house.tell(w.StopStarted(1, "stalled"))
    assert house.state == RESTARTING
    house.facts.clear()
    house.over("stalled", "stalled", after=HOUR)
    closed = house.facts[0].as_dict()
    assert (closed["run"], closed["record"]) == (
        "run-1",
        {"outcome": "stalled", "termination_reason": "stalled"},
    )
    assert (house.state, house.service.memory.enabled, house.service.memory.error) == (RUNNING, True, "")


@pytest.mark.fault("J5")
def test_a_stall_without_a_restart() -> None:
    """A stop for a stall that nobody wanted a restart for goes by the policy, and is no success."""
    house = resident(restart="no")
    house.over("stalled", "stalled", after=HOUR)
    assert house.state == STOPPED
    house = resident(restart="on-failure")
    house.over("failed", "idle", after=HOUR)
    assert house.state == RUNNING


@pytest.mark.capability("CAP-127")
def test_a_loop_is_not_started_again() -> None:
    """Who repeats one call is ended, and not wanted any more; that is told with the call."""
    house = resident()
    house.over("failed", "looping", after=HOUR, tool="Bash", count=8)
    assert (house.state, house.service.memory.enabled) == (STOPPED, False)
    told = house.told("loop_stopped")[0].as_dict()
    assert (told["tool"], told["count"], told["run"]) == ("Bash", 8, "run-1")
    job = scheduled()
    job.fire()
    job.over("failed", "looping", after=HOUR, tool="Bash", count=8)
    job.fire()
    assert job.starts == [1, 2]


# -- bounds


@pytest.mark.capability("CAP-117")
@pytest.mark.fault("J2")
@pytest.mark.parametrize("outcome", ["failed", "success"])
def test_quick_lives(outcome: str) -> None:
    """Quick ends are followed by growing waits, flapping is told at the third, and the sixth is the last."""
    house, waits, states = resident(), [], []
    for _ in range(6):
        house.over(outcome, after=QUICK - 1)
        states.append(house.state)
        due = house.service.next_deadline()
        waits.append(None if due is None else (due - house.now) // SECOND)
        if due is not None:
            house.wait()
    assert waits == [1, 2, 4, 8, 16, None]
    assert states == [RESTARTING, RESTARTING, DEGRADED, DEGRADED, DEGRADED, FAILED]
    assert [fact.as_dict()["quick"] for fact in house.facts if fact.name == "flapping"] == [3]
    assert house.service.memory.enabled
    assert house.names()[-1] == "gave_up"


@pytest.mark.capability("CAP-117")
def test_more_than_five_quick_lives_at_any_pace() -> None:
    """However far apart: more than five quick lives with no healthy one between them end it."""
    house = resident(period=1)
    for _ in range(6):
        house.over(after=1)
        if house.service.next_deadline() is not None:
            house.wait()
    assert (house.state, house.service.memory.gave_up) == (FAILED, "quick")


@pytest.mark.capability("CAP-117")
def test_health_clears() -> None:
    """Five minutes of life forget the quick ones; what was told of them is answered."""
    house = resident()
    for _ in range(3):
        house.over(after=1)
        house.wait()
    house.facts.clear()
    assert house.service.next_deadline() == house.now + HEALTHY
    house.wait()
    assert house.names() == ["recovered"]
    assert house.service.next_deadline() is None
    house.over(after=MINUTE)
    assert house.service.memory.history.quick == 0
    house.over(after=1)
    assert (house.state, house.service.memory.history.quick) == (RESTARTING, 1)


def test_lives_that_are_neither_quick_nor_healthy() -> None:
    """They neither count nor clear."""
    house = resident(intensity=100)
    for span in (1, 1, MINUTE, 1):
        house.over(after=span)
        if house.state != RUNNING:
            house.wait()
    assert [fact.name for fact in house.facts].count("flapping") == 1


def test_flapping_is_told_once_in_a_row() -> None:
    """Of one row of quick lives there is one notice; of the next one another."""
    house = resident(intensity=100)
    for span in (1, 1, 1, 1, 6 * MINUTE, 1, 1, 1):
        house.over(after=span)
        if house.state != RUNNING:
            house.wait()
    assert [fact.name for fact in house.facts].count("flapping") == 2


def test_a_longer_life_among_quick_ones() -> None:
    """It is followed by no wait, so there is nothing degraded about it."""
    house = resident(intensity=100)
    for _ in range(3):
        house.over(after=1)
        house.wait()
    house.facts.clear()
    house.over(after=MINUTE)
    states = [fact.as_dict()["state"] for fact in house.told("state_changed")]
    assert states == ["restarting", "starting", "running"]


@pytest.mark.fault("J1")
def test_one_budget_for_all_causes() -> None:
    """A child that lives for a while and crashes and stalls in turn is restarted five times in ten minutes, and told of once."""
    house = resident(revive=("stall",))
    for outcome, reason in itertools.cycle((("failed", "exited"), ("stalled", "stalled"))):
        if house.state != RUNNING:
            break
        house.over(outcome, reason, after=15 * SECOND)
    assert (house.state, len(house.starts)) == (FAILED, 6)
    assert [fact.as_dict()["cause"] for fact in house.told("gave_up")] == ["intensity"]
    house.wait(HOUR)
    assert house.starts[-1] == 6
    house.tell(w.StartAsked())
    assert (house.state, house.service.memory.history.restarts) == (RUNNING, ())


@pytest.mark.fault("J3")
def test_failures_alike() -> None:
    """Three quick failures with the same words stop it early, whatever numbers are in them, and the words are shown."""
    house = resident(intensity=10)
    for number in range(3):
        house.over(after=1, error=f"Error: not logged in (pid {number}, 12:0{number})")
        if number < 2:
            house.wait()
    assert (house.state, len(house.starts)) == (FAILED, 3)
    shown = house.service.snapshot(house.moment)
    assert (shown["gave_up"], shown["last_error"]) == ("alike", "Error: not logged in (pid 2, 12:02)")
    assert house.told("gave_up")[0].as_dict()["error"] == shown["last_error"]


@pytest.mark.fault("J3")
@pytest.mark.parametrize(
    "errors", [("a", "b", "c"), ("a", "a", "b", "a"), ("", "", "", "")], ids=["others", "broken", "silent"]
)
def test_failures_that_are_not_alike(errors: tuple[str, ...]) -> None:
    """Other words, or none, are no reason to stop early."""
    house = resident(intensity=10)
    for error in errors:
        house.over(after=1, error=error)
        house.wait()
    assert house.state == RUNNING


def test_a_manual_start_clears_everything() -> None:
    """A human's start begins with nothing held against it."""
    house = resident()
    for word in "abcdef":
        house.over(after=1, error=word)
        if house.service.next_deadline():
            house.wait()
    assert house.state == FAILED
    house.tell(w.StartAsked())
    assert house.service.snapshot(house.moment)["restarts"] == 0
    assert house.service.memory.history.quick == 0
    house.wait()
    assert house.names()[-1] == "recovered"


def test_the_last_error_stays() -> None:
    """An end that is no failure says nothing of errors, so the last one is still the last one."""
    house = resident()
    house.over("failed", after=MINUTE, error="no such table")
    house.over("success", after=MINUTE, error="bye")
    assert house.service.snapshot(house.moment)["last_error"] == "no such table"


def test_what_follows_is_told() -> None:
    """Each restart is told with its wait and the reason of the end before, and says so to the next incarnation."""
    house = resident()
    house.over("failed", "idle", after=1)
    planned = house.told("restart_planned")[0].as_dict()
    assert (planned["after"], planned["cause"]) == (1000, "idle")
    house.wait()
    assert orders.OpenRun(2, "restart", 2, "idle") in house.orders


# -- stalls


def stall(house: House, *, progressed: bool = False) -> None:
    house.tell(w.StallFound(house.generation, HOUR, HOUR, STOP))
    house.over("stalled", "stalled", after=HOUR, progressed=progressed)


@pytest.mark.capability("CAP-114")
def test_five_stalls() -> None:
    """After five stalls without a success it runs on and is only reported about; one success re-arms that."""
    house = resident(restart="no", revive=("stall",))
    for _ in range(STALLS):
        stall(house)
    assert (house.state, house.starts) == (RUNNING, [1, 2, 3, 4, 5, 6])
    openings = [order.report_only for order in house.orders if isinstance(order, orders.OpenRun)]
    assert openings == [False] * 5 + [True]
    shown = house.service.snapshot(house.moment)
    assert (shown["gave_up"], shown["report_only"], shown["stalls"]) == ("stalls", True, 5)
    counted = [
        (fact.as_dict()["stalls"], fact.as_dict()["gave_up"])
        for fact in house.facts
        if fact.name == "stalled"
    ]
    assert counted == [(n, False) for n in range(1, 6)]
    assert [fact.as_dict()["cause"] for fact in house.told("gave_up")] == ["stalls"]
    house.tell(w.StallFound(6, HOUR, HOUR, STOP))
    told = house.told("stalled")[0].as_dict()
    assert (told["stalls"], told["gave_up"], told["action"]) == (6, True, "notify")
    assert house.tell(w.CallSucceeded(6))[-2] == orders.ArmStall(6)
    shown = house.service.snapshot(house.moment)
    assert (shown["gave_up"], shown["report_only"], shown["stalls"]) == (None, False, 0)
    assert house.names() == ["recovered"]
    house.tell(w.StallFound(6, HOUR, HOUR, STOP))
    assert house.told("stalled")[0].as_dict()["gave_up"] is False


@pytest.mark.capability("CAP-114")
@pytest.mark.fault("J1")
def test_only_progress_resets_the_stalls() -> None:
    """A crash between two stalls is no progress; a successful call is, in the life that stalled then too."""
    house = resident(revive=("stall",))
    for _ in range(STALLS):
        stall(house)
        house.over(after=HOUR)
    assert house.service.memory.history.report_only
    house = resident(revive=("stall",))
    for _ in range(3 * STALLS):
        house.tell(w.CallSucceeded(house.generation))
        stall(house)
    assert house.service.memory.history.stalls == 1
    stall(house, progressed=True)
    assert house.service.memory.history.stalls == 1


def test_what_only_reports_ends_otherwise() -> None:
    """That it has given up on stalls is told once, and holds for the incarnations after it."""
    house = resident(revive=("stall",))
    for _ in range(STALLS):
        stall(house)
    house.over(after=HOUR)
    assert house.service.snapshot(house.moment)["report_only"]
    assert len(house.told("gave_up")) == 1


@pytest.mark.capability("CAP-114")
def test_a_manual_start_arms_the_stall_again() -> None:
    """A human who starts or restarts it wants it guarded as the file says."""
    house = resident(revive=("stall",))
    for _ in range(STALLS):
        stall(house)
    assert orders.ArmStall(6) in house.tell(w.StartAsked())
    assert house.service.snapshot(house.moment)["gave_up"] is None
    stall(house)
    assert house.state == RUNNING


@pytest.mark.parametrize(("revive", "action"), [((), "stop"), (("stall",), "restart")])
def test_a_stall_is_told_with_what_follows_it(revive: tuple[str, ...], action: str) -> None:
    """A stop that is a means to start it again is told as that."""
    house = resident(revive=revive)
    house.tell(w.StallFound(1, HOUR, HOUR, STOP))
    assert house.told("stalled")[0].as_dict()["action"] == action


@pytest.mark.capability("CAP-129")
@pytest.mark.fault("P1")
def test_a_stall_that_is_over_is_told() -> None:
    """The first success after a stall answers it, however it was acted upon; without one before nothing is told."""
    house = resident()
    house.tell(w.CallSucceeded(1))
    assert house.names() == []
    house.tell(w.StallFound(1, HOUR, HOUR, "notify", ("serve 1", "sh 2")))
    assert house.told("stalled")[0].as_dict()["tree"] == ("serve 1", "sh 2")
    house.tell(w.Progressed(1))
    assert house.names() == []
    house.wait(HEALTHY)
    assert house.names() == []
    house.tell(w.CallSucceeded(1))
    assert house.names() == ["recovered"]


@pytest.mark.fault("P1")
def test_a_notice_of_silence_is_answered() -> None:
    """The first progress after a notice of another limit answers it."""
    house = resident()
    house.facts.clear()
    assert house.tell(w.Progressed(1)) == []
    house.tell(w.LimitFound(1, "idle", MINUTE))
    house.tell(w.LimitFound(1, "call", HOUR))
    assert house.names() == ["limit_notice", "limit_notice"]
    house.tell(w.Progressed(1))
    assert house.told("recovered")[0].as_dict()["cause"] == "silence"


def test_a_notice_of_time_has_no_answer() -> None:
    """What has worked for long has not been silent: that it moves is no recovery."""
    house = resident()
    house.facts.clear()
    house.tell(w.LimitFound(1, "soft", HOUR))
    house.tell(w.Progressed(1))
    assert house.names() == ["limit_notice"]


# -- the provider

USAGE = Limited("usage", None, "You have hit your limit")


def until(house: House, span: int, cls: str = "usage") -> Limited:
    return Limited(cls, house.wall + span, "limit reached")


@pytest.mark.capability("CAP-125", "NEW-11")
def test_a_park() -> None:
    """Who ends under a limit is parked until its reset, costs no budget, is no failure, and comes back once."""
    house = resident(quota_group="team")
    limited = until(house, 3 * HOUR)
    house.over(limited=limited, after=1)
    assert (house.state, house.service.memory.enabled) == (STOPPED, True)
    assert record(house) == {
        "outcome": "quota_parked", "verdict": None, "termination_reason": "exited"
    }  # fmt: skip
    assert house.service.memory.history.restarts == ()
    parked = orders.ParkGroup("team", limited.until or 0, "usage", "limit reached", 0.5)
    assert parked in house.orders
    assert house.names()[-3:] == ["run_closed", "parked", "held_back"]
    assert house.service.snapshot(house.moment)["holds"] == [
        {"kind": "park", "reason": "limit reached", "until": limited.until}
    ]
    house.wait(2 * HOUR)
    assert house.starts == [1]
    house.hold(Hold("park", "its place", house.wall + HOUR + MINUTE))
    house.wait(HOUR)
    assert house.starts == [1]
    house.hold()
    assert house.starts == [1, 2]
    assert house.names() == ["unparked", "let_go"]
    assert orders.OpenRun(2, "release", 2, "exited") in house.orders


@pytest.mark.capability("CAP-125")
@pytest.mark.fault("K2")
@pytest.mark.parametrize(
    ("stated", "waits"),
    [
        (None, [15, 30, 60, 120, 240, 360, 360]),
        (-HOUR, [15, 30, 60, 120, 240, 360, 360]),
        (30 * SECOND, [15, 30, 60, 120, 240, 360, 360]),
        (MINUTE, [1, 15, 30, 60]),
        (30 * 24 * HOUR, [8 * 24 * 60, 8 * 24 * 60]),
    ],
)
def test_waits_of_our_own(stated: int | None, waits: list[int]) -> None:
    """What is not stated, or cannot be meant, is waited for with a growing wait; what is too far away is cut to eight days."""
    house, seen = resident(), []
    first = house.wall + (stated or 0)
    for _ in waits:
        again = first if stated == MINUTE else house.wall + (stated or 0)
        house.over(limited=Limited("usage", None if stated is None else again))
        hold = house.service.memory.hold
        assert hold is not None
        assert hold.until is not None
        seen.append((hold.until - house.wall) // MINUTE)
        house.now += hold.until - house.wall
        house.wait(0)
    assert seen == waits
    assert house.state == RUNNING


@pytest.mark.fault("K3", "K6")
def test_limits_never_use_the_budget() -> None:
    """Six ends by a limit that nobody states an end of: parked six times, and not one restart counted."""
    house = resident()
    for _ in range(6):
        house.over(limited=USAGE, error="hit your limit")
        assert house.state == STOPPED
        while house.state != RUNNING:
            house.wait()
    assert (house.service.memory.history.restarts, house.service.memory.history.quick) == ((), 0)
    assert len(house.starts) == 7


@pytest.mark.fault("K6")
def test_one_resume_for_each_window() -> None:
    """Limited twice past the reset, then served: three starts in all, and growing waits between them."""
    house = resident()
    reset = house.wall + HOUR
    waits = []
    for _ in range(2):
        house.over(limited=Limited("usage", reset))
        before = house.now
        while house.state != RUNNING:
            house.wait()
        waits.append((house.now - before) // MINUTE)
    house.tell(w.CallSucceeded(house.generation))
    assert waits == [60, 15]
    assert len(house.starts) == 3


@pytest.mark.fault("K6")
def test_a_resume_that_got_something_done() -> None:
    """It was not in vain, so the next wait is the first of a new row."""
    house, waits = resident(), []
    for succeeds in (False, False, True):
        if succeeds:
            house.tell(w.CallSucceeded(house.generation))
        house.over(limited=USAGE)
        before = house.now
        while house.state != RUNNING:
            house.wait()
        waits.append((house.now - before) // MINUTE)
    assert waits == [15, 30, 15]


@pytest.mark.capability("CAP-125")
def test_a_park_survives_a_reboot() -> None:
    """A new daemon on a machine that was started anew waits for the same instant."""
    house = resident()
    house.over(limited=until(house, HOUR))
    kept = house.service.memory.kept(house.moment)
    again = House(memory=Memory.of(house.harness, kept, house.moment), awake=False)
    again.tell(w.Awoke())
    assert (again.state, again.starts) == (STOPPED, [])
    while again.state != RUNNING:
        again.wait()
    assert again.now == house.now + HOUR
    assert "unparked" in again.names()


@pytest.mark.capability("CAP-125", "CAP-126")
@pytest.mark.parametrize("asked", [w.StartAsked(), w.RestartAsked()])
def test_a_manual_start_overrules_a_park(asked: w.Word) -> None:
    """A human starts it all the same; limited once more it is parked once more."""
    house = resident()
    house.over(limited=until(house, HOUR))
    house.holds = (Hold("park", "", house.wall + HOUR),)
    house.tell(asked)
    assert (house.state, house.starts) == (RUNNING, [1, 2])
    assert "unparked" in house.names()
    house.over(limited=until(house, HOUR))
    assert house.state == STOPPED
    house.holds = (Hold("park", "its place", house.wall + HOUR + MINUTE),)
    house.wait(HOUR)
    assert (house.state, house.starts) == (STOPPED, [1, 2])
    house.hold()
    assert house.starts == [1, 2, 3]


@pytest.mark.capability("NEW-11")
@pytest.mark.parametrize(
    ("cls", "resume", "kind"),
    [("auth", True, "login"), ("money", True, "money"), ("usage", False, "limit"), ("auth", False, "login")],
)
def test_what_needs_a_human(cls: str, resume: bool, kind: str) -> None:
    """A bad login is never restarted: it is held until somebody starts it, over a reboot too."""
    house = resident(resume_on_limit=resume)
    house.over(limited=Limited(cls, house.wall + HOUR, "please log in"), after=1)
    assert (house.state, house.starts, house.service.memory.enabled) == (STOPPED, [1], True)
    assert house.service.snapshot(house.moment)["holds"][0]["kind"] == kind
    assert not any(isinstance(order, orders.ParkGroup) for order in house.orders)
    parked = next(fact for fact in house.facts if fact.name == "parked").as_dict()
    assert (parked["until"], parked["cls"], parked["text"]) == (None, cls, "please log in")
    house.wait(48 * HOUR)
    assert house.starts == [1]
    kept = Memory.of(house.harness, house.service.memory.kept(house.moment), house.moment)
    assert House(house.harness, kept).starts == []
    house.facts.clear()
    house.tell(w.StartAsked())
    assert house.starts == [1, 2]
    assert "unparked" in house.names()
    house.tell(w.CallSucceeded(2))
    assert house.names() == ["recovered"]


@pytest.mark.fault("K4")
@pytest.mark.parametrize("cls", ["context", "overload", "other"])
def test_what_is_no_such_limit(cls: str) -> None:
    """An end of another kind goes by the policy."""
    house = resident()
    house.over(limited=Limited(cls), after=MINUTE)
    assert house.starts == [1, 2]


def test_a_stop_that_comes_before_a_park() -> None:
    """What somebody stopped is stopped, whatever its provider said."""
    house = resident()
    house.stubborn = True
    house.tell(w.StopAsked())
    house.over("cancelled", "cancelled", limited=until(house, HOUR))
    assert house.service.memory.hold is None
    assert "parked" not in house.names()


@pytest.mark.capability("CAP-125")
@pytest.mark.fault("K6")
def test_who_tries_and_tries_is_stuck() -> None:
    """Three refusals in ten minutes without a success: it is ended and parked. A success in between is none of that."""
    house = resident()
    for _ in range(2):
        assert house.tell(w.QuotaHit(1, USAGE)) == []
    house.tell(w.CallSucceeded(1))
    for _ in range(2):
        assert house.tell(w.QuotaHit(1, USAGE)) == []
    house.stubborn = True
    told = house.tell(w.QuotaHit(1, USAGE))
    assert told[-1] == orders.StopRun(1, "cancelled", "budget")
    assert house.state == STOPPING
    assert house.tell(w.QuotaHit(1, USAGE)) == []
    house.over("cancelled", "cancelled")
    assert house.state == STOPPED
    assert record(house)["outcome"] == "quota_parked"
    assert house.names()[-2:] == ["parked", "held_back"]
    house.wait(15 * MINUTE)
    assert house.state == RUNNING


def test_who_is_never_stuck() -> None:
    """Refusals far apart, a limit that only a human lifts, or an own wish not to be resumed."""
    house = resident()
    for _ in range(5):
        assert house.tell(w.QuotaHit(1, USAGE)) == []
        house.wait(6 * MINUTE)
    assert [house.tell(w.QuotaHit(1, Limited("auth"))) for _ in range(5)] == [[]] * 5
    house = resident(resume_on_limit=False)
    assert [house.tell(w.QuotaHit(1, USAGE)) for _ in range(5)] == [[]] * 5


def test_stuck_and_then_stopped_by_hand() -> None:
    """Who stops or starts it meanwhile gets that."""
    for asked, state in ((w.StopAsked(), STOPPED), (w.StartAsked(), RUNNING)):
        house = resident()
        house.stubborn = True
        for _ in range(3):
            house.tell(w.QuotaHit(1, USAGE))
        house.tell(asked)
        house.over("cancelled", "cancelled")
        assert (house.state, house.service.memory.hold) == (state, None)


@pytest.mark.capability("CAP-126")
def test_a_budget_of_one_run() -> None:
    """Who has spent what a run may cost is ended; a resident waits for a human, what is fired for its next firing."""
    house = resident()
    house.tell(w.BudgetSpent(1, "5.10 of 5.00 USD are spent"))
    assert house.tell(w.BudgetSpent(1, "again"))[0].fact.name == "stale_dropped"
    assert (house.state, house.service.memory.enabled) == (STOPPED, True)
    assert house.service.snapshot(house.moment)["holds"][0]["reason"] == "5.10 of 5.00 USD are spent"
    assert record(house)["outcome"] == "budget_exceeded"
    house.tell(w.StartAsked())
    assert house.state == RUNNING
    house.stubborn = True
    house.tell(w.StopAsked())
    assert house.tell(w.BudgetSpent(2, "all")) == []
    job = scheduled()
    job.fire()
    job.tell(w.BudgetSpent(1, "all"))
    job.fire()
    assert job.starts == [1, 2]


# -- holds


@pytest.mark.capability("CAP-126")
def test_a_resident_is_held_back() -> None:
    """What is wanted and may not begin is `stopped` with its reason shown, and begins when nothing holds it."""
    house = House(awake=False)
    house.holds = (HOURS, Hold("slots", "4 of 4 places are taken"))
    house.tell(w.Awoke())
    assert house.state == STOPPED
    assert [hold["kind"] for hold in house.service.snapshot(house.moment)["holds"]] == ["hours", "slots"]
    told = house.told("held_back")
    assert [fact.as_dict()["holds"] for fact in told] == [("hours", "slots")]
    house.wait(MINUTE)
    assert house.told("held_back") == []
    house.hold(HOURS)
    assert [fact.as_dict()["holds"] for fact in house.told("held_back")] == [("hours",)]
    house.hold()
    assert house.state == RUNNING
    assert house.names() == ["let_go"]
    assert orders.OpenRun(1, "release", 1) in house.orders
    assert house.service.snapshot(house.moment)["holds"] == []


def test_when_to_look_again() -> None:
    """A hold is looked at when it is to end, and every ten minutes, for the wall clock may be set."""
    house = House(awake=False)
    house.holds = (Hold("hours", "", house.wall + 7 * MINUTE), Hold("park", "", house.wall + 9 * MINUTE))
    house.tell(w.Awoke())
    assert house.service.next_deadline() == house.now + 7 * MINUTE
    house.hold(Hold("hours", "", house.wall + HOUR))
    assert house.service.next_deadline() == house.now + 10 * MINUTE
    house.hold(Hold("hours", "", house.wall - HOUR))
    assert house.service.next_deadline() == house.now + SECOND


def test_a_restart_that_is_held_back() -> None:
    """An end outside its hours is not followed by another one before they begin, and that is no restart."""
    house = resident()
    house.holds = (Hold("slots"),)
    house.over(after=MINUTE)
    assert house.state == STOPPED
    house.hold()
    assert house.starts == [1, 2]
    house.holds = (Hold("slots"),)
    house.over(after=1)
    assert house.state == RESTARTING
    house.wait()
    assert house.state == STOPPED


@pytest.mark.capability("CAP-126")
def test_a_manual_start_overrules_holds_until_they_end() -> None:
    """Started by hand it stays started, over its restarts too, until what held it back has come to its end once."""
    house = House(awake=False)
    house.holds = (HOURS,)
    house.tell(w.Awoke())
    house.tell(w.StartAsked())
    assert house.state == RUNNING
    house.wait(HOUR)
    house.over(after=MINUTE)
    assert (house.state, house.starts) == (RUNNING, [1, 2])
    house.hold()
    house.hold(HOURS)
    assert house.state == STOPPED


# -- the end of hours


def test_the_end_of_hours_ends_what_has_no_turns() -> None:
    """A plain resident is stopped at once, by its hours; it is wanted still and comes back with them."""
    house = resident()
    house.hold(HOURS)
    assert orders.StopRun(1, "cancelled", "hours") in house.orders
    assert (house.state, house.service.memory.enabled) == (STOPPED, True)
    assert house.names()[-1] == "held_back"
    house.hold()
    assert house.state == RUNNING


@pytest.mark.capability("CAP-126")
def test_the_end_of_hours_waits_for_the_turn() -> None:
    """An agent may finish its turn, for fifteen minutes; one that is ready is stopped at once."""
    house = House(awake=False)
    house.turns = True
    house.tell(w.Awoke())
    house.tell(w.TurnSeen(1, busy=True))
    house.hold(HOURS)
    assert house.state == RUNNING
    house.wait(14 * MINUTE)
    assert house.state == RUNNING
    house.tell(w.TurnSeen(1, busy=False))
    assert house.state == STOPPED
    house.hold()
    house.tell(w.TurnSeen(2, busy=False))
    house.hold(HOURS)
    assert house.state == STOPPED


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize("kind", ["agent", "job"])
def test_the_end_of_hours_does_not_wait_for_ever(kind: str) -> None:
    """After fifteen minutes it is stopped in the middle of its turn, or of its run."""
    house = scheduled() if kind == "job" else House(awake=False)
    house.turns = kind == "agent"
    house.tell(w.Awoke())
    house.fire()
    house.stubborn = True
    house.hold(HOURS)
    assert house.service.next_deadline() == house.now + 15 * MINUTE
    house.wait()
    assert house.state == STOPPING
    assert house.service.next_deadline() is None
    assert house.wait(MINUTE) == []


def test_hours_that_begin_again_in_time() -> None:
    """A change of the file that opens it again calls the end off, and so does a human's start."""
    for undo in ("hours", "start"):
        house = House(awake=False)
        house.turns = True
        house.tell(w.Awoke())
        house.hold(HOURS)
        if undo == "hours":
            house.hold()
        else:
            house.tell(w.StartAsked())
        assert house.service.next_deadline() is None
        house.wait(HOUR)
        assert house.state == RUNNING


def test_started_by_hand_outside_its_hours() -> None:
    """What a human started against its hours, or fired against them, is not ended by them."""
    for house in (resident(enabled=False), scheduled()):
        house.holds = (HOURS,)
        house.tell(w.StartAsked())
        assert house.state == RUNNING
        house.wait(HOUR)
        assert house.state == RUNNING


def test_a_harness_of_nothing_known() -> None:
    """A harness travels as JSON and comes back the same."""
    harness = Harness("web", ("serve",), revive=("stall",), hours=("mon 09:00-17:00",))
    assert Harness.of(harness.as_dict()) == harness
