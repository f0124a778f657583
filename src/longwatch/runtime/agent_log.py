"""What an observed agent did, in its run's folder: `agent.jsonl`, one line an event; `agent.jsonl.1` has those before.

They are the events as the watch heard them, each without its content. A transcript may be many files, a database that
others share, or gone by the time somebody asks; and it does not say what the supervisor knew of it. Texts, thoughts
and signs of life in a row are one line, with the instant of the last.
"""

import errno
import os

from longwatch.jsonlean import dumps
from longwatch.paths import rfc3339
from longwatch.posix import wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from longwatch.runtime.rundir import RunDir

SCHEMA = 1
#: Twice this is kept, the newest: some ten thousand events, of which a day has a few thousand.
MOST = 1 << 20
#: Before there is a folder nothing can be written; a run that never gets one is not remembered either.
_EARLY = 1_000
#: No line is longer.
_TAIL = 8 << 10
#: Kinds that come in rows.
_JOINED = ("text", "thinking", "heartbeat")


class AgentLog:
    """Collects from the first instant on; writes once it has a folder. What fails is told by the folder (`failed`)."""

    def __init__(self) -> None:
        self._folder: RunDir | None = None
        self._lines: list[dict[str, object]] = []
        self._row: dict[str, object] = {}
        self._size = 0
        self._descriptor = -1
        #: What is told of up to here stands in the folder: another supervisor has followed this run before us.
        self._before = -1

    def heard(self, at: int, fields: "Mapping[str, object]") -> None:
        """Note an event; `at` is on the watch's clock, `fields` has its kind and what may be kept of it."""
        if at <= self._before:
            return
        line = {**fields, "mono_ms": at}
        if self._joins(line):
            chars, more = self._row.get("chars"), line.get("chars")
            if isinstance(chars, int) and isinstance(more, int):
                self._row["chars"] = chars + more
            count = self._row.get("count")
            self._row |= {"mono_ms": at, "count": (count if isinstance(count, int) else 1) + 1}
            return
        self._row = line
        self._lines.append(line)
        if self._folder is None and len(self._lines) > _EARLY:
            del self._lines[0]

    def _joins(self, line: "Mapping[str, object]") -> bool:
        same = all(line.get(key) == self._row.get(key) for key in ("kind", "sub", "call", "source"))
        return same and line.get("kind") in _JOINED and bool(self._lines)

    def keep_in(self, folder: "RunDir") -> None:
        """Write into a run's folder from now on."""
        self._folder = folder
        self._before = _last(os.path.join(folder.path, "agent.jsonl"))
        self._lines = [line for line in self._lines if _instant(line) > self._before]

    def looked(self) -> None:
        """Write what was heard since the last look."""
        if self._folder is None or not self._lines:
            return
        lines, self._lines, self._row = self._lines, [], {}
        data = b"".join(self._line(line) for line in lines)
        path = os.path.join(self._folder.path, "agent.jsonl")
        try:
            self._append(path, data)
        except OSError as error:
            self._folder.fail("agent.jsonl", error.strerror)

    def end(self) -> None:
        """Write the rest, and close the file."""
        self.looked()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _line(self, fields: "dict[str, object]") -> bytes:
        at = fields.pop("mono_ms")
        stamp = rfc3339(wall_of(at)) if isinstance(at, int) else None
        return dumps({"schema": SCHEMA, "at": stamp, "mono_ms": at, **fields}).encode() + b"\n"

    def _append(self, path: str, data: bytes) -> None:
        """Append; a file that is full becomes the one before, whose own lines go. Raises OSError."""
        if self._size >= MOST:
            os.rename(path, path + ".1")
            os.close(self._descriptor)
            self._descriptor, self._size = -1, 0
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
            self._size = os.fstat(self._descriptor).st_size
        self._size += len(data)
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _last(path: str) -> int:
    """Return the instant of the last line of a file; -1 where there is none, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return -1
    _, _, rest = (lines[-1] if lines else b"").partition(b'"mono_ms":')
    digits = rest.split(b",", 1)[0].strip()
    return int(digits) if digits.isdigit() else -1


def _instant(line: "Mapping[str, object]") -> int:
    at = line.get("mono_ms")
    return at if isinstance(at, int) else 0
