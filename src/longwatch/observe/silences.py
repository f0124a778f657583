"""The longest silences of an agent, each with what it was at: what makes a window too short or too long."""

from longwatch.core.record import Plain

WORKING, CALL, READY, ASKED, PAUSED = "working", "call", "ready", "asked", "paused"
#: So many are kept.
KEPT = 3


class Silence(Plain):
    """A span of `ms` without a record: the agent was `working`, `ready`, `asked`, `paused`, or in a `call` of `tool`."""

    __slots__ = ("ms", "state", "tool")

    def __init__(self, ms: int, state: str, tool: str = "") -> None:
        self.ms = ms
        self.state = state
        self.tool = tool


class Silences:
    """Collects them as the agent moves."""

    __slots__ = ("_longest", "_since")

    def __init__(self, since: int) -> None:
        self._longest: list[Silence] = []
        self._since = since

    def ended(self, at: int, state: str, tool: str = "") -> None:
        """The agent moved: until now it was in this state."""
        if at > self._since:
            self._longest = self.longest(at, state, tool)
            self._since = at

    def longest(self, now: int, state: str, tool: str = "") -> list[Silence]:
        """Return the longest ones, the longest first, with the one that lasts."""
        lasting = [Silence(now - self._since, state, tool)] if now > self._since else []
        return sorted([*self._longest, *lasting], key=lambda silence: -silence.ms)[:KEPT]
