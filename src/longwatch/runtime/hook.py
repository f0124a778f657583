"""The hook before a stop: a user's command that may save what the program did, or say "not now"."""

from longwatch.core import observations as o
from longwatch.core.spec import MINUTE
from longwatch.runtime.bounded import Bounded, sh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.reactor import Reactor
    from longwatch.runtime.effects import ProcessEffects

#: A hook before a stop may save a work tree; longer than this it delays what it was meant to help.
HOOK_LIMIT = 1 * MINUTE
#: EX_TEMPFAIL: the hook says "not now".
VETO = 75


class Hook:
    """One run's hook. `environment` makes its variables from the name of the limit."""

    def __init__(
        self, effects: "ProcessEffects", reactor: "Reactor", command: str,
        environment: "Callable[[str], dict[str, str]] | None" = None,
    ) -> None:  # fmt: skip
        self._effects = effects
        self._reactor = reactor
        self._command = command
        self._environment = environment
        self._running: Bounded | None = None

    def run(self, limit: str) -> None:
        """Start it; it answers with `Prepared` or `Vetoed`. One that cannot be started is noted, and is a `Prepared`."""
        effects = self._effects
        try:
            self._running = Bounded(
                self._reactor, sh(self._command), env=None if self._environment is None else self._environment(limit),
                limit_ms=HOOK_LIMIT, on_done=self._done, ignore=effects.tree.ignore,
            )  # fmt: skip
        except OSError as error:
            effects.story.note(f"the hook before the stop could not be started: {error}")
            effects.tell(o.Prepared())
            return
        self._step(effects.clock())

    def _step(self, now: int) -> None:
        """Let the hook's own limit act; it has a clock of its own, so that no hook can hold up the run."""
        run = self._running
        if run is not None:
            run.step(now)
            due = run.next_deadline()
            if due is not None:
                self._effects.later(due, self._step)

    def _done(self, code: int | None, text: str) -> None:
        effects = self._effects
        if code == VETO:
            why = " ".join(text.split())
            effects.story.note("the hook before the stop vetoed it" + (f": {why}" if why else ""))
            effects.tell(o.Vetoed(why))
            return
        if code != 0:
            how = "took longer than 60 s and was stopped" if code is None else f"exited {code}"
            effects.story.note(f"the hook before the stop {how}")
        effects.tell(o.Prepared())

    def end(self) -> None:
        """A hook that nothing waits for any more ends in order: git still removes its lock file."""
        hook, clock = self._running, self._effects.clock
        if hook is None or hook.done:
            return
        hook.hurry()
        while (due := hook.next_deadline()) is not None:
            self._reactor.poll(max(0, due - clock()))
            hook.step(clock())
