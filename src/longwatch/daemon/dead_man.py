"""The dead man's switch: somebody outside hears now and then that we live, and cries when he hears nothing.

Who watches the watchman cannot live on the same machine. The sign is sent from the supervisor's own loop, by a short
command beside it, and only while the loop is healthy: a hung one goes silent, which is the message.
"""

import sys

from longwatch.core.daemon_facts import NotifyFailed
from longwatch.core.spec import SECOND
from longwatch.notices import DEAD_MAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

CHANNEL = "dead_man"
LIMIT = 10 * SECOND


class DeadMan:
    """Gets the address of `[notify] dead_man` at once and then `every`, unless `healthy` says no.

    Arguments as of `notify.desk.Desk`. `tell` hears of the first failure of a row.
    """

    def __init__(
        self, told: "Mapping[str, Any]", run_bounded: "Callable[..., Any]",
        later: "Callable[[int, Callable[[int], object]], object]", clock: "Callable[[], int]",
        healthy: "Callable[[], bool]", tell: "Callable[[Any], object]",
    ) -> None:  # fmt: skip
        self._run_bounded = run_bounded
        self._later = later
        self._clock = clock
        self._healthy = healthy
        self._tell = tell
        self._url = ""
        self._every = DEAD_MAN
        self._turn = 0
        self._command: Any = None
        self.failing = ""
        self.reload(told)

    def reload(self, told: "Mapping[str, Any]") -> None:
        """Take another address or pace; begins anew where one of them changed."""
        url, every = told.get("dead_man") or "", told.get("dead_man_every") or DEAD_MAN
        if (url, every) == (self._url, self._every):
            return
        self._url, self._every = url, every
        self._turn += 1
        if url:
            self._due(self._turn)

    def close(self) -> None:
        """Send nothing more."""
        self._turn += 1
        if self._command is not None:
            self._command.cancel()
            self._command = None

    def _due(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._later(self._clock() + self._every, lambda _now: self._due(turn))
        if self._command is None and self._healthy():
            self._send()

    def _send(self) -> None:
        argv = [sys.executable, "-P", "-m", "longwatch.daemon.ping"]
        stdin = self._url.encode() + b"\n"
        try:
            self._command = self._run_bounded(argv, limit_ms=LIMIT, on_done=self._over, stdin=stdin)
        except OSError as error:
            self._over(1, f"cannot be started: {error}")

    def _over(self, code: int | None, output: str) -> None:
        self._command = None
        if code == 0:
            self.failing = ""
            return
        why = f"took longer than {LIMIT // SECOND}s" if code is None else " ".join(output.split())[-200:]
        before, self.failing = self.failing, why or f"exited {code}"
        if not before:
            self._tell(NotifyFailed(self._clock(), CHANNEL, self.failing))
