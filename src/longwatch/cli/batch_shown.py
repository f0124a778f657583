"""A run that is elsewhere, as a run folder here: `ls`, `why` and `runs` know it as any other, as far as home knows it."""

import os
from collections.abc import Mapping
from typing import Any

from longwatch import paths
from longwatch.core.outcomes import outcome
from longwatch.errors import StoreError
from longwatch.posix import now, wall_of
from longwatch.posix.clocks import ALIVE, LOOKED, PROGRESS, RUNNING, STARTED, STOPPING
from longwatch.posix.identity import Identity, boot_id
from longwatch.runtime.rundir import SCHEMA, RunDir, meta
from longwatch.store.run_folders import read

#: What a runner says of itself while the item runs, and what that is in a folder.
_STATES = {"running": RUNNING, "stopping": STOPPING}
#: In a folder that home has made: the machine that the run is on.
PLACED = "placed"


class Shown:
    """The folder of one run. It is made once the item runs: on this very machine the run may have one of its own by then.

    `known` is what it says of the item: name, command, attempt, cwd, log, preset; `described` what it says beside. `us`
    is who follows the run.
    """

    def __init__(
        self, state: str, run: str, known: Mapping[str, Any], described: Mapping[str, Any], us: Identity
    ) -> None:
        self._state = state
        self._run = run
        self._known = dict(known)
        self._described = described
        self._us = us
        self._folder: RunDir | None = None
        #: Whether the run keeps its folder itself.
        self._its_own = False
        self._early: list[dict[str, Any]] = []

    def news(self, told: Mapping[str, Any]) -> None:
        """Keep what a renewal has told: how it stands, and what happened since."""
        standing = told["state"] or {}
        shift = _shift(told, standing)
        self._early += [_moved(event, shift) for event in told["events"]]
        if self._folder is None and standing.get("state") in _STATES:
            self._make(str(standing.get("host") or ""))
        if self._folder is None:
            return
        self._write_events(self._folder)
        header = self._folder.clocks.header
        for slot, name in ((ALIVE, "alive_ms"), (PROGRESS, "progress_ms")):
            if standing.get(name):
                header[slot] = max(header[slot], standing[name] + shift)
        header[LOOKED] = now()
        self._folder.clocks.set_state(_STATES.get(standing.get("state", ""), STOPPING))

    def end(self, report: Mapping[str, Any]) -> None:
        """It is over; of a run that was lost the report says little."""
        if self._folder is None and report.get("run"):
            self._make("")
        if self._folder is not None:
            self._write_events(self._folder)
            self._folder.write_report(report if report.get("run") else self._lost(report, self._folder))
        self.close()

    def close(self) -> None:
        """Let go of it as it is."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _make(self, host: str) -> None:
        """Make the folder, or go on with the one that an earlier supervisor has made."""
        if self._its_own:
            return
        begun = [event["mono_ms"] for event in self._early if event.get("event") == "run_started"]
        started = min([now(), *begun])
        try:
            self._folder = self._left(host) or RunDir.create(self._state, self._meta(host, started), started)
        except StoreError:
            self._its_own = True

    def _left(self, host: str) -> RunDir | None:
        """Go on with the folder that an earlier supervisor has made here; None where there is none."""
        left = read(os.path.join(paths.run_folder(self._state, self._run), "meta.json"))
        if left is None or PLACED not in left:
            return None
        folder = RunDir.reopen(self._state, self._run)
        if left.get("boot") != boot_id():  # its instants are of a clock that has begun anew
            folder.clocks.restart(now())
        folder.write_meta(self._meta(host, folder.clocks.header[STARTED]))
        return folder

    def _meta(self, host: str, started: int) -> dict[str, object]:
        described = meta(
            self._run, supervisor=self._us, child=Identity(0, 0, boot_id()), started_ms=started, limits={}, sources=(),
            **self._known,
        )  # fmt: skip
        return {**described, **self._described, "hosted": True, PLACED: host}

    def _write_events(self, folder: RunDir) -> None:
        for event in self._early:
            folder.append_event({key: value for key, value in event.items() if key not in ("seq", "at")})
        self._early.clear()

    def _lost(self, report: Mapping[str, Any], folder: RunDir) -> dict[str, Any]:
        header = folder.clocks.header
        started, seen = header[STARTED], max(header[ALIVE], header[PROGRESS], header[STARTED])
        reason = str(report["termination_reason"])
        return {
            "schema": SCHEMA, "run": self._run, "name": self._known["name"], "attempt": self._known["attempt"],
            "origin": None, "outcome": outcome(reason)[0], "exit_code": None, "signal": None, "limit": None,
            "started_at": paths.rfc3339(wall_of(started)), "duration_ms": seen - started,
            "idle_ms": seen - (header[PROGRESS] or started), "resume": None, **report,
        }  # fmt: skip


def _shift(told: Mapping[str, Any], standing: Mapping[str, Any]) -> int:
    """Return what is added to instants of the run's clock to have them on ours."""
    boot = (standing.get("runner") or {}).get("boot")
    return 0 if boot == boot_id() else now() - int(told["stamp"])


def _moved(event: Mapping[str, Any], shift: int) -> dict[str, Any]:
    at = event.get("mono_ms")
    return {**event, "mono_ms": at + shift} if isinstance(at, int) else dict(event)


__all__ = ["PLACED", "Shown"]
