"""When this machine slept, as far as that is on record: in the system's journal, and in runs that noticed it."""

import json
import shutil
import subprocess
from collections.abc import Iterator

from longwatch.core.spec import MINUTE
from longwatch.observe.record import instant
from longwatch.store.run_folders import folders

#: How systemd marks the two in the journal, whatever language it speaks.
_BEGAN = "6bbd95ee977941e497c48be27c254128"
_ENDED = "8811e6df2a8e40f58a94cea26f8ebf14"
_PATIENCE = 10
#: A shorter lapse of a supervisor is a busy machine rather than one that sleeps.
_SHORTEST = 1 * MINUTE

Span = tuple[int, int]


def asleep(state: str, since: int | None) -> list[Span]:
    """Return the spans in ms since 1970, those from `since` on. What cannot be read is not on record."""
    return [*_journal(since), *_noticed(state)]


def _journal(since: int | None) -> Iterator[Span]:
    began = None
    for line in _entries(since):
        entry = _object(line)
        at = str(entry.get("__REALTIME_TIMESTAMP"))
        if not at.isdecimal():
            continue
        if entry.get("MESSAGE_ID") == _BEGAN:
            began = int(at) // 1_000
        elif began is not None:
            yield began, int(at) // 1_000
            began = None


def _entries(since: int | None) -> list[str]:
    program = shutil.which("journalctl")
    if program is None:
        return []
    words = ["--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE_ID"]
    words += [f"MESSAGE_ID={_BEGAN}", f"MESSAGE_ID={_ENDED}"]
    if since is not None:
        words.append(f"--since=@{since // 1_000}")
    try:
        done = subprocess.run(
            [program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=_PATIENCE, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def _object(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _noticed(state: str) -> Iterator[Span]:
    """A run tells of a lapse when it is over."""
    for folder in folders(state):
        for event in folder.events():
            at, span = instant(event.get("at")), event.get("span")
            if (
                event.get("event") == "lapse"
                and at is not None
                and isinstance(span, int)
                and span >= _SHORTEST
            ):
                yield at - span, at
