"""What has been seen: two clocks, and each source by itself.

*Alive* is any sign; *progress* comes from declared sources only. A source that we hold ourselves is known from
the start: its silence counts. One that must first appear, or is sampled, is unknown until seen and again while
it cannot be read: unknown sources are left out of a limit. Only what the program did moves either clock.
"""

from longwatch.core.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The source of the program's own records: a text is told as progress of it, a retry as a sign of life.
TRANSCRIPT = "transcript"
RECORDS = "records"


class Sight:
    """The last signs of one run; instants in ms, None where nothing was seen yet."""

    def __init__(self, spec: Spec) -> None:
        self.declared = (*spec.held, *spec.sampled)
        self.known = set(spec.held)
        self.seen: dict[str, tuple[int, int]] = {}
        self.alive: int | None = None
        self.last: int | None = None
        self.newest: str | None = None
        self.records = 0

    def progress(self, source: str, count: int, now: int) -> tuple[bool, bool]:
        """Note that a source moved; return whether it is declared, and whether it was unknown till now."""
        self.seen[source] = (now, self.seen.get(source, (0, 0))[1] + count)
        self.sign_of_life(source, now)
        if source not in self.declared:
            return False, False
        self.last, self.newest = now, source
        unknown = source not in self.known
        self.known.add(source)
        return True, unknown

    def sign_of_life(self, source: str, now: int) -> None:
        """Note any sign, progress or not."""
        self.alive = now
        self.records += source == TRANSCRIPT

    def record(self, now: int, *, progress: bool = True) -> None:
        """Note a record of the program's own: text, a call, a question; a retry or a limit is no progress."""
        self.records += 1
        self.alive = now
        if progress:
            self.last, self.newest = now, RECORDS

    def lost(self, source: str) -> bool:
        """A source cannot be read any more; return whether that is news."""
        if source not in self.known:
            return False
        self.known.discard(source)
        return True

    def is_lost(self, source: str) -> bool:
        """Whether a declared source cannot be read, or never could."""
        return source in self.declared and source not in self.known

    def found(self, source: str) -> bool:
        """A declared source can be read; return whether that is news."""
        if source in self.known or source not in self.declared:
            return False
        self.known.add(source)
        return True

    def snapshot(self, now: int) -> "dict[str, Any]":
        """Return both clocks and each source: ms since the last sign (None: never seen) and the count.

        `now` may be the instant of a deadline, and a sign have come after that and before anybody looked.
        """
        return {
            "alive_ms": None if self.alive is None else max(0, now - self.alive),
            "progress_ms": None if self.last is None else max(0, now - self.last),
            "sources": {
                name: {"last_ms": max(0, now - self.seen[name][0]), "count": self.seen[name][1]}
                if name in self.seen
                else {"last_ms": None, "count": 0}
                for name in dict.fromkeys((*self.declared, *self.seen))
            },
        }
