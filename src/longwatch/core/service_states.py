"""The states of a harness, and the only ways from one to another.

    stopped ──> starting ──> running ──> restarting ──> degraded ──> starting
                                └──────> stopping ──> stopped
    failed ──> starting

`stopping` is an end that somebody wants, or one that cannot be proven; `restarting` an incarnation on its way out with
another one wanted, and the wait before that; `degraded` the same wait once it flaps; `failed` has given up. A harness
that is wanted and held back is `stopped`, with its holds beside it.
"""

STOPPED, STARTING, RUNNING, DEGRADED, RESTARTING, STOPPING, FAILED = STATES = (
    "stopped", "starting", "running", "degraded", "restarting", "stopping", "failed"
)  # fmt: skip

#: state -> the states that may follow it.
EDGES: dict[str, tuple[str, ...]] = {
    STOPPED: (STARTING,),
    STARTING: (RUNNING, RESTARTING, DEGRADED, STOPPING, STOPPED, FAILED),
    RUNNING: (RESTARTING, DEGRADED, STOPPING, STOPPED, FAILED),
    RESTARTING: (STARTING, DEGRADED, STOPPING, STOPPED, FAILED),
    DEGRADED: (STARTING, STOPPED),
    STOPPING: (STOPPED,),
    FAILED: (STARTING,),
}


class IllegalEdge(AssertionError):
    """The machine wanted to go where no edge leads: a defect of ours, never the user's."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__(f"no edge leads from {before} to {after}")


def check(before: str, after: str) -> None:
    """Raise IllegalEdge unless an edge leads from the one state to the other."""
    if after not in EDGES[before]:
        raise IllegalEdge(before, after)
