"""What runs in Ray's workers: an actor beside each runner, and two short tasks for nodes whose actor is gone.

Workers import this module by its name, from the longwatch that is installed there; nothing of ours travels as code. Ray's
own objects are made in `ray_driver`, so that this can be read, and tested, without it.
"""

import os
import threading
import time

from longwatch.runtime.engines import node, sweeping
from longwatch.runtime.engines.protocol import EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.engines.protocol import Handle, Told

#: An actor that nobody speaks to any more ends: before its runner was started, and after it is over (seconds).
UNSTARTED, OVER = 1_800, 3_600
_LOOK_S = 30


def hello() -> "Told":
    """Say who this node is."""
    import ray  # noqa: PLC0415 - in a worker of it

    return {**node.hello(), "node": ray.get_runtime_context().get_node_id(), "root": sweeping.root()}


class Beside:
    """The actor beside one runner. An answer is a pair: what was asked for, or else why not and of which kind."""

    def __init__(self) -> None:
        self._placed = node.Placed()
        self._heard = time.monotonic()
        threading.Thread(target=self._go_when_forgotten, daemon=True).start()

    def hello(self) -> "Told":
        """Say who we are, and our instant."""
        self._heard = time.monotonic()
        folder = self._placed.folder
        return {**hello(), "folder": folder, "held": bool(folder) and sweeping.is_held(folder)}

    def start(
        self, spec: "Mapping[str, Any]", files: "Mapping[str, bytes]", stamp: int, lease: int
    ) -> "Answer":
        """Start the runner. It hangs on a line that only this process holds."""
        return self._answer(lambda: self._started(spec, files, stamp, lease))

    def _started(
        self, spec: "Mapping[str, Any]", files: "Mapping[str, bytes]", stamp: int, lease: int
    ) -> "Handle":
        return {**self._placed.start(spec, files, stamp, lease, detached=False), **hello()}

    def renew(self, since: int, stamp: int, lease: int, wait: int) -> "Answer":
        """Move its lease."""
        return self._answer(lambda: self._placed.renew(since, stamp, lease, wait))

    def stop(self, reason: str, origin: str | None, grace: int | None) -> "Answer":
        """Ask it to end."""
        return self._answer(lambda: self._placed.stop(reason, origin, grace))

    def read(self, stream: str, offset: int, count: int) -> "Answer":
        """Return bytes of a stream."""
        return self._answer(lambda: self._placed.read(stream, offset, count))

    def _answer(self, act: "Any") -> "Answer":
        self._heard = time.monotonic()
        try:
            return act(), None
        except EngineError as error:
            return None, (str(error), error.kind)

    def _go_when_forgotten(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            folder = self._placed.folder
            silent = time.monotonic() - self._heard
            if not folder and silent > UNSTARTED:
                os._exit(0)
            if folder and silent > OVER and not sweeping.is_held(folder):
                os._exit(0)


def sweep(folder: str, patience: int) -> "Told":
    """End what is left of a run on this node; see `sweeping.sweep`."""
    return sweeping.sweep(folder, patience)


def read(folder: str, stream: str, offset: int, count: int) -> tuple[int, bytes]:
    """Return bytes of a stream of a run on this node."""
    return node.read(folder, stream, offset, count)


if TYPE_CHECKING:
    Answer = tuple[Any, tuple[str, str] | None]
