"""What a run of the library keeps when it was asked to: a run folder while it lives, a line of history at its end.

Nothing here raises: what cannot be kept is a complaint, and the run goes on.
"""

import os

from longwatch import paths
from longwatch.core.observations import StopRequested
from longwatch.errors import StoreError
from longwatch.options import recorded
from longwatch.posix.identity import Identity, identity
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.keeping import Keeping
from longwatch.runtime.rundir import meta
from longwatch.store import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from longwatch.observed import Observed


class Records:
    """The records of one hosted run. `complaints` are lines about what could not be kept."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._keeping: Keeping | None = None
        self._driver: Driver | None = None

    def begin(
        self, run_id: str, name: str, argv: "Sequence[str]", leader: Identity, driver: Driver, effects: ProcessEffects,
        observed: "Observed | None" = None,
    ) -> None:  # fmt: skip
        """Make the run folder, and listen to what is said there."""
        self._driver = driver
        watch = driver.watch
        ours = identity(os.getpid())
        assert ours is not None
        limits = {
            limit: {"window_ms": spec.window, "action": spec.action, "source": "library"}
            for limit, spec in watch.spec.limits.items()
        }
        described = meta(
            run_id, name, recorded(argv), ours, leader, cwd=os.getcwd(), started_ms=watch.started, limits=limits,
            sources=watch.sight.declared, preset=None if observed is None else observed.preset.name,
        )  # fmt: skip
        try:
            # Nobody may signal this supervisor: it is the program that called us.
            self._keeping = Keeping(paths.state(), {**described, "hosted": True}, watch, effects)
        except StoreError as error:
            self.complaints.append(str(error))
        else:
            effects.channel = self._messages
            if observed is not None:
                observed.keep(self._keeping)

    def _messages(self) -> "list[dict[str, Any]]":
        """Return what came from inside the run; `longwatch stop` asks in the same way, and we look often enough."""
        assert self._keeping is not None
        assert self._driver is not None
        ask = self._keeping.stop_message()
        if ask is not None and not self._driver.watch.ending.began:
            self._driver.tell(StopRequested("cancelled", "explicit", grace=ask.get("grace_ms")))
        return self._keeping.messages()

    def end(self, argv: "Sequence[str]", report: "Mapping[str, Any]") -> None:
        """Write the report and the line of history."""
        if self._keeping is not None:
            self._keeping.end(report)
        program, *flags = recorded(argv)
        line = {**spool.summary(report), "program": program, "flags": flags}
        try:
            spool.append(paths.state(), line)
        except StoreError as error:
            self.complaints.append(str(error))
