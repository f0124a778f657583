"""Notices on their way: a bounded queue in front of the channels, four commands at once, each tried a few times.

Nothing waits here and nothing is lost in silence: what does not fit is dropped and counted, what a channel never
took is shown. To one channel the notices about a harness go one after the other, so that no end arrives before its
trouble.
"""

from longwatch.core import daemon_facts as d
from longwatch.core.spec import SECOND
from longwatch.notify import channels as ways
from longwatch.notify.wording import cleaned, line
from longwatch.paths import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.facts import Fact
    from longwatch.notify.channels import Apprise, Command, Hook, RunBounded

    Channels = Mapping[str, Hook | Apprise]
    Redact = Callable[[str], str]
    Later = Callable[[int, Callable[[int], object]], object]

AT_ONCE, QUEUE = 4, 64
#: When a channel that failed is tried again, in ms after each failure.
AGAIN = (2 * SECOND, 8 * SECOND, 30 * SECOND)
DROPPED = "dropped"
_NEVER = 1 << 62


class _Notice:
    """What becomes of one notice in all channels; `settled(delivered)` is called when that is known."""

    __slots__ = ("left", "settled")

    def __init__(self, settled: "Callable[[bool], object]") -> None:
        self.settled = settled
        self.left = 0

    def over(self, *, delivered: bool) -> None:
        """One channel has taken it, or never will."""
        self.left -= 1
        if delivered or not self.left:
            settled, self.settled = self.settled, _known
            settled(delivered)


class _Delivery:
    """One notice on its way to one channel."""

    __slots__ = ("busy", "channel", "command", "document", "due", "notice", "tries")

    def __init__(self, channel: str, told: "Mapping[str, Any]", notice: _Notice, due: int) -> None:
        self.channel = channel
        self.document = told
        self.notice = notice
        self.tries = 0
        self.due = due
        self.busy = False
        self.command: Command | None = None

    def concerns(self, other: "_Delivery") -> bool:
        """Whether both go the same way, about the same harness."""
        mine, theirs = self.document["harnesses"], other.document["harnesses"]
        return self.channel == other.channel and (not mine or not theirs or bool(set(mine) & set(theirs)))


class _State:
    """How a channel did last, and how many notices it never took."""

    __slots__ = ("at", "error", "result", "undelivered")

    def __init__(self) -> None:
        self.result: str | None = None
        self.error = ""
        self.at = 0
        self.undelivered = 0


class Outbox:
    """Sends documents by all channels. `count(event, result)` hears each result, `changed` that something moved."""

    def __init__(
        self, run_bounded: "RunBounded", clock: "Callable[[], int]", wall: "Callable[[], int]", later: "Later",
        tell: "Callable[[Fact], object]", count: "Callable[[str, str], object]", changed: "Callable[[], object]",
    ) -> None:  # fmt: skip
        self._run_bounded = run_bounded
        self._clock = clock
        self._wall = wall
        self._later = later
        self._tell = tell
        self._count = count
        self._changed = changed
        self._queue: list[_Delivery] = []
        self._states: dict[str, _State] = {}
        self._armed: int | None = None
        self._closed: Callable[[], object] | None = None
        self.channels: Channels = {}
        self._timeout = 0
        self._env: Mapping[str, str] = {}
        self._redact: Redact = str

    def settle(self, channels: "Channels", timeout: int, env: "Mapping[str, str]", redact: "Redact") -> None:
        """Take other channels; what waits for one that is gone is given up."""
        self.channels, self._timeout, self._env, self._redact = channels, timeout, env, redact
        self._states = {name: self._states.get(name) or _State() for name in channels}
        for delivery in [one for one in self._queue if one.channel not in channels and not one.busy]:
            self._over(delivery, delivered=False)

    # -- one way

    def put(self, told: "Mapping[str, Any]", settled: "Callable[[bool], object]") -> None:
        """Queue a document for every channel. `settled` hears whether any has taken it; at once where none can."""
        notice, now = _Notice(settled), self._clock()
        room = max(0, QUEUE - len(self._queue))
        chosen = list(self.channels)[:room]
        for _ in range(len(self.channels) - len(chosen)):
            self._count(told["event"], DROPPED)
        notice.left = len(chosen)
        self._queue += [_Delivery(name, told, notice, now) for name in chosen]
        if not chosen:
            settled(False)
        self._arm()

    def resume(self, channel: str, told: "Mapping[str, Any]", redact: "Redact") -> None:
        """Queue what an earlier daemon could not send. Raises KeyError, TypeError for what it is not."""
        notice = _Notice(_known)
        notice.left = 1
        list(told["harnesses"])
        self._queue.append(_Delivery(channel, {"event": "", **cleaned(told, redact)}, notice, self._clock()))
        self._arm()

    def start(
        self, channel: "Hook | Apprise", told: "Mapping[str, Any]", done: "Callable[[str, str], object]"
    ) -> "Command | None":
        """Start a channel on a document, once, past the queue. `done(result, error)`: one line without a secret."""

        def over(result: str, error: str) -> None:
            error = line(error, self._redact, 2 * ways.OUTPUT)
            state = self._state(channel.name)
            state.result, state.error, state.at = result, error, self._wall()
            self._count(told["event"], result)
            done(result, error)

        return ways.send(
            channel,
            told,
            self._run_bounded,
            limit=self._timeout,
            env=self._env,
            redact=self._redact,
            done=over,
        )

    def _state(self, name: str) -> _State:
        """Return how a channel does; that of one which is gone meanwhile is nobody's concern."""
        return self._states.get(name) or _State()

    # -- the queue

    def _arm(self) -> None:
        """Have `_step` called when something can be sent."""
        due = min((one.due for one in self._sendable()), default=_NEVER)
        if due < _NEVER and (self._armed is None or due < self._armed):
            self._armed = due
            self._later(due, self._wake)

    def _wake(self, now: int) -> None:
        # A later timer may still stand when an earlier one was set: it finds nothing to do.
        if self._armed is not None and now >= self._armed:
            self._armed = None
        self._step(now)

    def _sendable(self) -> list[_Delivery]:
        """Return what nothing older stands in the way of, and only while a command more may run."""
        if sum(one.busy for one in self._queue) >= AT_ONCE:
            return []
        free = []
        for at, one in enumerate(self._queue):
            if not one.busy and not any(one.concerns(older) for older in self._queue[:at]):
                free.append(one)
        return free

    def _step(self, now: int) -> None:
        while self._closed is not _known:
            ready = [one for one in self._sendable() if one.due <= now]
            if not ready:
                break
            self._send(ready[0])
        if self._closed is None:
            self._arm()
        elif not any(one.busy for one in self._queue):
            self._finish()

    def _send(self, delivery: _Delivery) -> None:
        channel = self.channels.get(delivery.channel)
        if channel is None:
            self._over(delivery, delivered=False)
            return
        delivery.busy = True
        delivery.tries += 1
        command = self.start(
            channel, delivery.document, lambda result, error: self._done(delivery, result, error)
        )
        delivery.command = command if delivery.busy else None

    def _done(self, delivery: _Delivery, result: str, error: str) -> None:
        delivery.busy, delivery.command = False, None
        now = self._clock()
        if result == ways.OK:
            self._over(delivery, delivered=True)
            self._tell(d.NotifyDelivered(now, delivery.channel))
        elif self._closed is not None:
            delivery.due = _NEVER
        elif delivery.tries <= len(AGAIN):
            delivery.due = now + AGAIN[delivery.tries - 1]
        else:
            self._state(delivery.channel).undelivered += 1
            self._over(delivery, delivered=False)
            self._tell(d.NotifyFailed(now, delivery.channel, error))
        self._changed()
        # Not from inside a command's end: whoever drives it is still at it.
        self._later(now, self._wake)

    def _over(self, delivery: _Delivery, *, delivered: bool) -> None:
        self._queue.remove(delivery)
        delivery.notice.over(delivered=delivered)

    # -- the end, and what is seen of it

    def close(self, closed: "Callable[[], object]", bound: int) -> None:
        """Send what waits, once each, and call `closed` when that is over, after `bound` ms at most."""
        now = self._clock()
        self._closed = closed
        for delivery in self._queue:
            delivery.due = now
        self._later(now + bound, lambda _now: self._finish())
        self._step(now)

    def _finish(self) -> None:
        closed, self._closed = self._closed, _known
        for delivery in self._queue:
            if delivery.command is not None:
                delivery.command.cancel()
        if closed is not None and closed is not _known:
            closed()

    def unsent(self) -> "list[list[Any]]":
        """Return what is still on its way: channel and document."""
        return [[one.channel, dict(one.document)] for one in self._queue]

    def snapshot(self) -> "dict[str, Any]":
        """Return how the channels do."""
        running = sum(one.busy for one in self._queue)
        shown = [
            {
                "channel": name,
                "result": state.result,
                "error": state.error or None,
                "at": rfc3339(state.at) if state.result else None,
                "undelivered": state.undelivered,
            }
            for name, state in self._states.items()
        ]
        return {"channels": shown, "queued": len(self._queue) - running, "running": running}


def _known(_delivered: object = None) -> None:
    """Nobody waits for it any more."""
