"""Work in steps: a generator yields short commands, each with a real timeout, and is sent how each one ended.

What is decided between the commands is plain code; who runs them, a loop with a thousand others or nobody else, is not
its business. These limits are by the clock, and end a command that prints, too: a step over a network that takes its
full limit has failed, whatever it says. They have nothing to do with the windows of a watch.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, TypeVar

from longwatch.core.record import Plain
from longwatch.core.spec import SECOND
from longwatch.errors import LongwatchError
from longwatch.posix import now
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import SpawnError
from longwatch.runtime.bounded import Bounded

T = TypeVar("T")

#: Delays between tries of a step over a network: doubled from the first one on, and in all no more than the budget.
FIRST_DELAY, BUDGET = 2 * SECOND, 60 * SECOND
#: A delay is spread by so much, so that many who failed together do not come back together.
SPREAD = 0.25
#: How often (ms) who waits for the steps of another one looks whether they are over.
_LOOK = 50


class WorkError(LongwatchError):
    """The place of a workstream cannot be made; str(e) is one line. `transient`: it may be possible later."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class Command(Plain):
    """A command to run: at most `limit` ms, in a folder, with these variables beside ours."""

    __slots__ = ("argv", "cwd", "env", "limit")

    def __init__(
        self, argv: Sequence[str], limit: int, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.argv = tuple(argv)
        self.limit = limit
        self.cwd = cwd
        self.env = env


class Pause(Plain):
    """Nothing to do for `span` ms."""

    __slots__ = ("span",)

    def __init__(self, span: int) -> None:
        self.span = span


class Done(Plain):
    """How a command ended: its exit status (None: its limit ended it), and the last it said."""

    __slots__ = ("code", "said")

    def __init__(self, code: int | None, said: str = "") -> None:
        self.code = code
        self.said = said

    @property
    def ok(self) -> bool:
        """Whether it exited 0."""
        return self.code == 0

    @property
    def words(self) -> str:
        """The last line it said: what programs put the reason on."""
        return (self.said.strip().splitlines() or [""])[-1].strip()


Steps = Generator[Command | Pause, Done, T]


def tried(command: Command, drawn: Callable[[], float], *, budget: int = BUDGET) -> Steps[Done]:
    """Run a step over a network until it succeeds or the delays between the tries have used up their budget."""
    delay, spent = FIRST_DELAY, 0
    while True:
        done = yield command
        wait = int(delay * (1 + SPREAD * (2 * drawn() - 1)))
        if done.ok or spent + wait > budget:
            return done
        yield Pause(wait)
        spent, delay = spent + wait, delay * 2


class Shared(Generic[T]):
    """Steps that several need at the same time: one goes through them, and the others wait for what they come to."""

    def __init__(self) -> None:
        self._ends: dict[str, list[tuple[T | None, Exception | None]]] = {}

    def go(self, key: str, steps: "Steps[T]") -> "Steps[T]":
        """Go through steps, or wait for those under way that have the same key. What was raised is raised to all."""
        while (ends := self._ends.get(key)) is not None:
            yield Pause(_LOOK)
            if ends:
                return _answer(*ends[0])
        ends = self._ends[key] = []
        try:
            answer = yield from steps
            ends.append((answer, None))
        except Exception as error:
            ends.append((None, error))
            raise
        finally:
            del self._ends[key]
        return answer


class Turns:
    """Steps of which only one may be under way at a time: the others wait for their turn."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, key: str, steps: "Steps[T]") -> "Steps[T]":
        """Go through steps once no others with the same key are under way."""
        while key in self._taken:
            yield Pause(_LOOK)
        self._taken.add(key)
        try:
            return (yield from steps)
        finally:
            self._taken.discard(key)


def _answer(answer: "T | None", error: Exception | None) -> "T":
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # there is one where there is no error


class Walk(Generic[T]):
    """Steps under way in a loop. `done(answer, error)` is called once, when they are over.

    `command` and `at` are those of the loop's host; raises nothing: a command that cannot be started is an error of the
    steps.
    """

    def __init__(
        self, steps: "Steps[T]", command: "Callable[..., Bounded]", at: "Callable[[int, Callable[[int], object]], object]",
        done: "Callable[[T | None, WorkError | None], object]",
    ) -> None:  # fmt: skip
        self._steps = steps
        self._command = command
        self._at = at
        self._done = done
        self._go(lambda: next(steps))

    def _go(self, resume: Callable[[], Command | Pause]) -> None:
        try:
            step = resume()
        except StopIteration as over:
            self._done(over.value, None)
        except WorkError as error:
            self._done(None, error)
        except (LongwatchError, OSError) as error:  # no folder could be made, or a name was taken
            self._done(None, WorkError(str(error), transient=True))
        else:
            self._take(step)

    def _take(self, step: Command | Pause) -> None:
        if isinstance(step, Pause):
            self._at(now() + step.span, lambda _: self._answer(Done(0)))
            return
        try:
            self._command(
                step.argv,
                limit_ms=step.limit,
                cwd=step.cwd,
                env=step.env,
                on_done=lambda code, said: self._answer(Done(code, said)),
                sweep=False,
            )
        except SpawnError as error:
            missing = WorkError(error.message)
            self._go(lambda: self._steps.throw(missing))

    def _answer(self, done: Done) -> None:
        self._go(lambda: self._steps.send(done))


class Alone:
    """A loop for steps that nobody else shares."""

    def __init__(self) -> None:
        self._reactor = Reactor()
        self._running: list[Bounded] = []
        self._timers: list[tuple[int, Callable[[int], object]]] = []

    def command(self, argv: Sequence[str], **words: object) -> Bounded:
        """Start a bounded command."""
        bounded = Bounded(self._reactor, argv, **words)  # type: ignore[arg-type]
        self._running.append(bounded)
        return bounded

    def at(self, instant: int, callback: Callable[[int], object]) -> None:
        """Call back at an instant."""
        self._timers.append((instant, callback))

    def turn(self) -> None:
        """Wait for the next thing that happens, and see to it."""
        waits = [instant for instant, _ in self._timers]
        waits += [due for one in self._running if (due := one.next_deadline()) is not None]
        self._reactor.poll(max(0, min(waits) - now()) if waits else None)
        moment = now()
        ripe = [timer for timer in self._timers if timer[0] <= moment]
        self._timers = [timer for timer in self._timers if timer[0] > moment]
        for one in list(self._running):
            one.step(moment)
        self._running = [one for one in self._running if not one.done]
        for _, callback in ripe:
            callback(moment)

    def close(self) -> None:
        """End what still runs."""
        for one in self._running:
            one.cancel()
        self._reactor.close()


def walk(steps: "Steps[T]") -> T:
    """Go through steps here and now, and return what they came to. Raises WorkError."""
    found: list[tuple[T | None, WorkError | None]] = []
    alone = Alone()
    try:
        Walk(steps, alone.command, alone.at, lambda answer, error: found.append((answer, error)))
        while not found:
            alone.turn()
    finally:
        alone.close()
    return _answer(*found[0])
