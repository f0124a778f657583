"""Performs what a watch commands, on a process: signals, post-mortem, hook, nudge, the end of its streams.

Everything here is thin: the watch has decided. What an effect finds out goes back as an observation.
"""

import time

from longwatch.core import commands as c
from longwatch.core import observations as o
from longwatch.core.facts import Fact
from longwatch.posix.postmortem import capture
from longwatch.posix.process import Process
from longwatch.posix.tree import Tree
from longwatch.runtime.story import Story

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar, Protocol

    from longwatch.core.watch import Watch

    class Sampler(Protocol):
        """A source that has to be looked at: a file, a screen."""

        name: str

        def sample(self) -> bool: ...

    class Check(Protocol):
        """What looks at the effect of a run, now and then and when asked."""

        def refresh(self, done: Callable[[], object]) -> None: ...
        def end(self) -> None: ...

    class BeforeStop(Protocol):
        """What is run before a stop; it answers `Prepared` or `Vetoed`."""

        def run(self, limit: str) -> None: ...
        def end(self) -> None: ...

    class Observer(Protocol):
        """Who reads the records of the program: told messages of its hooks, asked for what is new."""

        def message(self, message: dict[str, Any], at: int) -> object: ...
        def look(self, now: int, *, afresh: bool = False) -> Iterable[tuple[int, o.Observation]]: ...

    class Effects(Protocol):
        """What a driver needs of whatever it drives."""

        tell: Callable[..., object]
        later: Callable[[int, Callable[[int], object]], object]

        def stamps(self) -> Iterable[tuple[str, int, int, int]]: ...
        def evidence(self) -> list[tuple[int, o.Observation]]: ...
        def blocked(self, now: int) -> int: ...
        def poll(self, timeout_ms: int | None) -> object: ...
        def fileno(self) -> int: ...
        def looked(self, watch: Watch, now: int) -> None: ...
        def perform(self, command: c.Command) -> None: ...


KILL = 9


class Sampled:
    """A sampler with its stamps; `sample` returns what changed about it."""

    __slots__ = ("count", "last", "readable", "sampler")

    def __init__(self, sampler: "Sampler") -> None:
        self.sampler = sampler
        self.readable = True
        self.last = 0
        self.count = 0

    def sample(self, now: int) -> o.Observation | None:
        """Look once; return `SourceLost` or `SourceFound` where that is news."""
        was = self.readable
        try:
            if self.sampler.sample():
                self.last, self.count = now, self.count + 1
        except OSError:
            self.readable = False
            return o.SourceLost(self.sampler.name) if was else None
        self.readable = True
        return None if was else o.SourceFound(self.sampler.name)


class ProcessEffects:
    """The hands of one run."""

    def __init__(
        self,
        process: Process,
        tree: Tree,
        clock: "Callable[[], int]",
        *,
        samplers: "Iterable[Sampler]" = (),
        argv: "Iterable[str]" = (),
    ) -> None:
        self.process = process
        self.tree = tree
        self.clock = clock
        self.story = Story()
        self.tell: Callable[..., object] = _nobody
        self.later: Callable[[int, Callable[[int], object]], object] = _nobody
        #: Told every fact, and every notice; set by whoever composes the run.
        self.sinks: list[Callable[[Fact], object]] = []
        self.notify: Callable[[Fact], object] | None = None
        self.on_look: list[Callable[[Watch, int], object]] = []
        #: Returns messages from inside the run (see `rundir`), and types a text into the program.
        self.channel: Callable[[], list[dict[str, Any]]] | None = None
        self.type: Callable[[str], object] | None = None
        self._samplers = [Sampled(sampler) for sampler in samplers]
        #: What is asked before a stop, and what looks at the effect; set by whoever composes the run.
        self.hook: BeforeStop | None = None
        self.check: Check | None = None
        #: Who reads the program's records; set by whoever composes the run.
        self.observer: Observer | None = None
        self._hurried = self._afresh = False
        self._argv = list(argv)
        self._told_exit = self._told_drained = self._told_gone = False
        self._sweeping = False
        #: Since when (monotonic, ns) the leader has certainly been over.
        self._over_since: int | None = None
        self._quiets: set[str] = set()
        self._asked = process.child.started
        #: The hosts wait here, and it is called at every turn.
        self.poll: Callable[[int | None], object] = process.reactor.poll
        if process.shared:
            # The loop is not ours to turn: whoever asks for what has come gets that of this process.
            self.poll = lambda timeout_ms: process.take()
        self.fileno = process.reactor.fileno
        process.changed = self._process_changed

    # -- evidence

    def stamps(self) -> "Iterable[tuple[str, int, int, int]]":
        """Return of each source: its name, newest progress, times it came, newest sign of life."""
        now = self.clock()
        found = []
        for name, pump in self.process.pumps.items():
            pump.settle()
            found.append((name, pump.last, pump.count, pump.alive))
        for sampled in self._samplers:
            news = sampled.sample(now)
            if news is not None:
                self.tell(news, now)
            found.append((sampled.sampler.name, sampled.last, sampled.count, sampled.last))
        return found

    def evidence(self) -> "list[tuple[int, o.Observation]]":
        """Return what came through the channel from inside the run, and what the program's records say."""
        messages = [] if self.channel is None else self.channel()
        now = self.clock()
        found = [(_written(message, now), seen) for message in messages for seen in self._message(message)]
        if self.observer is None:
            return found
        for message in messages:
            if message.get("op") == "hook":
                self.observer.message(message, _written(message, now))
        return [*found, *self.observer.look(now, afresh=self._afresh)]

    def sample(self, sampler: "Sampler") -> None:
        """Look at one more source from now on."""
        self._samplers.append(Sampled(sampler))

    def restore(self, name: str, last: int, count: int) -> None:
        """Go on with what another supervisor has seen of a source that is looked at."""
        for sampled in self._samplers:
            if sampled.sampler.name == name:
                sampled.last, sampled.count = last, count

    def hurry(self) -> None:
        """Have a look soon: there is something to tell that is in no inbox."""
        if not self._hurried:
            self._hurried = True
            self.later(self.clock(), _nothing)

    def _message(self, message: "dict[str, Any]") -> "Iterable[o.Observation]":
        """Several commands may be quiet at once: the hold ends with the last of them."""
        operation, token = message.get("op"), str(message.get("token", ""))
        if operation == "quiet" and isinstance(message.get("span_ms"), int):
            self._quiets.add(token)
            return (o.QuietBegan(message["span_ms"]),)
        if operation == "quiet_end":
            self._quiets.discard(token)
            return () if self._quiets else (o.QuietEnded(),)
        return ()

    def blocked(self, now: int) -> int:
        """Return for how many ms, of those since the last question, nobody has taken our output up to now."""
        asked, self._asked = self._asked, now
        since = self.process.blocked_since()
        return 0 if since is None else now - max(since, asked)

    def looked(self, watch: "Watch", now: int) -> None:
        """Let those who show the run see it; collect orphans that have ended."""
        self._hurried = False
        if self.process.child.pidfd is None:
            self.process.look()
        self.tree.reap()
        for callback in self.on_look:
            callback(watch, now)

    # -- commands

    def perform(self, command: c.Command) -> None:
        """Do what the watch says."""
        self._PERFORM[type(command)](self, command)

    def _record(self, command: c.Record) -> None:
        self.story.add(command.fact)
        for sink in self.sinks:
            sink(command.fact)

    def _notify(self, command: c.Notify) -> None:
        if self.notify is not None:
            self.notify(command.fact)

    def _capture(self, command: c.CapturePostMortem) -> None:
        # From here on nothing is destroyed on a look that is not fresh.
        self._afresh = True
        self.story.post_mortem = capture(self.tree, argv=self._argv)
        if self.check is not None and command.limit == "effect":
            # The last look is some while ago, and what came since then may save the program.
            self.check.refresh(lambda: self._ask(command.limit))
        else:
            self._ask(command.limit)

    def _ask(self, limit: str) -> None:
        """Let the user's hook speak; without one there is nothing more to wait for."""
        if self.hook is None:
            self.tell(o.Prepared())
        else:
            self.hook.run(limit)

    def _signal(self, command: c.SignalTree) -> None:
        if command.signal == KILL:
            self.tree.kill()
        else:
            self.tree.signal(command.signal)
        self.process.look()
        if self._sweeping:
            self._sweep_again()

    def _sweep(self, command: c.SweepTree) -> None:
        """Look once, since a look may have to read the whole process table; then wait for who was found."""
        self._sweeping = True
        left = self.tree.infos(since=self._over_since)
        if not self.tree.mortal(left):
            self._gone()
            return
        self.tell(o.LeftoversFound(tuple(info.label for info in left)))
        self._sweep_again()

    def _sweep_again(self, now: int = 0) -> None:
        """Look until nothing is left; in between wait for those found to end."""
        if self._told_gone:
            return
        hint = self.tree.watch(self.process.reactor, self._sweep_again)
        if hint == 0:
            self._gone()
        elif hint is not None:
            self.later(self.clock() + hint, self._sweep_again)

    def _gone(self) -> None:
        if not self._told_gone:
            self._told_gone = True
            self.tell(o.TreeGone())

    def _nudge(self, command: c.Nudge) -> None:
        if self.type is not None:
            self.type(command.text)

    def _abandon(self, command: c.AbandonPipes) -> None:
        for pump in self.process.pumps.values():
            pump.finish()

    def _process_changed(self) -> None:
        if self.process.ended is not None and not self._told_exit:
            self._told_exit = True
            self._over_since = time.monotonic_ns()
            self.tell(o.Exited(*self.process.ended), self.process.ended_at)
        if self.process.drained and not self._told_drained:
            self._told_drained = True
            self.tell(o.Drained())

    def begin(self) -> None:
        """Tell what happened before there was anybody to tell, and before there was a pidfd to tell it."""
        self.process.look()
        self._process_changed()

    def end(self) -> None:
        """The run is over: note who is left, collect the leader, give descriptors back."""
        if self.hook is not None:
            self.hook.end()
        if self.check is not None:
            self.check.end()
        self.tree.unwatch()
        self.tree.reap()
        if not self._told_gone:
            self.story.survivors = self.tree.survivors()
        self.story.proof = self.tree.proof  # a nursery may have died meanwhile
        self.process.close()

    _PERFORM: "ClassVar[dict[type[c.Command], Callable[[ProcessEffects, Any], None]]]" = {
        c.Record: _record,
        c.Notify: _notify,
        c.CapturePostMortem: _capture,
        c.SignalTree: _signal,
        c.SweepTree: _sweep,
        c.Nudge: _nudge,
        c.AbandonPipes: _abandon,
    }


def _written(message: "dict[str, Any]", now: int) -> int:
    """Return when a message was written: what was said in time counts, though we read it when a limit is due."""
    at = message.get("at_ms")
    return min(at, now) if isinstance(at, int) else now


def _nothing(now: int) -> None:
    """Do nothing; that it was time for it made somebody look."""


def _nobody(*words: object) -> None:
    raise AssertionError(f"no driver to tell {words} to")
