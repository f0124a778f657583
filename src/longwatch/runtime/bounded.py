"""A short command beside the run: a hook, a check, git. It has a real timeout and leaves nothing behind.

It runs in the loop of whoever waits for it and never blocks that loop: the end of the command is its pidfd, and its
end does not wait for leftovers that hold its output.
"""

import os

from longwatch.posix import now
from longwatch.posix.files import readable
from longwatch.posix.spawn import MERGED, NULL, Launch, spawn
from longwatch.posix.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Mapping, Sequence

    from longwatch.posix.reactor import Reactor
else:
    import _signal

#: How much of the end of the output is kept, in bytes.
TAIL = 4096
#: TERM to KILL when the limit is reached, in milliseconds: time enough for git to remove its lock file.
GRACE = 1_000
#: How long cleaning up may hold up the loop, in milliseconds; only a process that the kernel holds takes so long.
PATIENCE = 200
#: How often to look where there are no pidfds, in milliseconds.
POLL = 50

_MARK = "LONGWATCH_COMMAND"
_CHUNK = 65536
# More than the largest pipe holds: whoever still writes then has survived a KILL.
_LAST_READS = 32


def sh(text: str) -> list[str]:
    """Return the argv that runs a line of shell."""
    return ["/bin/sh", "-c", text]


class Bounded:
    """One running command. `on_done(code, output)` is called once, from the loop, when it is over.

    `code` is the exit status, 128+N after a signal N, None when the limit of `limit_ms` ended it; `output` is the
    last 4 KiB (`tail`) of stdout and stderr as they came. `stdin` is what it can read; without it there is nothing to read.
    Without `sweep` nobody looks for what a command has left that ended by itself: for those that leave nothing.
    `ignore` is the set of the run's tree: the command is entered there as long as it lives. The host asks
    `next_deadline` and calls `step`. Raises SpawnError when the command cannot be started.
    """

    def __init__(
        self,
        reactor: "Reactor",
        argv: "Sequence[str]",
        *,
        limit_ms: int,
        on_done: "Callable[[int | None, str], object]",
        env: "Mapping[str, str] | None" = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        ignore: set[int] | None = None,
        tail: int = TAIL,
        sweep: bool = True,
    ) -> None:
        self._sweep = sweep
        self._keeps = tail
        self._reactor = reactor
        self._on_done: Callable[[int | None, str], object] | None = on_done
        self._ignore = ignore if ignore is not None else set()
        self._tail = bytearray()
        self._late = False
        mark = os.urandom(8).hex()
        source: str | int = NULL if stdin is None else readable(stdin)
        environ = {**(os.environ if env is None else env), _MARK: mark}
        try:
            self._child = spawn(Launch(argv, environ, cwd, source, MERGED))
        finally:
            if isinstance(source, int):
                os.close(source)
        self._deadline = now() + limit_ms
        self._ignore.add(self._child.pid)
        self._output = self._child.stdout_fd
        assert self._child.identity is not None, "our own child cannot be reaped by anybody else"
        self._tree = Tree(self._child.identity, mark, subreaper=False, variable=_MARK)
        if self._output is not None:
            reactor.add(self._output, self._read)
        if self._child.pidfd is not None:
            reactor.add(self._child.pidfd, self._look)

    @property
    def done(self) -> bool:
        """Whether it is over, or was cancelled."""
        return self._on_done is None

    @property
    def pid(self) -> int:
        """The command's pid."""
        return self._child.pid

    def next_deadline(self) -> int | None:
        """Return the instant (ms, clock of `now`) at which `step` has to be called; None when it is over."""
        if self.done:
            return None
        return self._deadline if self._child.pidfd is not None else min(self._deadline, now() + POLL)

    def step(self, at: int) -> None:
        """Act on the limit: TERM to the whole tree of the command, KILL a second later. Extra calls do nothing."""
        self._look()
        if self.done or at < self._deadline:
            return
        if self._late:
            self._finish()
        else:
            self._late = True
            self._deadline = at + GRACE
            self._tree.signal(_signal.SIGTERM)

    def hurry(self) -> None:
        """Nobody waits for its answer any more: TERM now, KILL a second later; `on_done` tells nobody."""
        if not self.done:
            self._on_done = _unheard
            self._deadline = min(self._deadline, now())

    def cancel(self) -> None:
        """End it now, with its tree; `on_done` is not called."""
        if not self.done:
            self._on_done = None
            self._clean_up()

    def _read(self) -> bool:
        """Take in one piece of output; False when there is nothing more for now, or ever."""
        if self._output is None:
            return False
        try:
            chunk = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        self._tail += chunk
        if len(self._tail) > 2 * self._keeps:
            del self._tail[: -self._keeps]
        if not chunk:
            self._drop_output()
        return bool(chunk)

    def _drop_output(self) -> None:
        if self._output is not None:
            self._reactor.remove(self._output)
            os.close(self._output)
            self._output = None

    def _look(self) -> None:
        if not self.done and self._child.peek() is not None:
            self._finish()

    def _finish(self) -> None:
        report, self._on_done = self._on_done, None
        end = self._clean_up()
        if report is not None:
            report(
                None if self._late or end is None else _status(end),
                self._tail[-self._keeps :].decode(errors="replace"),
            )

    def _clean_up(self) -> tuple[int | None, int | None] | None:
        """End what is left, take the last words, give everything back; return how the command itself ended."""
        if self._sweep or self._late or self._child.peek() is None:
            self._tree.kill(PATIENCE)
        for _ in range(_LAST_READS):
            if not self._read():
                break
        self._drop_output()
        if self._child.pidfd is not None:
            self._reactor.remove(self._child.pidfd)
        end = self._child.peek()
        if end is not None:
            self._child.reap()
            self._ignore.discard(self._child.pid)
        self._child.close()
        return end


def _unheard(code: int | None, output: str) -> None:
    """Take an answer that nobody waits for."""


def _status(end: tuple[int | None, int | None]) -> int | None:
    code, signum = end
    return code if signum is None else 128 + signum
