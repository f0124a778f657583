"""Agents as harnesses: how each starts and goes on with its conversation, and who reads its records.

One `Agents` serves all harnesses of a supervisor. What reading an agent takes is loaded when a file with one is taken
in, never while anything runs; where no harness is an agent, nothing of it is loaded at all.
"""

import os

from longwatch import presets
from longwatch.core.record import Plain
from longwatch.daemon.conversations import Conversation, Conversations, filled, goes_on, is_session
from longwatch.daemon.endings import Patterns
from longwatch.daemon.observation import Observation, preset_of, wording
from longwatch.observed import load
from longwatch.posix.spawn import SpawnError
from longwatch.preset_table import GO_ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from longwatch.core.harness import Harness
    from longwatch.daemon.observation import Costs, Running


class Start(Plain):
    """How the next incarnation starts: `argv`, what is added to its environment, and a note for people."""

    __slots__ = ("argv", "environment", "note", "resumed")

    def __init__(
        self, argv: list[str], environment: dict[str, str], note: str = "", *, resumed: bool = False
    ) -> None:
        self.argv = argv
        self.environment = environment
        self.note = note
        self.resumed = resumed


class Agents:
    """Of all harnesses of one supervisor. `folder` is the daemon's own; `say` tells people what went wrong."""

    def __init__(self, folder: str, say: "Callable[[str], object]" = lambda text: None) -> None:
        self.conversations = Conversations(folder, say)
        #: Told what a run has cost by now, whenever that is more.
        self.costs: Costs = lambda harness, run, usd: None
        self._patterns: dict[str, Patterns] = {}

    def configure(self, harnesses: "Iterable[Harness]") -> list[str]:
        """Take in what the file says, and load all that its agents take; return what people should know."""
        warnings = []
        for harness in harnesses:
            try:
                self._patterns[harness.name] = Patterns(harness.limit_patterns)
            except ValueError as error:
                self._patterns[harness.name] = Patterns(())
                warnings.append(f"{harness.name}: {error}")
            warnings += _loaded(harness)
        return warnings

    def forget(self, name: str) -> None:
        """A harness is gone for good."""
        self._patterns.pop(name, None)
        self.conversations.forget(name)

    def launch(self, harness: "Harness", attempt: int = 1) -> Start:
        """Return how a harness starts now: with its conversation, where there is one that is to go on.

        Raises SpawnError where its folder is gone: a program that is started elsewhere would work on something else.
        """
        if not os.path.isdir(harness.cwd):
            raise SpawnError(f"{harness.cwd}: no such folder to work in", 126)
        last = self.conversations.of(harness.name)
        argv, note = _resumed(harness, last)
        if argv is None:
            return Start(list(harness.command), {}, note)
        return Start(argv, {"LONGWATCH_RESUME": last.session}, f"attempt {attempt} {note}", resumed=True)

    def __call__(self, harness: "Harness", run: "Running") -> Observation:
        """Return who reads the records of a run that was started, or adopted, just now."""
        return Observation(harness, run, self.conversations, self._patterns.get(harness.name), self.costs)


def _resumed(harness: "Harness", last: Conversation) -> tuple[list[str] | None, str]:
    """Return the command line that goes on with a conversation, and what to say; None for a fresh start."""
    if not goes_on(harness, last):
        return None, ""
    wanted = bool(harness.resume)
    if not is_session(last.session):
        return None, "starts afresh: its conversation is unknown" if wanted else ""
    if last.cwd != harness.cwd or last.preset != (harness.preset or ""):
        return None, "starts afresh: its conversation was held elsewhere"
    argv = filled(harness.resume, last.session) if wanted else _by_preset(harness, last)
    return argv, "" if argv is None else f"goes on with conversation {last.session}"


def _by_preset(harness: "Harness", last: Conversation) -> list[str] | None:
    preset = preset_of(harness)
    if preset is None or presets.is_conversation(harness.command):
        return None
    return presets.resumed(preset, harness.command, last.session, None if last.ready else GO_ON)


def _loaded(harness: "Harness") -> list[str]:
    """Load what reading the records of a harness takes; return why it cannot be."""
    preset = preset_of(harness)
    dialect = None if preset is None else preset.dialect
    try:
        if harness.limit_patterns or dialect is not None:
            wording()
        if dialect is not None:
            load(dialect)
        if harness.pty and (dialect is not None or "screen" in harness.sources):
            from longwatch.observe import screen  # noqa: PLC0415 - for those that have one

            del screen
    except ImportError as error:
        return [f"{harness.name}: to observe it longwatch needs the package {error.name}"]
    return []
