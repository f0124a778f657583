"""One more attempt after a cut stream, for turns that change nothing.

A stream that breaks off is the network's fault, not the agent's, so it is worth another try; but only where the first
one left nothing behind in the world. Everything that stopped a turn on purpose stays as it is.
"""

from collections.abc import Awaitable, Callable

from longwatch.errors import UsageError
from longwatch.streams.classify import STREAM_INCOMPLETE
from longwatch.streams.ends import FAILED, TurnResult
from longwatch.streams.loops import sleep as loop_sleep

#: Long enough for a connection that was shed to be accepted again, in seconds.
DELAY = 1.0


class Retry:
    """Whether, and when, a turn is tried again. `read_only`: it changes nothing; only then it is.

    `times` is 0 or 1; `gate` is asked before the delay and after it, and its no is final, as is what it raises.
    """

    def __init__(
        self,
        read_only: bool = False,
        times: int = 1,
        delay: float = DELAY,
        gate: Callable[[], bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = loop_sleep,
    ) -> None:
        if times not in (0, 1):
            raise UsageError(f"times {times!r}: a cut stream is tried again once, or (0) not at all")
        self.times = times if read_only else 0
        self.delay = delay
        self.sleep = sleep
        self._gate = gate

    def allowed(self) -> bool:
        """Ask the gate."""
        if self._gate is None:
            return True
        try:
            return bool(self._gate())
        except Exception:  # noqa: BLE001 - who cannot say yes has said no
            return False


async def attempts(
    attempt: Callable[[int], Awaitable[TurnResult]],
    retry: Retry,
    *,
    aborted: Callable[[], bool],
    pause: Callable[[], Awaitable[object]],
) -> TurnResult:
    """Make the attempt, and one more where that is right; what the last one made came to is returned as it is.

    `pause` waits for the delay, and returns early when the turn is aborted.
    """
    result = await attempt(1)
    if retry.times == 0 or result.status != FAILED or result.stop_reason != STREAM_INCOMPLETE:
        return result
    if aborted() or not retry.allowed():
        return result
    await pause()
    if aborted() or not retry.allowed():
        return result
    return await attempt(2)


__all__ = ["DELAY", "Retry", "attempts"]
