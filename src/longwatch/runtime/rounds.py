"""The rounds of guarded streams, thousands in one event loop: how the one timer is set under asyncio and under trio.

Whoever reads a stream is woken by the stream itself; all that is left for a host is time. See `seats`.
"""

import asyncio
import sys

from longwatch.runtime.seats import Rounds, Seat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AsyncioRounds(Rounds):
    """The rounds of one asyncio loop; they hold the loop only while somebody is in them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, instant: int | None) -> None:
        """Set the timer of the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if instant is None:
            _OF_LOOP.pop(self._loop, None)
        elif not self._loop.is_closed():
            self._timer = self._loop.call_later(max(0, instant - self.clock()) / 1000, self.step)


class TrioRounds(Rounds):
    """The rounds of one trio run, in a system task: it lives while somebody is in them, and never holds up the run."""

    def __init__(self, trio: "Any") -> None:
        super().__init__()
        self._trio = trio
        self._sleep: Any = None

    def arm(self, instant: int | None) -> None:
        """Move the deadline of the sleeping task; start one if there is none."""
        if instant is None:
            if self._sleep is not None:
                self._sleep.cancel()
            return
        if self._sleep is not None:
            self._sleep.deadline = self._when(instant)
            return
        self._sleep = self._trio.CancelScope(deadline=self._when(instant))
        self._trio.lowlevel.spawn_system_task(self._walk, name="longwatch.rounds")

    def _when(self, instant: int) -> float:
        return float(self._trio.current_time() + max(0, instant - self.clock()) / 1000)

    async def _walk(self) -> None:
        while self._seats:
            with self._sleep:
                await self._trio.sleep_forever()
            if not self._seats:
                break
            # One scope a sleep: a cancelled one stays cancelled.
            self._sleep = self._trio.CancelScope()
            self.step()
        self._sleep = None


#: One for each loop that has guarded streams now; the last one to leave takes the entry with it.
_OF_LOOP: "dict[asyncio.AbstractEventLoop, AsyncioRounds]" = {}
_OF_RUN: "list[Any]" = []


def rounds_here() -> Rounds:
    """Return the rounds of the loop that runs us. Raises RuntimeError when none does."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return _of_trio(trio)
    loop = asyncio.get_running_loop()
    if loop not in _OF_LOOP:
        _OF_LOOP[loop] = AsyncioRounds(loop)
    return _OF_LOOP[loop]


def _of_trio(trio: "Any") -> Rounds:
    if not _OF_RUN:
        _OF_RUN.append(trio.lowlevel.RunVar("longwatch.rounds"))
    variable = _OF_RUN[0]
    try:
        return variable.get()  # type: ignore[no-any-return]
    except LookupError:
        rounds = TrioRounds(trio)
        variable.set(rounds)
        return rounds


__all__ = ["AsyncioRounds", "Rounds", "Seat", "TrioRounds", "rounds_here"]
