"""What an earlier daemon has left: which runs live, which ended meanwhile, which have nothing behind them any more.

Three know of a run: the keeper that holds it, the ledger that has it open, and its run folder. What the keeper holds
and nobody else knows was never to be. Nothing here acts: it says what was found.
"""

import os

from longwatch import paths
from longwatch.core.record import Plain
from longwatch.posix.clocks import LOOKED, Clocks
from longwatch.posix.identity import Identity
from longwatch.runtime.rundir import read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from longwatch.runtime.lent import KeptRun


class Left(Plain):
    """One run that an earlier daemon has left.

    `record` is its open line of the ledger, `meta` what its folder says, either may be empty; `kept` where a keeper
    holds it; `report` where its end was written into the folder already. `leader` is who led it, as far as known.
    """

    __slots__ = ("kept", "leader", "meta", "record", "report", "run")

    def __init__(
        self, run: str, record: "Mapping[str, Any]", meta: "Mapping[str, Any]", kept: "KeptRun | None",
        report: "Mapping[str, Any] | None",
    ) -> None:  # fmt: skip
        self.run = run
        self.record = dict(record)
        self.meta = dict(meta)
        self.kept = kept
        self.report = report
        self.leader = kept.identity if kept is not None else _leader(meta)

    @property
    def harness(self) -> str:
        """The harness that it is a run of."""
        return str(self.record.get("harness") or self.meta.get("harness") or paths.name_of(self.run))

    @property
    def attempt(self) -> int:
        """Its number."""
        return int(self.record.get("attempt") or self.meta.get("attempt") or 1)

    @property
    def trigger(self) -> str:
        """Why it was started."""
        return str(self.record.get("trigger") or self.meta.get("trigger") or "")

    @property
    def started(self) -> int:
        """When it began, in ms of the boot clock."""
        return self.kept.started if self.kept is not None else int(self.meta.get("started_boot_ms") or 0)

    @property
    def alive(self) -> bool:
        """Whether there is something to follow: a keeper holds it, or its leader lives."""
        return self.kept is not None or (self.leader is not None and self.leader.alive())

    def ledger_record(self) -> "dict[str, Any]":
        """Return the line of the ledger that it should have."""
        told = {key: self.meta.get(key) for key in ("name", "kind", "started_at", "program", "flags", "cwd")}
        return {
            **told, "run": self.run, "harness": self.harness, "attempt": self.attempt, "trigger": self.trigger,
            **self.record,
        }  # fmt: skip


class Inheritance(Plain):
    """All that was found: runs to follow, runs whose end is only to be written down, runs that are lost, strangers."""

    __slots__ = ("finished", "follow", "lost", "strangers")

    def __init__(self) -> None:
        self.follow: list[Left] = []
        self.finished: list[Left] = []
        self.lost: list[Left] = []
        self.strangers: list[KeptRun] = []


def found(
    state: str, daemon: str, kept: "Iterable[KeptRun]", opened: "Iterable[Mapping[str, Any]]"
) -> Inheritance:
    """Return what the daemon of this id has left."""
    held = {run.run_id: run for run in kept}
    records = {str(record["run"]): record for record in opened}
    metas = {
        run: meta for run, meta in _folders(state, daemon) if run in held or run in records or _lives(meta)
    }
    out = Inheritance()
    for run in {**records, **metas}:
        left = Left(
            run, records.get(run, {}), metas.get(run) or _meta(state, run), held.get(run), _report(state, run)
        )
        if left.report is not None:
            out.finished.append(left)
        elif left.alive:
            out.follow.append(left)
        else:
            out.lost.append(left)
    known = {left.run for left in (*out.follow, *out.finished)}
    out.strangers = [run for run_id, run in held.items() if run_id not in known]
    return out


def last_looked(state: str, run: str) -> int | None:
    """Return when a run was looked at last, in ms of the boot clock; None where nobody knows."""
    try:
        clocks = Clocks.open(os.path.join(paths.run_folder(state, run), "clocks"))
    except Exception:  # noqa: BLE001 - of another version, or no id: nobody knows then
        return None
    return None if clocks is None else clocks.header[LOOKED] or None


def _folders(state: str, daemon: str) -> "list[tuple[str, dict[str, Any]]]":
    """Return the runs of this daemon whose folders tell of no end."""
    folder = paths.runs_folder(state)
    try:
        names = [name for name in os.listdir(folder) if paths.is_run_id(name)]
    except OSError:
        return []
    found = []
    for name in names:
        if os.path.exists(os.path.join(folder, name, "report.json")):
            continue
        meta = read_object(os.path.join(folder, name, "meta.json"))
        if meta is not None and meta.get("daemon") == daemon:
            found.append((name, meta))
    return found


def _meta(state: str, run: str) -> "dict[str, Any]":
    if not paths.is_run_id(run):
        return {}
    return read_object(os.path.join(paths.run_folder(state, run), "meta.json")) or {}


def _report(state: str, run: str) -> "dict[str, Any] | None":
    if not paths.is_run_id(run):
        return None
    return read_object(os.path.join(paths.run_folder(state, run), "report.json"))


def _leader(meta: "Mapping[str, Any]") -> Identity | None:
    pid, start, boot = meta.get("child_pid"), meta.get("child_start"), meta.get("boot")
    if isinstance(pid, int) and isinstance(start, int) and isinstance(boot, str):
        return Identity(pid, start, boot)
    return None


def _lives(meta: "Mapping[str, Any]") -> bool:
    leader = _leader(meta)
    return leader is not None and leader.alive()
