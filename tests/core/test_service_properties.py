"""What holds for every script: random words at random moments, told to a service by an honest house and by a mad one."""

import itertools

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.harness import KINDS, Harness
from longwatch.core.parking import Limited
from longwatch.core.restarts import Life
from longwatch.core.service import Service
from longwatch.core.service_holds import Hold
from longwatch.core.service_memory import Memory
from longwatch.core.service_states import EDGES, FAILED, STATES
from longwatch.core.service_words import Firing, Moment
from longwatch.core.spec import HOUR, MINUTE, SECOND

AHEAD = 1_900_000_000_000

harnesses = st.builds(
    Harness,
    st.just("x"),
    st.just(("x",)),
    kind=st.sampled_from(KINDS),
    enabled=st.booleans(),
    restart=st.sampled_from(("always", "on-failure", "no")),
    intensity=st.sampled_from((0, 1, 5)),
    revive=st.sampled_from(((), ("stall",))),
    ready=st.sampled_from(("", "up")),
    on_hold=st.sampled_from(("queue", "skip")),
    on_overlap=st.sampled_from(("skip", "queue", "replace")),
    resume_on_limit=st.booleans(),
)
generations = st.integers(0, 4)
spans = st.sampled_from((0, 1, SECOND, 9 * SECOND, MINUTE, 6 * MINUTE, HOUR))
ends = st.sampled_from(
    (("success", "exited"), ("failed", "exited"), ("failed", "idle"), ("stalled", "stalled"), ("cancelled", "cancelled"),
     ("failed", "looping"), ("unknown", "unknown"), ("timed_out", "timeout"))
)  # fmt: skip
limits = st.one_of(
    st.none(),
    st.builds(
        Limited, st.sampled_from(("usage", "auth", "context")), st.sampled_from((None, AHEAD, AHEAD + HOUR))
    ),
)
holds = st.lists(
    st.builds(
        Hold, st.sampled_from(("hours", "park", "slots")), st.just(""), st.sampled_from((None, AHEAD + HOUR))
    ),
    max_size=2,
).map(tuple)
asked = st.one_of(
    st.builds(w.Awoke),
    st.builds(w.StartAsked),
    st.builds(w.StopAsked, run=st.sampled_from(("", "", "run-1")), keep=st.booleans()),
    st.builds(w.RestartAsked, run=st.sampled_from(("", "", "run-1")), inside=st.booleans()),
    st.builds(w.Fired, st.builds(Firing, st.sampled_from(("schedule", "webhook"))), manual=st.booleans()),
    st.builds(w.Changed, harnesses, restart=st.booleans()),
    st.builds(w.Removed, prune=st.booleans()),
)
lives = st.one_of(
    st.builds(w.BecameReady, generations),
    st.builds(w.TurnSeen, generations, st.booleans()),
    st.builds(w.StopStarted, generations, st.sampled_from(("idle", "stalled", "timeout", "looping"))),
    st.builds(w.TreeStuck, generations),
    st.builds(w.CallSucceeded, generations),
    st.builds(w.Progressed, generations),
    st.builds(w.LimitFound, generations, st.just("idle"), st.just(5)),
    st.builds(w.StallFound, generations, st.just(5), st.just(5), st.just("stop")),
    st.builds(w.QuotaHit, generations, st.builds(Limited, st.just("usage"))),
    st.builds(w.BudgetSpent, generations, st.just("all")),
)
closing = st.builds(w.ShutdownAsked, keep=st.booleans())
mad = st.one_of(
    asked,
    lives,
    closing,
    st.builds(w.Adopted, st.just("run-0"), st.just(0), ready=st.booleans(), turns=st.booleans()),
    st.builds(w.Opened, generations, st.just("run-1")),
    st.builds(w.Spawned, generations, turns=st.booleans()),
    st.builds(w.SpawnFailed, generations, st.just("no")),
    st.builds(
        lambda number, end, limited: w.RunOver(number, Life(0, 1, *end), limited), generations, ends, limits
    ),
)


@pytest.mark.capability("CAP-118")
@given(harnesses, st.lists(st.tuples(spans, holds, mad), max_size=30))
def test_no_script_leads_along_an_illegal_edge(
    harness: Harness, script: list[tuple[int, tuple[Hold, ...], w.Word]]
) -> None:
    """Whatever is told in whatever order, adoption of what was begun included, every change of state is in the table."""
    service, now = Service(harness, Memory.fresh(harness)), 0
    before = service.state
    for span, held, word in script:
        now += span
        if isinstance(word, w.Adopted) and service.alive:
            continue
        for order in service.tell(word, Moment(now, AHEAD + now, 0.5, held)):
            if isinstance(order, orders.Tell) and order.fact.name == "state_changed":
                fact = order.fact.as_dict()
                assert fact["before"] == before
                assert fact["state"] in EDGES[before]
                before = str(fact["state"])
        assert service.state == before
    assert before in STATES


class Honest:
    """A house that does what it is told to, a little later, and tells nothing that did not happen."""

    def __init__(self, harness: Harness) -> None:
        self.service = Service(harness, Memory.fresh(harness))
        self.now = 10 * HOUR
        self.holds: tuple[Hold, ...] = ()
        self.to_do: list[orders.Order] = []
        self.process: int | None = None
        self.began = 0
        self.last: w.Word | None = None
        self.restarts: list[int] = []
        self.tell(w.Awoke())

    @property
    def moment(self) -> Moment:
        return Moment(self.now, AHEAD + self.now, 0.5, self.holds)

    def tell(self, word: w.Word) -> None:
        intent = self.service.memory.enabled
        told = self.service.tell(word, self.moment)
        kept = [order.enabled for order in told if isinstance(order, orders.KeepIntent)]
        assert bool(kept) == (self.service.memory.enabled != intent)
        if isinstance(word, w.StartAsked | w.RestartAsked | w.Fired):
            self.restarts = []
        for order in told:
            if isinstance(order, orders.OpenRun):
                self.opens(order, word)
            elif isinstance(order, orders.Spawn | orders.StopRun | orders.CloseRun):
                self.to_do.append(order)
        assert self.service.advance(self.moment) == []
        due = self.service.next_deadline()
        assert due is None or due > self.now

    def opens(self, order: orders.OpenRun, word: w.Word) -> None:
        assert self.process is None, "a second copy"
        assert not any(isinstance(one, orders.OpenRun | orders.Spawn) for one in self.to_do), "two at once"
        if order.trigger == "restart":
            self.restarts = [at for at in self.restarts if self.now - at < 10 * MINUTE] + [self.now]
            assert len(self.restarts) <= (self.service.harness.intensity or len(self.restarts))
        self.to_do.append(order)

    def do(self) -> None:
        """Perform the oldest order."""
        if not self.to_do:
            return
        order = self.to_do.pop(0)
        if isinstance(order, orders.OpenRun):
            self.tell(w.Opened(order.generation, f"run-{order.generation}"))
        elif isinstance(order, orders.Spawn):
            self.process, self.began = order.generation, self.now
            self.tell(w.Spawned(order.generation, turns=True))
        elif isinstance(order, orders.CloseRun):
            life = Life(self.now, self.now, "cancelled", "cancelled")
            self.tell(w.RunOver(order.generation, life))
        elif isinstance(order, orders.StopRun) and order.generation == self.process:
            self.ends(("cancelled", order.reason), None)

    def ends(self, end: tuple[str, str], limited: Limited | None) -> None:
        if self.process is not None:
            generation, self.process = self.process, None
            self.tell(w.RunOver(generation, Life(self.began, self.now, *end), limited))


steps = st.one_of(
    st.just("do"),
    st.just("do"),
    st.just("wake"),
    spans,
    holds,
    st.tuples(ends, limits),
    asked.filter(lambda word: not isinstance(word, w.Changed)),
    lives,
)


@pytest.mark.fault("F7", "J1")
@pytest.mark.capability("CAP-116", "CAP-118")
@given(harnesses, st.lists(steps, max_size=40))
def test_an_honest_house(harness: Harness, script: list[object]) -> None:
    """Never two copies; never more restarts than allowed; looking twice changes nothing; every deadline lies ahead."""
    house = Honest(harness)
    for step in script:
        if step == "do":
            house.do()
        elif step == "wake":
            due = house.service.next_deadline()
            house.now = max(house.now, due or 0)
            house.tell(w.Word())
        elif isinstance(step, int):
            house.now += step
            house.tell(w.Word())
        elif isinstance(step, w.Word):
            house.tell(step)
        elif step and isinstance(step[0], tuple):  # type: ignore[index]
            house.ends(*step)  # type: ignore[misc]
        else:
            house.holds = step  # type: ignore[assignment]
            house.tell(w.Word())
    event(house.service.state)
    # Left to itself with nothing to hold it, it comes to rest: alive, or down for a reason.
    house.holds = ()
    house.tell(w.Word())
    for _ in range(20):
        house.do()
        due = house.service.next_deadline()
        if not house.to_do and due is not None:
            house.now = due
            house.tell(w.Word())
    memory = house.service.memory
    wanted = harness.kind == "resident" and memory.enabled and not house.service.gone
    if wanted and not house.service.alive:
        assert house.service.state == FAILED or memory.failed or (memory.hold and memory.hold.until is None)


@given(harnesses, st.lists(steps, max_size=25))
def test_memory_is_kept(harness: Harness, script: list[object]) -> None:
    """Whatever happened: what is kept and read again is the same memory."""
    house = Honest(harness)
    for step in script:
        if isinstance(step, w.Word):
            house.tell(step)
        elif isinstance(step, tuple) and step and isinstance(step[0], tuple):
            house.ends(*step)
        house.do()
    kept = house.service.memory.kept(house.moment)
    assert Memory.of(harness, kept, house.moment).kept(house.moment) == kept


def test_the_house_is_honest() -> None:
    """A scripted night: it ends, comes back, is stopped, and no order is left undone."""
    house = Honest(Harness("x", ("x",)))
    for _ in itertools.repeat(None, 3):
        house.do()
    assert house.process == 1
    house.ends(("failed", "exited"), None)
    house.now += MINUTE
    house.tell(w.Word())
    house.do()
    house.do()
    house.tell(w.StopAsked())
    house.do()
    assert (house.process, house.service.state, house.to_do) == (None, "stopped", [])
