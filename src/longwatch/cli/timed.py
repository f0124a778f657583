"""The watch under `timeout`: one limit, one driver, and effects that signal as GNU's timeout does."""

import os

from longwatch.cli.timeout import Timed
from longwatch.core import commands as c
from longwatch.core import observations as o
from longwatch.core.spec import STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix import now
from longwatch.posix.identity import signal_verified
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver
from longwatch.runtime.effects import KILL, ProcessEffects
from longwatch.runtime.hosts import block

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal


class TimedEffects(ProcessEffects):
    """Signals the command and our group; past the command's own end, or with KILL, the whole tree."""

    timed: Timed

    def perform(self, command: c.Command) -> None:
        """Do what the watch says, in GNU's way where it differs; post-mortems are for `run`."""
        if isinstance(command, c.CapturePostMortem):
            self.tell(o.Prepared())
        elif isinstance(command, c.SignalTree):
            self._send(command)
        elif isinstance(command, c.SweepTree) and self.timed.values.foreground:
            self.tell(o.TreeGone())
        else:
            super().perform(command)

    def _send(self, command: c.SignalTree) -> None:
        ended = self.process.ended is not None
        if not ended:
            self.timed.tell_signal(command.signal)
        if self.timed.values.foreground:
            self._send_to([self.tree.leader.pid], command.signal)
        elif ended or command.signal == KILL:
            super().perform(command)
        else:
            # The command itself too where it made a group of its own, as a nested timeout does.
            group, leader = os.getpgrp(), self.tree.leader.pid
            members = [info.pid for info in self.tree.infos() if info.pgid == group or info.pid == leader]
            self._send_to(members, command.signal)
        self.process.look()

    def _send_to(self, pids: list[int], signum: int) -> None:
        members = [info for info in self.tree.infos() if info.pid in pids]
        for number in (signum, _signal.SIGCONT) if signum != KILL else (KILL,):
            for info in members:
                signal_verified(info.identity, number)


def drive(timed: Timed) -> None:
    """Watch the command to its end."""
    values, process = timed.values, timed.process
    leader = process.child.identity
    assert leader is not None
    tree = Tree(leader, "timeout", subreaper=timed.subreaper, ignore=set(timed.strangers))
    effects = TimedEffects(process, tree, now)
    effects.timed = timed
    limits = {"timeout": LimitSpec(timed.limit, STOP)} if timed.limit else {}
    spec = Spec(limits, signal=values.signal, grace=values.kill_after or None, keep_leftovers=True)
    driver = timed.driver = Driver(Watch(spec, process.child.started), effects)
    effects.begin()
    timed.ear.act(lambda signum: _act(driver, effects, signum))
    block(driver)


def _act(driver: Driver, effects: TimedEffects, signum: int) -> None:
    """ALRM is the limit itself, as in GNU's; whatever else comes is passed on."""
    if signum == _signal.SIGALRM:
        driver.tell(o.StopRequested("timeout", signal=effects.timed.values.signal))
    elif signum == _signal.SIGCONT:
        effects.tree.signal(_signal.SIGCONT)
    else:
        driver.tell(o.StopRequested("interrupted", signal=signum))
