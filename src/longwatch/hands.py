"""What is done around the runs of a batch: their place, their prompt, their answer, what is kept of them.

A composition root: it joins work trees, prompts and results with the state files of a base folder.
"""

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

from longwatch import paths
from longwatch.core.batch import Workstream, changed
from longwatch.core.harness import Harness
from longwatch.daemon.agents import Agents
from longwatch.errors import StoreError, UsageError
from longwatch.jsonlean import parse_object
from longwatch.options import recorded
from longwatch.paths import ensure
from longwatch.runtime.host import Host
from longwatch.store import spool
from longwatch.store.workstreams import Workstreams, file_name
from longwatch.work import results
from longwatch.work.nested import Session
from longwatch.work.steps import Command, Steps, Walk, WorkError
from longwatch.work.trees import LOCAL, Trees, bundle
from longwatch.work.trees import Place as TreePlace

State = dict[str, Any]
#: What an item is told, beside what every run is told.
ITEM, PLAN, CHECKPOINT = "LONGWATCH_ITEM", "LONGWATCH_PLAN", "LONGWATCH_CHECKPOINT"
#: What an item that is itself in a batch must not inherit from that.
TOLD = (ITEM, PLAN, CHECKPOINT, results.RESULT_VARIABLE, results.PROMPT_VARIABLE, "LONGWATCH_RESUME")


class Ready:
    """An item that can be started."""

    def __init__(self, harness: Harness, env: Mapping[str, str], stdin: bytes | None) -> None:
        self.harness = harness
        self.env = env
        self.stdin = stdin


class Hands:
    """The hands of one batch: of the plan file `plan`, called `name`. `told` hears what happens."""

    def __init__(
        self, host: Host, shelf: Workstreams, agents: Agents, plan: str, name: str, session: Session, state: str,
        told: Callable[..., object],
    ) -> None:  # fmt: skip
        self._host = host
        self._shelf = shelf
        self._agents = agents
        self._plan = plan
        self._name = name
        self._session = session
        self._state = state
        self.told = told
        self._trees = Trees(os.path.join(shelf.base, "repositories"), random.random)
        self._results = ensure(os.path.join(shelf.base, "results"))
        host.reactor.add(shelf.fileno(), self.kept)

    # -- before a run

    def prepare(
        self, work: Workstream, state: State, done: Callable[[Ready | None, str, bool], object]
    ) -> None:
        """Make the place of an item, and call back with how it is started.

        Or with one line why it cannot be, and whether it may be possible later.
        """
        state |= {"log": self._shelf.log(work.id), "plan": self._plan}

        def over(folder: str | None, error: WorkError | None) -> None:
            ready, why = None, "" if error is None else str(error)
            if folder is not None:
                try:
                    ready = self._ready(work, state, folder)
                except (UsageError, OSError) as failed:
                    why = getattr(failed, "message", "") or str(failed)
            done(ready, why, error is not None and error.transient)

        Walk(self._place(work, state), self._host.command, self._host.at, over)

    def _place(self, work: Workstream, state: State) -> Steps[str]:
        if work.git is None and work.harness.cwd:
            state |= {"work_dir": None, "repository": None}
            if not os.path.isdir(work.harness.cwd):
                raise WorkError(
                    f"{work.harness.cwd}: no such folder; an item works where it is told, or not at all"
                )
            return work.harness.cwd
        folder = self._shelf.work(work.id)
        if state["resumed"] and not os.path.isdir(folder):
            # A conversation or a checkpoint without what it was about would work on something else.
            state |= {"resumed": False, "checkpoint": None, "session": None}
            self.told("note", work.id, text=f"{folder} is gone; it begins anew")
        state["work_dir"] = folder
        if work.git is not None:
            return (yield from self._tree(work, state, folder))
        if os.path.isdir(folder) and not state["resumed"]:
            yield Command(("rm", "-rf", "--", folder), LOCAL)
        return ensure(folder)

    def _tree(self, work: Workstream, state: State, path: str) -> Steps[str]:
        assert work.git is not None
        branch = work.branch or f"longwatch/{file_name(work.id)}"
        place = yield from self._trees.prepare(work.git, path, branch, work.base, resume=state["resumed"])
        for note in place.notes:
            self.told("note", work.id, text=note)
        state |= {"repository": place.repository, "branch": branch}
        if not (state["resumed"] and state.get("base_commit")):
            # A tree that is resumed has begun where its first attempt began.
            state |= {"base": place.base, "base_commit": place.commit}
        return path

    def _ready(self, work: Workstream, state: State, folder: str) -> Ready:
        harness = changed(work.harness, cwd=folder)
        argv, going_on = self._argv(work, state, harness)
        prompt = None if going_on else work.prompt
        asked = results.ask(argv, prompt, work.prompt_by, harness.preset)
        env = {ITEM: work.id, PLAN: self._plan, **self._session.variables(), **going_on}
        if state.get("checkpoint"):
            env[CHECKPOINT] = str(state["checkpoint"])
        if work.result:
            env[results.RESULT_VARIABLE] = self._result_file(work.id)
        if prompt is not None and work.prompt_by == results.FILE:
            env[results.PROMPT_VARIABLE] = self._written(work.id, results.clean(prompt))
        return Ready(changed(harness, command=asked.argv), env, asked.stdin)

    def _argv(
        self, work: Workstream, state: State, harness: Harness
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the command, and what it is told where it goes on with a conversation: without one it begins anew."""
        if not state["resumed"]:
            self._agents.conversations.forget(work.id)
        elif (start := self._agents.launch(harness, state["attempt"])).resumed:
            return tuple(start.argv), start.environment
        if work.levels:
            return work.levels[min(state.get("level", 0), len(work.levels) - 1)][1], {}
        return harness.command, {}

    def _result_file(self, item: str) -> str:
        path = os.path.join(self._results, file_name(item))
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        return path

    def _written(self, item: str, text: str) -> str:
        path = os.path.join(self._results, file_name(item) + ".prompt")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    # -- after a run

    def settle(self, work: Workstream, state: State, report: Mapping[str, Any], why: Any) -> None:
        """Add what came out of an attempt: checkpoints, the conversation, its answer, until when a provider wants nothing."""
        self.lost(work, state)
        agent = report.get("agent")
        if isinstance(agent, dict) and agent.get("session"):
            state["session"] = agent["session"]
        if work.levels:
            state["level_name"] = work.levels[min(state.get("level", 0), len(work.levels) - 1)][0]
        if work.result:
            path = os.path.join(self._results, file_name(work.id))
            state["result"] = path if results.read(path) is not None else None
        limited = why is not None and why.cls in ("rate", "usage") and why.until is not None
        if limited and work.harness.resume_on_limit:
            state["parked_until"] = why.until
        if report.get("run"):
            self._remember(work, state, report)

    def lost(self, work: Workstream, state: State) -> None:
        """Add the checkpoints that a run has named; all that is left of one whose end nobody saw."""
        names = [name for name in checkpoints(self._state, str(state["run"])) if name]
        if names:
            state["checkpoints"] = [*(state.get("checkpoints") or ()), *names]
            state["checkpoint"] = names[-1]

    def _remember(self, work: Workstream, state: State, report: Mapping[str, Any]) -> None:
        """Append it to the history of runs."""
        program, *flags = recorded(work.harness.command)
        known = {"program": program, "flags": flags, "item": f"{self._name}/{work.id}", "log": state["log"]}
        try:
            spool.append(self._state, {**spool.summary(report), **known})
        except StoreError as error:
            self.told("note", work.id, text=str(error))

    def keep(self, state: State, done: Callable[[], object] | None = None) -> None:
        """Write its state down, with `done` durably and beside the loop; what cannot be kept is told."""
        if done is None:
            self._shelf.save(state, durable=False)
        else:
            self._shelf.save_beside(state, done)
        self._tell_notes()

    def kept(self) -> None:
        """Something is on the disk now."""
        self._shelf.collect()
        self._tell_notes()

    def _tell_notes(self) -> None:
        for note in self._shelf.notes:
            self.told("note", "", text=note)
        self._shelf.notes.clear()


def checkpoints(state_folder: str, run: str) -> list[str]:
    """Return the names that a run has given, oldest first."""
    try:
        with open(os.path.join(paths.run_folder(state_folder, run), "channel"), "rb") as file:
            found = [parse_object(line) for line in file.read().splitlines() if line]
    except OSError:
        return []
    return [str(one.get("name", "")) for one in found if one is not None and one.get("op") == "checkpoint"]


def place_of(state: Mapping[str, Any]) -> TreePlace | None:
    """Return the work tree of a kept item; None where it has none."""
    if not state.get("repository"):
        return None
    return TreePlace(
        state["repository"], state["work_dir"], state["branch"], state["base"], state["base_commit"]
    )


def bundled(state: Mapping[str, Any], file: str) -> Steps[bool]:
    """Write what an item's branch has beyond its base into a bundle; False where that is nothing."""
    place = place_of(state)
    if place is None:
        return False
    return (yield from bundle(place, file))
