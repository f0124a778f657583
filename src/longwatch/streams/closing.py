"""The end of a guarded stream: its source is closed, then `on_close` is called; once, whatever happens meanwhile."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from longwatch.streams.cancelling import within
from longwatch.streams.loops import running_trio

#: A source gets this long, in seconds, to close itself, and so does `on_close`.
CLOSING = 5.0

Hook = Callable[[], object]


class Closing:
    """Closes one source. What hangs is left behind and told to `stuck`; what is raised goes to the caller."""

    def __init__(self, source: Any, on_close: Hook | None, stuck: Callable[[str], object]) -> None:
        self._source = source
        self._on_close = on_close
        self._stuck = stuck

    async def __call__(self) -> None:
        """Close. Who calls this calls it once."""
        source, self._source = self._source, None
        try:
            close = getattr(source, "aclose", None)
            if close is not None:
                await self._bounded("aclose() of the source", close)
        finally:
            if self._on_close is not None:
                await self._bounded("on_close", self._on_close)

    async def _bounded(self, what: str, call: Hook) -> None:
        answer = call()
        if inspect.isawaitable(answer) and not await within(CLOSING, lambda: answer):
            self._stuck(f"{what} did not end within {CLOSING:.0f}s and was left behind")

    def at_once(self) -> None:
        """Call `on_close` where nothing can be awaited any more."""
        answer = None if self._on_close is None else self._on_close()
        if inspect.iscoroutine(answer):
            answer.close()


class Later:
    """The loop in which a stream was read: there it is closed when its guard is thrown away."""

    def __init__(self) -> None:
        trio = running_trio()
        self._trio = trio
        self._loop: Any = asyncio.get_running_loop() if trio is None else trio.lowlevel.current_trio_token()

    def close(self, closing: Closing) -> None:
        """Close it soon; at once as far as it goes where the loop is gone. May be called from any thread."""
        try:
            if self._trio is None:
                self._loop.call_soon_threadsafe(self._start_task, closing)
            else:
                self._loop.run_sync_soon(self._trio.lowlevel.spawn_system_task, _quietly, closing)
        except RuntimeError:  # trio's RunFinishedError is one, too
            closing.at_once()

    def _start_task(self, closing: Closing) -> None:
        task = self._loop.create_task(closing())
        # The loop itself holds tasks weakly.
        task.add_done_callback(lambda _: closing)


async def _quietly(closing: Closing) -> None:
    """Close without anybody who could be told of an error."""
    try:
        await closing()
    except Exception as error:  # noqa: BLE001 - it would end the whole run of trio
        import warnings  # noqa: PLC0415

        warnings.warn(f"closing a stream that was thrown away: {error!r}", ResourceWarning, stacklevel=1)


__all__ = ["CLOSING", "Closing", "Hook", "Later"]
