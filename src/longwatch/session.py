"""One run in a program that hosts it: the same core, driver and effects as `longwatch run`, without its front.

A composition root: the library and the command tool are both made of it. A host keeps its signal handlers, its
dispositions and its other children: we wait for our own process only.
"""

import os

from longwatch import paths, words
from longwatch.core.observations import SpawnFailed
from longwatch.core.outcomes import exit_status
from longwatch.core.spec import Spec
from longwatch.core.watch import Watch
from longwatch.errors import UsageError
from longwatch.limits import Resolved
from longwatch.options import child_environment
from longwatch.posix import gears, now, wall_of
from longwatch.posix.capture import HEAD, TAIL, Captured
from longwatch.posix.child import Child, adopt
from longwatch.posix.files import readable
from longwatch.posix.identity import Identity, boot_id
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.process import STDERR, STDOUT, Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.refusal import explain
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import INHERIT, NULL, PIPES, PTY, Launch, SpawnError
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.story import Story

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Self

    from longwatch.observed import Observed
    from longwatch.records import Records

    Path = str | os.PathLike[str]
    Spawner = Callable[[Launch], Child]
    #: Who knows the program: argv, process, tree, and where to say what a human should know.
    Observer = Callable[[list[str], Process, Tree, Callable[[str], object]], Observed | None]

CAPTURE, PASS = "capture", "pass"


class Session:
    """One run, from its words to its report. Leaving the block ends whatever still runs.

    `spawner` starts the program. Of each stream the first `head` and the last `tail` bytes are kept. `records`
    keeps what the run leaves on the disk; without it nothing is written. The option variables of `verb` do not reach
    the program. `observer` knows agents, and what follows for the limits. After `start` there are `driver` and
    `process`, after the block there is `report`.
    """

    driver: Driver

    def __init__(
        self, limits: Resolved, spawner: "Spawner", *, records: "Records | None" = None, head: int = HEAD,
        tail: int = TAIL, verb: str = "run", observer: "Observer | None" = None,
    ) -> None:  # fmt: skip
        self.argv: list[str] = []
        self.process: Process | None = None
        self.report: dict[str, Any] = {}
        self._limits = limits
        self._spawner = spawner
        self._records = records
        self._kept = (head, tail)
        self._verb = verb
        self._observer = observer
        self._observed: Observed | None = None
        #: What a human should know of the watching.
        self.complaints: list[str] = []
        self._watch = Watch(Spec({}), now())
        self._story = Story()
        self._sinks: dict[str, Sink] = {}
        self._tree: Tree | None = None
        self._effects: ProcessEffects | None = None
        self._spawn_status: int | None = None

    # -- the start

    def start(
        self, argv: "Sequence[Path]", *, input: str | bytes | None = None, stdin: int | None = None,  # noqa: A002
        cwd: "Path | None" = None, env: "Mapping[str, str] | None" = None, pty: bool = False, output: str = CAPTURE,
    ) -> bool:  # fmt: skip
        """Start the program; return False if it cannot be. Raises UsageError for wrong words.

        `input` is what it reads; without it, what it reads comes from the descriptor `stdin`.
        """
        self._name_it(words.command(argv))
        if output not in (CAPTURE, PASS):
            raise UsageError(f"output {output!r}: write {CAPTURE!r} or {PASS!r}")
        folder, environ = words.folder(cwd), self._environment(env)
        made = None if input is None else readable(words.data(input))
        try:
            source: str | int = INHERIT if pty else NULL
            for fd in (stdin, made):
                source = source if fd is None else fd
            launch = Launch(self.argv, environ, folder, source, PTY if pty else PIPES)
            return self._launch(launch, passing=output == PASS)
        finally:
            if made is not None:
                os.close(made)

    def _launch(self, launch: Launch, *, passing: bool) -> bool:
        reactor = Reactor()
        try:
            child = self._spawner(launch)
        except SpawnError as error:
            reactor.close()
            self._not_started(explain(error, launch))
            return False
        except BaseException:
            reactor.close()
            raise
        self._follow(child, reactor, sinks=passing, merged=launch.output == PTY)
        return True

    def over(self, popen: "subprocess.Popen[Any]") -> None:
        """Take over a process that somebody else started. Raises UsageError when it is gone."""
        args = [popen.args] if isinstance(popen.args, str | bytes | os.PathLike) else list(popen.args)
        self._name_it([os.fsdecode(word) for word in args])
        stdout, stderr = (None if pipe is None else pipe.fileno() for pipe in (popen.stdout, popen.stderr))
        try:
            child = adopt(popen.pid, stdout, stderr, reaper=popen.poll)
        except ProcessLookupError:
            raise UsageError(f"process {popen.pid} is gone, there is nothing to watch") from None
        self._follow(child, Reactor(), sinks=False, merged=False)

    def _name_it(self, argv: list[str]) -> None:
        self.argv = argv
        self._name = paths.safe_name(argv[0])
        self._run_id = self._mark = paths.new_run_id(self._name)

    def _environment(self, env: "Mapping[str, str] | None") -> dict[str, str]:
        """Return the child's environment. Of a run inside a run even a bare one keeps the mark of both."""
        outer = os.environ.get(RUN_VARIABLE)
        given = (
            os.environ
            if env is None
            else {**({RUN_VARIABLE: outer} if outer else {}), **words.environment(env)}
        )
        child = child_environment(given, self._run_id, verb=self._verb)
        self._mark = child[RUN_VARIABLE]
        return child

    def _follow(self, child: Child, reactor: Reactor, *, sinks: bool, merged: bool) -> None:
        gears.offer()
        # Where the host ignores CHLD it may be gone already: then its pid is all that was ever known of it.
        leader = child.identity or Identity(child.pid, 0, boot_id())
        self._tree = Tree(leader, self._mark, subreaper=False, nursery=child.nursery)
        self._sinks = {STDOUT: Sink(1), STDERR: Sink(2)} if sinks else {}
        self.process = process = Process(child, reactor, self._sinks, merged, *self._kept)
        self._effects = effects = ProcessEffects(process, self._tree, now, argv=self.argv)
        self._story = effects.story
        if self._observer is not None:
            self._observed = self._observer(self.argv, process, self._tree, self.complaints.append)
        self._watch = Watch(self._spec(process), child.started)
        self.driver = Driver(self._watch, effects)
        if self._observed is not None:
            if self._observed.screen is not None:
                effects.sample(self._observed.screen)
            self._observed.join(effects)
        if self._records is not None:
            self._records.begin(
                self._run_id, self._name, self.argv, leader, self.driver, effects, self._observed
            )
        effects.begin()

    def _spec(self, process: Process) -> Spec:
        spec = Spec(
            self._limits.specs, tuple(process.pumps), grace=self._limits.grace, loop=self._limits.loop
        )
        observed = self._observed
        if observed is not None and observed.agent is not None:
            spec.observed, spec.resident = True, observed.resident
            spec.sampled = tuple(source for source in observed.sources or () if source != "output")
            spec.held = () if "screen" in spec.sampled else spec.held
        return spec

    def _not_started(self, error: SpawnError) -> None:
        self._spawn_status = error.status
        for command in self._watch.observe(SpawnFailed(error.message, error.status), now()):
            self._story.add(command.fact)  # type: ignore[attr-defined]
        self._story.note(error.message)

    # -- the end

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Give every descriptor back and write what is kept. What is not over by now is killed: no host leaves one."""
        if self._tree is not None and not self._watch.over:
            self._tree.kill()
        if self.process is not None:
            self.process.look()
        if self._effects is not None:
            self._effects.end()
        for sink in self._sinks.values():
            sink.close()
        if self._tree is not None or self._spawn_status is not None:
            self._finish()

    def _finish(self) -> None:
        told = {} if self._observed is None else self._observed.ended(now())
        self.report = self._story.report(
            self._watch, self.process, run=self._run_id, name=self._name, attempt=1,
            started_at=paths.rfc3339(wall_of(self._watch.started)), **told,
        )  # fmt: skip
        if self._records is not None:
            self._records.end(self.argv, self.report)

    def status(self) -> int:
        """Return the exit status that `longwatch run` would have."""
        if self._spawn_status is not None:
            return self._spawn_status
        assert self.process is not None
        return exit_status(self.report["termination_reason"], *(self.process.ended or (None, None)))

    def captured(self, stream: str) -> Captured:
        """Return what is kept of a stream: head, tail, and how many bytes between them were dropped."""
        pump = None if self.process is None else self.process.pumps.get(stream)
        return (b"", b"", 0) if pump is None else pump.captured()
