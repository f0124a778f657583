"""Silences of a session, and what the limit `call` counts of each open call."""

from longwatch.core import facts as f
from longwatch.core import holds as h
from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.observe import events as e

#: By these a result says that a human had a hand in it: the call did not end by itself.
BY_HAND = ("denied", "interrupted")
#: By this it says that nobody knows when the call ended.
_LOST = "orphaned"


class Gap(Plain):
    """A silence of `span` ms that ended: `state` is asked, paused, call, ready or working, `subject` the call's tool.

    For `parked` ms of it the provider had said wait. `by_hand`: it did not end by itself, a human ended it.
    """

    __slots__ = ("began", "by_hand", "parked", "span", "state", "subject")

    def __init__(
        self, began: int, span: int, state: str, subject: str = "", parked: int = 0, *, by_hand: bool = False
    ) -> None:
        self.began = began
        self.span = span
        self.state = state
        self.subject = subject
        self.parked = parked
        self.by_hand = by_hand


class Stretches:
    """Measures each call as the limit `call` does: from its begin, or the last sign of its own, to its end.

    It is told the facts of a watch. While a human is asked no call counts, and with the answer all begin anew.
    `parked` is the watch's sum of the provider's pauses.
    """

    def __init__(self) -> None:
        self.done: list[Gap] = []
        self._open: dict[str, Gap] = {}
        self._asked: set[str] = set()

    def tool(self, call: str) -> str:
        """Return the tool of an open call."""
        found = self._open.get(call)
        return "" if found is None else found.subject

    def hear(self, fact: f.HoldBegan | f.HoldEnded, parked: int) -> None:
        """A hold began or ended."""
        if fact.hold == h.ASKED:
            self._questioned(fact, parked)
        elif fact.hold == h.CALL and isinstance(fact, f.HoldBegan):
            self._open[fact.subject] = Gap(fact.at, 0, h.CALL, fact.tool, parked)
        elif fact.hold == h.CALL and (call := self._open.pop(fact.subject, None)) is not None:
            self._measure(call, fact.at, parked)

    def result(self, result: "e.ToolResult") -> None:
        """A call is about to end with this result."""
        call = self._open.get(result.call)
        if call is not None and result.why in BY_HAND:
            call.by_hand = True
        elif call is not None and result.why == _LOST:
            del self._open[result.call]

    def progressed(self, call: str, now: int, parked: int) -> None:
        """A call gave a sign of its own."""
        if (found := self._open.get(call)) is not None:
            self._measure(found, now, parked)
            self._open[call] = Gap(now, 0, h.CALL, found.subject, parked)

    def forget(self) -> None:
        """The open calls will never end."""
        self._open.clear()

    def _questioned(self, fact: f.HoldBegan | f.HoldEnded, parked: int) -> None:
        if isinstance(fact, f.HoldBegan):
            for call in self._open.values():
                self._measure(call, fact.at, parked)
            self._asked.add(fact.subject)
            return
        self._asked.discard(fact.subject)
        for name, call in self._open.items():
            self._open[name] = Gap(fact.at, 0, h.CALL, call.subject, parked)

    def _measure(self, call: Gap, now: int, parked: int) -> None:
        if not self._asked and now > call.began:
            span = now - call.began
            self.done.append(
                Gap(call.began, span, call.state, call.subject, parked - call.parked, by_hand=call.by_hand)
            )
