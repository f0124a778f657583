"""A service under test, with a house around it that performs its orders by heart."""

from collections.abc import Iterable

from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.facts import Fact
from longwatch.core.harness import SCHEDULED, Harness
from longwatch.core.parking import Limited
from longwatch.core.restarts import Life
from longwatch.core.service import Service
from longwatch.core.service_holds import Hold
from longwatch.core.service_memory import Memory
from longwatch.core.service_words import Firing, Moment
from longwatch.core.spec import HOUR

#: The wall clock stands so much ahead of the boot clock.
AHEAD = 1_900_000_000_000
HOURS = Hold("hours", "outside its hours")


class House:
    """Performs what is ordered at once and without fail, as far as a test does not want it otherwise.

    `facts` is all that was told, `starts` all generations that got a process. Unless it is `slow`, runs are written
    down and processes are there at once; unless it is `stubborn`, what is stopped is over at once.
    """

    def __init__(
        self, harness: Harness | None = None, memory: Memory | None = None, *, awake: bool = True
    ) -> None:
        self.harness = harness or Harness("web", ("serve",))
        self.service = Service(self.harness, memory or Memory.fresh(self.harness))
        self.now = 10 * HOUR
        self.drawn = 0.5
        self.holds: tuple[Hold, ...] = ()
        self.turns = self.slow = self.stubborn = False
        self.facts: list[Fact] = []
        self.orders: list[orders.Order] = []
        self.starts: list[int] = []
        self.began = self.now
        if awake:
            self.tell(w.Awoke())

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.now + AHEAD, self.drawn, self.holds)

    @property
    def wall(self) -> int:
        return self.now + AHEAD

    @property
    def state(self) -> str:
        return self.service.state

    @property
    def generation(self) -> int:
        return self.service.generation

    def tell(self, word: w.Word) -> list[orders.Order]:
        """Tell a word and perform what comes of it; return what came of it at first."""
        told = self.service.tell(word, self.moment)
        self.perform(told)
        return told

    def perform(self, told: Iterable[orders.Order]) -> None:
        for order in told:
            self.orders.append(order)
            if isinstance(order, orders.Tell):
                self.facts.append(order.fact)
            elif isinstance(order, orders.OpenRun) and not self.slow:
                self.tell(w.Opened(order.generation, f"run-{order.generation}"))
            elif isinstance(order, orders.Spawn) and not self.slow:
                self.spawned(order.generation)
            elif isinstance(order, orders.StopRun | orders.CloseRun) and not (self.stubborn or self.slow):
                self.over("cancelled", order.reason)

    def spawned(self, generation: int) -> None:
        self.starts.append(generation)
        self.began = self.now
        self.tell(w.Spawned(generation, turns=self.turns))

    def over(
        self, outcome: str = "failed", reason: str = "exited", *, after: int = 0, error: str = "", began: int | None = None,
        progressed: bool = False, limited: Limited | None = None, generation: int | None = None, **more: object,
    ) -> list[orders.Order]:  # fmt: skip
        """Let its run end after so many ms."""
        self.now += after
        began = self.began if began is None else began
        life = Life(began, self.now, outcome, reason, progressed=progressed, error=error)
        record = {"outcome": outcome, "termination_reason": reason}
        number = self.generation if generation is None else generation
        return self.tell(w.RunOver(number, life, limited, record, **more))  # type: ignore[arg-type]

    def fire(self, trigger: str = "schedule", token: str = "", *, manual: bool = False) -> list[orders.Order]:
        return self.tell(w.Fired(Firing(trigger, self.wall, token), manual=manual))

    def wait(self, ms: int | None = None) -> list[orders.Order]:
        """Let time pass: so much, or up to the next deadline."""
        due = self.service.next_deadline()
        assert ms is not None or due is not None, "nothing is due"
        self.now = self.now + ms if ms is not None else max(self.now, due or 0)
        told = self.service.advance(self.moment)
        self.perform(told)
        return told

    def hold(self, *holds: Hold) -> None:
        """Something holds it back from now on, or nothing any more."""
        self.holds = holds
        self.wait(0)

    def told(self, *names: str) -> list[Fact]:
        """Return the facts of these names, in order, and forget all."""
        found = [fact for fact in self.facts if fact.name in names]
        self.facts.clear()
        return found

    def names(self) -> list[str]:
        """Return the names of all facts so far but changes of state, and forget them."""
        found = [fact.name for fact in self.facts if fact.name != "state_changed"]
        self.facts.clear()
        return found


def scheduled(**more: object) -> House:
    """Return a house with a harness that is fired."""
    return House(Harness("job", ("work",), kind=SCHEDULED, **{"restart": "no", **more}))  # type: ignore[arg-type]


def resident(**more: object) -> House:
    """Return a house with a resident."""
    return House(Harness("web", ("serve",), **more))  # type: ignore[arg-type]
