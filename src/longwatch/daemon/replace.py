"""Having another daemon let go: it is asked, then waited for, and in the end killed, which harms nothing it holds."""

import time

from longwatch import paths
from longwatch.daemon.lock import Taken
from longwatch.daemon.state import Remembered
from longwatch.posix.identity import GONE, Identity, signal_verified
from longwatch.posix.tree import wait_for_death

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

#: How long it may take to let go, in seconds, and how long to be gone after a kill.
PATIENCE, DYING = 10.0, 2.0
#: It may be about to say who it is.
_UNSAID = 0.1


def replaced(config: str, taken: Taken) -> None:
    """Make the holder of the lock go; return when it has, or when nothing more can be done.

    Raises `taken` where it is not known who that is.
    """
    told = Remembered(paths.daemon_folder(paths.state(), paths.daemon_id(config)), "daemon.json").read()
    try:
        who = Identity(int(told["pid"]), int(told["start"]), str(told["boot"]))
    except (KeyError, TypeError, ValueError):
        time.sleep(_UNSAID)  # it starts or ends at this very moment; nobody else runs in this process yet
        raise taken from None
    if signal_verified(who, _signal.SIGUSR2) == GONE:
        return
    signal_verified(who, _signal.SIGCONT)
    wait_for_death(who.pid, time.monotonic() + PATIENCE)
    if who.alive():
        signal_verified(who, _signal.SIGKILL)
        wait_for_death(who.pid, time.monotonic() + DYING)
