"""Which plans were run, so that PLAN/ITEM finds one from anywhere; and what somebody asks of the batch that runs one.

STATE/batches/xxxxxxxx.json   name, plan and base of a plan that was run
BASE/asks                     lines from `stop` and `start`, read by whoever holds BASE/lock
"""

import fcntl
import json
import os
from binascii import crc32
from typing import Any

from longwatch.channel import append_line
from longwatch.core.record import Plain
from longwatch.errors import StoreError, UsageError
from longwatch.jsonlean import parse_object
from longwatch.paths import ensure
from longwatch.posix.atomic import replace

LOCK, ASKS = "lock", "asks"
_CHUNK = 1 << 16


class Known(Plain):
    """A plan that was run: its name, its file, and the folder of its states."""

    __slots__ = ("base", "name", "plan")

    def __init__(self, name: str, plan: str, base: str) -> None:
        self.name = name
        self.plan = plan
        self.base = base


def remember(state: str, known: Known) -> None:
    """Note a plan that is run. Raises StoreError."""
    folder = ensure(_folder(state))
    path = os.path.join(folder, f"{crc32(os.fsencode(os.path.realpath(known.plan))):08x}.json")
    try:
        replace(path, json.dumps({"schema": 1, **known.as_dict()}).encode(), durable=False)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def all_known(state: str) -> list[Known]:
    """Return the plans that were run and whose states are still there, by name."""
    folder, found = _folder(state), []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        told = _read(os.path.join(folder, name))
        if told is None:
            continue
        if os.path.isdir(told.base):
            found.append(told)
        else:
            _forget(os.path.join(folder, name))
    return sorted(found, key=lambda known: (known.name, known.plan))


def named(state: str, word: str) -> tuple[Known, str] | None:
    """Return the plan and the item that PLAN/ITEM means; PLAN is a name or a file. None where there is no such plan.

    Raises UsageError where several plans have the name.
    """
    plan, slash, item = word.rpartition("/")
    if not slash or not plan or not item:
        return None
    known = all_known(state)
    by_file = [one for one in known if os.path.realpath(plan) == os.path.realpath(one.plan)]
    found = by_file or [one for one in known if one.name == plan]
    if len(found) > 1:
        raise UsageError(
            f"{plan} is the name of several plans; write the file in its place: {', '.join(one.plan for one in found)}"
        )
    return (found[0], item) if found else None


def holder(base: str) -> int | None:
    """Return the pid of the batch that runs a plan now; None where none does, 0 where one does and nobody knows which."""
    try:
        descriptor = os.open(os.path.join(base, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        told = os.pread(descriptor, 20, 0)
        return int(told) if told.isdigit() else 0
    else:
        return None
    finally:
        os.close(descriptor)


def ask(base: str, **message: object) -> None:
    """Leave word for the batch that runs a plan. Raises StoreError."""
    path = os.path.join(base, ASKS)
    try:
        append_line(path, message)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


class Asks:
    """What is asked of a batch from now on."""

    def __init__(self, base: str) -> None:
        path = os.path.join(base, ASKS)
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._offset = os.fstat(self._fd).st_size

    def read(self) -> list[dict[str, Any]]:
        """Return what has come; a line that is still being written waits for its end."""
        data = b""
        while chunk := os.pread(self._fd, _CHUNK, self._offset + len(data)):
            data += chunk
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [told for line in whole.split(b"\n") if line and (told := parse_object(line)) is not None]

    def close(self) -> None:
        """Hear no more."""
        os.close(self._fd)


def _folder(state: str) -> str:
    return os.path.join(state, "batches")


def _read(path: str) -> Known | None:
    try:
        with open(path, "rb") as file:
            told = json.load(file)
        return Known(str(told["name"]), str(told["plan"]), str(told["base"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # another reader has
