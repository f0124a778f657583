"""What a watch is told: what happened, in the past tense.

Spans and instants are integer milliseconds on the watch's clock. Whoever tells an observation passes the
instant at which it happened as `now`; wall-clock facts become durations before they come here.
"""

from longwatch.core.record import Plain


class Observation(Plain):
    """Base of everything a watch can be told."""

    __slots__ = ()


class ProgressSeen(Observation):
    """A declared or undeclared source moved; `count` moves are told as one, stamped with the last."""

    __slots__ = ("count", "source")

    def __init__(self, source: str, count: int = 1) -> None:
        self.source = source
        self.count = count


class AliveSeen(Observation):
    """A sign of life that is no progress: a keep-alive, a retry, a line that a non-progress rule matched."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source


class CallBegan(Observation):
    """The program called a tool; its result is awaited. `mark` is equal for equal calls (`repeats.fingerprint`)."""

    __slots__ = ("call", "mark", "tool")

    def __init__(self, call: str, tool: str = "", mark: str = "") -> None:
        self.call = call
        self.tool = tool
        self.mark = mark


class CallProgressed(Observation):
    """A tool reported progress of its own call (never a keep-alive)."""

    __slots__ = ("call",)

    def __init__(self, call: str) -> None:
        self.call = call


class CallEnded(Observation):
    """A call's result came; `ok` is whether it succeeded, `mark` is equal for equal results."""

    __slots__ = ("call", "mark", "ok")

    def __init__(self, call: str, ok: bool = True, mark: str = "") -> None:
        self.call = call
        self.ok = ok
        self.mark = mark


class Paused(Observation):
    """The provider said wait: for `span` ms from now, or for nobody knows how long (None: it holds nothing)."""

    __slots__ = ("span",)

    def __init__(self, span: int | None = None) -> None:
        self.span = span


class Resumed(Observation):
    """The provider's pause is over."""

    __slots__ = ()


class Asked(Observation):
    """The program asked a human and waits for the answer."""

    __slots__ = ("question",)

    def __init__(self, question: str) -> None:
        self.question = question


class Answered(Observation):
    """A question was answered."""

    __slots__ = ("question",)

    def __init__(self, question: str) -> None:
        self.question = question


class QuietBegan(Observation):
    """Somebody inside the run asked for leave to be silent for `span` ms."""

    __slots__ = ("span",)

    def __init__(self, span: int) -> None:
        self.span = span


class QuietEnded(Observation):
    """The quiet span is over before its time."""

    __slots__ = ()


class TurnEnded(Observation):
    """The program finished its turn: nothing is expected until the next one begins."""

    __slots__ = ()


class TurnBegan(Observation):
    """The human (or a trigger) spoke: the program is expected to work again."""

    __slots__ = ()


class ResultSeen(Observation):
    """The final result of the run was seen; `ok` is the result's own status."""

    __slots__ = ("ok",)

    def __init__(self, ok: bool = True) -> None:
        self.ok = ok


class EffectChanged(Observation):
    """The fingerprint of the work changed: a tree, the commits, a check command."""

    __slots__ = ()


class SourceLost(Observation):
    """A source can no longer be read: its silence means nothing."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source


class SourceFound(Observation):
    """A lost or never seen source can be read (again)."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source


class StreamRestarted(Observation):
    """The event stream was opened anew: calls open in the old one will never end."""

    __slots__ = ()


class Lapsed(Observation):
    """Nobody watched for `span` ms from now on: asleep, stopped, blocked, or our output had no reader."""

    __slots__ = ("span",)

    def __init__(self, span: int) -> None:
        self.span = span


class Prepared(Observation):
    """The post-mortem is taken and the hook before the stop is over: the tree may be signalled."""

    __slots__ = ()


class Vetoed(Observation):
    """The hook before the stop said no."""

    __slots__ = ("why",)

    def __init__(self, why: str = "") -> None:
        self.why = why


class SpawnFailed(Observation):
    """The program could not be started; `status` is what a shell would exit with (126 or 127)."""

    __slots__ = ("message", "status")

    def __init__(self, message: str, status: int = 127) -> None:
        self.message = message
        self.status = status


class Exited(Observation):
    """The leader ended: with a code, by a signal, or (both None) in a way nobody could read."""

    __slots__ = ("code", "signal")

    def __init__(self, code: int | None = None, signal: int | None = None) -> None:
        self.code = code
        self.signal = signal


class Drained(Observation):
    """All output streams reached their end."""

    __slots__ = ()


class TreeGone(Observation):
    """A sweep of the whole tree found nothing alive."""

    __slots__ = ()


class LeftoversFound(Observation):
    """After the leader's end the sweep found these processes alive."""

    __slots__ = ("processes",)

    def __init__(self, processes: tuple[str, ...]) -> None:
        self.processes = processes


class StopRequested(Observation):
    """Somebody wants the run to end: a verb, the API, a parent (`cancelled`) or a signal (`interrupted`)."""

    __slots__ = ("grace", "origin", "reason", "signal")

    def __init__(
        self, reason: str, origin: str | None = None, signal: int = 15, grace: int | None = None
    ) -> None:
        self.reason = reason
        self.origin = origin
        self.signal = signal
        self.grace = grace
