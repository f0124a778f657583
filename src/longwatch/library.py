"""The library for one process: `run`, `run_async` and `watch`. A composition root: it joins the house.

The same core, driver and effects as `longwatch run`; what differs is the host. A program that hosts us keeps its
signal handlers, its dispositions and its other children: we wait for our own process only.
"""

import os
import warnings

from longwatch import paths
from longwatch.core.observations import SpawnFailed, StopRequested
from longwatch.core.outcomes import exit_status
from longwatch.core.spec import Spec
from longwatch.core.watch import Watch
from longwatch.errors import StoreError, UsageError
from longwatch.limits import Limits
from longwatch.options import child_environment, recorded
from longwatch.posix import gears, now, wall_of
from longwatch.posix.capture import text
from longwatch.posix.child import Child, adopt
from longwatch.posix.files import readable
from longwatch.posix.identity import Identity, boot_id, identity
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.process import STDERR, STDOUT, Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import INHERIT, NULL, PIPES, PTY, Launch, SpawnError
from longwatch.posix.spawn_in import spawn_in
from longwatch.posix.tree import Tree
from longwatch.result import Result
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.hosts import block
from longwatch.runtime.keeping import Keeping
from longwatch.runtime.rundir import meta
from longwatch.runtime.story import Story
from longwatch.store import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    Path = str | os.PathLike[str]

CAPTURE, PASS = "capture", "pass"


def run(
    argv: "Sequence[Path]",
    limits: Limits | None = None,
    *,
    input: str | bytes | None = None,  # noqa: A002 - subprocess calls it so
    cwd: "Path | None" = None,
    env: "Mapping[str, str] | None" = None,
    pty: bool = False,
    output: str = CAPTURE,
    record: bool = False,
) -> Result:
    """Run a program under its limits and return how it ended, with all it left.

    argv    program and arguments, one word each; no shell
    limits  see `Limits`; None: its defaults, so no progress for 300 s (or LONGWATCH_IDLE) stops it
    input   what it reads on stdin (a text as UTF-8), however much; None: there is nothing to read
    cwd     its working directory; None: ours
    env     its whole environment; None: ours. The names LONGWATCH_RUN_ID and LONGWATCH_ATTEMPT are set in it, and
            our options (LONGWATCH_IDLE, ...) are taken out
    pty     give it a terminal of its own: `stdout` is all that the terminal got, and without `input` its stdin is
            the terminal too, at which nobody types
    output  "capture" keeps both streams; "pass" also writes them, as they come, to our descriptors 1 and 2
    record  keep a run folder and a line of history, as `longwatch run` does; otherwise nothing is written

    The whole tree of the program is gone when this returns, also what it left behind; `survivors` names what is not
    ours to stop. May be called in any thread, and in several at once.

    Raises UsageError for words that make no sense, before anything is started. Whatever is raised meanwhile in this
    thread (KeyboardInterrupt, an exception of a signal handler) stops the tree first, within 5 s, and goes on then;
    a second one kills it at once. Never raises for a limit, a bad exit status or a program that cannot be started:
    those are results, and `Result.check()` raises for them.
    """
    with Session(limits, record=record) as session:
        if session.start(argv, input=input, cwd=cwd, env=env, pty=pty, output=output):
            block(session.driver)
    return session.result()


async def run_async(
    argv: "Sequence[Path]",
    limits: Limits | None = None,
    *,
    input: str | bytes | None = None,  # noqa: A002
    cwd: "Path | None" = None,
    env: "Mapping[str, str] | None" = None,
    pty: bool = False,
    output: str = CAPTURE,
    record: bool = False,
) -> Result:
    """Do the same as `run`, with the same words, under asyncio or trio, whichever runs this coroutine.

    No thread, no child watcher and no signal handler is used, and any number of runs fit into one loop. A
    cancellation stops the whole tree first, shielded and within the grace (5 s at most) and the wait for KILL, and
    goes on then; under asyncio a second one kills it at once.
    """
    from longwatch.runtime.hosts_async import drive  # noqa: PLC0415 - a blocking program needs no event loop

    with Session(limits, record=record) as session:
        if session.start(argv, input=input, cwd=cwd, env=env, pty=pty, output=output):
            await drive(session.driver)
    return session.result()


def watch(popen: "subprocess.Popen[Any]", limits: Limits | None = None) -> Result:
    """Watch a process that `subprocess` started, until it ends or a limit stops its whole tree.

    Its pipes, where it has some, are read here from now on: do not read them elsewhere, and feed its stdin before
    or in another thread. Without a pipe there is nothing to see of it: then `idle` and `first` are held, and only
    `ceiling` and `timeout` act. `popen.returncode` is set when this returns; its pipes stay yours to close.

    Raises UsageError when the process has already been waited for; otherwise as `run`. A process that is not in a
    session of its own can be followed by its descendants only: start it with `start_new_session=True`.
    """
    if popen.returncode is not None:
        raise UsageError(f"process {popen.pid} has ended already, there is nothing to watch")
    with Session(limits) as session:
        session.over(popen)
        block(session.driver)
    return session.result()


class Session:
    """One run of the library, from its words to its result. Leaving the block ends whatever still runs."""

    driver: Driver

    def __init__(self, limits: Limits | None, *, record: bool = False) -> None:
        self._limits = (limits or Limits()).resolve()
        for complaint in self._limits.complaints:
            warnings.warn(f"longwatch: {complaint}", stacklevel=3)
        self._record = record
        self._complaints: list[str] = []
        self._argv: list[str] = []
        self._watch = Watch(Spec({}), now())
        self._story = Story()
        self._sinks: dict[str, Sink] = {}
        self._tree: Tree | None = None
        self._process: Process | None = None
        self._effects: ProcessEffects | None = None
        self._keeping: Keeping | None = None
        self._spawn_status: int | None = None
        self._report: dict[str, Any] = {}

    # -- the start

    def start(
        self, argv: "Sequence[Path]", *, input: str | bytes | None, cwd: "Path | None",  # noqa: A002
        env: "Mapping[str, str] | None", pty: bool, output: str,
    ) -> bool:  # fmt: skip
        """Start the program; return False if it cannot be. Raises UsageError for wrong words."""
        self._name_it(words(argv))
        if output not in (CAPTURE, PASS):
            raise UsageError(f"output {output!r}: write {CAPTURE!r} or {PASS!r}")
        stdin = (INHERIT if pty else NULL) if input is None else readable(_bytes(input))
        folder = None if cwd is None else os.fspath(cwd)
        launch = Launch(self._argv, self._environment(env), folder, stdin, PTY if pty else PIPES)
        reactor = Reactor()
        try:
            self._follow(spawn_in(launch), reactor, sinks=output == PASS, merged=pty)
        except SpawnError as error:
            reactor.close()
            self._not_started(error)
            return False
        finally:
            if isinstance(stdin, int):
                os.close(stdin)
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
        self._argv = argv
        self._name = paths.safe_name(argv[0])
        self._run_id = paths.new_run_id(self._name)

    def _environment(self, env: "Mapping[str, str] | None") -> dict[str, str]:
        """Return the child's environment. Of a run inside a run even a bare one keeps the mark of both."""
        outer = os.environ.get(RUN_VARIABLE)
        given = os.environ if env is None else {**({RUN_VARIABLE: outer} if outer else {}), **env}
        return child_environment(given, self._run_id)

    def _follow(self, child: Child, reactor: Reactor, *, sinks: bool, merged: bool) -> None:
        gears.offer()
        # Where the host ignores CHLD it may be gone already: then its pid is all that was ever known of it.
        leader = child.identity or Identity(child.pid, 0, boot_id())
        self._tree = Tree(leader, self._run_id, subreaper=False)
        self._sinks = {STDOUT: Sink(1), STDERR: Sink(2)} if sinks else {}
        self._process = process = Process(child, reactor, self._sinks, merged)
        self._effects = effects = ProcessEffects(process, self._tree, now, argv=self._argv)
        self._story = effects.story
        spec = Spec(self._limits.specs, tuple(process.pumps), grace=self._limits.grace)
        self._watch = Watch(spec, child.started)
        self.driver = Driver(self._watch, effects, reactor)
        if self._record:
            self._keep(effects, leader)
        effects.begin()

    def _keep(self, effects: ProcessEffects, leader: Identity) -> None:
        ours = identity(os.getpid())
        assert ours is not None
        limits = {
            name: {"window_ms": spec.window, "action": spec.action, "source": "library"}
            for name, spec in self._limits.specs.items()
        }
        described = meta(
            self._run_id, self._name, recorded(self._argv), ours, leader, cwd=os.getcwd(), started_ms=self._watch.started,
            limits=limits, sources=self._watch.sight.declared,
        )  # fmt: skip
        try:
            # Nobody may signal this supervisor: it is the program that called us.
            self._keeping = Keeping(paths.state(), {**described, "hosted": True}, self._watch, effects)
        except StoreError as error:
            self._complaints.append(str(error))
        else:
            effects.channel = self._messages

    def _messages(self) -> "list[dict[str, Any]]":
        """Return what came from inside the run; `longwatch stop` asks in the same way, and we look often enough."""
        assert self._keeping is not None
        ask = self._keeping.stop_message()
        if ask is not None and not self._watch.ending.began:
            self.driver.tell(StopRequested("cancelled", "explicit", grace=ask.get("grace_ms")))
        return self._keeping.messages()

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
        if self._process is not None:
            self._process.look()
        if self._effects is not None:
            self._effects.end()
        for sink in self._sinks.values():
            sink.close()
        if self._tree is not None or self._spawn_status is not None:
            self._finish()

    def _finish(self) -> None:
        self._report = self._story.report(
            self._watch, self._process, run=self._run_id, name=self._name, attempt=1,
            started_at=paths.rfc3339(wall_of(self._watch.started)),
        )  # fmt: skip
        if self._record:
            self._remember()

    def _remember(self) -> None:
        if self._keeping is not None:
            self._keeping.end(self._report)
        program, *flags = recorded(self._argv)
        line = {**spool.summary(self._report), "program": program, "flags": flags}
        try:
            spool.append(paths.state(), line)
        except StoreError as error:
            self._complaints.append(str(error))

    def result(self) -> Result:
        """Return how it ended; warn of what could not be kept."""
        for complaint in self._complaints:
            warnings.warn(f"longwatch: {complaint}", stacklevel=3)
        return Result(self._argv, self._report, self._text(STDOUT), self._text(STDERR), self._status())

    def _status(self) -> int:
        if self._spawn_status is not None:
            return self._spawn_status
        assert self._process is not None
        return exit_status(str(self._report["termination_reason"]), *(self._process.ended or (None, None)))

    def _text(self, stream: str) -> str:
        pump = None if self._process is None else self._process.pumps.get(stream)
        return "" if pump is None else text(*pump.captured())


def words(argv: "Sequence[Path]") -> list[str]:
    """Return a command's words as text. Raises UsageError for one that is no list of words."""
    if isinstance(argv, str | bytes):
        raise UsageError(f"argv is a list of words, not {argv!r}; for a shell pass ['sh', '-c', ...]")
    found = [os.fsdecode(word) for word in argv]
    if not found:
        raise UsageError("argv is empty, there is no program to run; pass its name")
    for word in found:
        if "\0" in word:
            raise UsageError(f"argv has a word that holds a NUL: {word!r}; no program can be given that")
    return found


def _bytes(input: str | bytes) -> bytes:  # noqa: A002
    return input.encode() if isinstance(input, str) else input
