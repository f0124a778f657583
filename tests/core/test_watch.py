"""The watch as a whole: its two verbs, its two questions, and the rules that concern more than one part."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Command, Notify, Record
from longwatch.core.facts import HoldBegan, HoldEnded, Lapse, LimitFired, LimitNoted, RunStarted
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

S = SECOND
QUIETLY = (LimitNoted, HoldBegan, HoldEnded)


def idle(window: int = 10 * S, action: str = STOP, **more: LimitSpec) -> Spec:
    """Return a run with an idle limit."""
    return Spec({"idle": LimitSpec(window, action), **more}, held=("output",))


def decided(commands: list[Command]) -> list[Command]:
    """Leave out what is only noted."""
    return [c for c in commands if not (isinstance(c, Record) and isinstance(c.fact, QUIETLY))]


def test_the_first_fact() -> None:
    """A run begins with the fact that it began."""
    assert Watch(idle(), 7).start() == [Record(RunStarted(7))]


def test_a_deadline_fires_at_the_deadline() -> None:
    """However late somebody looks, the limit fired when it was due."""
    watch = Watch(idle(), 0)
    fired, *_ = decided(watch.advance(HOUR))
    assert like(LimitFired, at=10 * S, since=0).matches(fired)


def test_at_the_same_millisecond_the_deadline_comes_first() -> None:
    """Progress at the very millisecond of the deadline comes too late to keep the limit from firing, but not from
    stopping.
    """
    book = Playbook(idle(), ignore=QUIETLY)
    book.expect(10 * S, like(LimitFired), like(Notify), CapturePostMortem("idle"))
    book.tell(10 * S, o.ProgressSeen("output"))
    book.tell(10 * S, o.Prepared()).expect(10 * S, like(Record)).until(15 * S).play()


def test_progress_just_before_the_deadline_counts() -> None:
    """One millisecond earlier, and nothing happens."""
    book = Playbook(idle(), ignore=QUIETLY)
    book.tell(10 * S - 1, o.ProgressSeen("output")).until(20 * S - 2).play()


def test_an_old_stamp_is_told_before_the_deadline_that_it_moves() -> None:
    """A driver that looks late tells first what happened first, and nothing fires that should not have."""
    watch = Watch(idle(), 0)
    assert watch.observe(o.ProgressSeen("output", 17), 9 * S) == [Record(LimitNoted(5 * S, "idle", 10 * S))]
    assert decided(watch.advance(18 * S)) == []


def test_no_limit_no_deadline() -> None:
    """A watch without limits never asks to be woken."""
    watch = Watch(Spec({}, held=("output",)), 0)
    assert watch.next_deadline() is None
    assert watch.advance(10 * HOUR) == []
    assert not watch.over


@pytest.mark.parametrize("seconds", [1, 5, 10])
@pytest.mark.capability("CAP-7")
def test_no_clock_kills_what_keeps_printing(seconds: int) -> None:
    """A run many times longer than its window that keeps printing is never stopped: elapsed time alone ends nothing."""
    watch = Watch(idle(window=seconds * S + 1), 0)
    for tick in range(1, 200):
        assert decided(watch.observe(o.ProgressSeen("output"), tick * seconds * S)) == []
    view = watch.snapshot(199 * seconds * S)
    assert view["age_ms"] == 199 * seconds * S
    assert view["progress_ms"] == 0


@pytest.mark.fault("B2")
def test_retries_keep_alive_but_are_no_progress() -> None:
    """A program that emits nothing but retries is found at its window plus the delays that were announced, no later:
    they move the alive clock, never the progress clock.
    """
    watch = Watch(Spec({"idle": LimitSpec(10 * S)}, held=("output",), sampled=("transcript",)), 0)
    for second in range(1, 10):
        assert decided(watch.observe(o.AliveSeen("transcript"), second * S)) == []
    view = watch.snapshot(9 * S)
    assert (view["alive_ms"], view["progress_ms"]) == (0, None)
    assert decided(watch.advance(10 * S))[-1] == CapturePostMortem("idle")
    # A retry with an announced delay holds for that delay and the slack, and restarts nothing.
    watch = Watch(Spec({"idle": LimitSpec(10 * S)}, held=("output",), sampled=("transcript",)), 0)
    watch.observe(o.Paused(5 * S), 1 * S)
    watch.observe(o.Paused(5 * S), 20 * S)
    assert decided(watch.advance(55 * S - 1)) == []
    assert decided(watch.advance(55 * S))[-1] == CapturePostMortem("idle")


def test_a_retried_stream_restarts_nothing_by_itself() -> None:
    """Opening the stream anew, again and again, is no progress."""
    watch = Watch(idle(), 0)
    for second in range(1, 10):
        watch.observe(o.StreamRestarted(), second * S)
    assert decided(watch.advance(10 * S))[-1] == CapturePostMortem("idle")


def test_a_source_that_was_not_declared_is_no_progress() -> None:
    """What longwatch itself prints, or a file nobody declared, keeps no dead run alive."""
    watch = Watch(idle(), 0)
    for second in range(1, 10):
        watch.observe(o.ProgressSeen("status line"), second * S)
    assert decided(watch.advance(10 * S))[-1] == CapturePostMortem("idle")


def test_one_late_file_is_no_proof_while_better_evidence_moves() -> None:
    """A heartbeat file that nobody writes, or that is late once, ends nothing while the output ticks."""
    watch = Watch(Spec({"idle": LimitSpec(10 * S)}, held=("output",), sampled=("file:beat",)), 0)
    watch.observe(o.ProgressSeen("file:beat"), 1 * S)
    for second in range(2, 60, 8):
        assert decided(watch.observe(o.ProgressSeen("output"), second * S)) == []
    assert watch.snapshot(60 * S)["sources"]["file:beat"] == {"last_ms": 59 * S, "count": 1}


# Lapses


def test_a_lapse_gives_silence_its_watched_length() -> None:
    """Five windows of sleep are no silence: the limit fires when it has watched a whole window, and says how long
    nobody did.
    """
    book = Playbook(idle(timeout=LimitSpec(HOUR)), ignore=(LimitNoted,))
    book.tell(4 * S, o.Lapsed(50 * S)).expect(4 * S, Lapse(4 * S, 50 * S))
    book.expect(60 * S, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle")).play()


def test_a_lapse_moves_no_clock_of_time() -> None:
    """The named time, the ceiling and the soft mark go on while nobody looks."""
    limits = {name: LimitSpec(10 * S, NOTIFY) for name in ("ceiling", "timeout", "soft")}
    watch = Watch(Spec(limits, held=("output",)), 0)
    watch.observe(o.Lapsed(50 * S), 4 * S)
    assert [c.fact.at for c in watch.advance(HOUR) if isinstance(c, Notify)] == [10 * S] * 3


def test_a_lapse_moves_a_stated_end() -> None:
    """A pause guards the silence after it: asleep through its end, the program still gets what was left of it."""
    watch = Watch(idle(), 0)
    watch.observe(o.Paused(10 * S), 1 * S)
    watch.observe(o.Lapsed(HOUR), 21 * S)
    assert watch.next_deadline() == HOUR + 41 * S


def test_a_lapse_does_not_lengthen_a_pause() -> None:
    """A pause that was short but for the time nobody watched is short: it does not restart `stall`."""
    watch = Watch(Spec({"stall": LimitSpec(60 * S)}, held=("output",)), 0)
    watch.observe(o.Paused(1 * S), 30 * S)
    watch.observe(o.Lapsed(HOUR), 40 * S)
    assert [c.fact.at for c in watch.advance(2 * HOUR) if isinstance(c, Notify)] == [HOUR + 61 * S]


def test_a_lapse_is_not_charged_to_a_quiet() -> None:
    """What nobody watched of a quiet is not used up of the allowance."""
    watch = Watch(Spec({"idle": LimitSpec(10 * S)}, held=("output",), allow_quiet=100 * S), 0)
    watch.observe(o.QuietBegan(40 * S), 0)
    watch.observe(o.Lapsed(HOUR), 10 * S)
    watch.observe(o.QuietEnded(), HOUR + 40 * S)
    watch.observe(o.QuietBegan(90 * S), HOUR + 50 * S)
    assert watch.holds.of("quiet")[0].end == HOUR + 110 * S


# Soft


def test_a_soft_limit_marks_once_and_stops_nothing() -> None:
    """Over budget the run is marked and told of once, and goes on until it ends by itself."""
    book = Playbook(Spec({"soft": LimitSpec(2 * HOUR)}, held=("output",), nudge="wrap up"))
    book.expect(1 * HOUR, LimitNoted(1 * HOUR, "soft", 2 * HOUR))
    book.expect(2 * HOUR, like(LimitFired, limit="soft", action=NOTIFY), like(Notify)).until(20 * HOUR).play()


@pytest.mark.parametrize(
    ("last_progress", "stopped_at"),
    [
        (0, 60 * S),  # silent for longer than the window when the budget is spent: at once
        (55 * S, 65 * S),  # talking until then: at the window
        (90 * S, 100 * S),  # over budget and talking, then silent
    ],
)
def test_soft_arms_idle(last_progress: int, stopped_at: int) -> None:
    """Where `idle` is armed by `soft` a run is stopped when it is over budget *and* silent, never for one alone."""
    limits = {"idle": LimitSpec(10 * S), "soft": LimitSpec(60 * S)}
    watch = Watch(Spec(limits, held=("output",), armed_by_soft=True), 0)
    told: list[Command] = []
    for at in range(0, last_progress + 1, 5 * S):
        told += watch.observe(o.ProgressSeen("output"), at)
    told += watch.advance(HOUR)
    found = [c.fact for c in told if isinstance(c, Notify)]
    assert [(fact.limit, fact.at) for fact in found] == [("soft", 60 * S), ("idle", stopped_at)]  # type: ignore[attr-defined]


# What the driver asks


def test_told_at_once_or_when_due() -> None:
    """Progress may be kept back while a clock runs that it would only move; where it would open an episode or end a
    hold that no deadline awaits, the watch asks for it at once.
    """
    watch = Watch(idle(action=NOTIFY), 0)
    assert not watch.eager
    watch.advance(10 * S)
    assert watch.eager
    watch.observe(o.ProgressSeen("output"), 11 * S)
    assert not watch.eager


@pytest.mark.parametrize(
    "spec",
    [
        Spec({"idle": LimitSpec(10 * S), "first": LimitSpec(MINUTE)}, held=("output",)),
        Spec({"idle": LimitSpec(10 * S)}, held=("output",), resident=True),
        Spec({"idle": LimitSpec(10 * S)}, sampled=("output",)),
    ],
    ids=["first", "ready", "unknown source"],
)
def test_the_first_sign_is_told_at_once(spec: Spec) -> None:
    """A first sign starts clocks that were held, so it cannot wait for one of them."""
    watch = Watch(spec, 0)
    assert watch.eager
    watch.observe(o.ProgressSeen("output"), 1 * S)
    assert not watch.eager
    assert watch.snapshot(1 * S)["limits"] == {"idle": 10 * S}


def test_a_fired_limit_that_progress_does_not_restart_asks_for_nothing() -> None:
    """A soft mark or a notice about the whole time does not make every byte urgent."""
    watch = Watch(idle(HOUR, soft=LimitSpec(10 * S), timeout=LimitSpec(10 * S, NOTIFY)), 0)
    watch.advance(20 * S)
    assert not watch.eager


def test_snapshot_shows_what_is_left() -> None:
    """Of each limit what is left; nothing while it is held or has acted; of several calls the nearest."""
    limits = {
        "idle": LimitSpec(10 * S),
        "call": LimitSpec(HOUR, budgets={"Read": MINUTE}),
        "soft": LimitSpec(5 * S),
    }
    watch = Watch(Spec(limits, held=("output",)), 0)
    watch.observe(o.CallBegan("1", "Read"), 1 * S)
    watch.observe(o.CallBegan("2", "Bash"), 2 * S)
    view = watch.snapshot(10 * S)
    assert view["limits"] == {"idle": None, "call": 51 * S, "soft": 0}
    watch.advance(10 * S)
    assert watch.snapshot(10 * S)["limits"]["soft"] is None
    assert [hold["subject"] for hold in view["holds"]] == ["1", "2"]
