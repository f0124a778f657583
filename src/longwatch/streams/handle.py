"""A turn: one stream of a subagent from its opening to its result, guarded, cancellable, run again at will.

Three ways to end early are kept apart, because whoever waits acts on them. A limit of its own is its failure. What
comes from above (the task that runs it, its parent in the graph) cancels it, even where time ran out up there.
`cancel` cancels it, once. In each case the text so far is in the result.
"""

from collections.abc import AsyncIterable, Awaitable, Callable
from inspect import isawaitable, iscoroutine
from typing import Any, cast

from longwatch.core.outcomes import ORIGINS
from longwatch.errors import UsageError
from longwatch.limits import Limits
from longwatch.posix import now
from longwatch.streams.classify import Gathered, Reader, judge, reading
from longwatch.streams.ends import CANCELLED, IDLE, RUNNING, TurnResult
from longwatch.streams.graph import CASCADE, LIMIT, Abort, AbortGraph
from longwatch.streams.guard import guard
from longwatch.streams.loops import Scope, shielded
from longwatch.streams.retry import Retry, attempts
from longwatch.streams.trace import Child, Name, Trace, TraceEvent, warn
from longwatch.streams.verdict import Verdict


class Turn:
    """One forked turn. `fork()` opens a fresh stream of events each time it is called: for a run, and for a retry.

    limits         as for `guard`
    reader         makes the reader of one stream (`adapters.langgraph.reader`); None: each event's type tells
    announces_end  whether the stream says that it is done; False: its end is that; None: as its SDK is known to be
    parse          makes the output of the last message, and raises if that is not what was asked for
    sink           is given every event of the stream, as it is; what it raises fails the turn
    graph, parent  where it is linked while it runs, under its name
    trace          where its events go, and those of its stream
    retry          a `Retry`; None: a cut stream is not tried again
    on_soft        called with the turn, once, when it should wrap up
    on_stop        called with the result, exactly once for each run, after the last event
    release        called last, exactly once for each run

    Hooks may be coroutine functions, except `on_soft` and `sink`; they are awaited even when the host goes away, five
    seconds at most. What a hook raises is a warning. All of a turn belongs to one event loop, asyncio or trio.
    """

    def __init__(
        self,
        name: str,
        fork: Callable[[], AsyncIterable[Any]],
        limits: Limits | None = None,
        *,
        reader: Callable[[], Reader] | None = None,
        announces_end: bool | None = None,
        parse: Callable[[str], Any] | None = None,
        sink: Callable[[Any], object] | None = None,
        graph: AbortGraph | None = None,
        parent: str | None = None,
        trace: Trace | Child | None = None,
        retry: Retry | None = None,
        on_soft: "Callable[[Turn], object] | None" = None,
        on_stop: Callable[[TurnResult], object] | None = None,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.state = IDLE
        self.result: TurnResult | None = None
        self._fork = fork
        self._limits = limits
        self._reader = reader
        self._announces_end = announces_end
        self._parse = parse
        self._sink = sink
        self._trace: Trace | Child = Trace() if trace is None else trace
        self._graph = AbortGraph(self._trace) if graph is None else graph
        self._parent = parent
        self._retry = Retry(times=0) if retry is None else retry
        self._on_soft = on_soft
        self._on_stop = on_stop
        self._release = release
        self._busy = False
        self._reset()

    def _reset(self) -> None:
        self._gathered = Gathered()
        self._scope: Scope | None = None
        self._abort: Abort | None = None
        self._limit: str | None = None
        self._wound_down = self._ended = False
        self._attempt_number = 0
        self._began = now()

    @property
    def text(self) -> str:
        """The text of the current run, or of the last one, until now."""
        return self._gathered.text

    # -- what the caller may do

    async def run(self) -> TurnResult:
        """Run it to its end. Raises UsageError while it runs already, and whatever cancels the task that awaits it.

        Not raised for a turn that fails, whatever its stream raised: that is a result.
        """
        self._begin()
        return await self._run()

    async def skip(self, reason: str) -> TurnResult:
        """End it as cancelled from above, without opening its stream: its turn never came."""
        self._begin()
        if self._abort is None:
            self._graph.abort(self.name, CASCADE, reason)
        return await self._run()

    def cancel(self, reason: str = "", origin: str = "explicit") -> bool:
        """Cancel it, and what is linked below it; return whether that was news.

        No error when it does not run. A turn that waits for its retry is not tried again: its failure stands.
        """
        return self.state == RUNNING and bool(self._graph.abort(self.name, origin, reason))

    # -- one run

    def _begin(self) -> None:
        if self._busy:
            raise UsageError(f"turn {self.name!r} is running; wait for its end before it runs again")
        self._reset()
        self._graph.link(self.name, self._parent, on_abort=self._aborted)
        self._busy = True
        self.state, self.result = RUNNING, None
        self._emitter = self._trace.child(turn=self.name)

    async def _run(self) -> TurnResult:
        try:
            result = await attempts(
                self._attempt, self._retry, aborted=lambda: self._abort is not None, pause=self._pause
            )
        except BaseException as error:
            await self._finish(self._gone(error), thrown_away=isinstance(error, GeneratorExit))
            raise
        await self._finish(result)
        return result

    async def _attempt(self, number: int) -> TurnResult:
        if self._abort is not None:
            return self._verdict().cancelled(self._abort)
        if number > 1:
            self._emitter.emit("turn_retried", attempt=number, delay_ms=round(self._retry.delay * 1000))
        self._attempt_number, self._wound_down = number, False
        self._gathered = Gathered()
        self._emitter.emit("turn_started", attempt=number)
        self._ended, error = False, None
        try:
            async with self._cancellable():
                await self._consume()
        except Exception as caught:  # noqa: BLE001 - a failure is a result
            error = caught
        return self._judge(error)

    async def _consume(self) -> None:
        stream = guard(
            self._opened(), self._limits, adapter=reading(self._gathered, self._reader and self._reader()),
            observer=self._hear, name=self.name,
        )  # fmt: skip
        origin = "explicit"
        try:
            async for event in stream:
                if self._sink is not None:
                    self._sink(event)
            self._ended = True
        except BaseException as error:
            if not isinstance(error, Exception):
                origin = self._cancelled_by()
            raise
        finally:
            await stream.aclose(origin=origin)

    def _opened(self) -> AsyncIterable[Any]:
        source: Any = self._fork()
        if hasattr(source, "__aiter__"):
            return cast("AsyncIterable[Any]", source)
        if iscoroutine(source):
            source.close()
        raise UsageError(
            f"turn {self.name!r}: fork() returned {type(source).__name__}; write an async generator, or return one"
        )

    def _cancelled_by(self) -> str:
        """Return the origin that the stream's own record of its end should have."""
        origin = CASCADE if self._abort is None else self._abort.origin
        return origin if origin in ORIGINS else CASCADE

    async def _pause(self) -> None:
        async with self._cancellable():
            await self._retry.sleep(self._retry.delay)

    def _cancellable(self) -> Scope:
        """Return a block that an abort leaves early."""
        self._scope = Scope()
        return self._scope

    # -- what is heard meanwhile

    def _aborted(self, abort: Abort) -> None:
        """The graph says so. What a limit of ours has begun stays its."""
        if self._limit is None:
            self._abort = abort
            if self._scope is not None:
                self._scope.cancel()

    def _hear(self, event: TraceEvent) -> None:
        """The guard speaks, before it acts: who is below us has to know before our stream is cancelled."""
        self._emitter.emit(cast("Name", event.name), **event.fields)
        if event.name == "soft_fired":
            self._wind_down()
        elif event.name == "stop_began" and self._abort is None and event.fields["reason"] != CANCELLED:
            self._limit = str(event.fields["reason"])
            self._graph.abort(self.name, LIMIT, self._limit)

    def _wind_down(self) -> None:
        if self._on_soft is None:
            return
        try:
            self._on_soft(self)
        except Exception as error:  # noqa: BLE001 - the turn goes on, untold
            warn(f"turn {self.name}: on_soft raised {error!r}")
        else:
            self._wound_down = True

    def _verdict(self) -> Verdict:
        return Verdict(self.name, self._gathered, self._attempt_number, self._began)

    def _judge(self, error: Exception | None) -> TurnResult:
        """The cause is what acted first: a limit of ours, an abort, the stream itself."""
        verdict = self._verdict()
        if self._limit is not None and error is not None:
            return verdict.expired(self._limit, error)
        if self._abort is not None and not self._ended:
            return verdict.cancelled(self._abort)
        if error is not None:
            return verdict.raised(error)
        judged = judge(self._gathered, wound_down=self._wound_down, announces_end=self._announces_end)
        return verdict.ended(judged, self._parse)

    def _gone(self, error: BaseException) -> TurnResult:
        """The host ends the coroutine that runs us, or something of ours broke."""
        if isinstance(error, Exception):
            return self._verdict().raised(error)
        if self._limit is not None:
            return self._verdict().expired(self._limit, None)
        host = Abort(self.name, CASCADE, self.name, CASCADE, type(error).__name__)
        return self._verdict().cancelled(self._abort or host)

    # -- the end: the event first, then the hooks, then nothing is held any more

    async def _finish(self, result: TurnResult, *, thrown_away: bool = False) -> None:
        self.state, self.result = result.status, result
        self._say_ended(result)
        try:
            await self._call(self._on_stop, result, thrown_away=thrown_away)
        finally:
            try:
                await self._call(self._release, thrown_away=thrown_away)
            finally:
                self._graph.dispose(self.name)
                self._emitter.close()
                self._busy = False

    def _say_ended(self, result: TurnResult) -> None:
        given = {
            "origin": result.signal["origin"] if result.signal else "",
            "error": type(result.error).__name__ if result.error else "",
        }
        self._emitter.emit(
            "turn_ended", state=result.status, stop_reason=result.stop_reason, attempts=result.attempts,
            chars=len(self.text), results=result.gathered, duration_ms=result.duration_ms, timeout=result.timeout,
            **{name: value for name, value in given.items() if value},
        )  # fmt: skip

    async def _call(self, hook: Callable[..., object] | None, *words: object, thrown_away: bool) -> None:
        """Call a hook, and await its answer; a coroutine that is thrown away cannot await any more."""
        if hook is None:
            return
        try:
            answer = hook(*words)
            if thrown_away and iscoroutine(answer):
                answer.close()
            elif isawaitable(answer) and not await shielded(lambda: cast("Awaitable[object]", answer)):
                warn(f"turn {self.name}: a hook was not over in time")
        except Exception as error:  # noqa: BLE001 - the result stands
            warn(f"turn {self.name}: a hook raised {error!r}")


__all__ = ["Turn"]
