"""What follows an exit: respawn now, after a backoff, not at all, or give up until a human comes.

OTP's and systemd's words: policy, intensity and period, backoff. A life shorter than `QUICK` is followed by a
backoff that doubles up to a bound and is forgotten after `HEALTHY`; a longer life by none. Beside it one rolling
budget counts restarts of all causes, however long each life was; a run of stalls without any progress is
counted apart. Whichever is spent first, it is `gave_up`. Chance is an argument, so a decision can be replayed.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND

QUICK = 10 * SECOND
HEALTHY = 5 * MINUTE
BACKOFF_FIRST, BACKOFF_LAST = 1 * SECOND, 30 * SECOND
JITTER_PERCENT = 10
INTENSITY, PERIOD = 5, 10 * MINUTE
STALLS = 5

ALWAYS, UNLESS_STOPPED, ON_FAILURE, NO = "always", "unless-stopped", "on-failure", "no"
RESPAWN, STAY, GAVE_UP = "respawn", "stay", "gave_up"


class Life(Plain):
    """One ended incarnation: when it began and ended (ms), how, and whether it made any progress."""

    __slots__ = ("began", "ended", "outcome", "progressed", "requested", "revive")

    def __init__(
        self, began: int, ended: int, outcome: str, *, progressed: bool = False, revive: bool = False,
        requested: bool = False,
    ) -> None:  # fmt: skip
        self.began = began
        self.ended = ended
        self.outcome = outcome
        self.progressed = progressed
        self.revive = revive
        self.requested = requested


class History(Plain):
    """What restarts remember between incarnations: instants of restarts, quick lives and stalls in a row."""

    __slots__ = ("quick", "restarts", "stalls")

    def __init__(self, restarts: tuple[int, ...] = (), quick: int = 0, stalls: int = 0) -> None:
        self.restarts = restarts
        self.quick = quick
        self.stalls = stalls


class Decision(Plain):
    """What to do (`RESPAWN`, `STAY`, `GAVE_UP`), after how many ms, why, and the history to keep."""

    __slots__ = ("action", "after", "history", "why")

    def __init__(self, action: str, history: History, after: int = 0, why: str = "") -> None:
        self.action = action
        self.history = history
        self.after = after
        self.why = why


def backoff(quick: int, drawn: float) -> int:
    """Return the delay in ms after the `quick`-th short life in a row; `drawn` in [0, 1) spreads it by 10 %."""
    plain = min(BACKOFF_FIRST << min(quick - 1, 16), BACKOFF_LAST)
    return plain + int(plain * JITTER_PERCENT * (2 * drawn - 1)) // 100


def wanted(policy: str, life: Life) -> bool:
    """Return whether the policy wants another incarnation; a stall's revive mark overrules every policy."""
    if life.requested:
        return False
    if life.revive:
        return True
    if policy == ON_FAILURE:
        return life.outcome in ("failed", "timed_out", "unknown")
    return policy in (ALWAYS, UNLESS_STOPPED)


def decide(
    policy: str,
    life: Life,
    history: History,
    drawn: float,
    *,
    intensity: int = INTENSITY,
    period: int = PERIOD,
) -> Decision:
    """Return what follows this life."""
    if not wanted(policy, life):
        return Decision(STAY, history, why=life.outcome)
    now, span = life.ended, life.ended - life.began
    quick = history.quick + 1 if span < QUICK else 0 if span >= HEALTHY else history.quick
    stalls = history.stalls + 1 if life.outcome == "stalled" and not life.progressed else 0
    recent = tuple(at for at in history.restarts if now - at < period)
    if stalls > STALLS:
        return Decision(GAVE_UP, History(recent, quick, stalls), why="stalls")
    if len(recent) >= intensity:
        return Decision(GAVE_UP, History(recent, quick, stalls), why="intensity")
    after = backoff(quick, drawn) if span < QUICK else 0
    return Decision(RESPAWN, History((*recent, now), quick, stalls), after)
