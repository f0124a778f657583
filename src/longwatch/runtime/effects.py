"""Performs what a watch commands, on a process: signals, post-mortem, hook, nudge, the end of its streams.

Everything here is thin: the watch has decided. What an effect finds out goes back as an observation.
"""

from longwatch.core import commands as c
from longwatch.core import observations as o
from longwatch.core.facts import Fact
from longwatch.core.spec import MINUTE
from longwatch.posix.postmortem import capture
from longwatch.posix.process import Process
from longwatch.posix.tree import Tree
from longwatch.runtime.bounded import Bounded, sh
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

    class Effects(Protocol):
        """What a driver needs of whatever it drives."""

        tell: Callable[..., object]
        later: Callable[[int, Callable[[int], object]], object]

        def stamps(self) -> Iterable[tuple[str, int, int, int]]: ...
        def evidence(self) -> list[tuple[int, o.Observation]]: ...
        def blocked_since(self) -> int | None: ...
        def looked(self, watch: Watch, now: int) -> None: ...
        def perform(self, command: c.Command) -> None: ...


KILL = 9
#: A hook before a stop may save a work tree; longer than this it delays what it was meant to help.
HOOK_LIMIT = 1 * MINUTE
#: EX_TEMPFAIL: the hook says "not now".
VETO = 75


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
        hook: str | None = None,
        hook_environment: "Callable[[str], dict[str, str]] | None" = None,
        argv: "Iterable[str]" = (),
    ) -> None:
        self.process = process
        self.tree = tree
        self.clock = clock
        self.story = Story()
        self.story.proof = tree.proof
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
        self._hook = hook
        self._hook_environment = hook_environment
        self._argv = list(argv)
        self._told_exit = self._told_drained = self._told_gone = False
        self._sweeping = False
        self._quiets: set[str] = set()
        self._hook_run: Bounded | None = None
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
        """Return what came through the channel from inside the run."""
        messages = [] if self.channel is None else self.channel()
        now = self.clock()
        return [(_written(message, now), seen) for message in messages for seen in self._message(message)]

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

    def blocked_since(self) -> int | None:
        """Return since when nobody takes our output."""
        return self.process.blocked_since()

    def looked(self, watch: "Watch", now: int) -> None:
        """Let those who show the run see it; collect orphans that have ended."""
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
        self.story.post_mortem = capture(self.tree, argv=self._argv)
        if self._hook is None:
            self.tell(o.Prepared())
            return
        environment = None if self._hook_environment is None else self._hook_environment(command.limit)
        try:
            self._hook_run = Bounded(
                self.process.reactor, sh(self._hook), env=environment, limit_ms=HOOK_LIMIT,
                on_done=self._hook_done, ignore=self.tree.ignore,
            )  # fmt: skip
        except OSError as error:
            self.story.note(f"the hook before the stop could not be started: {error}")
            self.tell(o.Prepared())
            return
        self._step_hook(self.clock())

    def _step_hook(self, now: int) -> None:
        """Let the hook's own limit act; it has a clock of its own, so that no hook can hold up the run."""
        run = self._hook_run
        if run is not None:
            run.step(now)
            due = run.next_deadline()
            if due is not None:
                self.later(due, self._step_hook)

    def _hook_done(self, code: int | None, text: str) -> None:
        if code == VETO:
            why = " ".join(text.split())
            self.story.note("the hook before the stop vetoed it" + (f": {why}" if why else ""))
            self.tell(o.Vetoed(why))
            return
        if code != 0:
            how = "took longer than 60 s and was stopped" if code is None else f"exited {code}"
            self.story.note(f"the hook before the stop {how}")
        self.tell(o.Prepared())

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
        left = self.tree.infos()
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
        self._end_hook()
        self.tree.unwatch()
        self.tree.reap()
        if not self._told_gone:
            self.story.survivors = self.tree.survivors()
        self.process.close()

    def _end_hook(self) -> None:
        """A hook that nothing waits for any more ends in order: git still removes its lock file."""
        hook = self._hook_run
        if hook is None or hook.done:
            return
        hook.hurry()
        while (due := hook.next_deadline()) is not None:
            self.process.reactor.poll(max(0, due - self.clock()))
            hook.step(self.clock())

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


def _nobody(*words: object) -> None:
    raise AssertionError(f"no driver to tell {words} to")
