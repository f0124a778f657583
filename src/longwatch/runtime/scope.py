"""Whether a process that an earlier supervisor has written down is still the one that was meant, and may be ended.

Five things can be wrong with such a note, and each of them means: hands off. What may be ended besides is what carries
the mark of that very run, whoever started it.
"""

import os

from longwatch.posix import kin
from longwatch.posix.identity import Identity, boot_id, process
from longwatch.posix.tree import NOBODY, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Nobody was written down; it has ended; its pid is another's; it was of another boot; it is of another run.
MISSING, DEAD, REUSED, STALE, MISMATCH = "missing", "dead", "reused", "stale", "mismatch"
OURS = "ours"


def verdict(noted: "Mapping[str, Any]") -> str:
    """Return what is to be thought of a note of `pid`, `start`, `boot` and `mark`; only `ours` may be signalled.

    How long ago it was written says nothing: who works for long is not gone.
    """
    leader = leader_of(noted)
    if leader is None:
        return MISSING
    if leader.boot != boot_id():
        return STALE
    found = process(leader.pid)
    if found is None or not found.alive:
        return DEAD
    if found.start != leader.start:
        return REUSED
    return OURS if kin.carries(leader.pid, f"{kin.RUN_VARIABLE}={noted.get('mark')}") else MISMATCH


def leader_of(noted: "Mapping[str, Any]") -> Identity | None:
    """Return who was written down; None where that is nobody."""
    pid, start, boot = noted.get("pid"), noted.get("start"), noted.get("boot")
    if isinstance(pid, int) and isinstance(start, int) and isinstance(boot, str):
        return Identity(pid, start, boot)
    return None


def sweep(noted: "Mapping[str, Any]") -> list[str]:
    """End what is left of a run that nobody holds any more; return who survived, as `pid name`."""
    mark = noted.get("mark")
    if not mark or noted.get("boot") not in (None, boot_id()) or noted.get("pid") == os.getpid():
        return []
    leader = leader_of(noted) if verdict(noted) == OURS else None
    return Tree(leader or NOBODY, str(mark), subreaper=False).kill()


__all__ = ["DEAD", "MISMATCH", "MISSING", "OURS", "REUSED", "STALE", "leader_of", "sweep", "verdict"]
