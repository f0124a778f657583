"""Between whoever asks the supervisor and the supervisor: who asks, what a refusal is, an answer that comes later."""

from longwatch.core.record import Plain
from longwatch.errors import LongwatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = dict[str, Any]

#: Why something is not done: nothing has that name; the caller may not; it cannot be done now; the question is
#: wrong; it was tried and failed.
NO_SUCH, REFUSED, NOT_NOW, USAGE, FAILED = "no_such", "refused", "not_now", "usage", "failed"
KINDS = (NO_SUCH, REFUSED, NOT_NOW, USAGE, FAILED)
#: Where a question comes from: the private socket, a TCP port with a token, a verified webhook, the supervisor.
UNIX, TCP, HOOK, SELF = "unix", "tcp", "hook", "self"


class Caller(Plain):
    """Who asks. `pid` and `uid` are what the kernel says of the other end of the private socket; None elsewhere."""

    __slots__ = ("pid", "uid", "via")

    def __init__(self, pid: int | None = None, uid: int | None = None, via: str = SELF) -> None:
        self.pid = pid
        self.uid = uid
        self.via = via


class Refusal(LongwatchError):
    """What was asked for is not done. `str()` is one line, `kind` one of `KINDS`, `nearest` a name that exists."""

    __module__ = "longwatch.daemon"

    def __init__(self, kind: str, text: str, nearest: str | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.nearest = nearest

    def as_dict(self) -> dict[str, object]:
        """Return it as values that JSON knows."""
        return {"kind": self.kind, "text": str(self), "nearest": self.nearest}


class Later:
    """An answer that is not there yet. It is given, or refused, once; whatever comes after that is passed over."""

    __slots__ = ("_answer", "_cancelled", "_heard", "_hearers", "_refusal")

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._refusal: Refusal | None = None
        self._hearers: list[Callable[[Answer | None, Refusal | None], object]] = []
        self._cancelled: Callable[[], object] | None = None
        self._heard = False

    @property
    def over(self) -> bool:
        """Whether it was given, refused or cancelled."""
        return self._heard

    def give(self, answer: "Answer") -> None:
        """Answer."""
        self._end(answer, None)

    def refuse(self, refusal: Refusal) -> None:
        """Say why there will be no answer."""
        self._end(None, refusal)

    def then(self, hear: "Callable[[Answer | None, Refusal | None], object]") -> None:
        """Call `hear` with the answer or the refusal, now if it is there already; never after `cancel`."""
        if self._answer is not None or self._refusal is not None:
            hear(self._answer, self._refusal)
        elif not self._heard:
            self._hearers.append(hear)

    def on_cancel(self, told: "Callable[[], object]") -> None:
        """Call `told` when nobody waits any more."""
        self._cancelled = told

    def cancel(self) -> None:
        """Nobody waits any more: the asker is gone. What was asked for goes on."""
        if self._heard:
            return
        self._heard = True
        self._hearers.clear()
        if self._cancelled is not None:
            self._cancelled()

    def _end(self, answer: "Answer | None", refusal: Refusal | None) -> None:
        if self._heard:
            return
        self._heard = True
        self._answer, self._refusal = answer, refusal
        hearers, self._hearers = self._hearers, []
        for hear in hearers:
            hear(answer, refusal)
