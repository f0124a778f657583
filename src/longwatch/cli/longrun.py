"""A foreground run that outlived the first blink: everything is loaded now, for after its start nothing may be.

Composition only: the watch decides, the driver loops, effects act, the voice speaks, the run folder remembers.
"""

import os

from longwatch.cli.attend import not_kept, output_lost
from longwatch.cli.ended import finish
from longwatch.cli.extras import ask_others, file_sources
from longwatch.cli.main import Front, say
from longwatch.cli.signals import Signals
from longwatch.cli.specs import NAMES, NOBODY, limits_for_people, setter_of, spec_of
from longwatch.cli.unwatched import go_on_unwatched
from longwatch.cli.voice import LOOP, Voice
from longwatch.core.facts import Fact, StopBegan
from longwatch.core.observations import StopRequested
from longwatch.core.sight import TRANSCRIPT
from longwatch.core.watch import Watch
from longwatch.errors import StoreError
from longwatch.options import recorded, whole_id
from longwatch.paths import rfc3339, state
from longwatch.posix import gears, now, wall_of
from longwatch.posix.echo import Echo
from longwatch.posix.identity import identity
from longwatch.posix.postmortem import elsewhere, unbuffered_hint
from longwatch.posix.process import STDOUT
from longwatch.posix.tree import Tree
from longwatch.runtime import guardian
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import loop
from longwatch.runtime.keeping import Keeping
from longwatch.runtime.rundir import meta

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NoReturn

    from longwatch.observe.agent import Agent
    from longwatch.observed import Observed
    from longwatch.runtime.effects import Sampler
    from longwatch.runtime.guardian import Guardian
else:
    import _signal

#: Killed in its first quarter second a supervisor has not supervised; a fork is dear for what ends before.
GUARDIAN_AFTER = 250
STATUS_EVERY = 1_000
#: The limits of silence, for which output that a program keeps back may be to blame.
_OF_SILENCE = ("idle", "first")


def supervise(front: Front) -> "NoReturn":
    """Watch to the end, and end as the run did: as its last incarnation, where a limit has others follow."""
    gears.offer()
    try:
        while True:
            run = LongRun(front)
            loop(run.driver)
            run.end()
    except Exception as error:  # noqa: BLE001 - a watchdog that is broken itself must not cost the work
        go_on_unwatched(front, error)


class LongRun:
    """One supervised incarnation of a foreground run."""

    def __init__(self, front: Front) -> None:
        self.front = front
        values, process = front.values, front.process
        leader = process.child.identity
        assert leader is not None
        self.tree = Tree(
            leader, whole_id(os.environ, front.run_id), subreaper=front.subreaper, ignore=set(front.strangers)
        )
        self.known = NOBODY
        self.observed = self._observe()
        spec = spec_of(values, merged=process.merged, known=self.known)
        if front.again is not None:
            spec = front.again.carried(spec)
        self.effects = ProcessEffects(process, self.tree, now, samplers=self._samplers(), argv=front.argv)
        self.watch = Watch(spec, process.child.started)
        self.driver = Driver(self.watch, self.effects)
        self.voice = Voice(
            front.name, front.run_id, self.effects.story, self.watch,
            setters={name: setter_of(values, name, self.known) for name in (*spec.limits, LOOP)},
            hidden=front.terminal is not None, verbose=values.verbose,
        )  # fmt: skip
        self.agent: Agent | None = None if self.observed is None else self.observed.agent
        self.guardian: Guardian | None = None
        self.keeping: Keeping | None = None
        ask_others(self)
        self._see_to_limits()
        self._connect()
        self._set_timers()
        self.effects.begin()
        self.hear()

    def hear(self) -> None:
        """Act on signals from now on."""
        Signals(self.front, self.tree, self.driver, self.stop_message).listen()

    def stop_message(self) -> "dict[str, Any] | None":
        """Return the line that `longwatch stop` left in the run folder, if it did."""
        return None if self.keeping is None else self.keeping.stop_message()

    # -- composition

    def _observe(self) -> "Observed | None":
        """Return what is known of the program. For one of another name that costs a look at its name."""
        front = self.front
        if front.preset is None and front.values.preset is None and os.path.basename(front.argv[0]) in NAMES:
            from longwatch.presets import recognised  # noqa: PLC0415

            front.preset = recognised(front.argv)
        if front.preset is None:
            return None
        from longwatch.cli.agents import known, observe  # noqa: PLC0415

        observed = observe(front, self.tree, self._note)
        if observed is not None:
            self.known = known(front, observed)
        return observed

    def _note(self, text: str) -> None:
        self.effects.story.note(text)

    def _samplers(self) -> "list[Sampler]":
        """Return what has to be looked at. A file that the program wrote first thing is seen only if `prepare` looked."""
        front = self.front
        files = file_sources(front.values) if front.files is None else front.files
        return [*files, *([] if front.screen is None else [front.screen])]

    def work_folder(self) -> str:
        """Return where the program works: our own folder, which it has inherited."""
        return os.curdir

    def _see_to_limits(self) -> None:
        """A provider's limit may end an agent: load whoever knows how it goes on."""
        if self.agent is not None and self.front.again is None:
            from longwatch.cli.again import Again  # noqa: PLC0415

            self.front.again = Again(self.front, self.agent.preset)

    def _connect(self) -> None:
        if self.observed is not None:
            self.observed.join(self.effects)
            self.voice.blind = self._blind
        self.effects.sinks = [self._before_stop_notes, self.voice.heard]
        self.effects.notify = self.voice.notify
        for pump in self.front.process.pumps.values():
            pump.before_write = self.voice.clear
            pump.on_broken = self._reader_gone
            pump.on_warning = self._sink_failed
            # What happened before anybody could be told of it.
            if pump.sink is not None and pump.sink.broken:
                self._reader_gone()
            elif pump.sink is not None and pump.sink.failed is not None:
                self._sink_failed(pump.sink.failed)
        if self.front.terminal is not None:
            self.effects.type = self._type

    def _type(self, text: str) -> None:
        """Type a nudge. The terminal's echo of it is our own doing and moves no clock."""
        pump, terminal = self.front.process.pumps[STDOUT], self.front.terminal
        if terminal is not None:
            pump.judge = Echo(pump, text)
            if self.front.screen is not None:
                self.front.screen.pardon()
            terminal.type(text)

    def _set_timers(self) -> None:
        front, values, started = self.front, self.front.values, self.watch.started
        self.driver.at(started + GUARDIAN_AFTER, self._start_guardian)
        windows = [limit.window for limit in self.watch.spec.limits.values()]
        soon = min(1_000, min(windows, default=2_000) // 2)
        self.driver.at(started + (soon if front.folder is None else 0), self.keep)
        # What we write into the output of an outer run would be progress there.
        nested = "LONGWATCH_RUN_ID" in os.environ
        if values.still_running and not nested:
            self.driver.at(started + values.still_running, self.voice.still_running, values.still_running)
        silences = [limit.window for name, limit in self.watch.spec.limits.items() if name in _OF_SILENCE]
        if silences and not self.watch.spec.held and self.watch.spec.sampled:
            self.driver.at(started + min(silences), self.voice.unseen)
        if self.watch.spec.sampled and values.poll:
            self.driver.at(started + values.poll, lambda now: self.effects.stamps(), values.poll)
        if os.isatty(2) and self.front.terminal is None and not nested:
            self.driver.at(started + STATUS_EVERY, self.voice.status, STATUS_EVERY)

    def _before_stop_notes(self, fact: Fact) -> None:
        """What the post-mortem cannot know: how the program's output reached us, and where else it may work."""
        if not isinstance(fact, StopBegan):
            return
        story, stdout = self.effects.story, self.front.process.pumps.get(STDOUT)
        piped = self.front.terminal is None and stdout is not None and not stdout.bytes
        if piped and fact.reason in _OF_SILENCE and STDOUT in self.watch.spec.held:
            story.note(unbuffered_hint(self.front.argv))
        seen = None if story.post_mortem is None else story.post_mortem.elsewhere
        other = seen or elsewhere(self.front.argv)
        if other is not None:
            story.note(other)
        if self.observed is not None:
            for remark in filter(None, (*self.observed.remarks(), self._blind())):
                story.note(remark)

    def _blind(self) -> str:
        """Return why the records of the program say nothing, where there should be some."""
        if self.observed is None:
            return ""
        lost = self.watch.sight.records and self.watch.sight.is_lost(TRANSCRIPT)
        return "its records cannot be read any more" if lost else self.observed.blind()

    # -- timers

    def _start_guardian(self, at: int) -> None:
        try:
            self.guardian = guardian.start(self.tree)
        except OSError as error:
            self.effects.story.note(f"no guardian: {(error.strerror or '').lower()}")

    def keep(self, at: int) -> None:
        """From now on others can see the run; a folder that cannot be made is said once and done without."""
        front = self.front
        supervisor, child = identity(os.getpid()), front.process.child.identity
        assert supervisor is not None
        assert child is not None
        described = meta(
            front.run_id, front.name, recorded(front.argv), supervisor, child, attempt=front.attempt,
            parent=os.environ.get("LONGWATCH_RUN_ID"), cwd=_cwd(), started_ms=self.watch.started,
            limits=limits_for_people(front.values, self.watch.spec), sources=self.watch.sight.declared,
            log=os.path.abspath(front.values.log) if front.values.log else None, preset=self.known.preset or None,
        )  # fmt: skip
        try:
            self.keeping = Keeping(state(), described, self.watch, self.effects, front.folder)
            if self.observed is not None:
                self.observed.keep(self.keeping)
        except StoreError as error:
            not_kept(front, error)

    # -- what happens to our output

    def _reader_gone(self) -> None:
        """Whoever read our output left: as in any pipeline, that ends the run."""
        self.front.ended_by = _signal.SIGPIPE
        self.driver.tell(StopRequested("interrupted", signal=_signal.SIGTERM))

    def _sink_failed(self, why: str) -> None:
        self.voice.clear()
        say(output_lost(self.front, why))

    # -- the end

    def end(self) -> None:
        """Give the terminal back, write what is kept, say what there is to say, leave.

        Returns only where the run goes on: another incarnation was started.
        """
        front, story = self.front, self.effects.story
        if front.terminal is not None:
            front.terminal.close()
            self.voice.hidden = False
        if self.guardian is not None:
            self.guardian.dismiss()
        self.effects.end()
        told = {} if self.observed is None else self.observed.ended(now())
        report = story.report(
            self.watch, front.process, run=front.run_id, name=front.name, attempt=front.attempt,
            started_at=rfc3339(wall_of(self.watch.started)), **told,
        )  # fmt: skip
        if front.again is None or self.agent is None or not front.again.goes_on(self, self.agent, report):
            self._over(report)

    def _over(self, report: "dict[str, Any]") -> "NoReturn":
        """Nothing of the run is to come any more."""
        front = self.front
        failed = None if self.keeping is None else self.keeping.end(report)
        self.voice.ended(report, recorded=self.keeping is not None and failed is None)
        if failed is not None:
            say(f"{front.name}: not all is kept of this run: {failed}")
        if front.again is not None and self.agent is not None:
            front.again.last_words(self.agent, report)
        finish(front, report, result_ok=self.watch.result_ok)


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None
