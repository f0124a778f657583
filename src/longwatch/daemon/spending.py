"""What the runs of each harness have used since this daemon began, and what they cost, told to the budgets of a day.

Nothing is priced here: what no agent states costs nothing. A run that goes on is counted as far as it has told, and
what is new at its end when it is over; so is one that another daemon has counted a part of.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.admission import Admission
    from longwatch.core.harness import Harness


class Spending:
    """Of all harnesses. `day` is which one it is for a harness, `changed` is called when more was spent."""

    def __init__(
        self, admission: "Admission", day: "Callable[[Harness], str]", changed: "Callable[[], object]"
    ) -> None:
        self._admission = admission
        self._day = day
        self._changed = changed
        #: Tokens and USD of runs that are over, by harness; there is an entry once an agent has told anything.
        self._over: dict[str, tuple[int, float | None]] = {}

    def costs(self, harness: "Harness", run: str, usd: float) -> None:
        """A run has cost so much by now."""
        if self._admission.costs(harness.name, run, usd, self._day(harness)):
            self._changed()

    def closed(self, harness: "Harness", record: "Mapping[str, Any]") -> None:
        """A run is over; its record has what its agent told of it."""
        usage = (record.get("agent") or {}).get("usage")
        if not usage:
            return
        if usage["cost_usd"] is not None:
            self.costs(harness, str(record.get("run")), usage["cost_usd"])
        self._over[harness.name] = self._with(harness.name, usage)

    def drop(self, name: str) -> None:
        """A harness is gone from the file."""
        self._over.pop(name, None)

    def sample(self, name: str, agent: "Mapping[str, Any] | None") -> "dict[str, float]":
        """Return for the metrics what its runs have used, that of the one that goes on (`agent`) too."""
        usage = None if agent is None else agent["usage"]
        if usage is None and name not in self._over:
            return {}
        tokens, usd = self._over[name] if usage is None else self._with(name, usage)
        return {"tokens": tokens} if usd is None else {"tokens": tokens, "cost_usd": usd}

    def _with(self, name: str, usage: "Mapping[str, Any]") -> tuple[int, float | None]:
        tokens, usd = self._over.get(name, (0, None))
        more = usage["cost_usd"]
        return tokens + usage["total_tokens"], usd if more is None else (usd or 0.0) + more
