"""The lines that longwatch itself writes into a log, so that a reader can tell them from the program's.

-- longwatch 2026-01-02T03:04:05.678Z: started web-4k2a9x (attempt 3) --

A program may write such a line as well; nothing is stopped or started because of one.
"""

from longwatch.paths import rfc3339

BEGIN, END = b"-- longwatch ", b" --"
_STARTED, _ENDED = "started", "ended"


def mark(text: str, wall_ms: int) -> bytes:
    """Return the line for a text, without a line break; whatever the text holds, it is one line."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return f"-- longwatch {rfc3339(wall_ms)}: {shown} --".encode("utf-8", "backslashreplace")


def started(run: str, attempt: int) -> str:
    """Return the words that begin a run."""
    return f"{_STARTED} {run} (attempt {attempt})"


def ended(run: str, how: str) -> str:
    """Return the words that end a run; they are the last ones of it."""
    return f"{_ENDED} {run}: {how}"


def text_of(line: bytes) -> str | None:
    """Return what a line of ours says; None for a line that is the program's."""
    line = line.strip()
    if not line.startswith(BEGIN) or not line.endswith(END):
        return None
    stamp, colon, text = line[len(BEGIN) : -len(END)].partition(b": ")
    return text.decode("utf-8", "replace") if colon and stamp.endswith(b"Z") and b" " not in stamp else None


def begins(line: bytes, run: str | None = None) -> bool:
    """Whether a line says that a run (this one, or any) has started."""
    return (text_of(line) or "").startswith(f"{_STARTED} {run} (" if run else f"{_STARTED} ")


def ends(line: bytes, run: str | None = None) -> bool:
    """Whether a line says that a run (this one, or any) is over."""
    return (text_of(line) or "").startswith(f"{_ENDED} {run}: " if run else f"{_ENDED} ")


def started_run(line: bytes) -> str | None:
    """Return the id of the run that a line begins; None for any other line."""
    words = (text_of(line) or "").split(" ")
    return words[1] if len(words) > 2 and words[0] == _STARTED else None
