"""The guardian: a sibling of the program that ends it when longwatch itself is killed hard.

KILL cannot be caught, so somebody else has to be there. The guardian is a fork that holds nothing but the reading
end of a pipe. The pipe's end means that longwatch died, and then the whole run is swept by session, group and mark;
when all is well and over longwatch kills its guardian first. It imports nothing: the package may be gone by then.
"""

import fcntl
import gc
import os
import time

from longwatch.posix.tree import Tree, wait_for_death

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

#: TERM to KILL, in milliseconds: whoever kills longwatch hard kills the machine or the job soon after.
GRACE = 1_000
#: What is not gone after so many calls of `Tree.kill` is beyond us.
ATTEMPTS = 5

# Whatever the terminal, the job control or an impatient human sends to everybody.
_DEAF_TO = (
    _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGTSTP, _signal.SIGTTIN,
    _signal.SIGTTOU, _signal.SIGPIPE, _signal.SIGALRM, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGWINCH,
    _signal.SIGCONT,
)  # fmt: skip


class Guardian:
    """Our handle on a running guardian."""

    __slots__ = ("_pipe", "pid")

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe: int | None = pipe

    def dismiss(self) -> None:
        """Send the guardian home and reap it; nothing of the run is touched. May be called again."""
        if self._pipe is None:
            return
        pipe, self._pipe = self._pipe, None
        os.kill(self.pid, _signal.SIGKILL)  # its pid is ours until we reap it
        os.waitpid(self.pid, 0)
        os.close(pipe)


def start(tree: Tree, grace: int = GRACE) -> Guardian:
    """Fork a guardian over the tree of a run, and have the tree ignore it.

    Only for a process with a single thread. Raises OSError where no process can be started; the run is then as safe
    as any program's, no less.
    """
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        try:
            _guard(tree, reading, grace)
        finally:
            os._exit(0)
    os.close(reading)
    tree.ignore.add(pid)
    return Guardian(pid, writing)


def _guard(tree: Tree, pipe: int, grace: int) -> None:
    gc.disable()  # a collection would write to every object, and so copy all the memory that is shared
    for signum in _DEAF_TO:
        _signal.signal(signum, _signal.SIG_IGN)
    _signal.set_wakeup_fd(-1)
    os.setsid()
    pipe = _let_go_of_all_but(pipe)
    os.read(pipe, 1)  # returns at the end of the pipe only: nobody ever writes
    _sweep(Tree(tree.leader, tree.run_id, subreaper=False, variable=tree.variable), grace)


def _let_go_of_all_but(pipe: int) -> int:
    """Close every descriptor, put /dev/null on the standard ones, and return the pipe's new number."""
    kept = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the folder's own descriptor, closed with the listing
    return kept


def _sweep(tree: Tree, grace: int) -> None:
    tree.signal(_signal.SIGTERM)
    deadline = time.monotonic() + grace / 1000
    for member in tree.members():
        wait_for_death(member.pid, deadline)
    for _ in range(ATTEMPTS):
        if not tree.kill():
            return
