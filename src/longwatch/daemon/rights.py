"""What a caller may do: one from inside a supervised tree may read and restart itself, and no more.

Who calls is told by the kernel (the peer of the private socket), and whose process it is by what it was born with:
its brand, the processes above it, its mark. One that is gone by the time we look gets no more than a reader.
"""

from longwatch.daemon.asking import REFUSED, UNIX, Caller, Refusal
from longwatch.posix import kin
from longwatch.posix.identity import process
from longwatch.posix.nursery import brand_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from longwatch.runtime.service import Service

#: What anybody may ask who may connect.
READS = frozenset(("ping", "status", "describe", "metrics"))
#: How many processes above the caller are looked at.
_DEPTH = 64


def inside(caller: Caller, services: "Iterable[Service]") -> "Service | None":
    """Return the harness whose tree the caller is in, if it is in one."""
    running = [service for service in services if service.running is not None]
    if caller.pid is None or not running:
        return None
    brand, above = brand_of(caller.pid), _above(caller.pid)
    for service in running:
        assert service.running is not None
        child = service.running.child
        nursery = child.nursery
        kept = None if nursery is None else nursery.runs.get(service.running.run_id)
        if (brand and kept is not None and kept.brand == brand) or child.pid in above:
            return service
    for service in running:
        assert service.running is not None
        if kin.carries(caller.pid, f"{kin.RUN_VARIABLE}={service.running.run_id}"):
            return service
    return None


def _above(pid: int) -> list[int]:
    """Return a process and those above it."""
    found: list[int] = []
    info = process(pid)
    while info is not None and info.pid not in found and len(found) < _DEPTH:
        found.append(info.pid)
        info = process(info.ppid)
    return found


def check(
    op: str, args: "dict[str, object]", caller: Caller, services: "Iterable[Service]"
) -> "Service | None":
    """Return the harness that the caller is inside of. Raises Refusal for what such a one may not do."""
    if op in READS or caller.via != UNIX or caller.pid is None:
        return None
    if process(caller.pid) is None:
        raise Refusal(REFUSED, f"{op}: who asked is gone, so it may not do this")
    service = inside(caller, services)
    if service is None or service.harness.allow_control:
        return service
    if op == "restart" and args.get("name") == service.harness.name:
        return service
    raise Refusal(
        REFUSED,
        f"{op}: a program inside {service.harness.name} may read, and restart itself; "
        "allow_control = true in its table lets it do more",
    )
