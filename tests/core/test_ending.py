"""The end of a run: causes, graces, drains, leftovers, and a bound on every wait."""

import itertools

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import AbandonPipes, CapturePostMortem, Notify, Record, SignalTree, SweepTree
from longwatch.core.facts import (
    KillSent,
    LeaderExited,
    LeftoversStopped,
    LimitFired,
    LimitNoted,
    RunEnded,
    StopBegan,
    TreeUnkillable,
)
from longwatch.core.spec import (
    DRAIN_QUIET,
    DRAIN_TOTAL,
    GRACE,
    GRACE_LEFTOVERS,
    GRACE_WHEN_TOLD,
    HOUR,
    KILL_WAIT,
    SECOND,
    LimitSpec,
    Spec,
)
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

PLAIN = Spec({}, held=("output",))
TERM, KILL, INT, HUP = 15, 9, 2, 1
S = SECOND


def script(spec: Spec = PLAIN) -> Playbook:
    """Return a script that does not care for notes."""
    return Playbook(spec, ignore=(LimitNoted,))


def stopped_by_timeout(grace: int = GRACE, **more: bool) -> Playbook:
    """Return a script that has come as far as the first signal, at 10 s, because the time was over."""
    book = script(Spec({"timeout": LimitSpec(10 * S)}, held=("output",), grace=grace, **more))  # type: ignore[arg-type]
    book.expect(10 * S, like(LimitFired, limit="timeout"), like(Notify), CapturePostMortem("timeout"))
    return book.tell(10 * S, o.Prepared()).expect(
        10 * S, StopBegan(10 * S, "timeout", TERM), SignalTree(TERM)
    )


# By itself


@pytest.mark.parametrize(
    ("exited", "reason"),
    [
        (o.Exited(0), "exited"),
        (o.Exited(3), "exited"),
        (o.Exited(signal=9), "signaled"),  # another one's signal
        (o.Exited(), "unknown"),  # nobody could read how
    ],
)
def test_the_cause_of_an_end_of_its_own(exited: o.Exited, reason: str) -> None:
    """A program that ends by itself has exited, was signalled by others, or ended nobody knows how."""
    book = script()
    book.tell(1 * S, exited).expect(1 * S, LeaderExited(1 * S, exited.code, exited.signal))
    book.tell(1 * S, o.Drained()).expect(1 * S, SweepTree())
    book.tell(1 * S, o.TreeGone()).expect(1 * S, RunEnded(1 * S, reason, exited.code, exited.signal)).play()


@pytest.mark.capability("CAP-61")
def test_an_exit_just_before_the_limit_is_an_exit() -> None:
    """A program that ends by itself before the first signal has exited, even after the limit fired; one that another's
    signal ended was signalled.
    """
    for exited, reason in ((o.Exited(0), "exited"), (o.Exited(signal=KILL), "signaled")):
        for at in (10 * S - 1, 10 * S + 1):
            watch = Watch(Spec({"timeout": LimitSpec(10 * S)}, held=("output",)), 0)
            watch.observe(exited, at)
            assert watch.observe(o.Prepared(), at) == []
            watch.observe(o.Drained(), at)
            (end,) = watch.observe(o.TreeGone(), at)
            assert like(RunEnded, termination_reason=reason, limit=None).matches(end)


@pytest.mark.capability("CAP-62")
def test_a_term_handler_that_exits_0_after_the_limit_is_still_a_timeout() -> None:
    """The cause is set when the signal is sent: what the program makes of it does not rename it."""
    book = stopped_by_timeout()
    book.tell(10_200, o.ProgressSeen("output"))
    book.tell(10_300, o.Exited(0)).expect(10_300, LeaderExited(10_300, 0, None), SweepTree())
    book.tell(10_300, o.Drained())
    book.tell(10_400, o.TreeGone()).expect(10_400, RunEnded(10_400, "timeout", 0, limit="timeout")).play()


# Streams


def test_streams_are_read_until_they_end() -> None:
    """After the exit nothing is cut off while output still comes, and its end is the end of the wait."""
    book = script()
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    book.tell(1400, o.ProgressSeen("output"))
    book.tell(1800, o.AliveSeen("output"))
    book.tell(2200, o.Drained()).expect(2200, SweepTree())
    book.tell(2200, o.TreeGone()).expect(2200, like(RunEnded)).play()


def test_half_a_second_without_a_byte_ends_the_reading() -> None:
    """A pipe that somebody holds open without writing is given up after 500 ms of silence."""
    assert DRAIN_QUIET == 500
    book = script()
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    book.tell(1400, o.ProgressSeen("output"))
    book.expect(1900, AbandonPipes(), SweepTree())
    book.tell(1900, o.TreeGone()).expect(1900, like(RunEnded)).play()


def test_five_seconds_are_all_a_talking_holder_gets() -> None:
    """A pipe that somebody goes on writing to is given up 5 s after the exit."""
    assert DRAIN_TOTAL == 5 * S
    book = script()
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    for at in range(1200, 6000, 200):
        book.tell(at, o.ProgressSeen("output"))
    book.expect(6000, AbandonPipes(), SweepTree()).play()


def test_streams_may_end_before_the_program() -> None:
    """A program that closes its output and works on is not over."""
    book = script()
    book.tell(1 * S, o.Drained())
    book.tell(9 * S, o.Exited(0)).expect(9 * S, like(LeaderExited), SweepTree())
    book.tell(9 * S, o.TreeGone()).expect(9 * S, RunEnded(9 * S, "exited", 0)).play()


# Leftovers


def test_leftovers_get_a_second() -> None:
    """What the program left behind is asked to go, killed after a second, and named."""
    assert GRACE_LEFTOVERS == 1 * S
    book = script()
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    book.tell(1000, o.Drained()).expect(1000, SweepTree())
    book.tell(1000, o.LeftoversFound(("7 sleep",)))
    book.expect(1000, LeftoversStopped(1000, ("7 sleep",), kept=False), SignalTree(TERM))
    book.tell(1500, o.LeftoversFound(("7 sleep",)))
    book.expect(2000, KillSent(2000), SignalTree(KILL))
    book.tell(2100, o.LeftoversFound(("7 sleep",)))
    book.tell(2200, o.TreeGone()).expect(2200, RunEnded(2200, "exited", 0)).play()


def test_leftovers_are_kept_where_the_user_wants_them() -> None:
    """With `--keep-leftovers` they are named, left alone, and not waited for."""
    book = script(Spec({}, held=("output",), keep_leftovers=True))
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    book.tell(1000, o.Drained()).expect(1000, SweepTree())
    book.tell(1000, o.LeftoversFound(("7 sleep",)))
    book.expect(1000, LeftoversStopped(1000, ("7 sleep",), kept=True), RunEnded(1000, "exited", 0)).play()


def test_in_a_stop_leftovers_are_part_of_the_tree() -> None:
    """After a stop nothing is kept: the others have the rest of the grace, then they are killed too."""
    book = stopped_by_timeout(keep_leftovers=True)
    book.tell(11 * S, o.Exited(signal=TERM)).expect(11 * S, like(LeaderExited), SweepTree())
    book.tell(11 * S, o.LeftoversFound(("7 sleep",)))
    book.tell(11 * S, o.Drained())
    book.expect(20 * S, KillSent(20 * S), SignalTree(KILL))
    book.tell(20 * S, o.TreeGone()).expect(
        20 * S, RunEnded(20 * S, "timeout", None, TERM, limit="timeout")
    ).play()


# Stops


def test_grace_kill_unkillable() -> None:
    """TERM, the grace, KILL, the wait after it, an alert: a tree that does not go is not waited for."""
    assert (GRACE, KILL_WAIT) == (10 * S, 3 * S)
    book = stopped_by_timeout()
    book.expect(20 * S, KillSent(20 * S), SignalTree(KILL))
    book.expect(23 * S, TreeUnkillable(23 * S), Notify(TreeUnkillable(23 * S)), AbandonPipes())
    book.expect(23 * S, RunEnded(23 * S, "timeout", limit="timeout")).until(HOUR).play()


def test_unkillable_with_its_output_at_an_end() -> None:
    """Pipes that have ended need not be abandoned."""
    book = stopped_by_timeout(grace=1 * S)
    book.tell(10_100, o.Drained())
    book.expect(11 * S, KillSent(11 * S), SignalTree(KILL))
    book.expect(14 * S, TreeUnkillable(14 * S), like(Notify), like(RunEnded)).play()


def test_a_killed_program_is_drained_too() -> None:
    """After KILL the last words are still read, as long as they come."""
    book = stopped_by_timeout(grace=1 * S)
    book.expect(11 * S, KillSent(11 * S), SignalTree(KILL))
    book.tell(11_010, o.Exited(signal=KILL)).expect(11_010, like(LeaderExited), SweepTree())
    book.tell(11_020, o.TreeGone())
    book.tell(11_400, o.ProgressSeen("output"))
    book.expect(11_900, AbandonPipes(), RunEnded(11_900, "timeout", None, KILL, limit="timeout")).play()


def test_the_trees_end_may_be_told_before_the_leaders() -> None:
    """The exit status is waited for, however the news of the end arrive."""
    news = {"exit": o.Exited(signal=TERM), "drain": o.Drained(), "gone": o.TreeGone()}
    for order in itertools.permutations(news):
        watch = Watch(Spec({}, held=("output",)), 0)
        watch.observe(o.StopRequested("cancelled", "explicit"), 0)
        ends = [c for at, name in enumerate(order) for c in watch.observe(news[name], at)]
        assert like(RunEnded, termination_reason="cancelled", signal=TERM).matches(ends[-1]), order
        assert watch.over


def test_a_leader_whose_end_nobody_tells() -> None:
    """When the tree is gone and its leader's status never comes, the run ends without it, and without an alert."""
    book = script()
    book.tell(1 * S, o.StopRequested("cancelled", "explicit"))
    book.expect(1 * S, like(StopBegan), SignalTree(TERM))
    book.tell(2 * S, o.Drained(), o.TreeGone())
    book.expect(5 * S, RunEnded(5 * S, "cancelled", origin="explicit")).play()
    # The same for a process that is not our child, of which nothing but its absence is known.
    book = script()
    book.tell(1 * S, o.TreeGone())
    book.expect(1500, AbandonPipes())
    book.expect(4 * S, RunEnded(4 * S, "unknown")).play()


def test_asked_to_stop() -> None:
    """A stop by request carries its word, its origin and its signal, and at most 5 s of grace."""
    assert GRACE_WHEN_TOLD == 5 * S
    book = script()
    book.tell(1 * S, o.StopRequested("interrupted", signal=HUP))
    book.expect(1 * S, StopBegan(1 * S, "interrupted", HUP), SignalTree(HUP))
    # What does not know the first signal gets to hear TERM before KILL.
    book.expect(3500, SignalTree(TERM))
    book.expect(6 * S, KillSent(6 * S), SignalTree(KILL)).play()


@pytest.mark.parametrize(
    ("spec_grace", "asked", "expected"),
    [
        (GRACE, None, 5 * S),  # longwatch was told to stop: the shorter grace
        (2 * S, None, 2 * S),  # the user's grace is shorter still
        (GRACE, 30 * S, 30 * S),  # who asks may say how long
        (GRACE, 0, 0),  # or that it be at once
    ],
)
def test_grace_by_request(spec_grace: int, asked: int | None, expected: int) -> None:
    """The grace of a requested stop is the asker's, else the shorter of the run's and 5 s."""
    watch = Watch(Spec({}, held=("output",), grace=spec_grace), 0)
    watch.observe(o.StopRequested("cancelled", "explicit", grace=asked), 1 * S)
    assert watch.next_deadline() == 1 * S + expected


def test_a_second_request_escalates() -> None:
    """Told twice means now."""
    book = script()
    book.tell(1 * S, o.StopRequested("interrupted", signal=INT))
    book.expect(1 * S, like(StopBegan, signal=INT), SignalTree(INT))
    book.tell(2 * S, o.StopRequested("interrupted", signal=INT))
    book.expect(2 * S, KillSent(2 * S), SignalTree(KILL)).play()


def test_a_request_during_a_limits_grace_shortens_it() -> None:
    """Told once while a limit's grace runs: at most 5 s more, and the cause stays the limit's. Told twice: now."""
    book = stopped_by_timeout(grace=60 * S)
    book.tell(12 * S, o.StopRequested("interrupted", signal=INT))
    book.expect(17 * S, KillSent(17 * S), SignalTree(KILL))
    book.tell(17 * S, o.Exited(signal=KILL)).expect(17 * S, like(LeaderExited), SweepTree())
    book.tell(17 * S, o.Drained())
    book.tell(17 * S, o.TreeGone()).expect(
        17 * S, RunEnded(17 * S, "timeout", None, KILL, limit="timeout")
    ).play()
    book = stopped_by_timeout(grace=60 * S)
    book.tell(12 * S, o.StopRequested("interrupted"))
    book.tell(13 * S, o.StopRequested("interrupted")).expect(
        13 * S, KillSent(13 * S), SignalTree(KILL)
    ).play()


def test_a_request_never_lengthens_a_grace() -> None:
    """A request in the last second of a grace does not start it anew."""
    watch = Watch(Spec({"timeout": LimitSpec(10 * S)}, held=("output",)), 0)
    watch.advance(10 * S)
    watch.observe(o.Prepared(), 10 * S)
    watch.observe(o.StopRequested("cancelled", "explicit"), 19 * S)
    assert watch.next_deadline() == 20 * S


def test_a_request_after_the_exit_only_ends_the_wait() -> None:
    """A program that has ended by itself is not cancelled any more; but nobody waits for its output any longer.

    A reader that does not read would hold up the end for ever, and with it whoever tells us to stop.
    """
    book = script()
    book.tell(1000, o.Exited(0)).expect(1000, like(Record))
    book.tell(1100, o.StopRequested("cancelled", "explicit")).expect(1100, AbandonPipes(), SweepTree())
    book.tell(1101, o.StopRequested("interrupted", signal=INT))
    book.tell(1102, o.TreeGone()).expect(1102, RunEnded(1102, "exited", 0)).play()


def test_a_request_during_a_preparation_takes_over() -> None:
    """A stop that somebody asks for does not wait for a hook, and it is theirs."""
    watch = Watch(Spec({"timeout": LimitSpec(10 * S)}, held=("output",)), 0)
    watch.advance(10 * S)
    began, signal = watch.observe(o.StopRequested("cancelled", "shutdown"), 11 * S)
    assert began == Record(StopBegan(11 * S, "cancelled", TERM, "shutdown"))
    assert signal == SignalTree(TERM)
    assert watch.observe(o.Prepared(), 12 * S) == []


def test_the_users_signal_and_grace() -> None:
    """`-s` and `-k` decide the first signal of a limit's stop and when KILL follows."""
    book = script(Spec({"idle": LimitSpec(5 * S)}, held=("output",), signal=INT, grace=2 * S))
    book.expect(5 * S, like(LimitFired), like(Notify), CapturePostMortem("idle"))
    book.tell(5 * S, o.Prepared()).expect(5 * S, StopBegan(5 * S, "idle", INT), SignalTree(INT))
    book.expect(7 * S, KillSent(7 * S), SignalTree(KILL)).play()


def test_limits_are_out_of_the_game_after_the_first_signal() -> None:
    """Nothing but the end goes on once it has begun."""
    spec = Spec({"idle": LimitSpec(5 * S), "ceiling": LimitSpec(6 * S)}, held=("output",), grace=HOUR)
    book = script(spec)
    book.expect(5 * S, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle"))
    book.tell(5500, o.Prepared()).expect(5500, like(StopBegan), SignalTree(TERM))
    book.until(59 * 60 * S).play()


def test_a_program_that_cannot_be_started() -> None:
    """No process, no wait: the run is over with the shell's status for it."""
    book = script()
    book.tell(1, o.SpawnFailed("no such program", 127)).expect(1, RunEnded(1, "spawn_failed", 127))
    book.until(HOUR).play()


def test_a_lapse_does_not_cut_last_words() -> None:
    """Where nobody read, silence proves nothing about the streams; in a stop the wait stays bounded."""
    watch = Watch(PLAIN, 0)
    watch.observe(o.Exited(0), 1000)
    watch.observe(o.Lapsed(20 * S), 1100)
    assert watch.next_deadline() == 21_500
    watch = Watch(PLAIN, 0)
    watch.observe(o.StopRequested("cancelled", "explicit"), 0)
    watch.observe(o.TreeGone(), 1000)
    watch.observe(o.Lapsed(20 * S), 1100)
    assert watch.next_deadline() == 1500


def test_nothing_is_said_after_the_end() -> None:
    """News that come after the end of the run are dropped, late exits of the unkillable among them."""
    book = script()
    book.tell(0, o.StopRequested("cancelled", "explicit", grace=0)).expect(
        0, like(StopBegan), SignalTree(TERM)
    )
    book.expect(0, KillSent(0), SignalTree(KILL))
    book.expect(3 * S, TreeUnkillable(3 * S), like(Notify), AbandonPipes(), like(RunEnded))
    late = (
        o.Exited(0),
        o.Drained(),
        o.TreeGone(),
        o.Paused(HOUR),
        o.CallBegan("1"),
        o.ProgressSeen("output"),
    )
    book.tell(3 * S, *late, o.StopRequested("interrupted"), o.SpawnFailed("?"), o.LeftoversFound(("7",)))
    book.until(HOUR).play()


def test_a_late_look_still_waits_for_what_it_did() -> None:
    """Woken long after a grace was over, the watch asks for KILL and then gives it its time, not an alert at once."""
    watch = Watch(PLAIN, 0)
    watch.observe(o.StopRequested("cancelled", "explicit"), 0)
    assert watch.advance(HOUR) == [Record(KillSent(HOUR)), SignalTree(KILL)]
    assert watch.next_deadline() == HOUR + KILL_WAIT


# Without a KILL, as GNU timeout without -k


def test_without_a_kill_the_stop_waits_for_the_program() -> None:
    """A grace of None never kills what does not heed the signal; once it has gone, what it left is not spared."""
    book = script(Spec({"timeout": LimitSpec(10 * S)}, held=("output",), grace=None))
    book.expect(10 * S, like(LimitFired, limit="timeout"), like(Notify), CapturePostMortem("timeout"))
    book.tell(10 * S, o.Prepared()).expect(10 * S, StopBegan(10 * S, "timeout", TERM), SignalTree(TERM))
    book.tell(HOUR, o.Exited(0)).expect(HOUR, LeaderExited(HOUR, 0, None), SignalTree(TERM), SweepTree())
    book.tell(HOUR, o.LeftoversFound(("7 sleep",)))
    book.expect(HOUR + 1 * S, KillSent(HOUR + 1 * S), SignalTree(KILL)).play()


def test_without_a_kill_every_request_is_passed_on() -> None:
    """With a grace of None a second request is one more signal; who names a grace gets the KILL after it."""
    book = script(Spec({}, held=("output",), grace=None))
    book.tell(1 * S, o.StopRequested("interrupted", signal=INT))
    book.expect(1 * S, StopBegan(1 * S, "interrupted", INT), SignalTree(INT))
    book.tell(2 * S, o.StopRequested("interrupted", signal=INT)).expect(2 * S, SignalTree(INT))
    book.until(HOUR).play()
