"""What keeps a harness back that is wanted: the kinds of hold, and one of them with its reason and its end.

Of the admission are hours, park, cost, runs and slots; of the service itself park, login, money, limit and budget.
"""

from longwatch.core.record import Plain

HOURS, PARK, COST, RUNS, SLOTS = "hours", "park", "cost", "runs", "slots"
LOGIN, MONEY, LIMIT, BUDGET = "login", "money", "limit", "budget"
KINDS = (HOURS, PARK, COST, RUNS, SLOTS, LOGIN, MONEY, LIMIT, BUDGET)
#: Kinds that a provider is the reason of.
PROVIDERS = (PARK, LOGIN, MONEY, LIMIT)


class Hold(Plain):
    """Why a harness that is wanted may not start: a kind, a sentence, and the wall instant of its end if it is known."""

    __slots__ = ("kind", "reason", "until")

    def __init__(self, kind: str, reason: str = "", until: int | None = None) -> None:
        self.kind = kind
        self.reason = reason
        self.until = until
