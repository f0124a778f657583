"""What a service remembers from one incarnation to the next, and from one daemon to the next.

Instants are of the boot clock while the service lives and of the wall clock while it is kept, so they survive a
reboot; how long ago something was is what counts.
"""

from longwatch.core.parking import Windows
from longwatch.core.record import Plain
from longwatch.core.restarts import History
from longwatch.core.service_holds import Hold
from longwatch.core.service_words import Firing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from longwatch.core.harness import Harness
    from longwatch.core.service_words import Moment


class Memory(Plain):
    """All that outlives an incarnation.

    `enabled`: it is wanted (intent, kept apart by the daemon as well). `failed`: it has given up, `gave_up` why, `error`
    with which last words. `reason`: how the last run ended. `attempt`: the number of the last incarnation in its row.
    `hold`: what keeps it back by its own doing. `windows`: the provider's windows it waited for. `queued`: the firing
    that waits, `retry`: the one that is tried once more. `alert`: what humans were told and what `Recovered` will answer. `flapping`: it was told of this row.
    """

    __slots__ = (
        "alert", "attempt", "enabled", "error", "failed", "flapping", "gave_up", "history", "hold", "queued", "reason",
        "retry", "windows",
    )  # fmt: skip

    def __init__(
        self,
        enabled: bool,
        *,
        failed: bool = False,
        gave_up: str = "",
        error: str = "",
        reason: str = "",
        attempt: int = 0,
        history: History | None = None,
        hold: Hold | None = None,
        windows: Windows | None = None,
        queued: Firing | None = None,
        retry: Firing | None = None,
        alert: str = "",
        flapping: bool = False,
    ) -> None:
        self.enabled = enabled
        self.failed = failed
        self.gave_up = gave_up
        self.error = error
        self.reason = reason
        self.attempt = attempt
        self.history = history or History()
        self.hold = hold
        self.windows = windows or Windows()
        self.queued = queued
        self.retry = retry
        self.alert = alert
        self.flapping = flapping

    @classmethod
    def fresh(cls, harness: "Harness") -> "Self":
        """Return the memory of a harness that was never seen before: wanted as the file says."""
        return cls(harness.enabled)

    def clear(self) -> None:
        """Forget everything that keeps it from being started: a human wants it."""
        self.failed = self.flapping = False
        self.gave_up = ""
        self.history = History()
        self.hold = None
        self.windows = Windows()
        self.attempt = 0

    def afresh(self) -> None:
        """Something new is to be run: only the rolling budget of restarts counts on."""
        self.gave_up = ""
        self.history = History(self.history.restarts)

    def kept(self, at: "Moment") -> "dict[str, Any]":
        """Return it as values that JSON knows."""
        history = self.history.as_dict()
        history["restarts"] = [at.wall - (at.now - restart) for restart in self.history.restarts]
        return {
            **self.as_dict(),
            "history": history,
            "hold": self.hold and self.hold.as_dict(),
            "windows": self.windows.as_dict(),
            "queued": self.queued and self.queued.as_dict(),
            "retry": self.retry and self.retry.as_dict(),
        }

    @classmethod
    def of(cls, harness: "Harness", told: "Mapping[str, Any]", at: "Moment") -> "Self":
        """Return what `kept` gave; what is not in it is as in a fresh one, what is not known is passed over.

        A restart that lies in the future by now (the clock went back) was just now.
        """
        known = {key: value for key, value in told.items() if key in cls.__slots__ and value is not None}
        for key, kind in (
            ("history", History),
            ("hold", Hold),
            ("windows", Windows),
            ("queued", Firing),
            ("retry", Firing),
        ):
            if key in known:
                known[key] = kind(**known[key])
        memory = cls(**{"enabled": harness.enabled, **known})
        history = memory.history
        history.restarts = tuple(at.now - max(0, at.wall - restart) for restart in history.restarts)
        return memory
