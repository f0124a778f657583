"""What the supervisor is asked, by name: who may ask it, and what is done."""

import os
from base64 import b64decode

from longwatch import __version__, vocabulary
from longwatch.core import service_words as w
from longwatch.core.service_states import RUNNING, STARTING
from longwatch.daemon import rights
from longwatch.daemon.asking import NO_SUCH, NOT_NOW, USAGE, Caller, Later, Refusal
from longwatch.daemon.snapshots import described, metrics, snapshot
from longwatch.runtime.keys import KeysError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from longwatch.daemon.app import App
    from longwatch.runtime.running import Running
    from longwatch.runtime.service import Service

    Answer = dict[str, Any]


class Requests:
    """Answers what is asked of a daemon. Raises Refusal; what takes time is a `Later`."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._supervisor = app.supervisor

    def ask(self, op: str, args: "Answer", caller: Caller) -> "Answer | Later":
        """Answer one question."""
        answer = self._OPS.get(op)
        if answer is None:
            raise Refusal(USAGE, f"{op}: no such request; there are: {', '.join(sorted(self._OPS))}")
        from_within = rights.check(op, args, caller, self._supervisor.services.values())
        return answer(self, {**args, "inside": from_within}, caller)

    # -- reading

    def _ping(self, args: "Answer", caller: Caller) -> "Answer":
        return {"version": __version__, "pid": os.getpid()}

    def _status(self, args: "Answer", caller: Caller) -> "Answer":
        supervisor = self._supervisor
        return {
            "schema": 1,
            "harnesses": [snapshot(supervisor, service) for service in supervisor.services.values()],
            "daemon": self._app.standing(),
        }

    def _describe(self, args: "Answer", caller: Caller) -> "Answer":
        return described(self._supervisor, self._named(args))

    def _metrics(self, args: "Answer", caller: Caller) -> "Answer":
        return {"samples": metrics(self._supervisor)}

    # -- one harness

    def _start(self, args: "Answer", caller: Caller) -> "Answer":
        service = self._named(args)
        ran = service.machine.state in (STARTING, RUNNING)
        self._told(service, w.StartAsked(self._who(caller)))
        return {**self._stands(service), **({"ran": True} if ran else {})}

    def _stop(self, args: "Answer", caller: Caller) -> "Answer | Later":
        service = self._named(args)
        run = "" if service.running is None else service.running.run_id
        service.grace = _span(args, "kill_after_ms")
        self._told(service, w.StopAsked(self._who(caller), origin="explicit"))
        if not service.machine.alive:
            return self._stands(service)
        later = Later()
        _when(service, lambda: not service.machine.alive, lambda: later.give(self._stands(service, run)))
        return later

    def _restart(self, args: "Answer", caller: Caller) -> "Answer | Later":
        service = self._named(args)
        before = service.machine.generation
        service.grace = _span(args, "kill_after_ms")
        within = args["inside"] is service
        self._told(service, w.RestartAsked(self._who(caller), inside=within))
        if within:
            return self._stands(service)
        later = Later()

        def renewed() -> bool:
            return service.machine.generation != before and (
                service.running is not None or not service.machine.alive
            )

        _when(service, renewed, lambda: later.give(self._stands(service)))
        return later

    def _trigger(self, args: "Answer", caller: Caller) -> "Answer | Later":
        service = self._named(args)
        if service.harness.kind == "resident":
            raise Refusal(USAGE, f"{service.harness.name} is resident: start it instead")
        payload = args.get("payload_file")
        source = str(args.get("source") or "cli")
        return self._supervisor.firings.trigger(
            service.harness.name, str(args.get("trigger") or "manual"), source, wait=bool(args.get("wait")),
            payload=str(payload) if payload else None,
        )  # fmt: skip

    def _send(self, args: "Answer", caller: Caller) -> "Answer":
        service = self._named(args)
        try:
            data = b64decode(str(args.get("data") or ""), validate=True)
        except ValueError as error:
            raise Refusal(USAGE, f"send: data is not base64: {error}") from error
        newline = bool(args.get("newline"))
        return self._typed(service, lambda running: {"sent": running.send(data, newline=newline)})

    def _resize(self, args: "Answer", caller: Caller) -> "Answer":
        service = self._named(args)
        rows, columns = args.get("rows"), args.get("cols")
        if not (
            isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 10_000 and 0 < columns < 10_000
        ):
            raise Refusal(USAGE, "resize: rows and cols are numbers from 1 to 9999")

        def resize(running: "Running") -> "Answer":
            running.keys.resize(rows, columns)
            running.observation.size(rows, columns)
            return {}

        return self._typed(service, resize)

    def _typed(self, service: "Service", act: "Callable[[Running], Answer]") -> "Answer":
        if service.running is None:
            raise Refusal(NOT_NOW, f"{service.harness.name} does not run")
        try:
            return act(service.running)
        except KeysError as error:
            raise Refusal(NOT_NOW if error.busy else USAGE, str(error)) from error

    # -- the daemon

    def _reload(self, args: "Answer", caller: Caller) -> "Later":
        return self._app.reloading.ask(
            dry_run=bool(args.get("dry_run")),
            restart=bool(args.get("restart")),
            prune=bool(args.get("prune")),
        )

    def _down(self, args: "Answer", caller: Caller) -> "Later":
        return self._app.leaving.down(keep=bool(args.get("keep")))

    def _handover(self, args: "Answer", caller: Caller) -> "Later":
        later = Later()
        later.give({"pid": os.getpid()})
        self._app.leaving.leave("replaced")
        return later

    def _notify_test(self, args: "Answer", caller: Caller) -> "Answer | Later":
        desk = self._supervisor.daemon.desk
        if desk is None:
            return {"ok": False, "channels": [], "error": "no notification channel is configured"}
        later = Later()
        desk.test(args.get("channel"), later.give)
        return later

    # -- words

    def _named(self, args: "Answer") -> "Service":
        name = args.get("name")
        services = self._supervisor.services
        if not isinstance(name, str):
            raise Refusal(USAGE, "a harness has to be named")
        if name in services:
            return services[name]
        run = next((s for s in services.values() if s.running is not None and s.running.run_id == name), None)
        if run is not None:
            return run
        nearest = _nearest(name, services)
        hint = f"; did you mean {nearest}?" if nearest else ""
        raise Refusal(NO_SUCH, f"no harness {name}{hint}", nearest)

    def _told(self, service: "Service", word: "w.Word") -> None:
        refused = service.tell(word)
        if refused:
            raise Refusal(NOT_NOW, f"{service.harness.name}: {vocabulary.firing(refused)}")

    def _who(self, caller: Caller) -> str:
        return caller.via if caller.pid is None else f"{caller.via} pid {caller.pid}"

    def _stands(self, service: "Service", run: str = "") -> "Answer":
        told = service.machine.snapshot(self._supervisor.moment(service.harness))
        record = service.last_run if run and service.last_run and service.last_run.get("run") == run else None
        return {
            "name": service.harness.name,
            "state": told["state"],
            "run": run or (service.opening.run if service.opening is not None else told.get("run")),
            **({"report": record} if record is not None else {}),
        }

    _OPS: "ClassVar[dict[str, Callable[[Requests, Any, Caller], Answer | Later]]]" = {
        "ping": _ping, "status": _status, "describe": _describe, "metrics": _metrics, "start": _start, "stop": _stop,
        "restart": _restart, "trigger": _trigger, "send": _send, "resize": _resize, "reload": _reload, "down": _down,
        "handover": _handover, "notify_test": _notify_test,
    }  # fmt: skip


def _span(args: "Answer", key: str) -> int | None:
    value = args.get(key)
    if value is not None and (not isinstance(value, int) or value < 0):
        raise Refusal(USAGE, f"{key}: a number of milliseconds")
    return value


def _when(service: "Service", true: "Callable[[], bool]", act: "Callable[[], object]") -> None:
    """Act as soon as something is true of a harness."""

    def look() -> None:
        if look in service.on_change and true():
            service.on_change.remove(look)
            act()

    service.on_change.append(look)
    look()


def _nearest(name: str, names: "Any") -> str | None:
    """Return the one that differs least, if it is near."""
    best = min(((_distance(name, each), each) for each in names), default=(99, ""))
    return best[1] if best[0] <= max(1, len(name) // 3) else None


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
