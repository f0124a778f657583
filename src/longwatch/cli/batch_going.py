"""Going through a plan, wherever its items run: what is heard meanwhile, and what is said of a defect of ours."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from longwatch.cli.batch_view import View
from longwatch.cli.render import note
from longwatch.config.plan_file import Loaded
from longwatch.core.harness import Harness
from longwatch.core.plan import Plan
from longwatch.core.workstream import PENDING
from longwatch.errors import place_of
from longwatch.posix.signals import SignalPipe
from longwatch.redaction import Redaction
from longwatch.runtime.batch import Batch
from longwatch.runtime.host import Host
from longwatch.runtime.logs import Logs
from longwatch.store import batches
from longwatch.store.workstreams import Workstreams

#: How often to look whether somebody asks for something.
LOOK = 500


def plan_of(loaded: Loaded, states: Mapping[str, Any], only: Sequence[str]) -> Plan:
    """Return the plan that is to be gone through, from where its items stand."""
    kept = {name: state["lifecycle"] for name, state in states.items()}
    items = [work.item for work in loaded.works]
    return Plan(items, loaded.jobs, kept=kept, only=only or None, alike=loaded.alike)


def ground(stack: ExitStack, shelf: Workstreams) -> tuple[Host, Logs]:
    """Return what a plan is gone through on, the loop and the logs of its items; the stack lets go of them, and of the shelf."""
    host = Host()
    stack.callback(host.close)
    stack.callback(shelf.close)
    logs = Logs(os.path.join(shelf.base, "logs"))
    stack.callback(logs.close)
    return host, logs


def go_through(host: Host, batch: Batch, shelf: Workstreams, view: View) -> int | None:
    """Go through a plan to its end; return the signal that ended it, if one did."""
    with ExitStack() as stack:
        signals = Signals(host, batch, view)
        stack.callback(signals.close)
        ears = Ears(host, batch, shelf.base, view)
        stack.callback(ears.close)
        view.begin(batch)
        try:
            batch.run()
        except Exception as error:  # noqa: BLE001 - items are not below us, and nothing of them is lost
            note(
                f"a defect of longwatch, please report it: {error!r}{place_of(error)}; what runs goes on, and "
                "--resume follows it"
            )
            return None
        finally:
            view.end()
        _note_left_out(shelf, batch)
        return signals.ended_by


def sinks(logs: Logs) -> Callable[..., object]:
    """Return what opens the log of a run: through a redactor where its plan has secrets, else moved by the kernel."""

    def sink(harness: Harness, run: str, resumed: bool, warn: Callable[[str], object]) -> object:
        redactor = Redaction.of([harness], {}).stream() if harness.secrets else None
        return logs.sink(harness, run, resumed, warn, redactor)

    return sink


def _note_left_out(shelf: Workstreams, batch: Batch) -> None:
    """Keep what was left out, so that a report can say why."""
    for name, why in batch.plan.left_out().items():
        known = batch.states.get(name) or {"id": name, "attempt": 0, "lifecycle": PENDING}
        shelf.save({**known, "lifecycle": PENDING, "left_out": why}, durable=False)


class Signals:
    """Ctrl-C, TERM and HUP end the batch so that it can be resumed; a second one at once."""

    def __init__(self, host: Host, batch: Batch, view: View) -> None:
        self.ended_by: int | None = None
        self._batch = batch
        self._view = view
        self._host = host
        self._pipe = SignalPipe((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        host.reactor.add(self._pipe.fileno(), self._heard)

    def _heard(self) -> None:
        for number in self._pipe.read():
            again, self.ended_by = self.ended_by is not None, self.ended_by or int(number)
            self._view.ending(at_once=again)
            self._batch.interrupt(at_once=again)

    def close(self) -> None:
        """Hear no more."""
        self._host.reactor.remove(self._pipe.fileno())
        self._pipe.restore()


class Ears:
    """Hears what `stop` and `start` ask of the batch."""

    def __init__(self, host: Host, batch: Batch, base: str, view: View) -> None:
        self._host = host
        self._batch = batch
        self._view = view
        self._asks = batches.Asks(base)
        self._timer = host.at(host.now() + LOOK, self._look)

    def _look(self, at: int) -> None:
        for told in self._asks.read():
            self._obey(told)
        self._timer = self._host.at(self._host.now() + LOOK, self._look)

    def _obey(self, told: dict[str, Any]) -> None:
        item, grace = str(told.get("item")), told.get("grace_ms")
        if told.get("op") == "stop":
            self._batch.stop(item, grace if isinstance(grace, int) else None)
        elif told.get("op") == "start" and self._batch.start(item):
            self._view.told("note", item, text="somebody wants it to be run")

    def close(self) -> None:
        """Hear no more."""
        self._host.cancel(self._timer)
        self._asks.close()
