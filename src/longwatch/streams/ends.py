"""How a turn ended, as a plain record; a bad end is a value, and only `check` raises."""

from typing import Any, Self

from longwatch.core.record import Plain
from longwatch.errors import LongwatchError
from longwatch.reached import LimitReached
from longwatch.streams.graph import Abort

IDLE, RUNNING = "idle", "running"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
STATES = (IDLE, RUNNING, SUCCEEDED, FAILED, CANCELLED)
#: Classes of failures: a limit of time, the limit of equal calls, an end with too little, an error, a wrong answer.
TIMEOUT, LOOPING, INCOMPLETE, ERROR, SCHEMA = "timeout", "looping", "incomplete", "error", "schema"


class TurnResult(Plain):
    """The end of one run of a turn.

    id                  the turn's name
    status              succeeded, failed or cancelled
    message             one line: what happened
    output              what it was for: the last message (with a banner if it was cut short), or what `parse` made of
                        it; None unless it succeeded
    error               the exception behind a failure, if there is one
    schema_error        what `parse` said of the text, if it refused it
    partial_output      the text so far (or a summary of tool results) of whatever is not complete; None: nothing came
    completion_percent  100 complete, 0 nothing to show, None where nobody knows
    trace               calls with their sizes, counts of results and turns; no content
    signal              who aborted it: origin, cause, root, reason, timeout; None if nobody did
    stop_reason         end, error, schema, cancelled, the limit that stopped it, or one of classify.INCOMPLETE
    failure             the class of a failure: timeout, looping, incomplete, error or schema; "" otherwise
    gathered            how many tool results there were
    attempts            how often the stream was opened
    duration_ms         from begin to end, retries included
    """

    __slots__ = (
        "attempts", "completion_percent", "duration_ms", "error", "failure", "gathered", "id", "message", "output",
        "partial_output", "schema_error", "signal", "status", "stop_reason", "trace",
    )  # fmt: skip

    def __init__(
        self, id: str, status: str, message: str, *, stop_reason: str, output: Any = None,  # noqa: A002
        error: BaseException | None = None, schema_error: str | None = None, partial_output: str | None = None,
        completion_percent: int | None = None, trace: dict[str, Any] | None = None,
        signal: Abort | None = None, failure: str = "", attempts: int = 0, duration_ms: int = 0,
    ) -> None:  # fmt: skip
        self.id = id
        self.status = status
        self.message = message
        self.output = output
        self.error = error
        self.schema_error = schema_error
        self.partial_output = partial_output
        self.completion_percent = completion_percent
        self.trace = trace or {}
        self.signal = None if signal is None else _described(signal)
        self.stop_reason = stop_reason
        self.failure = failure
        self.gathered = self.trace.get("results", 0)
        self.attempts = attempts
        self.duration_ms = duration_ms

    @property
    def ok(self) -> bool:
        """Whether it succeeded, complete or not."""
        return self.status == SUCCEEDED

    @property
    def partial(self) -> bool:
        """Whether it succeeded with less than it was meant to."""
        return self.ok and self.partial_output is not None

    @property
    def timeout(self) -> bool:
        """Whether time ran out, here or above."""
        return bool(self.signal and self.signal["timeout"])

    def check(self) -> Self:
        """Return the result if it succeeded. Raises the `LimitReached` that stopped it, else `TurnFailed`."""
        if self.ok:
            return self
        if isinstance(self.error, LimitReached) and self.failure in (TIMEOUT, LOOPING):
            raise self.error
        raise TurnFailed(self) from self.error


class TurnFailed(LongwatchError):
    """A turn failed or was cancelled; `result` has what it left. Not raised by a turn itself, only by `check`."""

    def __init__(self, result: TurnResult) -> None:
        super().__init__(f"turn {result.id} {result.status}: {result.message}")
        self.result = result


def _described(abort: Abort) -> dict[str, Any]:
    return {
        "origin": abort.origin, "cause": abort.cause, "root": abort.root, "reason": abort.reason,
        "timeout": abort.timeout,
    }  # fmt: skip


__all__ = [
    "CANCELLED", "ERROR", "FAILED", "IDLE", "INCOMPLETE", "LOOPING", "RUNNING", "SCHEMA", "STATES", "SUCCEEDED",
    "TIMEOUT", "TurnFailed", "TurnResult",
]  # fmt: skip
