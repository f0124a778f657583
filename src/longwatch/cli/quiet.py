"""`longwatch quiet 40m -- CMD`: inside a run, let CMD be silent for at most so long.

The supervisor reads the wish from the run folder that LONGWATCH_RUN_ID names, and caps it by what its human
allows. CMD starts at once; the wish follows as soon as the folder is there, which takes a run's first second.
This process takes no part in CMD's terminal: signals of a keyboard reach CMD by themselves, others are passed on.
"""

import os
import sys

from longwatch.channel import channel_append
from longwatch.core.outcomes import OURS
from longwatch.errors import StoreError, UnitError, UsageError
from longwatch.paths import state
from longwatch.posix import now
from longwatch.posix.spawn import INHERIT, Launch, SpawnError, reset_dispositions, spawn
from longwatch.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any

    from longwatch.posix.child import Child
else:
    import _signal

#: A run folder appears when the run is 1 s old.
FOLDER_WAIT_MS = 2_000
_LOOK_S = 0.02
_LONG_S = 3_600.0
_PASSED_ON = (
    _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2,
)  # fmt: skip
_USAGE = "write longwatch quiet DURATION -- COMMAND [ARG]..."
#: What the kernel itself sent (a key at the terminal) went to the whole group, so the command has it.
_FROM_KERNEL = 0x80


class Wish:
    """The hold that is asked for: told once the run's folder is there, taken back when the command is over."""

    def __init__(self, run: str, span: int) -> None:
        self.pending = True
        self._run = run
        self._span = span
        self._token = str(os.getpid())
        self._deadline = now() + FOLDER_WAIT_MS

    def tell(self) -> None:
        """Try to tell; give up with one line when the folder does not come."""
        if not self.pending:
            return
        message = {"op": "quiet", "span_ms": self._span, "token": self._token, "at_ms": now()}
        try:
            if channel_append(state(), self._run, message):
                self.pending = False
            elif now() >= self._deadline:
                self._give_up(f"run {self._run} has no folder")
        except StoreError as error:
            self._give_up(str(error))

    def end(self) -> None:
        """Take it back, if it was told."""
        if self.pending or not self._run:
            return
        try:
            channel_append(state(), self._run, {"op": "quiet_end", "token": self._token, "at_ms": now()})
        except StoreError as error:
            _say(str(error))

    def _give_up(self, why: str) -> None:
        self.pending, self._run = False, ""
        _say(f"{why}: the command runs, its silence counts")


def main(words: "list[str]") -> int:
    """Run the command behind the duration; return its exit status (128+N for a signal, 126, 127 as a shell).

    Raises UsageError for words that are no duration and command.
    """
    span, argv = _parse(words)
    run = os.environ.get("LONGWATCH_RUN_ID", "")
    if not run:
        _say("not inside a run: the command runs, nobody watches it")
    wish = Wish(run, span)
    wish.pending = bool(run)
    reset_dispositions()
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (*_PASSED_ON, _signal.SIGCHLD))
    try:
        child = spawn(Launch(argv, stdin=INHERIT, output=INHERIT, new_session=False))
    except SpawnError as error:
        _say(error.message)
        return error.status
    try:
        return _wait(child, wish)
    finally:
        wish.end()
        child.close()


def _wait(child: "Child", wish: Wish) -> int:
    while child.peek() is None:
        wish.tell()
        number = _next_signal(_LOOK_S if wish.pending else _LONG_S)
        if number in _PASSED_ON:
            os.kill(child.pid, number)
    code, fatal = child.reap()
    if fatal is not None:
        return 128 + fatal
    return OURS if code is None else code


def _next_signal(patience: float) -> int:
    """Wait for a signal that was not meant for the whole terminal; 0 when there was none."""
    found = _signal.sigtimedwait((*_PASSED_ON, _signal.SIGCHLD), patience)
    return 0 if found is None or found.si_code == _FROM_KERNEL else found.si_signo


def _parse(words: "list[str]") -> "tuple[int, list[str]]":
    if not words or words[0].startswith("-"):
        raise UsageError(f"quiet: no duration; {_USAGE}")
    try:
        span = parse_duration(words[0])
    except UnitError as error:
        raise UsageError(f"quiet: {error}") from error
    argv = words[2:] if words[1:2] == ["--"] else words[1:]
    if not argv:
        raise UsageError(f"quiet: no command; {_USAGE}")
    return span, argv


def _say(text: str) -> None:
    sys.stderr.write(f"longwatch quiet: {text}\n")
    sys.stderr.flush()


def __getattr__(name: str) -> "Any":
    """Make the click command when the group asks for it; the way through the lean front needs none."""
    if name != "command":
        raise AttributeError(name)
    import click  # noqa: PLC0415

    return click.Command(
        "quiet",
        callback=lambda words: main(list(words)),
        params=[
            click.Argument(
                ["words"], nargs=-1, type=click.UNPROCESSED, metavar="DURATION -- COMMAND [ARG]..."
            )
        ],
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        help="Inside a run: let a command be silent for at most so long. Elsewhere it just runs.",
    )
