"""A plan whose items are placed by an engine: the same plan, the same states, the runs elsewhere.

Each run is followed over the engine's calls; its output is pulled into the same log as on one machine. Between two
attempts of an item stands the fence: see `core.fencing`. Whoever is killed leaves the runs to their leases, and in the
state files what is needed to find them again.
"""

import os

from longwatch.core.fencing import Fence
from longwatch.core.workstream import TIMED_OUT
from longwatch.posix import now, wall_of
from longwatch.posix.identity import boot_id
from longwatch.runtime.batch import INTERRUPT_GRACE, Batch, _open
from longwatch.runtime.engines.protocol import BUNDLE, GONE, LET_GO, OUTPUT, REFUSED, RESULT, WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.batch import Workstream
    from longwatch.core.plan import Plan
    from longwatch.runtime.batch import State
    from longwatch.runtime.engines.bridged import Bridge
    from longwatch.runtime.engines.protocol import EngineError, Handle, Told
    from longwatch.runtime.host import Host
    from longwatch.runtime.running import Parts

#: A cluster may be full for as long as it likes.
PLACE_LIMIT = 7 * 86_400_000
CALL_LIMIT = 30_000
#: A node may have to start a worker, and to wait for the end of what is left there.
LOCATE_LIMIT = 120_000
#: After a call that failed, or told nothing where nobody wakes us, in ms.
AGAIN, AGAIN_MOST = 1_000, 2_000
CHUNK = 256 << 10
#: So often a run that was lost, by no fault of the item, is begun again by itself.
LOST = 3
#: How long an engine that does not answer is waited for when everything is to end at once, in ms.
LEAVE = 15_000


class Seen:
    """When a placed run last made progress, on our clock; named as it is in a watch, so that one view shows both."""

    def __init__(self) -> None:
        self.last: int | None = None

    @property
    def sight(self) -> "Seen":
        """What was seen."""
        return self


class Remote:
    """One placed run of an item, as it is followed from here."""

    def __init__(self, batch: "Placing", item: str, state: "State", lease: int) -> None:
        self.batch = batch
        self.item = item
        self.run_id, self.attempt = str(state["run"]), int(state["attempt"])
        self.handle: Handle = state.get("placed") or {
            "run": self.run_id,
            "attempt": self.attempt,
            "lease": lease,
        }
        self.fence = Fence(lease, _granted(state))
        #: Told each piece of output as it comes.
        self.taps: list[Callable[[memoryview], object]] = []
        self.watch = Seen()
        self.stopping: tuple[str, str | None, int | None] | None = None
        self.exit: Told | None = None
        self._placed = False
        self._since, self._offset = batch.hands.position(self.item, self.run_id)
        self._end = 0
        self._pulling = False
        self._over = False
        self._pause = AGAIN // 4
        self._noted_grant = 0
        self._log = batch.sink(item, self.run_id)

    @property
    def engine(self) -> "Bridge":
        """What carries our calls."""
        return self.batch.engine

    # -- beginning

    def place(self, spec: "Mapping[str, Any]") -> None:
        """Have it started."""
        self.engine.call("place", [spec, self.attempt, self.fence.span], self._placed_at, PLACE_LIMIT)

    def _placed_at(self, handle: "Handle | None", error: "EngineError | None") -> None:
        if self._over:
            return
        if error is None and handle is not None:
            self._follow(handle, "started")
        elif error is not None and error.kind == REFUSED:
            self._ended({"termination_reason": "spawn_failed", "notes": [str(error)]}, 0)
        else:
            # It may have been begun all the same, up to this moment.
            self.fence.heard(now())
            self.locate()

    def locate(self) -> None:
        """Find out whether it is there, and follow it, or how it has gone."""
        self.engine.call("locate", [self.handle], self._located, LOCATE_LIMIT)

    def _located(self, told: "Told | None", error: "EngineError | None") -> None:
        if self._over:
            return
        if error is not None or told is None:
            self._wait_for_fence(str(error))
        elif told["here"]:
            self._follow({**told["handle"], "stamp": told["stamp"]}, "" if self._placed else "taken up")
        elif told["exit"] is not None:
            self._exited(told["exit"])
        elif told["clean"] or (self.stopping is not None and not self._placed):
            self.fence.over()
            self._lost("its node has no record of how it ended")
        else:
            self._wait_for_fence("it is not there any more")

    def _wait_for_fence(self, why: str) -> None:
        """Look again, until it must be over by itself."""
        if self.fence.may_follow(now()):
            self._lost(why)
            return
        self.batch.host.at(now() + AGAIN, lambda at: None if self._over else self.locate())

    def _follow(self, handle: "Handle", word: str) -> None:
        self._placed = True
        self.handle = handle
        self.fence.heard(now())
        self._note_grant()
        if word:
            self.batch.hands.told(word, self.item, running=self)
        if self.stopping is not None:
            self._ask_stop()
        self._renew(0)

    # -- following

    def _renew(self, at: int) -> None:
        if self._over or self.exit is not None:
            return
        self._note_grant()
        wait = 0 if self.engine.looks else WAIT
        self.engine.call(
            "renew", [self.handle, self._since, self.handle["stamp"], wait], self._renewed, wait + CALL_LIMIT
        )

    def _renewed(self, told: "Told | None", error: "EngineError | None") -> None:
        if self._over:
            return
        if told is None:
            self._unanswered(error)
            return
        if told["acked"]:
            self.handle["stamp"] = told["stamp"]
            self.fence.heard(now())
        news = self._take_in(told)
        if told["exit"] is not None:
            self._exited(told["exit"])
        elif not told["held"]:
            self.locate()
        else:
            self._pause = AGAIN // 4 if news else min(2 * self._pause, AGAIN_MOST)
            self.batch.host.at(now() + (self._pause if self.engine.looks else 0), self._renew)

    def _unanswered(self, error: "EngineError | None") -> None:
        if (error is not None and error.kind == GONE) or self.fence.may_follow(now()):
            self.locate()
        else:
            self.batch.host.at(now() + AGAIN, self._renew)

    def _take_in(self, told: "Told") -> bool:
        """Take what is new; return whether anything is."""
        for event in told["events"]:
            self.batch.event(self, event)
        news = bool(told["events"]) or told["output"][1] > self._end
        self._since, self._end = told["since"], told["output"][1]
        progress = (told["state"] or {}).get("progress_ms")
        self.watch.last = None if progress is None else now() - max(told["stamp"] - progress, 0)
        self.batch.hands.keep_position(self.item, self.run_id, self._since, self._offset)
        self._pull()
        return news

    def _pull(self) -> None:
        """Fetch output until we have what there is."""
        if self._pulling or self._over:
            return
        if self._offset >= self._end:
            if self.exit is not None:
                self._fetch_results()
            return
        self._pulling = True
        self.engine.call("read", [self.handle, OUTPUT, self._offset, CHUNK], self._pulled, CALL_LIMIT)

    def _pulled(self, piece: "tuple[int, bytes] | None", error: "EngineError | None") -> None:
        self._pulling = False
        if self._over:
            return
        if piece is None or not piece[1]:
            if self.exit is not None:  # what cannot be fetched now will never be
                if error is not None:
                    self._note(f"the last of its output could not be fetched: {error}")
                self._end = self._offset
            self.batch.host.at(now() + (0 if self.exit else AGAIN), lambda at: self._pull())
            return
        start, data = piece
        if start > self._offset:
            self._note(
                f"{start - self._offset} bytes are missing here: it printed faster than they were fetched"
            )
        self._write(memoryview(data))
        self._offset = start + len(data)
        self.batch.hands.keep_position(self.item, self.run_id, self._since, self._offset)
        self._pull()

    def _write(self, data: memoryview) -> None:
        for tap in self.taps:
            tap(data)
        while data and (count := self._log.write(data)):
            data = data[count:]

    def _note(self, text: str) -> None:
        self._log.note(text)
        self.batch.hands.told("note", self.item, text=text)

    def _note_grant(self) -> None:
        """Write down, before a renewal is sent, until when it may live on: who comes after us has to know."""
        granted = self.fence.granted or 0
        if granted + self.fence.span // 4 > self._noted_grant:
            self._noted_grant = granted + self.fence.span // 2
            self.batch.note_grant(self, self._noted_grant)

    # -- the end

    def _exited(self, told: "Told") -> None:
        self.exit = told
        self.fence.over()
        self.engine.call("renew", [self.handle, self._since, 0, 0], self._last_news, CALL_LIMIT)

    def _last_news(self, told: "Told | None", error: "EngineError | None") -> None:
        """What was told between the last answer and the end; where nobody knows, the output is read to its end."""
        if self._over:
            return
        if told is not None:
            self._take_in(told)
        else:
            self._end = max(self._end, 1 << 62)
            self._pull()

    def _fetch_results(self) -> None:
        assert self.exit is not None
        if self._over:
            return
        self._over = True
        wanted = [name for name in (RESULT, BUNDLE) if self.exit.get(name)]
        self._fetch(wanted)

    def _fetch(self, wanted: list[str]) -> None:
        if not wanted:
            assert self.exit is not None
            self.batch.hands.bring(self.item, self.exit, self._settled)
            return
        name, *rest = wanted
        path = self.batch.hands.place_for(self.item, name)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._fetch_piece(name, file, 0, lambda: self._fetch(rest))

    def _fetch_piece(self, name: str, file: int, offset: int, done: "Callable[[], object]") -> None:
        def came(piece: "tuple[int, bytes] | None", error: "EngineError | None") -> None:
            if piece is not None and piece[1]:
                os.write(file, piece[1])
                self._fetch_piece(name, file, offset + len(piece[1]), done)
                return
            if error is not None:
                self._note(f"its {name} could not be fetched: {error}")
            os.close(file)
            done()

        self.engine.call("read", [self.handle, name, offset, CHUNK], came, CALL_LIMIT)

    def _settled(self) -> None:
        assert self.exit is not None
        report = self.exit["report"]
        self.batch.remote_over(self, report, int(report.get("duration_ms") or 0), self.exit)
        self._log.close()

    def _lost(self, why: str) -> None:
        reason = "interrupted" if self.stopping else "unknown"
        self._ended({"termination_reason": reason, "notes": [f"lost: {why}"]}, 0)

    def _ended(self, report: "Mapping[str, Any]", span: int) -> None:
        self._over = True
        self.batch.remote_over(self, report, span, None)
        self._log.close()

    # -- stopping

    def stop(self, reason: str, origin: str | None, grace: int | None) -> None:
        """End it. Asked again, it may only be faster."""
        self.stopping = (reason, origin, grace)
        if self._over or self.exit is not None:
            return
        if self._placed:
            self._ask_stop()
        else:
            self.engine.call("stop", [self.handle, LET_GO, None, 0], _whatever, CALL_LIMIT)

    def _ask_stop(self) -> None:
        assert self.stopping is not None
        asked = self.stopping

        def answered(_told: "Told | None", error: "EngineError | None") -> None:
            if error is not None and not self._over and self.exit is None and self.stopping == asked:
                self.batch.host.at(now() + AGAIN, lambda at: self._ask_stop())

        self.engine.call("stop", [self.handle, *asked], answered, CALL_LIMIT)


class Placing(Batch):
    """One run of a plan on an engine. `hands` are those of `cli.batch_engine`."""

    def __init__(
        self, host: "Host", engine: "Bridge", parts: "Parts", plan: "Plan", works: "Mapping[str, Workstream]",
        states: "dict[str, State]", hands: "Any", drawn: "Callable[[], float]", *, lease: int,
    ) -> None:  # fmt: skip
        super().__init__(host, _no_keeper, parts, plan, works, states, hands, {}, drawn)
        self.engine = engine
        self.hands = hands
        self.lease = lease
        self.running: dict[str, Any]
        self._leave_at: int | None = None

    def run(self) -> None:
        """Go on until nothing runs and nothing more will, or the engine does not answer and nobody wants to wait."""
        self._take_up()
        self._start()
        while not self.over and (self._leave_at is None or now() < self._leave_at):
            self.host.turn(None if self._leave_at is None else 500)

    def step(self, item: str) -> str:
        """Return what is done about an item now."""
        remote = self.running.get(item)
        if remote is not None:
            return "stopping" if remote.stopping else "running"
        return "preparing" if item in self._preparing else "waiting" if self.plan.waits(item) else ""

    def interrupt(self, *, at_once: bool = False) -> None:
        """End it: nothing more is placed, and what runs is stopped, and can be resumed."""
        self.plan.hold()
        for item in self._preparing:
            self._preparing[item] = True
        for remote in list(self.running.values()):
            remote.stop("interrupted", None, 0 if at_once else INTERRUPT_GRACE)
        if at_once:
            self._leave_at = now() + LEAVE

    def sink(self, item: str, run: str) -> "Any":
        """Return the log of an item."""
        return self._parts.sinks(
            self.works[item].harness, run, True, lambda text: self.hands.told("note", item, text=text)
        )

    # -- what an earlier run has left

    def _take_up(self) -> None:
        for item, state in self.states.items():
            if _open(state) and item in self.works and state.get("placing"):
                self.plan.started(item)
                remote = self.running[item] = Remote(self, item, state, int(state["placing"]))
                if remote.fence.granted is None:  # it was about to be placed, and may have been up to now
                    remote.fence.heard(now())
                remote.locate()

    # -- one item

    def _prepared(self, item: str, ready: "Any", why: str, later: bool) -> None:
        if ready is None or self._preparing[item] or self.plan.held:
            super()._prepared(item, None, why, later)
            return
        del self._preparing[item]
        state = self.states[item]
        state |= {"placing": self.lease, "placed": None, "granted": None}
        self.hands.keep(state)
        remote = self.running[item] = Remote(self, item, state, self.lease)
        remote.place(ready)

    def note_grant(self, remote: Remote, granted: int) -> None:
        """Keep how a run is found again, and until when it may live without us."""
        state = self.states[remote.item]
        state["placed"] = {**remote.handle}
        state["granted"] = {"boot": boot_id(), "at_ms": granted, "wall_ms": wall_of(granted)}
        self.hands.keep(state)

    def event(self, remote: Remote, event: "Mapping[str, Any]") -> None:
        """Hear what happened there."""
        name, item = event["event"], remote.item
        if name == "limit_fired" and event.get("limit") == "soft":
            self.states[item] |= {"over_budget": True, "lifecycle": TIMED_OUT}
            self.hands.keep(self.states[item])
            self.hands.told("marked", item)
        elif name == "stop_began":
            self.hands.told("stopping", item, reason=event.get("reason", ""))
        elif name == "note":
            self.hands.told("note", item, text=str(event.get("text", "")))
        self.hands.event(item, remote.run_id, event)

    def remote_over(
        self, remote: Remote, report: "Mapping[str, Any]", span: int, ended: "Told | None"
    ) -> None:
        """A run is over, or must be: write down what that means, and let go of it."""
        del self.running[remote.item]
        state = self.states[remote.item]
        state["lost"] = state.get("lost", 0) + 1 if report["termination_reason"] == "unknown" else 0
        if state["lost"] and not self.engine.ready:
            self.hands.told(
                "note", "", text="the engine does not answer; nothing more is placed, --resume goes on"
            )
            self.plan.hold()
        handle = remote.handle
        self._settle(
            remote.item, report, span, ended,
            lambda: self.engine.call("stop", [handle, LET_GO, None, 0], _whatever, CALL_LIMIT),
        )  # fmt: skip

    def _settle(
        self, item: str, report: "Mapping[str, Any]", span: int, why: "Any" = None,
        kept: "Callable[[], object] | None" = None,
    ) -> None:  # fmt: skip
        self.states[item] |= {"placing": None, "granted": None}
        super()._settle(item, report, span, why, kept)

    def _until(self, work: "Workstream", state: "State") -> int | None:
        if 0 < state.get("lost", 0) <= LOST:
            return now()
        return super()._until(work, state)


def _granted(state: "State") -> int | None:
    """Return until when an earlier supervisor has let a run live, on our clock; None where it did not say."""
    told = state.get("granted")
    if told is None:
        return None
    if told["boot"] == boot_id():
        return int(told["at_ms"])
    return now() + int(told["wall_ms"]) - wall_of(now())


def _no_keeper() -> "Any":
    """Nothing runs below us."""


def _whatever(told: "Any", error: "Any") -> None:
    """Whoever is gone need not be let go of."""


__all__ = ["LOST", "Placing", "Remote"]
