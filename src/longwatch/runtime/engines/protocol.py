"""What an engine is asked: five calls. It places runners, says when one is gone, and carries calls; it decides nothing.

    place(spec, attempt) -> handle            a runner was started somewhere; two of one run and attempt are refused
    renew(handle, since, stamp, wait) -> told    its lease moved to stamp + span, what happened since, and a new stamp
    stop(handle, reason, origin, grace)       it is asked to end; what is over already is let go of
    read(handle, stream, offset, count)       bytes of its output, events, result or bundle
    locate(handle) -> told                    here (with a stamp), or gone: with its exit record, or swept, or neither

A handle is a plain dictionary that outlives every process of ours: `run, attempt, lease, folder, host, node`. A spec is
what `cli.batch_spec` makes, and travels with its secrets over the engine's own channel only.
"""

from longwatch.errors import LongwatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    Handle = dict[str, Any]
    Told = dict[str, Any]

    class Engine(Protocol):
        """What the bridge serves. A call may return a future of its answer; each raises EngineError."""

        def nodes(self) -> Any:
            """Return the nodes that offer places."""

        def place(self, spec: Mapping[str, Any], attempt: int, lease: int) -> Any:
            """Start a runner."""

        def renew(self, handle: Handle, since: int, stamp: int, wait: int) -> Any:
            """Move its lease."""

        def stop(self, handle: Handle, reason: str, origin: str | None, grace: int | None) -> Any:
            """Ask it to end, or let go of it."""

        def read(self, handle: Handle, stream: str, offset: int, count: int) -> Any:
            """Return bytes of a stream."""

        def locate(self, handle: Handle) -> Any:
            """Find it, or how it has gone."""

        def close(self) -> None:
            """Leave the engine."""


#: The engine cannot be used as it is: nothing is to be tried again. A run is not where it was. Anything else.
REFUSED, GONE, FAILED = "refused", "gone", "failed"
OUTPUT, EVENTS, RESULT, BUNDLE = "output", "events", "result", "bundle"
STREAMS = (OUTPUT, EVENTS, RESULT, BUNDLE)
#: As the reason of a stop: nobody wants to hear of this run any more. Whatever still runs of it ends.
LET_GO = "let go"
#: How long a call that waits for news waits, in ms: then the lease is moved again.
WAIT = 10_000


class EngineError(LongwatchError):
    """A call was not carried out; str(e) is one line, `kind` says what follows from it."""

    def __init__(self, message: str, kind: str = FAILED) -> None:
        super().__init__(message)
        self.kind = kind


def actor_name(run: str, attempt: int) -> str:
    """Return the name of a run's attempt among all that an engine holds."""
    return f"{run}#{attempt}"
