"""What is to be started, in words and descriptors, between a master and its keeper.

Words alone would mean something else to the keeper, or nothing any more: the folder, stdin and the terminal to
resemble are lent.
"""

import os
import sys

from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.spawn import INHERIT, NOT_EXECUTABLE, NULL, PTY, Launch, SpawnError, refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.runtime.wire import Message

#: Whether our own words are in UTF-8, as nearly everybody's are.
_UTF8 = sys.getfilesystemencoding() == "utf-8"

FOLDER, STDIN, STDOUT, STDERR, LIKE = "folder", "stdin", "stdout", "stderr", "like"


def words(launch: Launch, run_id: str) -> "Message":
    """Return the words of a launch. The mark is what a run is found by, should its keeper die."""
    environ = {RUN_VARIABLE: run_id, **launch.env}
    return {
        "argv": [_portable(word) for word in launch.argv],
        "env": {_portable(name): _portable(value) for name, value in environ.items()},
        "cwd": launch.cwd or os.curdir,
        # What is lent goes before this; where nothing could be, there is nothing to read.
        "stdin": NULL if isinstance(launch.stdin, int) or _inherits(launch) else launch.stdin,
        "output": launch.output,
        "size": launch.size,
        "apart": launch.apart,
    }


def descriptors(launch: Launch) -> dict[str, int]:
    """Return what goes with the words, by what it is for. The folder is opened here, and the caller's to close.

    Raises SpawnError in the words of `posix.spawn`.
    """
    given = {}
    if isinstance(launch.stdin, int):
        given[STDIN] = _open(launch.stdin, launch)
    elif _inherits(launch) and _is_open(0):
        given[STDIN] = 0
    if launch.output == INHERIT:
        given.update({name: fd for name, fd in ((STDOUT, 1), (STDERR, 2)) if _is_open(fd)})
    if launch.like is not None:
        given[LIKE] = _open(launch.like, launch)
    folder = launch.cwd or os.curdir
    try:
        given[FOLDER] = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _no_folder(folder, error) from error
    return given


class Stage:
    """Where a keeper starts programs: for the moment of a start it is in their folder, with their output as its own.

    Both are `/` and the null device again afterwards.
    """

    def __init__(self) -> None:
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._laid = False

    def set(self, message: "Message", lent: dict[str, int]) -> Launch:
        """Prepare what a master's words ask for, and return the launch. Raises SpawnError."""
        try:
            os.fchdir(lent[FOLDER])
        except OSError as error:
            raise _no_folder(message["cwd"], error) from error
        if message["output"] == INHERIT:
            self._laid = True
            self._lay(lent.get(STDOUT, self._null), lent.get(STDERR, self._null))
        size = message["size"]
        stdin: int | str = lent[STDIN] if STDIN in lent else message["stdin"]
        return Launch(
            message["argv"], message["env"], None, stdin, message["output"], (size[0], size[1]) if size else None,
            like=lent.get(LIKE), apart=message["apart"],
        )  # fmt: skip

    def clear(self) -> None:
        """Let go of it all: no folder and no terminal is kept busy."""
        os.chdir("/")
        if self._laid:
            self._lay(self._null, self._null)
            self._laid = False

    def _lay(self, stdout: int, stderr: int) -> None:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)


def _inherits(launch: Launch) -> bool:
    """Return whether our own stdin is meant: at a terminal of its own a program inherits that."""
    return launch.stdin == INHERIT and launch.output != PTY


def _open(fd: int, launch: Launch) -> int:
    try:
        os.fstat(fd)
    except OSError as error:
        raise refused(error, launch.argv) from error
    return fd


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _portable(word: str) -> str:
    """Return a word whose bytes are the same to the keeper, which speaks UTF-8."""
    return word if _UTF8 else os.fsencode(word).decode("utf-8", "surrogateescape")


def _no_folder(folder: str, error: OSError) -> SpawnError:
    return SpawnError(f"{folder}: {(error.strerror or '').lower()}", NOT_EXECUTABLE)
