"""Where commands may start: folders that a human named, by their real paths.

This is a rule about working directories and no sandbox: a command that runs may go wherever the user may.
"""

import errno
import os

from longwatch.errors import UsageError
from longwatch.units import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

# Opens a folder that may be entered but not listed, too; macOS has no such flag.
_OPEN = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Refusal(Exception):
    """What a model asked for is not allowed or makes no sense. `str()` is one line, written for the model."""


class Folder:
    """A working directory that was checked and is held open: what is renamed or relinked meanwhile changes nothing.

    `path` leads to it for any process of this user; `real` is its name for people.
    """

    __slots__ = ("_fd", "path", "real")

    def __init__(self, fd: int, path: str, real: str) -> None:
        self._fd = fd
        self.path = path
        self.real = real

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class Roots:
    """The folders below which commands may start. The first one is where they start unless they name another.

    Raises UsageError for one that is no folder. Real paths are taken once: a root that is replaced by a link later
    leads nowhere new.
    """

    __slots__ = ("paths",)

    def __init__(self, folders: "Sequence[str]") -> None:
        self.paths = tuple(dict.fromkeys(_folder(name) for name in folders))

    def open(self, cwd: str | None = None) -> Folder:
        """Return the folder that `cwd` names, from the first root on; None is that root. Raises Refusal."""
        if cwd == "" or (cwd is not None and "\0" in cwd):
            raise Refusal(f"cwd {shown(cwd)} names no folder; leave it out for {self.paths[0]}")
        asked = os.path.join(self.paths[0], cwd or "")
        try:
            fd = os.open(asked, _OPEN)
        except (OSError, UnicodeError) as error:
            raise self._missing(cwd, asked, error) from error
        try:
            return self._checked(cwd, asked, fd)
        except BaseException:
            os.close(fd)
            raise

    def _checked(self, cwd: str | None, asked: str, fd: int) -> Folder:
        """Judge what was opened, never what a name leads to now."""
        handle = f"/proc/{os.getpid()}/fd/{fd}"
        try:
            real, path = os.readlink(handle), handle
        except OSError:  # no /proc: what is a race there is said in the documentation
            real = path = os.path.realpath(asked)
        if not self.hold(real):
            raise self._outside(cwd)
        if not os.fstat(fd).st_nlink:
            raise Refusal(f"cwd {shown(cwd or real)}: removed just now; make it first, or leave cwd out")
        return Folder(fd, path, real)

    def hold(self, real: str) -> bool:
        """Return whether a real path is one of the roots or below one."""
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.paths)

    def _missing(self, cwd: str | None, asked: str, error: Exception) -> Refusal:
        """A folder outside is none of the model's business, whether it is there or not."""
        if not isinstance(error, OSError):
            return Refusal(f"cwd {shown(repr(cwd))} is no path")
        if not self.hold(os.path.realpath(asked)):
            return self._outside(cwd)
        gone = error.errno == errno.ENOENT
        hint = "make it first, or leave cwd out" if gone else "name another, or leave cwd out"
        return Refusal(f"cwd {shown(cwd or asked)}: {(error.strerror or '').lower()}; {hint}")

    def _outside(self, cwd: str | None) -> Refusal:
        return Refusal(
            f"cwd {shown(cwd or self.paths[0])} is outside of what this server may use; "
            f"name a folder in {' or '.join(self.paths)}"
        )


def _folder(name: str) -> str:
    real = os.path.realpath(name)
    if not os.path.isdir(real):
        raise UsageError(f"--root {shown(name)}: no such folder; name one that exists")
    return real


__all__ = ["Folder", "Refusal", "Roots"]
