"""A turn: its states, its three ways to end early, its hooks, and what it leaves."""

import asyncio
import contextlib

import pytest
import trio

from forked import HANG, LOOPS, Fork, Log, event, forever, under_asyncio, under_trio
from longwatch import IdleReached, Limits, UsageError
from longwatch.core.commands import Record
from longwatch.core.facts import Fact
from longwatch.core.observations import Paused
from longwatch.core.spec import MINUTE, PAUSE_CREDIT_GUARD, SECOND, Spec
from longwatch.core.watch import Watch
from longwatch.observe.events import (
    Failed,
    Heartbeat,
    Restarted,
    SessionEnded,
    SessionStarted,
    Text,
    Thinking,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
)
from longwatch.streams.classify import INCOMPLETE
from longwatch.streams.ends import TurnFailed
from longwatch.streams.graph import AbortGraph
from longwatch.streams.handle import Turn
from longwatch.streams.loops import shielded, sleep, together
from longwatch.streams.telling import Teller
from longwatch.streams.trace import Trace

STATES = pytest.mark.capability("CAP-93")
PARTIAL = pytest.mark.capability("CAP-94")
INCOMPLETE_ENDS = pytest.mark.capability("CAP-95")
QUICK = Limits(idle=0.2)
DONE = [Text("The answer "), Text("is 42."), TurnEnded()]
CALLS = [
    ToolCalled("1", "Bash", {"command": "ls"}),
    ToolResult("1", result="x" * 2048),
    ToolCalled("2", "Bash", {"command": "false"}),
    ToolResult("2", exit_code=1, result="y" * 1024),
]


def run(loop, turn, *also):
    """Run a turn to its end in a loop, beside other coroutine functions; return its result."""

    async def main():
        await together([turn.run, *also])
        return turn.result

    return loop(main)


def judged(*script, **words):
    """Return what a turn with this script comes to."""
    return run(under_asyncio, Turn("t", Fork(list(script)), QUICK, **words))


# States


@LOOPS
@STATES
def test_a_turn_that_is_done_succeeds(loop) -> None:
    """A turn goes from idle over running to succeeded, and its result is what it said."""
    states = []
    turn = Turn("t", Fork(DONE), QUICK, sink=lambda event: states.append(turn.state))
    states.append(turn.state)
    result = run(loop, turn)
    states.append(turn.state)
    assert states == ["idle", "running", "running", "running", "succeeded"]
    assert (result.id, result.status, result.output, result.stop_reason) == (
        "t",
        "succeeded",
        "The answer is 42.",
        "end",
    )
    assert (result.completion_percent, result.partial_output, result.signal, result.error) == (
        100,
        None,
        None,
        None,
    )
    assert result.ok
    assert not result.partial
    assert result.check() is result is turn.result


@LOOPS
@STATES
def test_a_running_turn_refuses_a_second_run(loop) -> None:
    """Two runs of one handle at once are a mistake; the first one is not disturbed."""

    async def step():
        with pytest.raises(UsageError, match="turn 't' is running; wait for its end"):
            await turn.run()

    turn = Turn("t", Fork([step, *DONE]), QUICK)
    assert run(loop, turn).ok


@LOOPS
@STATES
def test_its_own_limit_is_its_failure(loop) -> None:
    """A turn whose own idle window passes has failed: class timeout, with the limit's error and the text so far."""
    log = Log()
    turn = Turn("t", Fork([Text("so far"), HANG]), QUICK, trace=log.trace)
    result = run(loop, turn)
    assert (turn.state, result.failure, result.stop_reason) == ("failed", "timeout", "idle")
    assert result.partial_output == "so far"
    assert result.timeout
    assert result.signal == {
        "origin": "limit",
        "cause": "limit",
        "root": "t",
        "reason": "idle",
        "timeout": True,
    }
    with pytest.raises(IdleReached):
        result.check()
    names = [line for line in log.lines if line in ("idle_fired", "aborted", "turn_ended")]
    assert names == ["idle_fired", "aborted", "turn_ended"]
    assert log.named("turn_ended")[0]["error"] == "IdleReached"


@LOOPS
@STATES
def test_its_own_ceiling_is_its_failure(loop) -> None:
    """The same holds for the ceiling of a turn that is busy all the time."""
    script = [step for _ in range(500) for step in (lambda: sleep(0.01), Text("busy "))]
    result = run(loop, Turn("t", Fork(script), Limits(idle=60, ceiling=0.2)))
    assert (result.status, result.failure, result.stop_reason) == ("failed", "timeout", "ceiling")


@LOOPS
@STATES
def test_going_in_circles_is_a_failure_of_its_own(loop) -> None:
    """A turn that its limit of equal calls stopped has not run out of time, and says so."""
    script = [step for call in "abc" for step in (ToolCalled(call, "ls"), ToolResult(call, result="same"))]
    result = run(loop, Turn("t", Fork([*script, HANG]), Limits(idle=60, loop=3)))
    assert (result.status, result.failure, result.stop_reason) == ("failed", "looping", "looping")


@LOOPS
@STATES
def test_time_that_ran_out_above_cancels(loop) -> None:
    """A child whose parent's limit fires is cancelled, not failed; that it was for time is said beside."""
    graph = AbortGraph()
    child = Turn("child", Fork([Text("half"), HANG]), Limits(idle=60), graph=graph, parent="main")

    async def fork_child():
        await child.run()
        await forever()

    parent = Turn("main", Fork([Text("delegating"), fork_child]), QUICK, graph=graph)
    result = run(loop, parent)
    assert (result.status, result.failure) == ("failed", "timeout")
    below = child.result
    assert (below.status, below.stop_reason, below.failure) == ("cancelled", "cancelled", "")
    assert below.signal == {
        "origin": "cascade",
        "cause": "limit",
        "root": "main",
        "reason": "idle",
        "timeout": True,
    }
    assert below.timeout
    assert below.partial_output == "half"
    with pytest.raises(TurnFailed, match="turn child cancelled: cancelled from above: idle") as raised:
        below.check()
    assert raised.value.result is below


@LOOPS
@STATES
def test_an_explicit_cancel_cancels_once(loop) -> None:
    """Whoever cancels is told whether that was news; one event says that the turn is over, with the origin."""
    log, answers = Log(), []
    fork = Fork([Text("half"), HANG])
    turn = Turn(
        "t",
        fork,
        QUICK,
        trace=log.trace,
        sink=lambda _: answers.extend([turn.cancel("enough"), turn.cancel()]),
    )
    assert not turn.cancel()
    result = run(loop, turn)
    assert answers == [True, False]
    assert not turn.cancel()
    assert (turn.state, result.message, result.partial_output) == ("cancelled", "cancelled: enough", "half")
    assert (result.signal["origin"], result.timeout) == ("explicit", False)
    assert [(e["state"], e["origin"]) for e in log.named("turn_ended")] == [("cancelled", "explicit")]
    assert [(e["reason"], e["origin"]) for e in log.named("stream_ended")] == [("cancelled", "explicit")]
    assert fork.closed == 1


@LOOPS
@STATES
@pytest.mark.parametrize("origin", ["shutdown", "budget"])
def test_other_origins_are_kept(loop, origin: str) -> None:
    """A turn may be cancelled for any of the reasons for which a run is."""
    turn = Turn("t", Fork([Text("half"), HANG]), QUICK, sink=lambda _: turn.cancel(origin=origin))
    result = run(loop, turn)
    assert (result.signal["origin"], result.message) == (origin, f"cancelled ({origin})")


@LOOPS
@STATES
def test_a_cancellation_of_the_host_goes_through(loop) -> None:
    """Who cancels the task that runs a turn gets the cancellation; the turn is cancelled from above, all hooks ran."""
    log = Log()

    async def stop(result):
        await sleep(0)
        log.note(f"stop {result.status}")

    async def release():
        await sleep(0)
        log.note("release")

    turn = Turn(
        "t", Fork([Text("half"), HANG]), Limits(idle=60), trace=log.trace, on_stop=stop, release=release
    )

    async def main():
        if loop is under_trio:
            with trio.move_on_after(0.05) as scope:
                await turn.run()
            return scope.cancelled_caught
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(turn.run(), 0.05)
        return True

    assert loop(main)
    assert (turn.state, turn.result.signal["origin"], turn.result.partial_output) == (
        "cancelled",
        "cascade",
        "half",
    )
    assert log.lines[-3:] == ["turn_ended", "stop cancelled", "release"]
    assert [(e["reason"], e["origin"]) for e in log.named("stream_ended")] == [("cancelled", "cascade")]


@STATES
def test_a_cancellation_by_both_goes_through() -> None:
    """Cancelled by us and by the host at once, the host's does not get lost."""
    turn = Turn("t", Fork([Text("half"), HANG]), Limits(idle=60))

    async def main():
        task = asyncio.create_task(turn.run())
        await asyncio.sleep(0.02)
        turn.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    under_asyncio(main)
    assert (turn.state, turn.result.signal["origin"]) == ("cancelled", "explicit")


@LOOPS
@STATES
def test_a_cancel_that_comes_too_late_hits_nobody(loop) -> None:
    """A stream that ended by itself before the cancel could act is judged by its end; its task goes on unharmed."""

    class Ending:
        """Ends without waiting for anything, and cancels in doing so."""

        def __init__(self) -> None:
            self.left = list(DONE)

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                assert turn.cancel()
                raise StopAsyncIteration
            return self.left.pop(0)

    async def main():
        result = await turn.run()
        await sleep(0)
        return result

    turn = Turn("t", Ending, QUICK)
    result = loop(main)
    assert (result.status, result.output, result.signal) == ("succeeded", "The answer is 42.", None)


@LOOPS
@STATES
def test_under_an_aborted_parent_nothing_is_opened(loop) -> None:
    """A turn that begins too late is cancelled without a stream."""
    graph = AbortGraph()
    graph.link("main")
    graph.abort("main", "shutdown", "going down")
    fork = Fork(DONE)
    turn = Turn("t", fork, QUICK, graph=graph, parent="main")
    result = run(loop, turn)
    assert (result.status, result.attempts, fork.opened) == ("cancelled", 0, 0)
    assert result.signal["cause"] == "shutdown"
    assert "t" not in graph


@LOOPS
@STATES
def test_the_end_is_told_before_anything_is_released(loop) -> None:
    """The last event of the turn, then the stop hook, then the release; each once, and only then it is unlinked."""
    log, graph = Log(), AbortGraph()
    turn = Turn(
        "t", Fork(DONE), QUICK, trace=log.trace, graph=graph,
        on_stop=lambda result: log.note(f"stop {result.status} {turn.state} {'t' in graph}"),
        release=lambda: log.note("release"),
    )  # fmt: skip
    run(loop, turn)
    log.trace.seal()
    assert log.lines[0] == "turn_started"
    assert log.lines[-4:] == ["turn_ended", "stop succeeded succeeded True", "release", "sealed"]
    assert "t" not in graph
    assert log.named("sealed")[0]["unfinished"] == 0


@LOOPS
@STATES
def test_a_hook_that_raises_is_a_warning(loop) -> None:
    """The result stands, the other hooks run, nothing is left unretrieved in the loop."""
    released = []

    async def stop(result):
        raise OSError("disk full")

    turn = Turn("t", Fork(DONE), QUICK, on_stop=stop, release=lambda: released.append(1))
    with pytest.warns(RuntimeWarning, match="turn t: a hook raised OSError"):
        assert run(loop, turn).ok
    assert released == [1]


@STATES
def test_a_hook_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook gets its time and no more."""
    monkeypatch.setattr("longwatch.streams.loops.shielded.__defaults__", (0.01,))
    for loop in (under_asyncio, under_trio):
        turn = Turn("t", Fork(DONE), QUICK, release=forever)
        with pytest.warns(RuntimeWarning, match="a hook was not over in time"):
            assert run(loop, turn).ok


@STATES
def test_background_runs_leak_nothing() -> None:
    """A turn that nobody awaits leaves no exception behind that nobody retrieves, however it ends."""

    async def main():
        turns = [Turn(name, Fork([error, HANG]), Limits(idle=0.05)) for name, error in FAILING.items()]
        tasks = [asyncio.create_task(turn.run()) for turn in turns]
        await asyncio.wait(tasks)
        del tasks
        return [turn.state for turn in turns]

    assert under_asyncio(main) == ["failed"] * len(FAILING)


FAILING = {"hangs": Text("x"), "raises": RuntimeError("boom"), "breaks": ConnectionError("reset")}


@STATES
def test_a_turn_thrown_away_ends_without_awaiting() -> None:
    """A coroutine that is closed in the middle ends its turn as cancelled; hooks that cannot be awaited are closed."""
    called = []

    async def stop(result):
        raise AssertionError("cannot be awaited")

    async def main():
        turn = Turn("t", Fork([Text("x"), HANG]), QUICK, on_stop=stop, release=lambda: called.append(1))
        coroutine = turn._begin() or turn._finish(turn._gone(GeneratorExit()), thrown_away=True)
        await coroutine
        return turn

    turn = under_asyncio(main)
    assert (turn.state, called) == ("cancelled", [1])


@LOOPS
@STATES
def test_what_breaks_in_our_own_sleep_is_raised_and_ends_the_turn(loop) -> None:
    """An error that is not the stream's is raised, and still the turn is over, as failed."""
    from longwatch.streams.retry import Retry

    async def broken(seconds):
        raise ZeroDivisionError

    turn = Turn("t", Fork([HANG]), QUICK, retry=Retry(read_only=True, sleep=broken))
    turn._fork = Fork([])
    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        run(loop, turn)
    assert turn.state == "failed"


@LOOPS
@STATES
def test_a_limit_that_has_fired_stays_the_cause(loop) -> None:
    """Cancelled from above while its stream closes because of its own limit, a turn has failed by that limit."""

    async def slow_end():
        try:
            await forever()
        finally:
            turn.cancel()
            graph.abort("main")

    graph = AbortGraph()
    graph.link("main")
    turn = Turn("t", Fork([Text("half"), slow_end]), QUICK, graph=graph, parent="main")
    result = run(loop, turn)
    assert (result.status, result.stop_reason, result.signal["root"]) == ("failed", "idle", "t")


@LOOPS
@STATES
def test_a_cancel_stays_the_cause_although_a_limit_passes_meanwhile(loop) -> None:
    """A stream that takes its time to close after a cancel may overrun a limit in it; it was cancelled all the same."""
    log = Log()

    async def until_idle():
        while not log.named("idle_fired"):
            await sleep(0.01)

    async def slow_end():
        try:
            turn.cancel()
            await forever()
        finally:
            await shielded(until_idle, 10)

    turn = Turn("t", Fork([Text("half"), slow_end]), QUICK, trace=log.trace)
    result = run(loop, turn)
    assert len(log.named("idle_fired")) == 1
    assert (result.status, result.signal["origin"]) == ("cancelled", "explicit")


@STATES
def test_a_stream_that_ignores_its_cancel_is_ended_by_its_limit() -> None:
    """Where the source swallows the cancellation a limit ends it; that it was cancelled stays the cause."""

    async def deaf():
        turn.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
        await forever()

    turn = Turn("t", Fork([Text("half"), deaf]), QUICK)
    result = run(under_asyncio, turn)
    assert (result.status, result.signal["origin"], result.partial_output) == (
        "cancelled",
        "explicit",
        "half",
    )


@STATES
def test_a_limit_that_has_fired_stays_the_cause_when_the_host_goes() -> None:
    """The same where the host cancels meanwhile: its cancellation goes through, the result names the limit."""

    async def slow_end():
        try:
            await forever()
        finally:
            task.cancel()

    turn = Turn("t", Fork([Text("half"), slow_end]), QUICK)

    async def main():
        nonlocal task
        task = asyncio.create_task(turn.run())
        with pytest.raises(asyncio.CancelledError):
            await task

    task = None
    under_asyncio(main)
    assert (turn.state, turn.result.stop_reason, turn.result.partial_output) == ("failed", "idle", "half")


def test_public_names() -> None:
    """What is documented is found in the package, and nothing else is."""
    from longwatch import streams

    assert streams.Turn is Turn
    assert [name for name in streams.__all__ if not hasattr(streams, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        streams.Nothing  # noqa: B018


# Partial output


@LOOPS
@PARTIAL
def test_text_survives_an_error_of_the_stream(loop) -> None:
    """What was said before the stream raised is in the result, as a plain string."""
    result = run(loop, Turn("t", Fork([Text("one "), Text("two"), RuntimeError("boom")]), QUICK))
    assert (result.status, result.failure, result.stop_reason) == ("failed", "error", "error")
    assert (result.partial_output, result.message) == ("one two", "RuntimeError: boom")
    assert (result.output, result.completion_percent) == (None, None)
    with pytest.raises(TurnFailed) as raised:
        result.check()
    assert isinstance(raised.value.__cause__, RuntimeError)


@PARTIAL
@pytest.mark.parametrize("last", [RuntimeError("boom"), HANG])
def test_without_text_there_is_no_partial_output(last) -> None:
    """Nothing was said, so there is nothing: None, not an empty text."""
    result = judged(Thinking(50), last)
    assert (result.status, result.partial_output, result.completion_percent) == ("failed", None, 0)


@PARTIAL
def test_text_survives_the_wrong_form() -> None:
    """An answer that is not in the form that was asked for fails the turn, and is kept as it was said."""
    result = judged(Text("not a number"), TurnEnded(), parse=int)
    assert (result.status, result.failure, result.stop_reason) == ("failed", "schema", "schema")
    assert result.schema_error.startswith("ValueError: invalid literal")
    assert (result.partial_output, result.output) == ("not a number", None)


@PARTIAL
def test_text_survives_a_cut_on_the_way_to_a_form() -> None:
    """Half of a form is no form: the turn failed, for the cut, and the half is kept."""
    result = judged(Text('{"a": '), parse=__import__("json").loads)
    assert (result.status, result.failure, result.stop_reason) == ("failed", "schema", "stream_incomplete")
    assert result.partial_output == '{"a": '


@PARTIAL
def test_an_answer_in_form_is_the_output() -> None:
    """The last message is parsed, whatever was said around the calls before it; a cut one that fits is partial."""
    whole = judged(Text("I look."), *CALLS, Text("4"), Text("2"), TurnEnded(), parse=int)
    assert (whole.output, whole.partial_output) == (42, None)
    cut = judged(Text("I look."), *CALLS, Text("42"), parse=int)
    assert (cut.status, cut.output, cut.partial, cut.partial_output) == ("succeeded", 42, True, "I look.42")


@PARTIAL
def test_the_last_message_is_the_output() -> None:
    """What was said before the last call is talk; where nothing was said since, it is all there is."""
    assert judged(Text("I look."), *CALLS, Text("42"), TurnEnded()).output == "42"
    assert judged(Text("I look."), *CALLS, TurnEnded()).output == "I look."
    assert judged(Text("old"), TurnEnded(), TurnStarted(), Text("new"), TurnEnded()).output == "new"


@LOOPS
@PARTIAL
def test_runs_do_not_leak_into_each_other(loop) -> None:
    """A second run starts with nothing: no text, no counts, no cause, no result of the first one."""
    fork = Fork([Text("first"), *CALLS, RuntimeError("boom")], [HANG], DONE)
    turn = Turn("t", fork, QUICK)

    async def main():
        first = await turn.run()
        second = await turn.run()
        third = await turn.run()
        return first, second, third

    first, second, third = loop(main)
    assert (first.partial_output, first.gathered) == ("first", 2)
    assert (second.partial_output, second.gathered, second.stop_reason) == (None, 0, "idle")
    assert (third.status, third.output, third.trace["calls"]) == ("succeeded", "The answer is 42.", [])
    assert third.signal is None


@PARTIAL
def test_the_text_can_be_read_meanwhile() -> None:
    """Whoever waits sees what was said until now."""
    seen = []
    turn = Turn("t", Fork(DONE), QUICK, sink=lambda event: seen.append(turn.text))
    run(under_asyncio, turn)
    assert seen == ["The answer ", "The answer is 42.", "The answer is 42."]


# What an end is worth


@INCOMPLETE_ENDS
def test_text_without_a_final_message_is_partial() -> None:
    """A stream that breaks off after text succeeded in part, and says so on top of the text."""
    result = judged(Text("so far"))
    assert (result.status, result.stop_reason, result.partial) == ("succeeded", "stream_incomplete", True)
    assert result.output == "[PARTIAL: the stream ended without a final message]\nso far"
    assert (result.partial_output, result.completion_percent) == ("so far", None)


@INCOMPLETE_ENDS
@pytest.mark.parametrize("script", [[], [Thinking(9)], [SessionStarted(), Heartbeat()], [Text("")]])
def test_no_output_is_a_failure(script: list) -> None:
    """A stream that ends without a word has failed, not succeeded with nothing."""
    result = judged(*script)
    assert (result.status, result.failure, result.stop_reason) == (
        "failed",
        "incomplete",
        "stream_incomplete",
    )
    assert (result.partial_output, result.completion_percent) == (None, 0)
    with pytest.raises(TurnFailed):
        result.check()


@INCOMPLETE_ENDS
def test_a_proper_end_without_output_is_a_failure_too() -> None:
    """That the agent says it is done does not make something of nothing."""
    result = judged(TurnStarted(), TurnEnded())
    assert (result.status, result.failure, result.stop_reason) == ("failed", "incomplete", "end")


@INCOMPLETE_ENDS
def test_tool_results_alone_are_a_failure_with_a_summary() -> None:
    """What was gathered without a word is counted, not lost: how many results, how many errors, how many bytes."""
    result = judged(*CALLS)
    assert (result.status, result.failure, result.stop_reason) == (
        "failed",
        "incomplete",
        "stream_incomplete",
    )
    assert result.partial_output == "2 tool results (1 failed, 3KiB), and no text"
    assert result.gathered == 2
    assert judged(*CALLS[:2]).partial_output == "1 tool result (0 failed, 2KiB), and no text"


@INCOMPLETE_ENDS
def test_work_without_words_is_done_when_the_agent_says_so() -> None:
    """An agent that answers by a tool and ends in order has done what it was asked for."""
    result = judged(*CALLS, SessionEnded())
    assert (result.status, result.stop_reason, result.output) == ("succeeded", "end", "")
    assert result.message == "it is done: 2 tool results (1 failed, 3KiB), and no text"


ENDS = {
    "tool_cap": [TurnEnded("tool_use"), TurnEnded("max_turns", ok=False), SessionEnded(ok=False, reason="error_max_turns")],
    "overload_exhausted": [
        Failed("overloaded", fatal=True), Failed(status=529, fatal=True), TurnEnded("overloaded_error", ok=False),
    ],
    "output_truncated": [
        TurnEnded("max_tokens"), TurnEnded("length"), TurnEnded("MAX_OUTPUT_TOKENS", ok=False),
    ],
    "capped": [TurnEnded("max"), SessionEnded(ok=False, reason="error_max_budget_usd")],
}  # fmt: skip


@INCOMPLETE_ENDS
@pytest.mark.parametrize(
    ("stop", "last"), [(stop, last) for stop, ends in ENDS.items() for last in ends], ids=repr
)
def test_an_end_on_purpose_keeps_what_there_is(stop: str, last) -> None:
    """Caps, overload and truncation leave a partial success with text, a failure without, whatever the spelling."""
    with_text, without = judged(Text("so far"), last), judged(*CALLS, last)
    assert (with_text.status, with_text.stop_reason) == ("succeeded", stop)
    assert with_text.output == f"[PARTIAL: {INCOMPLETE[stop]}]\nso far"
    assert (without.status, without.stop_reason, without.failure) == ("failed", stop, "incomplete")
    assert without.message == f"{INCOMPLETE[stop]}: {without.partial_output}"


@INCOMPLETE_ENDS
def test_the_end_of_a_session_does_not_take_back_why_the_turn_was_cut_short() -> None:
    """A result that is formally fine stays partial where the turn before it was truncated or overloaded."""
    assert judged(Text("a"), TurnEnded("max_tokens"), SessionEnded()).stop_reason == "output_truncated"
    several = [TurnEnded("max", ok=False), SessionEnded(ok=False, reason="error_max_turns")]
    assert judged(Text("a"), *several).stop_reason == "tool_cap"
    gave_up = judged(Text("a"), Failed("overloaded", fatal=True), SessionEnded(ok=False, reason="error"))
    assert gave_up.stop_reason == "overload_exhausted"


@INCOMPLETE_ENDS
def test_an_end_is_taken_back_by_what_comes_after_it() -> None:
    """An end that was none (a call's answer follows, the stream was opened anew, more text comes) does not count."""
    assert (
        judged(Text("a"), CALLS[0], TurnEnded("tool_use"), CALLS[1], Text("b")).stop_reason
        == "stream_incomplete"
    )
    assert judged(Text("a"), TurnEnded(), Restarted(), Thinking(1)).stop_reason == "stream_incomplete"
    assert judged(Text("a"), TurnEnded(), Text("b")).stop_reason == "stream_incomplete"
    assert judged(Text("a"), Failed("overloaded"), TurnEnded()).stop_reason == "end"


@INCOMPLETE_ENDS
@pytest.mark.parametrize(
    ("last", "words"),
    [
        (Failed("invalid_request", fatal=True, message="no such model"), "no such model"),
        (SessionEnded(ok=False, reason="error_during_execution"), "error_during_execution"),
        (TurnEnded("aborted", ok=False), "aborted"),
    ],
    ids=repr,
)
def test_an_error_of_the_agent_is_a_failure(last, words: str) -> None:
    """What the agent itself calls a failure is one, also with text; the text is kept."""
    result = judged(Text("so far"), last)
    assert (result.status, result.failure, result.stop_reason) == ("failed", "error", "error")
    assert result.message == f"the agent failed: {words}"
    assert result.partial_output == "so far"


@INCOMPLETE_ENDS
def test_a_source_that_hangs_up_is_a_cut() -> None:
    """A connection that breaks is an error, and its stop reason says that the stream was cut."""
    for error in (ConnectionResetError("reset"), EOFError()):
        result = judged(Text("so far"), error)
        assert (result.status, result.failure, result.stop_reason) == ("failed", "error", "stream_incomplete")


@INCOMPLETE_ENDS
def test_a_stream_that_announces_no_end_may_just_end() -> None:
    """Where a stream never says that it is done, its end is that; so it is where nobody can read it."""
    assert judged(Text("all"), announces_end=False).stop_reason == "end"

    async def numbers():
        yield 1
        yield 2

    def reader():
        def read(number):
            return [Text(str(number))]

        read.__module__ = "longwatch.streams.adapters.langgraph"
        return read

    assert run(under_asyncio, Turn("t", numbers, QUICK, reader=reader)).output == "12"
    cut = run(under_asyncio, Turn("t", numbers, QUICK, reader=reader, announces_end=True))
    assert cut.stop_reason == "stream_incomplete"
    unread = run(under_asyncio, Turn("t", numbers, QUICK))
    assert (unread.status, unread.stop_reason) == ("succeeded", "end")


def test_sizes_and_counts_are_kept_but_no_content() -> None:
    """The trace in the result has what was called and how much came back, never what was in it."""
    odd = [ToolCalled("3", "Read", b"abc"), ToolResult("3", partial=True), ToolResult("3", result=None)]
    result = judged(TurnStarted(), *CALLS, *odd, Text("ok"), TurnEnded())
    assert result.trace == {
        "calls": [{"tool": "Bash", "bytes": 17}, {"tool": "Bash", "bytes": 20}, {"tool": "Read", "bytes": 3}],
        "results": 3, "errors": 1, "bytes": 3072, "turns": 1,
    }  # fmt: skip


def test_a_reader_is_made_for_each_stream() -> None:
    """A dialect that has to be named is read by a fresh reader each time the stream is opened."""
    made = []

    async def lines():
        yield "hello"
        yield "done"

    def reader():
        made.append(1)
        return lambda line: [TurnEnded()] if line == "done" else [Text(line)]

    turn = Turn("t", lines, QUICK, reader=reader)
    for _ in range(2):
        assert run(under_asyncio, turn).output == "hello"
    assert made == [1, 1]


def test_a_sink_that_raises_fails_the_turn() -> None:
    """Whoever consumes the events is part of the work: an error there is the turn's failure."""
    result = judged(*DONE, sink=lambda event: 1 / 0)
    assert (result.status, result.message) == ("failed", "ZeroDivisionError: division by zero")


def test_a_fork_that_opens_no_stream_is_told_so() -> None:
    """A function that awaits instead of yielding, or a plain list, is a mistake that the result names."""

    async def forgot_to_yield():
        raise AssertionError("never awaited")

    for fork, kind in ((forgot_to_yield, "coroutine"), (lambda: [1], "list")):
        result = run(under_asyncio, Turn("t", fork, QUICK))
        assert (result.status, result.failure) == ("failed", "error")
        assert f"fork() returned {kind}; write an async generator" in result.message


# The wrap-up


@LOOPS
@pytest.mark.capability("CAP-92", "CAP-95")
def test_a_turn_is_told_once_to_wrap_up(loop) -> None:
    """At the soft limit the turn hears of it, goes on, and its early end is a partial success."""
    log, told = Log(), []

    async def wait_for_the_word():
        turn.word = event()
        await turn.word.wait()

    def on_soft(which):
        told.append(which)
        which.word.set()

    script = [Text("long work"), wait_for_the_word, Text(", cut short"), TurnEnded()]
    turn = Turn("t", Fork(script), Limits(idle=60, soft=0.05, ceiling=60), on_soft=on_soft, trace=log.trace)
    result = run(loop, turn)
    assert told == [turn]
    assert len(log.named("soft_fired")) == 1
    assert (result.status, result.stop_reason) == ("succeeded", "soft_deadline")
    assert result.output == "[PARTIAL: it was told to wrap up before it was done]\nlong work, cut short"


@pytest.mark.capability("CAP-92")
@pytest.mark.parametrize("on_soft", [None, lambda turn: 1 / 0])
def test_a_turn_that_was_not_told_is_not_judged_by_it(on_soft, recwarn) -> None:
    """Without a hook, or with one that raises, the soft limit changes nothing about the result."""
    log = Log()

    script = [step for _ in range(30) for step in (lambda: sleep(0.005), Text("x"))]
    turn = Turn("t", Fork(script), Limits(idle=60, soft=0.05, ceiling=60), on_soft=on_soft, trace=log.trace)
    turn._fork = Fork([*script, TurnEnded()])
    assert run(under_asyncio, turn).stop_reason == "end"
    assert len(log.named("soft_fired")) == 1
    warned = [str(each.message) for each in recwarn]
    assert warned == (
        [] if on_soft is None else ["turn t: on_soft raised ZeroDivisionError('division by zero')"]
    )


@pytest.mark.capability("CAP-92")
@pytest.mark.parametrize(
    ("wait", "told_at"), [(None, 40 * MINUTE), (10 * MINUTE, 40 * MINUTE + 10 * MINUTE + 30 * SECOND)]
)
def test_the_word_moves_with_what_the_provider_takes(wait, told_at) -> None:
    """Told at 40 of 45 minutes; the time in which the provider said wait is added to both."""
    spec = Spec(
        Limits(idle=0).resolve({}, "guard").specs, ("events",), pause_credit=PAUSE_CREDIT_GUARD, streamed=True
    )
    watch, log = Watch(spec, 0), []
    teller = Teller(Trace(log.append))
    watch.observe(Paused(wait), 5 * MINUTE)
    facts: list[Fact] = []
    while "soft_fired" not in [event.name for event in log]:
        facts += [c.fact for c in watch.advance(watch.next_deadline()) if isinstance(c, Record)]
        for fact in facts[len(log) :]:
            teller.tell(fact)
    assert facts[-1].at == told_at
    grants = [event.fields["limit"] for event in log if event.name == "extension_granted"]
    assert grants == (["soft", "ceiling"] if wait else [])
