"""What a service needs of the daemon it is part of."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from longwatch.core.facts import Fact
    from longwatch.core.harness import Harness
    from longwatch.core.service_words import Moment
    from longwatch.posix.child import Child
    from longwatch.posix.spawn import Launch, SpawnError
    from longwatch.runtime.host import Host
    from longwatch.runtime.making import Parts

    class Household(Protocol):
        """All that the services of a daemon share."""

        host: Host
        parts: Parts

        def start(self, launch: Launch, run: str, done: Callable[[Child | SpawnError], object]) -> object:
            """Have the keeper start a program; `done` is given it, or why there is none, now or later in the loop."""

        def moment(self, harness: Harness) -> Moment:
            """Return the time, and what holds a harness back."""

        def publish(self, fact: Fact) -> object:
            """Tell everybody."""
            """Tell what happened to a run."""

        def open(self, record: dict[str, Any], done: Callable[[str | None], object]) -> object:
            """Write down that a run begins; `done` when that is durable, or was waited for long enough."""

        def close(self, record: dict[str, Any], done: Callable[[str | None], object]) -> object:
            """Write down that it is over."""

        def forget(self, run: str) -> object:
            """The keeper need not know of a run any more."""

        def remember(self, *, at_once: bool) -> object:
            """What the next daemon has to know has changed."""

        def opened(self, harness: Harness, run: str, token: str) -> object:
            """A run is about to begin, for the firing of this token."""

        def closed(self, harness: Harness, record: dict[str, Any]) -> object:
            """A run is over."""

        def freed(self, harness: Harness) -> object:
            """Nothing of it runs, and nothing is about to."""

        def parked(self, group: str, until: int, cls: str, text: str, drawn: float) -> object:
            """A provider's limit holds a group back."""

        def next_launch(self, harness: Harness) -> Any:
            """Return what is to be started. Raises SpawnError."""

        def payload(self, harness: Harness, run: str, token: str) -> str | None:
            """Return where the payload of a firing lies, by the name of its run."""

        def warn(self, name: str, text: str) -> object:
            """Say something about a harness in the log."""
