"""Appending JSON lines to files that several writers share, and the channel into a run among them."""

import os

from longwatch.errors import StoreError
from longwatch.jsonlean import fenced
from longwatch.paths import run_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def channel_append(state_folder: str, run_id: str, message: "Mapping[str, object]") -> bool:
    """Append one line to a run's channel, which its supervisor reads. False while the run has no folder.

    Raises StoreError when the folder is there but cannot be written.
    """
    path = os.path.join(run_folder(state_folder, run_id), "channel")
    try:
        append_line(path, message)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    return True


def append_line(path: str, message: "Mapping[str, object]") -> None:
    """Append a JSON line with one write, so that lines of several writers never mix. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, fenced(message))
    finally:
        os.close(descriptor)
