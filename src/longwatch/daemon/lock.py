"""One daemon for one file: a lock that is taken before anything else and held for life.

The lock is the kernel's, on a file that is never removed: it goes with its holder, however that ends, and no program
inherits it. Who loses removes nothing.
"""

import fcntl
import json
import os

from longwatch import paths
from longwatch.errors import LongwatchError, StoreError


class Taken(LongwatchError):
    """Another daemon runs by this file. `pid` and `socket` are what it said of itself; None where it had not yet."""

    __module__ = "longwatch.daemon"

    def __init__(self, config: str, pid: int | None, socket: str | None) -> None:
        who = "another daemon" if pid is None else f"the daemon with pid {pid}"
        where = "" if socket is None else f", at {socket}"
        super().__init__(f"{config}: {who} runs its harnesses already{where}; end it with: longwatch down")
        self.pid = pid
        self.socket = socket


class Lock:
    """The lock of one daemon's folder, as its holder has it."""

    def __init__(self, folder: str, config: str) -> None:
        """Take it. Raises Taken where somebody has it, and StoreError with the path where none can be taken."""
        paths.ensure(folder)
        path = os.path.join(folder, "lock")
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {(error.strerror or '').lower()}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise Taken(config, *_holder(folder)) from None
            raise StoreError(f"{path}: cannot be locked: {(error.strerror or '').lower()}") from error

    def release(self) -> None:
        """Let it go; the end of the process does the same."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _holder(folder: str) -> tuple[int | None, str | None]:
    """Return what the daemon of a folder says of itself. It may not have come so far: nothing then."""
    try:
        with open(os.path.join(folder, "daemon.json"), encoding="utf-8") as file:
            told = json.load(file)
        return int(told["pid"]), str(told["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
