"""Who may start: hours, a park, the money and the runs of the day, places."""

import json

import pytest

from longwatch.core.admission import Admission, Standing
from longwatch.core.harness import Harness
from longwatch.core.spec import HOUR

NOW = 1_900_000_000_000
TODAY, TOMORROW, YESTERDAY = "2030-03-17", "2030-03-18", "2030-03-16"
OPEN = Standing(TODAY, NOW + 5 * HOUR)
CLOSED = Standing(TODAY, NOW + 5 * HOUR, open=False, changes=NOW + 9 * HOUR)


def harness(name: str = "web", **budgets: float) -> Harness:
    return Harness(name, ("serve",), budgets=budgets, hours=("mon 09:00-17:00", "tue 09:00-17:00"))


def kinds(admission: Admission, who: Harness, standing: Standing = OPEN) -> list[str]:
    return [hold.kind for hold in admission.holds(who, standing, NOW)]


def test_nothing_holds() -> None:
    """Without any bound everybody may start, however many run."""
    admission = Admission()
    for name in "abc":
        admission.opened(name, TODAY)
    assert kinds(admission, harness()) == []
    assert Admission().holds(harness(), Standing(), NOW) == ()


@pytest.mark.capability("CAP-126")
def test_the_order_of_admission() -> None:
    """Hours, park, cost, runs, places: everything that holds is named, each with its reason and its end if that is known."""
    admission = Admission(1)
    admission.quota.park("web", NOW + HOUR, "usage")
    admission.spent("web", 5.1, TODAY)
    admission.opened("web", TODAY)
    admission.closed("web")
    admission.opened("other", TODAY)
    found = admission.holds(harness(max_runs_per_day=1, daily_cost_usd=5.0), CLOSED, NOW)
    assert [(hold.kind, hold.reason, hold.until) for hold in found] == [
        ("hours", "outside its hours (mon 09:00-17:00, tue 09:00-17:00)", NOW + 9 * HOUR),
        ("park", "usage limit of web", NOW + HOUR),
        ("cost", "5.10 of 5.00 USD for today are spent", NOW + 5 * HOUR),
        ("runs", "1 of 1 runs for today are used", NOW + 5 * HOUR),
        ("slots", "1 of 1 places are taken", None),
    ]


@pytest.mark.capability("CAP-126")
def test_runs_of_a_day() -> None:
    """So many and no more, until the day is over; a clock that steps back over midnight gives nothing back."""
    admission, who = Admission(), harness(max_runs_per_day=2)
    for held in ([], [], ["runs"], ["runs"]):
        assert kinds(admission, who) == held
        admission.opened("web", TODAY)
        admission.closed("web")
    assert kinds(admission, who, Standing(YESTERDAY, NOW)) == ["runs"]
    assert kinds(admission, who, Standing(TOMORROW, NOW)) == []
    assert admission.used("web", TOMORROW).runs == 0


@pytest.mark.capability("CAP-126")
def test_money_of_a_day() -> None:
    """A harness has its own bound, and all together have the daemon's; what one has spent does not hold the other's own."""
    admission = Admission(daily_cost=10.0)
    admission.spent("web", 4.0, TODAY)
    admission.spent("job", 5.0, TODAY)
    assert kinds(admission, harness(daily_cost_usd=4.0)) == ["cost"]
    assert kinds(admission, harness(daily_cost_usd=4.01)) == []
    assert kinds(admission, harness("job", daily_cost_usd=6.0)) == []
    admission.spent("job", 1.0, TODAY)
    (hold,) = admission.holds(harness(), OPEN, NOW)
    assert hold.reason == "10.00 of 10.00 USD for today are spent for all harnesses"
    admission.spent("web", 5.0, TOMORROW)
    assert kinds(admission, harness(), Standing(TOMORROW, NOW)) == []


@pytest.mark.capability("CAP-126")
def test_the_cost_of_a_run_is_what_it_has_told() -> None:
    """What a run tells is all that it has cost: only what is more counts, on the day it is told, also for another daemon."""
    admission = Admission()
    assert [admission.costs("web", "web-1", usd, TODAY) for usd in (0.5, 0.5, 2.0, 1.0)] == [
        True,
        False,
        True,
        False,
    ]
    assert admission.used("web", TODAY).cost == 2.0
    later = Admission(told=json.loads(json.dumps(admission.as_dict())))
    assert later.costs("web", "web-1", 2.0, TODAY) is False
    assert later.costs("web", "web-1", 3.0, TODAY) is True
    assert later.used("web", TODAY).cost == 3.0
    assert later.costs("web", "web-1", 3.5, TOMORROW) is True
    assert later.used("web", TOMORROW).cost == 0.5
    assert later.costs("web", "web-2", 0.25, TOMORROW) is True
    assert later.used("web", TOMORROW).cost == 0.75


@pytest.mark.capability("CAP-126")
def test_places() -> None:
    """So many runs at once; who has a place keeps it over a restart; who is done gives it to the next."""
    admission = Admission(2)
    for name in "ab":
        assert kinds(admission, harness(name)) == []
        admission.opened(name, TODAY)
    assert kinds(admission, harness("c")) == ["slots"]
    assert kinds(admission, harness("a")) == []
    admission.closed("a")
    admission.closed("a")
    assert kinds(admission, harness("c")) == []
    admission.adopted("d")
    assert kinds(admission, harness("c")) == ["slots"]


@pytest.mark.capability("CAP-125", "CAP-126")
def test_it_survives() -> None:
    """The parks and the use of today outlive the daemon; runs that go on are told anew."""
    admission = Admission(1)
    admission.quota.park("web", NOW + HOUR, "usage")
    admission.spent("web", 5.0, TODAY)
    admission.opened("web", TODAY)
    again = Admission(1, json.loads(json.dumps(admission.as_dict())))
    who = harness(max_runs_per_day=1, daily_cost_usd=5.0)
    assert kinds(again, who) == ["park", "cost", "runs"]
    assert kinds(again, harness("other")) == []
