"""The same call again: an observe-only detector, and latches that close.

The detector catches interleaved loops: enough equal marks within the last few, told once each. A latch counts in
a row, and whoever holds it acts. All count call *and* result where a result is seen: a repeated question with a
changing answer is polling, not a loop.
"""

from longwatch.core.record import Plain

#: Five equal of the last twenty: what an interleaved loop reaches soon and real work hardly ever does.
SUSPECT_COUNT, SUSPECT_WINDOW = 5, 20
#: Eight in a row: an agent retries a failing call a few times before it changes its mind.
LATCH_COUNT = 8
#: The third identical failure teaches nothing new. (Of refusals by a human five are a no: `Failures(5)`.)
FAILURE_COUNT = 3
#: Arguments that say how long to wait, not what to do: the same call with another one is the same call.
WAITING = frozenset(("timeout", "timeout_ms", "timeout_s", "timeout_seconds", "timeout_sec", "wait_ms"))


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
    """Return the mark of a call: tool, arguments and (where seen) result, in a few bytes however long they are.

    It is good within this process only. Raises nothing: what cannot be read (it contains itself, its text fails)
    is told apart by its identity, so it equals nothing but itself.
    """
    try:
        said = f"{canonical(arguments)}\x1f{canonical(result)}"
    except Exception:  # noqa: BLE001 - somebody else's object
        said = f"{id(arguments)}\x1f{id(result)}"
    return f"{tool}\x1f{hash(said):x}"


def without_waiting(arguments: object) -> object:
    """Return arguments without those that only say how long to wait."""
    if not isinstance(arguments, dict):
        return arguments
    return {key: value for key, value in arguments.items() if str(key).lower() not in WAITING}


class Detector:
    """Tells once per mark and turn that it came `count` times within the last `window`."""

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
        self.run = 0
        self._mark: str | None = None

    def saw(self, mark: str) -> bool:
        """Note a call; return whether the latch has closed (it stays closed until another call comes)."""
        self.run = self.run + 1 if mark == self._mark else 1
        self._mark = mark
        return self.run >= self.count

    def reset(self) -> None:
        """Something else happened."""
        self._mark, self.run = None, 0


class Failures:
    """Refuses a call that has failed, or was denied, in the same way too often. For whoever runs the tools.

    Calls are compared without their timeouts: trying the same with more patience is the same try. A success of the
    call clears its count; other calls do not.
    """

    def __init__(self, count: int = FAILURE_COUNT) -> None:
        self.count = count
        self._failed: dict[str, int] = {}

    def refuses(self, tool: str, arguments: object) -> bool:
        """Return whether the call has failed so often that it should not be made again."""
        return self._failed.get(self._mark(tool, arguments), 0) >= self.count

    def ended(self, tool: str, arguments: object, *, ok: bool) -> None:
        """Note how a call ended."""
        mark = self._mark(tool, arguments)
        if ok:
            self._failed.pop(mark, None)
        else:
            self._failed[mark] = self._failed.get(mark, 0) + 1

    def reset(self) -> None:
        """A human spoke: every call may be tried again."""
        self._failed.clear()

    @staticmethod
    def _mark(tool: str, arguments: object) -> str:
        return fingerprint(tool, without_waiting(arguments))
