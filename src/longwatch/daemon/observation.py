"""What is seen of one run of a harness: an agent's records, and how it ended, whatever it is."""

from longwatch import presets
from longwatch.core.repeats import LATCH_COUNT
from longwatch.core.spec import ACTIONS, NOTIFY, LimitSpec, Spec
from longwatch.daemon.conversations import Conversation
from longwatch.daemon.endings import CONTEXT, RATE, USAGE, End, judge
from longwatch.observed import Observed, screen_of
from longwatch.options import PRESET
from longwatch.posix import now, wall_of
from longwatch.preset_table import PRICED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.daemon.conversations import Conversations
    from longwatch.daemon.endings import Patterns
    from longwatch.posix.child import Child
    from longwatch.posix.process import Process
    from longwatch.posix.tree import Tree
    from longwatch.preset_table import Preset
    from longwatch.runtime.effects import ProcessEffects
    from longwatch.runtime.keeping import Keeping

    class Running:
        """An incarnation, as far as an observer needs it (see `runtime.running`)."""

        harness: Harness
        run_id: str
        attempt: int
        child: Child
        process: Process
        tree: Tree
        effects: ProcessEffects
        warn: Callable[[str], object]

    #: Told what a run has cost by now, in USD, whenever that is more.
    Costs = Callable[[Harness, str, float], object]

#: What a terminal of the keeper's is made with, until somebody who attaches has another size.
SIZE = (24, 80)
_UNSEEN = "no calls of it can be seen: its stall counts from its start"
UNPRICED = "it does not say what it costs: budgets in USD cannot act"
#: Budgets in USD.
_COSTS = ("max_cost_usd", "daily_cost_usd")


class Observation:
    """What is seen of one run of a harness, by whoever can: an agent's records, or its last words alone."""

    def __init__(
        self, harness: "Harness", run: "Running", conversations: "Conversations", patterns: "Patterns | None",
        costs: "Costs",
    ) -> None:  # fmt: skip
        self._run = run
        self._costs = costs
        self._cost: float | None = None
        self._overspent = False
        self._conversations = conversations
        self._patterns = patterns
        self._harness = harness
        self._process = run.process
        self._turn: bool | None = None
        self._succeeded: int | None = None
        self._limits = 0
        self._before = conversations.of(harness.name)
        terminal = harness.pty and run.child.master_fd is not None
        preset = preset_of(harness)
        self.observed = None if preset is None else Observed(
            preset, harness.command, run.process, run.tree, size=SIZE if terminal else None,
            unnamed="progress" not in harness.setters, say=run.warn, note=run.effects.story.note,
        )  # fmt: skip
        self.agent = None if self.observed is None else self.observed.agent
        self.screen = None if self.observed is None else self.observed.screen
        if terminal and "screen" in harness.sources:
            self.screen = screen_of(run.process, SIZE)

    # -- what a run asks

    def spec(self, spec: Spec) -> Spec:
        """Return what is watched, with what follows from the program."""
        observed = self.observed
        if observed is None:
            return spec
        if observed.blinded:
            spec.limits = {name: self._gentle(name, limit) for name, limit in spec.limits.items()}
            return spec
        if self.agent is None:
            return spec
        spec.observed, spec.resident = True, observed.resident
        if "loop" not in self._harness.setters:
            spec.loop = spec.loop or LATCH_COUNT
        for source in observed.sources or ():
            if source == "screen":
                spec.held = ()
            if source != "output" and source not in spec.sampled:
                spec.sampled = (*spec.sampled, source)
        return spec

    def join(self, effects: "ProcessEffects") -> None:
        """Let what is read reach the watch."""
        if self.screen is not None:
            effects.sample(self.screen)
        if self.observed is not None:
            self.observed.join(effects)
            effects.on_look.append(lambda watch, at: self._looked())

    def keep(self, keeping: "Keeping") -> None:
        """Show how the agent stands in the run's folder."""
        if self.observed is not None:
            self.observed.keep(keeping)

    def size(self, rows: int, columns: int) -> None:
        """The terminal has another size, and is drawn anew for that."""
        if self.screen is not None:
            self.screen.resize(rows, columns)
            self.screen.pardon()

    def typed(self) -> None:
        """Somebody of ours typed into the terminal: its echo is no progress."""
        if self.screen is not None:
            self.screen.pardon()

    @property
    def session(self) -> str:
        """The id of its conversation; empty while it is unknown."""
        return "" if self.agent is None else self.agent.session

    def remarks(self) -> list[str]:
        """Return what belongs to the cause of a stop."""
        return [] if self.observed is None else list(self.observed.remarks())

    def blind(self) -> str:
        """Return why its records say nothing; empty where they do, or it has none."""
        return "" if self.observed is None else self.observed.blind()

    def as_dict(self, now: int) -> "dict[str, Any] | None":
        """Return how the agent stands; None of a program that is none."""
        return None if self.agent is None else self.agent.as_dict(now)

    def facts(self, now: int) -> "dict[str, Any]":
        """Return what a snapshot says beyond that, spans as of `now`."""
        note = self._note()
        if self.agent is None:
            return {
                "calls": [], "asked": False, "paused": False, "ready": None, "model_calls": {"ok": 0, "failed": 0},
                "last_success": None, "blind": self.blind() or None, "note": note,
            }  # fmt: skip
        standing = self.agent.standing
        counts = standing.counts
        return {
            "calls": [{"tool": call.tool, "since_ms": now - call.since} for call in standing.calls.values()],
            "asked": bool(standing.questions), "paused": standing.state == "paused", "ready": standing.state == "ready",
            "model_calls": {"ok": counts["ok"], "failed": counts["failed"]}, "last_success": standing.last_ok,
            "blind": self.blind() or None, "note": note,
        }  # fmt: skip

    def heard(self) -> "list[tuple[str, Any]]":
        """Return what is new for whoever leads the harness, since it was asked last.

        `("succeeded", instant)` of a call, `("limited", limit)` with `cls`, `until` and `text`, `("turn", busy)`,
        and once `("spent", sentence)` where the budget of one run is.
        """
        if self.agent is None:
            return []
        standing = self.agent.standing
        found: list[tuple[str, Any]] = []
        if standing.last_ok != self._succeeded:
            self._succeeded = standing.last_ok
            found.append(("succeeded", standing.last_ok))
        if standing.counts["limits"] != self._limits:
            self._limits = standing.counts["limits"]
            if standing.limit is not None:
                found.append(("limited", standing.limit))
        if standing.ready == self._turn or self._turn is None:
            self._turn = not standing.ready
            found.append(("turn", self._turn))
        why = "" if self._overspent else self._spent()
        if why:
            self._overspent = True
            found.append(("spent", why))
        return found

    def _spent(self) -> str:
        """Return which budget of this run is spent; empty while none is."""
        if self.agent is None:
            return ""
        budgets, usage = self._run.harness.budgets, self.agent.standing.usage
        tokens, usd = budgets.get("max_tokens"), budgets.get("max_cost_usd")
        if tokens and usage.total_tokens >= tokens:
            return f"{usage.total_tokens} of {tokens} tokens for one run are used"
        if usd and usage.cost_usd is not None and usage.cost_usd >= usd:
            return f"{usage.cost_usd:.2f} of {usd:.2f} USD for one run are spent"
        return ""

    def _note(self) -> str | None:
        """Return what a reader of the snapshot would not expect: a clock or a budget without anybody who feeds it."""
        found = []
        if self.agent is None and "stall" in self._harness.limits:
            found.append(_UNSEEN)
        if unpriced(self._run.harness) or not self._priced():
            found.append(UNPRICED)
        return "; ".join(found) or None

    def _priced(self) -> bool:
        """Whether it has said what it costs where a budget needs that, or may still do so."""
        if self.agent is None or not _by_cost(self._run.harness):
            return True
        usage = self.agent.standing.usage
        return usage.cost_usd is not None or not usage.total_tokens

    # -- the end

    def ended(self, now: int) -> "dict[str, Any]":
        """Look for the last time; return what the report says of the agent."""
        return {} if self.observed is None else self.observed.ended(now)

    def judged(self, report: "Mapping[str, Any]") -> End:
        """Return how the run ended, and remember whether its conversation is to go on."""
        end = judge(
            report,
            limit=None if self.agent is None else self.agent.limit,
            patterns=self._patterns,
            wording=None if self.agent is None else wording(),
            trouble="" if self.agent is None else self.agent.trouble,
            wall=wall_of(max((pump.alive for pump in self._process.pumps.values()), default=0) or now()),
        )
        end.session = self.session or None
        end.progressed = self.agent is not None and self.agent.counts["ok"] > 0
        if self.agent is not None or self._harness.resume:
            self._conversations.keep(self._harness, self._conversation(report, end))
        return end

    def close(self) -> None:
        """Let go of it: somebody else goes on."""
        if self.agent is not None:
            self.agent.close()

    def _conversation(self, report: "Mapping[str, Any]", end: End) -> Conversation:
        reason, before = str(report.get("termination_reason")), self._before
        well = report.get("outcome") == "success" and end.cls is None
        # What was to go on, and ended by itself without a word in its records, is not there any more.
        silent = not self.session and end.cls is None and reason in ("exited", "signaled")
        limited = end.cls in (RATE, USAGE)
        return Conversation(
            self.session or ("" if silent or before.over else before.session), reason,
            over=well or end.cls == CONTEXT or reason == "looping", limited=limited,
            ready=self.agent is not None and self.agent.standing.ready and not (limited or self.agent.headless),
        )  # fmt: skip

    def _looked(self) -> None:
        if self.session:
            self._conversations.learned(self._harness, self.session)
        cost = None if self.agent is None else self.agent.standing.usage.cost_usd
        if cost is not None and cost != self._cost:
            self._cost = cost
            self._costs(self._harness, self._run.run_id, cost)

    def _gentle(self, name: str, limit: LimitSpec) -> LimitSpec:
        """What a preset says of a program that cannot be read only notifies."""
        if not self._harness.setters.get(name, "").startswith(PRESET):
            return limit
        told = LimitSpec(**limit.as_dict())  # type: ignore[arg-type]
        told.action = min(limit.action, NOTIFY, key=ACTIONS.index)
        told.budget_action = min(limit.budget_action, NOTIFY, key=ACTIONS.index)
        return told


def preset_of(harness: "Harness") -> "Preset | None":
    """Return what a harness is known as."""
    return None if harness.preset in (None, presets.NONE) else presets.named(str(harness.preset))


def unpriced(harness: "Harness") -> bool:
    """Whether a harness has a budget in USD, and nobody says what its runs cost."""
    preset = preset_of(harness)
    return _by_cost(harness) and (preset is None or preset.dialect not in PRICED)


def _by_cost(harness: "Harness") -> bool:
    return any(harness.budgets.get(key) for key in _COSTS)


def wording() -> "Any":
    """Return what providers say in words; loaded for those whose words are read."""
    from longwatch.observe import wording as found  # noqa: PLC0415

    return found
