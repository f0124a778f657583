"""A plan, N items at a time, wherever they run.

The plan decides what starts; this makes an attempt at each, has it run at the batch's place, and writes down how it
ended. Whoever is killed meanwhile leaves what the items were in their state files: the next one goes on from there.
"""

from longwatch.core import parking
from longwatch.core.restarts import QUICK
from longwatch.core.workstream import FAILED_RESUMABLE, FAILED_TERMINAL
from longwatch.paths import new_run_id
from longwatch.posix import now, wall_of
from longwatch.runtime.attempt import Attempt, Ended, begun, unended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from longwatch.core.batch import Workstream
    from longwatch.core.plan import Plan
    from longwatch.runtime.attempt import Hands, Place, Run, State
    from longwatch.runtime.host import Host

#: What an item is stopped with when the batch is: CI services leave about ten seconds in all.
INTERRUPT_GRACE = 5_000


class Batch:
    """One run of a plan. `states` are what is kept of its items, by id; those of a run before among them."""

    def __init__(
        self, host: "Host", place: "Place", plan: "Plan", works: "Mapping[str, Workstream]",
        states: "dict[str, State]", hands: "Hands", drawn: "Callable[[], float]",
    ) -> None:  # fmt: skip
        self.host = host
        self.plan = plan
        self.works = works
        self.states = states
        self._place = place
        self._hands = hands
        self._drawn = drawn
        #: Those that are not over, by item.
        self._attempts: dict[str, Attempt] = {}
        self._tried: set[str] = set()
        #: Those whose end may not be on the disk yet.
        self._ending: list[Attempt] = []

    # -- the run of the plan

    def run(self) -> None:
        """Go on until nothing runs and nothing more will. What an earlier run has left is taken up first."""
        self._take_up()
        self._start()
        while not (self.over or self._place.left):
            self.host.turn()
        self._place.close()

    @property
    def over(self) -> bool:
        """Whether nothing of it is to come."""
        return self.plan.over and not self._attempts and all(attempt.settled for attempt in self._ending)

    def running(self, item: str) -> "Run | None":
        """Return what runs of an item; None where nothing does."""
        attempt = self._attempts.get(item)
        return None if attempt is None else attempt.run

    def step(self, item: str) -> str:
        """Return what is done about an item now: prepared, run, stopped, waited for; empty where nothing is."""
        attempt = self._attempts.get(item)
        if attempt is None:
            return "waiting" if self.plan.waits(item) else ""
        return "preparing" if attempt.run is None else self._place.doing(attempt.run)

    def interrupt(self, *, at_once: bool = False) -> None:
        """End it: nothing more is started, and what runs is stopped with its trees, and can be resumed."""
        self.plan.hold()
        for attempt in list(self._attempts.values()):
            attempt.stop("interrupted", None, 0 if at_once else INTERRUPT_GRACE)
        if at_once:
            self._place.hurry()

    def stop(self, item: str, grace: int | None = None) -> bool:
        """End one item, which can be resumed; False where there is nothing to end."""
        attempt = self._attempts.get(item)
        if attempt is not None:
            attempt.stop("cancelled", "explicit", grace)
        elif item in self.works:
            self.plan.leave(item)
        return attempt is not None

    def start(self, item: str) -> bool:
        """Run one item again, whatever became of it; False where it runs, or nothing more is started."""
        done = item in self.works and self.plan.again(item)
        if done:
            self.host.soon(self._start)
        return done

    def _start(self, at: int = 0) -> None:
        for item in self.plan.due(now()):
            self._begin(item)
        due = self.plan.next_due(now())
        if due is not None:
            self.host.at(due, self._start)

    def _take_up(self) -> None:
        """Go on with what an earlier run has left, and with what waits for a provider no sooner than that wants it."""
        left = [item for item, state in self.states.items() if item in self.works and unended(state)]
        for attempt in self._place.take_up([self._attempt(item) for item in left]):
            self._attempts[attempt.item] = attempt
            self.plan.started(attempt.item)
        for item, state in self.states.items():
            if state.get("parked_until") and self.plan.waits(item):
                self.plan.put_off(item, self._reset(state))

    # -- one item

    def _attempt(self, item: str) -> Attempt:
        return Attempt(self.works[item], self.states[item], self._hands, self._place, self._ended)

    def _begin(self, item: str) -> None:
        run = new_run_id(item)
        self.states[item] = begun(
            self.works[item],
            self.states.get(item) or {},
            run,
            self._place.mark(run),
            again=item in self._tried,
        )
        self._tried.add(item)
        self.plan.started(item)
        self._attempts[item] = self._attempt(item)
        self._attempts[item].begin()

    def _ended(self, attempt: Attempt, ended: Ended) -> bool:
        """See what the plan makes of an end; return whether another attempt follows."""
        item, state = attempt.item, attempt.state
        del self._attempts[item]
        self._ending = [attempt, *(other for other in self._ending if not other.settled)]
        if ended.hold:
            self._hold()
        self.host.soon(self._start)
        return self.plan.ended(
            item, state["lifecycle"], now(), span=ended.span, words=state["error"] if ended.span < QUICK else "",
            drawn=self._drawn(), until=now() if ended.again else self._until(attempt.work, state),
        )  # fmt: skip

    def _hold(self) -> None:
        """Begin nothing more, and nothing that is still being prepared."""
        self.plan.hold()
        for attempt in self._attempts.values():
            if attempt.run is None:
                attempt.stop("interrupted", None, None)

    def _until(self, work: "Workstream", state: "State") -> int | None:
        """Return when an item goes on of itself: at a provider's reset, or at once where it has another level to try."""
        if state["parked_until"] is not None:
            return self._reset(state)
        lower = state.get("level", 0) + 1
        if state["lifecycle"] in (FAILED_RESUMABLE, FAILED_TERMINAL) and lower < len(work.levels):
            state["level"] = lower
            return now()
        return None

    def _reset(self, state: "State") -> int:
        """Return when an item may ask its provider again: not before the reset, and not all of them in the same second."""
        return now() + int(state["parked_until"]) - wall_of(now()) + int(parking.JITTER * self._drawn())


__all__ = ["INTERRUPT_GRACE", "Batch"]
