"""Several turns, so many at a time: their results in the order in which they were given.

With `fail_fast` the first failure ends the wave: who runs is cancelled, who waits is never opened; both are results
like any other. Nobody is left out, and each turn's hooks run once, whether its turn came or not.
"""

import os
import warnings
from collections import deque
from collections.abc import Mapping, Sequence

from longwatch.errors import UsageError
from longwatch.options import from_environment
from longwatch.posix import now
from longwatch.streams.ends import CANCELLED, FAILED, SUCCEEDED, TurnResult
from longwatch.streams.graph import CASCADE
from longwatch.streams.handle import Turn
from longwatch.streams.loops import together
from longwatch.streams.trace import Child, Trace

WIDTH = "LONGWATCH_GUARD_WIDTH"


async def wave(
    turns: Sequence[Turn],
    *,
    width: int | None = None,
    fail_fast: bool = True,
    trace: Trace | Child | None = None,
) -> list[TurnResult]:
    """Run all turns, at most `width` at once (None: LONGWATCH_GUARD_WIDTH, else 8; below 1 it is 1).

    Raises UsageError for a name that comes twice and for a turn that cannot begin: it runs already, or its parent is
    not linked. Not raised for turns that fail. When the caller is cancelled, so are all turns.
    """
    names: set[str] = set()
    for turn in turns:
        if turn.name in names:
            raise UsageError(f"two turns of the wave are called {turn.name!r}; give each a name of its own")
        names.add(turn.name)
    return await _Wave(turns, max(1, default_width() if width is None else width), fail_fast).run(trace)


def default_width(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many turns run at once where nobody says; a variable that is wrong warns, and 8 holds."""
    values = from_environment({name: text for name, text in environ.items() if name == WIDTH}, "guard")
    for line in values.warnings:
        warnings.warn(f"longwatch: {line}", stacklevel=3)
    return int(values.width)


class _Wave:
    def __init__(self, turns: Sequence[Turn], width: int, fail_fast: bool) -> None:
        self._width = width
        self._fail_fast = fail_fast
        self._results: dict[str, TurnResult] = {}
        self._order = list(turns)
        self._queue = deque(turns)
        self._running: list[Turn] = []
        self._stopped = ""
        self._fault: Exception | None = None

    async def run(self, trace: Trace | Child | None) -> list[TurnResult]:
        began = now()
        if trace is not None:
            trace.emit("wave_started", tasks=len(self._order), width=self._width, fail_fast=self._fail_fast)
        try:
            await together([self._work] * min(self._width, len(self._order)))
        except GeneratorExit:
            raise  # thrown away: nothing can be awaited any more
        except BaseException:
            await self._skip_all("the wave is cancelled")
            raise
        finally:
            if trace is not None:
                counts = {status: self._count(status) for status in (SUCCEEDED, FAILED, CANCELLED)}
                trace.emit("wave_ended", duration_ms=max(0, now() - began), **counts)
        if self._fault is not None:
            raise self._fault
        return [self._results[turn.name] for turn in self._order]

    async def _work(self) -> None:
        """Take one turn after the other, until none waits."""
        while self._queue:
            turn = self._queue.popleft()
            try:
                result = self._results[turn.name] = await self._one(turn)
            except Exception as error:  # noqa: BLE001 - a turn that cannot begin; the others are told first
                self._fault = self._fault or error
                self._stop(f"turn {turn.name} could not begin")
            else:
                if self._fail_fast and result.status == FAILED:
                    self._stop(f"turn {turn.name} failed")

    async def _one(self, turn: Turn) -> TurnResult:
        if self._stopped:
            return await turn.skip(self._stopped)
        self._running.append(turn)
        try:
            return await turn.run()
        finally:
            self._running.remove(turn)

    def _stop(self, why: str) -> None:
        if not self._stopped:
            self._stopped = why
            for turn in list(self._running):
                turn.cancel(why, CASCADE)

    async def _skip_all(self, why: str) -> None:
        while self._queue:
            turn = self._queue.popleft()
            self._results[turn.name] = await turn.skip(why)

    def _count(self, status: str) -> int:
        return sum(result.status == status for result in self._results.values())


__all__ = ["WIDTH", "default_width", "wave"]
