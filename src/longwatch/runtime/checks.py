"""Whether the work changes: the files and commits of a folder, or what a user's check command says.

Neither is watched; both are looked at. An eighth of the window apart is often enough to say when a change came, and
from the instant on at which the limit could be reached every look counts, so that none is called overdue unseen.
"""

import os

from longwatch.core.observations import EffectChanged
from longwatch.core.spec import MINUTE, SECOND
from longwatch.posix.files import Walk
from longwatch.posix.spawn import SpawnError
from longwatch.runtime.bounded import Bounded, sh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from longwatch.posix.reactor import Reactor
    from longwatch.runtime.effects import ProcessEffects

#: A check that takes longer than this is no quick look at the work.
CHECK_LIMIT = 1 * MINUTE
#: Folders that tools write into without any work being done, besides all whose names begin with a dot.
NOT_WORK = ("node_modules", "__pycache__")


class Rounds:
    """When to look: `due` after a change at `changed`, or after a look that saw none."""

    __slots__ = ("_changed", "_every", "_window")

    def __init__(self, window: int, now: int) -> None:
        self._window = window
        self._every = max(SECOND, window // 8)
        self._changed = now

    def after(self, now: int, *, changed: bool) -> int:
        """Return when to look again."""
        if changed:
            self._changed = now
        reached = self._changed + self._window
        return now + SECOND if now >= reached else min(now + self._every, reached)


def fingerprint(folder: str) -> int:
    """Return a number that changes with the files of a folder, by name, time, size and inode, and with its commits.

    A folder with more entries than anybody can look through is known by those that were met first.
    """
    marks = set()
    for path in (*Walk(os.path.join(folder, "**")), *_commits(folder)):
        if not any(f"/{name}/" in path for name in NOT_WORK):
            try:
                found = os.lstat(path)
            except OSError:
                continue  # gone while we looked: the next look sees that
            marks.add(hash((path, found.st_ino, found.st_size, found.st_mtime_ns)))
    return hash(frozenset(marks))


def _commits(folder: str) -> list[str]:
    """Return the files of git that change with every commit; of a worktree those of its own."""
    git = os.path.join(folder, ".git")
    try:
        with open(git, encoding="utf-8", errors="replace") as pointer:
            word, _, git = pointer.readline().strip().partition(" ")
            git = os.path.join(folder, git) if word == "gitdir:" else ""
    except OSError:
        pass  # a folder, as in most repositories, or no repository at all
    return [os.path.join(git, "HEAD"), os.path.join(git, "logs", "HEAD")]


class FolderCheck:
    """Looks at a folder, in the run's own process."""

    def __init__(self, effects: "ProcessEffects", folder: str, window: int) -> None:
        self._effects = effects
        self._folder = folder
        self._seen = fingerprint(folder)
        self._rounds = Rounds(window, effects.clock())
        effects.later(self._rounds.after(effects.clock(), changed=True), self._look)

    def _look(self, now: int) -> None:
        seen = fingerprint(self._folder)
        changed, self._seen = seen != self._seen, seen
        if changed:
            self._effects.tell(EffectChanged(), now)
        self._effects.later(self._rounds.after(now, changed=changed), self._look)

    def refresh(self, done: "Callable[[], object]") -> None:
        """Look once more, then go on with what was asked."""
        seen = fingerprint(self._folder)
        if seen != self._seen:
            self._seen = seen
            self._effects.tell(EffectChanged())
        done()

    def end(self) -> None:
        """Nothing is left to end."""


class CommandCheck:
    """Runs a shell command now and then: its status and the end of its output are the fingerprint.

    A check that cannot be started, or takes too long, says nothing; that is noted once.
    """

    def __init__(
        self, effects: "ProcessEffects", reactor: "Reactor", command: str, window: int,
        environment: "Mapping[str, str] | None" = None,
    ) -> None:  # fmt: skip
        self._effects = effects
        self._reactor = reactor
        self._environment = environment
        self._command = command
        self._rounds = Rounds(window, effects.clock())
        self._seen: tuple[int, str] | None = None
        self._run: Bounded | None = None
        self._then: list[Callable[[], object]] = []
        self._complained = False
        self._look(effects.clock())

    def _look(self, now: int) -> None:
        self._effects.later(self._rounds.after(now, changed=False), self._look)
        self._begin()

    def _begin(self) -> None:
        if self._run is not None and not self._run.done:
            return
        try:
            self._run = Bounded(
                self._reactor, sh(self._command), limit_ms=CHECK_LIMIT, on_done=self._done, env=self._environment,
                ignore=self._effects.tree.ignore,
            )  # fmt: skip
        except SpawnError as error:
            self._complain(f"could not be started: {error}")
            self._go_on()
            return
        self._step(self._effects.clock())

    def _step(self, now: int) -> None:
        """Let the command's own limit act."""
        if self._run is not None:
            self._run.step(now)
            due = self._run.next_deadline()
            if due is not None:
                self._effects.later(due, self._step)

    def _done(self, code: int | None, text: str) -> None:
        if code is None:
            self._complain("took longer than 60 s")
        else:
            changed = self._seen is not None and self._seen != (code, text)
            self._seen = (code, text)
            if changed:
                self._rounds.after(self._effects.clock(), changed=True)
                self._effects.tell(EffectChanged())
        self._go_on()

    def _complain(self, how: str) -> None:
        if not self._complained:
            self._complained = True
            self._effects.story.note(f"the check of the effect {how}")

    def _go_on(self) -> None:
        waiting, self._then = self._then, []
        for done in waiting:
            done()

    def refresh(self, done: "Callable[[], object]") -> None:
        """Run it once more, then go on with what was asked."""
        self._then.append(done)
        self._begin()

    def end(self) -> None:
        """The run is over, and so is its check."""
        if self._run is not None and not self._run.done:
            self._run.cancel()
