"""`[notify]` as the supervisor holds it: which channels there are, what they are told, how often and for how long."""

from longwatch.core.record import Plain
from longwatch.notices import COOLDOWN, DEAD_MAN, DEFAULT, TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self


class Settings(Plain):
    """Spans are ms. `hook` is an argv (empty: none), `urls` are apprise's, `events` the ones wanted.

    `dead_man` is the address that hears every `dead_man_every` that we live. Every address is a secret.
    """

    __slots__ = ("cooldown", "dead_man", "dead_man_every", "events", "hook", "timeout", "urls")

    def __init__(
        self, hook: tuple[str, ...] = (), urls: tuple[str, ...] = (), events: tuple[str, ...] = DEFAULT,
        timeout: int = TIMEOUT, cooldown: int = COOLDOWN, dead_man: str = "", dead_man_every: int = DEAD_MAN,
    ) -> None:  # fmt: skip
        self.hook = hook
        self.urls = urls
        self.events = events
        self.timeout = timeout
        self.cooldown = cooldown
        self.dead_man = dead_man
        self.dead_man_every = dead_man_every

    @property
    def secrets(self) -> tuple[str, ...]:
        """The addresses: whoever reads one may send in our name."""
        return (*self.urls, *((self.dead_man,) if self.dead_man else ()))

    @classmethod
    def of(cls, told: "Mapping[str, Any]") -> "Self":
        """Return what the compiled file says. What is missing or null is the built-in."""
        events = told.get("events")
        return cls(
            tuple(told.get("hook") or ()),
            tuple(told.get("urls") or ()),
            DEFAULT if events is None else tuple(events),
            TIMEOUT if told.get("timeout") is None else told["timeout"],
            COOLDOWN if told.get("cooldown") is None else told["cooldown"],
            told.get("dead_man") or "",
            told.get("dead_man_every") or DEAD_MAN,
        )
