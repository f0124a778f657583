"""Performs what a watch commands, on a stream of events: a stream is cancelled where a tree would be signalled.

A stream has no exit status and nothing that it could leave behind: its end is 0, its error 1, and a sweep finds
nothing. While the consumer has its turn nothing of the source runs, so a cancellation then is the end at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from longwatch.core import commands as c
from longwatch.core import observations as o
from longwatch.core.facts import LimitFired
from longwatch.runtime.story import Story
from longwatch.streams.pulse import EVENTS, Pulse

if TYPE_CHECKING:
    from longwatch.core.watch import Watch
    from longwatch.streams.reaching import Parked
    from longwatch.streams.telling import Teller


#: A consumer's time below this (ms) is not worth a word, until it has added up.
BLINK = 10


class Reading(Protocol):
    """Whoever waits in a read, and how it can be made to wait no longer."""

    def cancel(self) -> None:
        """Ask the pending read to end."""

    def abandon(self) -> None:
        """Leave the pending read behind: it was asked, and did not heed."""


class StreamEffects:
    """The hands of one guarded stream."""

    def __init__(
        self, pulse: Pulse, clock: Callable[[], int], story: Story, teller: "Teller", parked: "Parked"
    ) -> None:
        self.pulse = pulse
        self.clock = clock
        self.story = story
        self.teller = teller
        self.parked = parked
        self.tell: Callable[..., object] = _nobody
        self.later: Callable[[int, Callable[[int], object]], object] = _nobody
        self.reading: Reading | None = None
        #: The newest firing of each limit, in the words of which the error is made.
        self.fired: dict[str, LimitFired] = {}
        #: Called when reading has to stop before the next read.
        self.halt: Callable[[], object] = _nobody
        #: Takes what arrived while a stop was prepared, waiting so long at most (ms).
        self.poll: Callable[[int | None], object] = _arrives_by_itself

    # -- evidence

    def stamps(self) -> tuple[tuple[str, int, int, int]]:
        """Return the one source: its name, where its silence begins, how much came, the newest sign of life."""
        pulse = self.pulse
        pulse.settle(self.clock())
        return ((EVENTS, pulse.last, pulse.count, max(pulse.alive, pulse.last)),)

    def evidence(self) -> list[tuple[int, o.Observation]]:
        """Return nothing: what an event says is told when it comes."""
        return []

    def blocked(self, now: int) -> int:
        """Return for how many ms the consumer was busy that were not told yet; a blink is kept for the next time."""
        self.pulse.settle(now)
        return self.pulse.take_away() if self.pulse.away >= BLINK else 0

    def fileno(self) -> int:
        """Return no descriptor: a read wakes whoever waits for it."""
        return -1

    def looked(self, watch: "Watch", now: int) -> None:
        """Note whether progress must be told as it comes."""
        self.pulse.eager = watch.eager

    # -- commands

    def perform(self, command: c.Command) -> None:
        """Do what the watch says."""
        self._PERFORM[type(command)](self, command)

    def _record(self, command: c.Record) -> None:
        fact = command.fact
        if isinstance(fact, LimitFired):
            self.fired[fact.limit] = fact
        self.parked.hear(fact)
        self.story.add(fact)
        self.teller.tell(fact)

    def _notify(self, command: c.Notify) -> None:
        """The observer has heard it as a fact."""

    def _capture(self, command: c.CapturePostMortem) -> None:
        """There is no tree to describe; what came until now is looked at once more."""
        self.tell(o.Prepared())

    def _cancel(self, command: c.CancelStream) -> None:
        if self.pulse.resting or self.reading is None:
            self.halt()
            self.end(1)
        else:
            self.pulse.dull = None  # what still comes is looked at
            self.reading.cancel()

    def _abandon(self, command: c.AbandonPipes) -> None:
        self.story.note("the source did not heed its cancellation and was left behind")
        self.story.survivors = ["the source"]
        if self.reading is not None:
            self.reading.abandon()

    def _sweep(self, command: c.SweepTree) -> None:
        self.tell(o.TreeGone())

    def end(self, code: int) -> None:
        """The source is over: by itself (0), or by an error or a cancellation (1)."""
        self.tell(o.Exited(code))
        self.tell(o.Drained())

    _PERFORM: ClassVar[dict[type[c.Command], "Callable[[StreamEffects, Any], None]"]] = {
        c.Record: _record,
        c.Notify: _notify,
        c.CapturePostMortem: _capture,
        c.CancelStream: _cancel,
        c.AbandonPipes: _abandon,
        c.SweepTree: _sweep,
    }


def _nobody(*words: object) -> None:
    raise AssertionError(f"nobody to tell {words} to")


def _arrives_by_itself(timeout_ms: int | None) -> None:
    """Take nothing: an event of an async source comes to whoever awaits it."""


__all__ = ["Reading", "StreamEffects"]
