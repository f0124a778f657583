"""When longwatch itself is broken: the program goes on, unwatched, to its own end. A broken watchdog must not bite."""

import os

from longwatch.cli.attend import leave_as
from longwatch.cli.main import ENDING, PASSED_ON, Front, say
from longwatch.core.spec import DRAIN_TOTAL
from longwatch.errors import place_of
from longwatch.options import whole_id
from longwatch.posix import now
from longwatch.posix.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_TURN = 1_000


def go_on_unwatched(front: Front, error: Exception) -> "NoReturn":
    """Say where our defect is, keep moving bytes and passing on signals, and end as the program does."""
    say(
        f"{front.name}: a defect of longwatch, please report it: {error!r}{place_of(error)}; it goes on unwatched"
    )
    process = front.process
    process.changed = None
    front.ear.act(lambda signum: _pass_on(front, signum))
    try:
        _pump(front)
    except Exception as worse:  # noqa: BLE001 - not even its bytes can be moved: nothing is left to offer
        say(f"{front.name}: and it cannot go on: {worse!r}")
    _end_tree(front)
    if front.terminal is not None:
        front.terminal.close()
    code, signal = process.ended or (None, None)
    reason = "unknown" if process.ended is None else "exited" if signal is None else "signaled"
    leave_as(front, reason, code, signal)


def _pump(front: Front) -> None:
    process = front.process
    while process.ended is None:
        process.reactor.poll(_TURN)
        process.look()
    # Whoever else holds its pipes is not waited for longer than in a watched run.
    process.run_until(now() + DRAIN_TOTAL)


def _pass_on(front: Front, signum: int) -> None:
    if signum in (*ENDING, *PASSED_ON):
        try:
            os.killpg(front.process.child.pid, signum)
        except OSError:
            return  # its group is gone, or somebody else's


def _end_tree(front: Front) -> None:
    """End what it left; its own helpers are no work of ours to keep."""
    leader = front.process.child.identity
    if leader is not None:
        Tree(
            leader, whole_id(os.environ, front.run_id), subreaper=front.subreaper, ignore=set(front.strangers)
        ).kill()
    front.process.look()
