"""What a guard's limits do, hours of it, on a clock that the test moves: the playbooks of the core through real reads."""

import itertools
import warnings

import pytest

from guarded import END, HANG, World, collect
from longwatch import (
    CallReached,
    CeilingReached,
    FirstReached,
    IdleReached,
    LimitReached,
    Limits,
    TimeoutReached,
)
from longwatch.observe.events import (
    Compacted,
    Heartbeat,
    Limited,
    Retry,
    SessionStarted,
    Text,
    Thinking,
    ToolCalled,
    ToolResult,
    TurnStarted,
)

S, MIN, HOUR = 1_000, 60_000, 3_600_000
WORD = Text("word")


class Played:
    """How a script ended under a guard: when, with which error, after which items."""

    def __init__(self, script, limits=None, **given):
        self.world = World()
        self.items = []
        self.error = None
        self.stream = None
        self.world.asyncio(self._main, script, limits, given)

    async def _main(self, script, limits, given):
        self.stream = self.world.guard(self.world.source(script), limits, **given)
        try:
            await collect(self.stream, self.items)
        except LimitReached as error:
            self.error = error
        self.at = self.world.now()

    @property
    def end(self):
        """Return the instant and the class of the end."""
        return self.at, type(self.error) if self.error else None


class TestIdle:
    """The clock of silence."""

    @pytest.mark.capability("CAP-73")
    def test_the_default(self):
        """A stream that never says anything is ended after eight minutes, and fires once."""
        played = Played([(0, HANG)])
        assert played.end == (480 * S, IdleReached)
        assert played.world.names().count("idle_fired") == 1

    @pytest.mark.capability("CAP-73")
    @pytest.mark.parametrize(
        "event",
        [
            WORD,
            Thinking(3),
            SessionStarted(),
            Compacted(),
            TurnStarted(),
            ToolResult("never called"),
            object(),
            7,
        ],
        ids=lambda event: type(event).__name__,
    )
    def test_every_event_re_arms(self, event):
        """Each event that says that something moved gives a whole window."""
        played = Played([(7 * MIN, event), (14 * MIN, event), (0, HANG)])
        assert played.end == (22 * MIN, IdleReached)
        assert played.items == [event, event]

    @pytest.mark.capability("CAP-73")
    @pytest.mark.parametrize(
        "event", [Heartbeat(), Retry(), Retry(3)], ids=["keep-alive", "retry", "third retry"]
    )
    def test_signs_of_life_do_not(self, event):
        """Keep-alives and retries show that the other side lives, and not that it gets anywhere."""
        script = [(1 * S, WORD), *((minute * MIN, event) for minute in range(1, 30))]
        assert Played(script).end == (481 * S, IdleReached)

    @pytest.mark.capability("CAP-80")
    @pytest.mark.parametrize("off", [0, -1, float("inf"), float("nan"), None, "off"])
    def test_off(self, off):
        """What means off never fires."""
        played = Played([(1 * HOUR, WORD), (3 * HOUR, END)], Limits(idle=off, ceiling=off))
        assert played.end == (3 * HOUR, None)

    @pytest.mark.capability("CAP-81")
    @pytest.mark.parametrize(
        ("text", "window"),
        [
            (None, 480 * S),
            (" ", 480 * S),
            ("soon", 480 * S),
            ("-1s", 480 * S),
            ("300000ms", 5 * MIN),
            ("20m", 20 * MIN),
        ],
    )
    def test_the_variable(self, monkeypatch, text, window):
        """Unset, blank, garbage and negative mean the default, with a warning for what is wrong; a duration is one."""
        if text is not None:
            monkeypatch.setenv("LONGWATCH_GUARD_IDLE", text)
        wrong = text in ("soon", "-1s")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert Played([(0, HANG)]).end == (window, IdleReached)
        assert ["longwatch: LONGWATCH_GUARD_IDLE=" in str(w.message) for w in caught] == [True] * wrong

    @pytest.mark.capability("CAP-81")
    def test_the_variable_switches_off(self, monkeypatch):
        """0 is off: then the ceiling is what ends a silent stream."""
        monkeypatch.setenv("LONGWATCH_GUARD_IDLE", "0")
        assert Played([(0, HANG)]).end == (45 * MIN, CeilingReached)

    @pytest.mark.capability("CAP-81")
    def test_a_given_value_wins_over_the_variable(self, monkeypatch):
        """What the program says for this stream beats the environment, off included."""
        monkeypatch.setenv("LONGWATCH_GUARD_IDLE", "1m")
        assert Played([(0, HANG)], Limits(idle=90)).end == (90 * S, IdleReached)
        assert Played([(0, HANG)], Limits(idle=0)).end == (45 * MIN, CeilingReached)

    @pytest.mark.capability("CAP-81")
    def test_no_window_is_too_long(self, monkeypatch):
        """A window beyond any timer's maximum is a long one, and does not fire at once."""
        monkeypatch.setenv("LONGWATCH_GUARD_IDLE", "9999999999d")
        assert Played([(0, HANG)], Limits(ceiling=60)).error.reason == "ceiling"
        assert Played([(2 * HOUR, END)], Limits(idle=1e300, ceiling=0)).error is None

    def test_the_consumers_time_is_no_silence(self):
        """What the consumer does between two reads, for however long, shifts the clock; the rest counts."""
        world = World()

        async def main():
            stream = world.guard(world.source([(1 * S, WORD), (2 * S, WORD), (0, HANG)]), Limits(ceiling=0))
            with pytest.raises(IdleReached) as caught:  # noqa: PT012
                async for _ in stream:
                    await world.until(world.now() + 20 * MIN)
            return caught.value, world.now()

        error, at = world.asyncio(main)
        assert at == 1 * S + 2 * 20 * MIN + 480 * S
        assert error.elapsed_ms == 480 * S

    def test_a_first_event_has_a_budget_of_its_own(self):
        """`first` ends a stream that does not begin, and is gone with the first event."""
        assert Played([(0, HANG)], Limits(first=3)).end == (3 * S, FirstReached)
        assert Played([(2 * S, WORD), (0, HANG)], Limits(first=3)).end == (482 * S, IdleReached)

    @pytest.mark.parametrize("event", [WORD, 7], ids=["read", "unread"])
    def test_a_notice_ends_nothing(self, event):
        """A limit that may only notify does that, once an episode, and the stream goes on."""
        world, heard = World(), []

        async def main():
            script = [(10 * MIN, event), (20 * MIN, END)]
            await collect(world.guard(world.source(script), Limits(idle_action="notify"), observer=hear))
            return world.now()

        def hear(told):
            heard.append((told.name, world.now()))

        assert world.asyncio(main) == 20 * MIN
        # Heard when it happens: progress that begins an episode is told as it comes.
        assert [at for name, at in heard if name == "idle_fired"] == [8 * MIN, 18 * MIN]

    def test_a_limit_that_is_reached_before_the_first_read(self):
        """Then nothing is read: the first read raises."""
        world, read = World(), []

        async def source():
            read.append(True)
            yield WORD

        async def main():
            stream = world.guard(source(), Limits(idle=5, timeout=60))
            await world.until(50 * S)
            assert stream.snapshot()["turn"] == "consumer"
            await world.until(60 * S)
            with pytest.raises(TimeoutReached):
                await anext(stream)

        world.asyncio(main)
        assert read == []


class TestCalls:
    """While a tool works nobody expects the model to speak."""

    @pytest.mark.capability("CAP-75")
    def test_a_silent_tool(self):
        """Thirty seconds of a silent tool under a window of five: it completes, and a whole window counts after it."""
        played = Played(
            [(1 * S, ToolCalled("1", "Bash")), (31 * S, ToolResult("1")), (0, HANG)], Limits(idle=5)
        )
        assert played.end == (36 * S, IdleReached)
        assert played.error.last_event == "tool_result"

    @pytest.mark.capability("CAP-75")
    @pytest.mark.parametrize("order", list(itertools.permutations("abc")))
    def test_a_batch_waits_for_its_last(self, order):
        """Of tools that run in parallel the last result re-arms the clock, whichever it is."""
        begun = [(1 * S, ToolCalled(call)) for call in "abc"]
        ended = [((place + 1) * 10 * S, ToolResult(call)) for place, call in enumerate(order)]
        assert Played([*begun, *ended, (0, HANG)], Limits(idle=5)).end == (35 * S, IdleReached)

    @pytest.mark.capability("CAP-76")
    def test_stray_events(self):
        """Duplicate starts count once, a result without a start closes nothing, a reopened stream has no open calls."""
        played = Played(
            [(1 * S, ToolCalled("1")), (2 * S, ToolCalled("1")), (3 * S, ToolResult("never")), (20 * S, ToolResult("1")),
             (21 * S, ToolResult("1")), (0, HANG)],
            Limits(idle=5),
        )  # fmt: skip
        assert played.end == (26 * S, IdleReached)

    def test_a_tool_has_a_budget_of_its_own(self):
        """A tool that never comes back is ended at its budget, by name."""
        played = Played([(1 * S, ToolCalled("1", "Bash")), (0, HANG)], Limits(call={"Bash": "20m", "": "5m"}))
        assert played.end == (20 * MIN + 1 * S, CallReached)
        assert str(played.error) == "stream: a call of Bash took longer than 20m"

    def test_the_consumers_time_is_not_the_calls(self):
        """A result that waits because the consumer is busy is no slow call."""
        world = World()

        async def main():
            script = [(1 * S, ToolCalled("1", "Bash")), (50 * S, ToolResult("1")), (60 * S, END)]
            stream = world.guard(world.source(script), Limits(call=60))
            async for _ in stream:
                await world.until(world.now() + 2 * MIN)

        world.asyncio(main)


class TestPauses:
    """The provider says wait."""

    @pytest.mark.capability("CAP-77", "CAP-79")
    @pytest.mark.parametrize(
        ("event", "at"),
        [
            (Limited(span=10 * MIN), 1 * S + 630 * S),
            (Retry(delay=10 * MIN), 1 * S + 630 * S),
            (Limited(span=90 * S), 480 * S),
            (Retry(delay=90 * S), 480 * S),
            (Limited(span=0), 480 * S),
        ],
    )
    def test_a_pause_extends_and_never_shortens(self, event, at):
        """The clock may fire at the later of its own window and the stated end with its slack."""
        assert Played([(1 * S, event), (0, HANG)]).end == (at, IdleReached)

    @pytest.mark.capability("CAP-77")
    def test_resumed_collapses_a_pause(self):
        """When the provider goes on, the normal window counts from there."""
        script = [(1 * S, Limited(span=4 * HOUR)), (20 * MIN, Limited(lifted=True)), (0, HANG)]
        assert Played(script).end == (28 * MIN, IdleReached)

    @pytest.mark.capability("CAP-78")
    def test_a_pause_without_an_end(self):
        """Of a pause that nobody knows the end of nothing is expected: the normal window stands."""
        assert Played([(1 * S, Limited()), (0, HANG)]).end == (480 * S, IdleReached)

    @pytest.mark.capability("CAP-86")
    def test_the_incident(self):
        """Parked for 43 m 38 s of its 45 minutes, a stream works on after the reset for all that it has left."""
        parked = 43 * MIN + 38 * S
        script = [
            (0, WORD), (41 * S, Limited(cls="usage", span=parked)), (41 * S + parked, Limited(lifted=True)),
            *((44 * MIN + 20 * S + minute * MIN, WORD) for minute in range(60)),
        ]  # fmt: skip
        played = Played(script)
        assert played.end == (45 * MIN + parked, CeilingReached)
        assert played.error.pauses == {
            "parked_ms": parked, "granted_ms": parked, "cap_ms": 2 * HOUR, "open": False,
        }  # fmt: skip

    @pytest.mark.capability("CAP-89")
    def test_expired_pauses_are_closed(self):
        """Four throttles of 5 s within 40 minutes, none of them ever lifted, are worth 140 s and no more."""
        throttles = [(minute * MIN, Retry(delay=5 * S)) for minute in (5, 15, 25, 35)]
        script = sorted(
            [*throttles, *((minute * MIN + 1, WORD) for minute in range(90))], key=lambda line: line[0]
        )
        played = Played(script)
        assert played.end == (45 * MIN + 140 * S, CeilingReached)
        assert played.error.pauses["granted_ms"] == 140 * S

    @pytest.mark.capability("CAP-87")
    def test_the_cap(self):
        """However often it is told to wait, a stream takes no longer than 2 h 45 min, and says that credit is spent."""
        script = [(minute * MIN, Limited(span=10 * HOUR)) for minute in range(0, 600, 3)]
        played = Played(script)
        assert played.end == (2 * HOUR + 45 * MIN, CeilingReached)
        assert "EXHAUSTED" in str(played.error)

    @pytest.mark.capability("CAP-87")
    def test_a_grant_is_at_least_a_second(self):
        """A pause of a blink moves the ceiling by a whole second."""
        script = [(44 * MIN, Limited(span=10)), (44 * MIN + 5, Limited(lifted=True)), *((44 * MIN + n, WORD) for n in range(6, 9))]  # fmt: skip
        played = Played([*script, (0, HANG)], Limits(idle=0))
        assert played.end == (45 * MIN + 1 * S, CeilingReached)

    @pytest.mark.capability("CAP-88")
    def test_work_is_worth_nothing(self):
        """Text, thinking, tools and messages never move the ceiling: only the provider does."""
        work = [
            WORD,
            Thinking(1),
            ToolCalled("1"),
            ToolResult("1"),
            Compacted(),
            Heartbeat("mcp_progress", "1"),
        ]
        script = [
            (second * S, event)
            for second, event in zip(range(0, 4000, 5), itertools.cycle(work), strict=False)
        ]
        played = Played(script)
        assert played.end == (45 * MIN, CeilingReached)
        assert played.world.of("extension_granted") == []


class TestCeiling:
    """The backstop beside the clock of silence."""

    @pytest.mark.capability("CAP-85")
    def test_whichever_is_first(self):
        """At the same moment silence has the word."""
        assert Played([(0, HANG)], Limits(idle="45m")).end == (45 * MIN, IdleReached)
        assert Played([(0, HANG)], Limits(idle=2701)).end == (45 * MIN, CeilingReached)
        assert Played([(0, HANG)], Limits(idle=0, timeout=60)).end == (60 * S, TimeoutReached)

    @pytest.mark.capability("CAP-85")
    def test_it_fires_though_the_consumer_is_busy(self):
        """Reached while the consumer works, the observer hears it then, and the next read raises it."""
        world = World()

        async def main():
            stream = world.guard(world.source([(1 * S, WORD), (2 * S, WORD)]), Limits(ceiling=300))
            assert await anext(stream) is WORD
            await world.until(10 * MIN)
            assert world.of("ceiling_fired")[0]["at"] == 300 * S
            with pytest.raises(CeilingReached) as caught:
                await anext(stream)
            return caught.value

        error = world.asyncio(main)
        assert error.elapsed_ms == 300 * S
        assert error.partial == "word"

    @pytest.mark.capability("CAP-90")
    def test_the_plain_message(self):
        """Without a pause the message is that of any limit, to the byte."""
        plain = Played([(0, HANG)], Limits(idle=0))
        assert str(plain.error) == "stream: reached its ceiling of 45m"

    @pytest.mark.capability("CAP-90")
    @pytest.mark.parametrize(
        ("script", "more"),
        [
            (
                [(1 * MIN, Limited(span=9 * MIN + 30 * S))],
                " and 10m granted for pauses (of at most 2h; the last one, of 9m30s, is over)",
            ),
            (
                [(1 * MIN, Limited(span=10 * HOUR))],
                " and 2h granted for pauses (EXHAUSTED; the last one, of 10h, is still open)",
            ),
            (
                [(1 * MIN, Limited())],
                " and nothing granted for pauses (of at most 2h; the last one, until nobody knows when, is over)",
            ),
        ],
        ids=["over", "exhausted", "unknown"],
    )
    def test_the_message_names_the_pauses(self, script, more):
        """With one it names the base budget, what was granted, the cap, the pause and whether that is over."""
        played = Played([*script, (0, HANG)], Limits(idle=0))
        assert str(played.error) == "stream: reached its ceiling of 45m" + more

    @pytest.mark.capability("CAP-91", "CAP-82")
    def test_a_faulty_observer_strands_nothing(self):
        """One that raises at every word is warned of once; grant, firing and end come as if there were none."""

        def broken(event):
            raise ZeroDivisionError(event.name)

        with pytest.warns(RuntimeWarning, match="trace: stream_started was not written"):
            played = Played([(1 * MIN, Limited(span=30 * S)), (0, HANG)], Limits(idle=0), observer=broken)
        assert played.end == (46 * MIN, CeilingReached)

    @pytest.mark.capability("CAP-91")
    @pytest.mark.parametrize("busy", [False, True])
    def test_a_faulty_extender_strands_nothing(self, monkeypatch, busy):
        """A defect in what moves the ceiling is raised in the read at that moment: nobody waits for ever."""

        def broken(*_):
            raise ZeroDivisionError

        monkeypatch.setattr("longwatch.core.pauses.Credit.grant", broken)
        world = World()

        async def main():
            stream = world.guard(world.source([(0, WORD), (0, HANG)]), Limits(idle=0))
            await anext(stream)
            await world.until(46 * MIN if busy else 0)
            with pytest.raises(ZeroDivisionError):
                await anext(stream)
            assert await collect(stream) == []

        world.asyncio(main)

    @pytest.mark.capability("CAP-92")
    @pytest.mark.parametrize(
        ("limits", "at"),
        [(Limits(idle=0), 40 * MIN), (Limits(idle=0, ceiling=600), 510 * S), (Limits(idle=0, ceiling=121), 91 * S), (Limits(idle=0, ceiling=120), None)],
    )  # fmt: skip
    def test_it_is_told_to_wrap_up(self, limits, at):
        """Before its ceiling a stream is told once to come to an end, unless there is no time for that."""
        told = Played([(0, HANG)], limits).world.of("soft_fired")
        assert [event["at"] for event in told] == ([] if at is None else [at])

    @pytest.mark.capability("CAP-92")
    def test_the_wrap_up_moves_with_the_ceiling(self):
        """What moves the one moves the other."""
        played = Played([(1 * MIN, Limited(span=9 * MIN + 30 * S)), (0, HANG)], Limits(idle=0))
        assert [event["at"] for event in played.world.of("soft_fired")] == [50 * MIN]
        assert played.end == (55 * MIN, CeilingReached)


class TestTheError:
    """What whoever catches it learns."""

    @pytest.mark.capability("CAP-82")
    def test_the_observer_hears_before_anything_is_done(self):
        """The firing is told, with window, elapsed time and last event, before the source is cancelled."""
        world, order = World(), []

        async def source():
            try:
                yield WORD
                await world.until(HOUR)
            finally:
                order.append("source")

        async def main():
            stream = world.guard(
                source(),
                Limits(idle=5),
                observer=lambda event: order.append((event.name, dict(event.fields))),
            )
            with pytest.raises(IdleReached):
                await collect(stream)

        world.asyncio(main)
        names = [entry if entry == "source" else entry[0] for entry in order]
        assert names[-4:] == ["idle_fired", "stop_began", "source", "stream_ended"]
        [fired] = [entry[1] for entry in order if entry[0] == "idle_fired"]
        assert (fired["window_ms"], fired["elapsed_ms"], fired["last_event"]) == (5 * S, 5 * S, "text")

    @pytest.mark.capability("CAP-82")
    def test_without_any_event(self):
        """Where nothing ever came the last event is "none", and there is no partial text."""
        played = Played([(0, HANG)])
        assert (played.error.last_event, played.error.partial) == ("none", None)
        assert played.world.of("idle_fired")[0]["last_event"] == "none"

    @pytest.mark.capability("CAP-83")
    def test_it_is_a_timeout(self):
        """One handler for timeouts catches every limit; the error carries the window."""
        error = Played([(1 * S, WORD), (0, HANG)]).error
        assert isinstance(error, TimeoutError)
        assert (error.reason, error.window_ms, error.elapsed_ms, error.partial) == (
            "idle",
            480 * S,
            480 * S,
            "word",
        )
        assert str(error) == "stream: no progress for 8m"

    def test_the_partial_text_is_bounded(self):
        """Of a long text the first 64 and the last 256 KiB are kept, with a line that names the gap."""
        pieces = [(n, Text(f"{n:07d}\n" * 1024)) for n in range(100)]
        partial = Played([*pieces, (0, HANG)]).error.partial
        assert partial.startswith("0000000\n" * 1024)
        assert partial.endswith("0000099\n" * 1024)
        assert "[... 491520 bytes left out ...]\n" in partial
        assert len(partial) < (64 + 256) * 1024 + 100

    def test_one_huge_piece(self):
        """A single piece above the bound keeps its end."""
        partial = Played([(0, Text("a")), (1, Text("ä" * 300_000 + "end")), (0, HANG)]).error.partial
        assert partial.endswith("äend")
        assert partial.startswith("a\n[... ")
        assert len(partial.encode()) <= (256 << 10) + 60

    def test_other_limits(self):
        """A limit without a class of its own is a LimitReached with its reason."""
        calls = [
            event
            for second in range(0, 40, 2)
            for event in (
                (second * S, ToolCalled(f"{second}", "Bash", "ls")),
                (second * S + S, ToolResult(f"{second}")),
            )
        ]
        error = Played(calls, Limits(loop=8)).error
        assert (type(error), error.reason) == (LimitReached, "looping")
        assert str(error) == "stream: the same call of Bash with the same result, again and again"


def test_the_report():
    """A stream that is over has a report with the keys of a run's, and its schema is the same."""
    played = Played([(1 * S, WORD), (2 * S, ToolCalled("1", "Bash")), (0, HANG)], name="research")
    report = played.stream.report
    assert (report["name"], report["termination_reason"], report["outcome"]) == (
        "research",
        "ceiling",
        "failed",
    )
    assert report["limit"] == {"name": "ceiling", "window_ms": 45 * MIN, "source": "records", "subject": None}
    assert report["progress"] == {"events": {"last_ms": 45 * MIN - 1 * S, "count": 1}}
    assert report["duration_ms"] == 45 * MIN


def test_a_snapshot():
    """While it lives a stream shows both clocks, open holds, what is left of each limit, and whose turn it is."""
    world = World()

    async def main():
        stream = world.guard(world.source([(1 * S, ToolCalled("1", "Bash")), (2 * S, END)]))
        assert stream.snapshot()["turn"] == "consumer"
        assert stream.report is None
        await anext(stream)
        await world.until(10 * S)
        shown = stream.snapshot()
        assert (shown["turn"], shown["holds"][0]["subject"]) == ("consumer", "1")
        assert shown["limits"]["ceiling"] == 45 * MIN - 10 * S
        assert shown["limits"]["call"] == HOUR
        await collect(stream)
        assert stream.snapshot()["turn"] == "over"

    world.asyncio(main)
