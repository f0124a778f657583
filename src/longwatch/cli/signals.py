"""What a signal means to a foreground run: an end, a word for the program, a new size, job control."""

import os

from longwatch.cli.main import ENDING, PASSED_ON, Front
from longwatch.core.observations import StopRequested
from longwatch.posix import now
from longwatch.posix.tree import Tree
from longwatch.runtime.driver import Driver, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

    from longwatch.posix.terminal import Terminal
else:
    import _signal

#: Nobody tells a running job that `fg` has given it the terminal.
JOIN_EVERY = 250


class Signals:
    """Acts on the signals sent to us, for one run. `stop_message` returns what `longwatch stop` left for us."""

    def __init__(
        self, front: Front, tree: Tree, driver: Driver, stop_message: "Callable[[], dict[str, Any] | None]"
    ) -> None:
        self._front = front
        self._tree = tree
        self._driver = driver
        self._stop_message = stop_message
        self._joining: Timer | None = None

    def listen(self) -> None:
        """Act from now on, and first on what came before there was anybody to act."""
        front = self._front
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        if front.terminal is not None:
            front.terminal.on_suspend = self._suspend_job
        front.ear.act(self.heard)
        if front.process.child.stopped():
            self._suspend_job()
        self._join(now())

    def heard(self, signum: int) -> None:
        """Act on one signal."""
        process = self._front.process
        if signum in ENDING:
            self._told_to_end(signum)
        elif signum in PASSED_ON and process.ended is None:
            self._pass_on(signum)
        elif signum == _signal.SIGWINCH and self._front.terminal is not None:
            self._resized(self._front.terminal)
        elif signum == _signal.SIGTSTP:
            self._suspend(os.getpid())
        elif signum == _signal.SIGCHLD:
            self._child_changed()
        elif signum == _signal.SIGCONT:
            self._go_on()

    def _child_changed(self) -> None:
        """Reap orphans as they end, not at the next look: as pid 1 of a container there may be very many.

        Some programs stop themselves at the key; with our terminal in their hands nobody could type any more.
        """
        self._tree.reap()
        process = self._front.process
        if process.ended is None and process.child.stopped():
            self._suspend_job()

    def _pass_on(self, signum: int) -> None:
        try:
            os.killpg(self._front.process.child.pid, signum)
        except OSError:
            pass  # it runs as somebody else, or its group is gone

    def _told_to_end(self, signum: int) -> None:
        """`stop` leaves its line in the run folder before it sends TERM; without one somebody interrupted us."""
        ask = self._stop_message() if signum == _signal.SIGTERM else None
        if ask is not None:
            self._driver.tell(
                StopRequested("cancelled", "explicit", self._driver.watch.spec.signal, ask.get("grace_ms"))
            )
            return
        self._front.ended_by = signum
        self._driver.tell(StopRequested("interrupted", signal=signum))

    def _suspend_job(self) -> None:
        """Stop as our terminal would have stopped us at the key: with those beside us, such as the shell of a script."""
        if self._front.terminal is not None and self._front.terminal.joined:
            self._suspend(0)

    def _suspend(self, whom: int) -> None:
        """Job control: the tree is in a session of its own, so the terminal's stop has to be handed on.

        Where no shell could let us go on, the kernel does not stop us either, and the tree goes on at once.
        """
        self._tree.signal(_signal.SIGSTOP)
        if self._front.terminal is not None:
            self._front.terminal.suspend()
        if not self._front.ear.heard(_signal.SIGCONT):
            # Told to go on before we got here, we would wait for a word that was already said.
            ours = _signal.signal(_signal.SIGTSTP, _signal.SIG_DFL)
            os.kill(whom, _signal.SIGTSTP)
            _signal.signal(_signal.SIGTSTP, ours)
        self._go_on()

    def _go_on(self) -> None:
        """Continued: in the foreground, or (`bg`) while the terminal is another's."""
        self._join(now())
        self._tree.signal(_signal.SIGCONT)

    def _join(self, at: int) -> None:
        """Take the terminal as soon as it is ours."""
        terminal = self._front.terminal
        if terminal is None:
            return
        terminal.resume()
        if self._joining is not None:
            self._driver.cancel(self._joining)
        self._joining = self._driver.at(at + JOIN_EVERY, self._join) if terminal.waiting else None

    def _resized(self, terminal: "Terminal") -> None:
        terminal.resized()
        if self._front.screen is not None:
            self._front.screen.resize(*terminal.size)
            self._front.screen.pardon()
