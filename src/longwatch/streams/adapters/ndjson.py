"""Lines of JSON, as agent CLIs print them on stdout: a stream of bytes becomes a stream of lines that can be guarded.

`lines(stream)` cuts a byte stream, async or blocking, into `Line`s and keeps each as it was; `reader()` reads lines,
bytes, texts and records by the rows of the programs in `PROGRAMS`. What no row knows is judged by its company: of a
program whose records are known a new kind is a sign of life only, as in its transcript; of an unknown program every
line is progress, as its bytes would be.

A line without end costs `limit` bytes and no more. Its head is kept and read for what may not be missed: that a call
has ended, for a result with a picture in it is longer than any limit, and a call that never ends holds the watch.
"""

import json
import re
import time
from collections import deque

from longwatch.core.record import Plain
from longwatch.observe import events as e
from longwatch.observe.acp import Session
from longwatch.streams.adapters.claude import Conversation
from longwatch.streams.adapters.copilot import Copilot
from longwatch.streams.adapters.shapes import Codex, Gemini, Opencode, Pi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any, Self

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters import Read

#: Who prints records, in the order in which their rows are tried.
PROGRAMS = (Conversation, Copilot, Gemini, Opencode, Codex, Pi)
#: type -> rows of (a key that must be there, the program, how it is read).
SHAPES = {
    word: [(cls.ROWS[word][0], cls, cls.ROWS[word][1]) for cls in PROGRAMS if word in cls.ROWS]
    for word in dict.fromkeys(word for cls in PROGRAMS for word in cls.ROWS)
}
#: Records of 0.1 MB are usual and pictures make megabytes; what is longer is cut.
LIMIT = 4 << 20
#: As much of a cut line is kept: ids and kinds stand in front.
HEAD = 64 << 10
#: What is read at once.
CHUNK = 64 << 10
_CALL = re.compile(r'"(?:tool_use_id|toolCallId|tool_id|callID)"\s*:\s*"((?:[^"\\]|\\.)+)"')
_RESULT = re.compile(r'"type"\s*:\s*"(?:tool_result|tool\.execution_complete|tool_execution_end)"')
_BAD = re.compile(r'"(?:is_error|isError)"\s*:\s*true|"success"\s*:\s*false')


class Line(Plain):
    """One line as it was, without its end; of a `cut` one only the head."""

    __slots__ = ("cut", "raw")

    def __init__(self, raw: bytes, cut: bool = False) -> None:
        self.raw = raw
        self.cut = cut

    def record(self) -> "dict[str, Any] | None":
        """Return the record that the line holds; None when it holds none. Broken characters are replaced."""
        try:
            found = json.loads(self.raw.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class Splitter:
    """Cuts chunks into lines, wherever the chunks end. Lines end with LF or CRLF, and with nothing else."""

    __slots__ = ("_cut", "_limit", "_parts", "_size")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = max(1, limit)
        self._parts: list[bytes] = []
        self._size = 0
        self._cut = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Take the next bytes; return the lines that they complete."""
        *whole, rest = bytes(chunk).split(b"\n")
        out = []
        for part in whole:
            self._keep(part)
            out.append(self._line())
        self._keep(rest)
        return out

    def close(self) -> list[Line]:
        """The stream is over: return what is left of it, a last line without an end."""
        return [self._line()] if self._size else []

    def _keep(self, part: bytes) -> None:
        if self._cut or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            head = b"".join(self._parts)[: min(HEAD, self._limit)]
            self._parts, self._size, self._cut = [head], len(head), True

    def _line(self) -> Line:
        line = Line(b"".join(self._parts).removesuffix(b"\r"), self._cut)
        self._parts, self._size, self._cut = [], 0, False
        return line


# -- from bytes to lines


def lines(stream: "Any", *, limit: int = LIMIT) -> "AsyncLines | Lines":
    """Return the lines of a byte stream, as an async iterator where the stream is async.

    `stream` is anything that gives bytes or texts: an async or plain iterator of chunks, or something to read from
    (an asyncio.StreamReader, a pipe, a file). Closing the lines closes an iterator, never a file.
    """
    if hasattr(stream, "__aiter__"):
        return AsyncLines(_chunks(stream), limit)
    return Lines(_blocks(stream), limit)


class AsyncLines:
    """The lines of an async stream of bytes."""

    def __init__(self, chunks: "AsyncIterator[bytes | str]", limit: int = LIMIT) -> None:
        self._chunks = chunks
        self._splitter = Splitter(limit)
        self._ready: deque[Line] = deque()
        self._over = False

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> Line:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                self._over = True
                self._ready.extend(self._splitter.close())
            else:
                self._ready.extend(self._splitter.feed(_bytes(chunk)))
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Read no more, and close what the bytes came from if it is a generator."""
        self._over = True
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


class Lines:
    """The lines of a blocking stream of bytes."""

    def __init__(self, chunks: "Iterator[bytes | str]", limit: int = LIMIT) -> None:
        self._chunks = chunks
        self._splitter = Splitter(limit)
        self._ready: deque[Line] = deque()
        self._over = False

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> Line:
        while not self._ready:
            if self._over:
                raise StopIteration
            try:
                chunk = next(self._chunks)
            except StopIteration:
                self._over = True
                self._ready.extend(self._splitter.close())
            else:
                self._ready.extend(self._splitter.feed(_bytes(chunk)))
        return self._ready.popleft()

    def close(self) -> None:
        """Read no more, and close what the bytes came from if it is a generator."""
        self._over = True
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def _bytes(chunk: bytes | str) -> bytes:
    return chunk.encode("utf-8", "surrogateescape") if isinstance(chunk, str) else chunk


class _Reads:
    """Chunks of an asyncio.StreamReader: iterating over one gives lines, and breaks at 64 KiB without one."""

    def __init__(self, stream: "Any") -> None:
        self._stream = stream

    async def __anext__(self) -> "bytes | str":
        chunk: bytes | str = await self._stream.read(CHUNK)
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _chunks(stream: "Any") -> "Any":
    # By name: asking whether `read` is a coroutine would need inspect, and files of trio and anyio iterate well.
    return _Reads(stream) if hasattr(stream, "readuntil") else aiter(stream)


def _blocks(stream: "Any") -> "Iterator[bytes | str]":
    # What gives what is there, without waiting for more: a pipe of subprocess, a binary file.
    read = getattr(stream, "read1", None)
    if read is None:
        return iter(stream)
    return iter(lambda: read(CHUNK), b"")


# -- from lines to events


def reader(wall: "Callable[[], float]" = time.time) -> "Read":
    """Return what reads one program's lines: `Line`s, bytes, texts or records. `wall` as for `claude.reader`."""
    return Reader(wall).read


class Reader:
    """Reads the lines of one program, in their order."""

    __slots__ = ("_programs", "_wall")

    def __init__(self, wall: "Callable[[], float]" = time.time) -> None:
        self._wall = wall
        # Those whose records were seen, with what they remember.
        self._programs: dict[type, Any] = {}

    def read(self, line: object) -> "Events":
        """Return what a line means; nothing for one of a program that we do not know. Never raises."""
        if isinstance(line, bytes | str):
            line = Line(_bytes(line).rstrip(b"\r\n"))
        if isinstance(line, Line):
            if line.cut:
                return _cut(line.raw)
            if not line.raw.strip():
                return (e.Heartbeat(),)  # an empty line is how such streams are kept open
            line = line.record()
        found = self._record(line) if isinstance(line, dict) else None
        if found is None:
            return (e.Heartbeat(),) if self._programs else ()
        return found

    def _record(self, record: "dict[str, Any]") -> "Events | None":
        """Return the events of a record; None for a shape that is in no row."""
        if record.get("jsonrpc") == "2.0":
            events: Events = self._of(Session).read(record)
            return events
        for key, cls, row in SHAPES.get(str(record.get("type")), ()):
            if not key or key in record:
                return row(self._of(cls), record)
        return None

    def _of(self, cls: type) -> "Any":
        if cls not in self._programs:
            self._programs[cls] = cls(self._wall) if cls is Conversation else cls()
        return self._programs[cls]


def _cut(head: bytes) -> "Events":
    """Read the head of a line that was too long: the end of a call counts, anything else is progress."""
    text = head.decode("utf-8", "replace")
    call = _CALL.search(text)
    if call is None or _RESULT.search(text) is None:
        return ()
    ok = _BAD.search(text) is None
    return (e.ToolResult(call[1], ok, why="" if ok else "error"),)
