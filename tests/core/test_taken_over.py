"""A watch that goes on where another one was, and one whose limits are changed while it watches."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify
from longwatch.core.spec import LimitSpec, Spec
from longwatch.core.watch import Watch


def watch(**limits):
    """Return a watch of a program with one stream."""
    return Watch(Spec(limits, ("out",)), 0)


def left(seen, name, now):
    """Return what is left of a limit."""
    return seen.snapshot(now)["limits"].get(name)


def test_what_is_known_moves_the_clocks_and_nothing_comes_of_it_again():
    """A notice that was due by then was given by then; a silence goes on from its last sign."""
    seen = watch(idle=LimitSpec(100, "notify"), stall=LimitSpec(1_000, "stop"))
    seen.resume([(50, o.ProgressSeen("out", 3))], 400)
    assert not [c for c in seen.advance(500) if isinstance(c, Notify)]
    assert seen.snapshot(500)["sources"]["out"] == {"last_ms": 450, "count": 3}
    assert left(seen, "stall", 500) == 500


def test_a_stop_that_was_due_is_begun_again():
    """It did not end the run, or nobody would have left it."""
    seen = watch(idle=LimitSpec(100, "stop"))
    seen.resume([], 400)
    assert any(isinstance(c, CapturePostMortem) for c in seen.advance(400))


def test_the_first_sign_is_not_awaited_twice():
    """A program that had spoken needs no first word."""
    seen = watch(first=LimitSpec(100, "stop"))
    seen.resume([(50, o.ProgressSeen("out"))], 400)
    assert left(seen, "first", 400) is None
    assert not seen.advance(1_000)


def test_another_window_counts_from_the_same_sign():
    """A longer window gives time, a shorter one takes it; one that was not there counts from the last sign."""
    seen = watch(idle=LimitSpec(100, "stop"))
    seen.observe(o.ProgressSeen("out"), 50)
    seen.redefine(Spec({"idle": LimitSpec(500, "stop"), "stall": LimitSpec(900, "stop")}, ("out",)))
    assert (left(seen, "idle", 60), left(seen, "stall", 60)) == (490, 840)
    seen.redefine(Spec({}, ("out",)))
    assert left(seen, "idle", 60) is None
    seen.redefine(Spec({"idle": LimitSpec(300, "stop"), "first": LimitSpec(10, "stop")}, ("out",)))
    assert (left(seen, "idle", 60), left(seen, "first", 60)) == (290, None)


def test_a_limit_that_stayed_has_acted_if_it_had():
    """The same window is the same episode: no second notice. Another window is another episode."""
    seen = watch(idle=LimitSpec(100, "notify"))
    assert [c for c in seen.advance(100) if isinstance(c, Notify)]
    seen.redefine(Spec({"idle": LimitSpec(100, "notify")}, ("out",)))
    assert not [c for c in seen.advance(150) if isinstance(c, Notify)]
    seen.redefine(Spec({"idle": LimitSpec(160, "notify")}, ("out",)))
    assert [c for c in seen.advance(160) if isinstance(c, Notify)]


def test_open_calls_and_questions_keep_their_clocks():
    """Their windows change, their beginnings do not; a tool whose budget is off has no limit any more."""
    limits = {"call": LimitSpec(100, "stop"), "ask": LimitSpec(100, "notify")}
    seen = watch(**limits)
    seen.observe(o.CallBegan("1", "Bash"), 10)
    seen.redefine(Spec({"call": LimitSpec(500, "stop")}, ("out",)))
    assert left(seen, "call", 60) == 450
    seen.redefine(Spec({"call": LimitSpec(500, "stop", {"Bash": 0})}, ("out",)))
    assert left(seen, "call", 60) is None
    asked = watch(**limits)
    asked.observe(o.Asked("q"), 10)
    asked.redefine(Spec({"ask": LimitSpec(300, "notify")}, ("out",)))
    assert left(asked, "ask", 60) == 250


@pytest.mark.parametrize(("named", "expected"), [(True, 250), (False, None)])
def test_a_final_result_goes_on_being_final(named, expected):
    """Who lingers after it has the new window, or none."""
    seen = watch(linger=LimitSpec(100, "stop"))
    seen.observe(o.ResultSeen(True), 10)
    seen.redefine(Spec({"linger": LimitSpec(300, "stop")} if named else {}, ("out",)))
    assert left(seen, "linger", 60) == expected


def test_credit_that_was_granted_stays_granted():
    """A ceiling that a pause has moved stays moved, within the new cap."""
    seen = Watch(Spec({"ceiling": LimitSpec(1_000, "stop")}, ("out",), pause_credit=10_000), 0)
    seen.observe(o.Paused(60_000), 100)
    seen.observe(o.Resumed(), 5_100)
    seen.advance(5_100)
    moved = left(seen, "ceiling", 5_100)
    seen.redefine(Spec({"ceiling": LimitSpec(1_000, "stop")}, ("out",), pause_credit=10_000))
    assert left(seen, "ceiling", 5_100) == moved
    fresh = watch()
    fresh.redefine(Spec({"ceiling": LimitSpec(1_000, "stop")}, ("out",)))
    assert left(fresh, "ceiling", 100) == 900


@pytest.mark.parametrize(("count", "stops"), [(3, True), (9, False)])
def test_a_loop_is_counted_on(count, stops):
    """Equal calls before the change count where the number stayed."""
    seen = Watch(Spec({}, ("out",), loop=3), 0)

    def call(at):
        seen.observe(o.CallBegan("1", "Bash", "same"), at)
        return seen.observe(o.CallEnded("1", True, "same"), at)

    call(10)
    call(20)
    seen.redefine(Spec({}, ("out",), loop=count))
    out = [*call(30), *seen.advance(31)]
    assert any(isinstance(c, CapturePostMortem) for c in out) == stops


def test_how_far_a_limit_may_climb_can_be_lowered_and_given_back():
    """Only the named one, and never further than its spec."""
    seen = watch(stall=LimitSpec(100, "stop"), idle=LimitSpec(10_000, "stop"))
    seen.allow("stall", "notify")
    assert not any(isinstance(c, CapturePostMortem) for c in seen.advance(100))
    again = watch(stall=LimitSpec(100, "stop"))
    again.allow("stall", "notify")
    again.allow("stall")
    again.allow("nothing", "notify")
    assert any(isinstance(c, CapturePostMortem) for c in again.advance(100))
