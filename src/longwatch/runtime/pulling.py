"""What a run prints and leaves elsewhere, fetched piece by piece: its output into the log of its item, its files at its end."""

import os

from longwatch.posix import now
from longwatch.runtime.engines.protocol import OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from longwatch.runtime.engines.protocol import EngineError
    from longwatch.runtime.host import Host

    Came = Callable[[tuple[int, bytes] | None, EngineError | None], object]
    #: `read(stream, offset, count, came)` asks for a piece.
    Read = Callable[[str, int, int, Came], object]

CHUNK = 256 << 10
#: After a piece that did not come, in ms.
AGAIN = 1_000
#: Where nobody can say how much there is: it is read until nothing more comes.
_ALL = 1 << 62


class Pull:
    """Fetches the output of one run. `offset` is up to where it is here; `moved` is called after each piece."""

    def __init__(
        self, host: "Host", read: "Read", log: "Any", offset: int, note: "Callable[[str], object]",
        moved: "Callable[[], object]",
    ) -> None:  # fmt: skip
        self.offset = offset
        #: Told each piece of output as it comes.
        self.taps: list[Callable[[memoryview], object]] = []
        self._host = host
        self._read = read
        self._log = log
        self._note = note
        self._moved = moved
        self._end = 0
        self._under_way = False
        self._done: Callable[[], object] | None = None
        self._closed = False

    def to(self, end: int) -> bool:
        """There is output up to there; return whether that is more than was known."""
        more, self._end = end > self._end, end
        self._pull()
        return more

    def rest(self, done: "Callable[[], object]", *, known: bool) -> None:
        """No more is printed: call back when all of it is here. Not `known`: nobody says how much that is."""
        self._done = done
        if not known:
            self._end = max(self._end, _ALL)
        self._pull()

    def _pull(self) -> None:
        if self._under_way or self._closed:
            return
        if self.offset < self._end:
            self._under_way = True
            self._read(OUTPUT, self.offset, CHUNK, self._pulled)
        elif self._done is not None:
            done, self._done = self._done, None
            done()

    def _pulled(self, piece: "tuple[int, bytes] | None", error: "EngineError | None") -> None:
        self._under_way = False
        if self._closed:
            return
        if piece is None or not piece[1]:
            self._nothing_came(error)
            return
        start, data = piece
        if start > self.offset:
            self._note(
                f"{start - self.offset} bytes are missing here: it printed faster than they were fetched"
            )
        self._write(memoryview(data))
        self.offset = start + len(data)
        self._moved()
        self._pull()

    def _nothing_came(self, error: "EngineError | None") -> None:
        if self._done is not None:  # what cannot be fetched now will never be
            if error is not None:
                self._note(f"the last of its output could not be fetched: {error}")
            self._end = self.offset
        self._host.at(now() + (0 if self._done else AGAIN), lambda at: self._pull())

    def _write(self, data: memoryview) -> None:
        for tap in self.taps:
            tap(data)
        while data and (count := self._log.write(data)):
            data = data[count:]

    # -- its files

    def fetch(self, wanted: "Mapping[str, str]", done: "Callable[[], object]") -> None:
        """Fetch files by name, each to its path; call back when all that can be is here."""
        self._fetch(iter(wanted.items()), done)

    def _fetch(self, left: "Iterable[tuple[str, str]]", done: "Callable[[], object]") -> None:
        for name, path in left:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._fetch_piece(name, file, 0, lambda: self._fetch(left, done))
            return
        done()

    def _fetch_piece(self, name: str, file: int, offset: int, done: "Callable[[], object]") -> None:
        def came(piece: "tuple[int, bytes] | None", error: "EngineError | None") -> None:
            if piece is not None and piece[1]:
                os.write(file, piece[1])
                self._fetch_piece(name, file, offset + len(piece[1]), done)
                return
            if error is not None:
                self._note(f"its {name} could not be fetched: {error}")
            os.close(file)
            done()

        self._read(name, offset, CHUNK, came)

    def close(self) -> None:
        """Fetch no more."""
        self._closed = True
        self._log.close()


__all__ = ["Pull"]
