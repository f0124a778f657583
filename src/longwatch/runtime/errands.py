"""What a loop has its keeper do without waiting for it: programs to start, runs to forget.

Keeper and loop work side by side: while it starts one program we prepare the next, and whoever waits for a program
gets it when there is nothing to ask for. One that somebody has stopped holds nobody up; what it does not answer in
time is withdrawn.
"""

import os
from collections import deque

from longwatch.posix.spawn import SpawnError
from longwatch.runtime import talk
from longwatch.runtime.talk import KeeperError, NoKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.spawn import Launch
    from longwatch.runtime.driver import Timer
    from longwatch.runtime.host import Host
    from longwatch.runtime.kept import Keeper, KeptChild
    from longwatch.runtime.wire import Message

#: So many starts are under way at most: neither side waits for the other, and their words fit into the socket.
DEPTH = 16
#: So many programs are handed on in a row: to follow one takes longer than to ask for one.
HANDED = 4
#: How soon (ms) it is tried again to say something to a keeper that takes nothing.
AGAIN = 50


class Start:
    """A start that somebody wants. `number` is that of the question, once it was asked."""

    __slots__ = ("deadline", "done", "launch", "number", "run", "token")

    def __init__(
        self, launch: "Launch", run: str, done: "Callable[[KeptChild | SpawnError], object]"
    ) -> None:
        self.launch = launch
        self.run = run
        self.done = done
        self.token = os.urandom(8).hex()
        self.deadline: int | None = None
        self.number = 0


class Errands:
    """The errands of one keeper, in the loop of a host; nobody else asks it for starts meanwhile."""

    def __init__(self, host: "Host", keeper: "Keeper") -> None:
        self._host = host
        self._keeper = keeper
        self._queue: list[Start] = []
        self._under_way: dict[int, Start] = {}
        #: Starts that were answered, each with the program or why there is none: nobody was told yet.
        self._answered: deque[tuple[Start, KeptChild | SpawnError]] = deque()
        self._handing = False
        #: What could not be said yet; each is tried again, and returns whether it could be.
        self._unsaid: list[Callable[[], bool]] = []
        self._timer: Timer | None = None
        self._fd = keeper.talk.wire.fileno()
        host.reactor.add(self._fd, self.heard)
        keeper.talk.overheard = lambda: host.soon(lambda now: self.heard())

    def start(self, launch: "Launch", run: str, done: "Callable[[KeptChild | SpawnError], object]") -> None:
        """Have a program started; `done` is given the program, or why there is none: NoKeeper where the keeper has gone."""
        self._queue.append(Start(launch, run, done))
        self.heard()

    def forget(self, run: str) -> None:
        """Have the keeper forget a run, as soon as it listens."""
        self._say(lambda: self._keeper.forget(run, 0))

    def heard(self) -> None:
        """Take what the keeper has answered, and ask for more."""
        if self._fd < 0:
            return
        try:
            answers = self._keeper.talk.heard()
        except NoKeeper as error:
            self._lost(error)
            return
        if answers and not self._handing:
            self._handing = True
            self._host.soon(self._hand_on)
        for number, message, lent in answers:
            start = self._under_way.pop(number)
            self._answered.append((start, self._made(start, message, lent)))
        self._go_on()

    def bury(self) -> None:
        """The keeper is gone: take its last words, and tell whoever waits."""
        while self._fd >= 0:
            self.heard()

    def close(self) -> None:
        """Let go of the connection. Whoever still waits is not told; what is under way, the next master finds."""
        self._host.cancel(self._timer)
        if self._fd >= 0:
            self._host.reactor.remove(self._fd)
            self._fd = -1
        self._queue.clear()
        self._under_way.clear()
        for _, told in self._answered:
            if not isinstance(told, SpawnError):
                told.abandon()
        self._answered.clear()

    # -- on the way

    def _hand_on(self, now: int) -> None:
        """Tell some of those who wait; before the next ones, what has come meanwhile is seen to."""
        left = HANDED
        try:
            # Whoever is told may find that the keeper is gone, and tell the others.
            while self._answered and left:
                left -= 1
                start, told = self._answered.popleft()
                start.done(told)
        finally:
            self._handing = bool(self._answered)
            if self._handing:
                self._host.at(now + 1, self._hand_on)

    def _go_on(self) -> None:
        """Ask for as many starts as may be under way."""
        while self._queue and len(self._under_way) < DEPTH and self._fd >= 0:
            start = self._queue[0]
            start.deadline = start.deadline or self._host.now() + talk.ANSWER_LIMIT
            try:
                start.number = self._keeper.post(start.launch, start.run, start.token)
            except BlockingIOError:
                break
            except NoKeeper as error:
                self._lost(error)
                return
            except SpawnError as error:
                self._queue.remove(start)
                start.done(error)
                continue
            self._queue.remove(start)
            self._under_way[start.number] = start
        self._set_timer()

    def _made(self, start: Start, message: "Message", lent: dict[str, int]) -> "KeptChild | SpawnError":
        try:
            return self._keeper.child(talk.said(message), lent)
        except KeeperError as error:
            self._withdraw(start)
            return error
        except SpawnError as error:
            return error

    def _lost(self, error: NoKeeper) -> None:
        """It has died: end what it may have begun, and tell whoever waits."""
        begun, waiting = list(self._under_way.values()), list(self._queue)
        answered, self._answered = self._answered, deque()
        self.close()
        for start, told in answered:
            start.done(told)
        for start in begun:
            self._keeper.bury_start(start.run)
        for start in (*begun, *waiting):
            start.done(error)

    # -- one that does not answer

    def _withdraw(self, start: Start) -> None:
        self._keeper.doubt(start.run)
        self._say(lambda: self._keeper.withdraw(start.run, start.token, 0))

    def _say(self, act: "Callable[[], bool]") -> None:
        if self._unsaid or not act():
            self._unsaid.append(act)
            self._set_timer()

    def _set_timer(self) -> None:
        """Wake up when the oldest start is overdue, or before; soon where something could not be said."""
        oldest = next(iter(self._under_way.values()), None)
        due = None if oldest is None else oldest.deadline
        if self._unsaid or (self._queue and len(self._under_way) < DEPTH):
            due = self._host.now() + AGAIN
        if due is None or self._fd < 0 or (self._timer is not None and self._timer.at <= due):
            return
        self._host.cancel(self._timer)
        self._timer = self._host.at(due, self._woken)

    def _woken(self, now: int) -> None:
        self._timer = None
        while self._unsaid and self._unsaid[0]():
            del self._unsaid[0]
        for start in [*self._under_way.values(), *self._queue[:1]]:
            if start.deadline is not None and start.deadline <= now:
                self._give_up(start)
        self._go_on()

    def _give_up(self, start: Start) -> None:
        if self._under_way.pop(start.number, None) is None:
            self._queue.remove(start)
        else:
            self._keeper.talk.give_up(start.number)
            self._withdraw(start)
        start.done(self._keeper.talk.silent())
