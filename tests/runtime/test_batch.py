"""A batch and its attempts at a place that does what the test wants: what is begun, given up, held, and when it is over."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from longwatch.core.batch import ITEM, Workstream
from longwatch.core.harness import Harness
from longwatch.core.plan import Item, Plan
from longwatch.posix import now, wall_of
from longwatch.runtime.attempt import Attempt, Ended, begun, unended
from longwatch.runtime.batch import Batch
from longwatch.runtime.host import Host

DONE = {"termination_reason": "exited", "exit_code": 0, "duration_ms": 3}
FAILED = {"termination_reason": "exited", "exit_code": 3, "duration_ms": 60_000}


class Run:
    """Something that runs, and remembers how it was stopped."""

    stopping = False
    watch = None

    def __init__(self, run: str) -> None:
        self.run_id = run
        self.stops: list[tuple[str, str | None, int | None]] = []

    def stop(self, *words: Any) -> None:
        self.stops.append(words)


class Place:
    """Begins what it is told to, and ends nothing by itself. `kept` are the items that it still holds."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self.left = False
        self.closed = False
        self.hurried = False
        self.begun: list[Attempt] = []
        self._kept = kept

    def mark(self, run: str) -> str:
        return f"mark of {run}"

    def take_up(self, unended: Iterable[Attempt]) -> list[Attempt]:
        found = [attempt for attempt in unended if attempt.item in self._kept]
        for attempt in found:
            attempt.run = Run(attempt.state["run"])
        return found

    def begin(self, attempt: Attempt, ready: Any) -> None:
        attempt.run = Run(attempt.state["run"])
        self.begun.append(attempt)

    def doing(self, run: Run) -> str:
        return "at work"

    def hurry(self) -> None:
        self.hurried = True

    def close(self) -> None:
        self.closed = True


class Hands:
    """Has what is in `slow` prepared when the test says so, and what is `lazy` written down likewise."""

    def __init__(self) -> None:
        self.slow: dict[str, Callable[..., object]] = {}
        self.is_slow: set[str] = set()
        self.lazy = False
        self.unsaved: list[Callable[[], object]] = []
        self.heard: list[tuple[str, str, dict[str, object]]] = []

    def prepare(self, work: Workstream, state: dict[str, Any], done: Callable[..., object]) -> None:
        if work.id in self.is_slow:
            self.slow[work.id] = done
        else:
            done("ready", "", False)

    def settle(self, *words: Any) -> None: ...

    def lost(self, *words: Any) -> None: ...

    def keep(self, state: dict[str, Any], done: Callable[[], object] | None = None) -> None:
        if done is not None and self.lazy:
            self.unsaved.append(done)
        elif done is not None:
            done()

    def told(self, kind: str, item: str, **more: object) -> None:
        self.heard.append((kind, item, more))


class Stage:
    """A batch of items that need nothing, in a loop that the test turns."""

    def __init__(self, *names: str, states: dict[str, Any] | None = None, kept: Iterable[str] = ()) -> None:
        self.host = Host()
        self.place = Place(kept)
        self.hands = Hands()
        items = [Item(name) for name in names]
        works = {item.id: Workstream(item, Harness(item.id, ("true",), kind=ITEM)) for item in items}
        lifecycles = {name: state["lifecycle"] for name, state in (states or {}).items()}
        self.plan = Plan(items, kept=lifecycles)
        self.batch = Batch(self.host, self.place, self.plan, works, states or {}, self.hands, lambda: 0.5)

    def run(self, *acts: Callable[[], object]) -> None:
        """Go through the plan; the acts come one after the other, each in a turn of its own."""
        for act in acts:
            self.host.soon(lambda at, act=act: act())  # type: ignore[misc]
        self.batch.run()

    def attempt(self, item: str) -> Attempt:
        """Return the newest attempt at an item."""
        return [attempt for attempt in self.place.begun if attempt.item == item][-1]

    def state(self, item: str) -> dict[str, Any]:
        """Return what is kept of it."""
        return self.batch.states[item]


@pytest.fixture
def stages() -> Iterator[list[Stage]]:
    """Give the loops back that a test has made."""
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.host.close()


@pytest.fixture
def one(stages: list[Stage]) -> Stage:
    """Return a batch of one item, which is prepared when the test says so."""
    stage = Stage("a")
    stage.hands.is_slow.add("a")
    stages.append(stage)
    return stage


def test_an_item_is_prepared_run_and_over(one: Stage) -> None:
    """Each step has its name; the state says what it was begun as and how it ended."""
    steps: list[str] = []

    def look() -> None:
        steps.append(one.batch.step("a"))

    one.run(
        look,
        lambda: one.hands.slow["a"]("ready", "", False),
        look,
        lambda: one.attempt("a").end(Ended(DONE)),
        look,
    )
    assert steps == ["preparing", "at work", ""]
    state = one.state("a")
    assert (state["lifecycle"], state["attempt"], state["runtime_ms"]) == ("completed", 1, 3)
    assert state["mark"] == f"mark of {state['run']}"
    assert one.place.closed
    assert one.hands.heard == [("ended", "a", {"again": False, "report": DONE})]


@pytest.mark.parametrize(("later", "reason"), [(True, "interrupted"), (False, "spawn_failed")])
def test_what_cannot_be_prepared_is_not_begun(one: Stage, later: bool, reason: str) -> None:
    """Its state says why, and whether it may be possible later."""
    one.run(lambda: one.hands.slow["a"](None, "no network", later))
    assert (one.state("a")["reason"], one.state("a")["error"]) == (reason, "no network")
    assert one.place.begun == []


def test_stopped_while_it_is_prepared_it_is_not_begun(one: Stage) -> None:
    """It ends when its place is made, and can be gone on with."""
    one.run(lambda: one.batch.stop("a"), lambda: one.hands.slow["a"]("ready", "", False))
    assert one.place.begun == []
    assert (one.state("a")["lifecycle"], one.state("a")["reason"]) == ("interrupted_resumable", "cancelled")


def test_given_up_it_is_over_at_once(one: Stage) -> None:
    """Whatever its preparation comes to afterwards, nothing is begun and nothing ends twice."""
    hands, place, ended = one.hands, one.place, []
    work, state = one.batch.works["a"], {"run": "a-abcdef", "over_budget": False}
    attempt = Attempt(work, state, hands, place, lambda *words: bool(ended.append(words)))
    attempt.begin()
    attempt.fail("interrupted", "", "cascade")
    hands.slow["a"]("ready", "", False)
    assert (len(ended), place.begun, attempt.settled) == (1, [], True)
    assert attempt.report["origin"] == "cascade"


def test_a_place_that_holds_begins_nothing_more(stages: list[Stage]) -> None:
    """Neither what waits nor what is being prepared: the batch is over, and can be gone on with."""
    stage = Stage("a", "b")
    stages.append(stage)
    stage.hands.is_slow.add("b")
    lost = Ended({"termination_reason": "unknown", "notes": []}, again=True, hold=True)
    stage.run(lambda: stage.attempt("a").end(lost), lambda: stage.hands.slow["b"]("ready", "", False))
    assert [attempt.item for attempt in stage.place.begun] == ["a"]
    assert stage.state("b")["lifecycle"] == "interrupted_resumable"


def test_it_is_over_when_its_ends_are_on_the_disk(stages: list[Stage]) -> None:
    """Only then is what held the run let go of, and not before."""
    stage = Stage("a")
    stages.append(stage)
    stage.hands.lazy = True
    order: list[str] = []

    def saved() -> None:
        order.append("over" if stage.batch.over else "not over")
        stage.hands.unsaved.pop()()

    ended = Ended(DONE, let_go=lambda: order.append("let go"))
    stage.run(lambda: stage.attempt("a").end(ended), saved)
    assert order == ["not over", "let go"]
    assert stage.batch.over


def test_a_lost_run_is_begun_again_at_once(stages: list[Stage]) -> None:
    """By no fault of the item, so it is no retry of it, and its next attempt is resumed."""
    stage = Stage("a")
    stages.append(stage)
    lost = Ended({"termination_reason": "unknown", "notes": []}, again=True)
    stage.run(lambda: stage.attempt("a").end(lost), lambda: stage.host.soon(
        lambda at: stage.attempt("a").end(Ended(DONE))
    ))  # fmt: skip
    assert [attempt.state["attempt"] for attempt in stage.place.begun] == [1, 2]
    assert stage.state("a")["resumed"]


def test_what_was_left_running_is_taken_up(stages: list[Stage]) -> None:
    """It counts as running from the start; what its place holds no more is begun anew, as the next attempt."""
    left = {"lifecycle": "running", "run": "x-abcdef", "reason": None, "attempt": 4, "over_budget": False}
    left["parked_until"] = None
    stage = Stage("a", "b", states={"a": {**left, "id": "a"}, "b": {**left, "id": "b"}}, kept=["a"])
    stages.append(stage)
    assert all(unended(state) for state in stage.batch.states.values())
    kept = stage.state("a")
    taken: list[Any] = []
    stage.run(
        lambda: taken.append(stage.batch.running("a")),
        lambda: stage.batch.stop("a", 7),
        lambda: stage.batch._attempts["a"].end(Ended(FAILED)),
        lambda: stage.attempt("b").end(Ended(DONE)),
    )
    assert taken[0].stops == [("cancelled", "explicit", 7)]
    assert stage.state("a") is kept
    assert [(one.item, one.state["attempt"]) for one in stage.place.begun] == [("b", 5)]


def test_a_parked_item_waits_for_its_provider(stages: list[Stage]) -> None:
    """An earlier batch noted until when nothing is wanted of it: no sooner is it begun, wherever it runs."""
    until = wall_of(now()) + 3_600_000
    parked = {
        "lifecycle": "interrupted_resumable",
        "run": "a-abcdef",
        "reason": "exited",
        "parked_until": until,
    }
    stage = Stage("a", states={"a": {**parked, "id": "a", "attempt": 1}})
    stages.append(stage)
    steps: list[str] = []
    stage.run(lambda: steps.append(stage.batch.step("a")), stage.batch.interrupt)
    assert steps == ["waiting"]
    assert stage.place.begun == []


def test_an_interrupt_reaches_what_runs_and_what_is_to_run(stages: list[Stage]) -> None:
    """With a grace at first, then at once, and then the place is told to hurry; it may give up waiting."""
    stage = Stage("a", "b")
    stages.append(stage)
    stage.hands.is_slow.add("b")

    def leave() -> None:
        stage.place.left = True

    stage.run(
        stage.batch.interrupt,
        lambda: stage.hands.slow["b"]("ready", "", False),
        lambda: stage.batch.interrupt(at_once=True),
        leave,
    )
    run = stage.attempt("a").run
    assert isinstance(run, Run)
    assert run.stops == [("interrupted", None, 5_000), ("interrupted", None, 0)]
    assert stage.place.hurried
    assert [attempt.item for attempt in stage.place.begun] == ["a"]
    assert stage.state("a")["lifecycle"] == "running"


@pytest.mark.parametrize(
    ("lifecycle", "again", "attempt", "checkpoint"),
    [
        ("failed_resumable", False, 3, "half"),
        ("failed_terminal", True, 3, None),
        ("failed_terminal", False, 1, None),
    ],
)
def test_what_an_attempt_begins_with(
    lifecycle: str, again: bool, attempt: int, checkpoint: str | None
) -> None:
    """One that goes on has the last one's checkpoint and conversation; tried again or begun anew it has neither."""
    work = Workstream(Item("a"), Harness("a", ("true",), kind=ITEM))
    before = {
        "lifecycle": lifecycle,
        "attempt": 2,
        "checkpoint": "half",
        "session": checkpoint,
        "reason": "exited",
    }
    state = begun(work, before, "a-abcdef", "mark", again=again)
    assert (state["attempt"], state.get("checkpoint"), state["session"]) == (attempt, checkpoint, checkpoint)
    assert (state["lifecycle"], state["reason"], state["over_budget"]) == ("running", None, False)
