"""What becomes of windows that are due: fired, caught up, or missed; none of them twice.

A window is one wall instant of a schedule. Whoever looks within a minute of it fires it; later only within the
catch-up span, and then the newest alone. Those before it are missed, and told as one. What was decided stays
decided, when the clock steps back too: only a clock that was more than a day ahead was wrong, and then what it fired
is remembered by itself. All instants are wall time in ms since 1970.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Self

#: Looked at later than this, a window is missed.
GRACE = 1 * MINUTE
#: A clock that goes back further was wrong before.
WRONG = 24 * HOUR
#: So many fired windows are remembered for that.
KEPT = 32


class Looked(Plain):
    """What one look decided: the window to fire (None: none), how late that is, and what was missed before it.

    `missed` counts them, `first` and `last` are the instants of the first and the last of them.
    """

    __slots__ = ("fire", "first", "last", "late", "missed")

    def __init__(
        self, fire: int | None = None, late: int = 0, missed: int = 0, first: int | None = None, last: int | None = None
    ) -> None:  # fmt: skip
        self.fire = fire
        self.late = late
        self.missed = missed
        self.first = first
        self.last = last


class Agenda(Plain):
    """What was decided of one harness's schedule: everything up to `mark`, and the windows `fired` last."""

    __slots__ = ("fired", "mark")

    def __init__(self, mark: int, fired: tuple[int, ...] = ()) -> None:
        self.mark = mark
        self.fired = fired

    @classmethod
    def of(cls, told: "Mapping[str, Any]") -> "Self":
        """Return what `as_dict` gave, over JSON too."""
        return cls(told["mark"], tuple(told["fired"]))

    @classmethod
    def begun(cls, wall: int) -> "Self":
        """Return a new one: what lies behind is none of its windows."""
        return cls(wall)

    def moved(self, wall: int) -> None:
        """The schedule is another one from now on."""
        self.mark = max(self.since(wall), wall)

    def since(self, wall: int) -> int:
        """Return the instant after which windows are undecided, at this time of the clock."""
        if self.mark > wall + WRONG:
            self.mark = wall
        return self.mark

    def look(self, dues: "Iterable[int]", wall: int, catch_up: int = 0) -> Looked:
        """Decide the windows between `since(wall)` and now. Those that were decided are left out, whoever names them."""
        since = self.since(wall)
        due = sorted({at for at in dues if since < at <= wall and at not in self.fired})
        if not due:
            return Looked()
        newest = self.mark = due[-1]
        late = wall - newest
        if late <= max(GRACE, catch_up):
            self.fired = (*self.fired, newest)[-KEPT:]
            return Looked(newest, late, *_missed(due[:-1]))
        return Looked(None, 0, *_missed(due))


def _missed(due: list[int]) -> tuple[int, int | None, int | None]:
    return (len(due), due[0], due[-1]) if due else (0, None, None)
