"""The echo of what we typed: a terminal sends it back, and it is no sign of the program's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.posix.pump import Judge, Pump

#: What is typed without the terminal ever echoing it is not waited for beyond this.
_MOST = 64 << 10
_DELETE = 0x7F


class Echo:
    """Takes the echo of what was typed out of a stream's progress; what else comes is judged as before.

    A terminal echoes a line as it is, with its end as CR LF. Whatever differs from that is the program's own. It
    takes the place of the pump's judge and goes on counting where that was.
    """

    __slots__ = ("_expected", "_judge", "count", "last")

    def __init__(self, pump: "Pump", text: str | None = None) -> None:
        self._expected = b"" if text is None else text.encode("utf-8", "surrogateescape") + b"\r\n"
        self._judge: Judge | None = pump.judge
        self.last = pump.last
        self.count = pump.count

    def add(self, keys: bytes) -> None:
        """Expect the echo of these keys, too, behind that of earlier ones."""
        self._expected = (self._expected + echo_of(keys))[-_MOST:]

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


def expect(pump: "Pump", keys: bytes) -> None:
    """Have the echo of keys that are about to be typed taken out of a stream's progress."""
    if not isinstance(pump.judge, Echo):
        pump.judge = Echo(pump)
    pump.judge.add(keys)


def echo_of(keys: bytes) -> bytes:
    """Return what a terminal with its usual settings shows of some keys as they are typed."""
    shown = bytearray()
    for key in keys:
        if key in b"\r\n":
            shown += b"\r\n"
        elif key == _DELETE:
            shown += b"\b \b"
        elif key < 0x20 and key != 0x09:
            shown += b"^%c" % (key + 0x40)
        else:
            shown.append(key)
    return bytes(shown)
