"""A desk without a supervisor: time that only moves when it is told to, and channels that answer as they are told."""

import heapq
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.facts import Fact
from longwatch.core.redact import Redactor
from longwatch.notify.desk import Desk
from longwatch.notify.settings import Settings

SECOND, MINUTE = 1000, 60_000
WALL = 1_767_268_800_000


class Started:
    """A command that was started, and that the test ends."""

    def __init__(self, stage: "Stage", argv: list[str], options: Mapping[str, Any]) -> None:
        self.stage = stage
        self.argv = argv
        self.options = options
        self.cancelled = False

    @property
    def told(self) -> dict[str, Any]:
        """What it was given to read."""
        answer: dict[str, Any] = json.loads(self.options["stdin"])
        return answer

    def end(self, code: int | None = 0, output: str = "") -> None:
        """Let it end."""
        self.stage.running.remove(self)
        self.options["on_done"](code, output)
        self.stage.run_due()

    def cancel(self) -> None:
        """It is ended by its owner."""
        self.cancelled = True
        self.stage.running.remove(self)


class Stage:
    """The host of a desk. With `code` every command ends at once, and `told` holds what was delivered."""

    def __init__(
        self, code: int | None = 0, *, by_hand: bool = False, secrets: tuple[str, ...] = (), state: Any = None,
        now: int = 1_000_000, config: str = "", **settings: Any,
    ) -> None:  # fmt: skip
        self.now = now
        self.code = code
        self.by_hand = by_hand
        self.timers: list[tuple[int, int, Callable[[int], object]]] = []
        self.order = itertools.count()
        self.running: list[Started] = []
        self.started: list[Started] = []
        self.facts: list[Fact] = []
        self.kept: list[dict[str, Any]] = []
        self.output = ""
        settings.setdefault("hook", ("/bin/hook",))
        self.desk = Desk(
            Settings(**settings), self.command, lambda: self.now, Redactor(secrets), self.facts.append, self.later,
            state=state, keep=lambda kept: self.kept.append(json.loads(json.dumps(kept))),
            wall=lambda: WALL + self.now, config=config,
        )  # fmt: skip

    def command(self, argv: list[str], **options: Any) -> Started:
        """Start a command."""
        command = Started(self, argv, options)
        self.started.append(command)
        self.running.append(command)
        if not self.by_hand:
            self.later(self.now, lambda _now: command.end(self.code, self.output))
        return command

    def later(self, instant: int, callback: Callable[[int], object]) -> None:
        """Call back at an instant."""
        heapq.heappush(self.timers, (instant, next(self.order), callback))

    def run_due(self) -> None:
        """Call back what is due. A desk that always has something due at once would never end: it is stopped."""
        for _ in range(10_000):
            if not self.timers or self.timers[0][0] > self.now:
                return
            heapq.heappop(self.timers)[2](self.now)
        raise AssertionError("the desk is busy for ever")

    def sleep(self, ms: int) -> None:
        """Let time pass."""
        end = self.now + ms
        while self.timers and self.timers[0][0] <= end:
            self.now = max(self.now, self.timers[0][0])
            self.run_due()
        self.now = end

    def tell(self, *facts: Fact, wait: int = 4 * SECOND) -> None:
        """Let facts happen, and time enough pass for a notice."""
        for fact in facts:
            self.desk.heard(fact)
        self.sleep(wait)

    @property
    def told(self) -> list[dict[str, Any]]:
        """The notices that were sent, each try."""
        return [one.told for one in self.started]

    @property
    def events(self) -> list[str]:
        """The events that were sent, each try."""
        return [one["event"] for one in self.told]

    def counts(self) -> dict[tuple[str, str], int]:
        """How many notices of an event ended how."""
        return {(one["event"], one["result"]): one["count"] for one in self.desk.snapshot()["deliveries"]}


def stalled(name: str = "w", *, action: str = "notify", gave_up: bool = False, run: str = "w-1", stalls: int = 1,
            tree: tuple[str, ...] = ("10 claude", "  11 node")) -> f.Stalled:  # fmt: skip
    """Return a stall of 46 minutes."""
    return f.Stalled(0, name, run, 46 * MINUTE, 45 * MINUTE, action, stalls, gave_up, tree)


def failed(name: str = "w", why: str = "command not found") -> f.StateChanged:
    """Return a harness that failed."""
    return f.StateChanged(0, name, "failed", "starting", why)


def recovered(name: str = "w") -> f.Recovered:
    """Return a harness that is well again."""
    return f.Recovered(0, name, "stalls")


def stopped(name: str = "w") -> f.StateChanged:
    """Return a harness that was stopped."""
    return f.StateChanged(0, name, "stopped", "stopping", "stop")


#: One fact for each notice but `recovered`, `unparked` and `test`.
ONE_OF_EACH: dict[str, tuple[Fact, ...]] = {
    "failed": (failed(),),
    "flapping": (f.Flapping(0, "w", 3),),
    "gave_up": (f.GaveUp(0, "w", "intensity", "boom"),),
    "stalled": (stalled(),),
    "limit": (f.LimitNotice(0, "w", "w-1", "idle", 5 * MINUTE),),
    "loop_stopped": (f.LoopStopped(0, "w", "w-1", "Bash", 8),),
    "run_failed": (
        f.RunOpened(0, "w", "w-1", "schedule", 1),
        f.RunClosed(0, "w", "w-1", {"outcome": "failed", "termination_reason": "exited", "exit_code": 3}),
    ),
    "intent_lost": (f.IntentLost(0, "w", "disk full"),),
    "parked": (f.Parked(0, "w", "g", WALL + 90 * MINUTE, "usage", "resets at 3pm"),),
    "asked": (f.AgentAsked(0, "w", "w-1"),),
    "unkillable": (f.Unkillable(0, "w", "w-1"),),
    "ledger": (d.LedgerFailed(0, "disk full"),),
    "late": (d.TickLate(0, 20 * SECOND),),
}
