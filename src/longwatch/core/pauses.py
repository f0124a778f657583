"""All pause arithmetic: what a provider's "wait" is worth to a ceiling.

Only pauses reported by the provider move a ceiling. Each is credited until it ends: at its stated end plus a
slack, or at `Resumed`, whichever comes first. Overlapping pauses keep the furthest end; all together are capped.
A throttle never gets a `Resumed`, so its own end must close it: else work after it would be credited as waiting.
"""

from longwatch.core.spec import PAUSE_SLACK, SECOND

MIN_GRANT = 1 * SECOND


class Pauses:
    """The provider's pauses of one run."""

    __slots__ = ("_banked", "_began", "end")

    def __init__(self) -> None:
        self._banked = 0
        self._began = 0
        self.end: int | None = None

    def open(self, now: int, span: int | None) -> int | None:
        """Open or lengthen a pause; return its end, None for one without a usable end (it credits nothing)."""
        self.close(now, only_expired=True)
        if span is None or span <= 0:
            return None
        end = now + span + PAUSE_SLACK
        if self.end is None:
            self._began, self.end = now, end
        self.end = max(self.end, end)
        return self.end

    def close(self, now: int, *, only_expired: bool = False) -> None:
        """Bank an open pause: up to now, or up to its own end if that has passed."""
        if self.end is None or (only_expired and now < self.end):
            return
        self._banked += min(now, self.end) - self._began
        self.end = None

    def parked(self, now: int) -> int:
        """Return the ms spent in pauses up to now."""
        running = 0 if self.end is None else min(now, self.end) - self._began
        return self._banked + running


class Credit:
    """What one limit has been granted of the time in pauses."""

    __slots__ = ("cap", "granted")

    def __init__(self, cap: int) -> None:
        self.cap = max(0, cap)
        self.granted = 0

    def grant(self, pauses: Pauses, now: int) -> int:
        """Grant what was parked and not yet credited: at least a second, at most what is left; 0 is a refusal."""
        uncredited = pauses.parked(now) - self.granted
        if uncredited <= 0:
            return 0
        grant = min(max(uncredited, MIN_GRANT), self.cap - self.granted)
        self.granted += grant
        return grant

    def open_until(self, pauses: Pauses, now: int) -> int | None:
        """Return until when an open pause surely extends the limit: its end, or the instant the cap is spent."""
        if pauses.end is None or pauses.end <= now:
            return None
        left = self.cap - max(pauses.parked(now), self.granted)
        return min(pauses.end, now + left) if left > 0 else None
