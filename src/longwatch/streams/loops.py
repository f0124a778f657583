"""What turns need of an event loop, under asyncio and trio alike: wait, be cancelled from outside, run together.

A coroutine finds out by itself which of the two runs it. trio is never imported here: a program that runs under it
has done so.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

#: What is awaited while the host goes away gets this long, in seconds, as whatever else was told to stop.
LAST = 5.0


def running_trio() -> Any:
    """Return the trio module if a trio loop runs us, else None."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


async def sleep(seconds: float) -> None:
    """Sleep, and let others run."""
    trio = running_trio()
    await (asyncio.sleep(seconds) if trio is None else trio.sleep(seconds))


class Signal:
    """Set once, from any thread; awaited by one coroutine of the loop in which it was made."""

    def __init__(self) -> None:
        trio = running_trio()
        self._trio = trio
        self._event = asyncio.Event() if trio is None else trio.Event()
        self._soon: Callable[..., object] = (
            asyncio.get_running_loop().call_soon_threadsafe
            if trio is None
            else trio.lowlevel.current_trio_token().run_sync_soon
        )

    def set(self) -> None:
        """Wake who waits. No error when the loop is gone."""
        try:
            self._soon(self._event.set)
        except RuntimeError:  # trio's RunFinishedError is one, too
            return

    async def wait(self, seconds: float) -> bool:
        """Wait for it, so long at most; return whether it was set."""
        if self._trio is not None:
            with self._trio.move_on_after(seconds):
                await self._event.wait()
            return bool(self._event.is_set())
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Scope:
    """A block that can be left early: `cancel` ends whatever it awaits, and the code after the block goes on.

    `caught` tells afterwards whether it was left so. A cancellation that came from elsewhere goes through. Only the
    loop's own thread may cancel.
    """

    def __init__(self) -> None:
        self.called = False
        self.caught = False
        self._trio_scope: Any = None
        self._task: asyncio.Task[Any] | None = None
        self._before = 0

    async def __aenter__(self) -> Self:
        trio = running_trio()
        if trio is not None:
            self._trio_scope = trio.CancelScope()
            self._trio_scope.__enter__()
        else:
            self._task = asyncio.current_task()
            assert self._task is not None
            self._before = self._task.cancelling()
        if self.called:
            self._cancel()
        return self

    def cancel(self) -> None:
        """Leave the block, or never begin to wait in it. Again, and after its end, this does nothing."""
        if not self.called:
            self.called = True
            self._cancel()

    def _cancel(self) -> None:
        if self._trio_scope is not None:
            self._trio_scope.cancel()
        elif self._task is not None:
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._trio_scope is not None:
            scope, self._trio_scope = self._trio_scope, None
            swallowed = bool(scope.__exit__(kind, error, trace))
            self.caught = swallowed and bool(scope.cancelled_caught)
            return swallowed
        return await self._leave_asyncio(kind)

    async def _leave_asyncio(self, kind: type[BaseException] | None) -> bool:
        task, self._task = self._task, None
        if task is None or not self.called:
            return False
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        late = not cancelled and await _pending_cancellation()
        if task.uncancel() > self._before:
            # Somebody else cancels, too: theirs goes through.
            if late:
                raise asyncio.CancelledError
            return False
        self.caught = cancelled or (late and kind is None)
        return cancelled


async def _pending_cancellation() -> bool:
    """Take a cancellation that was asked for and not delivered yet, so that it does not hit the code after us."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return True
    return False


async def together(jobs: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run all, and return when all are over; an error of one cancels the others and is raised."""
    trio = running_trio()
    if trio is not None:
        async with trio.open_nursery() as nursery:
            for job in jobs:
                nursery.start_soon(job)
        return
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(_awaited(job))


async def _awaited(job: Callable[[], Awaitable[object]]) -> None:
    await job()


async def shielded(job: Callable[[], Awaitable[object]], seconds: float = LAST) -> bool:
    """Await something although the host is going away, but no longer than that; return whether it was over.

    asyncio delivers a cancellation once, so what is awaited after it runs; trio delivers it at every checkpoint.
    """
    trio = running_trio()
    if trio is not None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            await job()
        return not scope.cancelled_caught
    try:
        async with asyncio.timeout(seconds) as limit:
            await job()
    except TimeoutError:
        if limit.expired():
            return False
        raise
    return True
