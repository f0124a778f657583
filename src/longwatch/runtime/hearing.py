"""What one incarnation of a harness says, as words for its machine.

Facts come while the watch is being told something: what they mean is told to the machine when that is over.
"""

from longwatch.core import service_words as w
from longwatch.core.facts import Fact, HoldBegan, HoldEnded, LimitFired, StopBegan, TreeUnkillable
from longwatch.core.holds import ASKED
from longwatch.core.limits import REASON_OF
from longwatch.core.parking import Limited
from longwatch.core.restarts import Life
from longwatch.core.service_facts import AgentAnswered, AgentAsked
from longwatch.core.spec import STOP
from longwatch.how import in_short
from longwatch.runtime.openings import last_line, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.runtime.running import Running
    from longwatch.runtime.service import Service

#: Reasons that a limit of ours gives.
_OURS = frozenset(REASON_OF.values())
#: So many processes of a stalled tree are named, root first.
_NAMED = 12


class Hearing:
    """Hears one incarnation of a harness for as long as it is the one that runs."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._running: Running | None = None
        #: When a limit told of a silence that has not been broken since.
        self._silent_at: int | None = None

    def listen(self, running: "Running", *, resumed: bool) -> None:
        """Hear this one from now on."""
        self._running = running
        running.effects.on_look.append(lambda watch, at: self._looked(running))
        # Of what an earlier daemon told it is not known here; the first progress answers that, too.
        self._silent_at = running.host.now() if resumed else None

    def heard(self, fact: Fact) -> None:
        """Every fact of it."""
        service, running = self._service, self._running
        if running is None or service.running is not running:
            return
        generation = service.machine.generation
        if isinstance(fact, StopBegan) and fact.reason in _OURS:
            self._tell(w.StopStarted(generation, fact.reason))
        elif isinstance(fact, TreeUnkillable):
            self._tell(w.TreeStuck(generation))
        elif isinstance(fact, HoldBegan | HoldEnded) and fact.hold == ASKED:
            said = AgentAsked if isinstance(fact, HoldBegan) else AgentAnswered
            service.house.publish(said(fact.at, service.harness.name, running.run_id))
        elif isinstance(fact, LimitFired) and fact.limit == "stall":
            # Which processes it consists of is looked at before anything is done to them.
            tree = tuple(info.label for info in running.tree.infos()[:_NAMED])
            self._tell(w.StallFound(generation, fact.at - fact.since, fact.window, fact.action, tree))

    def noticed(self, fact: Fact) -> None:
        """What a human should hear of. What is about to be stopped is told by its end."""
        service, running = self._service, self._running
        if running is None or service.running is not running:
            return
        if isinstance(fact, LimitFired) and fact.limit != "stall" and fact.action != STOP:
            self._silent_at = fact.at
            self._tell(w.LimitFound(service.machine.generation, fact.limit, fact.window))

    def _looked(self, running: "Running") -> None:
        """Tell what it did meanwhile: the first progress after a notice, what its agent met with."""
        generation, last = self._service.machine.generation, running.watch.sight.last
        if self._silent_at is not None and last is not None and last > self._silent_at:
            self._silent_at = None
            self._tell(w.Progressed(generation))
        for kind, value in running.observation.heard():
            if kind == "succeeded":
                self._tell(w.CallSucceeded(generation))
            elif kind == "turn":
                self._tell(w.TurnSeen(generation, busy=bool(value)))
            elif kind == "limited":
                self._tell(w.QuotaHit(generation, Limited(value.cls, value.until, value.text)))
            elif kind == "spent":
                self._tell(w.BudgetSpent(generation, value))

    def _tell(self, word: w.Word) -> None:
        self._service.house.host.soon(lambda at: self._service.tell(word))


def over(generation: int, running: "Running") -> w.RunOver:
    """Return what is to be told of an incarnation of which nothing is left."""
    report, end = running.report, running.why_ended
    cls = getattr(end, "cls", None)
    error = str(getattr(end, "last_error", "") or "") or last_line(report)
    if report["termination_reason"] in _OURS:
        # What it said last was no complaint.
        error = in_short(report)
    life = Life(
        running.watch.started, running.host.now(), str(report["outcome"]), error=error,
        progressed=bool(getattr(end, "progressed", False)), reason=str(report["termination_reason"]),
    )  # fmt: skip
    limited = None if cls is None else Limited(cls, getattr(end, "until", None), getattr(end, "text", ""))
    loop = report.get("limit") or {}
    return w.RunOver(
        generation, life, limited=limited, record=summary(report), tool=str(loop.get("subject") or ""),
        count=running.watch.spec.loop,
    )  # fmt: skip


def await_text(running: "Running", text: bytes, seen: "Callable[[], object]") -> None:
    """Call `seen` once, when a text has appeared in one of its streams."""
    tails: dict[int, bytes] = {}

    def look(chunk: memoryview, place: int) -> None:
        said = tails.get(place, b"") + bytes(chunk)
        tails[place] = said[-len(text) :]
        if text in said and taps:
            for pump, tap in taps:
                pump.taps.remove(tap)
            taps.clear()
            running.host.soon(lambda now: seen())

    pumps = running.process.pumps.values()
    taps = [(pump, lambda chunk, place=i: look(chunk, place)) for i, pump in enumerate(pumps)]
    for pump, tap in taps:
        pump.taps.append(tap)
