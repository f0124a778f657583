"""Who waits for a provider: one park for all harnesses that share a quota, and a place in it for each of them.

Nobody starts before the stated instant, and after it all come back within a minute, each at its own moment. What
follows an end by a limit is decided in `parking`; here it is kept for the others, and over a restart of the daemon.
All instants are wall time in ms since 1970, except those of `Trouble`, which are of the boot clock.
"""

from longwatch.core.parking import JITTER
from longwatch.core.record import Plain
from longwatch.core.service_holds import PARK, Hold
from longwatch.core.spec import MINUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.core.harness import Harness

#: Refused so often within this span, and not served once: it will not get through by trying.
STUCK, STUCK_SPAN = 3, 10 * MINUTE
#: Multiples of the golden section fill a circle evenly, however many there are; in millionths.
_GOLDEN, _CIRCLE = 618_034, 1_000_000


def group_of(harness: "Harness") -> str:
    """Return whose quota it uses: the group that the file names, else its own."""
    return harness.quota_group or harness.name


class Park(Plain):
    """One wait: until when, for what class of limit, in whose words, where on the circle it begins, who has a place."""

    __slots__ = ("begin", "cls", "places", "text", "until")

    def __init__(
        self, until: int, cls: str, text: str = "", begin: int = 0, places: "Mapping[str, int] | None" = None
    ) -> None:
        self.until = until
        self.cls = cls
        self.text = text
        self.begin = begin
        self.places = dict(places or {})

    def comes_back(self, name: str) -> int:
        """Return when this one may start; who asks for the first time gets the next place."""
        place = self.places.setdefault(name, len(self.places))
        return self.until + (self.begin + place * _GOLDEN) % _CIRCLE * JITTER // _CIRCLE


class Quota:
    """The parks of all groups. `told` is what `as_dict` gave."""

    def __init__(self, told: "Mapping[str, Mapping[str, Any]] | None" = None) -> None:
        self._parks = {group: Park(**park) for group, park in (told or {}).items()}

    def as_dict(self) -> "dict[str, dict[str, object]]":
        """Return it as values that JSON knows."""
        return {group: park.as_dict() for group, park in self._parks.items()}

    def park(self, group: str, until: int, cls: str, text: str = "", drawn: float = 0.0) -> None:
        """Hold a group until then. A later end than the known one moves it, an earlier one changes nothing."""
        known = self._parks.get(group)
        if known is None or known.until < until:
            places = {} if known is None else known.places
            self._parks[group] = Park(until, cls, text, int(drawn * _CIRCLE), places)

    def release(self, group: str) -> None:
        """Let a group go before its time; one that is not parked is none."""
        self._parks.pop(group, None)

    def hold(self, name: str, group: str, wall: int) -> Hold | None:
        """Return what holds this harness back now."""
        park = self._parks.get(group)
        if park is None:
            return None
        if wall >= park.until + JITTER:
            del self._parks[group]
            return None
        due = park.comes_back(name)
        words = f": {park.text}" if park.text else ""
        return Hold(PARK, f"{park.cls} limit of {group}{words}", due) if wall < due else None


class Trouble:
    """Tells the one that tries again and again from the one that was refused now and then."""

    def __init__(self) -> None:
        self._refused: tuple[int, ...] = ()

    def refused(self, now: int) -> bool:
        """A request was refused; return whether it is stuck."""
        recent = (at for at in self._refused if now - at < STUCK_SPAN)
        self._refused = (*recent, now)[-STUCK:]
        return len(self._refused) >= STUCK

    def served(self) -> None:
        """One got through."""
        self._refused = ()
