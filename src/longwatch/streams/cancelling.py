"""How a pending read is made to end, under asyncio and under trio, and whose cancellation it was.

asyncio counts: whoever cancels a task takes his request back when it is served (`uncancel`), and a count that stays
above what it was is somebody else's. Somebody else's wins, also at the same moment. A source that swallows its
cancellation is cancelled again, and then its awaitable is closed under it, which no `except CancelledError` survives:
so the task that waits gets free.

trio has all of that in a scope around the read, which never spans more than the read.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any, Self

from longwatch.streams.loops import running_trio
from longwatch.streams.pulse import Pulse

#: Where coroutines, async generators and generators tell what they wait for.
_AWAITED = ("cr_await", "ag_await", "gi_yieldfrom")
#: After its cancellation a source gets this long, in seconds, before it is left behind.
HEED = 1.0


class Cancelled(Exception):
    """Our own scope ended a read; nobody outside ever sees it."""


class Request:
    """Our cancellations of one asyncio task, and how to tell them from others."""

    __slots__ = ("_before", "_task", "times")

    def __init__(self, task: "asyncio.Task[Any]", before: int) -> None:
        self._task = task
        # What is counted now and was not when the read began is somebody else's, and on its way.
        self._before = min(before, task.cancelling())
        self.times = 0

    def cancel(self) -> None:
        """Cancel whatever the task waits for."""
        self.times += 1
        self._task.cancel()

    def abandon(self, awaited: Any) -> None:
        """End what the task awaits under its feet, and wake it."""
        close(awaited)
        self.cancel()

    def served(self) -> bool:
        """Take our requests back; return whether somebody else's is left."""
        left = 0
        for _ in range(self.times):
            left = self._task.uncancel()
        return left > self._before


def awaited_in(task: "asyncio.Task[Any]", pulse: Pulse) -> Any:
    """Return what the pending read of a stream awaits; None where it is not found.

    To keep it at every read would cost each of them, so it is looked for where it is needed: down from the task, from
    each coroutine to what it awaits, until the read's own frame, which knows its pulse.
    """
    found: Any = None
    here: Any = task.get_coro()
    while here is not None:
        frame = getattr(here, "cr_frame", None)
        if frame is not None and frame.f_locals.get("pulse") is pulse:
            found = here.cr_await
        here = _below(here)
    return found


def _below(awaiting: Any) -> Any:
    """Return what a coroutine or a generator waits for; what only wraps one refers to it."""
    for name in _AWAITED:
        if hasattr(awaiting, name):
            return getattr(awaiting, name)
    parts = gc.get_referents(awaiting)
    return next((part for part in parts if any(hasattr(part, name) for name in _AWAITED)), None)


def close(awaited: Any) -> None:
    """Close an awaitable that is suspended somewhere, as far as it lets itself be closed."""
    try:
        awaited.close()
    except (AttributeError, RuntimeError):
        # A future has nothing to close; a coroutine that swallows even its own exit cannot be ended by anybody.
        return


class AsyncioReading:
    """Reads of asyncio tasks."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._request: Request | None = None
        self._before: tuple[Any, int] = (None, 0)
        pulse.loop = asyncio.get_running_loop()
        self.who = _who()

    def cancel(self) -> None:
        """Cancel the task that waits in the read."""
        if self._request is None:
            task, before = self._before
            reader = self._pulse.reader
            self._request = Request(reader, before if reader is task else 0)
        self._request.cancel()

    def abandon(self) -> None:
        """Leave the read behind."""
        assert self._request is not None
        self._request.abandon(awaited_in(self._pulse.reader, self._pulse))

    def remember(self) -> None:
        """Note how often the task is cancelled now, while it runs: none of that is on its way."""
        task = self._pulse.reader
        if task is not None:
            self._before = task, task.cancelling()

    def served(self, error: BaseException | None) -> tuple[bool, bool]:
        """A read is over: return whether we had cancelled it, and whether somebody else has."""
        request, self._request = self._request, None
        if request is None:
            return False, isinstance(error, asyncio.CancelledError)
        return True, request.served()


class TrioReading:
    """Reads in a trio run. It stands for the source: each of its reads has a scope of its own."""

    def __init__(self, pulse: Pulse, trio: Any) -> None:
        self._cancelled_by_trio = trio.Cancelled
        self._new_scope = trio.CancelScope
        self._source = pulse.source
        self._scope: Any = None
        self._cancelled = False
        pulse.source = self
        #: Nobody: it is scopes that are cancelled, not tasks. It is asked at each read, and this is what costs least.
        self.who: Callable[[Any], Any] = bool

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        with self._new_scope() as self._scope:
            return await anext(self._source)
        raise Cancelled

    def cancel(self) -> None:
        """End the read's scope: every checkpoint in it raises from now on."""
        self._cancelled = True
        self._scope.cancel()

    def abandon(self) -> None:
        """Do nothing more: a scope stays cancelled, and trio lets nobody leave a task's wait for it."""

    def remember(self) -> None:
        """Note nothing: scopes do not mix."""

    def served(self, error: BaseException | None) -> tuple[bool, bool]:
        """A read is over: return whether we had cancelled it, and whether somebody else has."""
        return self._cancelled, isinstance(error, self._cancelled_by_trio)


AsyncReading = AsyncioReading | TrioReading


def reading_here(pulse: Pulse) -> AsyncReading:
    """Return who cancels reads under the loop that runs us."""
    trio = running_trio()
    return AsyncioReading(pulse) if trio is None else TrioReading(pulse, trio)


def _who() -> Callable[[Any], Any]:
    """Return what tells the current task of a loop.

    It is asked at every read, and `current_task` is slower than the dictionary that it looks into: five times as
    slow in 3.11, where it is Python code, and by a tenth of a whole read later. From 3.14 on there is none.
    """
    tasks: Any = getattr(asyncio.tasks, "_current_tasks", None)
    return tasks.get if isinstance(tasks, dict) else asyncio.current_task


def is_cancellation(error: BaseException | None) -> bool:
    """Whether somebody cancels us; trio's class is not an asyncio one, and is no Exception either."""
    return isinstance(error, asyncio.CancelledError) or type(error).__module__.partition(".")[0] == "trio"


async def within(seconds: float, job: Callable[[], Awaitable[object]]) -> bool:
    """Await something in this task, so long at most; return whether it was over. A cancellation goes through.

    What does not heed its cancellation is left behind. Under trio it is shielded; asyncio delivers a cancellation
    once, so what is awaited after it runs.
    """
    trio = running_trio()
    if trio is not None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            await job()
        return not scope.cancelled_caught
    return await _within_asyncio(seconds, _as_coroutine(job))


async def _as_coroutine(job: Callable[[], Awaitable[object]]) -> None:
    await job()


async def _within_asyncio(seconds: float, awaited: Any) -> bool:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    request = Request(task, task.cancelling())
    timers = [
        loop.call_later(seconds, request.cancel),
        loop.call_later(seconds + HEED, request.abandon, awaited),
    ]
    try:
        await awaited
    except BaseException as error:
        if request.times and request.served():
            raise asyncio.CancelledError from None
        if request.times and (isinstance(error, asyncio.CancelledError) or request.times > 1):
            return False
        raise
    else:
        request.served()
        return True
    finally:
        for timer in timers:
            timer.cancel()


__all__ = ["AsyncReading", "Cancelled", "is_cancellation", "reading_here", "within"]
