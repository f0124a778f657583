"""The display copy: how much is shown, in which colours, and the lines around it, on a clock of the test's own."""

import pytest

from longwatch.testing import FakeClock
from longwatch.tool.display import ALLOWED, WINDOW, Allowance, Display
from longwatch.tool.result import ToolResult

KIB = 1 << 10


class Paper:
    """Takes everything, or (`room`) so many bytes."""

    def __init__(self, room=None):
        self.written = b""
        self.room = room

    def write(self, data):
        taken = len(data) if self.room is None else min(len(data), self.room)
        self.written += bytes(data[:taken])
        if self.room is not None:
            self.room -= taken
        return taken

    def wait(self, span):
        """Make room when somebody is patient, as a terminal does in time."""
        if span > 0:
            self.room = 1_000
        return span > 0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def paper():
    return Paper()


@pytest.fixture
def display(paper, clock):
    return Display(paper, "make", colour=False, clock=clock)


def result(**fields):
    """Return a result with what a test is about."""
    given = {
        "exit_code": 0, "termination_reason": "exited", "duration_ms": 2_345, "truncated": False, "stdout": "",
        "stderr": "", "survivors": [], "post_mortem": None, "message": None, "proof": "subreaper",
    }  # fmt: skip
    return ToolResult(**(given | fields))


@pytest.mark.capability("CAP-66")
class TestAllowance:
    """64 KiB a second."""

    def test_a_window_is_filled_and_reset(self):
        """What is allowed is taken whole, then in part, then not at all, until the next window."""
        allowance = Allowance(10, 1_000)
        assert [allowance.take(wanted, at) for wanted, at in ((4, 0), (4, 1), (4, 2), (4, 999))] == [
            4,
            4,
            2,
            0,
        ]
        assert [allowance.take(wanted, at) for wanted, at in ((4, 1_000), (99, 1_001))] == [4, 6]

    def test_a_window_begins_with_its_first_bytes(self):
        """After a silence the window is not half over."""
        allowance = Allowance(10, 1_000)
        allowance.take(1, 0)
        assert allowance.take(10, 1_700) == 10
        assert allowance.take(1, 2_600) == 0
        assert allowance.take(1, 2_700) == 1

    def test_the_numbers(self):
        """The default is 64 KiB in a second."""
        assert (ALLOWED, WINDOW) == (64 * KIB, 1_000)


@pytest.mark.capability("CAP-66")
class TestCopy:
    """What is shown of the streams."""

    def test_each_stream_has_its_own_allowance(self, display, paper, clock):
        """A flood on stdout takes nothing from stderr; the next second shows more; what was dropped is counted."""
        for _ in range(3):
            display.show("stdout", memoryview(b"o" * 40 * KIB))
        display.show("stderr", memoryview(b"e" * 70 * KIB))
        assert paper.written.count(b"o") == paper.written.count(b"e") == 64 * KIB
        assert display.dropped == (120 - 64 + 70 - 64) * KIB
        clock.advance(1_000)
        display.show("stdout", memoryview(b"o" * 10))
        assert paper.written.count(b"o") == 64 * KIB + 10

    def test_colours(self, paper, clock):
        """One stream is dim and the other yellow, each chunk by itself."""
        display = Display(paper, "make", colour=True, clock=clock)
        display.show("stdout", memoryview(b"out\n"))
        display.show("stderr", memoryview(b"err\n"))
        assert paper.written == b"\x1b[2mout\n\x1b[0m\x1b[33merr\n\x1b[0m"

    def test_a_command_does_not_drive_the_terminal(self, display, paper):
        """Control characters are shown as question marks, but for line ends and tabs; letters stay what they are."""
        display.show("stdout", memoryview("a\x1b]52;c;x\x07\tb\r\n\x00\x7fü".encode()))
        assert paper.written.decode() == "a?]52;c;x?\tb\r\n??ü"

    def test_a_terminal_that_takes_nothing(self, clock):
        """What a stuck terminal does not take is dropped, and nobody waits."""
        display = Display(Paper(room=0), "make", colour=False, clock=clock)
        display.show("stdout", memoryview(b"x" * 100))
        display.show("stdout", memoryview(b""))
        assert display.dropped == 100

    def test_a_busy_terminal(self, clock):
        """The last line is waited for a little; a colour that was torn off is reset, and the line stands by itself."""
        paper = Paper(room=10)
        display = Display(paper, "make", colour=True, clock=clock)
        display.show("stderr", memoryview(b"0123456789"))
        display.finished(result(), None)
        first, second = paper.written.decode().splitlines()
        assert first == "\x1b[33m01234\x1b[0m"
        assert second.startswith("longwatch: make: exit 0 after 2.3 s, ")


@pytest.mark.capability("CAP-67")
class TestLines:
    """The lines around the output."""

    @pytest.mark.parametrize(
        ("fields", "signal", "words"),
        [
            ({}, None, "exit 0 after 2.3 s"),
            ({"exit_code": 3, "duration_ms": 40}, None, "exit 3 after 0.0 s"),
            ({"exit_code": None, "termination_reason": "signaled", "duration_ms": 960}, "KILL", "signal KILL after 1.0 s"),
            ({"exit_code": None, "termination_reason": "timeout"}, "TERM", "timeout, signal TERM after 2.3 s"),
            ({"exit_code": 0, "termination_reason": "timeout"}, None, "timeout, exit 0 after 2.3 s"),
        ],
    )  # fmt: skip
    def test_start_and_finish(self, display, paper, fields, signal, words):
        """The first line has the pid; the last one says exit or signal, and seconds to one decimal."""
        display.started(4711)
        display.finished(result(**fields), signal)
        assert paper.written.decode().splitlines() == [
            "longwatch: make: started, pid 4711",
            f"longwatch: make: {words}",
        ]

    def test_they_stand_on_lines_of_their_own(self, display, paper):
        """Output that does not end with a line break is followed by one."""
        display.show("stdout", memoryview(b"no end"))
        display.finished(result(), None)
        assert paper.written == b"no end\nlongwatch: make: exit 0 after 2.3 s\n"

    def test_what_was_not_shown_is_said(self, display, paper):
        """The human knows that there was more."""
        display.show("stdout", memoryview(b"x" * (65 * KIB)))
        display.finished(result(), None)
        assert paper.written.endswith(b"after 2.3 s, 1024 bytes not shown\n")
