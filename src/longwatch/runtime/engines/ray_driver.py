"""The engine `ray`: one detached, named actor beside each runner, on whichever node Ray finds a place for it.

Lives in the bridge only: when Ray's head is lost it ends the process that it is in, without a word. Nothing that matters
is kept in Ray: an actor is found again by its name, and what it knew is in the run's folder on its node.
"""

import os
import socket
import sys
from concurrent.futures import Future

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from longwatch import __version__
from longwatch.runtime.engines import ray_node
from longwatch.runtime.engines.protocol import FAILED, GONE, LET_GO, REFUSED, EngineError, actor_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.runtime.engines.protocol import Handle, Told

NAMESPACE, RESOURCE = "longwatch", "longwatch"
#: Seconds: an answer of an actor that is there; one of a node that has to start a worker first.
SOON, ON_NODE, CONNECT = 20, 60, 10
#: What an actor may do at once: calls that wait for news, and those that must not wait behind them.
CALLS = 16
_HERE = ("127.", "localhost", "[::1]", "::1")

_Beside = ray.remote(ray_node.Beside)
_hello, _sweep, _read = ray.remote(ray_node.hello), ray.remote(ray_node.sweep), ray.remote(ray_node.read)


class Ray:
    """A client of one cluster. Raises EngineError where it cannot, or must not, be used."""

    looks = 0

    def __init__(self, address: str | None = None, *, open: bool = False) -> None:  # noqa: A002 - as the option
        address = address or os.environ.get("RAY_ADDRESS") or "auto"
        _require_closed(address, forced=open)
        _require_there(address)
        try:
            context = ray.init(
                address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False,
            )  # fmt: skip
        except (ConnectionError, RuntimeError, RayError) as error:
            raise EngineError(f"no Ray cluster answers at {address}: {_line(error)}") from error
        found = str(context.address_info.get("gcs_address") or context.address_info.get("address") or "")
        _require_closed(found, forced=open)
        #: Files that many runs are given are sent to each node once.
        self._sent: dict[str, Any] = {}

    # -- the calls

    def nodes(self) -> "list[Told]":
        """Return the nodes that offer places, each looked at: same longwatch, same Python. Raises EngineError."""
        offering = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get(RESOURCE)]
        if not offering:
            raise EngineError(
                "no node offers a place; start nodes with ray start --resources '{\"longwatch\": 8}'", REFUSED
            )
        asked = {node["NodeID"]: _on(node["NodeID"], _hello) for node in offering}
        told = []
        for node in offering:
            name = node.get("NodeManagerHostname") or node["NodeID"][:8]
            told.append({**_looked_at(name, asked[node["NodeID"]]), "free": node["Resources"][RESOURCE]})
        return told

    def place(self, spec: "Mapping[str, Any]", attempt: int, lease: int) -> "Handle":
        """Start an actor, and by it the runner; waits until a node has a place for it."""
        name = actor_name(spec["run"], attempt)
        files = {file: self._content(path) for file, path in spec.get("files", {}).items()}
        try:
            actor = _Beside.options(**_options(spec, name)).remote()
        except ValueError as error:
            raise EngineError(f"{name} is placed already") from error
        try:
            stamp = ray.get(actor.hello.remote())["stamp"]
            contents = {
                file: ray.get(ref) if isinstance(ref, ray.ObjectRef) else ref for file, ref in files.items()
            }
            handle = _opened(ray.get(actor.start.remote({**spec, "files": {}}, contents, stamp, lease)))
        except RayError as error:
            raise EngineError(f"{name} was not placed: {_line(error)}", GONE) from error
        except EngineError:
            ray.kill(actor)
            raise
        return {**handle, "run": spec["run"], "attempt": attempt}

    def renew(self, handle: "Handle", since: int, stamp: int, wait: int) -> "Future[Told]":
        """Move its lease."""
        return self._asked(handle, lambda actor: actor.renew.remote(since, stamp, handle["lease"], wait))

    def stop(
        self, handle: "Handle", reason: str, origin: str | None, grace: int | None
    ) -> "Future[Told] | Told":
        """Ask it to end; of what is over, or not wanted any more (`let go`), the actor goes."""
        if reason != LET_GO:
            return self._asked(handle, lambda actor: actor.stop.remote(reason, origin, grace))
        try:
            ray.kill(self._actor(handle))
        except (EngineError, RayError):
            return {"heard": False}
        return {"heard": True}

    def read(self, handle: "Handle", stream: str, offset: int, count: int) -> "Future[tuple[int, bytes]]":
        """Return bytes of a stream; where the actor is gone its node is asked."""
        try:
            return self._asked(handle, lambda actor: actor.read.remote(stream, offset, count))
        except EngineError:
            task = _on(handle["node"], _read, handle["folder"], stream, offset, count)
            return _future(task, lambda answer: answer)

    def locate(self, handle: "Handle") -> "Told":
        """Say whether it is here, or how it has gone: its node, where that is there, sweeps and says."""
        try:
            told = ray.get(self._actor(handle).hello.remote(), timeout=SOON)
        except GetTimeoutError:
            raise EngineError("its actor does not answer") from None
        except (EngineError, RayActorError):
            return {"here": False, **self._swept(handle)}
        if not told["folder"]:
            ray.kill(
                self._actor(handle)
            )  # its placing was cut short: nothing was started, and nothing will be
            return {"here": False, "clean": False, "left": [], "exit": None}
        if not told["held"]:
            return {"here": False, **self._swept({**handle, **told})}
        return {"here": True, "handle": {**handle, **told}, "stamp": told["stamp"]}

    def _swept(self, handle: "Handle") -> "Told":
        unknown = {"clean": False, "left": [], "exit": None}
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if handle.get("node") not in alive or not handle.get("folder"):
            return unknown
        try:
            return dict(ray.get(_on(handle["node"], _sweep, handle["folder"], SOON * 1_000), timeout=ON_NODE))
        except (RayError, GetTimeoutError):
            return unknown

    def close(self) -> None:
        """Leave the cluster; what was placed stays."""
        ray.shutdown()

    # -- actors

    def _actor(self, handle: "Handle") -> "Any":
        name = actor_name(handle["run"], handle["attempt"])
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError as error:
            raise EngineError(f"{name} is not there", GONE) from error

    def _asked(self, handle: "Handle", ask: "Callable[[Any], Any]") -> "Future[Any]":
        return _future(ask(self._actor(handle)), _opened)

    def _content(self, path: str) -> "Any":
        if path not in self._sent:
            with open(path, "rb") as file:
                self._sent[path] = ray.put(file.read())
        return self._sent[path]


def _options(spec: "Mapping[str, Any]", name: str) -> "dict[str, Any]":
    """Return how the actor is placed: Ray starts nothing anew, and tries nothing twice. That is decided elsewhere."""
    options: dict[str, Any] = {
        "name": name, "namespace": NAMESPACE, "lifetime": "detached", "max_restarts": 0, "max_task_retries": 0,
        "max_concurrency": CALLS, "num_cpus": spec.get("cpus", 1), "resources": {RESOURCE: 1},
    }  # fmt: skip
    if spec.get("labels"):
        options["label_selector"] = dict(spec["labels"])
    if spec.get("node"):  # agents keep the files of their conversations there
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(spec["node"], soft=True)
    return options


def _on(node: str, task: "Any", *args: object) -> "Any":
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    return task.options(scheduling_strategy=strategy, num_cpus=0, max_retries=0).remote(*args)


def _looked_at(name: str, asked: "Any") -> "Told":
    try:
        told: Told = ray.get(asked, timeout=ON_NODE)
    except GetTimeoutError:
        raise EngineError(f"{name} does not answer") from None
    except RayError as error:
        why = (
            "longwatch is not installed there" if "No module named 'longwatch" in str(error) else _line(error)
        )
        raise EngineError(f"{name}: {why}", REFUSED) from error
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if told["version"] != __version__:
        raise EngineError(f"{name} has longwatch {told['version']}, here is {__version__}", REFUSED)
    if told["python"] != ours:
        raise EngineError(f"{name} has Python {told['python']}, here is {ours}", REFUSED)
    return told


def _future(ref: "Any", opened: "Callable[[Any], Any]") -> "Future[Any]":
    """Return the future of what a call answers, in our words."""
    ours: Future[Any] = Future()

    def settled(theirs: "Future[Any]") -> None:
        error = theirs.exception()
        if error is not None:
            gone = isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError)
            ours.set_exception(EngineError(_line(error), GONE if gone else FAILED))
            return
        try:
            ours.set_result(opened(theirs.result()))
        except EngineError as failed:
            ours.set_exception(failed)

    ref.future().add_done_callback(settled)
    return ours


def _opened(answer: "tuple[Any, tuple[str, str] | None]") -> "Any":
    told, failed = answer
    if failed is not None:
        raise EngineError(*failed)
    return told


def _require_there(address: str) -> None:
    """Ask whether anybody listens there: Ray itself would try for minutes."""
    if "://" in address:
        raise EngineError(f"{address}: write HOST:PORT of the head, from a machine of its network", REFUSED)
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return  # `auto`, or another word of Ray's
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise EngineError(f"no Ray cluster answers at {address}: {why}") from error


def _require_closed(address: str, *, forced: bool) -> None:
    """Refuse a cluster that anybody could run code on: whoever reaches Ray's port may."""
    host = address.rpartition("://")[2]
    here = host in ("", "auto", "local") or host.startswith(_HERE)
    if here or forced or os.environ.get("RAY_AUTH_MODE") == "token":
        return
    raise EngineError(
        f"{address} is open: whoever reaches it may run code there, and read your secrets; start the cluster with "
        "RAY_AUTH_MODE=token and set the same here, or say --open-cluster where its network is closed",
        REFUSED,
    )


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
