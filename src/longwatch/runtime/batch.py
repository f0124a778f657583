"""A plan, N items at a time, below one keeper: no process of ours stands beside an item.

The plan decides what starts; this starts it, follows it and writes down how it ended. Whoever is killed meanwhile
leaves the items to the keeper, and what they were in their state files: the next one goes on from there. Nothing is
started in the place of an item before what an earlier supervisor has left of it is proven gone.
"""

import os

from longwatch.core import parking
from longwatch.core.batch import changed
from longwatch.core.facts import Fact, LimitFired, StopBegan
from longwatch.core.restarts import QUICK
from longwatch.core.workstream import (
    FAILED_RESUMABLE,
    FAILED_TERMINAL,
    PENDING,
    RUNNING,
    TIMED_OUT,
    End,
    next_attempt,
    resumable,
    settle,
)
from longwatch.errors import StoreError
from longwatch.paths import new_run_id, rfc3339
from longwatch.posix import now, wall_of
from longwatch.posix.files import readable
from longwatch.posix.identity import boot_id
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.refusal import explain
from longwatch.posix.spawn import NULL, Launch, SpawnError
from longwatch.posix.tree import Tree
from longwatch.runtime.kept import KeeperError, NoKeeper
from longwatch.runtime.making import output_of
from longwatch.runtime.marks import started
from longwatch.runtime.rundir import RunDir
from longwatch.runtime.running import Begun, Running
from longwatch.runtime.scope import sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from longwatch.core.batch import Workstream
    from longwatch.core.harness import Harness
    from longwatch.core.plan import Plan
    from longwatch.runtime.host import Host
    from longwatch.runtime.kept import Keeper, KeptRun
    from longwatch.runtime.running import Parts

    State = dict[str, Any]

    class Ready(Protocol):
        """An item that can be started: how, with what on stdin, and where its answer will be."""

        harness: Harness
        env: Mapping[str, str]
        stdin: bytes | None

    class Hands(Protocol):
        """What is done for an item around its run; see `hands`."""

        def prepare(
            self, work: Workstream, state: State, done: Callable[[Ready | None, str, bool], object]
        ) -> object:
            """Make its place; call back with it, or with one line why there is none, and whether there may be one later."""

        def settle(self, work: Workstream, state: State, report: Mapping[str, Any], why: Any) -> object:
            """Add to its state what came out of it; `why` is what the reader of its records makes of its end."""

        def lost(self, work: Workstream, state: State) -> object:
            """Add to its state what a run has left whose end nobody saw."""

        def keep(self, state: State, done: Callable[[], object] | None = None) -> object:
            """Write its state down. With `done` it has to outlive the machine, and then that is called."""

        def told(self, kind: str, item: str, **more: object) -> object:
            """Something happened: started, taken up, marked, stopping, ended, note."""


#: What an item is stopped with when the batch is: CI services leave about ten seconds in all.
INTERRUPT_GRACE = 5_000
#: Who lives that long is written down as a process, for whoever comes after us and our keeper.
WRITTEN_AFTER = 1_000
#: An item is started by the definition of this run of the plan: nobody will compare it with another one.
ONCE = "once"


class Batch:
    """One run of a plan. `states` are what is kept of its items, by id; those of a run before among them.

    `keepers()` gives the keeper at the batch's place, a new one where it has died; `environ` is what items inherit.
    """

    def __init__(
        self, host: "Host", keepers: "Callable[[], Keeper]", parts: "Parts", plan: "Plan",
        works: "Mapping[str, Workstream]", states: "dict[str, State]", hands: "Hands",
        environ: "Mapping[str, str]", drawn: "Callable[[], float]",
    ) -> None:  # fmt: skip
        self.host = host
        self.plan = plan
        self.works = works
        self.states = states
        self.running: dict[str, Running] = {}
        self._keepers = keepers
        self._keeper = keepers()
        self._parts = parts
        self._hands = hands
        self._environ = environ
        self._drawn = drawn
        self._preparing: dict[str, bool] = {}
        self._tried: set[str] = set()
        self._saving = 0

    # -- the run of the plan

    def run(self) -> None:
        """Go on until nothing runs and nothing more will. What an earlier run has left is taken up first."""
        self._take_up()
        self._start()
        while not self.over:
            self.host.turn()
        self._keeper.close()

    @property
    def over(self) -> bool:
        """Whether nothing of it is to come."""
        return self.plan.over and not (self.running or self._preparing or self._saving)

    def step(self, item: str) -> str:
        """Return what is done about an item now: prepared, run, stopped, waited for; empty where nothing is."""
        running = self.running.get(item)
        if running is not None:
            agent = running.observation.as_dict(now())
            return "stopping" if running.stopping else str((agent or {}).get("state") or "running")
        return "preparing" if item in self._preparing else "waiting" if self.plan.waits(item) else ""

    def interrupt(self, *, at_once: bool = False) -> None:
        """End it: nothing more is started, and what runs is stopped with its trees, and can be resumed."""
        self.plan.hold()
        for running in list(self.running.values()):
            running.stop("interrupted", None, 0 if at_once else INTERRUPT_GRACE)

    def stop(self, item: str, grace: int | None = None) -> bool:
        """End one item, which can be resumed; False where there is nothing to end."""
        if item in self.running:
            self.running[item].stop("cancelled", "explicit", grace)
        elif item in self._preparing:
            self._preparing[item] = True
        elif item in self.works:
            self.plan.leave(item)
            return False
        return item in self.works

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

    # -- what an earlier run has left

    def _take_up(self) -> None:
        """Follow what the keeper still holds of these items, running or over; end what nobody knows or holds."""
        left = {
            state["run"]: item for item, state in self.states.items() if _open(state) and item in self.works
        }
        for kept in self._keeper.runs():
            item = left.pop(kept.run_id, None)
            if item is None:
                self._end_stranger(kept)
            else:
                self._follow_kept(item, kept.run_id)
        for item in left.values():
            survivors = sweep(self.states[item])
            if survivors:
                self._hands.told("note", item, text=f"not gone, though killed: {', '.join(survivors)}")
            self._hands.lost(self.works[item], self.states[item])
        for item, state in self.states.items():
            if state.get("parked_until") and self.plan.waits(item):
                self.plan.put_off(item, self._reset(state))

    def _mark(self, run: str) -> str:
        """Return what every process of a run carries in its environment."""
        return self._parts.environment(os.environ, run, 1)[RUN_VARIABLE]

    def _end_stranger(self, kept: "KeptRun") -> None:
        child = self._keeper.lend(kept.run_id)
        if child.identity is not None:
            Tree(child.identity, self._mark(kept.run_id), subreaper=False, nursery=child.nursery).kill()
        child.close()
        self._keeper.forget(kept.run_id)

    def _follow_kept(self, item: str, run: str) -> None:
        state, harness = self.states[item], self.works[item].harness
        self.plan.started(item)
        try:
            folder: RunDir | None = RunDir.reopen(self._parts.state, run)
        except StoreError:
            folder = None  # it was too young to have one
        there = changed(harness, cwd=state.get("work_dir") or harness.cwd)
        begun = Begun(run, state["attempt"], resumed=True, launched=ONCE)
        self._follow(item, there, begun, self._keeper.lend(run), folder)
        self._hands.told("taken up", item, running=self.running[item])

    # -- one item

    def _begin(self, item: str) -> None:
        work, before = self.works[item], self.states.get(item) or {}
        lifecycle = before.get("lifecycle", PENDING)
        resumed = resumable(lifecycle)
        again = item in self._tried
        self._tried.add(item)
        self.plan.started(item)
        kept = before if resumed or again else {}
        self.states[item] = state = {
            **kept,
            "id": item,
            "lifecycle": RUNNING,
            "attempt": next_attempt(lifecycle, before.get("attempt", 0), again=again),
            "resumed": resumed,
            "run": (run := new_run_id(item)),
            "mark": self._mark(run),
            "created_at": kept.get("created_at") or rfc3339(wall_of(now())),
            "policy": work.policy,
            "values_from": work.values_from,
            "over_budget": False,
            "left_out": None,
            **dict.fromkeys(
                ("reason", "exit_code", "signal", "pid", "start", "boot", "parked_until", "error")
            ),
        }
        if not resumed:
            state |= {"checkpoint": None, "session": None}
        self._preparing[item] = False
        self._hands.prepare(work, state, lambda ready, why, later: self._prepared(item, ready, why, later))

    def _prepared(self, item: str, ready: "Ready | None", why: str, later: bool) -> None:
        unwanted = self._preparing.pop(item) or self.plan.held
        if ready is None or unwanted:
            reason = "cancelled" if unwanted else "interrupted" if later else "spawn_failed"
            self._settle(item, {"termination_reason": reason, "notes": [why] if why else []}, 0)
            return
        state = self.states[item]
        self._hands.keep(state)
        try:
            child = self._spawn(ready, state)
        except SpawnError as error:
            # A keeper that cannot be had says nothing about the item.
            reason = "interrupted" if isinstance(error, KeeperError) else "spawn_failed"
            self._settle(item, {"termination_reason": reason, "notes": [error.message]}, 0)
            return
        self._follow(item, ready.harness, Begun(state["run"], state["attempt"], launched=ONCE), child)
        self.running[item].note(started(state["run"], state["attempt"]))
        self._hands.told("started", item, running=self.running[item])

    def _spawn(self, ready: "Ready", state: "State") -> "Any":
        """Have the keeper start it. Raises SpawnError."""
        harness, stdin = ready.harness, NULL if ready.stdin is None else readable(ready.stdin)
        told = {**self._environ, **harness.env, **ready.env}
        environ = self._parts.environment(told, state["run"], state["attempt"])
        size = (24, 80) if harness.pty else None
        launch = Launch(harness.command, environ, harness.cwd, stdin, output_of(harness), size)
        try:
            try:
                return self._keeper.spawn(launch, state["run"])
            except NoKeeper:
                self._hands.told("note", state["id"], text="the keeper is gone; a new one is started")
                self._keeper = self._keepers()
                return self._keeper.spawn(launch, state["run"])
        except KeeperError:
            raise
        except SpawnError as error:
            raise explain(error, launch) from error
        finally:
            if isinstance(stdin, int):
                os.close(stdin)

    def _follow(
        self, item: str, harness: "Harness", begun: Begun, child: "Any", folder: RunDir | None = None
    ) -> None:
        state = self.states[item]
        state |= {"pid": child.pid, "start": child.identity.start if child.identity else 0, "boot": boot_id()}
        self.running[item] = running = Running(
            self.host, self._parts, harness, begun, child, on_over=lambda running: self._over(item, running),
            heard=lambda fact: self._heard(item, fact), folder=folder,
            warn=lambda text: self._hands.told("note", item, text=text),
            described={"item": f"{self._parts.described['plan']}/{item}"},
        )  # fmt: skip
        self.host.at(now() + WRITTEN_AFTER, lambda at: self._write_leader(item, running))

    def _write_leader(self, item: str, running: Running) -> None:
        if self.running.get(item) is running:
            self._hands.keep(self.states[item])

    def _heard(self, item: str, fact: Fact) -> None:
        if isinstance(fact, LimitFired) and fact.limit == "soft":
            # Marked, never ended for it: from now on a silence may end it, if that is its policy.
            self.states[item] |= {"over_budget": True, "lifecycle": TIMED_OUT}
            self._hands.keep(self.states[item])
            self._hands.told("marked", item)
        elif isinstance(fact, StopBegan):
            self._hands.told("stopping", item, reason=fact.reason)

    def _over(self, item: str, running: Running) -> None:
        del self.running[item]
        # Held until its end is on the disk: whoever is killed before finds it here, and not a second time.
        self._settle(
            item, running.report, running.report.get("duration_ms") or 0, running.why_ended,
            lambda: self._keeper.forget(running.run_id),
        )  # fmt: skip

    def _settle(
        self, item: str, report: "Mapping[str, Any]", span: int, why: "Any" = None,
        kept: "Callable[[], object] | None" = None,
    ) -> None:  # fmt: skip
        """Write down how an attempt ended, and what it means for the item."""
        work, state = self.works[item], self.states[item]
        self._hands.settle(work, state, report, why)
        reason, code = str(report["termination_reason"]), report.get("exit_code")
        anchored = bool(state.get("checkpoint") or state.get("session"))
        end = End(
            reason, code, anchored=anchored, over_budget=state["over_budget"], policy=work.policy,
            parked=bool(state.get("parked_until")), result_ok=report.get("outcome") == "success",
        )  # fmt: skip
        state |= {
            "lifecycle": settle(end),
            "reason": reason,
            "exit_code": code,
            "signal": report.get("signal"),
            "limit": report.get("limit"),
            "idle_ms": report.get("idle_ms"),
            "runtime_ms": state.get("runtime_ms", 0) + span,
            "error": last_words(report),
        }
        again = self.plan.ended(
            item, state["lifecycle"], now(), span=span, words=state["error"] if span < QUICK else "",
            drawn=self._drawn(), until=self._until(work, state),
        )  # fmt: skip
        self._saving += 1
        self._hands.keep(state, lambda: self._saved(kept))
        self._hands.told("ended", item, again=again, report=report)
        self.host.soon(self._start)

    def _saved(self, kept: "Callable[[], object] | None") -> None:
        self._saving -= 1
        if kept is not None:
            kept()

    def _reset(self, state: "State") -> int:
        """Return when an item may ask its provider again: not before the reset, and not all of them in the same second."""
        return now() + int(state["parked_until"]) - wall_of(now()) + int(parking.JITTER * self._drawn())

    def _until(self, work: "Workstream", state: "State") -> int | None:
        """Return when an item goes on of itself: at a provider's reset, or at once where it has another level to try."""
        if state["parked_until"] is not None:
            return self._reset(state)
        lower = state.get("level", 0) + 1
        if state["lifecycle"] in (FAILED_RESUMABLE, FAILED_TERMINAL) and lower < len(work.levels):
            state["level"] = lower
            return now()
        return None


def _open(state: "State") -> bool:
    """Whether a supervisor left an item that nobody saw the end of."""
    return (
        bool(state.get("run")) and state.get("reason") is None and state["lifecycle"] in (RUNNING, TIMED_OUT)
    )


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


__all__ = ["INTERRUPT_GRACE", "Batch", "last_words"]
