"""The place of items that an engine runs: the same plan, the same states, the runs elsewhere.

Whoever is killed leaves the runs to their leases, and in the state files what is needed to find them again.
"""

from longwatch.posix import now
from longwatch.runtime.remote import Remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Protocol

    from longwatch.core.batch import Workstream
    from longwatch.runtime.attempt import Attempt, Ended, State
    from longwatch.runtime.engines.bridged import Bridge
    from longwatch.runtime.engines.protocol import Told
    from longwatch.runtime.host import Host

    class Home(Protocol):
        """What is kept here of runs that are elsewhere; see `cli.batch_home`."""

        def position(self, item: str, run: str) -> tuple[int, int]:
            """Return up to where the events and the output of a run are here already."""

        def keep_position(self, item: str, run: str, events: int, output: int) -> object:
            """Note up to where they are here."""

        def news(self, work: Workstream, state: State, told: Told) -> object:
            """Keep what is told of a run: how it stands, and what happened since."""

        def place_for(self, item: str, name: str) -> str:
            """Return where an answer, or a bundle, is put."""

        def bring(self, item: str, told: Told, done: Callable[[], object]) -> object:
            """Bring home what it made, and call back."""

        def told(self, kind: str, item: str, **more: object) -> object:
            """Something is to be said."""


#: So often a run that was lost, by no fault of the item, is begun again by itself.
LOST = 3
#: How long an engine that does not answer is waited for when everything is to end at once, in ms.
LEAVE = 15_000


class Placing:
    """The place at an engine. `logs(attempt)` opens the log of an item; a run lives for `lease` ms without us."""

    def __init__(
        self, host: "Host", engine: "Bridge", home: "Home", logs: "Callable[[Attempt], Any]", *, lease: int
    ) -> None:
        self.host = host
        self.engine = engine
        self.home = home
        self.log_of = logs
        self.left = False
        self._lease = lease

    def mark(self, run: str) -> str:
        """Return what its processes carry: its id, whatever run we are in ourselves."""
        return run

    def doing(self, run: Remote) -> str:
        """Return what a run is about, as far as that is known here."""
        return "stopping" if run.stopping else "running"

    def hurry(self) -> None:
        """Wait no longer for an engine that is silent: what runs is left to its lease."""
        self.host.at(now() + LEAVE, self._leave)

    def _leave(self, at: int) -> None:
        self.left = True

    def close(self) -> None:
        """The engine is not ours to close."""

    def take_up(self, unended: "Iterable[Attempt]") -> "list[Attempt]":
        """Look for those that were placed, or were about to be."""
        placed = [attempt for attempt in unended if attempt.state.get("placing")]
        for attempt in placed:
            remote = Remote(self, attempt, int(attempt.state["placing"]))
            attempt.run = remote
            remote.find()
        return placed

    def begin(self, attempt: "Attempt", spec: "Mapping[str, Any]") -> None:
        """Have it placed."""
        attempt.state |= {"placing": self._lease, "placed": None, "granted": None}
        attempt.keep()
        remote = Remote(self, attempt, self._lease)
        attempt.run = remote
        remote.begin(spec)

    # -- what a run tells

    def heard(self, remote: Remote, told: "Told") -> None:
        """Hear how a run stands, and what happened there."""
        attempt = remote.attempt
        for event in told["events"]:
            self._happened(attempt, event)
        self.home.news(attempt.work, attempt.state, told)

    def _happened(self, attempt: "Attempt", event: "Mapping[str, Any]") -> None:
        name = event["event"]
        if name == "limit_fired" and event.get("limit") == "soft":
            attempt.mark()
        elif name == "stop_began":
            attempt.told("stopping", reason=event.get("reason", ""))
        elif name == "note":
            attempt.note(str(event.get("text", "")))

    def over(self, remote: Remote, ended: "Ended") -> None:
        """A run is over, or must be."""
        state = remote.attempt.state
        lost = state.get("lost", 0) + 1 if ended.report["termination_reason"] == "unknown" else 0
        state |= {"lost": lost, "placing": None, "granted": None}
        ended.again = 0 < lost <= LOST
        ended.hold = bool(lost) and not self.engine.ready
        if ended.hold:
            self.home.told(
                "note", "", text="the engine does not answer; nothing more is placed, --resume goes on"
            )
        remote.attempt.end(ended)


__all__ = ["LOST", "Placing"]
