"""Which lines are progress and which are mere signs of life, by a rule of the user's (`--not-progress`).

Loads `re`, and so is itself loaded only where there is a rule.
"""

import re

# A line is judged by its beginning; of one without an end no more is kept.
_LINE = 8 << 10
_BORDER = re.compile(rb"[\r\n]+")


class LineJudge:
    r"""Judges the lines of one stream. `last` is the ms of the newest progress, `count` how often it came.

    A line ends at `\n` or `\r`, so every redraw of a progress bar is one. Empty lines say nothing. The rule is
    searched for in the line's bytes; a line in which it is found is not progress. Raises ValueError for a rule that
    is no regular expression.
    """

    __slots__ = ("_fresh", "_line", "_rule", "_seen", "count", "last")

    def __init__(self, pattern: str) -> None:
        try:
            self._rule = re.compile(pattern.encode())
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        self._line = b""
        self._fresh = False
        self._seen = 0
        self.last = 0
        self.count = 0

    def feed(self, chunk: memoryview, now: int) -> bool:
        """Take bytes that came at `now`; return whether a line that they complete is progress."""
        *lines, rest = _BORDER.split(chunk)
        if lines:
            lines[0] = self._line + lines[0]
            self._line = rest[:_LINE]
        else:
            self._line = (self._line + rest)[:_LINE]
        self._fresh = bool(rest)
        self._seen = now
        return self._judge(any(self._counts(line[:_LINE]) for line in lines))

    def settle(self) -> bool:
        """Judge an unfinished line by what it has; return whether that is progress. Twice only if it has grown."""
        fresh, self._fresh = self._fresh, False
        return self._judge(fresh and self._counts(self._line))

    def _judge(self, progress: bool) -> bool:
        if progress:
            self.last = self._seen
            self.count += 1
        return progress

    def _counts(self, line: bytes) -> bool:
        return bool(line.strip()) and self._rule.search(line) is None
