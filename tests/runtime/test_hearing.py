"""What one incarnation says, as words for its machine."""

from types import SimpleNamespace
from typing import Any

from longwatch.core import service_words as w
from longwatch.core.parking import Limited
from longwatch.runtime.hearing import Hearing


def test_what_an_agent_met_with_is_told_word_by_word() -> None:
    """A call that succeeded, a turn, a provider's limit, a spent budget: each is told to the machine, in its order."""
    told: list[Any] = []
    looks: list[Any] = []
    met = [("succeeded", None), ("turn", 1), ("limited", Limited("usage", 5, "later")), ("spent", "tokens")]
    service: Any = SimpleNamespace(
        machine=SimpleNamespace(generation=3), tell=told.append,
        house=SimpleNamespace(host=SimpleNamespace(soon=lambda call: call(0))),
    )  # fmt: skip
    running: Any = SimpleNamespace(
        effects=SimpleNamespace(on_look=looks), observation=SimpleNamespace(heard=lambda: met),
        watch=SimpleNamespace(sight=SimpleNamespace(last=None)),
    )  # fmt: skip
    Hearing(service).listen(running, resumed=False)
    (look,) = looks
    look(None, 0)
    assert [(type(word), word.as_dict()) for word in told] == [
        (type(word), word.as_dict())
        for word in (
            w.CallSucceeded(3),
            w.TurnSeen(3, busy=True),
            w.QuotaHit(3, Limited("usage", 5, "later")),
            w.BudgetSpent(3, "tokens"),
        )
    ]
