"""One stream under its watch, without its host: what the async guard and the blocking one have in common.

The watch, the driver and their rules are those of a run. Here are the stream's parts put together, what an event does
to them, and how an end becomes a report and an error.
"""

import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from longwatch.core import observations as o
from longwatch.core.commands import CancelStream
from longwatch.core.spec import PAUSE_CREDIT_GUARD, Spec
from longwatch.core.watch import Watch
from longwatch.limits import Limits
from longwatch.paths import rfc3339
from longwatch.posix import now
from longwatch.runtime.driver import Driver
from longwatch.runtime.story import Story
from longwatch.streams.effects import Reading, StreamEffects
from longwatch.streams.hearing import Hearing, Reader
from longwatch.streams.pulse import EVENTS, Pulse
from longwatch.streams.reaching import Parked, reached
from longwatch.streams.telling import Teller
from longwatch.streams.trace import Trace, TraceEvent

if TYPE_CHECKING:
    from longwatch.runtime.driver import Looking

Observer = Callable[[TraceEvent], object]
Clock = Callable[[], int]


class Watched:
    """The parts of one guarded stream. Its limits count from here on."""

    def __init__(
        self, source: Any, limits: Limits | None, *, adapter: Reader | None, observer: Observer | None, name: str,
        clock: Clock | None,
    ) -> None:  # fmt: skip
        resolved = (limits or Limits()).resolve(user="guard")
        for complaint in resolved.complaints:
            warnings.warn(f"longwatch: {complaint}", stacklevel=4)
        self.name = name
        self.clock = clock or now
        began = self.clock()
        self.spec = Spec(
            resolved.specs, (EVENTS,), grace=resolved.grace, pause_credit=PAUSE_CREDIT_GUARD, loop=resolved.loop,
            streamed=True,
        )  # fmt: skip
        self.watch = Watch(self.spec, began)
        self.pulse = Pulse(source, began, clock)
        self.story = Story()
        self.story.proof = "cancelled"
        self.hearing = Hearing(adapter, self.story.note)
        self._trace = Trace(observer, self.clock).child(stream=name)
        self._teller = Teller(self._trace)
        self._parked = Parked(self.spec.pause_credit)
        self.effects = StreamEffects(self.pulse, self.clock, self.story, self._teller, self._parked)
        self.driver: Driver | None = None
        self.defect: Exception | None = None
        self._report: dict[str, Any] | None = None

    # -- its life

    def open(self, reading: Reading | None, lookout: "Looking | None" = None) -> Driver:
        """Begin to watch: there is somebody who reads, and who looks. Without, there is only an end to come."""
        self.effects.reading = reading
        self.driver = driver = Driver(self.watch, self.effects, self.clock, lookout)
        driver.start()
        # What was there before the first event was the consumer's time, and no silence.
        driver.look(self.clock())
        return driver

    @property
    def over(self) -> bool:
        """Whether the run of this stream has ended."""
        return self.watch.over

    @property
    def stopping(self) -> bool:
        """Whether a limit, or whoever closed it, is ending the stream."""
        return self.watch.ending.stopping

    def take(self, event: Any) -> None:
        """Take note of an event that was just read."""
        if self.note(event) or self.pulse.eager:
            self.look()
        # As long as nobody can read any of it and nobody waits for progress, the next of its kind is only counted.
        self.pulse.dull = None if self.hearing.typed or self.pulse.eager or self.stopping else type(event)

    def note(self, event: Any) -> bool:
        """Take note of an event without a look at the clocks; return whether one is due."""
        pulse, at = self.pulse, self.clock()
        pulse.arrived(at)
        told = False
        for seen in self.hearing.hear(event):
            if type(seen) is o.ProgressSeen:
                pulse.progress(at)
            elif type(seen) is o.AliveSeen:
                pulse.alive = at
            else:
                told = True
                self._tell(seen, at)
        self._teller.last_event = self.hearing.last_event
        return told

    def _tell(self, seen: o.Observation, at: int) -> None:
        if isinstance(seen, o.Paused):
            self._parked.said(seen.span)
        assert self.driver is not None
        self.driver.tell(seen, at)

    def look(self) -> None:
        """Let the watch see everything up to now."""
        assert self.driver is not None
        self.driver.look(self.clock())

    def rest(self) -> None:
        """No read is pending any more, and none has brought anything."""
        self.pulse.arrived(self.clock())

    def end(self, code: int) -> None:
        """The source has ended (0), failed or been cancelled (1)."""
        if not self.over and self.defect is None:
            self.effects.end(code)
            self.look()

    def stop(self, reason: str, origin: str | None) -> None:
        """Somebody wants no more of it."""
        if not self.over and self.defect is None:
            assert self.driver is not None
            self.driver.tell(o.StopRequested(reason, origin))
            self.look()

    def broke(self, error: Exception) -> None:
        """A defect of ours: whoever reads gets it, rather than a stream that nobody watches."""
        self.defect = error
        self.effects.perform(CancelStream())

    def stuck(self, what: str) -> None:
        """Something that we asked to end does not; it is left behind, and said."""
        if self.story.note(what):
            self._trace.emit("stream_stuck")

    # -- what is known of it

    def error(self) -> Exception | None:
        """Return the error of the limit that ended the stream; None when none did."""
        if self.defect is not None:
            return self.defect
        ending = self.watch.ending
        if ending.limit is None or ending.reason is None:
            return None
        fired = self.effects.fired[ending.limit]
        error = reached(
            self.name, fired, ending.reason, self._parked,
            partial=self.text, last_event=self._last_event, parked_ms=self.watch.parked(fired.at),
        )  # fmt: skip
        for note in self.story.notes:
            error.add_note(note)
        return error

    @property
    def _last_event(self) -> str:
        return self.hearing.last_event

    @property
    def text(self) -> str | None:
        """The text until now; None where nothing was said."""
        return None if self.hearing.spoken is None else str(self.hearing.spoken)

    def snapshot(self) -> dict[str, Any]:
        """Return both clocks, open holds, what is left of each limit, and whose turn it is."""
        if self.driver is not None and not self.over and self.defect is None:
            self.look()
        turn = "over" if self.over else "consumer" if self.pulse.resting else "source"
        return {"name": self.name, "turn": turn, **self.watch.snapshot(self.clock())}

    def report(self) -> dict[str, Any] | None:
        """Return the report of a stream that is over, with the keys of a run's; else None."""
        if self._report is None and self.over:
            self._report = self.story.report(
                self.watch, None, run=self.name, name=self.name, attempt=1,
                started_at=rfc3339(time.time_ns() // 1_000_000 - (self.clock() - self.watch.started)),
            )  # fmt: skip
            stopped = self._report["stopped"]
            if isinstance(stopped, dict):
                stopped["how"] = "cancelled"  # nothing of a stream gets a signal
            self._trace.close()
        return self._report


class Known:
    """What every guard tells of its stream."""

    _watched: Watched

    @property
    def text(self) -> str | None:
        """The text that was streamed until now, its first 64 and last 256 KiB; None where there was none."""
        return self._watched.text

    @property
    def last_event(self) -> str:
        """The kind of the newest event; "none" before the first, "event" for one that nobody can read."""
        return self._watched.hearing.last_event

    @property
    def report(self) -> dict[str, Any] | None:
        """The report of a stream that is over, with the keys of a run's; None while it lives."""
        return self._watched.report()

    def snapshot(self) -> dict[str, Any]:
        """Return both clocks, open holds, what is left of each limit, and whose turn it is."""
        return self._watched.snapshot()


__all__ = ["Clock", "Known", "Observer", "Watched"]
