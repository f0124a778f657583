"""The whole tree of one run: find it, signal it, end it with nothing left.

Nothing about the tree is remembered except who its leader is and whom the last signal reached: every pass looks
again, so what was born meanwhile is found and what has gone is not signalled. Three nets catch what leaves the
leader's side:

- As a *subreaper* we adopt every orphan below us, so it shows up among our own children: no process can leave.
  A *nursery* does the same for a run that was started through it.
- Otherwise the leader's session and process group, which a plain fork cannot leave,
- and the run's mark in the environment of any process younger than the leader.

On pids that are used again. TERM and its like go through a pidfd whose process was recognised after the opening.
KILL and STOP have to be fast and go by number, within microseconds of the evidence: to our own child or a child of
a member that has just got the same signal, or to a process whose start time was read once more right before. To
hit a stranger, a member would have to end by itself, be reaped, and have its number given out again in between;
its parent is dying and reaps no more, and an orphan of ours waits until we reap it, which we do between passes.
"""

import os
import select
import time

from longwatch.core.record import Plain
from longwatch.posix import kin
from longwatch.posix.identity import REFUSED, SENT, Identity, process, signal_verified
from longwatch.posix.kin import LATELY

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterable, Iterator

    from longwatch.posix.identity import ProcessInfo
    from longwatch.posix.nursery import Nursery
    from longwatch.posix.reactor import Reactor
else:
    import _signal

#: Leads a tree that has no leader: what is known of it then is who adopts its orphans, or its mark.
NOBODY = Identity(0, 0, "")
#: How long one call of `kill` tries, in milliseconds. Past this only the kernel can be late.
PATIENCE = 2_000
#: What still has living members after so many passes gives birth as fast as we kill: stop it all first.
STORM = 4
#: How many of the killed are waited for before the next pass.
SAMPLES = 16
#: More descriptors than this are not spent on watching one tree go; one that lives is enough to know it has not.
WATCHED = 256
#: With no descriptor left to watch with, look again after so many milliseconds.
LOOK_AGAIN = 100


class Sweep(Plain):
    """What one signal reached: how many processes got it, and which (`pid name`) belong to somebody else."""

    __slots__ = ("refused", "sent")

    def __init__(self, sent: int, refused: list[str]) -> None:
        self.sent = sent
        self.refused = refused


class Tree:
    """Everything that a run started, as long as it lives.

    `leader` is the program itself; it is found by identity only and never reaped here. `ignore` holds pids that are
    ours but not the run's (guardian, hooks, other leaders); it is read at each pass, so the owner may change it.
    `run_id` is what the environment variable `variable` holds in all that the run started. `nursery` adopts the
    run's orphans, and reaps them. Ourselves and our parent never belong to a tree.
    """

    def __init__(
        self,
        leader: Identity,
        run_id: str,
        *,
        subreaper: bool,
        ignore: set[int] | None = None,
        variable: str = kin.RUN_VARIABLE,
        nursery: "Nursery | None" = None,
    ) -> None:
        self.leader = leader
        self.run_id = run_id
        self.variable = variable
        self.subreaper = subreaper
        self.nursery = nursery
        self.ignore = ignore if ignore is not None else set()
        self._refused: dict[int, str] = {}
        self._asked: list[Identity] = []
        self._watched: dict[int, Reactor] = {}
        self._session_over = False
        self._quick = kin.has_children_files()

    @property
    def proof(self) -> str:
        """What "nothing is left" rests on: `subreaper` (nothing can leave) or `group+marker`."""
        return "subreaper" if self._closed() else "group+marker"

    @property
    def refused(self) -> list[str]:
        """Members (`pid name`) that the last signal could not reach because they run as somebody else."""
        return list(self._refused.values())

    # Finding

    def pids(self, visit: "Callable[[int], object] | None" = None, *, since: int | None = None) -> list[int]:
        """Return the pids of one pass over the tree, parents first, zombies included: the cheapest look there is.

        `visit` is called with each pid as soon as it is met, before its children are read. For `since` see `infos`.
        """
        skip = {os.getpid(), os.getppid(), *self.ignore}
        closed = self._closed()
        if closed and self._quick:
            return kin.descend([*self._root(), *self.adopted(since)], skip, visit=visit)
        everything = kin.table()
        lookup = kin.children if self._quick else kin.children_in(everything)
        found = kin.descend(self._roots(everything), skip, lookup, visit)
        if not closed:
            skip.update(found)
            found += kin.descend(self._marked(everything, skip), skip, lookup, visit)
        return found

    def infos(self, *, since: int | None = None) -> "list[ProcessInfo]":
        """Return what is alive of the run, parents first; zombies are dead. Those we may not signal are included.

        Whom a nursery of thousands has adopted takes long to list: one list does for all looks that may rest on one
        made after `since` (`time.monotonic_ns()`; LATELY for a look that proves nothing). That nothing is left is proven by a list made after the leader's
        end: whatever lives then has an ancestor in it.
        """
        met: set[int] = set()
        while True:
            pids = self.pids(since=since)
            since = None
            found = [info for pid in pids if (info := process(pid)) is not None and info.alive]
            if found or met.issuperset(pids):
                return found
            # All that were met have ended meanwhile, and may have left orphans that were not there to be met.
            met.update(pids)

    def members(self) -> list[Identity]:
        """Return what is alive of the run and ours to end. Empty: the tree is gone."""
        return [info.identity for info in self.mortal(self.infos())]

    def mortal(self, infos: "list[ProcessInfo]") -> "list[ProcessInfo]":
        """Return those of a pass that are ours to end."""
        return [info for info in infos if info.pid not in self._refused]

    def survivors(self) -> list[str]:
        """Return what is alive of the run as `pid name`, also what we may not signal."""
        return [info.label for info in self.infos()]

    def adopted(self, since: int | None = None) -> list[int]:
        """Return the orphans, zombies included, that we or the nursery adopted; neither the leader nor the ignored."""
        if self.subreaper:
            found = kin.children(os.getpid()) if self._quick else kin.children_in(kin.table())(os.getpid())
        else:
            found = self.nursery.orphans(self.variable, since) if self.nursery is not None else []
        return [pid for pid in found if pid != self.leader.pid and pid not in self.ignore]

    def _closed(self) -> bool:
        """Return whether no process can leave."""
        return self.subreaper or (self.nursery is not None and self.nursery.alive())

    def _root(self) -> list[int]:
        current = self.leader.current()
        return [self.leader.pid] if current is not None and current.alive else []

    def _roots(self, everything: "dict[int, ProcessInfo]") -> "Iterator[int]":
        yield from self._root()
        yield from self.adopted() if self._closed() else self._companions(everything)
        # A leader in our own session has none to be found by: whom a signal reached is looked for once more.
        yield from (member.pid for member in self._asked if member.alive())

    def _companions(self, everything: "dict[int, ProcessInfo]") -> "Iterable[int]":
        """Return the leader's session and group, unless they are ours as well or already were found empty.

        A session's number is not given out while anyone is in it. Once it was seen empty it means nobody of ours.
        """
        number = self.leader.pid
        if self._session_over or number in (NOBODY.pid, os.getsid(0), os.getpgrp()):
            return []
        leader = everything.get(number)
        reused = leader is not None and leader.start != self.leader.start
        found = [] if reused else [i for i in everything.values() if number in (i.sid, i.pgid)]
        self._session_over = not found and self.leader.current() is None
        return (info.pid for info in found if info.identity.current() is not None)

    def _marked(self, everything: "dict[int, ProcessInfo]", known: set[int]) -> "Iterable[int]":
        """Return the processes not yet known that carry the run's mark; older ones than the leader cannot."""
        mark = f"{self.variable}={self.run_id}"
        young = [i.pid for i in everything.values() if i.start >= self.leader.start and i.pid not in known]
        return (pid for pid in young if kin.carries(pid, mark))

    # Signalling

    def signal(self, signum: int) -> Sweep:
        """Send a signal to every member, then CONT to each: a stopped process would never see it.

        STOP, TSTP, CONT and the null signal are not followed by CONT. For KILL use `kill`.
        """
        self._refused.clear()
        reached = [info for info in self.infos(since=LATELY) if self._send_verified(info, signum)]
        if not self.subreaper:
            self._asked = [info.identity for info in reached]
        if signum not in (0, _signal.SIGSTOP, _signal.SIGTSTP, _signal.SIGCONT):
            for info in reached:
                signal_verified(info.identity, _signal.SIGCONT)
        return Sweep(len(reached), self.refused)

    def kill(self, patience: int = PATIENCE) -> list[str]:
        """End everything, now, and pass again until a pass finds nothing; a storm is stopped before it is killed.

        Tries for at most `patience` milliseconds and returns the survivors as `pid name`: what the kernel does not
        let go, and what belongs to somebody else. May be called again.
        """
        self._refused.clear()
        deadline = time.monotonic() + patience / 1000
        met: set[int] = set()
        passes = 0
        while True:
            if passes >= STORM:
                self._freeze(deadline)
            struck = self.pids(visit=lambda pid: self._send(pid, _signal.SIGKILL))
            self.reap()
            passes += 1
            # Children of what has just been killed come to us as orphans: look again before waiting for anyone.
            if not met.issuperset(struck) and time.monotonic() < deadline:
                met.update(struck)
                continue
            self._outlive(struck, deadline)
            left = self.infos()
            if time.monotonic() >= deadline or not self.mortal(left):
                self.reap()  # who died between the last reaping and the last look
                return [info.label for info in left]

    def _outlive(self, struck: list[int], deadline: float) -> None:
        """Wait for some of the killed, and reap: the next look finds the rest, and each look takes time from them."""
        doomed = [pid for pid in struck if pid not in self._refused]
        for pid in doomed[:: -(len(doomed) // SAMPLES + 1)]:
            wait_for_death(pid, deadline)
        self.reap()

    def reap(self) -> None:
        """Reap the orphans that we adopted and that have ended, each by its own pid; never the leader."""
        for pid in self.adopted() if self.subreaper else ():
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue

    def _freeze(self, deadline: float) -> None:
        """Stop every member, until a pass meets nobody new: from then on nobody is born."""
        stopped: set[int] = set()

        def stop(pid: int) -> None:
            if pid not in stopped and self._send(pid, _signal.SIGSTOP):
                stopped.add(pid)

        known = -1
        while len(stopped) > known and time.monotonic() < deadline:
            known = len(stopped)
            self.pids(visit=stop)

    def _send(self, pid: int, signum: int) -> bool:
        """Send a signal by number. Only for pids that the pass under way has just found."""
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            return False
        except PermissionError:
            self._refuse(pid, process(pid))
            return False
        return True

    def _send_verified(self, info: "ProcessInfo", signum: int) -> bool:
        answer = signal_verified(info.identity, signum)
        if answer == REFUSED:
            self._refuse(info.pid, info)
        return answer == SENT

    def _refuse(self, pid: int, info: "ProcessInfo | None") -> None:
        if info is not None and info.alive:
            self._refused[pid] = info.label

    # Waiting

    def watch(self, reactor: "Reactor", callback: "Callable[[], None]") -> int | None:
        """Have `callback` called once, when everything that is watched now has ended; then look again.

        At most 256 members are watched: while one of them lives, the tree is not gone. Members born later are met
        by the next call. Replaces an earlier watch. Returns None when that is enough; else the milliseconds after
        which to look anyway: 0 when nothing is alive any more, 100 when there was no descriptor to watch with.
        """
        self.unwatch()
        hint = 0
        for member in self.members()[:WATCHED]:
            try:
                fd = os.pidfd_open(member.pid)
            except ProcessLookupError:
                continue
            except (OSError, AttributeError):
                hint = LOOK_AGAIN
                break
            self._watched[fd] = reactor
            reactor.add(fd, lambda fd=fd: self._ended(fd, callback))  # type: ignore[misc]
        return None if self._watched else hint

    def unwatch(self) -> None:
        """Forget the watch; its callback is not called any more."""
        for fd in list(self._watched):
            self._drop(fd)

    def _ended(self, fd: int, callback: "Callable[[], None]") -> None:
        self._drop(fd)
        if not self._watched:
            callback()

    def _drop(self, fd: int) -> None:
        self._watched.pop(fd).remove(fd)
        os.close(fd)


def wait_for_death(pid: int, deadline: float) -> None:
    """Wait until a process has ended, a zombie included, or until `deadline` (`time.monotonic()` seconds)."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (OSError, AttributeError):
        while (info := process(pid)) is not None and info.alive and time.monotonic() < deadline:
            time.sleep(0.005)  # no pidfd to wait on: another system, or no descriptor left
        return
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    os.close(fd)
