"""What is kept of a stream in fixed memory: its first and its last bytes."""

#: The first bytes, the last bytes, and how many between them were dropped.
Captured = tuple[bytes, bytes, int]

HEAD = 64 << 10
TAIL = 256 << 10


class Capture:
    """The first `head` and the last `tail` bytes of a stream. The tail is a ring, and the ring is the read buffer.

    A reader asks for `space()`, reads into it, and says `took(n)`; or hands over bytes by `append`. Memory is taken
    when the first byte comes.
    """

    __slots__ = ("_at", "_head", "_head_size", "_ring", "_size", "total")

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head = bytearray()
        self._head_size = head
        self._size = tail
        self._ring: memoryview | None = None
        self._at = 0
        #: Bytes seen in all.
        self.total = 0

    @property
    def size(self) -> int:
        """How many last bytes are kept."""
        return self._size

    @property
    def head_full(self) -> bool:
        """Whether the next bytes go to the tail alone."""
        return len(self._head) >= self._head_size

    def space(self) -> memoryview:
        """Return where the next bytes may be read to: never empty, up to the end of the ring."""
        if self._ring is None:
            self._ring = memoryview(bytearray(self._size))
        return self._ring[self._at :]

    def took(self, count: int) -> memoryview:
        """Note that `count` bytes were read into `space()`; return them, valid until the next `took`."""
        assert self._ring is not None
        chunk = self._ring[self._at : self._at + count]
        missing = self._head_size - len(self._head)
        if missing > 0:
            self._head += chunk[:missing]
        self._at += count
        if self._at == self._size:
            self._at = 0
        self.total += count
        return chunk

    def append(self, data: memoryview) -> None:
        """Take bytes that were read elsewhere."""
        while data:
            space = self.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            self.took(count)
            data = data[count:]

    def skip(self, count: int) -> None:
        """Count bytes that went by unseen and were followed by more than the tail holds."""
        self.total += count

    def captured(self) -> Captured:
        """Return head, tail, and how many bytes between them were dropped; together they are the stream."""
        head = bytes(self._head)
        kept = min(self.total - len(head), self._size)
        if not kept or self._ring is None:
            return head, b"", self.total - len(head)
        start = self._at - kept
        if start >= 0:
            tail = bytes(self._ring[start : self._at])
        else:
            tail = bytes(self._ring[start:]) + bytes(self._ring[: self._at])
        return head, tail, self.total - len(head) - kept


def text(head: bytes, tail: bytes, gap: int) -> str:
    """Decode a capture; what is no UTF-8 becomes replacement marks, and a line names the gap.

    Characters that the gap cut in two are left out rather than shown as damaged.
    """
    if not gap:
        return (head + tail).decode("utf-8", "replace")
    end = whole(head)
    start = 0
    while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:
        start += 1
    left_out = gap + start + len(head) - end
    before = head[:end].decode("utf-8", "replace")
    after = tail[start:].decode("utf-8", "replace")
    newline = "" if before.endswith("\n") else "\n"
    return f"{before}{newline}[... {left_out} bytes left out ...]\n{after}"


def whole(data: bytes) -> int:
    """Return where the last complete UTF-8 character ends."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(data) - back if length > back else len(data)
    return len(data)
