"""What can be told of a harness while nobody looks: the closed table of notices, and the bounds of `[notify]`.

Read by the configuration, which refuses any other name, by the part that tells them, and by the reference.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE, SECOND


class Notice(Plain):
    """One event: whether it is told unless `events` says otherwise, and when it happens."""

    __slots__ = ("default", "meaning")

    def __init__(self, meaning: str, *, default: bool = True) -> None:
        self.meaning = meaning
        self.default = default


EVENTS = {
    "failed": Notice(
        "It cannot be started, was refused by its provider or has spent its budget; a human must act."
    ),
    "flapping": Notice(
        "It ended soon after its start several times in a row; longwatch goes on, more slowly."
    ),
    "gave_up": Notice("It ended too often; only a human starts it again."),
    "stalled": Notice("No successful call for the whole stall window; also that restarts did not help."),
    "limit": Notice("Another limit with the action notify was reached."),
    "loop_stopped": Notice("It made the same call again and again, and was stopped."),
    "run_failed": Notice("A scheduled or triggered run ended badly.", default=False),
    "intent_lost": Notice(
        "Whether it is wanted could not be written down; a new daemon may decide otherwise."
    ),
    "parked": Notice("A provider's usage limit holds it until the stated time."),
    "unparked": Notice("That limit is over; told only where parked was."),
    "asked": Notice("An agent asks a question and waits for the answer."),
    "unkillable": Notice("Some of its processes did not end, even by KILL."),
    "recovered": Notice("It is well again; told only where the trouble was."),
    "ledger": Notice("The record of runs cannot be written."),
    "late": Notice("The supervisor itself was held up for 10 s or more.", default=False),
    "test": Notice("Asked for by longwatch doctor --notify-test; always told."),
}
#: What is told when the file does not choose.
DEFAULT = tuple(name for name, notice in EVENTS.items() if notice.default)

#: How long a channel may take for one notice: built-in, least, most.
TIMEOUT, LEAST_TIMEOUT, MOST_TIMEOUT = 15 * SECOND, 1 * SECOND, 5 * MINUTE
#: How long the same event of the same harness is not told again.
COOLDOWN, MOST_COOLDOWN = 15 * MINUTE, 24 * HOUR
#: How often somebody else is told that we live.
DEAD_MAN, LEAST_DEAD_MAN = 5 * MINUTE, 10 * SECOND
