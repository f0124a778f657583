"""A known program in one incarnation: for an agent whoever reads its records, its screen, and what it prints.

A composition root, for whoever watches a process: a foreground run, the library, the daemon. All that reading takes is
loaded when it is made, since after its start a run imports nothing; a supervisor of many calls `load` before them.
"""

import os

from longwatch import presets
from longwatch.core.observations import SourceLost
from longwatch.core.sight import TRANSCRIPT
from longwatch.errors import place_of
from longwatch.posix import now
from longwatch.posix.belongings import Belongings, started
from longwatch.posix.identity import process, read
from longwatch.posix.process import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from longwatch.core.observations import Observation
    from longwatch.observe.agent import Agent
    from longwatch.observe.dialects import Dialect
    from longwatch.observe.printed import Printed
    from longwatch.observe.record import Record
    from longwatch.observe.screen import Screen
    from longwatch.observe.sessions import Found
    from longwatch.observe.transcript import Source
    from longwatch.posix.process import Process
    from longwatch.posix.pump import Judge, Pump
    from longwatch.posix.tree import Tree
    from longwatch.preset_table import Preset
    from longwatch.runtime.agent_log import AgentLog
    from longwatch.runtime.effects import ProcessEffects
    from longwatch.runtime.keeping import Keeping

    Say = Callable[[str], object]

#: What reading an agent's records takes beyond the base.
_EXTRAS = ("msgspec", "pyte")


def _ignored(text: str) -> None:
    """Say it to nobody."""


class Observed:
    """The known program of one incarnation. `agent` is None where its records are not read.

    size       rows and columns of its terminal; None where what it prints is no picture
    unnamed    whether nobody has named sources of progress, so that what is known of it may (see `sources`)
    say, note  told what a human at the terminal, and what the reader of the report, should know
    """

    def __init__(
        self, preset: "Preset", argv: "Sequence[str]", process: "Process", tree: "Tree", *,
        size: tuple[int, int] | None = None, unnamed: bool = True, say: "Say" = _ignored, note: "Say" = _ignored,
    ) -> None:  # fmt: skip
        self.preset = preset
        self.headless = presets.is_headless(preset, argv)
        self.agent: Agent | None = None
        self.screen: Screen | None = None
        #: What counts as its progress; None: what does for every program.
        self.sources: tuple[str, ...] | None = None
        self._argv = argv
        self._process = process
        self._size = None if self.headless else size
        self._say = say
        self._log: AgentLog | None = None
        self._broken = False
        self._listening: list[tuple[Pump, Printed, Judge | None]] = []
        if preset.dialect is not None:
            self._read(preset.dialect, tree, note, unnamed=unnamed)

    # -- what follows from it for what is watched

    @property
    def blinded(self) -> bool:
        """Whether it keeps records, and none of them can be read."""
        return self.preset.dialect is not None and self.agent is None

    @property
    def resident(self) -> bool:
        """Whether it starts out at its prompt."""
        return self.agent is not None and not self.headless

    def join(self, effects: "ProcessEffects") -> None:
        """Let the agent's records reach the watch."""
        if self.agent is None:
            return
        effects.observer = self
        self.agent.wake = effects.hurry
        effects.on_look.append(lambda watch, at: self._let_alone())

    def keep(self, keeping: "Keeping") -> None:
        """Let others see how the agent stands."""
        if self.agent is not None and self._log is not None:
            keeping.follow(self.agent, self._log)

    # -- what is said of it

    def blind(self) -> str:
        """Return why none of its records is read; empty where some are."""
        if self.agent is None:
            return f"longwatch cannot read {self.preset.name}'s records here" if self.preset.dialect else ""
        return self.agent.pending and f"none of its records was read: {self.agent.pending}"

    def remarks(self) -> "Iterable[str]":
        """Return what belongs to the cause of a stop: an error that nothing has followed, also of a helper."""
        trouble = "" if self.agent is None else self.agent.trouble
        return [f"its last error: {trouble}"] if trouble else []

    def ended(self, at: int) -> "dict[str, Any]":
        """Look for the last time; return what the report says of the agent."""
        found: dict[str, Any] = {"agent": None, "resume": None}
        if self.agent is not None:
            self.look(at, afresh=True)
            found["agent"] = self.agent.as_dict(at)
            found["resume"] = presets.to_type(self.preset, self._argv, self.agent.session)
            self.agent.close()
        return found

    # -- what it tells; a reader that is broken itself must not cost the supervision

    def look(self, now: int, *, afresh: bool = False) -> "Iterable[tuple[int, Observation]]":
        """Return what is new of the agent, each with its instant."""
        if self._broken or self.agent is None:
            return [(now, SourceLost(TRANSCRIPT))]
        try:
            return self.agent.look(now, afresh=afresh)
        except Exception as error:  # noqa: BLE001
            return [(now, self._gave_up(error))]

    def message(self, message: "dict[str, Any]", at: int) -> None:
        """Take what a hook of the agent left for us."""
        if not self._broken and self.agent is not None:
            try:
                self.agent.message(message, at)
            except Exception as error:  # noqa: BLE001
                self._gave_up(error)

    def _printed(self, record: "Record", at: int) -> bool:
        if not self._broken and self.agent is not None:
            try:
                return self.agent.printed(record, at)
            except Exception as error:  # noqa: BLE001
                self._gave_up(error)
        return True

    def _gave_up(self, error: Exception) -> SourceLost:
        """Say once where our defect is; from here on bytes count, and what the preset says only notifies."""
        if not self._broken:
            self._broken = True
            self._say(
                f"a defect of longwatch, please report it: {error!r}{place_of(error)}; its records are no longer read"
            )
        return SourceLost(TRANSCRIPT)

    # -- what it takes to read an agent

    def _read(self, dialect: str, tree: "Tree", note: "Say", *, unnamed: bool) -> None:
        try:
            self.agent = self._agent(dialect, tree, note)
            if self._size is not None and unnamed:
                self.screen = screen_of(self._process, self._size)
        except ImportError as error:
            if error.name not in _EXTRAS:
                raise
            self._missing(str(error.name))
        if self.agent is None:
            return
        if unnamed:
            self.sources = ("output" if self.screen is None else "screen", "transcript")
        if self._size is None:
            self._listen(self.agent.dialect)

    def _agent(self, dialect: str, tree: "Tree", note: "Say") -> "Agent":
        from longwatch.observe.agent import Agent  # noqa: PLC0415 - for agents only, as all below
        from longwatch.observe.dialects import load as load_dialect  # noqa: PLC0415
        from longwatch.observe.hooks import Hooks  # noqa: PLC0415
        from longwatch.observe.sessions import Sessions  # noqa: PLC0415
        from longwatch.runtime.agent_log import AgentLog  # noqa: PLC0415

        leader = self._process.child
        begun = _begun(leader.pid, leader.started)
        shelf, follow = _shelf(dialect, _environment(leader.pid))
        sessions = Sessions(shelf, Belongings(tree), begun, clock=now)
        agent = Agent(
            self.preset.name, load_dialect(dialect), sessions, follow, begun,
            headless=self.headless, note=note,
        )  # fmt: skip
        agent.hooks = Hooks().records
        self._log = AgentLog()
        agent.log = self._log.heard
        return agent

    def _missing(self, package: str) -> None:
        if self.agent is None:
            limits = "its output alone is watched, and what its preset says only notifies"
        else:
            limits = "what its screen shows is taken for progress, spinners too"
        self._say(
            f"to observe {self.preset.name} longwatch needs the package {package}; install it with: "
            f"pip install 'longwatch[all]'; {limits}"
        )

    # -- what it prints

    def _listen(self, dialect: "Dialect") -> None:
        """Read what it prints: records if it prints some, words of retries elsewhere."""
        for name, pump in self._process.pumps.items():
            if name in (STDOUT, STDERR):
                self._listen_to(dialect, pump, records=name == STDOUT)

    def _listen_to(self, dialect: "Dialect", pump: "Pump", *, records: bool) -> None:
        from longwatch.observe.printed import Printed  # noqa: PLC0415

        rule = pump.judge
        printed = Printed(
            dialect, self._printed, records=records, rule=rule, last=pump.last, count=pump.count
        )
        if printed.idle or (rule is not None and not records):
            return
        head, tail, gap = pump.captured()
        printed.feed(memoryview(tail if gap else head + tail), now())
        pump.judge = printed
        self._listening.append((pump, printed, rule))

    def _let_alone(self) -> None:
        """Judge no further what turned out to be mere words."""
        for each in [each for each in self._listening if each[1].idle]:
            pump, printed, rule = each
            self._listening.remove(each)
            if pump.judge is printed:
                pump.judge = rule


def screen_of(process: "Process", size: tuple[int, int]) -> "Screen":
    """Return what a human sees of a process at a terminal: it redraws while it hangs, so its bytes say nothing."""
    from longwatch.observe.screen import Screen  # noqa: PLC0415

    screen, pump = Screen(*size), process.pumps[STDOUT]
    head, tail, _ = pump.captured()
    screen.feed(memoryview(head + tail))
    pump.taps.append(screen.feed)
    return screen


def load(dialect: str) -> None:
    """Load all that reading an agent of this dialect takes. Raises ImportError where a package is missing."""
    from longwatch.observe import agent, dialects, hooks, places, printed, sessions, transcript  # noqa: PLC0415
    from longwatch.runtime import agent_log  # noqa: PLC0415

    del agent, hooks, places, printed, sessions, transcript, agent_log
    dialects.load(dialect)
    if dialect == "opencode":
        from longwatch.observe import rows  # noqa: PLC0415

        del rows


def _shelf(dialect: str, environ: "Mapping[str, str]") -> "tuple[Any, Callable[[Found], Source]]":
    """Return where an agent keeps its conversations, and how one is followed."""
    from longwatch.observe.dialects import load  # noqa: PLC0415
    from longwatch.observe.places import PLACES, Shelf  # noqa: PLC0415
    from longwatch.observe.transcript import Lines  # noqa: PLC0415

    if dialect != "opencode":

        def follow(found: "Found") -> Lines:
            reader = load(dialect).reader()
            if found.mark is not None:
                reader.take_up(found.path, found.mark.offset)
            return Lines(found, reader)

        return Shelf(PLACES[dialect], environ), follow
    from longwatch.observe.dialects.opencode import Database  # noqa: PLC0415
    from longwatch.observe.rows import Rows, Table  # noqa: PLC0415

    table = Table(environ)
    return table, lambda found: Rows(found, Database(table.path))


def _environment(pid: int) -> "Mapping[str, str]":
    """Return the environment that the program got, behind its wrappers: it says where the records are."""
    found = read(f"/proc/{pid}/environ")
    if not found:
        return os.environ
    pairs = (os.fsdecode(line).partition("=") for line in found.split(b"\0") if line)
    return {name: value for name, _, value in pairs}


def _begun(pid: int, since: int) -> int:
    """Return when the program began: one that is watched later has begun before we looked."""
    info = process(pid)
    return since if info is None else min(since, started(info))
