"""From bytes to lines: chunks may end anywhere, and a line that is too long for memory keeps its two ends.

Only a whole line is a record, so whoever reads a growing file goes on at `Splitter.offset`, the byte after the last
line break. Nothing is decoded here: a line break is one byte in UTF-8, and never part of a character.
"""

import os
import re
from collections.abc import Iterator

#: A longer line is not kept whole. Today's longest honest ones are snapshots of 110 kB; above are images in base64.
LONGEST = 1 << 20
#: What is kept of each end of such a line.
KEPT = 64 << 10
#: A line up to this size is decoded as fast as its ends are cut out.
SHORT = 16 << 10
#: How much of each end of a longer line tells what it is.
WINDOW = 2 << 10
#: What `runs` reads into; larger than both ends of a line that does not fit.
_BUFFER = 256 << 10
_BLANK = b"\0 \t\r\v\f"
_BACKSLASH = 0x5C
#: The bytes of a character behind its first, and where first bytes begin; no character has more than three others.
_CONTINUES, _BEGINS, _OTHERS = range(0x80, 0xC0), 0xC0, 3
#: The longest escape, and what may be left of one at the end of a text.
_ESCAPED = 6
_ESCAPE = re.compile(rb"(\\+)(?:u[0-9A-Fa-f]{0,3})?\Z")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}:,"]|[^\s\[\]{}:,"]+', re.DOTALL)


class Cut(bytes):
    """Both ends of a line of `length` bytes, joined; up to `seam` it is the beginning."""

    length: int
    seam: int


class Splitter:
    """Splits chunks into lines. Holds at most `longest` bytes of a line that has not ended, whatever comes."""

    __slots__ = ("_head", "_parts", "_seen", "_size", "_tail", "longest")

    def __init__(self, offset: int = 0, longest: int = LONGEST) -> None:
        self.longest = max(longest, 2 * KEPT)
        self._seen = offset
        self._parts: list[bytes] = []
        self._size = 0
        #: Set while the unfinished line is too long.
        self._head: bytes | None = None
        self._tail = b""

    @property
    def offset(self) -> int:
        """The byte behind the last whole line: where reading can be taken up again."""
        return self._seen - self._size

    @property
    def rest(self) -> bytes:
        """The unfinished line: what came behind the last line break."""
        return self._line() if self._size else b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk, blank ones too, without their line breaks."""
        self._seen += len(chunk)
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._size:
            self._keep(lines[0])
            lines[0] = self._line()
            self._forget()
        last = lines.pop()
        if last:
            self._keep(last)
        if len(chunk) > self.longest:
            lines = [line if len(line) <= self.longest else cut(line) for line in lines]
        return lines

    def places(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """Return the lines that end in this chunk and where each begins; without blank ones and runs of zero bytes.

        Zero bytes are what a crash leaves where a file was extended and never written.
        """
        at = self.offset
        found = []
        for line in self.feed(chunk):
            begin = at
            at += length(line) + 1
            if line[:1] == b"\0":
                begin, line = begin + len(line) - len(line.lstrip(_BLANK)), line.lstrip(_BLANK)  # noqa: PLW2901
            if line.strip(_BLANK):
                found.append((begin, line))
        return found

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._head is not None:
            self._tail = part[-KEPT:] if len(part) >= KEPT else (self._tail + part)[-KEPT:]
            return
        self._parts.append(part)
        if self._size > self.longest:
            whole = b"".join(self._parts)
            self._head, self._tail = whole[:KEPT], whole[-KEPT:]
            self._parts = []

    def _line(self) -> bytes:
        if self._head is None:
            if len(self._parts) > 1:
                self._parts = [b"".join(self._parts)]
            return self._parts[0]
        return joined(self._head, self._tail, self._size)

    def _forget(self) -> None:
        self._parts, self._size, self._head, self._tail = [], 0, None, b""


def length(line: bytes | memoryview) -> int:
    """Return how many bytes a line has, also where it is kept in part."""
    return line.length if isinstance(line, Cut) else len(line)


def cut(line: bytes | memoryview, kept: int = KEPT) -> Cut:
    """Return both ends of a line."""
    return joined(bytes(line[:kept]), bytes(line[-kept:]), length(line))


def joined(head: bytes, tail: bytes, size: int) -> Cut:
    """Join two ends of a line of JSON so that, where both lie in one string, the whole is JSON again.

    Neither an escape nor a character may be cut in two: their halves are left out.
    """
    if b"\\" in head[-_ESCAPED:]:
        escape = _ESCAPE.search(head)
        if escape is not None and len(escape[1]) % 2:
            head = head[: len(head) - len(escape[0]) + len(escape[1]) - 1]
    head = head[: _whole_characters(head)]
    begin = 1
    while begin < len(tail) and (tail[begin - 1] == _BACKSLASH or tail[begin] in _CONTINUES):
        begin += 1
    line = Cut(head + tail[begin:])
    line.length, line.seam = size, len(head)
    return line


def _whole_characters(head: bytes) -> int:
    """Return where the last character begins if that is not ASCII, else the end."""
    end = len(head)
    while end and len(head) - end < _OTHERS and head[end - 1] in _CONTINUES:
        end -= 1
    return end - 1 if end and head[end - 1] >= _BEGINS else end


def mended(head: bytes) -> bytes:
    """Return the longest beginning of a cut text of JSON that can be closed, closed."""
    closers: list[bytes] = []
    good, closing, value = 0, b"", True
    for token in _TOKEN.finditer(head):
        word = token[0]
        if word == b'"' or (token.end() == len(head) and word[:1] not in b'"{}[]'):
            break
        if word in (b"{", b"["):
            closers.append(b"}" if word == b"{" else b"]")
            value = word == b"["
        elif word in (b"}", b"]"):
            if not closers or closers.pop() != word:
                break
        elif word in (b":", b","):
            value = word == b":" or closers[-1:] == [b"]"]
            continue
        elif not value:
            continue  # a key: nothing may end behind it
        good, closing = token.end(), b"".join(reversed(closers))
    return head[:good] + closing


def runs(descriptor: int, begin: int = 0, end: int | None = None) -> Iterator[memoryview]:
    """Yield runs of whole lines of an open file between two offsets, each good until the next one. Raises OSError.

    The fast way: one buffer, nothing copied, and no step for each line. A run is many short lines with their line
    breaks between them, or one that is longer than `SHORT`; of one longer than the buffer its ends come. The last line
    needs no line break. The file is not mapped: one that is cut short under a map is a bus error, under a read it is
    an early end.
    """
    buffer = bytearray(_BUFFER)
    view = memoryview(buffer)
    have, at, size = 0, begin, 0
    head = tail = b""
    while got := os.preadv(descriptor, [view[have : _room(have, at, end)]], at):
        at, have, start = at + got, have + got, 0
        while (stop := _stop(buffer, start, have)) >= 0:
            if size:
                stop = buffer.find(b"\n", start, have)
                yield memoryview(joined(head, (tail + bytes(view[start:stop]))[-KEPT:], size + stop - start))
                size = 0
            else:
                yield view[start:stop]
            start = stop + 1
        have -= start
        if have == _BUFFER:
            head, tail, size, have = (
                (head if size else bytes(view[:KEPT])),
                bytes(view[-KEPT:]),
                size + have,
                0,
            )
        elif start:
            view[:have] = view[start : start + have]
    if size:
        yield memoryview(joined(head, (tail + bytes(view[:have]))[-KEPT:], size + have))
    elif have:
        yield view[:have]


def _stop(buffer: bytearray, start: int, have: int) -> int:
    """Return where a run ends: at the last line break of the next bytes, else at the first one behind them."""
    stop = buffer.rfind(b"\n", start, min(start + SHORT, have))
    return stop if stop >= 0 else buffer.find(b"\n", start + SHORT, have)


def _room(have: int, at: int, end: int | None) -> int:
    return _BUFFER if end is None else min(_BUFFER, have + max(0, end - at))
