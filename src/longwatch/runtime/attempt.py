"""One attempt at an item: from the making of its place until what came of it stands in its state.

A batch makes many of them, a runner makes one. Who runs the item is a `Place`: below us, or an engine. It begins the
attempt, says what happens to it, and how it ended; what that means for the item is said here, once.
"""

from longwatch.core.facts import Fact, LimitFired, StopBegan
from longwatch.core.record import Plain
from longwatch.core.workstream import PENDING, RUNNING, TIMED_OUT, End, next_attempt, resumable, settle
from longwatch.paths import rfc3339
from longwatch.posix import now, wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Protocol

    from longwatch.core.batch import Workstream

    State = dict[str, Any]

    class Hands(Protocol):
        """What is done for an item around its run; see `hands`."""

        def prepare(self, work: Workstream, state: State, done: Callable[[Any, str, bool], object]) -> object:
            """Make its place; call back with how it is begun there, or with one line why not, and whether it may be later."""

        def settle(self, work: Workstream, state: State, report: Mapping[str, Any], why: Any) -> object:
            """Add to its state what came out of it; `why` is what the reader of its records makes of its end."""

        def lost(self, work: Workstream, state: State) -> object:
            """Add to its state what a run has left whose end nobody saw."""

        def keep(self, state: State, done: Callable[[], object] | None = None) -> object:
            """Write its state down. With `done` it has to outlive the machine, and then that is called."""

        def told(self, kind: str, item: str, **more: object) -> object:
            """Something happened: started, taken up, marked, stopping, ended, note."""

    class Run(Protocol):
        """What runs of an attempt."""

        run_id: str

        @property
        def stopping(self) -> bool:
            """Whether it was told to end, or has."""

        @property
        def clocks(self) -> tuple[int | None, int | None]:
            """When it was last alive and when it last made progress, on our clock; None: never."""

        def stop(self, reason: str, origin: str | None, grace: int | None) -> object:
            """End it."""

    class Place(Protocol):
        """Where items run. It sets the `run` of what it begins, and tells the attempt its end once."""

        left: bool
        """Whether what runs here is waited for no longer."""

        def mark(self, run: str) -> str:
            """Return what every process of a run carries in its environment."""

        def take_up(self, unended: "Iterable[Attempt]") -> "list[Attempt]":
            """See to what an earlier supervisor has left; return what of it goes on."""

        def begin(self, attempt: "Attempt", ready: Any) -> object:
            """Have it run."""

        def doing(self, run: Any) -> str:
            """Return what a run is about."""

        def hurry(self) -> object:
            """All is to end at once: who does not answer is not waited for long."""

        def close(self) -> object:
            """Leave it."""


class Ended(Plain):
    """How an attempt ended, as its place tells it.

    `why` is what the reader of its records makes of that. `again`: it was lost by no fault of the item, and is begun
    again at once. `hold`: nothing more can be begun at this place. `let_go` is called once the end is on the disk:
    whoever is killed before finds the run where it was, and not a second time.
    """

    __slots__ = ("again", "hold", "let_go", "report", "why")

    def __init__(
        self, report: "Mapping[str, Any]", why: "Any" = None, *, again: bool = False, hold: bool = False,
        let_go: "Callable[[], object] | None" = None,
    ) -> None:  # fmt: skip
        self.report = report
        self.why = why
        self.again = again
        self.hold = hold
        self.let_go = let_go

    @property
    def span(self) -> int:
        """How long it ran, in ms."""
        return int(self.report.get("duration_ms") or 0)


class Attempt:
    """One attempt. `state` is what is kept of the item, changed in place.

    `on_ended(attempt, ended)` is called once, may add to the state, and says whether another attempt follows. `heard`
    gets every fact of what runs below us.
    """

    def __init__(
        self, work: "Workstream", state: "State", hands: "Hands", place: "Place",
        on_ended: "Callable[[Attempt, Ended], bool]", heard: "Callable[[Fact], object] | None" = None,
    ) -> None:  # fmt: skip
        self.work = work
        self.item = work.id
        self.state = state
        #: What runs of it, or ran.
        self.run: Run | None = None
        self.over = False
        #: Whether its end is on the disk.
        self.settled = False
        self.report: Mapping[str, Any] = {}
        self._hands = hands
        self._place = place
        self._on_ended = on_ended
        self._heard = heard
        self._unwanted = False

    # -- beginning

    def begin(self) -> None:
        """Have its place made, and then have it run there."""
        self._hands.prepare(self.work, self.state, self._prepared)

    def _prepared(self, ready: "Any", why: str, later: bool) -> None:
        if self.over:
            return  # it was given up meanwhile
        if self._unwanted:
            self.fail("cancelled", why)
        elif ready is None:
            self.fail("interrupted" if later else "spawn_failed", why)
        else:
            self._place.begin(self, ready)

    def stop(self, reason: str, origin: str | None, grace: int | None) -> None:
        """End it; one that is still being prepared ends when that is done."""
        if self.run is None:
            self._unwanted = True
        else:
            self.run.stop(reason, origin, grace)

    # -- what its place tells

    def told(self, kind: str, **more: object) -> None:
        """Something happened to it."""
        self._hands.told(kind, self.item, **more)

    def note(self, text: str) -> None:
        """Something is to be said of it."""
        self.told("note", text=text)

    def keep(self) -> None:
        """Write down how it stands."""
        self._hands.keep(self.state)

    def heard(self, fact: Fact) -> None:
        """Hear what its watch says."""
        if self._heard is not None:
            self._heard(fact)
        if isinstance(fact, LimitFired) and fact.limit == "soft":
            self.mark()
        elif isinstance(fact, StopBegan):
            self.told("stopping", reason=fact.reason)

    def mark(self) -> None:
        """It is over its budget: marked, never ended for it. From now on a silence may end it, if that is its policy."""
        self.state |= {"over_budget": True, "lifecycle": TIMED_OUT}
        self.keep()
        self.told("marked")

    def lose(self) -> None:
        """Nobody saw its end, and nothing of it runs any more."""
        self._hands.lost(self.work, self.state)

    # -- its end

    def fail(self, reason: str, why: str, origin: str | None = None) -> None:
        """It ends without a run, or its run without a report."""
        self.end(Ended({"termination_reason": reason, "origin": origin, "notes": [why] if why else []}))

    def end(self, ended: Ended) -> None:
        """It is over: say in its state what that means for the item, and keep it."""
        self.over = True
        self.report = ended.report
        self._hands.settle(self.work, self.state, ended.report, ended.why)
        self.state |= _outcome(self.work, self.state, ended)
        again = self._on_ended(self, ended)
        self._hands.keep(self.state, lambda: self._kept(ended))
        self.told("ended", again=again, report=ended.report)

    def _kept(self, ended: Ended) -> None:
        self.settled = True
        if ended.let_go is not None:
            ended.let_go()


def begun(work: "Workstream", before: "State", run: str, mark: str, *, again: bool) -> "State":
    """Return the state that a new attempt begins with; `before` is what was kept, `again` where it was tried just now."""
    lifecycle = before.get("lifecycle", PENDING)
    resumed = resumable(lifecycle)
    kept = before if resumed or again else {}
    state = {
        **kept,
        "id": work.id,
        "lifecycle": RUNNING,
        "attempt": next_attempt(lifecycle, before.get("attempt", 0), again=again),
        "resumed": resumed,
        "run": run,
        "mark": mark,
        "created_at": kept.get("created_at") or rfc3339(wall_of(now())),
        "policy": work.policy,
        "values_from": work.values_from,
        "over_budget": False,
        "left_out": None,
        **dict.fromkeys(("reason", "exit_code", "signal", "pid", "start", "boot", "parked_until", "error")),
    }
    return state if resumed else {**state, "checkpoint": None, "session": None}


def unended(state: "State") -> bool:
    """Whether a supervisor left an item that nobody saw the end of."""
    return (
        bool(state.get("run")) and state.get("reason") is None and state["lifecycle"] in (RUNNING, TIMED_OUT)
    )


def _outcome(work: "Workstream", state: "State", ended: Ended) -> "State":
    report = ended.report
    reason, code = str(report["termination_reason"]), report.get("exit_code")
    anchored = bool(state.get("checkpoint") or state.get("session"))
    end = End(
        reason, code, anchored=anchored, over_budget=state["over_budget"], policy=work.policy,
        parked=bool(state.get("parked_until")), result_ok=report.get("outcome") == "success",
    )  # fmt: skip
    return {
        "lifecycle": settle(end), "reason": reason, "exit_code": code, "signal": report.get("signal"),
        "limit": report.get("limit"), "idle_ms": report.get("idle_ms"),
        "runtime_ms": state.get("runtime_ms", 0) + ended.span, "error": last_words(report),
    }  # fmt: skip


def last_words(report: "Mapping[str, Any]") -> str:
    """Return the last line that a run said, or why it could not be started; at most 200 characters."""
    for stream in ("stderr", "stdout"):
        told = report.get(stream)
        lines = (
            str(told.get("tail") or told.get("head") or "").strip().splitlines()
            if isinstance(told, dict)
            else []
        )
        if lines:
            return lines[-1].strip()[:200]
    notes = report.get("notes") or ()
    return str(notes[0])[:200] if notes else ""


__all__ = ["Attempt", "Ended", "begun", "last_words", "unended"]
