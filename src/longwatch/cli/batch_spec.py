"""The spec of a placed run: an item of a plan, with all that it takes to run it elsewhere."""

import os
import socket
from binascii import crc32
from collections.abc import Mapping
from typing import Any

from longwatch.cli.render import clean, fail
from longwatch.config.plan_beside import Flags
from longwatch.config.plan_file import Loaded, load
from longwatch.core.batch import Workstream
from longwatch.core.workstream import PENDING, RUNNING, next_attempt, resumable
from longwatch.paths import new_run_id, safe_name
from longwatch.runtime.engines.sweeping import root
from longwatch.runtime.work_spec import SCHEMA, told
from longwatch.store.workstreams import Workstreams
from longwatch.work.nested import Session

#: What a node's longwatch need not know of an item's earlier life.
_OURS = (
    "placed",
    "placing",
    "granted",
    "lost",
    "pid",
    "start",
    "boot",
    "mark",
    "log",
    "created_at",
    "updated_at",
)

_MARKS = ("LONGWATCH_RUN_ID", "LONGWATCH_ATTEMPT")


def key_of(loaded: Loaded, here: str = "") -> str:
    """Return what tells a plan's folder on a node from that of any other plan, from whatever machine."""
    whole = f"{here or socket.gethostname()}:{os.path.realpath(loaded.base)}"
    return f"{safe_name(loaded.name)}-{crc32(whole.encode()):08x}"


def spec_of(loaded: Loaded, work: Workstream, state: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return the spec of an attempt. It holds secrets: it is sent, and never written down or shown."""
    return {
        "schema": SCHEMA, "run": state["run"], "attempt": state["attempt"], "work": told(work),
        "state": {name: value for name, value in state.items() if name not in _OURS}, "plan": loaded.path,
        "name": loaded.name, "key": key_of(loaded), "session": session.as_dict(), "earlier": list(state.get("runs", ()))[:-1],
        "cpus": work.cpus, "labels": work.labels, "node": (state.get("placed") or {}).get("node") or "",
    }  # fmt: skip


def spec_of_plan(plan: str, item: str) -> dict[str, Any]:
    """Return the spec of an item that a job script runs on its own: what is kept of it stands on that machine."""
    loaded = load(plan, os.environ, Flags())
    for problem in loaded.errors:
        fail(str(problem), 2)
    for work in loaded.works:
        if work.id == item:
            break
    else:
        fail(f"{clean(item)} is no item of {plan}", 4)
    # Where the base is on a shared disk, all jobs find the same state, whichever node they are on.
    kept = Workstreams(os.path.join(root(), "plans", key_of(loaded, "job")))
    before = kept.load(item) or {}
    kept.close()
    lifecycle = before.get("lifecycle", PENDING)
    resumed = resumable(lifecycle)
    run = new_run_id(item)
    state = {
        **(before if resumed else {}), "id": item, "lifecycle": RUNNING, "run": run, "resumed": resumed,
        "attempt": next_attempt(lifecycle, before.get("attempt", 0)), "policy": work.policy, "over_budget": False,
        "parked_until": None, "runs": [*before.get("runs", ()), run],
    }  # fmt: skip
    spec = spec_of(loaded, work, state, Session.of(os.environ))
    # All that the job has; but the run is none inside of another one, whoever runs the job.
    env = {name: value for name, value in os.environ.items() if name not in _MARKS}
    return {**spec, "key": key_of(loaded, "job"), "env": env, "remember": True}
