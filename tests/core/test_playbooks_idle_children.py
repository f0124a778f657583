"""Playbooks of the first seed: children that somebody waits for are bounded by their silence, never by the clock."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import AbandonPipes, CapturePostMortem, Notify, SignalTree, SweepTree
from longwatch.core.facts import (
    HoldBegan,
    HoldEnded,
    LeaderExited,
    LimitFired,
    LimitNoted,
    RunEnded,
    SourceChanged,
    StopAverted,
    StopBegan,
)
from longwatch.core.spec import HOUR, MINUTE, SECOND, LimitSpec, Spec
from longwatch.testing import Playbook, like

S = SECOND
OUT, ERR = o.ProgressSeen("stdout"), o.ProgressSeen("stderr")


def child(window: int = 2 * S, **more: LimitSpec) -> Playbook:
    """Return a script for a child with two streams and an idle window."""
    spec = Spec({"idle": LimitSpec(window), **more}, held=("stdout", "stderr"))
    return Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded))


def ends(book: Playbook, at: int, code: int = 0) -> Playbook:
    """Let the child end by itself with its streams, leaving nothing."""
    book.tell(at, o.Exited(code)).expect(at, LeaderExited(at, code, None))
    book.tell(at, o.Drained()).expect(at, SweepTree())
    return book.tell(at, o.TreeGone()).expect(at, RunEnded(at, "exited", code))


def test_a_child_that_ticks_outlives_its_window() -> None:
    """A tick a second for six seconds under a window of two: exit 0, nothing flagged."""
    book = child()
    for second in range(1, 7):
        book.tell(second * S, OUT)
    ends(book, 6 * S).play()


def test_a_silent_child_is_reaped() -> None:
    """Silence for a whole window from the start: stopped as idle, at the window, not a poll later."""
    book = child(1 * S)
    book.expect(1 * S, LimitFired(1 * S, "idle", 1 * S, 0, "stop"), like(Notify), CapturePostMortem("idle"))
    book.tell(1010, o.Prepared()).expect(1010, StopBegan(1010, "idle", 15), SignalTree(15))
    book.tell(1020, o.Exited(signal=15)).expect(1020, like(LeaderExited), SweepTree())
    book.tell(1030, o.Drained(), o.TreeGone())
    book.expect(1030, RunEnded(1030, "idle", None, 15, limit="idle")).play()


def test_ticks_then_silence() -> None:
    """The window counts from the last tick, and the firing names it."""
    book = child()
    book.tell(500, OUT).tell(1500, OUT)
    book.expect(
        3500, LimitFired(3500, "idle", 2 * S, 1500, "stop", "stdout"), like(Notify), like(CapturePostMortem)
    )
    book.play()


def test_words_on_stderr_are_progress() -> None:
    """A child that only writes to stderr is alive."""
    book = child()
    for second in range(1, 20):
        book.tell(second * S, ERR)
    ends(book, 20 * S).play()


def test_a_quick_child_is_never_flagged() -> None:
    """A child that ends before its window ends as it ended."""
    ends(child(), 5, code=3).play()


def test_a_child_that_ends_in_its_last_moment_is_not_flagged() -> None:
    """The exit is heard before the first signal: status wins over the limit."""
    book = child()
    book.expect(2 * S, like(LimitFired), like(Notify), CapturePostMortem("idle"))
    book.tell(2001, o.Exited(0)).expect(2001, like(StopAverted, why="exited"), LeaderExited(2001, 0, None))
    book.tell(2001, o.Prepared())
    book.tell(2001, o.Drained()).expect(2001, SweepTree())
    book.tell(2001, o.TreeGone()).expect(2001, RunEnded(2001, "exited", 0)).play()


def test_a_grandchild_that_holds_the_pipe_delays_nothing() -> None:
    """The child is gone, a grandchild keeps the pipe: half a second of silence, and the run ends with the child's 0."""
    book = child(HOUR)
    book.tell(1 * S, OUT, o.Exited(0)).expect(1 * S, LeaderExited(1 * S, 0, None))
    book.expect(1500, AbandonPipes(), SweepTree())
    book.tell(1500, o.TreeGone()).expect(1500, RunEnded(1500, "exited", 0)).play()


def test_the_clock_starts_with_the_child() -> None:
    """A child that is told of late has had its silence since its start."""
    book = Playbook(Spec({"idle": LimitSpec(2 * S)}, held=("stdout",)), start=700, ignore=(LimitNoted,))
    book.expect(
        2700, LimitFired(2700, "idle", 2 * S, 700, "stop"), like(Notify), like(CapturePostMortem)
    ).play()


# Workstreams: a budget marks, silence stops


def workstream(*, preserve: bool) -> Playbook:
    """Return a script of a workstream with two hours of budget and an idle window of five minutes.

    Without `preserve` its silence is nobody's business: only the budget is watched.
    """
    limits = {"soft": LimitSpec(2 * HOUR)}
    if preserve:
        limits["idle"] = LimitSpec(5 * MINUTE)
    spec = Spec(limits, sampled=("file:log",), armed_by_soft=preserve)
    return Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded))


def test_over_budget_and_talking_goes_on() -> None:
    """Past its budget a workstream is marked, and while its log grows nothing else happens: it ends as it ends."""
    book = workstream(preserve=True)
    for minute in range(1, 180, 4):
        if minute == 121:
            book.expect(2 * HOUR, like(LimitFired, limit="soft", action="notify"), like(Notify))
        book.tell(minute * MINUTE, o.ProgressSeen("file:log"))
    book.tell(180 * MINUTE, o.Exited(0)).expect(180 * MINUTE, like(LeaderExited)).play()


def test_over_budget_and_silent_is_interrupted() -> None:
    """Past its budget and silent for the window: stopped, with its state kept."""
    book = workstream(preserve=True)
    book.tell(119 * MINUTE, o.ProgressSeen("file:log"))
    book.expect(120 * MINUTE, like(LimitFired, limit="soft"), like(Notify))
    book.expect(124 * MINUTE, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle")).play()


def test_silent_but_within_budget_goes_on() -> None:
    """Silence alone interrupts nothing while there is budget left."""
    book = workstream(preserve=True)
    book.tell(1 * MINUTE, o.ProgressSeen("file:log")).until(2 * HOUR - 1).play()


@pytest.mark.parametrize("preserve", [True, False])
def test_an_unreadable_log_means_live(preserve: bool) -> None:
    """A log that cannot be read is no evidence of silence: over budget the run is marked and nothing more."""
    book = workstream(preserve=preserve)
    book.tell(1 * MINUTE, o.ProgressSeen("file:log"))
    book.tell(2 * MINUTE, o.SourceLost("file:log")).expect(2 * MINUTE, like(SourceChanged, state="lost"))
    book.expect(120 * MINUTE, like(LimitFired, limit="soft"), like(Notify)).until(20 * HOUR).play()


def test_without_preserve_the_budget_only_marks() -> None:
    """Under the default policy even a silent workstream over its budget is left to its own end."""
    book = workstream(preserve=False)
    book.expect(2 * HOUR, like(LimitFired, limit="soft"), like(Notify))
    book.until(10 * HOUR)
    book.tell(10 * HOUR, o.Exited(0)).expect(10 * HOUR, like(LeaderExited)).play()
