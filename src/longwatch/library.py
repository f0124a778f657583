"""The library for one process: `run`, `run_async` and `watch`. A composition root: it joins the house.

The same core, driver and effects as `longwatch run`; what differs is the host. A program that hosts us keeps its
signal handlers, its dispositions and its other children: we wait for our own process only.
"""

import os
import warnings

from longwatch.errors import UsageError
from longwatch.limits import Limits, Resolved
from longwatch.posix.capture import text
from longwatch.posix.child import Child
from longwatch.posix.process import STDERR, STDOUT
from longwatch.posix.spawn import Launch
from longwatch.posix.spawn_in import spawn_in
from longwatch.records import Records
from longwatch.result import Result
from longwatch.runtime.hosts import block
from longwatch.session import CAPTURE, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from longwatch.observed import Observed
    from longwatch.options import Told
    from longwatch.posix.process import Process
    from longwatch.posix.tree import Tree
    from longwatch.runtime.kept import Keeper

    Path = str | os.PathLike[str]


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
    keeper: bool = False,
    config: "Path | None" = None,
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
    keeper  start it below a process of its own that adopts its orphans. Then nothing can leave the tree unseen
            (`proof` is "subreaper"), and the tree is ended even if our own process is killed; Linux only, and it
            costs the start of a small process. Where it cannot be had the program is not started: `spawn_failed`
    config  a `longwatch.toml` (or its folder): a limit of `[defaults]` holds where neither `limits` nor a variable says
            anything; `kill_after` is `grace`. None: no file is read, wherever one lies

    A coding agent that longwatch knows is recognised by its program's name: its records are read, so `call`, `stall`,
    `ask` and `loop` see what it does, a long silent tool is no silence, and limits that nobody has set are those of
    `longwatch presets NAME`. The variable LONGWATCH_PRESET=none leaves that out.

    The whole tree of the program is gone when this returns, also what it left behind; `survivors` names what is not
    ours to stop. May be called in any thread, and in several at once.

    Raises UsageError for words that make no sense, and with a line for all that is wrong in the file of `config`, before
    anything is started. Whatever is raised meanwhile in this
    thread (KeyboardInterrupt, an exception of a signal handler) stops the tree first, within 5 s, and goes on then;
    a second one kills it at once. Never raises for a limit, a bad exit status or a program that cannot be started:
    those are results, and `Result.check()` raises for them.
    """
    records = Records() if record else None
    parent = _Kept() if keeper else _Ours()
    with parent, _session(limits, config, parent.spawn, records, pty=pty) as session:
        if session.start(argv, input=input, cwd=cwd, env=env, pty=pty, output=output):
            block(session.driver)
    return _result(session, records)


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
    keeper: bool = False,
    config: "Path | None" = None,
) -> Result:
    """Do the same as `run`, with the same words, under asyncio or trio, whichever runs this coroutine.

    No thread, no child watcher and no signal handler is used, and any number of runs fit into one loop. A
    cancellation stops the whole tree first, shielded and within the grace (5 s at most) and the wait for KILL, and
    goes on then; under asyncio a second one kills it at once.
    """
    from longwatch.runtime.hosts_async import drive  # noqa: PLC0415 - a blocking program needs no event loop

    records = Records() if record else None
    parent = _Kept() if keeper else _Ours()
    with parent, _session(limits, config, parent.spawn, records, pty=pty) as session:
        if session.start(argv, input=input, cwd=cwd, env=env, pty=pty, output=output):
            await drive(session.driver)
    return _result(session, records)


def watch(
    popen: "subprocess.Popen[Any]", limits: Limits | None = None, *, config: "Path | None" = None
) -> Result:
    """Watch a process that `subprocess` started, until it ends or a limit stops its whole tree.

    Its pipes, where it has some, are read here from now on: do not read them elsewhere, and feed its stdin before
    or in another thread. Without a pipe there is nothing to see of it: then `idle` and `first` are held, and only
    `ceiling` and `timeout` act. `popen.returncode` is set when this returns; its pipes stay yours to close.

    Raises UsageError when the process has already been waited for; otherwise as `run`. A process that is not in a
    session of its own can be followed by its descendants only: start it with `start_new_session=True`.
    """
    if popen.returncode is not None:
        raise UsageError(f"process {popen.pid} has ended already, there is nothing to watch")
    with _session(limits, config, spawn_in) as session:
        session.over(popen)
        block(session.driver)
    return _result(session)


class _Ours:
    """The parent of a program that we start by ourselves."""

    def spawn(self, launch: Launch) -> Child:
        """Start the program."""
        return spawn_in(launch)

    def __enter__(self) -> None:
        """Hold nothing."""

    def __exit__(self, *error: object) -> None:
        """Hold nothing."""


class _Kept(_Ours):
    """A keeper for one program, from its start to the end of the block."""

    def __init__(self) -> None:
        self._keeper: Keeper | None = None

    def spawn(self, launch: Launch) -> Child:
        """Start keeper and program. Raises SpawnError where either cannot be started."""
        from longwatch.runtime.kept import Keeper  # noqa: PLC0415 - few need one

        self._keeper = Keeper.start("stop")
        return self._keeper.spawn(launch)

    def __exit__(self, *error: object) -> None:
        """End the keeper."""
        if self._keeper is not None:
            self._keeper.close()


def _session(
    limits: Limits | None,
    config: "Path | None",
    spawner: "Callable[[Launch], Child]",
    records: Records | None = None,
    *,
    pty: bool = False,
) -> Session:
    """Return a run that is to begin. A program that is known, an agent, is observed."""
    resolved = _resolved(limits, config)

    def observe(
        argv: list[str], process: "Process", tree: "Tree", say: "Callable[[str], object]"
    ) -> "Observed | None":
        from longwatch.known import observed  # noqa: PLC0415 - once there is a program

        return observed(argv, process, tree, resolved, say=say, pty=pty)

    return Session(resolved, spawner, records=records, observer=observe)


def _resolved(limits: Limits | None, config: "Path | None") -> Resolved:
    """Return what holds for a run that begins now; a variable that is refused warns at the line of the call."""
    resolved = (limits or Limits()).resolve(told=None if config is None else _told(config))
    for complaint in resolved.complaints:
        warnings.warn(f"longwatch: {complaint}", stacklevel=4)
    return resolved


def _told(config: "Path") -> "Told":
    """Return what a file says. Raises UsageError."""
    from longwatch.config.as_options import read  # noqa: PLC0415 - it costs more than all the rest, and few name one

    return read(os.fspath(config), "run", who="config ")


def _result(session: Session, records: Records | None = None) -> Result:
    """Return how a run ended; warn of what could not be kept, or read."""
    for complaint in (*session.complaints, *(() if records is None else records.complaints)):
        warnings.warn(f"longwatch: {complaint}", stacklevel=3)
    stdout, stderr = (text(*session.captured(stream)) for stream in (STDOUT, STDERR))
    return Result(session.argv, session.report, stdout, stderr, session.status())
