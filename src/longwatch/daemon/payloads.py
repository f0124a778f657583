"""What came with a trigger, as files: 0600, in the daemon's own folder, and never in an argument of the program."""

import os

from longwatch import paths
from longwatch.jsonlean import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: How a payload is called for which there is no run yet.
_INCOMING = ".incoming-"


def folder_of(daemon_folder: str) -> str:
    """Return the folder of a daemon's payloads; it need not exist."""
    return os.path.join(daemon_folder, "payloads")


def save_incoming(daemon_folder: str, payload: "Mapping[str, Any]") -> str:
    """Write a payload that has no run yet, and return its path. Raises OSError and StoreError."""
    folder = paths.ensure(folder_of(daemon_folder))
    path = os.path.join(folder, _INCOMING + os.urandom(8).hex())
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(dumps(payload).encode() + b"\n")
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return path


def keep_payload(daemon_folder: str, incoming: str, run: str) -> str:
    """Give a payload the name of its run, and return the path that the run is told.

    Raises ValueError for what `save_incoming` did not make, and OSError when it is gone.
    """
    _require_ours(daemon_folder, incoming)
    kept = os.path.join(folder_of(daemon_folder), f"{paths.safe_name(run)}.json")
    os.rename(incoming, kept)
    return kept


def drop_payload(daemon_folder: str, incoming: str) -> None:
    """Remove a payload that no run will read. No error when it is gone. Raises ValueError as `keep_payload` does."""
    _require_ours(daemon_folder, incoming)
    try:
        os.unlink(incoming)
    except FileNotFoundError:
        pass


def sweep(daemon_folder: str) -> int:
    """Remove what a daemon that is gone has taken in and given to nobody; return how many there were."""
    folder = folder_of(daemon_folder)
    try:
        left = [name for name in os.listdir(folder) if name.startswith(_INCOMING)]
    except OSError:
        return 0
    for name in left:
        drop_payload(daemon_folder, os.path.join(folder, name))
    return len(left)


def _require_ours(daemon_folder: str, incoming: str) -> None:
    folder, name = os.path.split(incoming)
    if folder != folder_of(daemon_folder) or not name.startswith(_INCOMING):
        raise ValueError(f"{incoming} is no payload that was taken in")
