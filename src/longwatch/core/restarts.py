"""What follows an exit: respawn now, after a backoff, not at all, or give up until a human comes.

OTP's and systemd's words: policy, intensity and period, backoff. A life shorter than `QUICK` is followed by a
backoff that doubles up to a bound and is forgotten after `HEALTHY`; a longer life by none. Beside it one rolling
budget counts restarts of all causes, however long each life was; quick failures that all end with the same words,
and stalls without any progress, are counted apart. Whichever is spent first, it is `gave_up`. Chance is an
argument, so a decision can be replayed.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND

QUICK = 10 * SECOND
HEALTHY = 5 * MINUTE
BACKOFF_FIRST, BACKOFF_LAST = 1 * SECOND, 30 * SECOND
JITTER_PERCENT = 10
INTENSITY, PERIOD = 5, 10 * MINUTE
#: So many quick lives in a row are told; more than this many end the tries, unless more restarts were allowed.
FLAPPING, QUICK_LIVES = 3, 5
#: So many quick failures with the same last words end the tries.
ALIKE = 3
#: So many stalls in a row bring it back; from then on they are only reported.
STALLS = 5

#: Intent outlives the daemon, so what was stopped by hand stays stopped under both of the first two.
ALWAYS, UNLESS_STOPPED, ON_FAILURE, NO = "always", "unless-stopped", "on-failure", "no"
RESPAWN, STAY, GAVE_UP = "respawn", "stay", "gave_up"
#: What is spent when restarts end: stalls in a row, failures alike, the budget, short lives in a row; or no start at all.
STALLED, ALIKE_FAILED, OVER_BUDGET, TOO_QUICK, SPAWN = CAUSES = (
    "stalls",
    "alike",
    "intensity",
    "quick",
    "spawn",
)
#: Outcomes that are failures.
FAILED = ("failed", "timed_out", "unknown")
#: Of an error line so much is compared and shown.
LONGEST_ERROR = 200


class Life(Plain):
    """One ended incarnation: when it began and ended (ms), its outcome and termination reason, its last error line.

    `progressed`: it got something done. `requested`: somebody wanted the end. `revive`: the end was a means to go on.
    """

    __slots__ = ("began", "ended", "error", "outcome", "progressed", "reason", "requested", "revive")

    def __init__(
        self, began: int, ended: int, outcome: str, reason: str = "exited", *, progressed: bool = False,
        error: str = "", revive: bool = False, requested: bool = False,
    ) -> None:  # fmt: skip
        self.began = began
        self.ended = ended
        self.outcome = outcome
        self.reason = reason
        self.progressed = progressed
        self.error = error
        self.revive = revive
        self.requested = requested

    @property
    def quick(self) -> bool:
        """Whether it was so short that the next one waits."""
        return self.ended - self.began < QUICK


class History(Plain):
    """What restarts remember: instants of restarts, quick lives in a row, stalls in a row, and failures alike."""

    __slots__ = ("alike", "error", "quick", "restarts", "stalls")

    def __init__(
        self, restarts: tuple[int, ...] = (), quick: int = 0, stalls: int = 0, error: str = "", alike: int = 0
    ) -> None:
        self.restarts = restarts
        self.quick = quick
        self.stalls = stalls
        self.error = error
        self.alike = alike

    @property
    def report_only(self) -> bool:
        """Whether the next stall is only reported."""
        return self.stalls >= STALLS


class Decision(Plain):
    """What to do (`RESPAWN`, `STAY`, `GAVE_UP`), after how many ms, why, and the history to keep.

    `why` of GAVE_UP is one of `CAUSES`.
    """

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


def normalised(error: str) -> str:
    """Return what two lines have in common that say the same: times, numbers, addresses and ids are left out."""
    words = error[:LONGEST_ERROR].split()
    return " ".join("#" if any(c.isdigit() for c in word) else word.lower() for word in words)


def wanted(policy: str, life: Life) -> bool:
    """Return whether the policy wants another incarnation; a stall's revive mark overrules every policy."""
    if life.requested:
        return False
    if life.revive:
        return True
    if policy == ON_FAILURE:
        return life.outcome in FAILED
    return policy in (ALWAYS, UNLESS_STOPPED)


def remembered(life: Life, history: History, period: int) -> History:
    """Return the history with this life in it, and without restarts of another period."""
    quick = history.quick + 1 if life.quick else 0 if life.ended - life.began >= HEALTHY else history.quick
    # Another cause of the end is no progress, so it resets nothing.
    stalls = (0 if life.progressed else history.stalls) + (life.outcome == "stalled")
    error = normalised(life.error) if life.quick and life.outcome in FAILED else ""
    alike = (history.alike if error == history.error else 0) + 1 if error else 0
    recent = tuple(at for at in history.restarts if life.ended - at < period)
    return History(recent, quick, stalls, error, alike)


def decide(
    policy: str,
    life: Life,
    history: History,
    drawn: float,
    *,
    intensity: int = INTENSITY,
    period: int = PERIOD,
    alike: int = 0,
) -> Decision:
    """Return what follows this life. `intensity` 0 sets no bound to restarts, `alike` 0 none to failures alike."""
    if not wanted(policy, life):
        return Decision(STAY, history, why=life.outcome)
    memory = remembered(life, history, period)
    if why := _spent(memory, intensity, alike):
        return Decision(GAVE_UP, memory, why=why)
    memory.restarts = (*memory.restarts, life.ended) if intensity else ()
    return Decision(RESPAWN, memory, backoff(memory.quick, drawn) if life.quick else 0)


def _spent(memory: History, intensity: int, alike: int) -> str:
    """Return what is spent; empty where it may go on."""
    if memory.stalls > STALLS:
        return STALLED
    if alike and memory.alike >= alike:
        return ALIKE_FAILED
    if intensity and len(memory.restarts) >= intensity:
        return OVER_BUDGET
    return TOO_QUICK if intensity and memory.quick > max(QUICK_LIVES, intensity) else ""
