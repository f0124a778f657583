"""Faults of other tools where the agent is a stream of events, on a clock that the test moves."""

import pytest

from guarded import END, HANG, World, collect
from longwatch import CallReached, CeilingReached, IdleReached, LimitReached, Limits
from longwatch.observe.events import Limited, Permission, Retry, Subagent, Text, ToolCalled, ToolResult
from longwatch.resets import span

S, MIN = 1_000, 60_000
WINDOW = 60


def guarded(script, limits):
    """Play a script; return the world, when it was over, and the error (None: it ended by itself)."""
    world = World()

    async def main():
        try:
            await collect(world.guard(world.source(script), limits))
        except LimitReached as error:
            return error
        return None

    error = world.asyncio(main)
    return world, world.now(), error


@pytest.mark.fault("A1")
def test_a_long_tool_is_not_idle():
    """An open call has a longer budget of its own: three idle windows of silence in it are no stall."""
    script = [(1 * S, ToolCalled("1", "Bash")), (181 * S, ToolResult("1")), (182 * S, END)]
    world, at, error = guarded(script, Limits(idle=WINDOW, call=10 * WINDOW))
    assert (at, error) == (182 * S, None)
    assert "idle_fired" not in world.names()


@pytest.mark.fault("B4")
def test_a_call_whose_result_never_comes():
    """It does not suspend the watch for ever: past its budget it is ended, and the error names the tool."""
    script = [(1 * S, ToolCalled("1", "WebFetch")), (0, HANG)]
    world, at, error = guarded(script, Limits(idle=WINDOW, call=3 * WINDOW))
    assert (at, type(error)) == (181 * S, CallReached)
    assert "WebFetch" in str(error)
    assert world.of("call_fired")[0]["subject"] == "WebFetch"


@pytest.mark.fault("C1")
def test_a_question_to_a_human_is_not_idle():
    """Three windows on a permission prompt: alive, and exactly one notice where a limit for questions asks for one."""
    script = [(1 * S, Permission("waiting", "rm?")), (181 * S, Permission("allowed", "rm?")), (182 * S, END)]
    world, at, error = guarded(script, Limits(idle=WINDOW, ask=30))
    assert (at, error) == (182 * S, None)
    assert [event["at"] for event in world.of("ask_fired")] == [31 * S]
    assert "idle_fired" not in world.names()


@pytest.mark.fault("C1")
def test_after_the_answer_silence_counts_again():
    """An answered question is no excuse any more."""
    script = [(1 * S, Permission("waiting", "rm?")), (181 * S, Permission("denied", "rm?")), (0, HANG)]
    _, at, error = guarded(script, Limits(idle=WINDOW))
    assert (at, type(error)) == (241 * S, IdleReached)


@pytest.mark.fault("D1")
@pytest.mark.parametrize("sub", ["", "helper-1"])
def test_an_open_delegation_is_work(sub):
    """A parent that waits for its helper is not idle, whether or not the helper has a name yet."""
    script = [(1 * S, Subagent("start", sub)), (241 * S, Subagent("end", sub)), (242 * S, END)]
    assert guarded(script, Limits(idle=WINDOW))[1:] == (242 * S, None)


@pytest.mark.fault("D1")
def test_a_helper_that_died_leaves_no_hold():
    """When the helper has failed, the parent's silence is its own."""
    script = [(1 * S, Subagent("start", "h")), (30 * S, Subagent("failed", "h")), (0, HANG)]
    _, at, error = guarded(script, Limits(idle=WINDOW))
    assert (at, type(error), error.last_event) == (90 * S, IdleReached, "subagent")


@pytest.mark.fault("K5")
@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("600", 631 * S),
        (600, 631 * S),
        ("Thu, 01 Jan 1970 00:20:01 GMT", 1231 * S),
        ("-5", 60 * S),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 60 * S),
        ("soon", 60 * S),
    ],
)
def test_what_a_provider_may_say(said, at):
    """Seconds and dates are read as they are meant; past and unreadable ones leave the normal window."""
    script = [(1 * S, Limited(span=span(said, wall=1.0).span)), (0, HANG)]
    assert guarded(script, Limits(idle=WINDOW))[1] == at


@pytest.mark.fault("K5")
def test_a_huge_pause_is_bounded():
    """Nobody is parked for ever by a value out of this world: the ceiling's credit has a cap."""
    _, at, error = guarded([(1 * S, Retry(delay=10**15)), (0, HANG)], Limits())
    assert (at, type(error)) == (165 * MIN, CeilingReached)


@pytest.mark.fault("S1")
def test_the_same_call_with_the_same_answer():
    """Thirty equal calls with equal answers are told and then ended; with changing answers they are polling."""

    def calls(answer):
        return [
            event
            for n in range(30)
            for event in (
                (n * S, ToolCalled(f"{n}", "Bash", {"cmd": "ls"})),
                (n * S + 500, ToolResult(f"{n}", result=answer(n))),
            )
        ]

    world, _, error = guarded(calls(lambda n: "same"), Limits(loop=10))
    assert (error.reason, error.last_event) == ("looping", "tool_result")
    assert [event["count"] for event in world.of("loop_suspected")] == [5]
    world, _, error = guarded(calls(str), Limits(loop=10))
    assert error is None
    assert world.of("loop_suspected") == []


@pytest.mark.fault("S1")
def test_without_a_limit_a_loop_is_only_told():
    """Where nobody asked for an end of it, a loop is one event."""
    script = [
        event
        for n in range(30)
        for event in (
            (n * S, ToolCalled(f"{n}", "Bash", "ls")),
            (n * S + 500, ToolResult(f"{n}", result="same")),
        )
    ]
    world, _, error = guarded([*script, (40 * S, Text("done"))], Limits())
    assert error is None
    assert len(world.of("loop_suspected")) == 1
