"""One incarnation of one harness: a program that a keeper holds, followed until its tree is proven gone.

Composition only: the watch decides, the driver tells, effects act, the log has the bytes, the run folder remembers.
Another supervisor may have followed it before us, and another may go on after us.
"""

import os

from longwatch.core.batch import ITEM
from longwatch.core.facts import TreeUnkillable
from longwatch.core.observations import Observation, StopRequested
from longwatch.core.spec import NOTIFY
from longwatch.core.watch import Watch
from longwatch.errors import StoreError
from longwatch.paths import rfc3339
from longwatch.posix import wall_of
from longwatch.posix.clocks import LOOKED
from longwatch.posix.files import FileSource
from longwatch.posix.identity import Identity, boot_id
from longwatch.posix.judge import LineJudge
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.process import Process
from longwatch.posix.tree import Tree
from longwatch.runtime.checks import CommandCheck, FolderCheck
from longwatch.runtime.conduit import Conduit, Nowhere
from longwatch.runtime.driver import NEVER, Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hook import Hook
from longwatch.runtime.host import COMMAND_OF
from longwatch.runtime.keeping import Keeping
from longwatch.runtime.keys import Keys
from longwatch.runtime.making import Begun, Parts, how_it_ended, launch_mark, spec_of
from longwatch.runtime.marks import ended
from longwatch.runtime.rundir import RunDir, meta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.facts import Fact
    from longwatch.core.harness import Harness
    from longwatch.posix.child import Child
    from longwatch.runtime.bounded import Bounded
    from longwatch.runtime.effects import Sampler
    from longwatch.runtime.host import Host

#: How soon a run is looked at again after a defect of ours.
AGAIN = 1_000
#: A stop command has this long at most, in ms, whatever the grace is.
STOP_COMMAND_LIMIT = 60_000


class HostedHook(Hook):
    """A hook in a loop that goes on without the run: nobody waits for its end."""

    def __init__(self, host: "Host", *words: "Any") -> None:
        super().__init__(*words)
        self._host = host

    def end(self) -> None:
        """Hand it to the host, which sees to its limit."""
        hook: Bounded | None = self._running
        if hook is not None and not hook.done:
            hook.hurry()
            self._host.attend(hook)


class Running:
    """One incarnation. `on_over(self)` is called once, when nothing of it is left; then there is `report`.

    `folder` is the run folder that an earlier supervisor has left, `described` what its meta says beside. `heard(fact)` gets every fact, `noticed(fact)`
    what a human should hear of.
    """

    def __init__(
        self, host: "Host", parts: Parts, harness: "Harness", begun: Begun, child: "Child", *,
        on_over: "Callable[[Running], object]", heard: "Callable[[Fact], object] | None" = None,
        noticed: "Callable[[Fact], object] | None" = None, warn: "Callable[[str], object] | None" = None,
        folder: RunDir | None = None, described: "Mapping[str, object] | None" = None,
    ) -> None:  # fmt: skip
        self._described = {**parts.described, **(described or {})}
        self.host = host
        self.harness = harness
        self.run_id, self.attempt, self.trigger = begun.run, begun.attempt, begun.trigger
        self.child = child
        self.resumed = begun.resumed
        #: What tells this start from one of another definition.
        self.launched = begun.launched or launch_mark(harness)
        self.report: dict[str, Any] = {}
        self.why_ended: Any = None
        self.warn = warn or _as_it_is
        self._parts = parts
        self._on_over = on_over
        self._ending = False
        self._stop_command: Bounded | None = None
        leader = child.identity or Identity(child.pid, 0, boot_id())
        self.tree = Tree(leader, self._mark(begun), subreaper=False, nursery=child.nursery)
        self.log = parts.sinks(harness, begun.run, self.resumed, self.warn) or host.nowhere
        merged = child.stderr_fd is None
        self.process = Process(child, host.reactor, {}, merged, make=self._pump, shared=True)
        self.effects = ProcessEffects(
            self.process, self.tree, host.clock, samplers=self._files(), argv=harness.command
        )
        self.observation = parts.observer(harness, self)
        spec = self.observation.spec(spec_of(harness, self.process))
        self.watch = Watch(spec, child.started)
        if begun.report_only:
            self.watch.allow("stall", NOTIFY)
        self.seat = host.rounds.join(spec)
        self.driver = Driver(self.watch, self.effects, host.clock, self.seat)
        self.seat.driver, self.seat.broken = self.driver, self._broken
        self.effects.tell = self.tell
        self.keeping: Keeping | None = None
        self._keys: Keys | None = None
        self._connect(heard, noticed)
        self._young = host.at(self.watch.started + self._youth(), lambda now: self._keep(leader)) if (
            folder is None and parts.folder_after
        ) else None  # fmt: skip
        if self._young is None:
            self._keep(leader, folder)
        self._begin()

    # -- composition

    def _mark(self, begun: Begun) -> str:
        """Return the mark that all of the run carry: that of a run around us comes in, and nothing else of our environment."""
        outer = os.environ.get(RUN_VARIABLE)
        around = {} if outer is None else {RUN_VARIABLE: outer}
        return self._parts.environment(around, begun.run, begun.attempt)[RUN_VARIABLE]

    def _pump(self, name: str, fd: int, on_end: "Callable[[], object]") -> Conduit:
        relay = getattr(self.child, "relay", None) if self.child.master_fd is not None else None
        pump = Conduit(self.host.lane, fd, self.log, self.host.mirror, relay, on_end=on_end)
        pump.moved_some = self._moved
        if self.harness.not_progress:
            pump.judge = LineJudge("|".join(f"(?:{rule})" for rule in self.harness.not_progress))
        return pump

    def _files(self) -> "list[Sampler]":
        found: list[Sampler] = []
        for name in self.harness.sources:
            if name.startswith("file:"):
                source = FileSource("file:" + os.path.join(self.harness.cwd, name.removeprefix("file:")))
                source.name = name
                found.append(source)
        return found

    def _connect(
        self, heard: "Callable[[Fact], object] | None", noticed: "Callable[[Fact], object] | None"
    ) -> None:
        harness, effects = self.harness, self.effects
        self.observation.join(effects)
        if heard is not None:
            effects.sinks.append(heard)
        effects.notify = noticed
        if harness.before_stop is not None:
            command = f"cd {_quoted(harness.cwd)} && {harness.before_stop}"
            effects.hook = HostedHook(self.host, effects, self.host.reactor, command, self._hook_environment)
        if "effect" in harness.limits:
            window = harness.limits["effect"].window
            check = getattr(harness, "check", None)
            if check is None:
                effects.check = FolderCheck(effects, harness.cwd, window)
            else:
                command = f"cd {_quoted(harness.cwd)} && {check}"
                environ = self._hook_environment("effect")
                effects.check = CommandCheck(effects, self.host.reactor, command, window, environ)
        if self.child.master_fd is not None:
            effects.type = lambda text: self.send(text.encode("utf-8", "surrogateescape"), newline=True)
        if self.watch.spec.sampled:
            poll = getattr(harness, "poll", 0) or AGAIN
            self.driver.at(self.host.clock() + poll, lambda now: effects.stamps(), poll)

    def _hook_environment(self, limit: str) -> dict[str, str]:
        return {
            **os.environ, **self.harness.env, "LONGWATCH_RUN_ID": self.run_id, "LONGWATCH_NAME": self.harness.name,
            "LONGWATCH_PID": str(self.child.pid), "LONGWATCH_LIMIT": limit, COMMAND_OF: self.host.mark,
        }  # fmt: skip

    def _youth(self) -> int:
        """Return for how long it has no folder yet: nobody will ever ask about most of those that are over by then."""
        windows = [limit.window for limit in self.watch.spec.limits.values() if limit.window]
        return min(self._parts.folder_after, min(windows, default=NEVER) // 2)

    def _keep(self, leader: Identity, folder: RunDir | None = None) -> None:
        ours = self.host.me
        limits = {
            name: {
                "window_ms": limit.window, "action": limit.action, "source": self.harness.setters.get(name, "default"),
            }
            for name, limit in self.watch.spec.limits.items()
        }  # fmt: skip
        described = meta(
            self.run_id, self.harness.name, self._parts.recorded(self.harness.command), ours, leader, attempt=self.attempt,
            cwd=self.harness.cwd, started_ms=self.watch.started, limits=limits, sources=self.watch.sight.declared,
            log=getattr(self.log, "path", "") or None, preset=self.harness.preset,
        )  # fmt: skip
        described |= {
            "harness": self.harness.name, "kind": self.harness.kind, "trigger": self.trigger, "daemon": True,
            "launch": self.launched, **self._described,
        }  # fmt: skip
        try:
            self.keeping = Keeping(
                self._parts.state, described, self.watch, self.effects, folder, taken_up=folder is not None
            )
            self.observation.keep(self.keeping)
        except StoreError as error:
            self.warn(str(error))

    def _begin(self) -> None:
        self.effects.on_look.append(self._looked)
        if self.resumed:
            looked = 0 if self.keeping is None else self.keeping.folder.clocks.header[LOOKED]
            stamps = [last for _, last, count, _ in self.effects.stamps() if count]
            self.driver.resume(min(self.host.clock(), max(self.watch.started, looked, *stamps)))
        else:
            self.driver.start()
        self.effects.begin()

    # -- what happens

    def tell(self, observation: Observation, at: int | None = None) -> None:
        """Tell the watch, as soon as whatever goes on now is over."""
        self.driver.tell(observation, at)
        self.seat.sooner(self.host.clock())

    def _moved(self) -> None:
        if self.driver.eager:
            self.seat.sooner(self.host.clock())

    def watched(self, now: int) -> None:
        """Somebody looks out for it, whether or not anything of it is due."""
        if self.keeping is not None:
            self.keeping.waits(now)

    def _broken(self, error: Exception) -> None:
        self.warn(f"a defect of longwatch, the run goes on: {error!r}")
        self.host.failed(error)
        self.seat.sooner(self.host.clock() + AGAIN)

    # -- what it is asked

    @property
    def clocks(self) -> tuple[int | None, int | None]:
        """Return when it was last alive and when it last made progress (None: never), also what its watch was not told yet."""
        sight = self.watch.sight
        alive, progress = sight.alive or 0, sight.last or 0
        for name, pump in self.process.pumps.items():
            alive = max(alive, pump.alive)
            if name in sight.declared:
                progress = max(progress, pump.last)
        return alive or None, progress or None

    @property
    def stopping(self) -> bool:
        """Whether it was told to end, or has."""
        return self.watch.ending.began or self._stop_command is not None

    def stop(self, reason: str, origin: str | None, grace: int | None = None) -> None:
        """End it with its whole tree; where the harness has a command for that, by that first."""
        wait = self.harness.grace if grace is None else grace
        command = self.harness.stop_command
        if command is None or self._stop_command is not None or self.watch.ending.began:
            self.tell(StopRequested(reason, origin, self.harness.signal, wait))
            return
        told = StopRequested(reason, origin, self.harness.signal, wait)
        try:
            self._stop_command = self.host.command(
                ["/bin/sh", "-c", command], limit_ms=min(wait, STOP_COMMAND_LIMIT), cwd=self.harness.cwd,
                env=self._hook_environment(""), on_done=lambda code, text: self._stop_commanded(code, told),
                ignore=self.tree.ignore,
            )  # fmt: skip
        except OSError as error:
            self.warn(f"the stop command could not be started: {error}")
            self.tell(told)

    def _stop_commanded(self, code: int | None, told: StopRequested) -> None:
        if self._ending:
            return
        if code == 0:
            # It was told in its own way, and gets the grace to act on it.
            wait = self.harness.grace if told.grace is None else told.grace
            self.driver.at(self.host.clock() + wait, lambda now: self.tell(told))
            return
        self.warn("the stop command took too long" if code is None else f"the stop command exited {code}")
        self.tell(told)

    def send(self, data: bytes, *, newline: bool = False) -> int:
        """Type bytes into it; return how many. Raises KeysError."""
        self.observation.typed()
        return self.keys.send(data, newline)

    @property
    def keys(self) -> Keys:
        """What types into it."""
        if self._keys is None:
            self._keys = Keys(self.process, self.host.reactor, self.host.at, self.host.now)
        return self._keys

    def redefine(self, harness: "Harness") -> None:
        """Apply what a new definition says of limits and policies to what runs."""
        if self.launched == launch_mark(harness):
            self.harness = harness
        self.watch.redefine(self.observation.spec(spec_of(harness, self.process)))
        self.driver.look(self.host.clock())

    def arm_stall(self) -> None:
        """Its limit of stalls has its own action again."""
        self.watch.allow("stall")

    # -- the end

    def _looked(self, watch: Watch, now: int) -> None:
        if watch.over and not self._ending:
            self._ending = True
            survived = any(isinstance(fact, TreeUnkillable) for fact in self.effects.story.facts)
            self.host.soon(self._await_end if survived else self._finish)

    def _await_end(self, now: int) -> None:
        """Something survived KILL: it is over when that has gone, too, however long the kernel takes."""
        hint = self.tree.watch(self.host.reactor, self._await_end_again)
        if hint == 0:
            self._finish(now)
        elif hint is not None:
            self.host.at(now + hint, self._await_end)

    def _await_end_again(self) -> None:
        self.host.soon(self._await_end)

    def _finish(self, now: int) -> None:
        """Write down how it ended, and give everything back."""
        self.host.rounds.leave(self.seat)
        self.host.cancel(self._young)
        self._close_keys()
        self.effects.end()
        told = self.observation.ended(now)
        report = self.effects.story.report(
            self.watch, self.process, run=self.run_id, name=self.harness.name, attempt=self.attempt,
            started_at=rfc3339(wall_of(self.watch.started)), **told,
        )  # fmt: skip
        self.report = self._parts.redact({**report, "ended_at": rfc3339(wall_of(now))})
        self.why_ended = self.observation.judged(report)
        if self.keeping is not None and (failed := self.keeping.end(self.report, prune=False)) is not None:
            self.warn(f"not all is kept of this run: {failed}")
        if self.harness.kind == ITEM and (gone := getattr(self.log, "discarded", 0)):
            self.note(f"{gone} bytes of this log were discarded: it may be no larger")
        self.note(ended(self.run_id, how_it_ended(self.report)))
        self._close_log()
        self._on_over(self)

    def leave(self) -> None:
        """Let go of it as it is: the keeper holds it, and another supervisor will go on."""
        now = self.host.clock()
        self.host.rounds.leave(self.seat)
        self.host.cancel(self._young)
        if self._stop_command is not None:
            self._stop_command.cancel()
        self._close_keys()
        self.process.take()
        if self.keeping is not None:
            self.keeping.leave(now)
        self.observation.close()
        self.effects.end()
        self._close_log()

    def note(self, text: str) -> None:
        """Say something about the run in its log."""
        if not isinstance(self.log, Nowhere):
            self.log.note(text)

    def _close_keys(self) -> None:
        if self._keys is not None:
            self._keys.close()

    def _close_log(self) -> None:
        if not isinstance(self.log, Nowhere):
            self.log.close()


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def _as_it_is(value: "Any") -> "Any":
    return value


__all__ = ["Begun", "Parts", "Running"]
