"""A wave: several turns, so many at a time, in order."""

import asyncio
import warnings

import pytest
import trio

from forked import HANG, LOOPS, Fork, Log, event, under_asyncio, under_trio
from longwatch import Limits, UsageError
from longwatch.observe.events import Text, TurnEnded
from longwatch.streams.graph import AbortGraph
from longwatch.streams.handle import Turn
from longwatch.streams.loops import sleep, together
from longwatch.streams.waves import default_width, wave

WAVE = pytest.mark.capability("CAP-97")
WIDTH = pytest.mark.capability("CAP-104")
PATIENT = Limits(idle=60)


def done(text):
    """Return the script of a turn that answers at once."""
    return [Text(text), TurnEnded()]


class Family:
    """Makes turns that note their hooks."""

    def __init__(self, **words) -> None:
        self.words = {"limits": PATIENT, **words}
        self.stopped: list[str] = []
        self.released: list[str] = []

    def turn(self, name: str, *script, **words) -> Turn:
        """Return a turn of that name."""

        async def release():
            await sleep(0)
            self.released.append(name)

        given = {**self.words, **words}
        return Turn(
            name, Fork(list(script)), given.pop("limits"), release=release,
            on_stop=lambda result: self.stopped.append(result.id), **given,
        )  # fmt: skip


def crowd(names, width):
    """Return a family's turns that all wait until `width` of them run at once, and the most that ever did."""
    state = {"now": 0, "most": 0}

    async def step():
        state["now"] += 1
        state["most"] = max(state["most"], state["now"])
        state.setdefault("full", event())
        if state["now"] >= width or state["most"] == width:
            state["full"].set()
        await state["full"].wait()
        for _ in range(3):
            await sleep(0)
        state["now"] -= 1

    family = Family()
    return [family.turn(name, step, *done(name)) for name in names], state


@LOOPS
@WAVE
def test_results_come_in_the_order_of_the_turns(loop) -> None:
    """Whoever is done first, the results stand in the order in which the turns were given."""
    order, family = [], Family()

    async def main():
        gates = [event() for _ in range(3)]

        async def wait_for(number):
            if number < 2:
                await gates[number + 1].wait()
            order.append(number)
            gates[number].set()

        turns = [
            family.turn(f"t{number}", lambda number=number: wait_for(number), *done(f"answer {number}"))
            for number in range(3)
        ]
        return await wave(turns, width=3)

    results = loop(main)
    assert order == [2, 1, 0]
    assert [result.output for result in results] == ["answer 0", "answer 1", "answer 2"]


@LOOPS
@WAVE
@pytest.mark.parametrize(("width", "most"), [(3, 3), (1, 1), (0, 1), (-5, 1), (50, 7)])
def test_so_many_run_at_once_and_no_more(loop, width: int, most: int) -> None:
    """The width is a bound that is used in full; below one it is one, above the turns it is all of them."""
    turns, state = crowd("abcdefg", most)
    results = loop(lambda: wave(turns, width=width))
    assert [result.output for result in results] == list("abcdefg")
    assert state["most"] == most


@LOOPS
@WAVE
def test_no_turns_are_no_results(loop) -> None:
    """An empty wave is over at once."""
    log = Log()
    assert loop(lambda: wave([], trace=log.trace)) == []
    assert log.lines == ["wave_started", "wave_ended"]


@LOOPS
@WAVE
def test_the_first_failure_ends_the_wave(loop) -> None:
    """Peers that run are cancelled from above, those that wait are never opened; all hooks ran once."""
    log = Log()
    family = Family(trace=log.trace)
    turns = [
        family.turn("good", *done("fine")),
        family.turn("peer", Text("half"), HANG),
        family.turn("bad", RuntimeError("boom")),
        family.turn("late", *done("never")),
        family.turn("later", *done("never")),
    ]
    results = loop(lambda: wave(turns, width=2, trace=log.trace))
    assert [result.status for result in results] == [
        "succeeded",
        "cancelled",
        "failed",
        "cancelled",
        "cancelled",
    ]
    assert results[1].partial_output == "half"
    assert {results[place].signal["origin"] for place in (1, 3, 4)} == {"cascade"}
    assert {results[place].signal["reason"] for place in (1, 3, 4)} == {"turn bad failed"}
    assert [turn._fork.opened for turn in turns] == [1, 1, 1, 0, 0]
    assert [result.attempts for result in results] == [1, 1, 1, 0, 0]
    assert sorted(family.stopped) == sorted(family.released) == ["bad", "good", "late", "later", "peer"]
    assert log.named("wave_started") == [{"tasks": 5, "width": 2, "fail_fast": True}]
    ended = log.named("wave_ended")[0]
    assert (ended["succeeded"], ended["failed"], ended["cancelled"]) == (1, 1, 3)
    assert len(log.named("turn_ended")) == 5


@LOOPS
@WAVE
def test_without_fail_fast_all_run(loop) -> None:
    """A failure is a result among others; everybody gets their turn."""
    family = Family()
    turns = [
        family.turn("bad", RuntimeError("boom")),
        family.turn("a", *done("a")),
        family.turn("b", *done("b")),
    ]
    results = loop(lambda: wave(turns, width=1, fail_fast=False))
    assert [result.status for result in results] == ["failed", "succeeded", "succeeded"]
    assert family.released == ["bad", "a", "b"]


@LOOPS
@WAVE
def test_a_partial_success_and_a_cancelled_turn_end_no_wave(loop) -> None:
    """Only a failure does: who was cancelled on purpose says nothing about the others."""
    family = Family()
    turns = [
        family.turn("cut", Text("half")),
        family.turn("gone", Text("half"), HANG, sink=lambda _: turns[1].cancel()),
        family.turn("last", *done("fine")),
    ]
    results = loop(lambda: wave(turns, width=1))
    assert [result.status for result in results] == ["succeeded", "cancelled", "succeeded"]


@LOOPS
@WAVE
def test_an_abort_of_the_parent_skips_who_waits(loop) -> None:
    """Under an aborted parent nobody is opened any more, and the wave has a result for each."""
    graph = AbortGraph()
    graph.link("main")
    family = Family(graph=graph, parent="main")

    async def abort():
        graph.abort("main", "shutdown")

    turns = [family.turn("first", Text("half"), abort, HANG), family.turn("next", *done("never"))]
    results = loop(lambda: wave(turns, width=1))
    assert [result.status for result in results] == ["cancelled", "cancelled"]
    assert [result.signal["cause"] for result in results] == ["shutdown", "shutdown"]
    assert turns[1]._fork.opened == 0


@LOOPS
@WAVE
def test_a_mistake_shows_also_when_the_wave_has_ended(loop) -> None:
    """A turn that could not have begun is an error, although its turn would not have come any more."""
    family = Family()
    lost = family.turn("lost", *done("never"), graph=AbortGraph(), parent="ghost")
    with pytest.raises(UsageError, match="'ghost' is not linked"):
        loop(lambda: wave([family.turn("bad", RuntimeError("boom")), lost], width=1))
    assert family.released == ["bad"]


@LOOPS
@WAVE
def test_a_skipped_turn_keeps_the_cause_from_above(loop) -> None:
    """Skipped under a parent that is aborted, a turn names that abort, not the skipping."""
    graph = AbortGraph()
    graph.link("main")
    graph.abort("main", "hours")
    turn = Family(graph=graph, parent="main").turn("a", *done("never"))
    result = loop(lambda: turn.skip("too late"))
    assert (result.status, result.signal["cause"], result.attempts) == ("cancelled", "hours", 0)


@LOOPS
@WAVE
def test_a_cancelled_wave_leaves_nobody_behind(loop) -> None:
    """When its caller is cancelled, running turns are cancelled, waiting ones skipped, and each is released once."""
    log = Log()
    family = Family()
    turns = [family.turn("a", Text("half"), HANG), family.turn("b", HANG), family.turn("c", *done("never"))]

    async def main():
        if loop is under_trio:
            with trio.move_on_after(0.05) as scope:
                await wave(turns, width=2, trace=log.trace)
            return scope.cancelled_caught
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wave(turns, width=2, trace=log.trace), 0.05)
        return True

    assert loop(main)
    assert [turn.state for turn in turns] == ["cancelled"] * 3
    assert sorted(family.released) == sorted(family.stopped) == ["a", "b", "c"]
    assert turns[0].result.partial_output == "half"
    assert turns[2]._fork.opened == 0
    assert log.lines == ["wave_started", "wave_ended"]


@LOOPS
@WAVE
def test_a_turn_that_cannot_begin_is_raised_after_the_others_have_ended(loop) -> None:
    """A mistake of the caller is an error, as it is, and no turn is left running."""
    family = Family()
    turns = [
        family.turn("a", Text("half"), HANG),
        family.turn("lost", *done("never"), graph=AbortGraph(), parent="ghost"),
    ]
    with pytest.raises(UsageError, match="'ghost' is not linked"):
        loop(lambda: wave(turns, width=2))
    assert turns[0].state == "cancelled"
    assert family.released == ["a"]


@WAVE
def test_names_are_given_once() -> None:
    """Two turns of one name could not be told apart in any record."""
    family = Family()
    with pytest.raises(UsageError, match="two turns of the wave are called 'a'"):
        under_asyncio(lambda: wave([family.turn("a", *done("a")), family.turn("a", *done("b"))]))


# The width


@WIDTH
@pytest.mark.parametrize("text", ["1", "8", "32", " 4 "])
def test_the_variable_sets_the_width(text: str) -> None:
    """Digits from 1 to 32 are the width."""
    assert default_width({"LONGWATCH_GUARD_WIDTH": text, "LONGWATCH_GUARD_IDLE": "nonsense"}) == int(text)


@WIDTH
@pytest.mark.parametrize("text", ["0", "33", "-1", "+4", "4.0", "0x4", "four", "²", "9" * 30])
def test_a_wrong_variable_warns_once_and_is_eight(text: str) -> None:
    """Anything else is one warning that names the variable, and the built-in holds."""
    with pytest.warns(
        UserWarning, match="longwatch: LONGWATCH_GUARD_WIDTH=.*the built-in is used: 8"
    ) as told:
        assert default_width({"LONGWATCH_GUARD_WIDTH": text}) == 8
    assert len(told) == 1


@WIDTH
@pytest.mark.parametrize("environ", [{}, {"LONGWATCH_GUARD_WIDTH": ""}])
def test_without_the_variable_it_is_eight(environ: dict) -> None:
    """Unset and empty are the built-in, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_width(environ) == 8


@WIDTH
def test_a_wave_reads_the_variable_and_warns_where_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave without a width takes the variable's; a wrong one warns at the line that starts the wave."""
    monkeypatch.setenv("LONGWATCH_GUARD_WIDTH", "2")
    turns, state = crowd("abcd", 2)
    under_asyncio(lambda: wave(turns))
    assert state["most"] == 2
    monkeypatch.setenv("LONGWATCH_GUARD_WIDTH", "many")
    turns, state = crowd("abcdefghij", 8)

    async def main():
        return await wave(turns)

    with pytest.warns(UserWarning, match="LONGWATCH_GUARD_WIDTH") as told:
        under_asyncio(main)
    assert state["most"] == 8
    assert [warning.filename for warning in told] == [__file__]


# A piece of real life


@LOOPS
@pytest.mark.capability("CAP-93", "CAP-97", "CAP-98")
def test_cookbook_one_of_three_hangs(loop) -> None:
    """Three searches under one graph: the one that hangs fails by its own idle limit, the others are not disturbed."""
    log = Log()
    graph = AbortGraph(log.trace)
    graph.link("main")
    family = Family(limits=Limits(idle=0.2), graph=graph, parent="main", trace=log.trace)
    turns = [
        family.turn("code", *done("in core/watch.py")),
        family.turn("docs", Text("looking"), HANG),
        family.turn("tests", *done("in tests/core")),
    ]
    results = loop(lambda: wave(turns, fail_fast=False, trace=log.trace))
    assert [(result.status, result.stop_reason) for result in results] == [
        ("succeeded", "end"), ("failed", "idle"), ("succeeded", "end"),
    ]  # fmt: skip
    assert results[1].partial_output == "looking"
    fired = log.named("idle_fired")
    assert [(each["turn"], each["last_event"]) for each in fired] == [("docs", "text")]
    assert graph.aborted("main") is None


@LOOPS
@pytest.mark.capability("CAP-93", "CAP-97", "CAP-98")
def test_cookbook_the_parent_is_cancelled(loop) -> None:
    """Cancelling the parent reaches all three at once, running or waiting, and each result says from where."""
    log = Log()
    graph = AbortGraph(log.trace)
    graph.link("main")
    family = Family(graph=graph, parent="main", trace=log.trace)

    async def main():
        both = event()
        started = []

        def step():
            started.append(1)
            if len(started) == 2:
                both.set()
            return sleep(0)

        turns = [family.turn(name, step, HANG) for name in ("a", "b", "c")]
        results = []

        async def work():
            results.extend(await wave(turns, width=2, trace=log.trace))

        async def user():
            await both.wait()
            assert graph.abort("main", "explicit", "the user pressed Escape") == ("main", "a", "b")

        await together([work, user])
        return results

    results = loop(main)
    assert [result.status for result in results] == ["cancelled"] * 3
    assert {
        (result.signal["origin"], result.signal["cause"], result.signal["root"]) for result in results
    } == {("cascade", "explicit", "main")}
    assert sorted(family.released) == ["a", "b", "c"]
    assert log.named("aborted")[0]["reached"] == "main,a,b"
