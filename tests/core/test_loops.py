"""The same call again and again, as the watch sees it: told as a suspicion, and stopped where somebody asked for it."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CancelStream, CapturePostMortem, Notify, SignalTree
from longwatch.core.facts import (
    HoldBegan,
    HoldEnded,
    KillSent,
    LimitFired,
    LoopSuspected,
    StopAverted,
    StopBegan,
)
from longwatch.core.repeats import Failures, fingerprint, without_waiting
from longwatch.core.spec import SECOND, Spec
from longwatch.testing import Playbook, like

S = SECOND
SAME = fingerprint("Bash", {"cmd": "make", "n": 1})


def book(loop: int = 0, **options: bool) -> Playbook:
    """Return a script for a run without any limit of time."""
    return Playbook(Spec({}, held=("events",), loop=loop, **options), ignore=(HoldBegan, HoldEnded))


def call(script: Playbook, at: int, mark: str = SAME, result: str = "ok", name: str | None = None) -> None:
    """Tell one call and its result, at the same instant."""
    name = name or f"c{at}"
    script.tell(at, o.CallBegan(name, "Bash", mark), o.CallEnded(name, True, result))


@pytest.mark.capability("CAP-99")
@pytest.mark.fault("S1")
def test_thirty_equal_calls_with_ten_allowed_are_looping() -> None:
    """The fifth is told, the tenth stops the run, with the span of the repeats and the tool named."""
    script = book(loop=10)
    for n in range(1, 11):
        call(script, n * S)
        if n == 5:
            script.expect(
                5 * S, LoopSuspected(5 * S, "Bash", 5, 20), Notify(LoopSuspected(5 * S, "Bash", 5, 20))
            )
    fired = like(LimitFired, limit="loop", window=9 * S, since=1 * S, subject="Bash", action="stop")
    script.expect(10 * S, fired, like(Notify), CapturePostMortem("loop"))
    script.tell(10 * S, o.Prepared()).expect(10 * S, StopBegan(10 * S, "looping", 15), SignalTree(15))
    script.play()


@pytest.mark.fault("S1")
def test_differing_results_are_no_loop() -> None:
    """Thirty equal questions with thirty answers are polling: nothing is said and nothing is done."""
    script = book(loop=10)
    for n in range(30):
        call(script, n * S, result=f"{n} %")
    script.play()


def test_without_the_option_a_loop_is_only_told() -> None:
    """The detector watches; it never stops anything, and interrupts nobody."""
    script = book()
    for n in range(1, 31):
        call(script, n * S)
        if n == 5:
            script.expect(5 * S, LoopSuspected(5 * S, "Bash", 5, 20))
    script.play()


def test_another_call_before_the_first_signal_averts_the_stop() -> None:
    """What changes while the stop is prepared is believed, and a new episode begins."""
    script = book(loop=2)
    call(script, 1 * S)
    call(script, 2 * S)
    script.expect(2 * S, like(LimitFired, limit="loop"), like(Notify), CapturePostMortem("loop"))
    call(script, 2 * S, name="once more")
    call(script, 3 * S, mark="other")
    script.tell(3 * S, o.Prepared()).expect(3 * S, StopAverted(3 * S, "loop", "progress"))
    call(script, 4 * S, mark="other")
    script.expect(4 * S, like(LimitFired, limit="loop", since=3 * S), like(Notify), CapturePostMortem("loop"))
    script.play()


def test_calls_without_a_mark_or_an_end_do_not_count() -> None:
    """A dialect that cannot see what was asked says nothing of repeats; neither does a call that never ended."""
    script = book(loop=2)
    for n in range(1, 7):
        call(script, n * S, mark="")
        script.tell(n * S, o.CallBegan(f"open{n}", "Bash", SAME), o.StreamRestarted())
        script.tell(n * S, o.CallEnded(f"open{n}", True, "late"))
    script.play()


def test_a_new_turn_starts_clean() -> None:
    """What was asked for again by a human is no loop."""
    script = book()
    for n in range(1, 10):
        call(script, n * S)
        if n == 4:
            script.tell(n * S, o.TurnEnded(), o.TurnBegan())
        if n == 9:
            script.expect(9 * S, like(LoopSuspected))
    script.play()


@pytest.mark.capability("CAP-127")
def test_a_word_of_the_user_opens_the_latch() -> None:
    """Equal calls before it and after it do not add up to a loop; after it they may be one again."""
    script = book(loop=3)
    for n in (1, 2):
        call(script, n * S)
    script.tell(3 * S, o.TurnBegan())
    for n in (4, 5, 6):
        call(script, n * S)
    script.expect(6 * S, like(LimitFired, limit="loop"), like(Notify), CapturePostMortem("loop"))
    script.tell(6 * S, o.TurnBegan(), o.Prepared()).expect(6 * S, StopAverted(6 * S, "loop", "progress"))
    script.play()


def test_a_stream_is_cancelled_where_a_tree_would_be_signalled() -> None:
    """Same decisions, other hands: each signal to a tree is the end of a stream."""
    script = book(streamed=True)
    stop = o.StopRequested("cancelled", "explicit", grace=1_000)
    script.tell(1 * S, stop).expect(1 * S, StopBegan(1 * S, "cancelled", 15, "explicit"), CancelStream())
    script.expect(2 * S, KillSent(2 * S), CancelStream())
    script.play()


@pytest.mark.capability("CAP-100")
def test_three_equal_failures_are_refused() -> None:
    """More patience makes no other call; a success clears, and so does a human's word."""
    failures = Failures()
    for seconds in (10, 20, 40):
        assert not failures.refuses("Bash", {"cmd": "make", "timeout": seconds})
        failures.ended("Bash", {"cmd": "make", "timeout": seconds}, ok=False)
        failures.ended("Bash", {"cmd": "ls"}, ok=True)
    assert failures.refuses("Bash", {"cmd": "make"})
    assert not failures.refuses("Bash", {"cmd": "make test"})
    failures.ended("Bash", {"cmd": "make"}, ok=True)
    assert not failures.refuses("Bash", {"cmd": "make"})
    for _ in range(3):
        failures.ended("Bash", "make", ok=False)
    assert failures.refuses("Bash", "make")
    failures.reset()
    assert not failures.refuses("Bash", "make")


def test_odd_arguments_never_raise() -> None:
    """What contains itself, or fails when looked at, equals nothing but itself."""

    class Odd:
        def __repr__(self) -> str:
            raise ValueError("no text")

    endless: list[object] = []
    endless.append(endless)
    odd, other = Odd(), Odd()
    assert fingerprint("x", odd) == fingerprint("x", odd) != fingerprint("x", other)
    assert fingerprint("x", endless) == fingerprint("x", endless)
    assert without_waiting([1]) == [1]


def test_a_mark_is_short_whatever_the_result() -> None:
    """Results of a megabyte leave marks of a few bytes."""
    assert len(fingerprint("Bash", {"cmd": "x" * 1_000_000}, "y" * 1_000_000)) < 40
