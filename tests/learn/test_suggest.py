"""Windows from history: what counts, how it is spread, and what may be proposed."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, LimitSpec
from longwatch.learn.replay import WORKING, Replay
from longwatch.learn.stretches import Gap
from longwatch.learn.suggest import (
    ANY,
    FIRST,
    LEFT_OUT,
    LONGEST,
    ROUND,
    UNNAMED,
    History,
    Proposal,
    Seen,
    Sleeps,
    Spread,
    needed,
    silences,
    smallest,
)
from longwatch.observe import events as e
from longwatch.observe.record import Record

BEGIN = corpus.BEGIN
Told = tuple[int, e.Event]


def records(*told: Told) -> list[Record]:
    """Return records at these seconds after the begin."""
    return [Record((event,), at=BEGIN + at * SECOND) for at, event in told]


def seen(*told: Told, sleeps: Sequence[tuple[int, int]] = (), starts: Sequence[int] = ()) -> Seen:
    """Return what a session has shown; sleeps and starts are in seconds after the begin too."""
    slept = Sleeps((BEGIN + begin * SECOND, BEGIN + end * SECOND) for begin, end in sleeps)
    began = [BEGIN + at * SECOND for at in starts]
    return Seen(silences(records(*told), began), slept, ("AskUserQuestion",))


def longest(found: Seen) -> dict[tuple[str, str], int]:
    """Return the longest silence of each state in seconds."""
    return {key: spread.longest // SECOND for key, spread in found.spreads.items()}


def idle_for(*seconds: int) -> History:
    """Return the history of sessions in which the model was silent for so long."""
    return History(Seen([Gap(0, span * SECOND, WORKING)]) for span in seconds)


def proposal(history: History, rate: Fraction, state: str = WORKING, tool: str = ANY) -> Proposal:
    """Return what is proposed for one state."""
    (found,) = (each for each in history.proposals(rate) if (each.state, each.tool) == (state, tool))
    return found


# -- what counts


def test_silence_belongs_to_its_state() -> None:
    """A silence of the model is its own, a call is measured whole, a turn that is over is no silence of either."""
    found = seen(
        (0, e.TurnStarted()), (20, e.Text("x")), (21, e.ToolCalled("c", "Bash")), (22, e.ToolCalled("d")),
        (81, e.ToolResult("d")), (141, e.ToolResult("c")), (150, e.TurnEnded()), (900, e.TurnStarted()),
        (904, e.Text("y")),
    )  # fmt: skip
    assert longest(found) == {
        (WORKING, ANY): 20, ("call", ANY): 120, ("call", "Bash"): 120, ("call", UNNAMED): 59, ("ready", ANY): 750,
    }  # fmt: skip
    assert found.left_out == {}


@pytest.mark.parametrize(
    ("reason", "told", "sleeps"),
    [
        ("long", [(0, e.Text("x")), (6 * 3600, e.Text("y"))], ()),
        ("long", [(0, e.ToolCalled("c", "t")), (6 * 3600, e.ToolResult("c"))], ()),
        ("asleep", [(0, e.Text("x")), (600, e.Text("y"))], [(500, 700)]),
        ("asleep", [(0, e.ToolCalled("c", "t")), (600, e.ToolResult("c"))], [(-9, 1)]),
        ("paused", [(0, e.Text("x")), (0, e.Limited("usage", 60 * SECOND)), (50, e.Text("y"))], ()),
        ("paused", [(0, e.Text("x")), (1, e.Limited("usage", 900 * SECOND)), (1200, e.Text("y"))], ()),
        ("by_hand", [(0, e.Text("x")), (600, e.TurnStarted())], ()),
        ("by_hand", [(0, e.Text("x")), (600, e.SessionStarted("s", resumed=True))], ()),
        ("by_hand", [(0, e.Text("x")), (600, e.TurnEnded("aborted", ok=False))], ()),
        ("by_hand", [(0, e.ToolCalled("c", "t")), (600, e.ToolResult("c", ok_native=False, why="denied"))], ()),
        ("by_hand", [(0, e.ToolCalled("c")), (6, e.ToolResult("c", ok_native=False, why="interrupted"))], ()),
        ("asked", [(0, e.ToolCalled("c", "AskUserQuestion")), (60, e.ToolResult("c"))], ()),
    ],
)  # fmt: skip
def test_what_does_not_count(reason: str, told: list[Told], sleeps: list[tuple[int, int]]) -> None:
    """Nights, sleeps, the provider's pauses and what a human ended say nothing of a limit, and are counted apart."""
    found = seen(*told, sleeps=sleeps)
    assert (found.left_out, found.spreads) == ({reason: 1}, {})


def test_what_counts_all_the_same() -> None:
    """A short pause in a long silence explains nothing; a queued turn, and one of a helper, is no human's hand."""
    found = seen(
        (0, e.Text("x")), (60, e.Retry(1, 500)), (540, e.Text("y")), (560, e.TurnStarted("queue")), sleeps=[(900, 910)]
    )  # fmt: skip
    assert longest(found) == {(WORKING, ANY): 540}
    helper = [*records((0, e.Text("x"))), Record((e.TurnStarted(),), at=BEGIN + MINUTE, sub="a")]
    assert longest(Seen(silences(helper))) == {(WORKING, ANY): 60}


def test_a_call_is_measured_as_its_limit_does() -> None:
    """Its own progress and an answer of the human begin it anew; while a human is asked it does not count."""
    found = seen(
        (0, e.ToolCalled("c", "t")), (10, e.ToolCalled("d", "u")), (40, e.Heartbeat("mcp_progress", "c")),
        (45, e.Heartbeat("keep_alive", "c")), (100, e.Permission("waiting", "q")), (110, e.Permission("waiting", "r")),
        (400, e.Permission("allowed", "q")), (500, e.Permission("allowed", "r")), (530, e.ToolResult("c", partial=True)),
        (545, e.ToolResult("c")), (550, e.ToolResult("d")), (551, e.ToolResult("e")),
    )  # fmt: skip
    assert longest(found) == {
        ("call", ANY): 90, ("call", "t"): 60, ("call", "u"): 90, ("asked", ANY): 290, (WORKING, ANY): 1,
    }  # fmt: skip


def test_calls_of_which_nobody_knows_the_end() -> None:
    """An orphan, a call of a stream that began anew and one that is still open are not measured."""
    found = seen(
        (0, e.ToolCalled("c", "t")), (50, e.ToolResult("c", ok_native=False, why="orphaned")),
        (50, e.ToolCalled("d", "t")), (90, e.Restarted()), (90, e.Heartbeat("tool_progress", "d")),
        (91, e.ToolCalled("f", "t")), (99, e.Text("x")),
    )  # fmt: skip
    assert [key for key in found.spreads if key[0] == "call"] == []


def test_the_first_record_of_a_run() -> None:
    """It is measured from the start of the run, also of one that took the session up again; not of one that failed."""
    told = [(5, e.Text("x")), (1000, e.Text("y"))]
    assert longest(seen(*told, starts=[0, 980, 990]))[FIRST, ANY] == 10
    assert longest(seen(*told, starts=[0]))[FIRST, ANY] == 5
    assert (FIRST, ANY) not in longest(seen(*told, starts=[2000]))


def test_without_times_nothing_is_measured() -> None:
    """Of records that do not say when they were written no silence is known; signs of life end none."""
    without = [Record((event,)) for event in (e.ToolCalled("c", "t"), e.ToolResult("c"), e.Text("x"))]
    assert longest(Seen(silences(without))) == {}
    alive = [*records((0, e.Text("x"))), Record(at=BEGIN + SECOND), *records((60, e.Text("y")))]
    assert longest(Seen(silences(alive))) == {(WORKING, ANY): 60}


KINDS = st.sampled_from(
    ("text", "thinking", "call", "result", "progress", "ask", "answer", "over", "turn", "retry", "alive")
)


def scripted(steps: list[tuple[int, str]]) -> list[Record]:
    """Return a session of such steps; each call ends, by itself."""
    at, begun, open_, out = BEGIN, 0, list[str](), [Record((e.TurnStarted(),), at=BEGIN)]
    ends = [(1, "answer"), *((1, "result") for _ in steps), (1, "text")]
    for wait, kind in [*steps, *ends]:
        at += wait * SECOND
        event: e.Event | None = None
        if kind == "call":
            begun += 1
            open_.append(str(begun))
            event = e.ToolCalled(str(begun), "ab"[begun % 2])
        elif kind == "result":
            event = e.ToolResult(open_.pop(0)) if open_ else None
        elif kind == "progress":
            event = e.Heartbeat("mcp_progress", open_[-1]) if open_ else None
        else:
            event = {
                "text": e.Text("x"), "thinking": e.Thinking(1), "ask": e.Permission("waiting", "q"),
                "answer": e.Permission("allowed", "q"), "over": e.TurnEnded(), "turn": e.TurnStarted("queue"),
                "retry": e.Retry(1),
            }.get(kind)  # fmt: skip
        out.append(Record(() if event is None else (event,), at=at))
    return out


@given(
    st.lists(st.tuples(st.integers(0, 4_000), KINDS), max_size=25),
    st.sampled_from(ROUND),
    st.sampled_from("ab"),
)
def test_a_limit_fires_where_it_is_said_to(steps: list[tuple[int, str]], window: int, tool: str) -> None:
    """The watch that supervises would have stopped just those sessions that the history calls stopped."""
    session = scripted(steps)
    history = History([Seen(silences(session))])
    limits = {"idle": LimitSpec(window), "call": LimitSpec(LONGEST, NOTIFY, {tool: window})}
    for limit, key in (("idle", (WORKING, ANY)), ("call", ("call", tool))):
        replay = Replay({limit: limits[limit]})
        for record in session:
            replay.tell(record)
        assert bool(replay.fired) == bool(history.stopped({key: window}))


# -- how it is spread


@given(st.lists(st.integers(0, LONGEST), min_size=1), st.fractions(Fraction(1, 1_000), 1))
def test_quantiles(spans: list[int], share: Fraction) -> None:
    """A quantile is the exact one without what is behind its third digit; the longest is exact."""
    halves = [Spread(), Spread()]
    for place, span in enumerate(spans):
        halves[place % 2].add(span)
    halves[0].join(halves[1])
    exact = sorted(spans)[max(1, ceil(share * len(spans))) - 1]
    assert exact - exact // 100 <= halves[0].below(share) <= exact
    assert (halves[0].count, halves[0].longest) == (len(spans), max(spans))
    assert Spread().below(share) == 0


def test_memory_is_bounded() -> None:
    """However many spans there are, only three digits of each are kept."""
    spread = Spread()
    for span in range(0, LONGEST, 997):
        spread.add(span)
    assert len(spread.counts) < 6_000


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)).map(lambda s: (s[0], s[0] + s[1]))),
    st.integers(0, 50), st.integers(1, 9),
)  # fmt: skip
def test_sleeps(spans: list[tuple[int, int]], begin: int, length: int) -> None:
    """It slept within a span if any of its sleeps has a moment in common with it."""
    end = begin + length
    assert Sleeps(spans).within(begin, end) == any(a < end and begin < b for a, b in spans)


# -- what is proposed


@pytest.mark.capability("NEW-6")
def test_the_smallest_window_that_is_seldom_wrong() -> None:
    """Of 60 sessions three may be stopped at a rate of one in 20, so the three longest silences do not matter."""
    history = idle_for(*[100] * 56, 290, 301, 3_000, 9_000)
    found = proposal(history, Fraction(1, 20))
    assert (found.window, found.stopped, found.missing) == (5 * MINUTE, 3, 0)
    assert (found.sessions, found.silences, found.longest) == (60, 60, 9_000 * SECOND)
    assert (found.p50, found.p99) == (100 * SECOND, 9_000 * SECOND)
    assert history.stopped({(WORKING, ANY): 5 * MINUTE}) == 3
    assert history.stopped({(WORKING, ANY): 290 * SECOND}) == 4


@pytest.mark.capability("NEW-6")
def test_nothing_is_proposed_from_too_little() -> None:
    """One session too few is said, and no window is named."""
    assert needed(Fraction(1, 20)) == 60
    found = proposal(idle_for(*[100] * 59), Fraction(1, 20))
    assert (found.window, found.missing) == (None, 1)
    assert proposal(idle_for(*[100] * 60), Fraction(1, 20)).window == 2 * MINUTE


def test_each_tool_has_its_own() -> None:
    """A tool counts in the sessions that used it; a call without a tool has no budget of its own."""
    calls = [[Gap(0, 50 * SECOND, "call", "Read"), Gap(0, 50 * SECOND, "call")] for _ in range(6)]
    history = History(
        Seen([*found, *[Gap(0, HOUR, "call", "Bash")] * (place < 5)]) for place, found in enumerate(calls)
    )
    rate = Fraction(1, 2)
    assert [(each.tool, each.window, each.missing) for each in history.proposals(rate)] == [
        (ANY, 90 * MINUTE, 0), ("Read", MINUTE, 0), (UNNAMED, None, 0), ("Bash", None, 1),
    ]  # fmt: skip
    budgets = {("call", ANY): MINUTE, ("call", "Bash"): 2 * HOUR}
    assert (history.stopped(budgets), history.stopped({("call", ANY): MINUTE})) == (0, 5)


def test_what_is_not_bounded() -> None:
    """For a question and a turn that is over nothing is proposed, however many there were."""
    history = History(Seen([Gap(0, SECOND, state)]) for state in ("asked", "ready") * 9)
    assert [(each.state, each.window, each.missing) for each in history.proposals(Fraction(1, 2))] == [
        ("asked", None, 0), ("ready", None, 0),
    ]  # fmt: skip


def test_sessions_in_which_nothing_counts() -> None:
    """They are no sessions; why is kept."""
    history = History([Seen([Gap(0, LONGEST, WORKING)]), Seen([])])
    assert (history.sessions, history.left_out) == (0, {**dict.fromkeys(LEFT_OUT, 0), "long": 1})
    assert history.proposals(Fraction(1, 2)) == []


@given(
    st.lists(st.integers(0, LONGEST - 1), min_size=1),
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
)
def test_no_smaller_window_would_do(worst: list[int], rate: Fraction) -> None:
    """The proposal keeps the rate, the next smaller one does not, and the last one always does."""
    window, reached = smallest(worst, rate)
    assert reached == sum(span >= window for span in worst) <= rate * len(worst)
    if window != ROUND[0]:
        less = ROUND[ROUND.index(window) - 1]
        assert sum(span >= less for span in worst) > rate * len(worst)


def test_round_windows_grow() -> None:
    """They are in order, and end where nothing is counted any more."""
    assert list(ROUND) == sorted(set(ROUND))
    assert ROUND[-1] == LONGEST
