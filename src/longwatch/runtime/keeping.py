"""A run folder in use: events as they happen, clocks at each look, messages from inside, the report at the end."""

from longwatch.core.facts import Fact
from longwatch.core.watch import Watch
from longwatch.posix.clocks import (
    ALIVE,
    COUNT,
    ENDED,
    HOLDS,
    LAST,
    LOOKED,
    MAX_SOURCES,
    PARKED,
    PROGRESS,
    RUNNING,
    SOURCE_ALIVE,
    STOPPING,
)
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.rundir import SCHEMA, RunDir, gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from longwatch.runtime.agent_log import AgentLog

    class Standing(Protocol):
        """An observed agent; `version` changes with what is shown of it."""

        version: int

        def as_dict(self, now: int) -> Mapping[str, object]:
            """Return what is shown."""


#: A second is late for no reader.
AGENT_EVERY = 1_000


class Keeping:
    """Keeps one run's folder up to date. Raises StoreError at the start only; `end` tells of later failures.

    `folder` is the one of the incarnation before, which the run goes on with; or of this one, `taken_up` where
    another supervisor has left it: then the stamps in it hold on.
    """

    def __init__(
        self, state: str, described: "Mapping[str, object]", watch: Watch, effects: ProcessEffects,
        folder: RunDir | None = None, *, taken_up: bool = False,
    ) -> None:  # fmt: skip
        self._state = state
        self._watch = watch
        self._effects = effects
        self._described = described
        if folder is None:
            folder = RunDir.create(state, described, watch.started)
        elif taken_up:
            folder.write_meta(described)
        else:
            folder.renew(described, watch.started)
        self.folder = folder
        self._messages: list[dict[str, Any]] = []
        self._stop: dict[str, Any] | None = None
        self._sampled: list[tuple[memoryview, str]] = []
        self._agent: Standing | None = None
        self._log: AgentLog | None = None
        self._shown, self._shown_at = -1, watch.started - AGENT_EVERY
        self._share_stamps(taken_up=taken_up)
        for fact in effects.story.facts:
            self.heard(fact)
        effects.sinks.append(self.heard)
        effects.channel = self.messages
        effects.on_look.append(self.looked)
        if not taken_up:
            self.looked(watch, watch.started)

    def _share_stamps(self, *, taken_up: bool) -> None:
        """Let the pumps store into the mapped file from now on: readers see a byte as soon as we do."""
        declared = self._watch.sight.declared
        for index, name in enumerate(declared[:MAX_SOURCES]):
            pump, slot = self._effects.process.pumps.get(name), self.folder.clocks.source(index)
            if pump is not None and taken_up:
                pump.slot = slot
            elif pump is not None:
                pump.move_slot(slot)
            else:
                self._sampled.append((slot, name))
                if taken_up and slot[COUNT]:
                    self._effects.restore(name, slot[LAST], slot[COUNT])

    def heard(self, fact: Fact) -> None:
        """Write a fact to the events."""
        fields = {key: value for key, value in fact.as_dict().items() if key != "at"}
        self.folder.append_event({"event": fact.name, "mono_ms": fact.at, **fields})

    def follow(self, agent: "Standing", log: "AgentLog") -> None:
        """Show how an observed agent stands, too, and keep what it did."""
        self._agent, self._log = agent, log
        log.keep_in(self.folder)

    def looked(self, watch: Watch, now: int) -> None:
        """Store both clocks, and what the supervisor is about."""
        self._show_agent(now)
        header = self.folder.clocks.header
        sight = watch.sight
        header[ALIVE], header[PROGRESS] = sight.alive or 0, sight.last or 0
        header[LOOKED] = now
        for pump in self._effects.process.pumps.values():
            header[ALIVE] = max(header[ALIVE], pump.alive)
        for slot, name in self._sampled:
            last, count = sight.seen.get(name, (0, 0))
            slot[LAST] = slot[SOURCE_ALIVE] = last
            slot[COUNT] = count
        holds = tuple(hold.kind for hold in watch.holds.all() if hold.kind in HOLDS)
        self.folder.clocks.set_state(STOPPING if watch.ending.began else RUNNING, holds)

    def _show_agent(self, now: int) -> None:
        if self._agent is None or self._log is None:
            return
        self._log.looked()
        if self._agent.version != self._shown and now - self._shown_at >= AGENT_EVERY:
            self._shown, self._shown_at = self._agent.version, now
            self.folder.write_agent({"schema": SCHEMA, "at_ms": now, **self._agent.as_dict(now)})

    def messages(self) -> "list[dict[str, Any]]":
        """Return what came from inside the run; a `stop` is kept aside for the signal that follows it."""
        found, self._messages = [*self._messages, *self.folder.channel()], []
        for message in found:
            if message.get("op") == "stop":
                self._stop = message
        return found

    def stop_message(self) -> "dict[str, Any] | None":
        """Return the line that `stop` left, if one did; other messages wait for the next look."""
        self._messages = self.messages()
        return self._stop

    def park(self, report: "Mapping[str, object]", parked: "Mapping[str, object]") -> RunDir:
        """Keep the report of an incarnation that another one is to follow, and show what is waited for; return the folder."""
        if self._log is not None:
            self._log.end()
        self.folder.write_report(report, over=False)
        self.folder.write_meta({**self._described, "child_pid": None, "child_start": None, "parked": parked})
        self.folder.clocks.set_state(PARKED, ())
        return self.folder

    def waits(self, now: int) -> None:
        """Somebody still sees to the run while nothing of it runs."""
        self.folder.clocks.header[LOOKED] = now

    def leave(self, now: int) -> None:
        """Another supervisor will go on with it: all is as it was looked at last."""
        if self._log is not None:
            self._log.end()
        self.folder.clocks.header[LOOKED] = now
        self._let_go()

    def end(self, report: "Mapping[str, object]", *, prune: bool = True) -> str | None:
        """Write the report, and `prune` runs that are too old; return the first thing that could not be kept."""
        if self._log is not None:
            self._log.end()
        self.folder.write_report(report)
        self.folder.clocks.set_state(ENDED, ())
        self._let_go()
        if prune:
            gc(self._state)
        return self.folder.failed

    def _let_go(self) -> None:
        for slot, _ in self._sampled:
            slot.release()
        self.folder.close()
