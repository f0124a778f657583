"""Whether the supervisor that a run folder names still lives: by identity, never by its number alone."""

import os

from longwatch.posix.identity import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def supervisor_of(described: "Mapping[str, object]") -> Identity | None:
    """Return the identity of the supervisor that a run's meta.json names; None when it names none."""
    pid, start, boot = described.get("pid"), described.get("start"), described.get("boot")
    if isinstance(pid, int) and isinstance(start, int) and isinstance(boot, str):
        return Identity(pid, start, boot)
    return None


def lives(described: "Mapping[str, object]") -> bool:
    """Whether the supervisor that a meta.json names is alive.

    True also for a run of another machine or container that shares this home: from here nobody can know.
    """
    if described.get("host") != os.uname().nodename:
        return True
    supervisor = supervisor_of(described)
    return supervisor is not None and supervisor.alive()
