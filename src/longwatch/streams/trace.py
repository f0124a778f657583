"""What streams, turns and waves say of themselves while they work, as numbered events.

A trace is for whoever looks on: a log, a metric, a test. So emission never breaks the work. Without a writer it is
nothing, and an event that is wrong or a writer that fails costs one warning and that event. Which events there are
is told in `vocabulary`.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

from longwatch.posix import now
from longwatch.streams.loops import Signal
from longwatch.streams.vocabulary import EVENTS, NAMES, Name, Scalar, TraceEvent

#: Before the seal, children that still run get this long, in seconds.
DRAIN = 5.0


class Trace:
    """Numbers events and hands them to a writer, one at a time and in order, from whatever thread they come.

    `writer(event)` is called with a lock held, so it should be quick; what it raises is warned of once. It may emit
    itself. After `seal` nothing is written any more.
    """

    def __init__(
        self, writer: Callable[[TraceEvent], object] | None = None, clock: Callable[[], int] = now
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._lock = threading.RLock()
        self._seq = 0
        self._refused = 0
        self._born = 0
        self._children: set[Child] = set()
        self._waiting: list[Callable[[], object]] = []
        self.sealed = False

    def emit(self, name: Name, /, **fields: Scalar) -> None:
        """Write an event. Never raises: one that is wrong, or that the writer refuses, is counted and warned of."""
        if self._writer is None or self.sealed:
            return
        with self._lock:
            if not self.sealed:
                self._write(name, fields)

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        try:
            event = TraceEvent(name, self._seq + 1, self._clock(), fields)
            self._seq += 1
            self._writer(event)  # type: ignore[misc]  # who calls has looked
        except Exception as error:  # noqa: BLE001 - whoever looks on must not break the work
            self._refused += 1
            if self._refused == 1:
                warn(f"trace: {name} was not written, and more may follow: {error!r}")

    def child(self, **whose: str) -> "Child":
        """Return an emitter for one part of the work; the seal waits for its `close`."""
        child = Child(self, whose)
        with self._lock:
            self._children.add(child)
            self._born += 1
        return child

    def seal(self, drain: float = DRAIN) -> None:
        """Write the last event; later ones are dropped. Waits, blocking, up to `drain` s for children first."""
        over = threading.Event()
        began = self._begin_seal(over.set)
        if began is not None:
            over.wait(drain)
            self._end_seal(began)

    async def seal_async(self, drain: float = DRAIN) -> None:
        """Do the same without blocking the event loop (asyncio or trio)."""
        over = Signal()
        began = self._begin_seal(over.set)
        if began is not None:
            try:
                await over.wait(drain)
            finally:
                self._end_seal(began)

    def _begin_seal(self, over: Callable[[], object]) -> int | None:
        """Return when the sealing began, None when there is nothing to wait or to write for."""
        with self._lock:
            if self._writer is None:
                self.sealed = True
            if self.sealed:
                return None
            self._waiting.append(over)
            self._wake()
            return self._clock()

    def _end_seal(self, began: int) -> None:
        with self._lock:
            if self.sealed:
                return
            left = len(self._children)
            counts = {"children": self._born, "unfinished": left, "refused": self._refused}
            self._write("sealed", {**counts, "duration_ms": max(0, self._clock() - began)})
            self.sealed = True

    def _closed(self, child: "Child") -> None:
        with self._lock:
            self._children.discard(child)
            self._wake()

    def _wake(self) -> None:
        if not self._children:
            waiting, self._waiting = self._waiting, []
            for over in waiting:
                over()


class Child:
    """Emits into a trace and says each time whose event it is. Closing it twice is harmless."""

    def __init__(self, trace: Trace, whose: "Mapping[str, str]") -> None:
        self._trace = trace
        self._whose = dict(whose)

    def emit(self, name: Name, /, **fields: Scalar) -> None:
        """Write an event, as `Trace.emit` does."""
        self._trace.emit(name, **{**self._whose, **fields})

    def child(self, **whose: str) -> "Child":
        """Return an emitter for a part of this part."""
        return self._trace.child(**{**self._whose, **whose})

    def close(self) -> None:
        """Say that this part of the work is over."""
        self._trace._closed(self)  # noqa: SLF001 - two halves of one thing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def warn(text: str) -> None:
    """Warn, also where warnings are errors."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        pass


__all__ = ["DRAIN", "EVENTS", "NAMES", "Child", "Name", "Scalar", "Trace", "TraceEvent", "warn"]
