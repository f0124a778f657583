"""What is to be said of one harness: the words, and what programs read of them."""

from longwatch.core.record import Plain
from longwatch.units import ago

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.notify.incidents import Incident


class Word(Plain):
    """One thing that happened to one harness (empty: to the daemon itself).

    `what` follows the name (`gave up`), `detail` follows that (`after 5 restarts in 10m`), `many` is said of several
    at once. `hint` is a verb of ours. `opens`: its end is told, too. `key` is
    what the cooldown knows it by, `episode` what tells the same trouble from the next one.
    """

    __slots__ = (
        "cause", "count", "detail", "episode", "event", "exit_code", "harness", "hint", "idle_ms", "key", "many",
        "opens", "restarts", "run", "state", "tool", "tree", "what",
    )  # fmt: skip

    def __init__(
        self, event: str, harness: str, what: str, *, many: str = "", detail: str = "", cause: str = "", hint: str = "",
        state: str = "", run: str = "", exit_code: int | None = None, restarts: int | None = None, tool: str = "",
        count: int | None = None, idle_ms: int | None = None, tree: tuple[str, ...] = (), opens: bool = False,
        key: str = "", episode: str = "",
    ) -> None:  # fmt: skip
        self.event = event
        self.harness = harness
        self.what = what
        self.many = many or what
        self.detail = detail
        self.cause = cause
        self.hint = hint
        self.state = state
        self.run = run
        self.exit_code = exit_code
        self.restarts = restarts
        self.tool = tool
        self.count = count
        self.idle_ms = idle_ms
        self.tree = tree
        self.opens = opens
        self.key = key or event
        self.episode = episode or run

    def take_over(self, lesser: "Word") -> None:
        """Keep what was known of a lesser trouble that this one stands for."""
        self.opens = self.opens or lesser.opens
        for name in ("run", "cause", "tree", "tool", "exit_code", "restarts", "count", "idle_ms"):
            if getattr(self, name) in (None, "", ()):
                setattr(self, name, getattr(lesser, name))

    @classmethod
    def end(cls, event: str, harness: str, incident: "Incident", at: int) -> "Word":
        """Return what is said when a trouble is over."""
        lasted = ago(at - incident.since)
        what, many = _ENDS.get(incident.event, ("is well again", "are well again"))
        unheard = "" if incident.told is not False else "the notice of it could not be delivered"
        return cls(
            event, harness, what, many=many, detail=f"after {lasted} ({_HAD[incident.event]})", cause=unheard
        )


_ENDS = {"parked": ("goes on", "go on"), "ledger": ("is written again", "is written again")}
_HAD = {
    "flapping": "it was flapping", "limit": "a limit was reached", "stalled": "it had stalled",
    "failed": "it had failed", "gave_up": "it had been given up", "parked": "a usage limit held it",
    "ledger": "it could not be written",
}  # fmt: skip
