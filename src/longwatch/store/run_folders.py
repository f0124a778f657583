"""Run folders as they are read: who a run is, whether it lives, what its supervisor wrote of it.

A run is live while its supervisor is; a folder without report whose supervisor is gone is `interrupted`: somebody else
ended it, or the machine did.
"""

import json
import os
from dataclasses import dataclass
from typing import Any

from longwatch.errors import StoreError
from longwatch.paths import is_run_id, name_of, runs_folder
from longwatch.posix import now
from longwatch.posix.clocks import ALIVE, COUNT, LAST, LOOKED, PROGRESS, SOURCE_ALIVE, STARTED, Clocks
from longwatch.posix.supervisor import lives
from longwatch.store.spool import summary

SCHEMA = 1


@dataclass(slots=True)
class Folder:
    """A run folder as it was read: `meta` of meta.json, `clocks` (None: unreadable), `live`, and `here`: this host."""

    path: str
    run: str
    meta: dict[str, Any]
    live: bool
    clocks: Clocks | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.meta.get("name") or name_of(self.run))

    @property
    def here(self) -> bool:
        """False for a run of another machine that shares this home: its clocks are not ours."""
        return self.meta.get("host") == os.uname().nodename

    @property
    def limits(self) -> dict[str, dict[str, Any]]:
        """The limits by name: window_ms, action, source."""
        found = self.meta.get("limits")
        return found if isinstance(found, dict) else {}

    @property
    def log(self) -> str | None:
        """The file that all output goes to, when the user asked for one."""
        return self.meta.get("log")

    def report(self) -> dict[str, Any] | None:
        """Return the report; None while there is none, or when it was torn."""
        return read(os.path.join(self.path, "report.json"))

    def events(self) -> list[dict[str, Any]]:
        """Return the facts recorded so far, oldest first; lines that are no facts are passed over."""
        try:
            with open(os.path.join(self.path, "events.jsonl"), "rb") as lines:
                found = [_object(line) for line in lines]
        except OSError:
            return []
        return [event for event in found if event is not None]

    def agent(self) -> dict[str, Any] | None:
        """Return how the run's agent stands, or stood last; None where none was observed.

        `ago_ms` is how long ago that was written: spans in it (`since_ms`) are older by as much.
        """
        report = self.report()
        if report is not None:
            found = report.get("agent")
            return found if isinstance(found, dict) else None
        found = read(os.path.join(self.path, "agent.json"))
        if found is None:
            return None
        at = found.get("at_ms")
        if not isinstance(at, int) or not (self.live and self.here):
            return {**found, "ago_ms": 0}
        return {**found, "ago_ms": max(0, now() - at)}

    def progressed(self) -> int:
        """Return when it progressed last, 0 for never: the supervisor stores this at its looks, sources at once."""
        return self._newest(PROGRESS, LAST)

    def seen_alive(self) -> int:
        """Return when it gave its last sign of life, 0 for never."""
        return max(self._newest(ALIVE, SOURCE_ALIVE), self.progressed())

    def _newest(self, slot: int, source_slot: int) -> int:
        if self.clocks is None:
            return 0
        count = len(self.meta.get("sources") or ())
        return max(self.clocks.header[slot], *(self.clocks.source(i)[source_slot] for i in range(count)), 0)

    def sources(self) -> dict[str, dict[str, Any]]:
        """Return for each source when it moved last, in ms before now (None: never seen), and how often."""
        if self.clocks is None:
            return {}
        moment = now() if self.live else max(self.clocks.header[LOOKED], self.seen_alive())
        found = {}
        for index, name in enumerate(self.meta.get("sources") or ()):
            slots = self.clocks.source(index)
            last = moment - slots[LAST] if slots[LAST] else None
            found[str(name)] = {"last_ms_ago": last, "count": slots[COUNT]}
        return found


def folders(state: str, notes: list[str] | None = None) -> list[Folder]:
    """Return all run folders, newest start first; odd entries are left out, newer ones told in `notes`."""
    found = []
    for name in listed(runs_folder(state)):
        try:
            folder = open_folder(os.path.join(runs_folder(state), name))
        except StoreError as error:
            if notes is not None:
                notes.append(str(error))
            continue
        if folder is not None:
            found.append(folder)
    return sorted(found, key=lambda folder: str(folder.meta.get("started_at")), reverse=True)


def open_folder(path: str) -> Folder | None:
    """Return one run folder; None for what is none. Raises StoreError when a newer longwatch wrote it."""
    meta = read(os.path.join(path, "meta.json"))
    if meta is None or meta.get("run") != os.path.basename(path):
        return None
    schema = meta.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(f"{path} was written by a newer longwatch (schema {schema}); upgrade to read it")
    ended = os.path.exists(os.path.join(path, "report.json"))
    clocks = Clocks.open(os.path.join(path, "clocks"))
    return Folder(path, os.path.basename(path), meta, not ended and lives(meta), clocks)


def live_runs(state: str, notes: list[str] | None = None) -> list[Folder]:
    """Return the folders whose supervisor lives, newest start first."""
    return [folder for folder in folders(state, notes) if folder.live]


def ending(folder: Folder) -> dict[str, Any]:
    """Return the summary of a run that is over: of its report, or `interrupted` where it has none."""
    report = folder.report()
    if report is not None:
        return summary(report)
    started = 0 if folder.clocks is None else folder.clocks.header[STARTED]
    progress = folder.progressed()
    looked = max(0 if folder.clocks is None else folder.clocks.header[LOOKED], folder.seen_alive(), started)
    return {
        "schema": SCHEMA,
        "run": folder.run,
        "name": folder.name,
        "attempt": folder.meta.get("attempt", 1),
        "termination_reason": "interrupted",
        "origin": None,
        "outcome": "interrupted",
        "exit_code": None,
        "signal": None,
        "limit": None,
        "started_at": folder.meta.get("started_at"),
        "duration_ms": looked - started,
        "idle_ms": looked - (progress or started),
        "progress": folder.sources(),
        "diagnosis": "longwatch itself ended without a report: it was killed, or the machine went down",
        "resume": None,
    }


def listed(folder: str) -> list[str]:
    """Return the names in a folder that are run ids."""
    try:
        return [name for name in os.listdir(folder) if is_run_id(name)]
    except OSError:
        return []


def read(path: str) -> dict[str, Any] | None:
    """Return the JSON object that a file holds; None when it is missing, torn or something else."""
    try:
        with open(path, "rb") as file:
            return _object(file.read())
    except OSError:
        return None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
