"""The keeper: a parent that outlives its master.

It starts programs, adopts and reaps what they leave, holds their pipes and terminals, and lends these to its master,
the process that judges. It decides nothing, so it has no reason to change, to be upgraded or to fail: a master that
is killed loses no line, no exit status and no process, and the next one is lent everything.

One thread, one loop, and nothing is imported after the start: the package may be gone by then. What goes wrong in one
request or one look is answered or tried again; it must not take the programs along.
"""

import _socket
import fcntl
import os
import termios  # noqa: F401 - what a terminal needs later is loaded now
import time

from longwatch.posix import now
from longwatch.posix.identity import identity
from longwatch.posix.libc import become_subreaper
from longwatch.posix.nursery import Kept, Nursery, Runs, new_brand, wear
from longwatch.posix.reactor import Reactor
from longwatch.posix.signals import SignalPipe
from longwatch.posix.spawn import SpawnError, reset_dispositions, spawn
from longwatch.posix.tree import NOBODY, Tree
from longwatch.runtime import wire
from longwatch.runtime.held import LINE, Held
from longwatch.runtime.launches import Stage
from longwatch.runtime.masters import FAILED, Masters

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import ClassVar, NoReturn

    from longwatch.runtime.masters import Answer
    from longwatch.runtime.wire import Message, Wire
else:
    import _signal

KEEP, STOP = "keep", "stop"
#: What is not gone after so many calls of `Tree.kill` is beyond us.
ATTEMPTS = 5
#: Seconds before the next try of what failed for want of something, such as a descriptor.
NAP = 0.01

# Whatever a terminal, the job control or an impatient human sends to everybody. A handler that does nothing, unlike
# an ignored signal, is not inherited by programs.
_DEAF_TO = (
    _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU,
    _signal.SIGALRM, _signal.SIGUSR1, _signal.SIGUSR2,
)  # fmt: skip


class Everything(Tree):
    """All that lives below us, as one tree without a leader; `reap` knows who is a leader and has to stay."""

    def __init__(self, reap: "Callable[[], object]") -> None:
        super().__init__(NOBODY, "", subreaper=True)
        self._reap = reap

    def reap(self) -> None:
        """Collect the orphans that have ended."""
        self._reap()


class Parent:
    """All runs of one keeper. `first` is the connection to the process that started it.

    With `keeps` it holds everything while it has no master; else it stops everything then: TERM, `grace`
    milliseconds, KILL. `adopts` is whether orphans come to us at all.
    """

    def __init__(self, first: "Wire", *, keeps: bool, grace: int, adopts: bool) -> None:
        me = identity(os.getpid())
        assert me is not None
        self.me = me
        self.keeps = keeps
        self.grace = grace
        self.adopts = adopts
        self.runs: dict[str, Held] = {}
        self.reactor = Reactor()
        self._stage = Stage()
        self._signals = SignalPipe((_signal.SIGCHLD, _signal.SIGTERM, *_DEAF_TO))
        self._kept = Runs()
        self._leaders: set[int] = set()
        self._orphans = Tree(NOBODY, "", subreaper=True, ignore=self._leaders)
        self._everything = Everything(self.look)
        self._news = False
        self._over = False
        #: The request that everything be stopped, which is answered last.
        self._last: Message | None = None
        self.reactor.add(self._signals.fileno(), self._hear_signals)
        self._masters = Masters(
            self.reactor, first, serve=self._serve, greeting=self._greeting, sent=self._sent, lost=self._lost
        )

    # -- the loop

    def serve(self) -> None:
        """Serve masters until there is nothing to keep any more, then end what is left."""
        while not self._over:
            self._turn(None)
        left = self.stop_all() if self.runs or not self.keeps else []
        self._masters.close()
        if self._last is not None and self._masters.master is not None:
            self._masters.say(self._masters.master, {"id": self._last["id"], "left": left})

    def _turn(self, limit: int | None) -> None:
        try:
            self.reactor.poll(limit)
        except Exception:  # noqa: BLE001 - a defect of ours must not take the programs along
            time.sleep(NAP)

    def _hear_signals(self) -> None:
        """TERM says that all this is to end. For the rest it is enough to have woken up."""
        if _signal.SIGTERM in self._signals.read():
            self.keeps = False
            self._over = True
        self.look()

    def look(self) -> None:
        """Reap the orphans that have ended, and note which leaders have that have no pidfd."""
        self._news = True
        for held in [held for held in self.runs.values() if held.child.pidfd is None]:
            self._ended(held)
        self._orphans.reap()

    def _lost(self) -> None:
        """Nobody is there: go on only where there is something to hold, and a way to find us."""
        self._over = self._over or not (self.keeps and self._masters.listens and self.runs)

    def _greeting(self) -> "Message":
        return {
            "version": wire.VERSION,
            "pid": self.me.pid,
            "start": self.me.start,
            "boot": self.me.boot,
            "adopts": self.adopts,
            "runs": self._records(),
        }

    # -- requests

    def _serve(self, message: "Message", lent: dict[str, int]) -> "Answer | None":
        return self._REQUESTS[message["op"]](self, message, lent)

    def _spawn(self, message: "Message", lent: dict[str, int]) -> "Answer":
        """Start a run, or lend the one that has this id already: whoever asks twice gets one program."""
        held = self.runs.get(message["run"])
        if held is None:
            if self._over:
                raise SpawnError("the keeper is being stopped, and starts nothing more", FAILED)
            held = self._start(message, lent)
        return held.record(), held.lend(line=not self.keeps)

    def _start(self, message: "Message", lent: dict[str, int]) -> Held:
        run, brand = message["run"], new_brand()
        try:
            launch = self._stage.set(message, lent)
            branded = wear(brand)
            child = spawn(launch)
        finally:
            self._stage.clear()
        held = self.runs[run] = Held(run, launch.argv[0], child, brand if branded else 0, message["token"])
        self._leaders.add(child.pid)
        self._kept.put(run, Kept(held.leader, held.brand))
        if child.pidfd is not None:
            self.reactor.add(child.pidfd, lambda: self._ended(held))
        return held

    def _ended(self, held: Held) -> None:
        """Note that a leader has ended, and tell. It stays: it pins its group."""
        if held.look():
            self._news = True
            if held.child.pidfd is not None:
                self.reactor.remove(held.child.pidfd)
            if held.unwanted:
                self._drop(held)

    def _lend(self, message: "Message", lent: dict[str, int]) -> "Answer":
        held = self.runs.get(message["run"])
        if held is None:
            raise SpawnError(f"the keeper has no run {message['run']}", FAILED)
        return held.record(), held.lend(line=not self.keeps)

    def _sent(self, answer: "Answer") -> None:
        """A lending is over: what the master alone should have is its alone now."""
        message, fds = answer
        if not fds:
            return
        if LINE in fds:
            os.close(fds[LINE])
        held = self.runs.get(message["run"])
        if held is not None and not self.keeps:
            # A program that is to go with its master should see the end of what the master says.
            held.shut_stdin()

    def _look_at(self, message: "Message", lent: dict[str, int]) -> "Answer":
        held = self.runs.get(message["run"])
        if held is None:
            raise SpawnError(f"the keeper has no run {message['run']}", FAILED)
        held.look()
        return held.record(), {}

    def _list(self, message: "Message", lent: dict[str, int]) -> "Answer":
        return {"runs": self._records()}, {}

    def _records(self) -> "list[Message]":
        return [held.record() for held in self.runs.values()]

    def _forget(self, message: "Message", lent: dict[str, int]) -> None:
        """Drop a run: its end is known, or nobody will ask for it."""
        held = self.runs.get(message["run"])
        if held is not None:
            held.unwanted = True
            self._ended(held)

    def _shut(self, message: "Message", lent: dict[str, int]) -> None:
        held = self.runs.get(message["run"])
        if held is not None:
            held.shut_stdin()

    def _withdraw(self, message: "Message", lent: dict[str, int]) -> None:
        """End a run whose start was answered too late: its master believes that it never was."""
        held = self.runs.get(message["run"])
        if held is not None and held.token == message["token"]:
            nursery = Nursery(self.me, held.run, self._kept)
            Tree(held.leader, held.run, subreaper=False, nursery=nursery).kill()
            self._forget(message, lent)

    def _stop(self, message: "Message", lent: dict[str, int]) -> None:
        self._over = True
        self.keeps = False
        self._last = message

    def _drop(self, held: Held) -> None:
        if held.child.pidfd is not None:
            self.reactor.remove(held.child.pidfd)
        del self.runs[held.run]
        self._kept.drop(held.run)
        self._leaders.discard(held.child.pid)
        held.close()

    # -- the end

    def stop_all(self) -> list[str]:
        """End everything below us: TERM and CONT, the grace, KILL, until nothing is left. Return the survivors."""
        everything = self._everything
        if self._masters.master is None:
            self._drain()
        everything.signal(_signal.SIGTERM)
        deadline = now() + self.grace
        self._news = True
        while (left := deadline - now()) > 0:
            if self._news and self._leaders_over and not everything.members():
                break
            self._news = False
            self._turn(left)
        for _ in range(ATTEMPTS):
            if not (survivors := everything.kill()):
                break
        for held in self.runs.values():
            held.look()
        return survivors

    @property
    def _leaders_over(self) -> bool:
        """Whether it is worth a look if anything is left: of a thousand runs that costs as many reads."""
        return all(held.end is not None for held in self.runs.values())

    def _drain(self) -> None:
        """Read what nobody will: a program that prints while it cleans up must not get stuck, or die, of that."""
        for held in self.runs.values():
            for fd in held.outputs:
                self.reactor.add(fd, lambda fd=fd: self._swallow(fd))  # type: ignore[misc]

    def _swallow(self, fd: int) -> None:
        try:
            over = not os.read(fd, 1 << 16)
        except BlockingIOError:
            over = False
        except OSError:
            over = True  # so a terminal says that nobody has it open any more
        if over:
            self.reactor.remove(fd)

    _REQUESTS: "ClassVar[dict[str, Callable[[Parent, Message, dict[str, int]], Answer | None]]]" = {
        "spawn": _spawn,
        "lend": _lend,
        "look": _look_at,
        "list": _list,
        "forget": _forget,
        "shut": _shut,
        "withdraw": _withdraw,
        "stop": _stop,
    }


def main(words: list[str]) -> "NoReturn":
    """Be a keeper: `stop` or `keep`, and the grace in ms. The connection to the first master is our stdin."""
    on_orphan, grace = words
    reset_dispositions()
    adopts = become_subreaper()
    first = wire.Wire(_socket.socket(fileno=_let_go_of_all_but_stdin()))
    os.chdir("/")
    _say_who_we_are()
    Parent(first, keeps=on_orphan == KEEP, grace=int(grace), adopts=adopts).serve()
    os._exit(0)


def _let_go_of_all_but_stdin() -> int:
    """Move stdin elsewhere, put /dev/null on the standard descriptors, close the rest; return where stdin is now.

    A pipe that we held by chance would never end for its reader.
    """
    first = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != first:
            try:
                os.close(int(name))
            except OSError:
                continue  # the folder's own descriptor, closed with the listing
    return first


def _say_who_we_are() -> None:
    """Be no mere `python` in a list of processes."""
    try:
        with open("/proc/self/comm", "wb", buffering=0) as name:
            name.write(b"longwatch-keep")
    except OSError:
        pass  # it is found by its command line all the same


__all__ = ["ATTEMPTS", "KEEP", "STOP", "Parent", "main"]
