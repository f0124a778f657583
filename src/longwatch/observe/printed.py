"""What an agent prints, line by line: its records where it was asked for them, else words.

Stands in a pump as its judge. A record is judged by what it means, so a retry that is printed moves nothing; a line of
words is progress unless the agent's dialect knows better. While nobody knows which of both a stream is, its bytes
count as everywhere, and one of words that no dialect can read is left alone (`idle`).
"""

import time

from longwatch.observe.dialects.base import Reader
from longwatch.observe.dialects.loose import decode
from longwatch.observe.lines import Splitter
from longwatch.observe.record import STREAM, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from longwatch.observe.dialects import Dialect

    class Rule(Protocol):
        """A judge of the user's (see `posix.judge`)."""

        def feed(self, chunk: memoryview, now: int) -> bool:
            """Take bytes; return whether they are progress."""


#: A stream of records has shown it within so many lines.
ENOUGH = 20
UNKNOWN, RECORDS, WORDS = "unknown", "records", "words"


class Printed:
    """Judges one stream of an agent, which may be one of `records`.

    `told` gets each record with the ms it came at, and says whether it is progress; `rule` is asked about words.
    `last` and `count`, the ms of the newest progress and how often it came, go on from what they were.
    """

    def __init__(
        self, dialect: "Dialect", told: "Callable[[Record, int], bool]", *, records: bool,
        rule: "Rule | None" = None, last: int = 0, count: int = 0,
    ) -> None:  # fmt: skip
        self.kind = UNKNOWN if records else WORDS
        self.last = last
        self.count = count
        self.rule = rule
        self._dialect = dialect
        self._reader = dialect.reader(STREAM)
        self._told = told
        self._splitter = Splitter()
        self._knows_words = type(self._reader).stderr is not Reader.stderr
        #: What came while nobody knew: how many lines, and which of them may be records.
        self._lines = 0
        self._first: list[tuple[bytes, dict[str, Any]]] = []
        self._seen = 0
        self._fresh = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to judge here."""
        return self.kind == WORDS and not self._knows_words

    def feed(self, chunk: memoryview, now: int) -> bool:
        """Take bytes that came at `now` (ms on the watch's clock); return whether they are progress."""
        self._seen = now
        if self.idle:
            return self._judged(True)
        lines = self._splitter.places(bytes(chunk))
        self._fresh = True
        # Each of them is read, whatever the first one was.
        found = [self._line(line, now) for _, line in lines]
        return self._judged(any(found))

    def settle(self) -> bool:
        """Judge an unfinished line by what it has; nothing is known of a record before its end."""
        fresh, self._fresh = self._fresh, False
        rest = self._splitter.rest if fresh and not self.idle else b""
        if not rest.strip() or (self.kind == RECORDS and rest[:1] == b"{"):
            return False
        return self._judged(not self._reader.stderr(rest))

    def _judged(self, progress: bool) -> bool:
        if progress:
            self.last = self._seen
            self.count += 1
        return progress

    def _line(self, line: bytes, now: int) -> bool:
        if self.kind == UNKNOWN:
            return self._decide(line, now)
        if self.kind == RECORDS and line[:1] == b"{":
            return self._record(line, now)
        return self._words(line, now)

    def _decide(self, line: bytes, now: int) -> bool:
        """Records may stand behind a greeting or a warning, and show what they are by the first few."""
        self._lines += 1
        value = decode(line) if line[:1] == b"{" else None
        if isinstance(value, dict):
            self._first.append((line, value))
            if self._dialect.recognise([first for _, first in self._first]) == STREAM:
                lines, self._first, self.kind = self._first, [], RECORDS
                found = [self._record(first, now) for first, _ in lines]
                return any(found)
        if self._lines >= ENOUGH:
            self._first, self.kind = [], WORDS
        return self._words(line, now)

    def _record(self, line: bytes, now: int) -> bool:
        return self._tell(self._reader.read(line, wall=_wall()), now)

    def _words(self, line: bytes, now: int) -> bool:
        records = self._reader.stderr(line)
        for record in records:
            record.at = record.at or _wall()  # a terminal's words have no time of their own
        if records:
            return self._tell(records, now)
        return self.rule is None or self.rule.feed(memoryview(line + b"\n"), now)

    def _tell(self, records: list[Record], now: int) -> bool:
        found = [self._told(record, now) for record in records]
        return any(found)


def _wall() -> int:
    return time.time_ns() // 1_000_000
