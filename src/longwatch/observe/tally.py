"""What one agent has used in one run: tokens, and what they cost as far as it says."""

from longwatch.observe.dialects.calls import MOST
from longwatch.observe.events import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: Tokens of the input, of the output and from a cache, and USD.
    Numbers = tuple[float, float, float, float]

_NOTHING = (0.0, 0.0, 0.0, 0.0)


class Tally:
    """Counts each reply once, with the largest numbers that were told of it, wherever that was."""

    __slots__ = ("_replies", "cached_tokens", "cost_usd", "input_tokens", "output_tokens")

    def __init__(self) -> None:
        self.input_tokens = self.output_tokens = self.cached_tokens = 0
        #: What it has cost; None while the agent has not said.
        self.cost_usd: float | None = None
        self._replies: dict[str, Numbers] = {}

    @property
    def total_tokens(self) -> int:
        """All tokens, those from a cache too."""
        return self.input_tokens + self.output_tokens + self.cached_tokens

    def add(self, used: Usage) -> bool:
        """Count what is new in this; return whether anything is."""
        told = (used.input_tokens, used.output_tokens, used.cached_tokens, used.cost_usd or 0.0)
        before = self._known(used.message, told)
        given, output, cached, cost = (max(0, new - old) for new, old in zip(told, before, strict=True))
        self.input_tokens += int(given)
        self.output_tokens += int(output)
        self.cached_tokens += int(cached)
        if cost:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        return bool(given or output or cached or cost)

    def as_dict(self) -> "dict[str, Any]":
        """Return the form for JSON."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "total_tokens": self.total_tokens,
            "cost_usd": None if self.cost_usd is None else round(self.cost_usd, 6),
        }

    def _known(self, message: str, told: "Numbers") -> "Numbers":
        """Return what was known of a reply, and keep the larger numbers; the oldest replies are forgotten."""
        if not message:
            return _NOTHING
        before = self._replies.pop(message, _NOTHING)
        given, output, cached, cost = map(max, told, before)
        self._replies[message] = (given, output, cached, cost)
        if len(self._replies) > MOST:
            del self._replies[next(iter(self._replies))]
        return before
