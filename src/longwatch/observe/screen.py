"""The screen as a source: what a human would see changing, with spinners and running counters masked.

A full-screen program redraws its spinner and its seconds while it hangs, so its bytes say nothing. Here they go
through a terminal emulator, digits and spinner glyphs are masked, and only a screen that still differs is progress.
The emulator does about 1 MB/s, so it is fed when somebody looks, and of a flood only the end.
"""

import pyte

#: What one look may feed. A flood of more than this between two looks is cut: it can only change what is seen.
MOST = 64 << 10
ROWS, COLUMNS = 24, 80

#: Braille, quarter blocks, arrows and bars are drawn by spinners; a word is never made of them alone.
_SPINNERS = "|/-\\◐◓◑◒◴◷◶◵⣾⣽⣻⢿⡿⣟⣯⣷·•✢✳✶✻✽∗*…←↖↑↗→↘↓↙▁▂▃▄▅▆▇█▉▊▋▌▍▎▏"
_MASK = {ord(c): " " for c in _SPINNERS}
_MASK.update(dict.fromkeys(range(0x2800, 0x2900), " "))
_MASK.update({ord(c): "0" for c in "123456789"})


class Screen:
    """Follows one terminal. `feed` takes its bytes as they come, `sample` tells whether the picture changed."""

    name = "screen"

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._pending = bytearray()
        self._pardoned = False
        self._last = self._look()

    def feed(self, chunk: memoryview) -> None:
        """Keep bytes for the next look."""
        self._pending += chunk
        if len(self._pending) > 2 * MOST:
            del self._pending[:-MOST]

    def resize(self, rows: int, columns: int) -> None:
        """Follow the terminal's size; that alone is no change."""
        self._draw()
        self._screen.resize(rows, columns)
        self._last = self._look()

    def pardon(self) -> None:
        """The next change is our own doing (a line was typed, another size made it draw anew): it will not count."""
        self._pardoned = True

    def sample(self) -> bool:
        """Draw what came, and return whether anything but spinners and counters looks different."""
        if not self._pending:
            return False
        self._draw()
        last, self._last = self._last, self._look()
        changed = self._last != last
        counts = changed and not self._pardoned
        self._pardoned = self._pardoned and not changed
        return counts

    def _draw(self) -> None:
        data, self._pending = bytes(self._pending[-MOST:]), bytearray()
        self._stream.feed(data)

    def _look(self) -> tuple[str, ...]:
        # Runs of zeros are one: a counter that gains a digit is still a counter.
        rows = self._screen.display
        return tuple(" ".join(_squeezed(row.translate(_MASK)).split()) for row in rows)


def _squeezed(row: str) -> str:
    while "00" in row:
        row = row.replace("00", "0")
    return row
