"""Items as programs below one keeper: no process of ours stands beside an item.

Whoever is killed meanwhile leaves them to the keeper, and the next one goes on from there. Nothing is started in the
place of an item before what an earlier supervisor has left of it is proven gone.
"""

import os

from longwatch.core.batch import changed
from longwatch.errors import StoreError
from longwatch.posix import now
from longwatch.posix.files import readable
from longwatch.posix.identity import boot_id
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.refusal import explain
from longwatch.posix.spawn import NULL, Launch, SpawnError
from longwatch.posix.tree import Tree
from longwatch.runtime.attempt import Ended
from longwatch.runtime.kept import KeeperError, NoKeeper
from longwatch.runtime.making import output_of
from longwatch.runtime.marks import started
from longwatch.runtime.rundir import RunDir
from longwatch.runtime.running import Begun, Running
from longwatch.runtime.scope import sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Protocol

    from longwatch.core.harness import Harness
    from longwatch.runtime.attempt import Attempt
    from longwatch.runtime.host import Host
    from longwatch.runtime.kept import Keeper, KeptChild, KeptRun
    from longwatch.runtime.running import Parts

    class Ready(Protocol):
        """An item that can be started: how, with what on stdin, and where its answer will be."""

        harness: Harness
        env: Mapping[str, str]
        stdin: bytes | None


#: Who lives that long is written down as a process, for whoever comes after us and our keeper.
WRITTEN_AFTER = 1_000
#: An item is started by the definition of this run of the plan: nobody will compare it with another one.
ONCE = "once"


class Below:
    """The place below a keeper. `keepers()` gives the one that is to be used, a new one where it has died.

    `environ` is what items inherit. Raises what `keepers` does.
    """

    left = False

    def __init__(
        self, host: "Host", keepers: "Callable[[], Keeper]", parts: "Parts", environ: "Mapping[str, str]"
    ) -> None:
        self._host = host
        self._keepers = keepers
        self._keeper = keepers()
        self._parts = parts
        self._environ = environ

    def mark(self, run: str) -> str:
        """Return what every process of a run carries in its environment."""
        return self._parts.environment(os.environ, run, 1)[RUN_VARIABLE]

    def doing(self, run: Running) -> str:
        """Return what a run is about, as far as its agent says."""
        agent = run.observation.as_dict(now())
        return "stopping" if run.stopping else str((agent or {}).get("state") or "running")

    def hurry(self) -> None:
        """The keeper kills as fast as that is possible."""

    def close(self) -> None:
        """Leave the keeper; it goes on with what it holds, if that is what it is for."""
        self._keeper.close()

    # -- what an earlier supervisor has left

    def take_up(self, unended: "Iterable[Attempt]") -> "list[Attempt]":
        """Follow what the keeper still holds of these, running or over; end what nobody knows or holds."""
        left = {attempt.state["run"]: attempt for attempt in unended}
        followed = []
        for kept in self._keeper.runs():
            attempt = left.pop(kept.run_id, None)
            if attempt is None:
                self._end_stranger(kept)
            else:
                self._follow_kept(attempt, kept.run_id)
                followed.append(attempt)
        for attempt in left.values():
            survivors = sweep(attempt.state)
            if survivors:
                attempt.note(f"not gone, though killed: {', '.join(survivors)}")
            attempt.lose()
        return followed

    def _end_stranger(self, kept: "KeptRun") -> None:
        child = self._keeper.lend(kept.run_id)
        if child.identity is not None:
            Tree(child.identity, self.mark(kept.run_id), subreaper=False, nursery=child.nursery).kill()
        child.close()
        self._keeper.forget(kept.run_id)

    def _follow_kept(self, attempt: "Attempt", run: str) -> None:
        state, harness = attempt.state, attempt.work.harness
        try:
            folder: RunDir | None = RunDir.reopen(self._parts.state, run)
        except StoreError:
            folder = None  # it was too young to have one
        there = changed(harness, cwd=state.get("work_dir") or harness.cwd)
        begun = Begun(run, state["attempt"], resumed=True, launched=ONCE)
        running = self._follow(attempt, there, begun, self._keeper.lend(run), folder)
        attempt.told("taken up", running=running)

    # -- one attempt

    def begin(self, attempt: "Attempt", ready: "Ready") -> None:
        """Have the keeper start it."""
        attempt.keep()
        state = attempt.state
        try:
            child = self._spawn(attempt, ready)
        except SpawnError as error:
            # A keeper that cannot be had says nothing about the item.
            attempt.fail("interrupted" if isinstance(error, KeeperError) else "spawn_failed", error.message)
            return
        begun = Begun(state["run"], state["attempt"], launched=ONCE)
        running = self._follow(attempt, ready.harness, begun, child)
        running.note(started(state["run"], state["attempt"]))
        attempt.told("started", running=running)

    def _spawn(self, attempt: "Attempt", ready: "Ready") -> "KeptChild":
        harness, stdin = ready.harness, NULL if ready.stdin is None else readable(ready.stdin)
        told = {**self._environ, **harness.env, **ready.env}
        run = attempt.state["run"]
        environ = self._parts.environment(told, run, attempt.state["attempt"])
        size = (24, 80) if harness.pty else None
        launch = Launch(harness.command, environ, harness.cwd, stdin, output_of(harness), size)
        try:
            try:
                return self._keeper.spawn(launch, run)
            except NoKeeper:
                attempt.note("the keeper is gone; a new one is started")
                self._keeper = self._keepers()
                return self._keeper.spawn(launch, run)
        except KeeperError:
            raise
        except SpawnError as error:
            raise explain(error, launch) from error
        finally:
            if isinstance(stdin, int):
                os.close(stdin)

    def _follow(
        self, attempt: "Attempt", harness: "Harness", begun: Begun, child: "Any", folder: RunDir | None = None
    ) -> Running:
        start = child.identity.start if child.identity else 0
        attempt.state |= {"pid": child.pid, "start": start, "boot": boot_id()}
        running = Running(
            self._host, self._parts, harness, begun, child, on_over=lambda running: self._over(attempt, running),
            heard=attempt.heard, folder=folder, warn=attempt.note,
            described={"item": f"{self._parts.described['plan']}/{attempt.item}"},
        )  # fmt: skip
        attempt.run = running
        self._host.at(now() + WRITTEN_AFTER, lambda at: None if attempt.over else attempt.keep())
        return running

    def _over(self, attempt: "Attempt", running: Running) -> None:
        attempt.end(
            Ended(running.report, running.why_ended, let_go=lambda: self._keeper.forget(running.run_id))
        )


__all__ = ["Below"]
