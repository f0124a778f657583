"""What the tests of SDKs share: a guarded stream is played to its end, and everything that came of it is looked at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from longwatch.limits import Limits
from longwatch.observe import events as e
from longwatch.reached import LimitReached
from longwatch.streams import adapters
from longwatch.streams.guard import guard

# A window of silence that no healthy test double fills, and a budget of calls that only a hung one reaches.
SHORT = 0.3
#: Off but for what a test is about.
CALM: dict[str, Any] = {"idle": 30, "call": 30, "ceiling": 0, "soft": 0}


class Played(NamedTuple):
    """What became of a stream: the SDK's own events, what they mean, the text, the limit, tasks that were left."""

    yielded: list[Any]
    heard: list[e.Event]
    text: str | None
    error: LimitReached | None
    holds: list[dict[str, Any]]
    left: list[str]

    def of(self, kind: type[e.Event]) -> list[Any]:
        """Return the events of a kind."""
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def calls(self) -> dict[str, tuple[str, bool | None]]:
        """Return each call's tool, and whether it succeeded (None: it never ended)."""
        results = {event.call: event.ok for event in self.of(e.ToolResult)}
        return {event.call: (event.tool, results.get(event.call)) for event in self.of(e.ToolCalled)}


async def played(
    stream: AsyncIterator[Any], *, reader: Callable[[Any], Any] | None = None, until: type[e.Event] | None = None,
    on_close: Callable[[], Any] | None = None, **limits: Any,
) -> Played:  # fmt: skip
    """Guard a stream and read it, to its end, to a limit, or until an event of a kind was heard."""
    before = asyncio.all_tasks()
    heard: list[e.Event] = []
    readers: dict[str, Any] = {}

    def listening(event: Any) -> tuple[e.Event, ...]:
        read = reader or adapters.for_type(type(event), readers)
        assert read is not None, f"nothing reads {type(event)}"
        found = tuple(read(event))
        heard.extend(found)
        return found

    yielded, error, holds = [], None, []
    guarded = guard(stream, Limits(**CALM | limits), adapter=listening, on_close=on_close)
    try:
        async with guarded:
            async for event in guarded:
                yielded.append(event)
                holds += [hold for hold in guarded.snapshot()["holds"] if hold not in holds]
                if until and any(isinstance(one, until) for one in heard):
                    break
    except LimitReached as reached:
        error = reached
    left = await gone(before)
    return Played(yielded, heard, guarded.text, error, holds, left)


async def gone(before: set[asyncio.Task[Any]], rounds: int = 200) -> list[str]:
    """Return the names of tasks that came since and do not end; those that are ending get the time for it."""
    for _ in range(rounds):
        left = asyncio.all_tasks() - before
        if not left:
            return []
        await asyncio.sleep(0.005)
    return [str(task) for task in left]
