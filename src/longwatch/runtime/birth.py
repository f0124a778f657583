"""Starting the keeper's process, and collecting it at its end.

A program that hosts us may have threads, so it cannot fork. An interpreter is started anew, as lean as it can be.
"""

import os
import sys
import time

from longwatch.posix.tree import wait_for_death
from longwatch.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from longwatch.runtime.wire import Wire
else:
    import _signal

#: How long a keeper that has answered, or lost us, may take to end, in milliseconds.
END_LIMIT = 2_000
#: Without what the environment and the installed packages would add to an interpreter; and with names in UTF-8, in
#: whatever language the machine speaks.
INTERPRETER = ("-I", "-S", "-X", "utf8")
_BOOT = (
    "import sys; sys.path.append(sys.argv[2]); from longwatch.runtime.keeper import main; main(sys.argv[3:])"
)

_unburied: list[int] = []


def start(on_orphan: str, grace: int) -> "tuple[Wire, int]":
    """Start a keeper in a session of its own; return the connection and the pid. Raises OSError."""
    _bury_those_that_ended()
    connection, theirs = wire.pair()
    words = [sys.executable, *INTERPRETER, *(("-B",) if sys.dont_write_bytecode else ())]
    words += ["-c", _BOOT, "longwatch-keeper", _home(), on_orphan, str(grace)]
    try:
        pid = os.posix_spawn(
            sys.executable, words, os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True, setsigmask=[], setsigdef=[_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ],
        )  # fmt: skip
    except OSError:
        connection.close()
        raise
    finally:
        theirs.close()
    return connection, pid


def bury(pid: int) -> None:
    """Collect our child, which is over or about to be."""
    wait_for_death(pid, time.monotonic() + END_LIMIT / 1000)
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, _signal.SIGKILL)
            os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # our host collects all children, or has the system do it


def bury_some_day(pid: int) -> None:
    """Collect our child when the next one is started, if it has ended by then."""
    _unburied.append(pid)


def _bury_those_that_ended() -> None:
    for pid in _unburied[:]:
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True
        if ended:
            _unburied.remove(pid)


def _home() -> str:
    """Return the folder that the package is in."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
