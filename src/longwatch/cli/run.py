"""`longwatch run`: spawn first, look whether the child outlives a blink, and only then load the rest.

A child that ends within 20 ms and leaves nothing behind never meets the watch: there was nothing to decide.
"""

import os
import sys

from longwatch.cli.front import Front, fill_standard_descriptors, leave, open_report, say, version
from longwatch.errors import UsageError
from longwatch.options import Values, child_environment, parse
from longwatch.paths import new_run_id, safe_name
from longwatch.posix.kin import children
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import (
    MERGED,
    PIPES,
    PTY,
    Launch,
    SpawnError,
    become_subreaper,
    reset_dispositions,
    same_file,
)
from longwatch.runtime.process import STDERR, STDOUT, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: A start is a page of imports; a child that is done before they were would have waited for nothing.
BLINK = 20
USAGE_ERROR = 125


def run(words: list[str]) -> "NoReturn":
    """Run a command under its limits; end as the command did, or as DESIGN's table of exit statuses says."""
    fill_standard_descriptors()
    try:
        values, command = parse("run", words)
        if values.help or values.version:
            _answer(values)
        for warning in values.warnings:
            say(warning)
        front = _prepare(values, command)
    except UsageError as error:
        say(f"{error}")
        leave(USAGE_ERROR)
    try:
        _spawn(front)
    except SpawnError as error:
        _not_started(front, error)
    if front.process.run_until(front.process.child.started + _blink(values)) and _nothing_left(front):
        from longwatch.cli.ended import blink  # noqa: PLC0415

        blink(front)
    from longwatch.cli.longrun import supervise  # noqa: PLC0415

    supervise(front)


def _prepare(values: Values, command: list[str]) -> Front:
    """Do all that can fail for a reason of the user's before anything is started. Raises UsageError."""
    name = values.name or safe_name(command[0])
    front = Front(values, command, new_run_id(name), name)
    if values.report is not None:
        front.report_fd = _open_report(values.report)
    if values.log is not None or values.not_progress is not None or "screen" in values.progress:
        from longwatch.cli.extras import prepare  # noqa: PLC0415

        prepare(front)
    return front


def _open_report(path: str) -> int:
    try:
        return open_report(path)
    except OSError as error:
        raise UsageError(f"--report {path}: cannot be written: {(error.strerror or '').lower()}") from error


def _spawn(front: Front) -> None:
    values = front.values
    reset_dispositions()
    front.subreaper = become_subreaper()
    front.strangers = children(os.getpid())
    output = _output(values)
    launch = Launch(
        front.argv,
        child_environment(os.environ, front.run_id),
        stdin="inherit" if values.stdin == "inherit" else "null",
        output=output,
        size=_terminal_size() if output == PTY else None,
    )
    front.sinks = {STDOUT: Sink(1)} if output != PIPES else {STDOUT: Sink(1), STDERR: Sink(2)}
    front.merged = output != PIPES
    if output == PTY:
        from longwatch.posix.terminal import Terminal  # noqa: PLC0415

        front.process = start(launch, front.sinks, front.reactor)
        front.terminal = Terminal.over(front.process, 0, 1, keys=values.stdin == "inherit")
    else:
        front.process = start(launch, front.sinks, front.reactor)
    if front.log is not None or front.screen is not None or values.not_progress is not None:
        from longwatch.cli.extras import attach  # noqa: PLC0415

        attach(front)


def _output(values: Values) -> str:
    """Terminal in, terminal out; else one pipe if both of our streams are the same file, so that order holds."""
    wanted = values.pty
    if wanted or (wanted is None and os.isatty(0) and os.isatty(1) and _in_foreground()):
        return PTY
    return MERGED if same_file(1, 2) else PIPES


def _in_foreground() -> bool:
    """A background job must not touch the terminal's settings: the kernel would stop it."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _terminal_size() -> tuple[int, int] | None:
    for descriptor in (0, 1, 2):
        try:
            columns, rows = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if columns and rows:
            return rows, columns
    return None


def _blink(values: Values) -> int:
    """No limit may come due while nobody watches."""
    spans = [values.get(name) for name in ("idle", "first", "ceiling", "timeout", "soft")]
    return min((span for span in spans if span), default=BLINK) if any(0 < s < BLINK for s in spans) else BLINK


def _nothing_left(front: Front) -> bool:
    """Whether the leader is our only child: as subreaper we would have adopted whatever it left."""
    if not front.subreaper or front.ear.caught:
        return False
    return all(pid == front.process.child.pid or pid in front.strangers for pid in children(os.getpid()))


def _not_started(front: Front, error: SpawnError) -> "NoReturn":
    from longwatch.cli.ended import not_started  # noqa: PLC0415

    say(str(error))
    not_started(front, error.status)


def _answer(values: Values) -> "NoReturn":
    if values.version:
        print(version())
    else:
        from longwatch.cli.help import help_text  # noqa: PLC0415

        print(help_text("run"), end="")
    sys.stdout.flush()
    leave(0)

