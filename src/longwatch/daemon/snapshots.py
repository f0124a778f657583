"""How each harness stands, as plain values: for `status`, `describe` and metrics."""

from longwatch import paths
from longwatch.core.harness import RESIDENT
from longwatch.core.spec import NOTIFY, RESTART, STOP
from longwatch.daemon.observation import UNPRICED, unpriced
from longwatch.posix import wall_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core.spec import LimitSpec
    from longwatch.daemon.supervisor import Supervisor
    from longwatch.runtime.running import Running
    from longwatch.runtime.service import Service

#: What is told of the last run.
_LAST = (
    "run",
    "attempt",
    "outcome",
    "termination_reason",
    "origin",
    "ended_at",
    "exit_code",
    "signal",
    "limit",
)


def snapshot(supervisor: "Supervisor", service: "Service") -> "dict[str, Any]":
    """Return how a harness stands. Spans are ms, instants RFC 3339."""
    now = supervisor.host.now()
    harness, machine = service.harness, service.machine
    told = machine.snapshot(supervisor.moment(harness))
    running = service.running
    return {
        "name": harness.name,
        "kind": harness.kind,
        "pty": harness.pty,
        "preset": harness.preset,
        **told,
        "since": _instant(told.get("since")),
        "backoff_until": _instant(told.get("backoff_until")),
        "holds": [
            {**hold, "until": _wall(hold.get("until"))} for hold in told.get("holds") or ()
        ],
        "run": running.run_id if running is not None else told.get("run") or None,
        "pid": None if running is None else running.child.pid,
        "age_ms": None if running is None else now - running.watch.started,
        "pending_restart": service.pending,
        "next_due": _wall(supervisor.firings.due(harness.name)) if told.get("intent") else None,
        "last_run": _last(service),
        "log": _log(supervisor, service),
        **_watched(service, now),
        **({} if running is None else _agent(running, now)),
    }  # fmt: skip


def _instant(at: object) -> str | None:
    """Return an instant of the boot clock as people read it."""
    return paths.rfc3339(wall_of(at)) if isinstance(at, int) else None


def _wall(at: object) -> str | None:
    return paths.rfc3339(at) if isinstance(at, int) else None


def _last(service: "Service") -> "dict[str, Any] | None":
    record = service.last_run
    return None if record is None else {key: record.get(key) for key in _LAST}


def _log(supervisor: "Supervisor", service: "Service") -> str | None:
    running = service.running
    if running is not None:
        return getattr(running.log, "path", "") or None
    if service.harness.kind == RESIDENT:
        return f"{supervisor.folder}/logs/{service.harness.name}.log"
    return None


def _watched(service: "Service", now: int) -> "dict[str, Any]":
    """Return both clocks, the limits with what is left of them, and the holds of the watch."""
    running = service.running
    if running is None:
        return {
            "alive_ms": None, "progress_ms": None, "progress_source": None, "limits": _limits(service, {}),
            "calls": [], "asked": False, "paused": False, "quiet": False, "sources": {}, "blind": None, "agent": None,
            "model_calls": {"ok": 0, "failed": 0}, "last_success_at": None,
            "note": UNPRICED if unpriced(service.harness) else None,
        }  # fmt: skip
    seen = running.watch.snapshot(now)
    kinds = {hold["kind"]: hold for hold in seen["holds"]}
    sources = {name: dict(source) for name, source in seen["sources"].items()}
    for name, pump in running.process.pumps.items():
        # What came since the driver looked: sources are shown as they are, not as they were told.
        if pump.count and name in sources:
            sources[name] = {"last_ms": max(0, now - pump.last), "count": pump.count}
    alive, progress = running.clocks
    return {
        "alive_ms": None if alive is None else max(0, now - alive),
        "progress_ms": None if progress is None else max(0, now - progress),
        "progress_source": running.watch.sight.newest or _newest(sources),
        "limits": _limits(service, seen["limits"]),
        "calls": [],
        "asked": "asked" in kinds,
        "paused": "paused" in kinds,
        "quiet": "quiet" in kinds,
        "sources": sources,
        "blind": "blind" if "blind" in kinds else None,
        "agent": running.observation.as_dict(now),
        "model_calls": {"ok": 0, "failed": 0},
        "last_success_at": None,
        "note": None,
    }


def _newest(sources: "dict[str, dict[str, Any]]") -> str | None:
    seen = [(told["last_ms"], name) for name, told in sources.items() if told["last_ms"] is not None]
    return min(seen)[1] if seen else None


def _limits(service: "Service", left: "dict[str, int | None]") -> "dict[str, Any]":
    running = service.running
    limits = service.harness.limits if running is None else running.watch.spec.limits
    setters = service.harness.setters
    return {
        name: {
            "window_ms": limit.window, "action": _action(service, name, limit), "left_ms": left.get(name),
            "by": setters.get(name) or setters.get(f"{name}_timeout") or "built-in",
        }
        for name, limit in limits.items()
        if limit.window
    }  # fmt: skip


def _action(service: "Service", name: str, limit: "LimitSpec") -> str:
    """Return what a limit does: of a harness it may also be started again."""
    if name == "stall" and service.machine.report_only:
        return NOTIFY
    return RESTART if limit.action == STOP and name in service.harness.revive else limit.action


def _agent(running: "Running", now: int) -> "dict[str, Any]":
    """Return what reading its records adds."""
    told = dict(running.observation.facts(now))
    if "last_success" in told:
        told["last_success_at"] = _instant(told.pop("last_success"))
    if told.get("ready") is None:
        told.pop("ready", None)
    return told


def described(supervisor: "Supervisor", service: "Service") -> "dict[str, Any]":
    """Return all about one harness. What may be secret is left out: values of the environment, secrets."""
    harness = service.harness
    spec = harness.as_dict()
    spec["env"] = dict.fromkeys(harness.env, "***")
    spec.pop("secrets", None)
    spec["triggers"] = [
        {key: "***" if key == "secret" else value for key, value in trigger.items()}
        for trigger in harness.triggers
    ]
    running = service.running
    return {
        **snapshot(supervisor, service),
        "spec": spec,
        "setters": harness.setters,
        "command_line": list(harness.command),
        "folder": None if running is None else paths.run_folder(supervisor.state, running.run_id),
        "tree": [] if running is None else [info.label for info in running.tree.infos()],
    }


def metrics(supervisor: "Supervisor") -> "dict[str, Any]":
    """Return the values behind the metrics, all of them counted elsewhere."""
    now = supervisor.host.now()
    parts = supervisor.daemon
    return {
        "now": wall_of(now),
        "started": wall_of(supervisor.started),
        "harnesses": [_sample(supervisor, service, now) for service in supervisor.services.values()],
        "tick_late_ms_max": supervisor.late_most,
        "tick_late_total": supervisor.late_times,
        "keeper_up": supervisor.keeper_pid is not None,
        "keeper_losses": supervisor.keeper_losses,
        **({} if parts.ledger is None else {"ledger": parts.ledger.counts()}),
        **({} if parts.logs is None else {"logs": parts.logs.counts()}),
        **({} if parts.desk is None else {"notify": parts.desk.snapshot()}),
        "feed_dropped": 0 if parts.portal is None else parts.portal.counts()["dropped"],
        "config": {"errors": supervisor.config_errors, "reloads": supervisor.reloads},
    }


def _sample(supervisor: "Supervisor", service: "Service", now: int) -> "dict[str, Any]":
    told = service.machine.snapshot(supervisor.moment(service.harness))
    running = service.running
    seen: dict[str, Any] = {} if running is None else dict(running.observation.facts(now))
    agent = None if running is None else running.observation.as_dict(now)
    calls = seen.get("model_calls") or {}
    last = seen.get("last_success")
    return {
        "harness": service.harness.name,
        "kind": service.harness.kind,
        "state": told["state"],
        "restarts": service.counts["restarts"],
        "transitions": service.counts["transitions"],
        "sessions_started": service.counts["sessions"],
        "consecutive_failures": told.get("failures", 0),
        "stalls": told.get("stalls", 0),
        "gave_up": bool(told.get("gave_up")),
        "runs": dict(service.outcomes),
        "run_seconds": service.run_ms / 1000,
        "next_due": supervisor.firings.due(service.harness.name),
        "held": [getattr(hold, "kind", None) or hold["kind"] for hold in told.get("holds") or ()],
        **({"model_calls": {"success": calls.get("ok", 0), "error": calls.get("failed", 0)}} if calls else {}),
        **({"last_success": wall_of(last)} if isinstance(last, int) else {}),
        **supervisor.spending.sample(service.harness.name, agent),
    }  # fmt: skip
