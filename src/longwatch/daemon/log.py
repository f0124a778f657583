"""The daemon's own log: one JSON object a line, bounded, and never in anybody's way."""

import os
import time

from longwatch.jsonlean import dumps
from longwatch.paths import rfc3339
from longwatch.posix.sink import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: One file and an older one of this size each.
LIMIT = 4 << 20


class DaemonLog:
    """Lines for people, with their time. `say` also hands each line to whoever sits in front of us."""

    def __init__(self, path: str, heard: "Callable[[str], object] | None" = None) -> None:
        self.clean: Callable[[str], str] = str
        self._heard = heard
        try:
            self._log: Log | None = Log(path, LIMIT)
            os.chmod(path, 0o600)
        except OSError:
            self._log = None

    def say(self, text: str) -> None:
        """Write a line."""
        text = self.clean(text)
        line = {"at": rfc3339(time.time_ns() // 1_000_000), "pid": os.getpid(), "text": text}
        if self._log is not None:
            self._log.write(memoryview(dumps(line).encode() + b"\n"))
        if self._heard is not None:
            self._heard(text)

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None
