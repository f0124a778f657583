"""What is done at home for items that run elsewhere: what they begin from is sent, what they made comes home."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from longwatch import paths
from longwatch.cli.batch_shown import Shown
from longwatch.cli.batch_spec import spec_of
from longwatch.config.plan_file import Loaded
from longwatch.core.batch import Workstream
from longwatch.daemon.agents import Agents
from longwatch.daemon.endings import End
from longwatch.hands import Hands
from longwatch.paths import ensure
from longwatch.runtime.host import Host
from longwatch.store.workstreams import Workstreams, file_name
from longwatch.work.nested import Session
from longwatch.work.sending import Parcel, Parcels
from longwatch.work.steps import Steps, Walk, WorkError
from longwatch.work.trees import bring_home

#: What an attempt learned where it ran, and the next one has to know.
_LEARNED = (
    "checkpoint", "checkpoints", "session", "level_name", "over_budget", "work_dir", "branch", "base_commit",
    "parked_until",
)  # fmt: skip


class HomeHands(Hands):
    """The hands of a batch on an engine, and what is kept here of its runs (`runtime.placing.Home`)."""

    def __init__(
        self, loaded: Loaded, host: Host, shelf: Workstreams, session: Session, told: Callable[..., object], *,
        detached: bool,
    ) -> None:  # fmt: skip
        super().__init__(
            host, shelf, Agents(shelf.base), loaded.path, loaded.name, session, paths.state(), told
        )
        self._loaded = loaded
        self._detached = detached
        self._parcels = Parcels(os.path.join(shelf.base, "send"))
        self._brought = ensure(os.path.join(shelf.base, "bundles"))
        self._positions = Positions(ensure(os.path.join(shelf.base, "pulled")))
        self._shown: dict[str, Shown] = {}
        self._works = {work.id: work for work in loaded.works}

    # -- before a run

    def prepare(
        self, work: Workstream, state: dict[str, Any], done: Callable[[Any, str, bool], object]
    ) -> None:
        """Pack what it begins from, and call back with its spec."""
        state |= {"log": self._shelf.log(work.id), "plan": self._plan}
        state["runs"] = [*state.get("runs", ()), state["run"]][-20:]

        def over(parcel: Parcel | None, error: WorkError | None) -> None:
            if error is not None:
                done(None, str(error), error.transient)
            else:
                done(self._spec(work, state, parcel), "", False)

        if work.git is None or not os.path.isdir(work.git):
            over(None, None)
            return
        branch = work.branch or f"longwatch/{file_name(work.id)}"
        steps = self._parcels.pack(work.git, base=work.base, branch=branch, resumed=bool(state["resumed"]))
        Walk(steps, self._host.command, self._host.at, over)

    def _spec(self, work: Workstream, state: dict[str, Any], parcel: Parcel | None) -> dict[str, Any]:
        spec = spec_of(self._loaded, work, state, self._session)
        spec |= {"detached": self._detached, "remember": False}
        if parcel is not None:
            state["base"] = parcel.base
            spec["work"] |= {"git": f"sent:{parcel.name}", "base": parcel.branch}
            spec["files"] = {parcel.name: parcel.file}
        return spec

    # -- while it runs

    def position(self, item: str, run: str) -> tuple[int, int]:
        """Return up to where the events and the output of a run are here already."""
        return self._positions.of(item, run)

    def keep_position(self, item: str, run: str, events: int, output: int) -> None:
        """Note up to where they are here."""
        self._positions.keep(item, run, events, output)

    def news(self, work: Workstream, state: dict[str, Any], told: Mapping[str, Any]) -> None:
        """Show how a run stands, and what happened since."""
        self._show(work, state).news(told)

    def _show(self, work: Workstream, state: dict[str, Any]) -> Shown:
        run = str(state["run"])
        if run not in self._shown:
            known = {
                "name": work.id, "command": work.harness.command[:1], "attempt": state["attempt"],
                "cwd": state.get("work_dir"), "log": state["log"], "preset": work.harness.preset,
            }  # fmt: skip
            item = f"{self._name}/{work.id}"
            described = {"batch": self._plan, "plan": self._name, "base": self._shelf.base, "item": item}
            self._shown[run] = Shown(self._state, run, known, described, self._host.me)
        return self._shown[run]

    # -- after a run

    def place_for(self, item: str, name: str) -> str:
        """Return where an answer, or a bundle, is put."""
        if name == "result":
            return os.path.join(self._results, file_name(item))
        return os.path.join(self._brought, f"{file_name(item)}.bundle")

    def bring(self, item: str, told: dict[str, Any], done: Callable[[], object]) -> None:
        """Bring the commits home: they are verified, and the branch only ever moves forward."""
        work = self._works[item]
        if not told.get("bundle") or work.git is None or not os.path.isdir(work.git):
            done()
            return

        def over(commit: str | None, error: WorkError | None) -> None:
            if error is not None:
                told["notes"] = [str(error)]
                self.told("note", item, text=str(error))
            else:
                told["brought"] = commit
            done()

        steps: Steps[str] = bring_home(work.git, self.place_for(item, "bundle"), told["state"]["branch"])
        Walk(steps, self._host.command, self._host.at, over)

    def settle(self, work: Workstream, state: dict[str, Any], report: Mapping[str, Any], why: Any) -> None:
        """Take over what was learned there; `why` is the exit record, or None of a run that was lost."""
        if why is not None:
            state |= {name: why["state"][name] for name in _LEARNED if name in why["state"]}
            state["brought"] = why.get("brought")
        self._show(work, state).end(report)
        del self._shown[str(state["run"])]
        self._positions.rest(work.id, str(state["run"]))
        judged = None if why is None or why["why"] is None else End(**why["why"])
        super().settle(work, state, report, judged)

    def lost(self, work: Workstream, state: dict[str, Any]) -> None:
        """The folder of the run is elsewhere, and what it tells is in the exit record."""

    def close(self) -> None:
        """Let go of what is open."""
        self._positions.close()
        for shown in self._shown.values():
            shown.close()


class Positions:
    """Up to where what happened elsewhere is here. Written after each piece, so that a killed reader repeats one at most."""

    _FORM = "{:>20}{:>20}"

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, int] = {}

    def of(self, item: str, run: str) -> tuple[int, int]:
        """Return the bytes of events and of output."""
        try:
            text = os.pread(self._file(item, run), 40, 0).decode()
            return int(text[:20]), int(text[20:])
        except ValueError:
            return 0, 0

    def keep(self, item: str, run: str, events: int, output: int) -> None:
        """Note them."""
        try:
            os.pwrite(self._file(item, run), self._FORM.format(events, output).encode(), 0)
        except OSError:
            return  # a full disk: some of it may come twice

    def rest(self, item: str, run: str) -> None:
        """A run is over: hold its file no longer. It stays until the next run of the item, as its end may not be kept yet."""
        descriptor = self._files.pop(_name(item, run), None)
        if descriptor is not None:
            os.close(descriptor)

    def _file(self, item: str, run: str) -> int:
        name = _name(item, run)
        if name not in self._files:
            for old in os.listdir(self._folder):
                if old.startswith(_name(item, "")) and old != name:
                    self._drop(old)
            path = os.path.join(self._folder, name)
            self._files[name] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._files[name]

    def _drop(self, name: str) -> None:
        if name in self._files:
            os.close(self._files.pop(name))
        os.unlink(os.path.join(self._folder, name))

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


def _name(item: str, run: str) -> str:
    """Return the name of a run's file; the sign between stands in no name of an item."""
    return f"{file_name(item)}={run}"


__all__ = ["HomeHands"]
