"""One run that an engine has placed, followed from here over the engine's calls until it is surely over.

Between it and the next attempt stands the fence: see `core.fencing`.
"""

from longwatch.core.fencing import Fence
from longwatch.posix import now, wall_of
from longwatch.posix.identity import boot_id
from longwatch.runtime.attempt import Ended
from longwatch.runtime.engines.protocol import BUNDLE, GONE, LET_GO, REFUSED, RESULT, WAIT
from longwatch.runtime.pulling import Pull

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.attempt import Attempt, State
    from longwatch.runtime.engines.protocol import EngineError, Handle, Told
    from longwatch.runtime.placing import Placing
    from longwatch.runtime.pulling import Came

#: A cluster may be full for as long as it likes.
PLACE_LIMIT = 7 * 86_400_000
CALL_LIMIT = 30_000
#: A node may have to start a worker, and to wait for the end of what is left there.
LOCATE_LIMIT = 120_000
#: After a call that failed, or told nothing where nobody wakes us, in ms.
AGAIN, AGAIN_MOST = 1_000, 2_000


class Remote:
    """One placed run of an item. It tells its place what it hears, and the attempt how it ended."""

    def __init__(self, place: "Placing", attempt: "Attempt", lease: int) -> None:
        state = attempt.state
        self.place = place
        self.attempt = attempt
        self.run_id = str(state["run"])
        self.handle: Handle = state.get("placed") or {
            "run": self.run_id,
            "attempt": int(state["attempt"]),
            "lease": lease,
        }
        self.fence = Fence(lease, _granted(state))
        #: When it was last alive and when it last made progress, on our clock.
        self.clocks: tuple[int | None, int | None] = (None, None)
        self._asked: tuple[str, str | None, int | None] | None = None
        self._exit: Told | None = None
        self._placed = False
        self._over = False
        self._pause = AGAIN // 4
        self._noted_grant = 0
        self._since, offset = place.home.position(attempt.item, self.run_id)
        self._log = place.log_of(attempt)
        self.pull = Pull(place.host, self._read, self._log, offset, self._note, self._keep_position)

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._asked is not None

    # -- beginning

    def begin(self, spec: "Mapping[str, Any]") -> None:
        """Have it started."""
        words = [spec, self.handle["attempt"], self.fence.span]
        self.place.engine.call("place", words, self._placed_at, PLACE_LIMIT)

    def _placed_at(self, handle: "Handle | None", error: "EngineError | None") -> None:
        if self._over:
            return
        if error is None and handle is not None:
            self._follow(handle, "started")
        elif error is not None and error.kind == REFUSED:
            self._ended("spawn_failed", str(error))
        else:
            # It may have been begun all the same, up to this moment.
            self.fence.heard(now())
            self._locate()

    def find(self) -> None:
        """Follow what an earlier supervisor has begun, or was about to."""
        if self.fence.granted is None:  # it may have been placed up to now
            self.fence.heard(now())
        self._locate()

    def _locate(self) -> None:
        """Find out whether it is there, and follow it, or how it has gone."""
        self.place.engine.call("locate", [self.handle], self._located, LOCATE_LIMIT)

    def _located(self, told: "Told | None", error: "EngineError | None") -> None:
        if self._over:
            return
        if error is not None or told is None:
            self._wait_for_fence(str(error))
        elif told["here"]:
            self._follow({**told["handle"], "stamp": told["stamp"]}, "" if self._placed else "taken up")
        elif told["exit"] is not None:
            self._exited(told["exit"])
        elif told["clean"] or (self.stopping and not self._placed):
            self.fence.over()
            self._lost("its node has no record of how it ended")
        else:
            self._wait_for_fence("it is not there any more")

    def _wait_for_fence(self, why: str) -> None:
        """Look again, until it must be over by itself."""
        if self.fence.may_follow(now()):
            self._lost(why)
            return
        self.place.host.at(now() + AGAIN, lambda at: None if self._over else self._locate())

    def _follow(self, handle: "Handle", word: str) -> None:
        self._placed = True
        self.handle = handle
        self.fence.heard(now())
        self._note_grant()
        if word:
            self.attempt.told(word, running=self)
        if self._asked is not None:
            self._ask_stop()
        self._renew(0)

    # -- following

    def _renew(self, at: int) -> None:
        if self._over or self._exit is not None:
            return
        self._note_grant()
        engine = self.place.engine
        wait = 0 if engine.looks else WAIT
        words = [self.handle, self._since, self.handle["stamp"], wait]
        engine.call("renew", words, self._renewed, wait + CALL_LIMIT)

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
            self._locate()
        else:
            self._pause = AGAIN // 4 if news else min(2 * self._pause, AGAIN_MOST)
            self.place.host.at(now() + (self._pause if self.place.engine.looks else 0), self._renew)

    def _unanswered(self, error: "EngineError | None") -> None:
        if (error is not None and error.kind == GONE) or self.fence.may_follow(now()):
            self._locate()
        else:
            self.place.host.at(now() + AGAIN, self._renew)

    def _take_in(self, told: "Told") -> bool:
        """Take what is new; return whether anything is."""
        self._since = told["since"]
        standing = told["state"] or {}
        alive, progress = standing.get("alive_ms"), standing.get("progress_ms")
        self.clocks = (_here(alive, told["stamp"]), _here(progress, told["stamp"]))
        self.place.heard(self, told)
        self._keep_position()
        return self.pull.to(told["output"][1]) or bool(told["events"])

    def _read(self, stream: str, offset: int, count: int, came: "Came") -> None:
        self.place.engine.call("read", [self.handle, stream, offset, count], came, CALL_LIMIT)

    def _keep_position(self) -> None:
        self.place.home.keep_position(self.attempt.item, self.run_id, self._since, self.pull.offset)

    def _note(self, text: str) -> None:
        self._log.note(text)
        self.attempt.note(text)

    def _note_grant(self) -> None:
        """Write down, before a renewal is sent, until when it may live on: who comes after us has to know."""
        granted = self.fence.granted or 0
        if granted + self.fence.span // 4 <= self._noted_grant:
            return
        self._noted_grant = granted + self.fence.span // 2
        until = {"boot": boot_id(), "at_ms": self._noted_grant, "wall_ms": wall_of(self._noted_grant)}
        self.attempt.state |= {"placed": {**self.handle}, "granted": until}
        self.attempt.keep()

    # -- the end

    def _exited(self, told: "Told") -> None:
        self._exit = told
        self.fence.over()
        self.place.engine.call("renew", [self.handle, self._since, 0, 0], self._last_news, CALL_LIMIT)

    def _last_news(self, told: "Told | None", error: "EngineError | None") -> None:
        """What was told between the last answer and the end; where nobody knows, the output is read to its end."""
        if self._over:
            return
        if told is not None:
            self._take_in(told)
        self.pull.rest(self._fetch_results, known=told is not None)

    def _fetch_results(self) -> None:
        assert self._exit is not None
        ended, home, item = self._exit, self.place.home, self.attempt.item
        self._over = True
        wanted = {name: home.place_for(item, name) for name in (RESULT, BUNDLE) if ended.get(name)}
        self.pull.fetch(wanted, lambda: home.bring(item, ended, self._settled))

    def _settled(self) -> None:
        assert self._exit is not None
        self._end(Ended(self._exit["report"], self._exit, let_go=self.let_go))

    def _lost(self, why: str) -> None:
        self._ended("interrupted" if self.stopping else "unknown", f"lost: {why}")

    def _ended(self, reason: str, why: str) -> None:
        self._end(Ended({"termination_reason": reason, "notes": [why]}, let_go=self.let_go))

    def _end(self, ended: Ended) -> None:
        self._over = True
        self.place.over(self, ended)
        self.pull.close()

    # -- stopping

    def stop(self, reason: str, origin: str | None, grace: int | None) -> None:
        """End it. Asked again, it may only be faster."""
        self._asked = (reason, origin, grace)
        if self._over or self._exit is not None:
            return
        if self._placed:
            self._ask_stop()
        else:
            self.let_go()

    def _ask_stop(self) -> None:
        assert self._asked is not None
        asked = self._asked

        def answered(_told: "Told | None", error: "EngineError | None") -> None:
            if error is not None and not self._over and self._exit is None and self._asked == asked:
                self.place.host.at(now() + AGAIN, lambda at: self._ask_stop())

        self.place.engine.call("stop", [self.handle, *asked], answered, CALL_LIMIT)

    def let_go(self) -> None:
        """Nobody wants to hear of it any more. Whoever is gone need not be told."""
        self.place.engine.call("stop", [self.handle, LET_GO, None, 0], _whatever, CALL_LIMIT)


def _granted(state: "State") -> int | None:
    """Return until when an earlier supervisor has let a run live, on our clock; None where it did not say."""
    told = state.get("granted")
    if told is None:
        return None
    if told["boot"] == boot_id():
        return int(told["at_ms"])
    return now() + int(told["wall_ms"]) - wall_of(now())


def _here(at: int | None, stamp: int) -> int | None:
    """Return on our clock what was `stamp - at` ms ago on the run's, which told us just now."""
    return None if at is None else now() - max(stamp - at, 0)


def _whatever(told: "Any", error: "Any") -> None:
    """No answer is waited for."""


__all__ = ["Remote"]
