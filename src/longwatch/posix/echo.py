"""The echo of what we typed: a terminal sends it back, and it is no sign of the program's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.posix.pump import Judge, Pump


class Echo:
    """Takes the echo of one typed line out of a stream's progress; what else comes is judged as before.

    A terminal echoes the line as it is, with its end as CR LF. Whatever differs from that is the program's own. It
    takes the place of the pump's judge and goes on counting where that was.
    """

    __slots__ = ("_expected", "_judge", "count", "last")

    def __init__(self, pump: "Pump", text: str) -> None:
        self._expected = text.encode("utf-8", "surrogateescape") + b"\r\n"
        self._judge: Judge | None = pump.judge
        self.last = pump.last
        self.count = pump.count

    def feed(self, chunk: memoryview, now: int) -> bool:
        """Take bytes that came at `now`; return whether any of them is progress."""
        same = 0
        while same < min(len(chunk), len(self._expected)) and chunk[same] == self._expected[same]:
            same += 1
        # After the first byte that differs nothing more is expected.
        self._expected = self._expected[same:] if same == len(chunk) else b""
        return same < len(chunk) and self._progress(chunk[same:], now)

    def settle(self) -> bool:
        """Judge an unfinished line by what it has."""
        return self._judge is not None and self._judge.settle() and self._take(self._judge)

    def _progress(self, chunk: memoryview, now: int) -> bool:
        if self._judge is not None:
            return self._judge.feed(chunk, now) and self._take(self._judge)
        self.last = now
        self.count += 1
        return True

    def _take(self, judge: "Judge") -> bool:
        self.last, self.count = judge.last, judge.count
        return True
