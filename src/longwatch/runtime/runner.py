"""One item of a plan where an engine has placed it: the ordinary driver below a keeper that stops, and a lease.

It ends for what ends any run, when it is asked to, when the liveness pipe ends (who started it is gone), and when its
lease lapses. The lease is measured on the clock that counts sleep, and looked at before anything else: a machine that
was frozen finds out first that its time is over.
"""

import os

from longwatch.core.batch import changed
from longwatch.core.fencing import Lease, grace
from longwatch.core.spec import NOTIFY, LimitSpec
from longwatch.posix import now
from longwatch.posix.boot_alarm import BootAlarm
from longwatch.posix.identity import identity
from longwatch.runtime.runfiles import STOP, RunFiles, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.attempt import Attempt
    from longwatch.runtime.host import Host

#: How often state.json is written anew while nothing happens: whoever probes it wants to see that we look.
BEAT = 5_000
#: No news is told sooner after other news: whoever waits for it fetches what has gathered.
TOGETHER = 100
_READ = 64 << 10


class Runner:
    """Sees one attempt to its end. `live` is the descriptor whose end says that who started us is gone; it may carry lines.

    `keeper` is the keeper's pid. Without a lease (None) only the other ends hold. Whether and when the item is tried
    again is decided elsewhere.
    """

    def __init__(
        self, host: "Host", files: RunFiles, attempt: "Attempt", lease: Lease | None, *, keeper: int,
        live: int | None = None,
    ) -> None:  # fmt: skip
        self.host = host
        self.files = files
        self.attempt = attempt
        self.lease = lease
        #: What ended it, where we did: request, parent, lease, signal.
        self.cause = ""
        self._who = {"runner": _told(os.getpid()), "keeper": _told(keeper)}
        self._live = live
        self._control = files.open_control()
        self._alarm = BootAlarm(host.reactor, self._look_at_lease)
        self._said: tuple[int, int] = (0, 0)
        self._told_at = 0
        self._rests: dict[int, bytes] = {}
        self._warned = False
        self._listen()

    def _listen(self) -> None:
        self.host.reactor.add(self._control, lambda: self._lines(self._control))
        if self._live is not None:
            os.set_blocking(self._live, False)
            self.host.reactor.add(self._live, lambda: self._lines(self._live))
        self.host.on_round.append(lambda now: self._look_at_lease())
        if self.lease is not None:
            self._alarm.set(self.lease.until)
            self.host.at(self.lease.until, lambda now: self._look_at_lease())
        self._beat(0)

    def run(self) -> None:
        """Go on until nothing of it is left."""
        self.attempt.begin()
        self.note()
        while not self.attempt.settled:
            self.host.turn()
            self._pass_on_warning()
            self._tell_news()
        self.note()

    # -- what comes in

    def _lines(self, descriptor: int | None) -> None:
        assert descriptor is not None
        self._look_at_lease()  # before anything that has waited for us
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.host.reactor.remove(descriptor)
            self.stop("parent", "cancelled", "cascade")
            return
        *lines, self._rests[descriptor] = (self._rests.get(descriptor, b"") + data).split(b"\n")
        for line in lines:
            self._line(line.split())

    def _line(self, words: list[bytes]) -> None:
        if words[:1] == [b"renew"] and len(words) == 2 and words[1].isdigit():
            self._renew(int(words[1]))
        elif words == [b"stop"]:
            self._asked(read(self.files.folder, STOP) or {})

    def _renew(self, until: int) -> None:
        if self.lease is not None and self.lease.renew(until, now()):
            self._alarm.set(self.lease.until)
            self.host.at(self.lease.until, lambda now: self._look_at_lease())
            self.note()
            self._ring()

    def _asked(self, told: "Mapping[str, Any]") -> None:
        span = told.get("grace")
        self.stop(
            "request", str(told.get("reason") or "cancelled"), told.get("origin") or "explicit",
            span if isinstance(span, int) else None,
        )  # fmt: skip

    def _look_at_lease(self) -> None:
        lease, moment = self.lease, now()
        if lease is None or not lease.lapsed(moment) or self.cause == "lease":
            return
        self.stop("lease", "interrupted", None, grace(lease.span, lease.late(moment)))

    def stop(self, cause: str, reason: str, origin: str | None, span: int | None = None) -> None:
        """End it. What ended it first is the cause; a later one may only make it faster."""
        if not self.cause:
            self.cause = cause
            self.files.event("stopping_for", now(), {"cause": cause})
        if cause == "lease":
            self.cause = cause
        if self.attempt.run is not None:
            self.attempt.stop(reason, origin, span)
        elif not self.attempt.over:  # what is still being made ready is given up
            self.host.sweep()
            self.attempt.fail(reason, "", origin)
        self.note()

    def warn(self) -> None:
        """Whoever gave it its time says that little is left: it is over its budget, and marked so. It goes on."""
        self._warned = True

    def _pass_on_warning(self) -> None:
        """Let its soft limit be reached now; what is still being made ready hears of it when it runs."""
        running = self._running()
        if running is None or not self._warned:
            return
        self._warned = False
        if not self.attempt.state["over_budget"]:
            soft = LimitSpec(max(now() - running.watch.started, 1), NOTIFY)
            running.redefine(changed(running.harness, limits={**running.harness.limits, "soft": soft}))

    # -- what is told

    def _running(self) -> "Any":
        return None if self.attempt.over else self.attempt.run

    def _beat(self, at: int) -> None:
        self.note()
        every = BEAT if self.lease is None else min(BEAT, max(self.lease.span // 4, 200))
        self.host.at(now() + every, self._beat)

    def note(self) -> None:
        """Write down how it stands."""
        state, running = self.attempt.state, self._running()
        alive, progress = (None, None) if running is None else running.clocks
        self.files.state({
            "run": state["run"], "attempt": state["attempt"], "item": self.attempt.item,
            **self._who, "host": os.uname().nodename, "looked_ms": now(),
            "lease_until": None if self.lease is None else self.lease.until,
            "state": self._standing(running), "cause": self.cause or None,
            "alive_ms": alive, "progress_ms": progress,
            "pid": None if running is None else running.child.pid,
        })  # fmt: skip

    def _standing(self, running: "Any") -> str:
        if self.attempt.over:
            return "ended"
        if running is None:
            return "preparing"
        return "stopping" if running.stopping else "running"

    def _tell_news(self) -> None:
        """Wake whoever waits at the other end of the liveness line, when there is something to fetch."""
        running: Any = self.attempt.run
        printed = 0 if running is None else sum(pump.bytes for pump in running.process.pumps.values())
        fresh = (self.files.events, printed)
        if fresh == self._said:
            return
        moment = now()
        if moment - self._told_at < TOGETHER:
            self.host.at(self._told_at + TOGETHER, _woken)
            return
        self._said, self._told_at = fresh, moment
        self._ring()

    def _ring(self) -> None:
        if self._live is None:
            return
        try:
            os.write(self._live, b"!")
        except OSError:
            return  # a pipe, or nobody is there: they look by themselves

    def close(self) -> None:
        """Hear no more."""
        self._alarm.close()
        self.host.reactor.remove(self._control)
        os.close(self._control)
        if self._live is not None:
            self.host.reactor.remove(self._live)


def _told(pid: int) -> "dict[str, object] | None":
    who = identity(pid)
    return None if who is None else who.as_dict()


def _woken(at: int) -> None:
    """Only to come by."""


__all__ = ["Runner"]
