"""The rungs: note, notify, nudge, stop; each timed, recorded, skippable, at most once per episode."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Command, Notify, Nudge, Record, SignalTree, SweepTree
from longwatch.core.facts import (
    HoldBegan,
    HoldEnded,
    LimitFired,
    LimitNoted,
    Nudged,
    RunEnded,
    StopAverted,
    StopBegan,
)
from longwatch.core.spec import HOUR, MINUTE, NONE, NOTIFY, NUDGE, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

W = 10 * SECOND
HOLDS = (HoldBegan, HoldEnded)


def idle(action: str = STOP, nudge: str | None = None, **more: LimitSpec) -> Spec:
    """Return a run with an idle limit of ten seconds."""
    return Spec({"idle": LimitSpec(W, action), **more}, held=("output",), nudge=nudge)


def fired(at: int, action: str = STOP, since: int = 0, source: str | None = None) -> tuple[Command, Command]:
    """Return what every firing of the idle limit begins with."""
    fact = LimitFired(at, "idle", W, since, action, source)
    return Record(fact), Notify(fact)


def test_the_whole_ladder() -> None:
    """Note at half the window, notify and nudge at the window, the stop one window later; each rung says when."""
    book = Playbook(idle(STOP, nudge="go on"))
    book.expect(5 * SECOND, LimitNoted(5 * SECOND, "idle", W))
    book.expect(10 * SECOND, *fired(10 * SECOND), Nudged(10 * SECOND, "idle"), Nudge("go on"))
    book.expect(20 * SECOND, CapturePostMortem("idle"))
    book.tell(21 * SECOND, o.Prepared())
    book.expect(21 * SECOND, StopBegan(21 * SECOND, "idle", 15), SignalTree(15))
    book.play()


@pytest.mark.parametrize(
    ("action", "nudge", "answers"),
    [
        (NONE, "go on", [like(Record)]),  # recorded, nobody is told
        (NOTIFY, "go on", [like(Record), like(Notify)]),
        (NUDGE, "go on", [like(Record), like(Notify), like(Nudged), Nudge("go on")]),
        (NUDGE, None, [like(Record), like(Notify)]),  # no text: the rung is skipped
        (STOP, None, [like(Record), like(Notify), CapturePostMortem("idle")]),
    ],
)
def test_the_highest_rung(action: str, nudge: str | None, answers: list[Command]) -> None:
    """The action names the highest rung; all below it are climbed at once, and nothing follows in this episode."""
    book = Playbook(idle(action, nudge), ignore=(LimitNoted,))
    book.expect(10 * SECOND, *answers).until(HOUR).play()


def test_an_episode_ends_with_progress() -> None:
    """One notice per silence, however long; after progress the next silence is a new episode with all its rungs."""
    book = Playbook(idle(NOTIFY))
    book.expect(5 * SECOND, LimitNoted(5 * SECOND, "idle", W))
    book.expect(10 * SECOND, *fired(10 * SECOND, NOTIFY))
    book.tell(5 * MINUTE, o.ProgressSeen("output"))
    book.expect(305 * SECOND, LimitNoted(305 * SECOND, "idle", W))
    book.expect(310 * SECOND, *fired(310 * SECOND, NOTIFY, 300 * SECOND, "output"))
    book.until(HOUR).play()


def test_a_nudge_that_helped() -> None:
    """Progress after a nudge ends the episode: the next silence is nudged again before anything is stopped."""
    book = Playbook(idle(STOP, nudge="go on"), ignore=(LimitNoted,))
    book.expect(10 * SECOND, *fired(10 * SECOND), like(Nudged), Nudge("go on"))
    book.tell(19 * SECOND, o.ProgressSeen("output"))
    book.expect(29 * SECOND, *fired(29 * SECOND, STOP, 19 * SECOND, "output"), like(Nudged), Nudge("go on"))
    book.expect(39 * SECOND, CapturePostMortem("idle"))
    book.play()


@pytest.mark.parametrize("limit", ["timeout", "ceiling"])
def test_a_nudge_moves_no_limit_of_time(limit: str) -> None:
    """Nothing moves a timeout, and only pauses a ceiling: neither is nudged for one more window."""
    spec = Spec({limit: LimitSpec(W)}, held=("output",), nudge="go on")
    book = Playbook(spec, ignore=(LimitNoted,))
    book.expect(10 * SECOND, like(LimitFired, limit=limit), like(Notify), CapturePostMortem(limit)).play()


@pytest.mark.capability("NEW-3")
def test_evidence_is_read_again_before_the_first_signal() -> None:
    """Each rung is timed and recorded, and progress while the post-mortem is taken calls the stop off."""
    book = Playbook(idle(STOP, nudge="go on"))
    book.expect(5 * SECOND, LimitNoted(5 * SECOND, "idle", W))
    book.expect(10 * SECOND, *fired(10 * SECOND), Nudged(10 * SECOND, "idle"), Nudge("go on"))
    book.expect(20 * SECOND, CapturePostMortem("idle"))
    book.tell(24 * SECOND, o.ProgressSeen("output"))
    book.tell(25 * SECOND, o.Prepared()).expect(25 * SECOND, StopAverted(25 * SECOND, "idle", "progress"))
    book.expect(29 * SECOND, LimitNoted(29 * SECOND, "idle", W))
    again = fired(34 * SECOND, STOP, 24 * SECOND, "output")
    book.expect(34 * SECOND, *again, Nudged(34 * SECOND, "idle"), Nudge("go on"))
    book.expect(44 * SECOND, CapturePostMortem("idle"))
    book.tell(45 * SECOND, o.Prepared()).expect(
        45 * SECOND, StopBegan(45 * SECOND, "idle", 15), SignalTree(15)
    )
    book.play()


@pytest.mark.parametrize(
    ("reason", "observation"),
    [
        ("progress", o.CallBegan("1")),  # a call begins: that is progress as well as a hold
        ("progress", o.CallEnded("1")),
        ("progress", o.Resumed()),
        ("held", o.Asked("q")),
        ("held", o.Paused(HOUR)),
        ("held", o.QuietBegan(HOUR)),
        ("held", o.TurnEnded()),
        ("held", o.SourceLost("output")),
    ],
)
def test_whatever_explains_the_silence_calls_a_stop_off(reason: str, observation: o.Observation) -> None:
    """Any news that would have kept the limit from firing keeps it from stopping, and the fact says which kind."""
    book = Playbook(idle(), ignore=(*HOLDS, LimitNoted))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    book.tell(12 * SECOND, observation)
    if isinstance(observation, o.SourceLost):
        book.expect(12 * SECOND, like(Record))
    book.tell(13 * SECOND, o.Prepared()).expect(13 * SECOND, StopAverted(13 * SECOND, "idle", reason)).play()


def test_an_averted_stop_is_not_announced_twice() -> None:
    """When a hold that averted a stop is over and the silence still stands, only the stop rung is climbed again."""
    book = Playbook(idle(), ignore=(*HOLDS, LimitNoted))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    book.tell(11 * SECOND, o.Paused(10 * SECOND))
    book.tell(12 * SECOND, o.Prepared()).expect(12 * SECOND, like(StopAverted, why="held"))
    book.expect(51 * SECOND, CapturePostMortem("idle"))
    book.tell(52 * SECOND, o.Prepared()).expect(52 * SECOND, like(StopBegan), SignalTree(15)).play()


def test_the_end_of_the_call_calls_its_stop_off() -> None:
    """A call whose result comes while its post-mortem is taken is no reason any more."""
    book = Playbook(Spec({"call": LimitSpec(W)}, held=("output",)), ignore=(*HOLDS, LimitNoted))
    book.tell(0, o.CallBegan("1", "Bash"))
    book.expect(10 * SECOND, like(LimitFired, subject="Bash"), like(Notify), CapturePostMortem("call"))
    book.tell(11 * SECOND, o.CallEnded("1"))
    book.tell(12 * SECOND, o.Prepared()).expect(
        12 * SECOND, StopAverted(12 * SECOND, "call", "progress")
    ).play()


def test_a_pause_told_during_the_post_mortem_moves_the_ceiling() -> None:
    """A ceiling, too, looks at its evidence again before the first signal."""
    book = Playbook(Spec({"ceiling": LimitSpec(W)}, held=("output",)), ignore=(*HOLDS, LimitNoted))
    book.expect(10 * SECOND, like(LimitFired, limit="ceiling"), like(Notify), CapturePostMortem("ceiling"))
    book.tell(11 * SECOND, o.Paused(HOUR))
    book.tell(12 * SECOND, o.Prepared()).expect(
        12 * SECOND, StopAverted(12 * SECOND, "ceiling", "held")
    ).play()


def test_exit_before_the_first_signal_is_not_ours() -> None:
    """A program that ends while its post-mortem is taken was not stopped by us, and the report will not say so."""
    book = Playbook(idle(), ignore=(LimitNoted,))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    book.tell(11 * SECOND, o.Exited(0)).expect(
        11 * SECOND, StopAverted(11 * SECOND, "idle", "exited"), like(Record)
    )
    book.tell(11 * SECOND, o.Prepared())
    book.tell(11 * SECOND, o.Drained()).expect(11 * SECOND, SweepTree())
    book.tell(12 * SECOND, o.TreeGone()).expect(12 * SECOND, RunEnded(12 * SECOND, "exited", 0)).play()


# Vetoes


def test_three_vetoes_and_no_more() -> None:
    """A veto gives one more window, three times; the fourth is not heard."""
    book = Playbook(idle(), ignore=(LimitNoted,))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    for second in (11, 22, 33):
        at = second * SECOND
        book.tell(at, o.Vetoed("saving")).expect(at, StopAverted(at, "idle", "veto"))
        book.expect(at + W, CapturePostMortem("idle"))
    book.tell(44 * SECOND, o.Vetoed("saving"))
    book.expect(44 * SECOND, StopBegan(44 * SECOND, "idle", 15), SignalTree(15)).play()


def test_vetoes_are_counted_by_episode() -> None:
    """After progress the next silence may be vetoed anew."""
    watch = Watch(idle(), 0)
    for second in range(0, 100, 10):
        watch.advance((second + 10) * SECOND)
        watch.observe(o.Vetoed(), (second + 10) * SECOND)
        watch.observe(o.ProgressSeen("output"), (second + 10) * SECOND)
    assert not watch.ending.began


def test_a_timeout_hears_no_veto() -> None:
    """A veto against the named time is taken as the end of the hook."""
    book = Playbook(Spec({"timeout": LimitSpec(W)}), ignore=(LimitNoted,))
    book.expect(10 * SECOND, like(LimitFired), like(Notify), CapturePostMortem("timeout"))
    book.tell(11 * SECOND, o.Vetoed("please"))
    book.expect(11 * SECOND, StopBegan(11 * SECOND, "timeout", 15), SignalTree(15)).play()


def test_a_ceiling_hears_a_veto() -> None:
    """A vetoed ceiling gets one more window from then on."""
    book = Playbook(Spec({"ceiling": LimitSpec(W)}), ignore=(LimitNoted,))
    book.expect(10 * SECOND, like(LimitFired), like(Notify), CapturePostMortem("ceiling"))
    book.tell(12 * SECOND, o.Vetoed()).expect(12 * SECOND, StopAverted(12 * SECOND, "ceiling", "veto"))
    book.expect(22 * SECOND, CapturePostMortem("ceiling")).play()


@pytest.mark.parametrize("answer", [o.Vetoed(), o.Prepared()])
def test_an_answer_that_nobody_asked_for_is_nothing(answer: o.Observation) -> None:
    """Without a stop in preparation there is nothing to prepare and nothing to veto."""
    watch = Watch(idle(), 0)
    assert watch.observe(answer, 1) == []
    assert watch.next_deadline() == 5 * SECOND


# Several limits


def test_other_limits_wait_for_a_stop_in_preparation() -> None:
    """One stop is prepared at a time; if it is called off, what came due meanwhile follows at once."""
    spec = idle(timeout=LimitSpec(12 * SECOND))
    book = Playbook(spec, ignore=(LimitNoted,))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    book.tell(14 * SECOND, o.ProgressSeen("output"))
    book.tell(15 * SECOND, o.Prepared()).expect(15 * SECOND, StopAverted(15 * SECOND, "idle", "progress"))
    book.expect(15 * SECOND, like(LimitFired, limit="timeout"), like(Notify), CapturePostMortem("timeout"))
    book.play()


def test_notes_go_on_during_a_preparation() -> None:
    """A stop in preparation silences no note of another limit."""
    spec = idle(timeout=LimitSpec(30 * SECOND))
    book = Playbook(spec)
    book.expect(5 * SECOND, LimitNoted(5 * SECOND, "idle", W))
    book.expect(10 * SECOND, *fired(10 * SECOND), CapturePostMortem("idle"))
    book.expect(15 * SECOND, LimitNoted(15 * SECOND, "timeout", 30 * SECOND)).play()


def test_a_notice_stands_beside_a_stop() -> None:
    """A limit that only notifies does not keep another from stopping."""
    spec = idle(NOTIFY, ceiling=LimitSpec(W))
    book = Playbook(spec, ignore=(LimitNoted,))
    book.expect(10 * SECOND, *fired(10 * SECOND, NOTIFY))
    book.expect(
        10 * SECOND, like(LimitFired, limit="ceiling"), like(Notify), CapturePostMortem("ceiling")
    ).play()
