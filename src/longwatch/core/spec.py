"""What is watched, and how patiently: plain values handed to a `Watch`, all spans in milliseconds."""

from longwatch.core.record import Plain

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

#: TERM to KILL. supervisord and Docker give 10 s, CI services about as much in all; shorter damages work.
GRACE = 10 * SECOND
#: The same when longwatch itself was told to stop: CI gives a process about 10 s in all.
GRACE_WHEN_TOLD = 5 * SECOND
#: Leftovers of a program that ended by itself had their whole life to finish.
GRACE_LEFTOVERS = 1 * SECOND
#: After KILL only the kernel can be late; past this the process is called unkillable.
KILL_WAIT = 3 * SECOND
#: After the leader's exit its streams are read until they end, or fall silent, or for this long in all.
DRAIN_QUIET = 500
DRAIN_TOTAL = 5 * SECOND
#: A stated end of a pause is the provider's word; clocks differ and doors open late.
PAUSE_SLACK = 30 * SECOND
#: All pauses of a run together move its ceiling by at most this much.
PAUSE_CREDIT = 6 * HOUR
PAUSE_CREDIT_GUARD = 2 * HOUR
#: What `longwatch quiet` may use up in one run.
ALLOW_QUIET = 1 * HOUR

NONE, NOTIFY, NUDGE, STOP = "none", "notify", "nudge", "stop"
ACTIONS = (NONE, NOTIFY, NUDGE, STOP)
#: Of a harness alone: it is stopped to be started again.
RESTART = "restart"


class LimitSpec(Plain):
    """One limit: its window in ms (0: off), the highest rung it may climb, budgets per tool for `call`.

    A budget was named by somebody, so it may climb to `budget_action` whatever the rest of the calls may.
    Nobody named those of the tools in `lent`, and they climb as the rest. `derived` marks a soft limit that was computed
    from the ceiling and so moves with the ceiling's credit. `spent` is what earlier incarnations have used up of a
    limit of time. `sighted` is a window argued for a program whose records are read: without them it only notifies.
    """

    __slots__ = (
        "action", "budget_action", "budgets", "derived", "lent", "sighted", "spent", "window",
    )  # fmt: skip

    def __init__(
        self, window: int, action: str = STOP, budgets: dict[str, int] | None = None, derived: bool = False,
        budget_action: str = STOP, spent: int = 0, lent: tuple[str, ...] = (), sighted: bool = False,
    ) -> None:  # fmt: skip
        self.window = window
        self.action = action
        self.budgets = budgets or {}
        self.derived = derived
        self.budget_action = budget_action
        self.spent = spent
        self.lent = lent
        self.sighted = sighted


class Spec(Plain):
    """All that a watch has to know before the first observation.

    `limits` by name (see `limits.RULES`); `held` are the progress sources that we hold ourselves, whose silence
    counts from the start; `sampled` those that must first appear; `observed` is True where a dialect reads the
    program's records, `grace` None never kills what does not heed the signal (as GNU timeout), `resident` where the
    program starts out at its prompt; `armed_by_soft` makes `idle` wait for `soft`. `loop` equal calls in a row stop
    the run (0: off). `streamed` where an event stream is watched: it is cancelled where a tree would be signalled.
    """

    __slots__ = (
        "allow_quiet", "armed_by_soft", "grace", "held", "keep_leftovers", "limits", "loop", "nudge", "observed",
        "pause_credit", "resident", "sampled", "signal", "stall_when_ready", "streamed",
    )  # fmt: skip

    def __init__(
        self,
        limits: dict[str, LimitSpec],
        held: tuple[str, ...] = (),
        sampled: tuple[str, ...] = (),
        *,
        nudge: str | None = None,
        signal: int = 15,
        grace: int | None = GRACE,
        keep_leftovers: bool = False,
        allow_quiet: int = ALLOW_QUIET,
        pause_credit: int = PAUSE_CREDIT,
        observed: bool = False,
        resident: bool = False,
        stall_when_ready: bool = False,
        armed_by_soft: bool = False,
        loop: int = 0,
        streamed: bool = False,
    ) -> None:
        self.limits = limits
        self.held = held
        self.sampled = sampled
        self.nudge = nudge
        self.signal = signal
        self.grace = grace
        self.keep_leftovers = keep_leftovers
        self.allow_quiet = allow_quiet
        self.pause_credit = pause_credit
        self.observed = observed
        self.resident = resident
        self.stall_when_ready = stall_when_ready
        self.armed_by_soft = armed_by_soft
        self.loop = loop
        self.streamed = streamed
