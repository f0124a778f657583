"""Two attempts of one thing never at the same time, though the network loses and delays whatever it likes.

A run beyond this machine lives on a *lease*: it ends itself when nobody has renewed that for its span. Whoever placed it
holds a *fence* before the next attempt: it opens when the run is known to be over, or when its lease must have lapsed.

How the two agree without a common clock: with every answer the run tells an instant of its own clock, the *stamp*, and a
renewal brings the newest stamp back. It moves the lease to stamp + span, however late it arrives. So of what the placing
side has received by an instant T of its own clock, nothing can ever move the lease beyond T + span of that clock.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND

#: A daemon's restart, or a network's bad quarter of an hour's worst part, has to fit into a lease.
LEASE = 10 * MINUTE
#: Beyond the lapse: a grace, the KILL after it, and what clocks of two machines drift apart.
MARGIN_LEAST, MARGIN_MOST = 2 * SECOND, 30 * SECOND


def margin(span: int) -> int:
    """Return how long after its lapse a run is surely gone."""
    return min(max(span // 5, MARGIN_LEAST), MARGIN_MOST)


def grace(span: int, late: int = 0) -> int:
    """Return how long a run may take to end, of which the lapse is noticed `late` ms after it: late is at once."""
    return max(margin(span) // 2 - late, 0)


class Lease:
    """The lease of a run, on the run's side. `until` is an instant of its clock, which counts suspend."""

    def __init__(self, until: int, span: int) -> None:
        self.until = until
        self.span = span
        self._lapsed = False

    def renew(self, until: int, now: int) -> bool:
        """Move it; False where it has lapsed, and then it stays so: the next attempt may have begun."""
        if self.lapsed(now):
            return False
        self.until = max(self.until, until)
        return True

    def lapsed(self, now: int) -> bool:
        """Whether nobody has renewed it in time."""
        self._lapsed = self._lapsed or now >= self.until
        return self._lapsed

    def late(self, now: int) -> int:
        """Return for how long it has been over."""
        return max(now - self.until, 0)


class Fence(Plain):
    """What stands between an attempt and the next one, on the side that places them.

    `granted`: no renewal that was ever sent moves the lease beyond it (None: the run was never allowed to begin).
    """

    __slots__ = ("granted", "open", "span")

    def __init__(self, span: int, granted: int | None = None, *, open: bool = False) -> None:  # noqa: A002
        self.span = span
        self.granted = granted
        #: There is an exit record, or its node was swept: nothing of it is left.
        self.open = open

    def heard(self, now: int) -> None:
        """An answer with a stamp has come; what is sent from now on carries it."""
        self.granted = max(self.granted or 0, now + self.span)

    def over(self) -> None:
        """It has left an exit record, or its node has swept itself clean."""
        self.open = True

    def earliest(self) -> int | None:
        """Return when the next attempt may begin; None: at any time."""
        if self.open or self.granted is None:
            return None
        return self.granted + margin(self.span)

    def may_follow(self, now: int) -> bool:
        """Whether the next attempt may begin."""
        earliest = self.earliest()
        return earliest is None or now >= earliest
