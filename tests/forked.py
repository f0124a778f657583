"""Scripted streams for turns: what a fork says, where it breaks off, where it waits; under asyncio and trio alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from longwatch.observe.events import Event
from longwatch.streams.loops import running_trio
from longwatch.streams.trace import Trace, TraceEvent

#: A step of a script that never ends.
HANG = object()


def under_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function in an asyncio loop; what the loop has to complain of fails the test."""
    complaints: list[Any] = []

    async def listened() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        return await main()

    result = asyncio.run(listened())
    assert complaints == []
    return result


def under_trio(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function in a trio loop."""
    return trio.run(main)


LOOPS = pytest.mark.parametrize("loop", [under_asyncio, under_trio])


async def forever() -> None:
    """Wait for what never comes."""
    if running_trio() is not None:
        await trio.sleep_forever()
    await asyncio.Event().wait()


def event() -> Any:
    """Return an event of the loop that runs us."""
    return asyncio.Event() if running_trio() is None else trio.Event()


class Fork:
    """Opens scripted streams: one script for each opening, the last one again and again.

    A step is an event, an error to raise, HANG, or a coroutine function to await. `opened` and `closed` count.
    """

    def __init__(self, *scripts: list[Any]) -> None:
        self.scripts = scripts
        self.opened = self.closed = 0

    async def _play(self, script: list[Any]) -> AsyncIterator[Event]:
        try:
            for step in script:
                if step is HANG:
                    await forever()
                elif isinstance(step, Exception):
                    raise step
                elif isinstance(step, Event):
                    yield step
                else:
                    await step()
        finally:
            self.closed += 1

    def __call__(self) -> AsyncIterator[Event]:
        script = self.scripts[min(self.opened, len(self.scripts) - 1)]
        self.opened += 1
        return self._play(script)


class Log:
    """What a trace wrote, and what else the test notes, in one order."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.lines: list[str] = []
        self.trace = Trace(self._write)

    def _write(self, written: TraceEvent) -> None:
        self.events.append(written)
        self.lines.append(written.name)

    def note(self, line: str) -> None:
        """Note something that is no event."""
        self.lines.append(line)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of all events of that name."""
        return [written.fields for written in self.events if written.name == name]
