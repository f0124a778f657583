"""One more attempt after a cut stream: when, after how long, and when not."""

import pytest

from forked import LOOPS, Fork, Log, under_asyncio
from longwatch import Limits, UsageError
from longwatch.observe.events import Failed, Text, Thinking, ToolCalled, ToolResult, TurnEnded
from longwatch.streams.graph import AbortGraph
from longwatch.streams.handle import Turn
from longwatch.streams.retry import DELAY, Retry

pytestmark = pytest.mark.capability("CAP-96")
QUICK = Limits(idle=0.2)
CUT = [Thinking(9)]
DONE = [Text("42"), TurnEnded()]


class Naps:
    """A sleep that only notes for how long, and does something meanwhile."""

    def __init__(self, meanwhile=lambda: None) -> None:
        self.spans: list[float] = []
        self._meanwhile = meanwhile

    async def __call__(self, seconds: float) -> None:
        self.spans.append(seconds)
        self._meanwhile()


def run(fork, sleep, loop=under_asyncio, *, read_only=True, times=1, gate=None, **words):
    """Run a turn that may be retried; return its result."""
    retry = Retry(read_only=read_only, times=times, gate=gate, sleep=sleep)
    return loop(Turn("t", fork, QUICK, retry=retry, **words).run)


@LOOPS
def test_a_cut_stream_is_opened_afresh_once_after_a_second(loop) -> None:
    """The second attempt is a fork of its own and starts with nothing; its success is the turn's."""
    fork, naps, log, stops = Fork(CUT, DONE), Naps(), Log(), []
    result = run(fork, naps, loop, trace=log.trace, on_stop=stops.append)
    assert (result.status, result.output, result.attempts, fork.opened) == ("succeeded", "42", 2, 2)
    assert naps.spans == [1.0] == [DELAY]
    assert log.named("turn_retried") == [{"turn": "t", "attempt": 2, "delay_ms": 1000}]
    assert [each["attempt"] for each in log.named("turn_started")] == [1, 2]
    assert [each["attempts"] for each in log.named("turn_ended")] == [2]
    assert stops == [result]


@pytest.mark.parametrize(
    "cut",
    [
        [],
        [ToolCalled("1", "Read"), ToolResult("1", result="x")],
        [Text("a"), ConnectionResetError("reset")],
    ],
)
def test_every_failure_by_a_cut_is_worth_it(cut: list) -> None:
    """No output, tool results alone, a connection that breaks: all are failures of a stream that was cut."""
    assert run(Fork(cut, DONE), Naps()).ok


def test_a_second_cut_is_final_and_returned_as_it_is() -> None:
    """There is one more attempt and no more; what the last one came to is the result, unchanged."""
    first, second = [
        [ToolCalled("1", "Read"), ToolResult("1", result=words)] for words in ("long words", "xyz")
    ]
    fork, naps = Fork(first, second), Naps()
    result = run(fork, naps)
    assert (fork.opened, naps.spans) == (2, [1.0])
    assert (result.status, result.stop_reason, result.gathered) == ("failed", "stream_incomplete", 1)
    assert result.partial_output == "1 tool result (0 failed, 3B), and no text"


@pytest.mark.parametrize("words", [{"read_only": False}, {"times": 0}])
def test_writers_and_those_who_said_no_are_not_retried(words: dict) -> None:
    """Only a turn that changes nothing is tried again, and 0 switches it off."""
    fork, naps = Fork(CUT, DONE), Naps()
    result = run(fork, naps, **words)
    assert (result.status, fork.opened, naps.spans) == ("failed", 1, [])


def test_without_a_word_nothing_is_retried() -> None:
    """Retrying is asked for: a turn that was told nothing of it runs once."""
    fork = Fork(CUT, DONE)
    assert not under_asyncio(Turn("t", fork, QUICK).run).ok
    assert fork.opened == 1


@pytest.mark.parametrize(
    ("script", "stop"),
    [
        ([Text("so far")], "stream_incomplete"),
        ([TurnEnded("max_turns")], "tool_cap"),
        ([TurnEnded("max_tokens")], "output_truncated"),
        ([Failed("overloaded", fatal=True)], "overload_exhausted"),
        ([RuntimeError("boom")], "error"),
        ([TurnEnded()], "end"),
    ],
)
def test_other_ends_are_not_retried(script: list, stop: str) -> None:
    """A partial success, a cap, an error of the agent, an empty answer: none is the network's fault."""
    fork, naps = Fork(script, DONE), Naps()
    result = run(fork, naps)
    assert (result.stop_reason, fork.opened, naps.spans) == (stop, 1, [])


def test_a_limit_is_not_retried() -> None:
    """A turn that its own limit stopped stays stopped."""
    from forked import HANG

    fork, naps = Fork([HANG], DONE), Naps()
    assert run(fork, naps).stop_reason == "idle"
    assert (fork.opened, naps.spans) == (1, [])


def test_the_gate_is_asked_before_and_after_the_delay() -> None:
    """Each of its two answers can stop the retry; the first failure is returned."""
    answers = [[True, True], [True, False], [False]]
    for said, opened, slept in zip(answers, [2, 1, 1], [1, 1, 0], strict=True):
        asked, fork, naps = iter(said), Fork(CUT, DONE), Naps()
        result = run(fork, naps, gate=lambda asked=asked: next(asked))
        assert (fork.opened, len(naps.spans)) == (opened, slept)
        assert result.ok == (opened == 2)
        assert next(asked, None) is None


def test_a_gate_that_raises_has_said_no() -> None:
    """Who cannot decide has not allowed it."""
    fork = Fork(CUT, DONE)
    result = run(fork, Naps(), gate=lambda: 1 / 0)
    assert (result.status, result.error, fork.opened) == ("failed", None, 1)


@LOOPS
def test_an_abort_during_the_delay_leaves_the_failure(loop) -> None:
    """Whoever aborts above meanwhile ends the wait; the stream is not opened again, the failure stands."""
    graph = AbortGraph()
    graph.link("main")
    fork, naps = Fork(CUT, DONE), Naps(lambda: graph.abort("main"))
    result = run(fork, naps, loop, graph=graph, parent="main")
    assert (result.status, result.stop_reason, result.signal) == ("failed", "stream_incomplete", None)
    assert (fork.opened, naps.spans) == (1, [1.0])


@LOOPS
def test_a_cancel_ends_the_delay_at_once(loop) -> None:
    """Nobody waits for a delay whose retry will not come."""
    from forked import forever

    async def nap(seconds):
        turn.cancel()
        await forever()

    fork = Fork(CUT, DONE)
    turn = Turn("t", fork, QUICK, retry=Retry(read_only=True, sleep=nap))
    result = loop(turn.run)
    assert (result.status, fork.opened) == ("failed", 1)


def test_an_abort_before_the_delay_spares_it() -> None:
    """A stream that was cut because everything ends is not waited for."""
    graph = AbortGraph()
    graph.link("main")

    async def end():
        # The last thing the source does before it ends by itself, without a chance to be cancelled.
        graph.abort("main")

    fork, naps = Fork([end], DONE), Naps()
    result = run(fork, naps, graph=graph, parent="main")
    assert (result.ok, fork.opened, naps.spans) == (False, 1, [])


@pytest.mark.parametrize("times", [-1, 2])
def test_more_than_once_is_refused(times: int) -> None:
    """A second retry would hide an outage; it cannot be asked for."""
    with pytest.raises(UsageError, match=f"times {times}: a cut stream is tried again once, or"):
        Retry(read_only=True, times=times)
