"""Guarded streams in a world whose clock moves only when nobody has anything left to do.

A script says at which instant (ms) a source gives what. The same script can be played through the guard under asyncio,
under trio and blocking, with everything real but the clock, the timer and the thread; and through a run's own
effects, which are told what the events mean.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import trio
import trio.testing

from longwatch import Limits
from longwatch.core import observations as o
from longwatch.core.facts import Fact
from longwatch.core.spec import PAUSE_CREDIT_GUARD, Spec
from longwatch.core.watch import Watch
from longwatch.observe.events import Event, observations
from longwatch.runtime.driver import NEVER, Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.rounds import Rounds
from longwatch.streams.blocking import BlockingGuard
from longwatch.streams.guard import Guard
from longwatch.streams.threads import CLOSED, ITEM, RAISED
from longwatch.streams.trace import TraceEvent
from longwatch.testing import FakeClock

START = 1_000_000
#: In a script: the source ends; it never says anything any more. Without a last word it ends.
END, HANG = "end", "hang"

Script = Iterable[tuple[int, Any]]


class FakeRounds(Rounds):
    """Rounds whose timer is the world's."""

    def arm(self, instant: int | None) -> None:
        """Do nothing: `armed` says when."""


class World:
    """A clock, a timer, and whoever waits for an instant."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.rounds = FakeRounds(self.clock)
        self.waiting: list[tuple[int, Callable[[], object]]] = []
        self.heard: list[TraceEvent] = []

    def now(self) -> int:
        """Return the ms since the start."""
        return self.clock() - START

    async def until(self, at: int) -> None:
        """Wait in the loop until an instant (ms since the start)."""
        if at <= self.now():
            return
        event = trio.Event() if trio.lowlevel.in_trio_run() else asyncio.Event()
        entry = (at, event.set)
        self.waiting.append(entry)
        try:
            await event.wait()
        finally:
            with contextlib.suppress(ValueError):
                self.waiting.remove(entry)

    def turn(self) -> None:
        """Let time pass up to the next thing that happens: timers come before what a source says."""
        timer = self.rounds.armed - START
        nearest = min((at for at, _ in self.waiting), default=NEVER)
        assert min(timer, nearest) < NEVER - START, "everybody waits and nothing will happen"
        self.clock.jump(max(self.clock(), START + min(timer, nearest)))
        if timer <= nearest:
            self.rounds.step()
            return
        for entry in [entry for entry in self.waiting if entry[0] <= self.now()]:
            self.waiting.remove(entry)
            entry[1]()

    # -- hosts

    def asyncio(self, main: Callable[..., Any], *words: Any) -> Any:
        """Run a coroutine function under asyncio in this world."""

        async def live() -> Any:
            task = asyncio.create_task(main(*words))
            while not task.done():
                for _ in range(12):  # each turn of the loop hands on what the last one brought
                    await asyncio.sleep(0)
                if not task.done():
                    self.turn()
            return task.result()

        return asyncio.run(live())

    def trio(self, main: Callable[..., Any], *words: Any) -> Any:
        """Run a coroutine function under trio in this world."""
        found: list[Any] = []

        async def live() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(finish, nursery.cancel_scope)
                while True:
                    await trio.testing.wait_all_tasks_blocked()
                    self.turn()

        async def finish(scope: trio.CancelScope) -> None:
            found.append(await main(*words))
            scope.cancel()

        try:
            trio.run(live)
        except ExceptionGroup as group:
            raise single(group) from None
        return found[0]

    # -- streams

    async def source(self, script: Script) -> Any:
        """Play a script as an async generator."""
        for at, word in script:
            await self.until(NEVER - START - 1 if word is HANG else at)
            if word is END:
                return
            if isinstance(word, BaseException):
                raise word
            yield word

    def guard(self, source: Any, limits: Limits | None = None, **given: Any) -> Guard[Any]:
        """Return a guard on this world's clock that notes what its observer hears."""
        given.setdefault("observer", self.heard.append)
        return Guard(source, limits, clock=self.clock, rounds=self.rounds, **given)

    def blocking(self, script: Script, limits: Limits | None = None, **given: Any) -> BlockingGuard[Any]:
        """Return a blocking guard of a script, on this world's clock."""
        given.setdefault("observer", self.heard.append)
        source = FakeSource(script)
        given.setdefault("cancel", source.cancel)
        return BlockingGuard(
            source, limits, clock=self.clock, hand_over=lambda script, name: FakeHands(script, self), **given
        )

    def names(self) -> list[str]:
        """Return the names of the trace events heard."""
        return [event.name for event in self.heard]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of the trace events of a name, with their instants as ms since the start."""
        return [{"at": event.at - START, **event.fields} for event in self.heard if event.name == name]


class FakeSource:
    """A script for the fake thread."""

    def __init__(self, script: Script) -> None:
        self.script = [*script, (0, END)]
        self.cancelled = False

    def cancel(self) -> None:
        """Make a read that waits fail, as a closed socket does."""
        self.cancelled = True

    def __iter__(self) -> "FakeSource":
        return self

    def __next__(self) -> Any:
        """Is read by nobody but the fake thread."""
        raise NotImplementedError


class FakeHands:
    """Stands for the thread: while somebody waits for it, the clock moves."""

    def __init__(self, source: FakeSource, world: World) -> None:
        self.source = source
        self.world = world
        self.closing = False

    def ask(self) -> None:
        """Have the next item read."""

    def ask_to_close(self) -> None:
        """Have the source closed."""
        self.closing = True

    def answer(self, timeout_ms: int | None) -> tuple[str, Any] | None:
        """Let the time pass, and return what comes in it."""
        world, source = self.world, self.source
        if self.closing:
            return CLOSED, None
        if source.cancelled:
            return RAISED, ConnectionError("cancelled")
        at, word = source.script[0]
        if word is HANG or max(at, world.now()) > world.now() + (timeout_ms or 0):
            world.clock.advance(max(0, timeout_ms or 0))
            return None
        world.clock.jump(START + max(at, world.now()))
        source.script.pop(0)
        if word is END:
            return RAISED, StopIteration()
        return (RAISED, word) if isinstance(word, BaseException) else (ITEM, word)


# -- the same through a run's effects


class FakeProcess:
    """A process without a process: its pipes are silent, it dies of the first signal."""

    class child:
        """What effects want to know of the child."""

        started = START
        pidfd = 1

    def __init__(self, clock: FakeClock) -> None:
        self.pumps: dict[str, Any] = {}
        self.reactor = self
        self.ended: tuple[int | None, int | None] | None = None
        self.ended_at = 0
        self.drained = self.shared = False
        self.clock = clock
        self.changed: Callable[[], object] = lambda: None

    def poll(self, timeout_ms: int | None) -> None:
        """Take nothing."""

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1

    def look(self) -> None:
        """See nothing new."""

    def blocked_since(self) -> None:
        """Nobody holds it up."""

    def end(self, code: int | None, signal: int | None) -> None:
        """Let it end, its pipes with it."""
        self.ended, self.ended_at, self.drained = (code, signal), self.clock(), True
        self.changed()


class FakeTree:
    """The tree of such a process."""

    proof = "none"

    def __init__(self, process: FakeProcess) -> None:
        self.process = process

    def reap(self) -> None:
        """Collect nobody."""

    def signal(self, number: int) -> None:
        """Let the process die of it."""
        self.process.end(None, number)

    def infos(self, *, since: int | None = None) -> list[Any]:
        """Find nobody."""
        return []

    def mortal(self, infos: list[Any]) -> list[Any]:
        """Find nobody."""
        return infos


class Told:
    """A run whose observer tells what each event of a script means: the way of `longwatch run` with a transcript."""

    def __init__(self, limits: Limits) -> None:
        self.clock = FakeClock(START)
        resolved = limits.resolve({}, user="guard")
        spec = Spec(resolved.specs, ("events",), pause_credit=PAUSE_CREDIT_GUARD, loop=resolved.loop)
        self.process = FakeProcess(self.clock)
        self.effects = ProcessEffects(self.process, FakeTree(self.process), self.clock)  # type: ignore[arg-type]
        self.facts: list[Fact] = []
        self.effects.sinks.append(self.facts.append)
        self.driver = Driver(Watch(spec, START), self.effects, self.clock)

    def play(self, script: Script) -> list[Fact]:
        """Play a script to the end of the run; return its facts."""
        driver = self.driver
        driver.start()
        for at, word in [*script, (0, END)]:
            self._sleep(NEVER - 1 if word is HANG else START + at)
            if driver.over:
                break
            if word is END or isinstance(word, BaseException):
                self.process.end(0 if word is END else 1, None)
            else:
                for seen in (
                    observations(word, "events") if isinstance(word, Event) else (o.ProgressSeen("events"),)
                ):
                    driver.tell(seen)
            driver.step()
        self._sleep(NEVER - 1)
        return self.facts

    def _sleep(self, until: int) -> None:
        while not self.driver.over and (due := self.driver.next_deadline()) <= until:
            self.clock.jump(max(self.clock(), due))
            self.driver.step()
        if not self.driver.over:
            self.clock.jump(max(self.clock(), until))


def single(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the one exception in a group, however deep."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        [inner] = inner.exceptions
    return inner


async def collect(stream: Any, into: list[Any] | None = None) -> list[Any]:
    """Read a stream to its end."""
    items = [] if into is None else into
    async for item in stream:
        items.append(item)
    return items
