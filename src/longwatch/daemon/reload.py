"""Applying a file that was read again: nothing that runs is ended by it, unless somebody says so."""

import time

from longwatch import paths
from longwatch.core import service_words as w
from longwatch.core.daemon_facts import Reloaded
from longwatch.core.record import Plain
from longwatch.daemon.asking import NOT_NOW, Later, Refusal
from longwatch.daemon.compile import Compiled, read_file
from longwatch.posix import now, wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core.harness import Harness
    from longwatch.daemon.app import App
    from longwatch.daemon.supervisor import Supervisor


class Changes(Plain):
    """What a reload does: names whose tables changed, those of them that wait for a restart, gone and new ones."""

    __slots__ = ("added", "applied", "pending", "pruned", "removed", "restarted")

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.pending: list[str] = []
        self.removed: list[str] = []
        self.added: list[str] = []
        self.pruned: list[str] = []
        self.restarted: list[str] = []


def changes(
    supervisor: "Supervisor", harnesses: "dict[str, Harness]", *, restart: bool = False, prune: bool = False
) -> Changes:
    """Return what these definitions change; nothing is done."""
    out = Changes()
    for name, harness in harnesses.items():
        service = supervisor.services.get(name)
        if service is None:
            out.added.append(name)
            continue
        if _meant(harness) != _meant(service.harness):
            out.applied.append(name)
        if service.machine.alive and service.differs(harness):
            (out.restarted if restart else out.pending).append(name)
    out.removed = [name for name in supervisor.services if name not in harnesses]
    if prune:
        out.pruned = list(out.removed)
    return out


def _meant(harness: "Harness") -> "dict[str, object]":
    """Return what a definition says, wherever in the file: a line that moved changes nothing."""
    return {**harness.as_dict(), "setters": set(harness.setters)}


def apply(
    supervisor: "Supervisor", harnesses: "dict[str, Harness]", *, restart: bool = False, prune: bool = False
) -> Changes:
    """Take the definitions on."""
    out = changes(supervisor, harnesses, restart=restart, prune=prune)
    for name in out.removed:
        service = supervisor.services[name]
        service.tell(w.Removed(prune=prune))
        if service.machine.gone:
            supervisor.drop(name)
    for name, harness in harnesses.items():
        known = supervisor.services.get(name)
        if known is None:
            continue
        if harness != known.harness or name in out.restarted or name in supervisor.removed:
            supervisor.define(harness, restart=name in out.restarted)
    supervisor.removed = {name for name in out.removed if name in supervisor.services}
    for name in out.added:
        supervisor.add(harnesses[name]).tell(w.Awoke())
    supervisor.firings.look()
    supervisor.remember(at_once=True)
    return out


def as_answer(out: Changes, errors: "list[dict[str, Any]]", warnings: list[str]) -> "dict[str, Any]":
    """Return it as the answer of a request."""
    return {**out.as_dict(), "errors": errors, "warnings": warnings}


class Reloading:
    """Reads the file again when asked, once at a time."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._answer: Later | None = None

    def ask(self, *, dry_run: bool = False, restart: bool = False, prune: bool = False) -> Later:
        """Read the file and apply it."""
        app, later = self._app, Later()
        ends = Refusal(NOT_NOW, "the daemon is about to end")
        if app.leaving.begun:
            later.refuse(ends)
            return later
        if self._answer is not None and not self._answer.over:
            later.refuse(Refusal(NOT_NOW, "the file is being read already"))
            return later
        self._answer = later
        app.systemd.reloading(time.monotonic_ns() // 1_000)

        def read(file: Compiled) -> None:
            if (
                app.leaving.begun
            ):  # it was told so meanwhile: what is started now would not be ended with the others
                later.refuse(ends)
                return
            app.systemd.ready()
            later.give(
                self._failed(file, dry_run) if file.errors else self._good(file, dry_run, restart, prune)
            )

        read_file(app.host, app.config, read)
        return later

    def _failed(self, file: Compiled, dry_run: bool) -> "dict[str, Any]":
        supervisor = self._app.supervisor
        if not dry_run:
            supervisor.config_errors += len(file.errors)
            for line in file.problems():
                supervisor.log(line)
            supervisor.publish(Reloaded(now(), errors=tuple(file.problems())))
        return as_answer(Changes(), file.errors, file.warnings)

    def _good(self, file: Compiled, dry_run: bool, restart: bool, prune: bool) -> "dict[str, Any]":
        app, supervisor = self._app, self._app.supervisor
        if dry_run:
            found = changes(supervisor, file.harnesses, restart=restart, prune=prune)
            return as_answer(found, [], file.warnings)
        warnings = [*file.warnings, *app.wiring.again(file)]
        app.file = file
        found = apply(supervisor, file.harnesses, restart=restart, prune=prune)
        supervisor.reloads += 1
        app.reloaded_at = paths.rfc3339(wall_of(now()))
        supervisor.publish(Reloaded(now(), tuple(found.applied), tuple(found.pending), tuple(found.removed)))
        return as_answer(found, [], warnings)
