"""The parts of `run` that not every run has: a log, a rule for lines, the screen as a source, commands of the user's."""

import os

from longwatch.cli.main import Front, output_for, say
from longwatch.errors import UsageError
from longwatch.options import FILE, FLAG, VARIABLE, Values
from longwatch.posix.process import STDOUT
from longwatch.posix.spawn import PTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.cli.longrun import LongRun
    from longwatch.observe.screen import Screen
    from longwatch.posix.files import FileSource
    from longwatch.posix.judge import LineJudge
    from longwatch.posix.sink import Log


def prepare(front: Front) -> None:
    """Open and compile what can be wrong, before anything is started. Raises UsageError."""
    values = front.values
    if values.log is not None:
        front.log = _open_log(values.log, values.log_max)
    if values.not_progress is not None:
        _judge(values.not_progress)
    if values.nudge is not None and output_for(values) != PTY:
        _no_nudge(values)
    if values.preset is not None or "transcript" in values.progress or values.resume_on_limit:
        from longwatch.cli.named import prepare_named  # noqa: PLC0415

        prepare_named(front)
    front.files = file_sources(values)
    if "screen" in values.progress:
        front.screen = _screen(values)
    if values.report is not None:
        # Last, for it empties an older report: words that are refused must not.
        from longwatch.cli.ended import open_report  # noqa: PLC0415

        front.report_fd = open_report(values.report)


def file_sources(values: Values) -> "list[FileSource]":
    """Return the watched files, as they are now: what changes from here on is progress."""
    from longwatch.posix.files import FileSource  # noqa: PLC0415

    return [FileSource(source) for source in values.progress if source.startswith("file:")]


def attach(front: Front) -> None:
    """Give each stream its log and its judge, and the screen its bytes."""
    for pump in front.process.pumps.values():
        pump.log = front.log
        if front.values.not_progress is not None:
            pump.judge = _judge(front.values.not_progress)
    if front.screen is not None:
        if front.terminal is not None:
            front.screen.resize(*front.terminal.size)
        front.process.pumps[STDOUT].taps.append(front.screen.feed)


def ask_others(run: "LongRun") -> None:
    """Let the user's commands speak: before a stop, and of the effect. They are loaded where there are some."""
    values, reactor, effects = run.front.values, run.front.process.reactor, run.effects
    if values.before_stop is not None:
        from longwatch.runtime.hook import Hook  # noqa: PLC0415

        effects.hook = Hook(
            effects, reactor, values.before_stop, lambda limit: _environment(run.front, limit)
        )
    if values.effect:
        from longwatch.runtime.checks import CommandCheck, FolderCheck  # noqa: PLC0415

        effects.check = (
            FolderCheck(effects, run.work_folder(), values.effect)
            if values.check is None
            else CommandCheck(effects, reactor, values.check, values.effect)
        )


def _environment(front: Front, limit: str) -> dict[str, str]:
    """Return what the command before a stop finds."""
    return {
        **os.environ,
        "LONGWATCH_RUN_ID": front.run_id,
        "LONGWATCH_NAME": front.name,
        "LONGWATCH_PID": str(front.process.child.pid),
        "LONGWATCH_LIMIT": limit,
    }


def _open_log(path: str, limit: int) -> "Log":
    from longwatch.posix.sink import Log  # noqa: PLC0415

    try:
        # The warning begins with the path.
        return Log(path, limit, on_warning=lambda text: say(f"--log {text}; the run goes on without it"))
    except OSError as error:
        raise UsageError(f"--log {path}: cannot be written: {(error.strerror or '').lower()}") from error


def _judge(pattern: str) -> "LineJudge":
    from longwatch.posix.judge import LineJudge  # noqa: PLC0415

    try:
        return LineJudge(pattern)
    except ValueError as error:
        raise UsageError(
            f"--not-progress {error}; quote it for the shell, escape what is meant literally"
        ) from error


def _no_nudge(values: Values) -> None:
    """A nudge is typed; without a terminal of the program's own there is nothing to type into."""
    problem = "nothing to type into: the program's input is not a terminal of its own; add --pty"
    source = values.source("nudge")
    if source == FLAG:
        raise UsageError(f"--nudge: {problem}")
    if source == VARIABLE:
        say(f"LONGWATCH_NUDGE: {problem}; the nudge is skipped")
    values.drop("nudge")


def _screen(values: Values) -> "Screen":
    if output_for(values) != PTY:
        remedy = "leave --no-pty out" if values.own("pty") is False else "add --pty"
        filed = values.source("progress") == FILE
        who = f"{values.place('progress')}: progress" if filed else "--progress"
        raise UsageError(f"{who} screen needs a terminal for the program; {remedy}")
    try:
        from longwatch.observe.screen import Screen  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            "--progress screen needs the package pyte; install it with: pip install 'longwatch[all]'"
        ) from error
    return Screen()
