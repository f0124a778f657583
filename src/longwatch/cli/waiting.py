"""The wait of a parked run for an instant of the wall clock, with nothing of it running.

A reset is told in wall-clock time. That clock may be stepped, and while a laptop sleeps no timer of ours runs: so it
is looked at every few seconds, and a reset that has passed meanwhile is noticed at the first look.
"""

import os
import time

from longwatch.cli.main import ENDING, Front
from longwatch.posix import now
from longwatch.posix.reactor import Reactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from longwatch.cli.longrun import LongRun
else:
    import _signal

#: So long a woken machine may take to notice, and readers of the run folder see that somebody is there.
LOOK_EVERY = 5_000


def wall() -> int:
    """Return the wall clock in ms since 1970."""
    return time.time_ns() // 1_000_000


class Wait:
    """Waits for one instant (ms since 1970). Whoever would end a run by a signal ends the wait by it."""

    def __init__(self, front: Front, run: "LongRun", until: int) -> None:
        self._front = front
        self._run = run
        self._until = until
        self._ended_by: int | None = None
        self._told = now()

    def over(self) -> int | None:
        """Return None once the instant has come; at once the signal that ended the wait."""
        ear, reactor = self._front.ear, Reactor()
        ear.listen(reactor)
        ear.act(self._heard)
        try:
            while self._ended_by is None and (left := self._until - wall()) > 0:
                self._look(left)
                reactor.poll(min(left, LOOK_EVERY))
        finally:
            reactor.close()
            ear.wait()
        return self._ended_by

    def _look(self, left: int) -> None:
        """Show that somebody is there: to readers of the folder, and to whoever watches our stderr for silence."""
        run, every, at = self._run, self._front.values.still_running, now()
        if run.keeping is not None:
            run.keeping.waits(at)
        if every and at - self._told >= every and "LONGWATCH_RUN_ID" not in os.environ:
            self._told = at
            run.voice.still_parked(left)

    def _heard(self, signum: int) -> None:
        if signum in ENDING:
            self._ended_by = self._ended_by or signum
        elif signum == _signal.SIGCHLD:
            self._run.tree.reap()
        elif signum == _signal.SIGTSTP:
            # There is nothing to stop but ourselves.
            ours = _signal.signal(_signal.SIGTSTP, _signal.SIG_DFL)
            os.kill(os.getpid(), _signal.SIGTSTP)
            _signal.signal(_signal.SIGTSTP, ours)
