"""Who may start: hours, a park, the money and the runs of the day, places, in this order.

Asked for every start, and for everybody who waits whenever something changes; each hold says why, and until when if
that is known. A harness keeps its place from one incarnation to the next as long as there is no wait between them.
What somebody starts by hand is not asked about here. Wall instants are in ms since 1970.
"""

from longwatch.core.quota import Quota, group_of
from longwatch.core.record import Plain
from longwatch.core.service_holds import COST, HOURS, RUNS, SLOTS, Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.core.harness import Harness


class Standing(Plain):
    """What the calendar says of a harness now, in its time zone.

    `open`: it is within its hours, which change at `changes` (None: never). `day` as in 2025-03-09, and when it ends.
    """

    __slots__ = ("changes", "day", "day_ends", "open")

    def __init__(
        self,
        day: str = "",
        day_ends: int | None = None,
        *,
        open: bool = True,  # noqa: A002
        changes: int | None = None,
    ) -> None:
        self.day = day
        self.day_ends = day_ends
        self.open = open
        self.changes = changes


class Used(Plain):
    """What a harness has used of a day: runs, and money in USD. Of the cost of its newest `run` so much was `told`."""

    __slots__ = ("cost", "day", "run", "runs", "told")

    def __init__(
        self, day: str = "", runs: int = 0, cost: float = 0.0, run: str = "", told: float = 0.0
    ) -> None:
        self.day = day
        self.runs = runs
        self.cost = cost
        self.run = run
        self.told = told


class Admission:
    """Counts what is bounded, and answers with holds.

    `places` runs at once and `daily_cost` USD a day, over all harnesses of the daemon (0: no bound). `told` is what `as_dict` gave: the parks and the use of today outlive the daemon, the runs that go on do not.
    """

    def __init__(
        self, places: int = 0, told: "Mapping[str, Any] | None" = None, *, daily_cost: float = 0.0
    ) -> None:
        told = told or {}
        self.places = places
        self.daily_cost = daily_cost
        self.quota = Quota(told.get("parks"))
        self._used = {name: Used(**used) for name, used in told.get("used", {}).items()}
        self._taken: set[str] = set()

    def as_dict(self) -> dict[str, object]:
        """Return it as values that JSON knows."""
        return {
            "parks": self.quota.as_dict(),
            "used": {name: used.as_dict() for name, used in self._used.items()},
        }

    def opened(self, name: str, day: str) -> None:
        """A run of it is about to start."""
        self._taken.add(name)
        self._today(name, day).runs += 1

    def adopted(self, name: str) -> None:
        """A run of it goes on."""
        self._taken.add(name)

    def closed(self, name: str) -> None:
        """No run of it goes on."""
        self._taken.discard(name)

    def spent(self, name: str, usd: float, day: str) -> None:
        """A run of it has cost so much more."""
        self._today(name, day).cost += usd

    def costs(self, name: str, run: str, usd: float, day: str) -> bool:
        """A run of it has cost so much by now: return whether that is more than was told, and count it for this day."""
        used = self._today(name, day)
        if used.run != run:
            used.run, used.told = run, 0.0
        more = usd - used.told
        if more <= 0:
            return False
        used.told = usd
        used.cost += more
        return True

    def used(self, name: str, day: str) -> Used:
        """Return what it has used of this day."""
        return self._today(name, day)

    def _today(self, name: str, day: str) -> Used:
        """A clock that steps back over midnight gives nothing back; a run that goes on over it has cost what it has."""
        used = self._used.get(name)
        if used is None:
            used = self._used[name] = Used(day)
        elif used.day < day:
            used = self._used[name] = Used(day, run=used.run, told=used.told)
        return used

    def holds(self, harness: "Harness", standing: Standing, wall: int) -> tuple[Hold, ...]:
        """Return everything that holds it back at this moment, in the order of admission."""
        found = (
            _hours(harness, standing),
            self.quota.hold(harness.name, group_of(harness), wall),
            self._cost(harness, standing),
            self._runs(harness, standing),
            self._place(harness),
        )
        return tuple(hold for hold in found if hold is not None)

    def _cost(self, harness: "Harness", standing: Standing) -> Hold | None:
        own, every = harness.budgets.get("daily_cost_usd"), self.daily_cost
        if own and (spent := self._today(harness.name, standing.day).cost) >= own:
            words = f"{spent:.2f} of {own:.2f} USD for today are spent"
        elif every and (spent := self._cost_of_all(standing.day)) >= every:
            words = f"{spent:.2f} of {every:.2f} USD for today are spent for all harnesses"
        else:
            return None
        return Hold(COST, words, standing.day_ends)

    def _cost_of_all(self, day: str) -> float:
        return sum(used.cost for used in self._used.values() if used.day == day)

    def _runs(self, harness: "Harness", standing: Standing) -> Hold | None:
        bound, runs = harness.budgets.get("max_runs_per_day"), self._today(harness.name, standing.day).runs
        if not bound or runs < bound:
            return None
        return Hold(RUNS, f"{runs} of {bound} runs for today are used", standing.day_ends)

    def _place(self, harness: "Harness") -> Hold | None:
        if not self.places or harness.name in self._taken or len(self._taken) < self.places:
            return None
        return Hold(SLOTS, f"{len(self._taken)} of {self.places} places are taken")


def _hours(harness: "Harness", standing: Standing) -> Hold | None:
    if standing.open:
        return None
    return Hold(HOURS, f"outside its hours ({', '.join(harness.hours)})", standing.changes)
