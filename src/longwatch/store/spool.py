"""The daily spool: one line for each run that has ended, appended by the run itself with a single write.

A line is at most 16 KiB of JSON, `{"v": 1, "type": "run", ...}`, in `STATE/spool/YYYY-MM-DD.jsonl` (UTC day).
Readers bring it into the ledger. A line begins with a line break: whatever a crash left torn before it ends
there. Nothing is synced: the run has ended well or badly by then, and a lost line costs a row of history.
"""

import os
import time

from longwatch.errors import StoreError
from longwatch.jsonlean import fenced
from longwatch.paths import ensure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
LONGEST_LINE = 16 * 1024
#: What goes first when a line is too long: the bulky and derivable before what tells runs apart.
TRIM_ORDER = (
    "rungs",
    "pauses",
    "progress",
    "leftovers",
    "survivors",
    "limits",
    "agent",
    "resume",
    "flags",
    "cwd",
    "diagnosis",
)
#: What stays in the worst case, each text cut to this many characters (6 bytes each at most in ASCII JSON).
ESSENTIAL = (
    "v", "type", "schema", "run", "name", "attempt", "termination_reason", "origin", "outcome", "exit_code",
    "signal", "limit", "started_at", "duration_ms", "idle_ms",
)  # fmt: skip
_ESSENTIAL_TEXT = 160


def append(state_folder: str, record: "Mapping[str, object]", *, now: float | None = None) -> None:
    """Append one record to the spool of its UTC day; `now` is seconds since 1970. Raises StoreError."""
    # All that a run pays for being remembered is paid here, in microseconds: no join, no second folder looked at.
    folder = f"{state_folder}/spool"
    path = f"{folder}/{time.strftime('%Y-%m-%d', time.gmtime(now))}.jsonl"
    data = line(record)
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            ensure(folder)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path}: this run is not in the history: {error.strerror}") from error
    if written < len(data):
        raise StoreError(f"{path}: this run is not in the history: the disk is full")


def line(record: "Mapping[str, object]") -> bytes:
    """Return the spool line of a record, at most 16 KiB, dropping fields in a fixed order until it fits.

    What was dropped is named in `trimmed`.
    """
    whole: dict[str, object] = {"v": VERSION, "type": "run", **record}
    data = fenced(whole)
    trimmed: list[str] = []
    for key in TRIM_ORDER:
        if len(data) <= LONGEST_LINE:
            return data
        if whole.pop(key, None) is not None:
            trimmed.append(key)
            data = fenced({**whole, "trimmed": trimmed})
    if len(data) <= LONGEST_LINE:
        return data
    trimmed += [key[:40] for key in whole if key not in ESSENTIAL]
    short = {key: _cut(whole[key]) for key in ESSENTIAL if key in whole}
    return fenced({**short, "trimmed": trimmed[:20]})


def _cut(value: object) -> object:
    if isinstance(value, str):
        return value[:_ESSENTIAL_TEXT]
    if isinstance(value, dict):  # the limit
        return {"name": _cut(value.get("name")), "window_ms": _cut(value.get("window_ms"))}
    return value if isinstance(value, int) else None


def summary(report: "Mapping[str, object]") -> dict[str, object]:
    """Return what the history keeps of a report: all but captured output and post-mortem, plus `diagnosis`."""
    kept = {key: value for key, value in report.items() if key != "post_mortem"}
    for stream in ("stdout", "stderr"):
        captured = kept.get(stream)
        if isinstance(captured, dict):
            kept[stream] = {key: value for key, value in captured.items() if key not in ("head", "tail")}
    post_mortem = report.get("post_mortem")
    if isinstance(post_mortem, dict):
        kept["diagnosis"] = post_mortem.get("diagnosis")
    return kept
