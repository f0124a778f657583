"""An agent whose records are read: what its terminal shows and what it says of itself are two things."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify
from longwatch.core.facts import HoldBegan, HoldEnded, LimitFired, LimitNoted, SourceChanged, StopAverted
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, LimitSpec, Spec
from longwatch.testing import Playbook, like

BYTES, RECORD = o.ProgressSeen("output"), o.ProgressSeen("transcript")


def book(**limits: LimitSpec) -> Playbook:
    """Return a script for an observed agent whose output and transcript are progress."""
    spec = Spec(limits, held=("output",), sampled=("transcript",), observed=True)
    return Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded, SourceChanged))


@pytest.mark.fault("C3")
def test_a_prompt_that_blinks_is_still_a_prompt() -> None:
    """Bytes of a redrawn screen do not end `ready`: the agent stays idle at its prompt for hours, and is left alone."""
    script = book(idle=LimitSpec(5 * MINUTE))
    script.tell(MINUTE, RECORD, o.TurnEnded())
    script.tell(2 * MINUTE, BYTES).tell(HOUR, BYTES).until(3 * HOUR).play()


@pytest.mark.parametrize("word", [o.TurnBegan(), RECORD, o.CallBegan("1", "Bash")])
def test_a_record_ends_the_rest(word: o.Observation) -> None:
    """What the agent itself writes begins its turn, and from then on silence counts."""
    script = book(idle=LimitSpec(5 * MINUTE), call=LimitSpec(5 * MINUTE))
    script.tell(MINUTE, RECORD, o.TurnEnded()).tell(HOUR, word)
    limit = "call" if isinstance(word, o.CallBegan) else "idle"
    script.expect(
        HOUR + 5 * MINUTE, like(LimitFired, limit=limit), like(Notify), CapturePostMortem(limit)
    ).play()


def test_bytes_are_progress_while_a_turn_runs() -> None:
    """Where output was declared it still is: a turn that prints is not idle."""
    script = book(idle=LimitSpec(5 * MINUTE))
    script.tell(MINUTE, RECORD).tell(5 * MINUTE, BYTES)
    script.expect(
        10 * MINUTE, like(LimitFired, limit="idle", source="output"), like(Notify), CapturePostMortem("idle")
    )
    script.play()


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (o.Asked("1"), o.Answered("1")),
        (o.QuietBegan(30 * MINUTE), o.QuietEnded()),
        (o.Paused(30 * MINUTE), o.Resumed()),
    ],
)
def test_a_late_answer_does_not_find_the_first_sign_overdue(begin: o.Observation, end: o.Observation) -> None:
    """A hold that outlasted the window gives `first` another; one that did not changes nothing."""
    script = book(first=LimitSpec(5 * MINUTE))
    script.tell(MINUTE, begin).tell(20 * MINUTE, end)
    script.expect(
        25 * MINUTE, like(LimitFired, limit="first"), like(Notify), CapturePostMortem("first")
    ).play()
    script = book(first=LimitSpec(5 * MINUTE))
    script.tell(MINUTE, begin).tell(2 * MINUTE, end)
    script.expect(
        5 * MINUTE, like(LimitFired, limit="first"), like(Notify), CapturePostMortem("first")
    ).play()


def test_a_late_answer_does_not_find_the_effect_overdue() -> None:
    """While a human thinks nothing can change; when the answer comes the agent gets a whole window for it."""
    script = book(effect=LimitSpec(10 * MINUTE, NOTIFY))
    script.tell(MINUTE, o.Asked("1")).tell(HOUR, o.Answered("1"))
    script.expect(HOUR + 10 * MINUTE, like(LimitFired, limit="effect"), like(Notify)).play()


@pytest.mark.parametrize(
    ("before", "action"),
    [
        ((), "notify"),
        ((RECORD,), "stop"),
        ((RECORD, o.SourceLost("transcript")), "notify"),
        ((RECORD, o.SourceLost("transcript"), o.SourceFound("transcript")), "stop"),
    ],
    ids=["never read", "read", "lost", "found again"],
)
def test_a_window_that_rests_on_records_needs_them(before: tuple[o.Observation, ...], action: str) -> None:
    """A window that nobody named, argued for a program whose records are read, only notifies while they are not."""
    script = book(idle=LimitSpec(5 * MINUTE, sighted=True))
    script.tell(0, *before)
    rungs = [like(LimitFired, limit="idle", action=action), like(Notify)]
    script.expect(5 * MINUTE, *rungs, *([CapturePostMortem("idle")] if action == "stop" else [])).play()


def test_a_window_that_somebody_named_needs_no_records() -> None:
    """Whoever names a window knows what the program's silence means."""
    script = book(idle=LimitSpec(5 * MINUTE))
    script.expect(
        5 * MINUTE, like(LimitFired, limit="idle", action="stop"), like(Notify), CapturePostMortem("idle")
    ).play()


def test_no_source_but_the_records_ends_the_rest() -> None:
    """A screen that changes under the fingers of a human who types is no turn."""
    spec = Spec(
        {"idle": LimitSpec(5 * MINUTE)}, sampled=("screen", "transcript"), observed=True, resident=True
    )
    script = Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded))
    screen = o.ProgressSeen("screen")
    script.tell(MINUTE, screen).tell(HOUR, screen).until(3 * HOUR).play()


def test_a_result_with_another_turn_behind_it_was_not_the_final_one() -> None:
    """Who goes on after a result does not linger, however long the next turn takes; its own result counts again."""
    script = book(linger=LimitSpec(MINUTE))
    script.tell(0, RECORD, o.ResultSeen(ok=False), o.TurnEnded()).tell(30_000, o.TurnBegan(), RECORD)
    script.tell(HOUR, o.ResultSeen())
    fired = like(LimitFired, limit="linger", since=HOUR)
    script.expect(HOUR + MINUTE, fired, like(Notify), CapturePostMortem("linger")).play()


def test_a_budget_that_nobody_named_climbs_as_the_rest() -> None:
    """Beside a budget of the user's, those that a preset lends are told like every other call."""
    call = LimitSpec(HOUR, NOTIFY, {"Bash": 30 * MINUTE, "Task": 2 * HOUR}, lent=("Task",))
    script = book(call=call)
    script.tell(0, o.CallBegan("1", "Task"))
    script.expect(
        2 * HOUR, like(LimitFired, limit="call", subject="Task", action="notify"), like(Notify)
    ).play()


def test_a_named_budget_stops_where_the_rest_is_only_told() -> None:
    """One tool's budget was named by somebody and acts; the built-in one for all others notifies."""
    call = LimitSpec(HOUR, NOTIFY, {"Bash": 30 * MINUTE})
    script = book(call=call)
    script.tell(0, o.CallBegan("1", "Bash"), o.CallBegan("2", "Read"))
    fired = like(LimitFired, limit="call", subject="Bash", action="stop")
    script.expect(30 * MINUTE, fired, like(Notify), CapturePostMortem("call"))
    script.tell(30 * MINUTE, o.CallEnded("1"), o.Prepared())
    averted = like(StopAverted, limit="call")
    script.expect(30 * MINUTE, averted)
    script.expect(HOUR, like(LimitFired, limit="call", subject="Read", action="notify"), like(Notify)).play()
