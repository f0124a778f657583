"""Playbooks of the second seed: a command with a time of its own, set by a human, ended as a whole tree."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify, SignalTree, SweepTree
from longwatch.core.facts import (
    HoldBegan,
    HoldEnded,
    KillSent,
    LeaderExited,
    LimitFired,
    LimitNoted,
    RunEnded,
    StopAverted,
    StopBegan,
)
from longwatch.core.outcomes import exit_status, outcome
from longwatch.core.spec import HOUR, SECOND, LimitSpec, Spec
from longwatch.testing import Playbook, like

S = SECOND
TERM, KILL = 15, 9


def command(cap: int = 180 * S, grace: int = 1 * S) -> Playbook:
    """Return a script for a command with a cap, which gets one second between TERM and KILL."""
    spec = Spec({"timeout": LimitSpec(cap)}, held=("stdout", "stderr"), grace=grace)
    return Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded))


def capped(book: Playbook, at: int) -> Playbook:
    """Let the cap be reached and the first signal be sent."""
    book.expect(at, like(LimitFired, limit="timeout"), like(Notify), CapturePostMortem("timeout"))
    return book.tell(at, o.Prepared()).expect(at, StopBegan(at, "timeout", TERM), SignalTree(TERM))


def test_a_command_within_its_cap() -> None:
    """A command that ends in time has exited, whatever its code: a failure of its own is a normal result."""
    book = command()
    book.tell(5 * S, o.Exited(3)).expect(5 * S, LeaderExited(5 * S, 3, None))
    book.tell(5 * S, o.Drained()).expect(5 * S, SweepTree())
    book.tell(5 * S, o.TreeGone()).expect(5 * S, RunEnded(5 * S, "exited", 3)).play()


def test_talking_does_not_help() -> None:
    """The cap is of elapsed time: output and records move it no more than silence does."""
    book = command(cap=10 * S)
    for second in range(1, 10):
        book.tell(
            second * S, o.ProgressSeen("stdout"), o.CallBegan(str(second)), o.CallProgressed(str(second))
        )
    capped(book, 10 * S).play()


def test_a_command_that_ignores_term_is_killed_a_second_later() -> None:
    """TERM to the whole tree, one second, KILL to the whole tree."""
    book = capped(command(cap=200), 200)
    book.expect(1200, KillSent(1200), SignalTree(KILL))
    book.tell(1210, o.Exited(signal=KILL)).expect(1210, like(LeaderExited), SweepTree())
    book.tell(1220, o.Drained(), o.TreeGone())
    book.expect(1220, RunEnded(1220, "timeout", None, KILL, limit="timeout")).play()


def test_a_command_that_cleans_up_is_let_to() -> None:
    """Within its second a command that answers TERM ends in its own way, and its descendants with it."""
    book = capped(command(cap=200), 200)
    book.tell(700, o.ProgressSeen("stderr"))
    book.tell(800, o.Exited(0)).expect(800, LeaderExited(800, 0, None), SweepTree())
    book.tell(800, o.LeftoversFound(("7 sleep",)))
    book.tell(900, o.Drained(), o.TreeGone()).expect(900, RunEnded(900, "timeout", 0, limit="timeout")).play()


def test_descendants_that_ignore_term_are_killed_though_the_leader_has_gone() -> None:
    """The leader's exit is not the end of the tree: what stays is killed when the second is over."""
    book = capped(command(cap=200), 200)
    book.tell(300, o.Exited(signal=TERM)).expect(300, like(LeaderExited), SweepTree())
    book.tell(300, o.LeftoversFound(("7 sleep",)))
    book.expect(1200, KillSent(1200), SignalTree(KILL))
    book.tell(1210, o.Drained(), o.TreeGone())
    book.expect(1210, RunEnded(1210, "timeout", None, TERM, limit="timeout")).play()


def test_an_exit_just_before_the_cap_is_no_timeout() -> None:
    """The cause is set when we act: before the first signal the command's own end is its own."""
    book = command(cap=200)
    book.expect(200, like(LimitFired), like(Notify), CapturePostMortem("timeout"))
    book.tell(201, o.Exited(0)).expect(
        201, StopAverted(201, "timeout", "exited"), LeaderExited(201, 0, None)
    ).play()


@pytest.mark.parametrize(
    ("code", "signal", "reason", "word", "status"),
    [
        (None, TERM, "timeout", "timed_out", 124),
        (0, None, "timeout", "timed_out", 124),  # a handler that exits 0 renames nothing
        (0, None, "exited", "success", 0),
        (None, KILL, "signaled", "failed", 137),
    ],
)
def test_reason_before_code(
    code: int | None, signal: int | None, reason: str, word: str, status: int
) -> None:
    """First what we did, then a code, then a signal: that order, and no other."""
    assert outcome(reason, code)[0] == word
    assert exit_status(reason, code, signal) == status


def test_no_cap() -> None:
    """Zero means no cap: the command runs as long as it runs, and is never marked."""
    command(cap=0).until(100 * HOUR).play()
