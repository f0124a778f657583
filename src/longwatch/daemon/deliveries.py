"""Deliveries of webhooks over time: how many a minute, and which were taken in before."""

from collections import OrderedDict, deque

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
    """Which deliveries were taken in: senders send again what they got no answer for, others what they overheard."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def known(self, harness: str, trigger: str, delivery: str, now: int) -> bool:
        """Return whether it was taken in before; if not, it is now. `now` is ms of any clock."""
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
