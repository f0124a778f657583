"""`timeout`, as GNU's: same words, same exit statuses, same messages; but at the limit nothing escapes.

The command inherits our streams, group and terminal, and no variable is read and no file written. What differs from
`run`: the signal goes to the command and our group, so that a nested timeout can do its own part; without `-k`
nothing is killed that handles the signal. Once the command itself is gone after the limit, the rest of its tree is
ended too, whichever session it fled to; with `--foreground` only the command itself is signalled, as documented.
"""

import os

from longwatch.cli.main import ENDING, PASSED_ON, answer, fill_standard_descriptors, leave, leave_by
from longwatch.errors import UsageError
from longwatch.option_kinds import signal_name
from longwatch.options import Values, parse
from longwatch.posix.process import Process, start
from longwatch.posix.reactor import Reactor
from longwatch.posix.signals import Ear
from longwatch.posix.spawn import (
    INHERIT,
    Launch,
    SpawnError,
    become_subreaper,
    own_children,
    reset_dispositions,
)
from longwatch.units import parse_gnu_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from longwatch.runtime.driver import Driver
else:
    import _signal

LIMIT, OURS = 124, 125
#: A command that is done sooner never meets the watch.
BLINK = 20
_HEARD = (*ENDING, *PASSED_ON, _signal.SIGALRM, _signal.SIGCONT)


def complain(text: str) -> None:
    """Print one line as GNU's timeout does."""
    os.write(2, f"timeout: {text}\n".encode("utf-8", "surrogateescape"))


def timeout(words: list[str]) -> "NoReturn":
    """Run a command with a time limit and end as GNU's timeout would."""
    fill_standard_descriptors()
    try:
        values, operands = parse("timeout", words)
        if values.help or values.version:
            answer("timeout", values)
        limit = parse_gnu_duration(operands[0])
    except UsageError as error:
        complain(f"{error}\nTry 'timeout --help' for more information.")
        leave(OURS)
    timed = Timed(values, operands[1:], limit)
    try:
        timed.start()
    except SpawnError as error:
        complain(str(error))
        leave(error.status)
    blink = BLINK if not limit else min(BLINK, limit)
    if not timed.process.run_until(timed.process.child.started + blink) or timed.ear.caught:
        timed.supervise()
    timed.end()


class Timed:
    """One command under one limit (ms; 0 and None: none)."""

    def __init__(self, values: Values, argv: list[str], limit: int | None) -> None:
        self.values = values
        self.argv = argv
        self.limit = limit or 0
        self.ear: Ear
        self.process: Process
        self.driver: Driver | None = None
        self.subreaper = False
        self.strangers: list[int] = []

    def start(self) -> None:
        """Take a group of our own, as GNU does, and start the command in it. Raises SpawnError."""
        reset_dispositions()
        if not self.values.foreground:
            try:
                os.setpgid(0, 0)
            except OSError:
                pass  # a session's leader has its own already
        self.subreaper = become_subreaper()
        self.strangers = own_children()
        reactor = Reactor()
        # INT and QUIT that were inherited ignored are heard here, as by GNU: `timeout ... &` in a script has them so.
        for signum in (_signal.SIGINT, _signal.SIGQUIT):
            _signal.signal(signum, _signal.SIG_DFL)
        self.ear = Ear(_HEARD)
        self.ear.listen(reactor)
        launch = Launch(self.argv, output=INHERIT, new_session=False)
        self.process = start(launch, {}, reactor)
        # For us alone: the command's own would be gone for good, and a `read` in the background would fail.
        for signum in (_signal.SIGTTIN, _signal.SIGTTOU):
            _signal.signal(signum, _signal.SIG_IGN)

    def supervise(self) -> None:
        """The command outlived the first blink: load the watch, and drive it to the end."""
        from longwatch.cli.timed import drive  # noqa: PLC0415

        drive(self)

    def end(self) -> "NoReturn":
        """End as GNU does: 124 at the limit, 137 where KILL was needed, else as the command did."""
        code, signum = self.process.ended or (None, None)
        timed_out = self.driver is not None and self.driver.watch.ending.reason == "timeout"
        if not timed_out:
            if signum is not None:
                leave_by(signum)
            leave(OURS if code is None else code)
        status = OURS if code is None and signum is None else code if signum is None else 128 + signum
        if signum == _signal.SIGKILL or self.values.preserve_status:
            leave(status if status is not None else OURS)
        leave(LIMIT)

    def tell_signal(self, signum: int) -> None:
        """Say what is about to be sent, with `--verbose`."""
        if self.values.verbose:
            name = "EXIT" if signum == 0 else signal_name(signum)
            complain(f"sending signal {name} to command '{self.argv[0]}'")
