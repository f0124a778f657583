"""Playbooks of the fourth seed: a resident agent is judged by its successful calls, and reported rather than killed."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify, SignalTree, SweepTree
from longwatch.core.facts import (
    HoldBegan,
    HoldEnded,
    LeaderExited,
    LimitFired,
    LimitNoted,
    RunEnded,
    StopAverted,
    StopBegan,
)
from longwatch.core.outcomes import outcome
from longwatch.core.restarts import GAVE_UP, NO, RESPAWN, STALLS, History, Life, decide
from longwatch.core.spec import HOUR, MINUTE, NONE, NOTIFY, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

WINDOW = 45 * MINUTE


def agent(action: str = NOTIFY, *, start: int = 0, observed: bool = True, strict: bool = False) -> Playbook:
    """Return a script for a resident agent with a stall window of 45 minutes."""
    limits = {"stall": LimitSpec(WINDOW, action)}
    spec = Spec(limits, held=("output",), sampled=("transcript",), observed=observed, stall_when_ready=strict)
    return Playbook(spec, start=start, ignore=(LimitNoted, HoldBegan, HoldEnded))


def calls(book: Playbook, at: int, *, ok: bool = True) -> Playbook:
    """Let the agent call a tool and get its result at an instant."""
    return book.tell(at, o.CallBegan(str(at), "Bash"), o.CallEnded(str(at), ok))


def test_off_unless_asked_for() -> None:
    """Without a stall window an agent may be silent for ever."""
    spec = Spec({"stall": LimitSpec(0)}, held=("output",), observed=True)
    Playbook(spec).until(100 * HOUR).play()


def test_the_later_of_start_and_last_call() -> None:
    """The clock counts from the start until the first successful call, and then from the last one."""
    agent(start=MINUTE).until(WINDOW + MINUTE - 1).play()
    book = calls(agent(), 30 * MINUTE)
    book.expect(
        75 * MINUTE, LimitFired(75 * MINUTE, "stall", WINDOW, 30 * MINUTE, NOTIFY, "records"), like(Notify)
    )
    book.play()


def test_text_and_output_are_no_progress() -> None:
    """An agent that talks all the time and calls nothing is found."""
    book = agent()
    for minute in range(1, 45):
        book.tell(minute * MINUTE, o.ProgressSeen("output"), o.ProgressSeen("transcript"), o.TurnBegan())
    book.expect(WINDOW, like(LimitFired, limit="stall"), like(Notify)).play()


def test_a_failed_call_is_no_progress() -> None:
    """Only a call that succeeded moves the clock."""
    book = calls(agent(), 44 * MINUTE, ok=False)
    book.expect(WINDOW, like(LimitFired, limit="stall", since=0), like(Notify)).play()


def test_one_notice_per_episode() -> None:
    """However long it lasts, a stall is told of once; after a successful call the next one is told of again."""
    book = calls(agent(), 1 * MINUTE)
    book.expect(46 * MINUTE, like(LimitFired), like(Notify))
    calls(book, 10 * HOUR)
    book.expect(10 * HOUR + WINDOW, like(LimitFired, since=10 * HOUR), like(Notify)).until(20 * HOUR).play()


@pytest.mark.parametrize("action", [NONE, NOTIFY])
def test_report_only(action: str) -> None:
    """`none` is recorded, `notify` is told, and neither touches the agent."""
    book = agent(action)
    book.expect(WINDOW, like(LimitFired, action=action), *([like(Notify)] if action == NOTIFY else []))
    book.until(10 * HOUR).play()


def test_restart_goes_through_the_ordinary_exit() -> None:
    """Post-mortem first, then TERM to the tree, the exit as usual, and an end that is called `stalled`."""
    book = calls(agent(STOP), 1 * MINUTE)
    at = 46 * MINUTE
    book.expect(at, like(LimitFired), like(Notify), CapturePostMortem("stall"))
    book.tell(at, o.Prepared()).expect(at, StopBegan(at, "stalled", 15), SignalTree(15))
    book.tell(at + 10, o.Exited(143)).expect(at + 10, LeaderExited(at + 10, 143, None), SweepTree())
    book.tell(at + 20, o.Drained(), o.TreeGone())
    book.expect(at + 20, RunEnded(at + 20, "stalled", 143, limit="stall")).play()


def test_stalled_has_no_verdict_and_comes_back() -> None:
    """A stalled end is neither success nor failure, and is revived even where the policy says `no`."""
    assert outcome("stalled", 143) == ("stalled", None)
    assert decide(NO, Life(0, HOUR, "stalled", revive=True), History(), 0.5).action == RESPAWN


def test_five_fruitless_stalls_are_enough() -> None:
    """Revived five times without any call in between, it is given up until a human comes."""
    history = History()
    for number in range(STALLS):
        decision = decide(NO, Life(0, number * HOUR, "stalled", revive=True), history, 0.5)
        assert decision.action == RESPAWN
        history = decision.history
    assert decide(NO, Life(0, 9 * HOUR, "stalled", revive=True), history, 0.5).action == GAVE_UP


def test_a_call_during_the_post_mortem_saves_the_agent() -> None:
    """The evidence is looked at again right before the restart."""
    book = calls(agent(STOP), 1 * MINUTE)
    book.expect(46 * MINUTE, like(LimitFired), like(Notify), CapturePostMortem("stall"))
    calls(book, 46 * MINUTE + 1)
    book.tell(46 * MINUTE + 2, o.Prepared()).expect(46 * MINUTE + 2, like(StopAverted, why="progress")).play()


def test_a_blind_dialect_never_restarts() -> None:
    """An agent whose records were never read in this incarnation is reported, not restarted."""
    book = agent(STOP)
    book.tell(10 * MINUTE, o.ProgressSeen("output"))
    book.expect(WINDOW, like(LimitFired, action=NOTIFY), like(Notify)).until(10 * HOUR).play()


def test_an_unobserved_command_runs_from_its_start() -> None:
    """Without a dialect `stall` is a clock from the start, as documented, and does what it was told to."""
    book = agent(STOP, observed=False)
    book.tell(44 * MINUTE, o.ProgressSeen("output"))
    book.expect(WINDOW, like(LimitFired, since=0), like(Notify), CapturePostMortem("stall")).play()


def test_a_finished_turn_is_no_stall() -> None:
    """An agent that is done and waits for its human owes nothing, unless the stricter clock is asked for."""
    book = calls(agent(), 1 * MINUTE)
    book.tell(2 * MINUTE, o.TurnEnded()).until(100 * HOUR).play()
    book = calls(agent(strict=True), 1 * MINUTE)
    book.tell(2 * MINUTE, o.TurnEnded())
    book.expect(46 * MINUTE, like(LimitFired, since=1 * MINUTE), like(Notify)).play()


def test_the_next_turn_gets_a_whole_window() -> None:
    """After a night at the prompt the first turn is not overdue before it has begun."""
    book = calls(agent(), 1 * MINUTE)
    book.tell(2 * MINUTE, o.TurnEnded())
    book.tell(10 * HOUR, o.TurnBegan())
    book.expect(10 * HOUR + WINDOW, like(LimitFired, since=10 * HOUR), like(Notify)).play()


def test_questions_and_pauses_hold_it() -> None:
    """While a human is asked or the provider makes it wait, no call can be expected; an answer counts anew."""
    book = calls(agent(), 1 * MINUTE)
    book.tell(2 * MINUTE, o.Asked("q"))
    book.tell(5 * HOUR, o.Answered("q"))
    book.tell(5 * HOUR + MINUTE, o.Paused(3 * HOUR))
    end = 8 * HOUR + MINUTE + MINUTE // 2
    book.expect(end + WINDOW, like(LimitFired, since=end), like(Notify)).play()


def test_a_new_process_is_a_new_watch() -> None:
    """Episodes end with their process: the next incarnation counts from its own start."""
    for start in (0, 5 * HOUR):
        watch = Watch(Spec({"stall": LimitSpec(WINDOW, NOTIFY)}, held=("output",)), start)
        assert [c.fact.at for c in watch.advance(start + HOUR) if isinstance(c, Notify)] == [start + WINDOW]


def test_the_guard_and_the_gauge_agree() -> None:
    """What the snapshot says is left is what the guard goes by."""
    watch = Watch(Spec({"stall": LimitSpec(WINDOW, NOTIFY)}, held=("output",)), 0)
    watch.observe(o.CallEnded("1"), 7 * MINUTE)
    left = watch.snapshot(20 * MINUTE)["limits"]["stall"]
    assert left == WINDOW - 13 * MINUTE
    assert [c.fact.at for c in watch.advance(20 * MINUTE + left) if isinstance(c, Notify)] == [
        20 * MINUTE + left
    ]
