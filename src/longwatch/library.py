"""The library for one process: `run`, `run_async` and `watch`. A composition root: it joins the house.

The same core, driver and effects as `longwatch run`; what differs is the host. A program that hosts us keeps its
signal handlers, its dispositions and its other children: we wait for our own process only.
"""

import os
import warnings

from longwatch import paths
from longwatch.core.observations import SpawnFailed
from longwatch.core.spec import Spec
from longwatch.core.watch import Watch
from longwatch.errors import StoreError, UsageError
from longwatch.limits import Limits
from longwatch.options import child_environment
from longwatch.posix import gears
from longwatch.posix.capture import text
from longwatch.posix.files import readable
from longwatch.posix.identity import identity
from longwatch.posix.reactor import Reactor, now
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import MERGED, NULL, PIPES, PTY, Launch, SpawnError, adopt, spawn
from longwatch.posix.spawn_in import spawn_in
from longwatch.posix.tree import Tree
from longwatch.result import Result
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import block
from longwatch.runtime.keeping import Keeping
from longwatch.runtime.process import STDERR, STDOUT, Process
from longwatch.runtime.rundir import flag_names, meta, wall_of
from longwatch.runtime.story import Story
from longwatch.store import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import Any


def run(
    argv: "Sequence[str]",
    limits: Limits | None = None,
    *,
    input: str | bytes | None = None,  # noqa: A002
    cwd: str | None = None,
    env: "Mapping[str, str] | None" = None,
    pty: bool = False,
    output: str = "capture",
    record: bool = False,
) -> Result:
    """Run a program under its limits and return how it ended, with all it left.

    argv    program and arguments; no shell
    limits  see `Limits`; None: no progress for 300 s (or LONGWATCH_IDLE) stops it
    input   what it reads on stdin (text is UTF-8); None: there is nothing to read
    cwd     its working directory
    env     its whole environment; None: ours
    pty     give it a terminal of its own; then `stdout` is what the terminal got
    output  "capture" keeps both streams, "pass" also writes them to our stdout and stderr
    record  keep a run folder and a line of history, as `longwatch run` does

    The whole tree of the program is gone when this returns; `survivors` names what is not ours to stop. A program
    that cannot be started is a result (`spawn_failed`), not an exception. Raises UsageError for wrong words; what
    is raised meanwhile in this thread (KeyboardInterrupt) stops the tree first and then goes on. Never raises for
    a limit or a bad exit status: that is `Result.check()`.
    """
    session = Session(argv, limits, input=input, cwd=cwd, env=env, pty=pty, output=output, record=record)
    if session.driver is not None:
        try:
            block(session.driver)
        finally:
            session.close()
    return session.result()


async def run_async(
    argv: "Sequence[str]",
    limits: Limits | None = None,
    *,
    input: str | bytes | None = None,  # noqa: A002
    cwd: str | None = None,
    env: "Mapping[str, str] | None" = None,
    pty: bool = False,
    output: str = "capture",
    record: bool = False,
) -> Result:
    """Do the same as `run` under asyncio or trio, whichever runs this coroutine.

    A cancellation stops the whole tree first, shielded and bounded by the grace (5 s at most) and the wait for KILL,
    and then goes on. asyncio's own subprocess code is not used, and no child watcher is needed.
    """
    from longwatch.runtime.hosts_async import drive  # noqa: PLC0415 - a blocking program needs no event loop

    session = Session(argv, limits, input=input, cwd=cwd, env=env, pty=pty, output=output, record=record)
    if session.driver is not None:
        try:
            await drive(session.driver)
        finally:
            session.close()
    return session.result()


def watch(popen: "subprocess.Popen[Any]", limits: Limits | None = None) -> Result:
    """Watch a process that `subprocess` started, until it ends or a limit stops its whole tree.

    Its pipes, where it has some, are read here from now on: do not read them elsewhere, and feed its stdin yourself
    before or in another thread. `popen.poll()` collects the status, so `popen.returncode` is set when this returns.
    Without a pipe there is nothing to see of it: then `idle` and `first` are held, and only `ceiling` and `timeout`
    act. Raises UsageError when it has already been waited for.
    """
    session = Session.over(popen, limits or Limits())
    assert session.driver is not None
    try:
        block(session.driver)
    finally:
        session.close()
    return session.result()


class Session:
    """One run of the library, from its words to its result. `driver` is None when nothing could be started."""

    def __init__(
        self, argv: "Sequence[str]", limits: Limits | None, *, input: str | bytes | None, cwd: str | None,  # noqa: A002
        env: "Mapping[str, str] | None", pty: bool, output: str, record: bool,
    ) -> None:  # fmt: skip
        if output not in ("capture", "pass"):
            raise UsageError(f"output {output!r}: write 'capture' or 'pass'")
        self._begin(argv, limits or Limits())
        self.record = record
        self.sinks = {STDOUT: Sink(1), STDERR: Sink(2)} if output == "pass" else {}
        stdin: str | int = NULL if input is None else readable(input.encode() if isinstance(input, str) else input)
        launch = Launch(
            self.argv, child_environment(os.environ if env is None else env, self.run_id), cwd, stdin,
            PTY if pty else PIPES,
        )  # fmt: skip
        try:
            self._start(launch)
        except SpawnError as error:
            self._not_started(error)
        finally:
            if isinstance(stdin, int):
                os.close(stdin)

    @classmethod
    def over(cls, popen: "subprocess.Popen[Any]", limits: Limits) -> "Session":
        """Take over a process that somebody else started."""
        if popen.returncode is not None:
            raise UsageError(f"process {popen.pid} has ended already, there is nothing to watch")
        self = cls.__new__(cls)
        argv = [popen.args] if isinstance(popen.args, str | bytes) else list(popen.args)
        self._begin([os.fsdecode(word) for word in argv], limits)
        self.record = False
        self.sinks = {}
        ends = [None if pipe is None else pipe.fileno() for pipe in (popen.stdout, popen.stderr)]
        child = adopt(popen.pid, *ends, reaper=popen.poll)
        self._drive(Process(child, Reactor(), {}, merged=False))
        return self

    # -- the start

    def _begin(self, argv: "Sequence[str]", limits: Limits) -> None:
        self.argv = [os.fspath(word) for word in argv]
        if not self.argv:
            raise UsageError("there is no program to run; pass at least one word")
        self.name = paths.safe_name(self.argv[0])
        self.run_id = paths.new_run_id(self.name)
        self.limits = limits
        self.driver: Driver | None = None
        self.process: Process | None = None
        self.keeping: Keeping | None = None
        self.story = Story()
        self._failed: SpawnError | None = None
        self._specs, complaints = limits.specs()
        for complaint in complaints:
            warnings.warn(f"longwatch: {complaint}", stacklevel=4)

    def _start(self, launch: Launch) -> None:
        gears.offer()
        child = spawn(launch) if launch.cwd is None else spawn_in(launch)
        self._drive(Process(child, Reactor(), self.sinks, merged=launch.output in (MERGED, PTY)))

    def _drive(self, process: Process) -> None:
        self.process = process
        child = process.child
        assert child.identity is not None
        tree = Tree(child.identity, self.run_id, subreaper=False)
        effects = ProcessEffects(process, tree, now, argv=self.argv)
        self.story = effects.story
        spec = Spec(self._specs, tuple(process.pumps), grace=self.limits.grace)
        self.watch = Watch(spec, child.started)
        self.driver = Driver(self.watch, effects, process.reactor)
        self.effects = effects
        if self.record:
            self._keep()
        effects.begin()

    def _keep(self) -> None:
        assert self.process is not None
        ours, theirs = identity(os.getpid()), self.process.child.identity
        assert ours is not None
        assert theirs is not None
        limits = {
            name: {"window_ms": spec.window, "action": spec.action, "source": "library"}
            for name, spec in self._specs.items()
        }
        described = meta(
            self.run_id, self.name, self.argv, ours, theirs, cwd=os.getcwd(), started_ms=self.watch.started,
            limits=limits, sources=self.watch.sight.declared,
        )  # fmt: skip
        try:
            self.keeping = Keeping(paths.state(), described, self.watch, self.effects)
        except StoreError as error:
            warnings.warn(f"longwatch: {error}", stacklevel=5)

    def _not_started(self, error: SpawnError) -> None:
        self._failed = error
        self.watch = Watch(Spec({}), now())
        for command in self.watch.observe(SpawnFailed(error.message, error.status), now()):
            self.story.add(command.fact)  # type: ignore[attr-defined]
        self.story.note(error.message)

    # -- the end

    def close(self) -> None:
        """Collect the process and give every descriptor back."""
        self.effects.end()
        for sink in self.sinks.values():
            sink.close()

    def result(self) -> Result:
        """Return how it ended."""
        report = self.story.report(
            self.watch, self.process, run=self.run_id, name=self.name, attempt=1,
            started_at=paths.rfc3339(wall_of(self.watch.started)),
        )  # fmt: skip
        ended = (None, None) if self.process is None else self.process.ended or (None, None)
        report["signal_number"] = ended[1]
        report["spawn_status"] = self._failed.status if self._failed is not None else None
        if self.record:
            self._remember(report)
        return Result(self.argv, report, self._text(STDOUT), self._text(STDERR))

    def _text(self, stream: str) -> str:
        pump = None if self.process is None else self.process.pumps.get(stream)
        return "" if pump is None else text(*pump.captured())

    def _remember(self, report: "dict[str, object]") -> None:
        if self.keeping is not None:
            self.keeping.end(report)
        line = {**spool.summary(report), "program": self.argv[0], "flags": flag_names(self.argv[1:])}
        try:
            spool.append(paths.state(), line)
        except StoreError as error:
            warnings.warn(f"longwatch: {error}", stacklevel=4)
