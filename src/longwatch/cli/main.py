"""The lean front: read the words, spawn, and only then load anything else.

What is imported before the spawn is on every run's bill, so this module and all it needs load nothing that takes
time; `attend` takes over while the child is on its way. `timeout` and `tool` have fronts of their own; every other
verb is click's.
"""

import os
import sys

from longwatch.errors import UsageError
from longwatch.options import DEFAULT, Values, child_environment, parse
from longwatch.paths import new_run_id, safe_name
from longwatch.posix.signals import Ear
from longwatch.posix.spawn import (
    INHERIT,
    MERGED,
    NULL,
    PIPES,
    PTY,
    Launch,
    SpawnError,
    become_subreaper,
    own_children,
    reset_dispositions,
    same_file,
    spawn,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from longwatch.cli.again import Again
    from longwatch.observe.screen import Screen
    from longwatch.options import Told
    from longwatch.posix.child import Child
    from longwatch.posix.files import FileSource
    from longwatch.posix.process import Process
    from longwatch.posix.reactor import Reactor
    from longwatch.posix.sink import Log
    from longwatch.posix.terminal import Terminal
    from longwatch.preset_table import Preset
    from longwatch.runtime.rundir import RunDir
else:
    import _signal

USAGE_ERROR = 125
#: Told to end; told to a program for its own purposes; told about the terminal.
ENDING = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
PASSED_ON = (_signal.SIGUSR1, _signal.SIGUSR2)
JOB_CONTROL = (_signal.SIGTSTP, _signal.SIGCONT)


def main(argv: list[str]) -> "NoReturn":
    """Dispatch on the program's name or the first word. Ends the process."""
    verb = argv[1] if len(argv) > 1 else ""
    if verb == "run":
        run(argv[2:])
    if argv[1:] == ["hook"]:
        from longwatch.cli.hook import main as hook  # noqa: PLC0415

        hook(argv)
    named_timeout = os.path.basename(argv[0]) == "timeout"
    if named_timeout or verb == "timeout":
        from longwatch.cli.timeout import timeout  # noqa: PLC0415

        timeout(argv[1:] if named_timeout else argv[2:])
    if verb == "tool":
        from longwatch.cli.tool import tool  # noqa: PLC0415

        tool(argv[2:])
    if _signal.getsignal(_signal.SIGINT) == _signal.SIG_DFL:
        # The script has it so while it loads; verbs end at Ctrl-C in their own words.
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    if verb == "quiet" and argv[2:3] not in ([], ["-h"], ["--help"]):
        _quiet(argv[2:])
    from longwatch.cli.verbs import main as verbs  # noqa: PLC0415

    sys.exit(verbs(argv[1:]))


def _quiet(words: list[str]) -> "NoReturn":
    """Without click: what asks for silence inside a run should not spend the run's window on loading."""
    from longwatch.cli.quiet import main as quiet  # noqa: PLC0415

    try:
        leave(quiet(words))
    except UsageError as error:
        say(str(error))
        leave(2)


def run(words: list[str]) -> "NoReturn":
    """Run a command under its limits; end as the command did, or with the status that the reason has."""
    fill_standard_descriptors()
    try:
        values, command = parse("run", words, read=from_file)
        if values.help or values.version:
            answer("run", values)
        for warning in values.warnings:
            say(warning)
        front = _prepare(values, command)
    except UsageError as error:
        say(str(error))
        leave(USAGE_ERROR)
    try:
        child = launch(front)
    except SpawnError as error:
        from longwatch.cli.ended import not_started  # noqa: PLC0415

        not_started(front, error)
    from longwatch.cli.attend import attend  # noqa: PLC0415

    attend(front, child)


class Front:
    """What a foreground run holds from its first instant on."""

    __slots__ = (
        "again", "argv", "attempt", "ear", "ended_by", "files", "folder", "lent", "log", "name", "output", "preset",
        "process", "reactor", "report_fd", "run_id", "screen", "strangers", "subreaper", "terminal", "unkept", "values",
    )  # fmt: skip

    def __init__(self, values: Values, argv: list[str], run_id: str, name: str) -> None:
        self.values = values
        self.argv = argv
        self.run_id = run_id
        self.name = name
        self.ear = Ear((*ENDING, *PASSED_ON, *JOB_CONTROL, _signal.SIGWINCH))
        #: What the program is known as, and the tools whose budgets were lent by that.
        self.preset: Preset | None = None
        self.lent: tuple[str, ...] | None = None
        #: Which incarnation this is, who takes the run from one to the next, and the folder that goes with it.
        self.attempt = 1
        self.again: Again | None = None
        self.folder: RunDir | None = None
        #: Set once the child runs.
        self.reactor: Reactor
        self.process: Process
        #: The signal that this process is to end by, once the tree is gone.
        self.ended_by: int | None = None
        self.output = PIPES
        self.subreaper = False
        #: Children that we had before this run, as in `sleep 9 & exec longwatch run ...`.
        self.strangers: list[int] = []
        self.files: list[FileSource] | None = None
        self.log: Log | None = None
        self.terminal: Terminal | None = None
        self.screen: Screen | None = None
        self.report_fd: int | None = None
        #: Whether it was already said that nothing can be kept of this run.
        self.unkept = False


def _prepare(values: Values, command: list[str]) -> Front:
    """Do all that can fail for a reason of the user's before anything is started. Raises UsageError."""
    name = values.name or safe_name(command[0])
    front = Front(values, command, new_run_id(name), name)
    named = values.source("progress") != DEFAULT or values.preset is not None or values.resume_on_limit
    if named or values.report or values.log or values.not_progress or values.nudge:
        from longwatch.cli.extras import prepare  # noqa: PLC0415

        prepare(front)
    return front


def launch(front: Front) -> "Child":
    """Start the program; one incarnation gets what the one before had. Raises SpawnError."""
    values = front.values
    reset_dispositions()
    front.subreaper = become_subreaper()
    front.strangers = own_children()
    output = front.output = output_for(values) if front.attempt == 1 else front.output
    return spawn(
        Launch(
            front.argv,
            child_environment(os.environ, front.run_id, front.attempt),
            stdin=_input(values, output),
            output=output,
            size=_terminal_size() if output == PTY else None,
            like=0 if output == PTY else None,
            # What the user sends somewhere else goes there, also when the program has a terminal.
            apart=output == PTY and not os.isatty(2) and not same_file(1, 2),
        )
    )


def output_for(values: Values) -> str:
    """Terminal in, terminal out; else one pipe if both of our streams are the same file, so that order holds."""
    wanted = values.pty
    # A background job must not touch the terminal's settings: the kernel would stop it.
    if wanted or (wanted is None and os.isatty(1) and _foreground() == os.getpgrp()):
        return PTY
    return MERGED if same_file(1, 2) else PIPES


def _input(values: Values, output: str) -> str:
    """Return where the program reads from.

    In a session of its own nothing keeps it from reading a terminal: in the background it would take the shell's keys.
    """
    stolen = output != PTY and _foreground() not in (0, os.getpgrp())
    return INHERIT if values.stdin == "inherit" and not stolen else NULL


def _foreground() -> int:
    """Return the group that has our terminal; 0 where stdin is no terminal of our session's."""
    try:
        return os.tcgetpgrp(0)
    except OSError:
        return 0


def _terminal_size() -> tuple[int, int] | None:
    for descriptor in (0, 1, 2):
        try:
            columns, rows = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if columns and rows:
            return rows, columns
    return None


def from_file(path: str, verb: str, name: str | None) -> "Told":
    """Return what a file says that `--config` names. All that reading it takes is loaded, before anything is started."""
    from longwatch.config.as_options import read  # noqa: PLC0415

    return read(path, verb, name)


def answer(verb: str, values: Values) -> "NoReturn":
    """Print the help or the version that was asked for."""
    if values.version:
        from longwatch import __version__  # noqa: PLC0415

        text = f"longwatch {__version__} (Python {sys.version.split()[0]})\n"
    else:
        from longwatch.cli.help import help_text  # noqa: PLC0415

        text = help_text(verb)
    sys.stdout.write(text)
    sys.stdout.flush()
    leave(0)


def say(text: str) -> None:
    """Print a line of ours on stderr, or several; nobody there to read it is no error."""
    lines = text.replace("\n", "\nlongwatch: ")
    try:
        os.write(2, f"longwatch: {lines}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def leave(status: int) -> "NoReturn":
    """End at once: nothing is buffered, and an interpreter's farewell costs more than a fast child's whole life."""
    os._exit(status)


def leave_by(signum: int, *, group: bool = False) -> "NoReturn":
    """End by the very signal, so that a shell's loop ends too; a signal that does not end us becomes 128+N.

    `group` also sends it to those beside us, as our terminal would have done with the key.
    """
    _signal.signal(signum, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    if signum == _signal.SIGQUIT:
        # The signal was meant for the program; a core of ours is no use to anybody.
        import resource  # noqa: PLC0415 - a C module that is only needed here, at the very end

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.kill(0 if group else os.getpid(), signum)
    os._exit(128 + signum)


def fill_standard_descriptors() -> None:
    """A caller may have closed 0, 1 or 2; a pipe of ours must not take such a number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
