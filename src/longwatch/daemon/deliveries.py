"""Deliveries of webhooks over time: how many a minute, and which were taken in before."""

from collections import OrderedDict, deque

from longwatch.posix import wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Keep = Callable[[dict[str, Any], Callable[[], object]], object]

_MINUTE = 60_000
#: How long a delivery is remembered, in ms: longer than a signed one can be sent again, which is twice 300 s.
REMEMBERED = 15 * _MINUTE
MOST_REMEMBERED = 4096


class Rate:
    """How many deliveries a minute are taken: verified ones count, so that nobody else can use them up."""

    __slots__ = ("_limit", "_taken")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: deque[int] = deque()

    def wait(self, now: int) -> int:
        """Take one in and return 0, or return in how many ms the next one is taken. `now` is ms of any clock."""
        while self._taken and now - self._taken[0] >= _MINUTE:
            self._taken.popleft()
        if len(self._taken) >= self._limit:
            return _MINUTE - (now - self._taken[0])
        self._taken.append(now)
        return 0


class Deliveries:
    """Which deliveries were taken in: senders send again what they got no answer for, others what they overheard.

    `told` is what an earlier daemon had kept; `keep(told, done)` keeps it for the next one, and calls `done` then.
    """

    __slots__ = ("_keep", "_seen")

    def __init__(self, told: "dict[str, Any] | None" = None, keep: "Keep" = lambda _, done: done()) -> None:
        self._keep = keep
        self._seen: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        offset = wall_of(0)
        for entry in _entries(told or {}):
            harness, trigger, delivery, wall = entry
            self._seen[harness, trigger, delivery] = wall - offset

    def settled(self, done: "Callable[[], object]") -> None:
        """What was taken in has come to something: `done` is called when the next daemon will know it too."""
        offset = wall_of(0)
        self._keep({"taken": [[*key, at + offset] for key, at in self._seen.items()]}, done)

    def known(self, harness: str, trigger: str, delivery: str, now: int) -> bool:
        """Return whether it was taken in before; if not, it is now. `now` is ms of the boot clock."""
        while self._seen and now - next(iter(self._seen.values())) >= REMEMBERED:
            self._seen.popitem(last=False)
        key = (harness, trigger, delivery)
        if key in self._seen:
            return True
        if len(self._seen) >= MOST_REMEMBERED:
            self._seen.popitem(last=False)
        self._seen[key] = now
        return False

    def forget(self, harness: str, trigger: str, delivery: str) -> None:
        """It came to nothing: the next attempt is as good as the first."""
        self._seen.pop((harness, trigger, delivery), None)


def _entries(told: "dict[str, Any]") -> "list[list[Any]]":
    """Return those entries of a file that are what they should be, oldest first."""
    found = told.get("taken")
    good = [entry for entry in found if _is_entry(entry)] if isinstance(found, list) else []
    return sorted(good, key=lambda entry: int(entry[3]))[-MOST_REMEMBERED:]


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 4
        and all(isinstance(part, str) for part in entry[:3])
        and isinstance(entry[3], int)
    )
