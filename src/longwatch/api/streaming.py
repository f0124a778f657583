"""Facts as server-sent events: first those that the ledger has, then each as it happens.

A reader that does not keep up loses events, and is told how many: nothing here waits for anybody.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

#: Facts that wait for one reader, and how many readers there may be.
WAITING, READERS = 1000, 64
#: A comment is sent so often, in seconds, so that both ends notice when the other is gone.
KEEP_ALIVE = 15.0


class Page(NamedTuple):
    """Events of the ledger: `last` is where the next page begins, `dropped` how many are kept no more.

    `renewed`: the ledger is another one, and its numbers begin anew.
    """

    events: list[dict[str, Any]]
    last: int
    dropped: int = 0
    renewed: bool = False


Replay = Callable[[int], Page]


class Reader:
    """One client's events."""

    def __init__(self, harnesses: frozenset[str]) -> None:
        self._harnesses = harnesses
        self._facts: deque[tuple[int | None, dict[str, Any]]] = deque()
        self._dropped = 0
        self._there = asyncio.Event()

    def put(self, fact: dict[str, Any], seq: int | None) -> None:
        """Keep a fact until it is sent, if there is room."""
        if self._harnesses and fact.get("harness") not in self._harnesses:
            return
        if len(self._facts) >= WAITING:
            self.drop(1)
            return
        self._facts.append((seq, fact))
        self._there.set()

    def drop(self, count: int) -> None:
        """Note that facts are lost."""
        self._dropped += count
        self._there.set()

    async def wait(self, patience: float) -> bool:
        """Wait until there is something to send; False when there was nothing for so long."""
        try:
            await asyncio.wait_for(self._there.wait(), patience)
        except TimeoutError:
            return False
        return True

    def take(self, since: int) -> list[str]:
        """Return what is to be sent now, without those that the client has from the ledger."""
        self._there.clear()
        facts, self._facts = self._facts, deque()
        said = [encode(fact, seq) for seq, fact in facts if seq is None or seq > since]
        if self._dropped:  # those that are lost came after those that waited
            said.append(encode({"event": "dropped", "count": self._dropped}))
            self._dropped = 0
        return said


class Readers:
    """All clients that follow events."""

    def __init__(self) -> None:
        self._readers: set[Reader] = set()

    def __len__(self) -> int:
        return len(self._readers)

    def told(self, message: dict[str, Any]) -> None:
        """Hand on what the supervisor pushes."""
        for reader in self._readers:
            if "fact" in message:
                reader.put(message["fact"], message.get("seq"))
            elif isinstance(message.get("dropped"), int):
                reader.drop(message["dropped"])

    async def follow(
        self, since: int, harnesses: frozenset[str], replay: Replay, *, follow: bool
    ) -> AsyncIterator[str]:
        """Yield the text of an event stream: what came after `since`, then, with `follow`, each as it happens."""
        reader = Reader(harnesses)
        # Before the ledger is read: what happens in between is then in both, and told by its number.
        self._readers.add(reader)
        try:
            last = since
            yield mark(last)
            async for last, text in _replayed(since, replay):  # noqa: B007 - the last one is where to go on
                yield text
            while follow:
                if not await reader.wait(KEEP_ALIVE):
                    yield ": still here\n\n"
                for text in reader.take(last):
                    yield text
        finally:
            self._readers.discard(reader)


async def _replayed(since: int, replay: Replay) -> AsyncIterator[tuple[int, str]]:
    """Yield what the ledger has, each with the number that it goes up to."""
    last = since
    while True:
        page = await asyncio.to_thread(replay, last)
        begin = 0 if page.renewed else last
        if page.renewed:  # the ledger is another one than the client has read: its numbers begin anew
            yield begin, mark(0) + encode({"event": "renewed"})
        if page.dropped:
            yield begin, encode({"event": "dropped", "count": page.dropped})
        for event in page.events:
            yield event.get("seq", begin), encode(event, event.get("seq"))
        last = page.last
        yield last, ""
        if not page.events or page.last == begin:
            return


def mark(seq: int) -> str:
    """Return what tells a client up to where it knows everything, and is no event."""
    return f"id: {seq}\n\n"


def encode(event: dict[str, Any], seq: int | None = None) -> str:
    """Return one event as it is sent: its number, its name, all of it as JSON in one line."""
    told = event if seq is None else {"seq": seq, **event}
    number = "" if seq is None else f"id: {seq}\n"
    name = "".join(c for c in str(event.get("event", "message")) if c.isprintable())
    return f"{number}event: {name}\ndata: {json.dumps(told)}\n\n"
