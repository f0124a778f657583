"""What tests share: waiting for events, looking at processes, and driving a terminal.

The rule behind it: a test never sleeps for a while and hopes. It waits for what it means, with a deadline.
"""

import contextlib
import errno
import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
import sysconfig
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import pyte

import measure

Found = TypeVar("Found")

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
LONGWATCH = Path(sysconfig.get_path("scripts")) / "longwatch"
MARKER = "LONGWATCH_TEST"
# What leads child processes to measure their coverage.
COVERAGE = (measure.CHOSEN, "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


# Waiting


def wait_until(predicate: Callable[[], Found], deadline: float = 10.0, what: str = "") -> Found:
    """Return the predicate's first true value; AssertionError when there was none in `deadline` seconds."""
    end = time.monotonic() + deadline
    pause = 0.001
    while not (found := predicate()):
        if time.monotonic() >= end:
            raise AssertionError(f"{what or predicate} did not come true in {deadline:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return found


# Processes


def stat(pid: int) -> tuple[str, int] | None:
    """Return a process's state letter and parent, or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split(maxsplit=2)
    except OSError:
        return None
    return fields[0].decode(), int(fields[1])


def alive(pid: int) -> bool:
    """Whether the process exists and has not ended: a zombie is not alive."""
    found = stat(pid)
    return found is not None and found[0] not in "ZX"


def command_line(pid: int) -> str:
    """Return a process's command line, or "" when there is none to read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def all_pids() -> list[int]:
    """Return the ids of all processes that are here now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_with(marker: str) -> list[int]:
    """Return the living processes, except this one, that were started with `NAME=value` in their environment."""
    wanted = marker.encode()
    found = []
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read()
        except OSError:  # gone, or somebody else's
            continue
        if wanted in text and wanted in text.split(b"\0") and pid != os.getpid() and alive(pid):
            found.append(pid)
    return found


def children(pid: int) -> list[int]:
    """Return the living children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return [child for child in found if alive(child)]


def descendants(root: int | None = None) -> list[int]:
    """Return the living processes below `root` (this one when left out), parents first."""
    below = [root or os.getpid()]
    for above in below:  # grows meanwhile
        below += children(above)
    return below[1:]


def descriptors() -> frozenset[str]:
    """Return our open descriptors, by number.

    To see that nothing was left open, ask for `after <= before`: what an earlier test left to be collected may go
    at any moment.
    """
    return frozenset(os.listdir("/proc/self/fd"))


def kill_all(pids: Sequence[int]) -> None:
    """Kill processes by id; those that are gone already are no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# Running longwatch


class Finished(NamedTuple):
    """How a command ended: its status as subprocess tells it (negative: a signal), output, and seconds."""

    code: int
    out: str
    err: str
    seconds: float


def environment(changes: Mapping[str, str | None] | None = None, *, measured: bool = True) -> dict[str, str]:
    """Return this environment with changes (None removes a name).

    `measured=False` takes coverage out of it, for tests of what a process loads and how fast it starts.
    """
    env = {**os.environ, **(changes or {})}
    gone = [name for name, value in env.items() if value is None or (name in COVERAGE and not measured)]
    return {name: str(value) for name, value in env.items() if name not in gone}


def run_command(
    argv: Sequence[str | os.PathLike[str]],
    *,
    deadline: float = 30.0,
    env: Mapping[str, str | None] | None = None,
    measured: bool = True,
    input: str | bytes | None = None,  # noqa: A002 - subprocess calls it so
    **options: Any,
) -> Finished:
    """Run a command to its end in a session of its own, its output captured as text.

    `env` holds changes to this environment. Without `input` stdin is empty. AssertionError when it is not over,
    its pipes included, in `deadline` seconds; it is killed with its group then. `options` go to Popen.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True} | options
    options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
    started = time.monotonic()
    with subprocess.Popen(argv, env=environment(env, measured=measured), **options) as process:
        try:
            given = input.encode() if isinstance(input, str) else input
            out, err = process.communicate(given, timeout=deadline)
        except subprocess.TimeoutExpired as late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
            said = [(part or b"").decode(errors="replace") for part in (late.stdout, late.stderr)]
            raise AssertionError(f"{list(argv)} was not over in {deadline:g} s; it said {said}") from None
    text = [(part or b"").decode(errors="surrogateescape") for part in (out, err)]
    return Finished(process.returncode, *text, time.monotonic() - started)


def run_cli(*args: str | os.PathLike[str], **options: Any) -> Finished:
    """Run the installed `longwatch` with these arguments; options as for `run_command`."""
    return run_command([LONGWATCH, *args], **options)


# Terminals


class Shown(Protocol):
    """Something with a screen."""

    @property
    def text(self) -> str:
        """What is on the screen now."""


def wait_for_text(screen: Shown, text: str, deadline: float) -> str:
    """Wait until the text is on the screen, and return the screen; AssertionError with the screen when it is not."""
    try:
        wait_until(lambda: text in screen.text, deadline)
    except AssertionError:
        raise AssertionError(f"{text!r} was not on the screen in {deadline:g} s:\n{screen.text}") from None
    return screen.text


class Screen:
    """A program on a terminal of its own, read as a person would read it.

    The test keeps the terminal open itself, so its settings can be read when the program is gone.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        rows: int = 24,
        columns: int = 80,
        env: Mapping[str, str | None] | None = None,
        **options: Any,
    ) -> None:
        self.master, self.terminal = os.openpty()
        self.raw = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            argv,
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            env=environment({"TERM": "xterm-256color", **(env or {})}),
            start_new_session=True,
            preexec_fn=self._own,  # noqa: PLW1509 - nothing else makes it the controlling terminal
            **options,
        )

    def _own(self) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSCTTY, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.terminal)

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size; the program is told by SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def read(self) -> None:
        """Take in what the program has written until now."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return
            self.raw += data
            self._stream.feed(data)

    @property
    def text(self) -> str:
        """What is on the screen now, without the spaces at the ends of lines."""
        self.read()
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def settings(self) -> list[Any]:
        """The terminal's settings, as `stty -g` compares them."""
        return termios.tcgetattr(self.terminal)

    @property
    def modes(self) -> set[int]:
        """The private modes that are switched on now (25 is a visible cursor), as a terminal would hold them.

        pyte keeps them shifted, so that they do not collide with the ANSI ones.
        """
        self.read()
        return {mode >> 5 for mode in self._screen.mode if mode >= 1 << 5}

    def send(self, keys: str | bytes) -> None:
        """Type something."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def wait_for(self, text: str, deadline: float = 10.0) -> str:
        """Wait until the text is on the screen, and return the screen."""
        return wait_for_text(self, text, deadline)

    def wait(self, deadline: float = 10.0) -> int:
        """Wait until the program has ended, reading what it writes; return its status, negative for a signal."""

        def over() -> bool:
            self.read()
            return self.process.poll() is not None

        wait_until(over, deadline, "the end of the program")
        self.read()
        return int(self.process.returncode)


def pty_run(
    argv: Sequence[str | os.PathLike[str]], *, keys: str = "", deadline: float = 30.0, **options: Any
) -> tuple[int, bytes]:
    """Run a program on a terminal to its end; return its status and all that it wrote."""
    with Screen(argv, **options) as screen:
        if keys:
            screen.send(keys)
        return screen.wait(deadline), screen.raw


class Tmux:
    """A tmux server of its own with one window, driven by keys and read by its screen."""

    def __init__(self, folder: Path, *, rows: int = 30, columns: int = 100) -> None:
        self._socket = str(folder / "tmux")
        self._call("new-session", "-d", "-x", str(columns), "-y", str(rows), "exec sh")
        self._call("set-option", "-g", "remain-on-exit", "on")

    def _call(self, *args: str) -> str:
        argv = ["tmux", "-f", "/dev/null", "-S", self._socket, *args]
        done = run_command(argv, env={"TMUX": None, "TERM": "xterm-256color"})
        assert done.code == 0, done.err
        return done.out

    def type(self, *keys: str) -> None:
        """Type keys by tmux's names for them, such as `Enter` and `C-c`; other words are typed as they are."""
        self._call("send-keys", *keys)

    @property
    def text(self) -> str:
        """What is on the screen now."""
        return self._call("capture-pane", "-p").rstrip()

    def show(self, form: str) -> str:
        """Return what tmux knows of the window, such as `#{alternate_on} #{mouse_any_flag} #{cursor_flag}`."""
        return self._call("display-message", "-p", form).strip()

    def record(self, path: Path) -> None:
        """Write to the file all that the window's programs send to their terminal from now on."""
        self._call("pipe-pane", "-O", f"exec cat >{path}")

    def wait_for(self, text: str, deadline: float = 10.0) -> str:
        """Wait until the text is on the screen, and return the screen."""
        return wait_for_text(self, text, deadline)

    def close(self) -> None:
        """End the server and what runs in it."""
        with contextlib.suppress(AssertionError):
            self._call("kill-server")


def have(program: str) -> bool:
    """Whether a program is installed."""
    return shutil.which(program) is not None


@contextlib.contextmanager
def ending(process: "subprocess.Popen[Any]") -> Iterator["subprocess.Popen[Any]"]:
    """Kill and reap a process at the end of the block, if it still runs."""
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
