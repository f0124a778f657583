"""`guard`: watches any iterator of an agent's events, and ends it when it makes no progress.

The async guard is a class and no generator: nothing of it is suspended between two reads, so no scope of ours can
span the consumer's own work.
"""

import asyncio
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

from longwatch.errors import UsageError
from longwatch.limits import Limits
from longwatch.runtime.rounds import Rounds, Seat, rounds_here
from longwatch.streams.cancelling import AsyncReading, Cancelled, is_cancellation, reading_here
from longwatch.streams.closing import Closing, Hook, Later
from longwatch.streams.hearing import Reader
from longwatch.streams.watched import Clock, Known, Observer, Watched

if TYPE_CHECKING:
    from longwatch.streams.blocking import BlockingGuard

Item = TypeVar("Item")


class _Halt(Exception):
    """No read now: the stream is not open yet, or it is over."""


def _halt(loop: object) -> NoReturn:
    raise _Halt(loop)


class _Iterator:
    """Stands for an iterator that is no iterable itself, as the protocol wants it to be."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source
        self.aclose = getattr(source, "aclose", None)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Any]:
        return anext(self._source)


class Guard(Known, Generic[Item]):
    """An async iterator over another one's items, under limits. Made by `guard`."""

    __module__ = "longwatch"

    def __init__(
        self, events: AsyncIterable[Item], limits: Limits | None = None, *, adapter: Reader | None = None,
        on_close: Hook | None = None, observer: Observer | None = None, name: str = "stream",
        clock: Clock | None = None, rounds: Rounds | None = None,
    ) -> None:  # fmt: skip
        source = aiter(events)
        if getattr(source, "__aiter__", None) is None or aiter(source) is not source:
            source = _Iterator(source)
        self._watched = Watched(source, limits, adapter=adapter, observer=observer, name=name, clock=clock)
        self._pulse = pulse = self._watched.pulse
        self._closing = Closing(source, on_close, self._watched.stuck)
        self._rounds = rounds
        self._seat: Seat | None = None
        self._reading: AsyncReading | None = None
        self._later: Later | None = None
        self._done = False
        pulse.who = _halt
        self._watched.effects.halt = lambda: setattr(pulse, "who", _halt)

    # -- the reads

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        # This runs for every event, and what it costs is measured: see PERF-9 in `bench`. A loop of one turn takes
        # the next event quicker than `await anext(...)` does.
        pulse = self._pulse
        try:
            pulse.reader = pulse.who(pulse.loop)
            pulse.since = pulse.stamp()
            event: Item
            async for event in pulse.source:  # noqa: B007
                break
            else:
                raise StopAsyncIteration  # noqa: TRY301
        except BaseException as error:  # noqa: BLE001 - whose it is has to be found out
            return await self._unwound(error)
        if event.__class__ is pulse.dull:
            pulse.since = None
            return event
        self._arrived(event)
        return event

    def _arrived(self, event: Item) -> None:
        """Take note of an event that says more than that it came."""
        assert self._reading is not None
        self._watched.take(event)
        self._reading.remember()
        if self._watched.stopping and not self._watched.over:
            # It came although the source had been cancelled: it is handed out, and the next read raises.
            self._reading.served(None)
            self._pulse.who = _halt
            self._watched.end(1)

    async def _unwound(self, error: BaseException) -> Item:
        """A read has ended without an event."""
        if isinstance(error, _Halt):
            return await self._halted()
        if isinstance(error, GeneratorExit):
            self._watched.rest()
            raise error
        assert self._reading is not None
        ours, others = self._reading.served(error)
        self._watched.rest()
        if ours:
            return await self._stopped(error, others=others)
        if isinstance(error, StopAsyncIteration):
            self._watched.end(0)
        elif others or not isinstance(error, Exception):
            raise error
        else:
            self._watched.end(1)
        return await self._leave(error)

    async def _halted(self) -> Item:
        if self._done:
            raise StopAsyncIteration
        if self._seat is None:
            self._open()
            return await self.__anext__()
        return await self._stopped(None, others=False)

    def _open(self) -> None:
        """The first read tells which loop it is."""
        pulse = self._pulse
        rounds = self._rounds or rounds_here()
        self._rounds, self._later = rounds, Later()
        self._reading = reading_here(pulse)
        self._seat = seat = rounds.join(self._watched.spec)
        seat.broken = self._watched.broke
        pulse.who = self._reading.who
        pulse.reader = pulse.who(pulse.loop)
        self._reading.remember()
        seat.driver = self._watched.open(self._reading, seat)

    # -- the end

    async def _stopped(self, error: BaseException | None, *, others: bool) -> NoReturn:
        """A limit, or who closed us, ended the stream; a cancellation from elsewhere goes on."""
        self._watched.end(1)
        if others:
            await self._leave(error if is_cancellation(error) else asyncio.CancelledError())
        await self._leave(None, error)

    async def _leave(self, error: BaseException | None, cause: BaseException | None = None) -> NoReturn:
        """Close, and raise: the error, or where there is none that of the limit."""
        trouble = await self._close()
        if error is None:
            error = self._watched.error() or StopAsyncIteration()
            # What the source made of its cancellation; where it was left behind that is our doing.
            told = isinstance(cause, Exception) and not isinstance(cause, StopAsyncIteration | Cancelled)
            error.__cause__ = cause if told and not self._watched.story.survivors else None
        if trouble is None:
            raise error
        if isinstance(error, StopAsyncIteration):
            raise trouble
        error.add_note(f"closing the stream failed, too: {trouble!r}")
        raise error

    async def _close(self) -> Exception | None:
        """Close the source and call `on_close`, once; return what they raised."""
        self._done = True
        self._pulse.who = _halt
        if self._rounds is not None and self._seat is not None:
            self._rounds.leave(self._seat)
        try:
            await self._closing()
        except Exception as error:  # noqa: BLE001 - the caller raises it where nothing else is raised
            return error
        finally:
            self._pulse.source = None
        return None

    async def aclose(self, origin: str = "explicit") -> None:
        """End the stream: close its source, then call `on_close`. Does nothing when that is done.

        Bounded: what does not close within 5 s is left behind and said in the report's notes. Where another task
        waits in a read, that read ends, and its task closes. Raises what closing raised, and nothing for a limit.
        """
        if self._done:
            return
        if self._seat is None:
            self._watched.open(None)
        self._watched.stop("cancelled", origin)
        if self._pulse.resting:
            trouble = await self._close()
            if trouble is not None:
                raise trouble

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.aclose("cascade" if is_cancellation(error) else "explicit")
        except Exception as trouble:
            if error is None:
                raise
            error.add_note(f"closing the stream failed, too: {trouble!r}")

    def __del__(self) -> None:
        if getattr(self, "_done", True) or self._seat is None:
            return
        assert self._rounds is not None
        assert self._later is not None
        self._rounds.leave(self._seat)
        warnings.warn(
            f"guard of {self._watched.name!r} was thrown away unfinished; write `async with guard(...) as events`",
            ResourceWarning, stacklevel=1, source=self,
        )  # fmt: skip
        self._later.close(self._closing)


@overload
def guard(
    events: AsyncIterable[Item], limits: Limits | None = None, *, adapter: Reader | None = None,
    on_close: Hook | None = None, cancel: None = None, observer: Observer | None = None, name: str = "stream",
) -> Guard[Item]: ...  # fmt: skip
@overload
def guard(
    events: Iterable[Item], limits: Limits | None = None, *, adapter: Reader | None = None,
    on_close: Hook | None = None, cancel: Hook | None = None, observer: Observer | None = None, name: str = "stream",
) -> "BlockingGuard[Item]": ...  # fmt: skip
def guard(
    events: Any, limits: Limits | None = None, *, adapter: Reader | None = None, on_close: Hook | None = None,
    cancel: Hook | None = None, observer: Observer | None = None, name: str = "stream",
) -> Any:  # fmt: skip
    """Watch an iterator of events: return one over the same events that raises when a limit is reached.

    events    an async iterable (asyncio or trio), or a plain one, which is then read in a thread
    limits    see `Limits`; None: its defaults for a guard, so no progress for 480 s, or 45 min in all, stop it
    adapter   what reads an event: returns the `longwatch.observe.events` that it means, none for one that is just
              progress. None: known by the event's class, and what nobody knows is progress
    on_close  called once, without arguments, when the source has been closed; of an async guard it may be async
    cancel    of a blocking source: called to make a read end that sits in a thread (close the response)
    observer  called with each `TraceEvent` as it happens, with a limit's before anything is done about it
    name      what errors, trace and report call it

    The limits count from now on; the time that the consumer takes between two reads is not the source's silence.
    Use it in an `async for` (`for`), best inside `async with guard(...) as events` (`with`), so that a `break` closes
    the source, too. Its end, an error and a limit close it anyway.

    Raises, in the read, IdleReached, FirstReached, CallReached, CeilingReached, TimeoutReached or LimitReached, all
    of them TimeoutErrors with the text until then as `.partial`. A cancellation from elsewhere goes through, also at
    the same moment. Nothing is raised for a faulty observer or adapter. UsageError for words that make no sense.
    """
    given: dict[str, Any] = {"adapter": adapter, "on_close": on_close, "observer": observer, "name": name}
    if hasattr(events, "__aiter__"):
        if cancel is not None:
            raise UsageError(
                "cancel is for blocking iterators; a read of an async one is cancelled by its loop"
            )
        return Guard(events, limits, **given)
    from longwatch.streams.blocking import BlockingGuard  # noqa: PLC0415 - an async program needs no threads

    return BlockingGuard(events, limits, cancel=cancel, **given)


__all__ = ["Guard", "guard"]
