"""What runs have used and cost, told to the budgets of a day: as it is told, and each cent once."""

from typing import Any

import pytest

from longwatch.core.admission import Admission
from longwatch.core.harness import Harness
from longwatch.daemon.spending import Spending

DAY = "2030-03-17"
WEB = Harness("web", ("serve",))


class Place:
    """Budgets, and how often they were asked to look again."""

    def __init__(self) -> None:
        self.admission = Admission()
        self.changed = 0
        self.spending = Spending(self.admission, lambda harness: DAY, self.change)

    def change(self) -> None:
        self.changed += 1

    @property
    def cost(self) -> float:
        return self.admission.used("web", DAY).cost


@pytest.fixture
def place() -> Place:
    return Place()


def usage(tokens: int, usd: float | None) -> dict[str, Any]:
    return {"usage": {"total_tokens": tokens, "cost_usd": usd}}


def test_a_run_costs_what_it_has_told_and_its_end_adds_what_is_new(place: Place) -> None:
    """Said twice it costs once; whoever is held by money is looked at again only where there is more."""
    place.spending.costs(WEB, "web-1", 0.5)
    place.spending.costs(WEB, "web-1", 0.5)
    assert (place.cost, place.changed) == (0.5, 1)
    place.spending.closed(WEB, {"run": "web-1", "agent": usage(100, 0.75)})
    assert (place.cost, place.changed) == (0.75, 2)
    place.spending.closed(WEB, {"run": "web-2", "agent": usage(10, 0.25)})
    assert (place.cost, place.changed) == (1.0, 3)
    assert place.spending.sample("web", None) == {"tokens": 110, "cost_usd": 1.0}


@pytest.mark.parametrize("record", [{}, {"agent": None}, {"agent": {"usage": None}}, {"agent": {}}])
def test_who_tells_nothing_costs_nothing(place: Place, record: dict[str, Any]) -> None:
    """There is no sample of it either: nought would be a claim."""
    place.spending.closed(WEB, {"run": "web-1", **record})
    assert (place.cost, place.changed, place.spending.sample("web", None)) == (0, 0, {})
    assert place.spending.sample("web", {"usage": None}) == {}


def test_tokens_without_a_price_cost_nothing(place: Place) -> None:
    """A price that is told later stands beside the tokens of all."""
    place.spending.closed(WEB, {"run": "web-1", "agent": usage(100, None)})
    assert (place.cost, place.spending.sample("web", None)) == (0, {"tokens": 100})
    place.spending.closed(WEB, {"run": "web-2", "agent": usage(10, 0.25)})
    assert place.spending.sample("web", None) == {"tokens": 110, "cost_usd": 0.25}
    place.spending.closed(WEB, {"run": "web-3", "agent": usage(1, None)})
    assert place.spending.sample("web", None) == {"tokens": 111, "cost_usd": 0.25}


def test_a_run_that_goes_on_is_in_the_sample(place: Place) -> None:
    """Beside those that are over, and only as long as somebody asks for it."""
    assert place.spending.sample("web", usage(5, 0.5)) == {"tokens": 5, "cost_usd": 0.5}
    place.spending.closed(WEB, {"run": "web-1", "agent": usage(100, 0.25)})
    assert place.spending.sample("web", usage(5, 0.5)) == {"tokens": 105, "cost_usd": 0.75}
    assert place.spending.sample("web", None) == {"tokens": 100, "cost_usd": 0.25}
    place.spending.drop("web")
    assert place.spending.sample("web", None) == {}
    place.spending.drop("web")
