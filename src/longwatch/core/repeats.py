"""The same call again: an observe-only detector, and an enforcing latch.

The detector catches interleaved loops: enough equal fingerprints within the last few, told once each. The
latch counts only consecutive ones, and whoever holds it acts. Both count call *and* result where a result is
seen: a repeated question with a changing answer is polling, not a loop.
"""

from longwatch.core.record import Plain

#: Five equal of the last twenty: what an interleaved loop reaches soon and real work hardly ever does.
SUSPECT_COUNT, SUSPECT_WINDOW = 5, 20
#: Eight in a row: an agent retries a failing call a few times before it changes its mind.
LATCH_COUNT = 8


class Suspicion(Plain):
    """The detector's finding."""

    __slots__ = ("count", "fingerprint", "window")

    def __init__(self, fingerprint: str, count: int, window: int) -> None:
        self.fingerprint = fingerprint
        self.count = count
        self.window = window


def canonical(value: object) -> str:
    """Return a text that is equal for equal arguments: keys sorted at every depth, order of lists kept."""
    if isinstance(value, dict):
        items = sorted((str(key), canonical(item)) for key, item in value.items())
        return "{" + ",".join(f"{key!r}:{item}" for key, item in items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    return repr(value)


def fingerprint(tool: str, arguments: object, result: object = None) -> str:
    """Return the identity of a call: tool, arguments and (where seen) result."""
    return f"{tool}\x1f{canonical(arguments)}\x1f{canonical(result)}"


class Detector:
    """Tells once per fingerprint and turn that it came `count` times within the last `window`."""

    def __init__(self, count: int = SUSPECT_COUNT, window: int = SUSPECT_WINDOW) -> None:
        self.count = count
        self.window = window
        self._recent: list[str] = []
        self._told: set[str] = set()

    def saw(self, mark: str) -> Suspicion | None:
        """Note a call; return a suspicion the first time its count is reached."""
        self._recent = [*self._recent, mark][-self.window :]
        count = self._recent.count(mark)
        if count < self.count or mark in self._told:
            return None
        self._told.add(mark)
        return Suspicion(mark, count, self.window)

    def new_turn(self) -> None:
        """A new turn starts with a clean window."""
        self._recent.clear()
        self._told.clear()


class Latch:
    """Counts equal calls in a row; a different call, a user's message or a new session resets it."""

    def __init__(self, count: int = LATCH_COUNT) -> None:
        self.count = count if count >= 2 else LATCH_COUNT
        self._mark: str | None = None
        self._run = 0

    def saw(self, mark: str) -> bool:
        """Note a call; return whether the latch has closed (it stays closed until another call comes)."""
        self._run = self._run + 1 if mark == self._mark else 1
        self._mark = mark
        return self._run >= self.count

    def reset(self) -> None:
        """Something else happened."""
        self._mark, self._run = None, 0
