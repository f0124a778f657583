"""The parent of a tool's commands: one keeper, started with the first of them, and anew when it was lost."""

import os
from _thread import allocate_lock

from longwatch.posix.child import Child
from longwatch.posix.spawn import Launch
from longwatch.runtime.kept import Keeper, KeeperError


class Parent:
    """Starts commands for any number of threads.

    Where no keeper can be started they are our own children; then what a command leaves behind is found by its
    session and its mark, and the results say so (`proof`). A keeper that is lost is let go of and not closed, which
    would end the commands that it has started: they go on, in the same way.
    """

    __slots__ = ("_keeper", "_lock", "_owner")

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._keeper: Keeper | None = None
        self._lock = allocate_lock()
        self._owner = os.getpid()

    def spawn(self, launch: Launch) -> Child:
        """Start a command. Raises SpawnError when it cannot be started, and when the keeper is lost over it.

        The command may have been started by then, and doing it again could be worse than not doing it.
        """
        if self._owner != os.getpid():
            # After a fork the keeper is that of the process we come from, and its lock may be held for ever.
            self._forget()
        keeper = self._running()
        if keeper is None:
            return _spawn_alone(launch)
        try:
            return keeper.spawn(launch)
        except KeeperError:
            self._lose(keeper)
            raise

    def close(self) -> None:
        """End the keeper, and with it every command that still runs. The next command starts a new one."""
        if self._owner != os.getpid():
            self._forget()
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    def _running(self) -> Keeper | None:
        """Return a keeper that is there, a new one if need be; None where none can be started."""
        with self._lock:
            if self._keeper is not None and self._keeper.alive:
                return self._keeper
            self._keeper = None  # before the next one is started, which collects it
            self._keeper = _new_keeper()
            return self._keeper

    def _lose(self, keeper: Keeper) -> None:
        """Let go of a keeper that does not answer, if nobody else has done so."""
        with self._lock:
            if self._keeper is keeper:
                self._keeper = None


def _new_keeper() -> Keeper | None:
    try:
        keeper = Keeper.start("stop")
    except KeeperError:
        return None
    try:
        keeper.runs()  # once it has answered, whatever goes wrong later is no reason to do without
    except KeeperError:
        keeper.close()
        return None
    return keeper


def _spawn_alone(launch: Launch) -> Child:
    # It loads `subprocess`, which nobody needs who has a keeper.
    from longwatch.posix.spawn_in import spawn_in  # noqa: PLC0415

    return spawn_in(launch)
