"""A session again at its own times: the same watch, and what it would have done."""

import pytest

import corpus
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, STOP, LimitSpec
from longwatch.learn.replay import Replay
from longwatch.observe import events as e
from longwatch.observe.dialects import load
from longwatch.observe.record import Record

BEGIN = corpus.BEGIN


def replay(limits: dict[str, LimitSpec], *records: tuple[int | None, e.Event | None]) -> Replay:
    """Replay records at these ms after the begin (None: without a time)."""
    found = Replay(limits)
    for at, event in records:
        found.tell(Record((event,) if event else (), at=None if at is None else BEGIN + at))
    found.finish()
    return found


def fired(found: Replay) -> list[tuple[str, int, str, int | None]]:
    """Return which limits fired when, by whom, and how long it stayed silent from then on."""
    return [(each.limit, each.at - BEGIN, each.subject, each.quiet) for each in found.fired]


@pytest.mark.capability("NEW-6")
def test_limits_fire_where_they_would_have() -> None:
    """On a recorded session each limit fires at its own instant, once in each silence, and the session goes on."""
    told = corpus.read(load("claude"), "disk", (corpus.FOLDER / "claude-silences.disk.jsonl").read_bytes())
    limits = {
        "idle": LimitSpec(5 * MINUTE),
        "stall": LimitSpec(10 * MINUTE, NOTIFY),
        "call": LimitSpec(10 * MINUTE, STOP, {"Bash": 12 * MINUTE}),
        "ceiling": LimitSpec(20 * MINUTE),
    }
    found = Replay(limits)
    for record in told.records:
        found.tell(record)
    found.finish()
    assert fired(found) == [
        ("stall", 10 * MINUTE, "", 321 * SECOND),
        ("call", 21 * SECOND + 12 * MINUTE, "Bash", 3 * MINUTE),
        ("ceiling", 20 * MINUTE, "", 210 * SECOND),
        ("idle", 990 * SECOND + 5 * MINUTE, "", 2 * MINUTE),
    ]
    assert [(call.call, call.ok, call.exit_code) for call in found.calls] == [
        ("build", True, None),
        ("test", False, 2),
        ("serve", None, None),
    ]
    assert [(gap.span, gap.state, gap.subject) for gap in found.longest(3)] == [
        (15 * MINUTE, "call", "Bash"), (7 * MINUTE, "working", ""), (MINUTE, "call", "Bash"),
    ]  # fmt: skip
    assert [call.call for call in found.open] == ["serve"]
    assert found.left["call"] == 12 * MINUTE


def test_silence_is_put_down_to_its_best_excuse() -> None:
    """Of several excuses at once the best counts: a question, a pause, a call, a turn that is over."""
    found = replay(
        {},
        (0, e.TurnStarted()),
        (SECOND, e.ToolCalled("c", "Bash")),
        (SECOND, e.Permission("waiting", "q")),
        (9 * SECOND, e.Permission("allowed", "q")),
        (11 * SECOND, e.ToolResult("c")),
        (11 * SECOND, e.Limited("usage", 20 * SECOND)),
        (31 * SECOND, e.Text("x")),
        (32 * SECOND, e.TurnEnded()),
        (60 * SECOND, e.TurnStarted()),
        (63 * SECOND, e.Text("x")),
    )
    assert [(gap.span // SECOND, gap.state) for gap in found.gaps] == [
        (1, "working"), (8, "asked"), (2, "call"), (20, "paused"), (1, "working"), (28, "ready"), (3, "working"),
    ]  # fmt: skip
    assert [gap.span // SECOND for gap in found.longest(1, "ready", "call")] == [28]


@pytest.mark.fault("B1")
def test_signs_of_life_do_not_end_a_silence() -> None:
    """Retries, keep-alives and unknown records show life; the silence goes on, and the limit fires in it."""
    beats = [
        (n * MINUTE, event)
        for n in (1, 3, 4)
        for event in (e.Retry(), e.Heartbeat(), e.Heartbeat("tool_progress"), e.Failed(), None)
    ]
    found = replay({"idle": LimitSpec(2 * MINUTE)}, (0, e.Text("x")), *beats, (5 * MINUTE, e.Text("y")))
    assert fired(found) == [("idle", 2 * MINUTE, "", 3 * MINUTE)]
    assert [gap.span for gap in found.gaps] == [5 * MINUTE]


def test_a_silence_that_never_ended() -> None:
    """Nothing is claimed of what would have come behind the last record, but what would fire then is foretold."""
    found = replay(
        {"idle": LimitSpec(5 * MINUTE), "call": LimitSpec(HOUR)},
        (0, e.Text("x")),
        (MINUTE, e.ToolCalled("c", "Bash")),
    )
    assert fired(found) == []
    assert found.left == {"idle": None, "call": HOUR}
    found = replay({"idle": LimitSpec(MINUTE)}, (0, e.Text("x")), (2 * MINUTE, None))
    assert fired(found) == [("idle", MINUTE, "", None)]


def test_times_that_step_back() -> None:
    """Clocks of threads differ: what is written later did not happen earlier."""
    found = replay(
        {"idle": LimitSpec(MINUTE)}, (0, e.Text("a")), (10 * SECOND, e.Text("b")), (4 * SECOND, e.Text("c"))
    )
    assert (found.last - BEGIN, [gap.span for gap in found.gaps]) == (10 * SECOND, [10 * SECOND])


def test_what_comes_before_the_first_time() -> None:
    """Records without a time at the begin are told at the first time there is: no silence of 60 years before it."""
    found = replay(
        {"idle": LimitSpec(MINUTE), "call": LimitSpec(MINUTE)},
        (None, e.ToolCalled("c", "t")),
        (0, e.Text("x")),
        (2 * MINUTE, e.ToolResult("c")),
    )
    assert fired(found) == [("call", MINUTE, "t", MINUTE)]
    assert found.first == BEGIN


def test_a_file_without_times() -> None:
    """Without any time there are events and calls, and no silences."""
    found = replay(
        {"idle": LimitSpec(1)}, (None, e.ToolCalled("c", "t")), (None, e.ToolResult("c", ok_native=False))
    )
    assert (found.timed, found.gaps, found.fired) == (False, [], [])
    assert [(call.tool, call.ok) for call in found.calls] == [("t", False)]
    many = Replay({})
    for _ in range(1_500):
        many.tell(Record())
    assert many.records == 1_500


def test_repetitions_are_told() -> None:
    """The same call with the same result, again and again, is a finding."""
    calls = [
        (n * SECOND, event)
        for n in range(6)
        for event in (e.ToolCalled(str(n), "Bash", "ls"), e.ToolResult(str(n), result="same"))
    ]
    found = replay({}, *calls)
    assert [(loop.tool, loop.count) for loop in found.loops] == [("Bash", 5)]


def test_a_partial_result_ends_no_call() -> None:
    """A call whose first answer says that it still runs is open."""
    found = replay(
        {},
        (0, e.ToolCalled("c", "t")),
        (SECOND, e.ToolResult("c", partial=True)),
        (SECOND, e.ToolResult("unknown")),
    )
    assert [call.call for call in found.open] == ["c"]
