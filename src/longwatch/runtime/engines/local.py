"""The engine `local`: runners on this machine. It is the cluster's stand-in, and what everything is tried with first.

A runner that is placed `detached` outlives whoever placed it, as long as its lease; any other ends with the bridge.
"""

from longwatch.runtime.engines import sweeping
from longwatch.runtime.engines.node import Placed, hello, read
from longwatch.runtime.engines.protocol import GONE, LET_GO, EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.engines.protocol import Handle, Told


class Local:
    """Places runners here."""

    #: Nobody wakes who waits for a detached runner, so it is looked at this often, in ms.
    looks = 250

    def __init__(self) -> None:
        self._placed: dict[str, Placed] = {}

    def nodes(self) -> "list[Told]":
        """Return the machines that items may run on: this one."""
        return [{**hello(), "node": "here", "free": None}]

    def place(self, spec: "Mapping[str, Any]", attempt: int, lease: int) -> "Handle":
        """Start a runner."""
        run = spec["run"]
        if run in self._placed or self._folder_of(spec):
            raise EngineError(f"{run} is placed already")
        files = {name: _content(path) for name, path in spec.get("files", {}).items()}
        placed = Placed()
        found = placed.start(spec, files, hello()["stamp"], lease, detached=bool(spec.get("detached")))
        self._placed[run] = placed
        return {**found, "run": run, "attempt": attempt}

    def _folder_of(self, spec: "Mapping[str, Any]") -> bool:
        folder = sweeping.run_folder(spec.get("root") or sweeping.root(), spec["run"])
        return sweeping.is_held(folder)

    def renew(self, handle: "Handle", since: int, stamp: int, wait: int) -> "Told":
        """Move its lease."""
        return self._of(handle).renew(since, stamp, handle["lease"], wait)

    def stop(self, handle: "Handle", reason: str, origin: str | None, grace: int | None) -> "Told":
        """Ask it to end, or let go of it."""
        held = sweeping.is_held(handle["folder"])
        if held and reason == LET_GO:
            self._of(handle).stop("cancelled", "cascade", 0)
        if not held or reason == LET_GO:
            self._placed.pop(handle["run"], None)
            return {"heard": held}
        return self._of(handle).stop(reason, origin, grace)

    def read(self, handle: "Handle", stream: str, offset: int, count: int) -> tuple[int, bytes]:
        """Return bytes of a stream."""
        return read(handle["folder"], stream, offset, count)

    def locate(self, handle: "Handle") -> "Told":
        """Say whether it is here, or how it has gone."""
        folder = handle.get("folder") or sweeping.run_folder(sweeping.root(), handle["run"])
        if sweeping.is_held(folder):
            self._placed.setdefault(handle["run"], Placed(folder))
            return {"here": True, "handle": {**handle, "folder": folder}, **hello()}
        return {"here": False, **sweeping.sweep(folder)}

    def close(self) -> None:
        """Let go of all; what is not detached ends."""
        self._placed.clear()

    def _of(self, handle: "Handle") -> Placed:
        placed = self._placed.get(handle["run"])
        if placed is None:
            if not sweeping.is_held(handle["folder"]):
                raise EngineError(f"{handle['run']} is not here", GONE)
            placed = self._placed[handle["run"]] = Placed(handle["folder"])
        return placed


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
