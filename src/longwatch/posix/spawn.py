"""Starting one program in a session of its own, with pipes or a terminal of ours.

posix_spawn is a vfork underneath, so a start costs the same however big the parent is. It knows no working
directory: `spawn` changes ours for the moment of the start, which only a program with a single thread may do (the
command line, the keeper). A program with threads calls `posix.spawn_in` instead.

This is loaded before every start, so it holds no more than a start needs. Why a start failed is put into better
words by `posix.refusal`.
"""

import errno
import os

from longwatch.posix import now
from longwatch.posix.libc import become_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping, Sequence

    from longwatch.posix.child import Child
else:
    import _signal

INHERIT, NULL, PIPE = "inherit", "null", "pipe"
PIPES, MERGED, PTY = "pipes", "merged", "pty"
NOT_FOUND, NOT_EXECUTABLE = 127, 126

#: What programs assume of a terminal that has no size.
DEFAULT_SIZE = (24, 80)

# HUP, INT and QUIT that were inherited ignored stay so, for `nohup` and `&`; Python itself ignores the other two.
_RESET = [_signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ]
SHELL = "/bin/sh"


class SpawnError(OSError):
    """The program could not be started. `str()` is one line; `status` is what a shell would exit with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Launch:
    """What to start, and how it is connected.

    `env` None is ours. `stdin` is inherit, null, pipe or a descriptor; `output` is pipes (one each), merged (one for
    both), inherit, or pty (then stdin is the terminal too, unless it is null, pipe or a descriptor). `size` is rows
    and columns; `like` a terminal whose settings the new one gets; `apart` gives stderr a pipe beside the terminal.
    Without `new_session` the child stays in our session and group.
    """

    __slots__ = ("apart", "argv", "cwd", "env", "like", "new_session", "output", "size", "stdin")

    def __init__(
        self, argv: "Sequence[str]", env: "Mapping[str, str] | None" = None, cwd: str | None = None,
        stdin: str | int = INHERIT, output: str = PIPES, size: tuple[int, int] | None = None,
        new_session: bool = True, like: int | None = None, apart: bool = False,
    ) -> None:  # fmt: skip
        self.argv = list(argv)
        self.env = os.environ if env is None else env
        self.cwd = cwd
        self.stdin = stdin
        self.output = output
        self.size = size
        self.new_session = new_session
        self.like = like
        self.apart = apart

    def at(self, path: str) -> str:
        """Return where the child would find `path`."""
        return path if self.cwd is None else os.path.join(self.cwd, path)


class Wires:
    """Both ends of one start: ours, the child's (closed here afterwards), and what the child does with them."""

    __slots__ = ("actions", "master", "stderr", "stdin", "stdout", "theirs")

    def __init__(self) -> None:
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.master: int | None = None
        self.theirs: list[int] = []
        self.actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = []

    def lay(self, launch: Launch) -> None:
        """Make what `launch` asks for. What was made when it fails is for `cut` and `release`."""
        if launch.output == PTY:
            self._terminal(launch)
        elif launch.output in (PIPES, MERGED):
            self.stdout = self._output(1)
            if launch.output == PIPES:
                self.stderr = self._output(2)
            else:
                self._give(1, 2)
        self._input(launch.stdin)

    def _give(self, fd: int, number: int) -> None:
        self.actions.append((os.POSIX_SPAWN_DUP2, fd, number))

    def release(self) -> None:
        """Close the child's ends in this process."""
        for fd in self.theirs:
            os.close(fd)
        self.theirs.clear()

    def cut(self) -> None:
        """Close our ends: nothing was started."""
        for fd in (self.stdin, self.stdout, self.stderr, self.master):
            if fd is not None:
                os.close(fd)

    def _output(self, number: int) -> int:
        ours, theirs = os.pipe()
        self.theirs.append(theirs)
        self._give(theirs, number)
        os.set_blocking(ours, False)
        return ours

    def _input(self, stdin: str | int) -> None:
        if stdin == NULL:
            self.actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        elif stdin == PIPE:
            theirs, self.stdin = os.pipe()
            self.theirs.append(theirs)
            os.set_blocking(self.stdin, False)
            self._give(theirs, 0)
        elif isinstance(stdin, int):
            self._give(stdin, 0)
        elif self.master is not None:
            self._give(1, 0)

    def _terminal(self, launch: Launch) -> None:
        import termios  # noqa: PLC0415 - a C module, which a start on pipes does without

        self.master, slave = os.openpty()
        self.theirs.append(slave)
        os.set_blocking(self.master, False)
        termios.tcsetwinsize(self.master, launch.size or DEFAULT_SIZE)
        if launch.like is not None and os.isatty(launch.like):
            # Before the program can make its own: the user's erase key, and that letters are UTF-8.
            termios.tcsetattr(self.master, termios.TCSANOW, termios.tcgetattr(launch.like))
        # A session leader that opens a terminal by its path takes it as its controlling one. Our own end stays open
        # until the start is over: without any, a reader of the master would see the end at once.
        flags = os.O_RDWR if launch.new_session else os.O_RDWR | os.O_NOCTTY
        self.actions.append((os.POSIX_SPAWN_OPEN, 1, os.ttyname(slave), flags, 0))
        if launch.apart:
            self.stderr = self._output(2)
        else:
            self._give(1, 2)


def spawn(launch: Launch) -> "Child":
    """Start a program and return at once. Raises SpawnError when it cannot be started; then nothing stays open.

    With `cwd` the calling process changes directory for the moment of the start.
    """
    wires = Wires()
    started = now()
    try:
        wires.lay(launch)
        pid = _start(launch, wires) if launch.cwd is None else _start_in(launch.cwd, launch, wires)
    except OSError as error:
        wires.cut()
        raise refused(error, launch.argv) from error
    finally:
        wires.release()
    # Loaded only now, while the child is on its way already.
    from longwatch.posix.child import Child  # noqa: PLC0415

    return Child(pid, started, wires.stdout, wires.stderr, wires.stdin, wires.master)


def refused(error: OSError, argv: list[str]) -> SpawnError:
    """Return the failure of a start in the system's own words."""
    if isinstance(error, SpawnError):
        return error
    status = NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
    return SpawnError(f"{argv[0] if argv else 'no command'}: {(error.strerror or '').lower()}", status)


def candidates(launch: Launch) -> list[str]:
    """Return the files that the program's name may mean, best first, on the PATH that the child will have."""
    program = launch.argv[0] if launch.argv else ""
    if "/" in program:
        return [program]
    folders = launch.env.get("PATH", os.defpath).split(os.pathsep) if program else []
    paths = [os.path.join(folder or os.curdir, program) for folder in folders]
    return [path for path in paths if os.access(launch.at(path), os.F_OK)]


def same_file(one: int, other: int) -> bool:
    """Return whether two descriptors lead to the same file, pipe or terminal; False when either is closed."""
    try:
        a, b = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def reset_dispositions() -> None:
    """Undo what a careless parent left us: an ignored CHLD takes exit codes away, a blocked signal never comes."""
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def own_children() -> list[int]:
    """Return the pids of our own children, zombies included; [] where the system does not tell."""
    try:
        with open("/proc/thread-self/children", "rb", buffering=0) as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return []


def _start(launch: Launch, wires: Wires) -> int:
    """Start the first candidate that can be; as in a shell, one that must not be executed gives way to the next."""
    failed: OSError = FileNotFoundError(errno.ENOENT, "not found")
    for path in candidates(launch):
        try:
            return _posix_spawn(path, launch.argv, launch, wires)
        except OSError as error:
            # A script without a first line `#!`: shells run it themselves, and so do execvp and timeout.
            if error.errno == errno.ENOEXEC:
                return _posix_spawn(SHELL, [SHELL, path, *launch.argv[1:]], launch, wires)
            failed = error
            if error.errno != errno.EACCES:
                break
    raise failed


def _posix_spawn(path: str, argv: list[str], launch: Launch, wires: Wires) -> int:
    return os.posix_spawn(
        path, argv, launch.env, file_actions=wires.actions, setsid=launch.new_session, setsigmask=[],
        setsigdef=_RESET,
    )  # fmt: skip


def _start_in(folder: str, launch: Launch, wires: Wires) -> int:
    home = os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            os.chdir(folder)
        except OSError as error:
            raise SpawnError(f"{folder}: {(error.strerror or '').lower()}", NOT_EXECUTABLE) from error
        return _start(launch, wires)
    finally:
        os.fchdir(home)
        os.close(home)


__all__ = [
    "DEFAULT_SIZE", "INHERIT", "MERGED", "NULL", "PIPE", "PIPES", "PTY", "Launch", "SpawnError",
    "Wires", "become_subreaper", "own_children", "reset_dispositions", "same_file", "spawn",
]  # fmt: skip
