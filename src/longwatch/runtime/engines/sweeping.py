"""What is left of a run whose runner is gone: found by its folder, ended, and proven to be gone."""

import os
import time

from longwatch import paths
from longwatch.posix.identity import signal_verified
from longwatch.posix.nursery import Nursery, Runs
from longwatch.posix.tree import NOBODY, Tree, wait_for_death
from longwatch.runtime.runfiles import EXIT, STATE, identity_in, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal

#: How long a runner and its keeper, whose parent has gone, are left to end their tree by themselves, in ms.
PATIENCE = 20_000


def sweep(folder: str, patience: int = PATIENCE) -> "dict[str, Any]":
    """Wait for a runner that ends, and end what it has left. Its answer: `clean`, `left` and the `exit` record or None.

    A runner that goes on is left alone, and then nothing is clean.
    """
    state = read(folder, STATE)
    runner, keeper = identity_in(state, "runner"), identity_in(state, "keeper")
    deadline = time.monotonic() + patience / 1000
    for who in (runner, keeper):
        if who is not None and who.alive():
            wait_for_death(who.pid, deadline)
    if runner is not None and runner.alive():
        return {"clean": False, "left": [f"{runner.pid} runner"], "exit": None}
    if keeper is not None and keeper.alive():  # nobody is its master, and it does not end
        Tree(NOBODY, "", subreaper=False, nursery=Nursery(keeper, "", Runs())).kill()
        signal_verified(keeper, _signal.SIGKILL)
    run = (state or {}).get("run") or os.path.basename(folder)
    left = Tree(NOBODY, str(run), subreaper=False).kill()
    return {"clean": not left, "left": left, "exit": read(folder, EXIT)}


def root() -> str:
    """Return the folder of all that was placed on this machine."""
    return os.path.join(paths.state(), "placed")


def run_folder(base: str, run: str) -> str:
    """Return the folder of a placed run. Raises ValueError for what is no run id."""
    if not paths.is_run_id(run):
        raise ValueError(f"{run!r} is no run id")
    return os.path.join(base, "runs", run)


def folders(base: str) -> list[str]:
    """Return the folders of all placed runs, oldest first."""
    above = os.path.join(base, "runs")
    try:
        names = [name for name in os.listdir(above) if paths.is_run_id(name)]
    except FileNotFoundError:
        return []
    found = [(os.stat(os.path.join(above, name)).st_mtime_ns, name) for name in names]
    return [os.path.join(above, name) for _, name in sorted(found)]


def is_open(folder: str) -> bool:
    """Whether a run was begun and has no exit record."""
    return read(folder, EXIT) is None


def is_held(folder: str) -> bool:
    """Whether its runner lives."""
    runner = identity_in(read(folder, STATE), "runner")
    return runner is not None and runner.alive()
