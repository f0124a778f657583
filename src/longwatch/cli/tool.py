"""`longwatch tool -- CMD`: one command of a model's, told as one line of JSON. For agents written in any language."""

import os
import select

from longwatch.cli.main import ENDING, answer, fill_standard_descriptors, from_file, leave, leave_by, say
from longwatch.core.observations import StopRequested
from longwatch.errors import UsageError
from longwatch.jsonlean import dumps
from longwatch.options import Values, parse
from longwatch.paths import safe_name
from longwatch.posix.signals import Ear
from longwatch.posix.sink import Sink
from longwatch.posix.spawn import reset_dispositions
from longwatch.runtime.driver import Driver
from longwatch.runtime.hosts import loop
from longwatch.tool.command import CommandTool, Live
from longwatch.tool.display import Display

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OK, FAILED, USAGE = 0, 1, 2


def tool(words: list[str]) -> "NoReturn":
    """Run the command and print its result; end with 0 whatever became of it, or by the signal that ended us."""
    fill_standard_descriptors()
    try:
        values, argv = parse("tool", words, read=from_file)
        if values.help or values.version:
            answer("tool", values)
        run = _Run(values, argv)
    except UsageError as error:
        say(str(error))
        leave(USAGE)
    printed = run.to_the_end()
    if run.ended_by is not None:
        leave_by(run.ended_by)
    leave(OK if printed else FAILED)


class _Run:
    """One command, its display, and the signal that we are to end by."""

    def __init__(self, values: Values, argv: list[str]) -> None:
        self.ended_by: int | None = None
        self._ear = Ear(ENDING)
        self._driver: Driver | None = None
        self._argv = argv
        self._display = _display(argv[0])
        self._tool = CommandTool(
            timeout=values.timeout / 1000, idle=values.idle / 1000, grace=values.kill_after / 1000
        )

    def to_the_end(self) -> bool:
        """Run the command; return whether its result could be printed."""
        reset_dispositions()
        with self._tool:
            with self._tool.begin(self._argv, input=_input(), began=self._began) as call:
                if call.session.process is not None:
                    self._ear.listen(call.session.process.reactor)
                    self._drive(call.session.driver)
            result = call.result()
        if self._display is not None and call.runs:
            self._display.finished(result, call.session.report["signal"])
        return _printed(dumps(result.as_dict()))

    def _drive(self, driver: Driver) -> None:
        self._driver = driver
        self._ear.act(self._heard)
        loop(driver)

    def _heard(self, signum: int) -> None:
        """Whoever interrupts us gets the result of what there was; told again, the end comes sooner."""
        assert self._driver is not None
        self.ended_by = signum
        self._driver.tell(StopRequested("interrupted"))

    def _began(self, live: Live) -> None:
        display = self._display
        if display is None:
            return
        display.started(live.pid)
        live.tap("stdout", lambda chunk: display.show("stdout", chunk))
        live.tap("stderr", lambda chunk: display.show("stderr", chunk))


class _Terminal(Sink):
    """Our stderr, for the display."""

    __slots__ = ()

    def wait(self, span: int) -> bool:
        """Wait for at most `span` ms; return whether something fits now."""
        if span <= 0 or self.broken or self.failed is not None:
            return False
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        return bool(poll.poll(span))


def _display(program: str) -> Display | None:
    """Return what shows the command on stderr; None where stderr is no terminal."""
    if not os.isatty(2):
        return None
    return Display(_Terminal(2), safe_name(program), colour=not os.environ.get("NO_COLOR"))


def _input() -> int | None:
    """Return what the command reads: our stdin, unless that is a terminal. Nobody types for a model."""
    return None if os.isatty(0) else 0


def _printed(line: str) -> bool:
    """Print the line; False when nobody reads it."""
    rest = memoryview(f"{line}\n".encode())
    while rest:
        try:
            rest = rest[os.write(1, rest) :]
        except BlockingIOError:
            # Whoever started us has made the pipe non-blocking.
            select.select((), (1,), ())
        except OSError as error:
            say(f"the result could not be written: {(error.strerror or str(error)).lower()}")
            return False
    return True
