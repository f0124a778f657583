"""Takes out of a program's output what draws on its terminal: the reader's is another one."""

import re

# CSI; the strings OSC, DCS, SOS, PM, APC up to their end or the line's; all other escapes.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=[\x1b\n]))|[ -/]*[0-OQ-WYZ\\`-~])"
)
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_SEQUENCE = 4096


def _is_whole(sequence: bytes) -> bool:
    """Whether it has its end, that of its line, or none that is worth waiting for."""
    ended = b"\n" in sequence or b"\r" in sequence or len(sequence) > _LONGEST_SEQUENCE
    return ended or _SEQUENCE.match(sequence) is not None


class Cleaner:
    """Takes control sequences out of a stream: what a program draws must not draw on the reader's terminal.

    Carriage returns become line breaks, so that a progress bar reads as lines.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the chunk's text; what may be half of a sequence waits for the rest."""
        data = self._held + chunk
        cut = self._complete(data)
        self._held = data[cut:]
        return self._clean(data[:cut])

    def flush(self) -> bytes:
        """Return what waited in vain."""
        rest, self._held = self._held, b""
        return self._clean(rest)

    def _complete(self, data: bytes) -> int:
        """Return up to where the bytes mean the same whatever comes next."""
        # A carriage return at the end may be the first half of a line break.
        end = len(data) - data.endswith(b"\r")
        at = data.rfind(b"\x1b", 0, end)
        if at < 0 or _is_whole(data[at:end]):
            return end
        # A string before it may end only where this one begins: they belong together.
        while (before := data.rfind(b"\x1b", 0, at)) >= 0 and not _is_whole(data[before:at]):
            at = before
        return at

    def _clean(self, data: bytes) -> bytes:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return _CONTROL.sub(b"", _SEQUENCE.sub(b"", lines))
