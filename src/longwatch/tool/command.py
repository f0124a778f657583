"""`CommandTool`: lets a model run commands, under limits that only whoever made the tool can set."""

import os

from longwatch import words
from longwatch.core.observations import StopRequested
from longwatch.core.spec import STOP, LimitSpec
from longwatch.errors import UsageError
from longwatch.limits import UNSET, Resolved, Unset, milliseconds
from longwatch.options import Values, options_for
from longwatch.posix import now
from longwatch.posix.process import Process
from longwatch.runtime.hosts import block
from longwatch.session import Session
from longwatch.tool.parent import Parent
from longwatch.tool.result import ToolResult, result_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from longwatch.limits import Span
    from longwatch.options import Told

    Path = str | os.PathLike[str]

MAX_BYTES = 256 << 10
#: Past the first bytes output is read into this and forgotten.
_BUFFER = 64 << 10


class Live:
    """A command that runs, for whoever shows it; of use until the call returns."""

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The pid of the command."""
        return self._process.child.pid

    @property
    def bytes(self) -> int:
        """How many bytes both streams have brought."""
        return sum(pump.bytes for pump in self._process.pumps.values())

    @property
    def elapsed_ms(self) -> int:
        """For how long it has been running."""
        return now() - self._process.child.started

    @property
    def idle_ms(self) -> int:
        """How long ago the newest byte came; as long as it runs when none did."""
        stamps = (pump.alive for pump in self._process.pumps.values())
        return now() - max(self._process.child.started, *stamps)

    def tap(self, stream: str, callback: "Callable[[memoryview], object]") -> None:
        """Have every chunk of `stdout` or `stderr` from now on, as a view that is valid for the call."""
        self._process.pumps[stream].taps.append(callback)


class Call:
    """One command from its words to its result: the block starts it, and ends whatever of it still runs.

    `session.driver` is for a host to drive, where `runs` says that there is something to.
    """

    __slots__ = ("_began", "_calls", "_start", "runs", "session")

    def __init__(
        self, session: Session, start: "Callable[[], bool]", began: "Callable[[Live], object] | None",
        calls: "set[Call]",
    ) -> None:  # fmt: skip
        self.session = session
        self.runs = False
        self._start = start
        self._began = began
        self._calls = calls

    def __enter__(self) -> "Self":
        try:
            self.runs = self._start()
            if self.session.process is not None:
                self._calls.add(self)
                if self._began is not None:
                    self._began(Live(self.session.process))
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._calls.discard(self)
        self.session.__exit__(*error)

    def cancel(self) -> None:
        """Have the command stopped at the next step of its driver; any thread may call this."""
        self.session.driver.tell(StopRequested("cancelled", "shutdown"))

    def result(self) -> ToolResult:
        """Return how it ended; after the block."""
        return result_of(self.session)


class CommandTool:
    """Runs commands for a model. Every command gets the same limits, and no call can change them.

    timeout    stops a command after this long, whatever happens; 180 s
    idle       stops it when there was no output for this long; off
    grace      from the first signal (TERM) to KILL; 1 s
    max_bytes  how much of each stream is kept, from its beginning; 256 KiB. The rest is read and dropped
    cwd        where commands start; None: where we are. A call's own `cwd` may be relative to it
    env        their whole environment; None: ours. Our options (LONGWATCH_TOOL_TIMEOUT, ...) are taken out
    config     a `longwatch.toml` (or its folder): `timeout`, `idle` and `kill_after` of `[defaults]` hold where the
               words above say nothing; a limit that may only tell is none here. None: no file is read

    Spans are seconds, or texts such as "5m"; 0 and None are none. May be used by several threads and tasks at once.
    A command reads nothing but `input`, gets no terminal, and its whole tree is gone when the call returns. The parent
    of all is a keeper, which goes with `close`, the end of a `with` block, or this process. Raises UsageError for
    words and files that make no sense, and nothing else of its own: a bad end is a result.
    """

    __module__ = "longwatch"

    def __init__(
        self, *, timeout: "Span | Unset" = UNSET, idle: "Span | Unset" = UNSET, grace: "Span | Unset" = UNSET,
        max_bytes: int = MAX_BYTES, cwd: "Path | None" = None, env: "Mapping[str, str] | None" = None,
        config: "Path | None" = None,
    ) -> None:  # fmt: skip
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
            raise UsageError(f"max_bytes {max_bytes!r}: write a number of bytes, such as {MAX_BYTES}")
        values = Values(options_for("tool"))
        if config is not None:
            values.take(_told(config))
        windows = {
            "idle": _span("idle", idle, values.idle),
            "timeout": _span("timeout", timeout, values.timeout),
        }
        limits = {name: LimitSpec(window, STOP) for name, window in windows.items() if window}
        self._limits = Resolved(limits, _span("grace", grace, values.kill_after), [])
        self._max_bytes = max_bytes
        self._cwd = words.folder(cwd)
        self._env = None if env is None else words.environment(env)
        self._parent = Parent()
        self._calls: set[Call] = set()

    def __call__(
        self, argv: "Sequence[Path]", *, input: str | bytes | None = None, cwd: "Path | None" = None,  # noqa: A002
        began: "Callable[[Live], object] | None" = None,
    ) -> ToolResult:  # fmt: skip
        """Run a command and return how it ended, with what it said.

        argv   program and arguments, one word each; no shell
        input  what it reads on stdin; None: there is nothing to read
        cwd    where it starts, in place of the tool's own
        began  is called once, with a `Live`, when it has been started

        KeyboardInterrupt and whatever else is raised meanwhile stops the tree first and goes on then.
        """
        with self.begin(argv, input=input, cwd=cwd, began=began) as call:
            if call.runs:
                block(call.session.driver)
        return call.result()

    async def run_async(
        self, argv: "Sequence[Path]", *, input: str | bytes | None = None, cwd: "Path | None" = None,  # noqa: A002
        began: "Callable[[Live], object] | None" = None,
    ) -> ToolResult:  # fmt: skip
        """Do the same as a call, under asyncio or trio; a cancellation stops the whole tree first, shielded."""
        from longwatch.runtime.hosts_async import drive  # noqa: PLC0415 - a blocking program needs no event loop

        with self.begin(argv, input=input, cwd=cwd, began=began) as call:
            if call.runs:
                await drive(call.session.driver)
        return call.result()

    def begin(
        self, argv: "Sequence[Path]", *, input: str | bytes | int | None = None,  # noqa: A002
        cwd: "Path | None" = None, began: "Callable[[Live], object] | None" = None,
    ) -> Call:  # fmt: skip
        """Return a call for a host of another kind to drive; `input` may be a descriptor to read from."""
        session = Session(self._limits, self._parent.spawn, head=self._max_bytes, tail=_BUFFER, verb="tool")
        text, stdin = (None, input) if isinstance(input, int) else (input, None)

        def start() -> bool:
            return session.start(argv, input=text, stdin=stdin, cwd=self._folder(cwd), env=self._env)

        return Call(session, start, began, self._calls)

    def close(self) -> None:
        """Cancel what still runs, and end the commands' parent. A later call starts a new one."""
        for call in tuple(self._calls):
            call.cancel()
        self._parent.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _folder(self, cwd: "Path | None") -> str | None:
        if cwd is None or self._cwd is None:
            return words.folder(cwd) or self._cwd
        return os.path.join(self._cwd, words.folder(cwd) or "")


def _span(name: str, given: "Span | Unset", otherwise: int) -> int:
    return otherwise if isinstance(given, Unset) else milliseconds(name, given)


def _told(config: "Path") -> "Told":
    from longwatch.config.as_options import read  # noqa: PLC0415 - it costs more than all the rest, and few name one

    return read(os.fspath(config), "tool", who="config ")
