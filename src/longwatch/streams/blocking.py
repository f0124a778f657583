"""The guard of a blocking iterator: it is read in a thread, so that its silence can be seen from outside.

What is raised is raised in the caller. How a read ends that sits in the thread only the caller knows (`cancel`: close
the response, kill the process).
"""

import inspect
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from longwatch.errors import UsageError
from longwatch.limits import Limits
from longwatch.streams.closing import CLOSING, Hook
from longwatch.streams.hearing import Reader
from longwatch.streams.threads import ITEM, HandOver, ThreadReading
from longwatch.streams.watched import Clock, Known, Observer, Watched

Item = TypeVar("Item")


class BlockingGuard(Known, Generic[Item]):
    """An iterator over another one's items, under limits. Made by `guard`. For one thread at a time."""

    __module__ = "longwatch"

    def __init__(
        self, events: Iterable[Item], limits: Limits | None = None, *, adapter: Reader | None = None,
        on_close: Hook | None = None, cancel: Hook | None = None, observer: Observer | None = None,
        name: str = "stream", clock: Clock | None = None,
        hand_over: Callable[[Any, str], HandOver] = HandOver,
    ) -> None:  # fmt: skip
        source = iter(events)
        self._watched = Watched(source, limits, adapter=adapter, observer=observer, name=name, clock=clock)
        self._watched.effects.halt = _nothing
        self._hand_over = hand_over
        self._cancel = cancel
        self._on_close = on_close
        self._reading: ThreadReading | None = None
        self._done = False

    # -- the reads

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if self._done:
            raise StopIteration
        try:
            return self._next(self._reading or self._open())
        except Exception:
            raise
        except BaseException:
            self._end("interrupted", None)
            raise

    def _open(self, *, read: bool = True) -> ThreadReading:
        """The first read starts the thread."""
        watched = self._watched
        hands = self._hand_over(watched.pulse.source, watched.name) if read else None
        self._reading = reading = ThreadReading(watched, hands, self._cancel)
        watched.effects.poll = reading.poll
        watched.open(reading)
        return reading

    def _next(self, reading: ThreadReading) -> Item:
        watched = self._watched
        assert watched.driver is not None
        watched.driver.step()
        answer = None if watched.over else reading.read()
        if answer is None:
            self._leave(None)
        kind, value = answer
        if kind == ITEM:
            if watched.stopping:
                # It came although the source had been cancelled: it is handed out, and the next read raises.
                watched.end(1)
            return value  # type: ignore[no-any-return]
        ours = watched.stopping
        watched.end(0 if isinstance(value, StopIteration) else 1)
        return self._leave(None if ours else value)

    # -- the end

    def _leave(self, error: BaseException | None) -> NoReturn:
        """Close, and raise: the error, or where there is none that of the limit."""
        trouble = self._close()
        if error is None:
            error = self._watched.error() or StopIteration()
        if trouble is None:
            raise error
        if isinstance(error, StopIteration):
            raise trouble
        error.add_note(f"closing the stream failed, too: {trouble!r}")
        raise error

    def _end(self, reason: str, origin: str | None) -> Exception | None:
        """End the stream for somebody who wants no more of it; return what closing raised."""
        if self._done:
            return None
        reading = self._reading or self._open(read=False)
        try:
            self._watched.stop(reason, origin)
            if reading.wait() is not None:
                self._watched.end(1)
        finally:
            trouble = self._close()
        return trouble

    def _close(self, wait: float | None = None) -> Exception | None:
        """Close the source in its thread and call `on_close`, once; return what they raised."""
        if self._done:
            return None
        self._done = True
        trouble: Exception | None = None
        try:
            trouble = (
                None if self._reading is None else self._reading.close(CLOSING if wait is None else wait)
            )
        finally:
            try:
                self._call_on_close()
            except Exception as error:  # noqa: BLE001 - the caller raises it where nothing else is raised
                trouble = trouble or error
        return trouble

    def _call_on_close(self) -> None:
        answer = None if self._on_close is None else self._on_close()
        if inspect.iscoroutine(answer):
            answer.close()
            raise UsageError("on_close of a blocking guard is called, not awaited; pass a plain function")

    def close(self, origin: str = "explicit") -> None:
        """End the stream: close its source, then call `on_close`. Does nothing when that is done.

        Bounded: what does not close within 5 s is left behind and said in the report's notes. Raises what closing
        raised, and nothing for a limit.
        """
        if self._done:
            return
        trouble = self._end("cancelled", origin)
        if trouble is not None:
            raise trouble

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as trouble:
            if error is None:
                raise
            error.add_note(f"closing the stream failed, too: {trouble!r}")

    def __del__(self) -> None:
        if getattr(self, "_done", True) or self._reading is None:
            return
        warnings.warn(
            f"guard of {self._watched.name!r} was thrown away unfinished; write `with guard(...) as events`",
            ResourceWarning, stacklevel=1, source=self,
        )  # fmt: skip
        self._close(wait=0)


def _nothing() -> None:
    """Do nothing: the next read looks for itself."""


__all__ = ["BlockingGuard"]
