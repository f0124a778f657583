"""The loop of one run by itself: a clock that the test moves, effects that only take notes, no process."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Record, SignalTree
from longwatch.core.facts import Lapse, LimitFired, StopAverted, StopBegan
from longwatch.core.spec import LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.posix.reactor import Reactor
from longwatch.runtime.driver import LATE, Driver, look_interval
from longwatch.runtime.seats import Rounds, Seat
from longwatch.testing import FakeClock

START = 1_000_000


class FakeEffects:
    """Notes what it is told to do; its sources are stamped by the test."""

    def __init__(self, clock, *sources):
        self.clock = clock
        self.sources = {name: [0, 0, 0] for name in sources}
        self.news = []
        self.stuck = None
        self.asked = clock()
        self.performed = []
        self.looks = []
        self.prepare = lambda: self.tell(o.Prepared())

    def stamps(self):
        return [(name, *stamp) for name, stamp in self.sources.items()]

    def evidence(self):
        news, self.news = self.news, []
        return news

    def blocked(self, now):
        asked, self.asked = self.asked, now
        return 0 if self.stuck is None else now - max(self.stuck, asked)

    def poll(self, timeout_ms):
        self.reactor.poll(timeout_ms)

    def looked(self, watch, now):
        self.looks.append(now)

    def perform(self, command):
        self.performed.append(command)
        if isinstance(command, CapturePostMortem):
            self.prepare()

    # -- for tests

    def tick(self, name, count=1):
        """Let a source make progress now."""
        stamp = self.sources[name]
        stamp[0] = stamp[2] = self.clock()
        stamp[1] += count

    def facts(self, kind):
        """Return the recorded facts of a class."""
        return [c.fact for c in self.performed if isinstance(c, Record) and isinstance(c.fact, kind)]


class Rig:
    """A driver with all its surroundings under control."""

    def __init__(self, *sources, **limits):
        self.clock = FakeClock(START)
        spec = Spec({name: LimitSpec(window) for name, window in limits.items()}, held=sources or ("stdout",))
        self.watch = Watch(spec, START)
        self.effects = FakeEffects(self.clock, *(sources or ("stdout",)))
        self.reactor = self.effects.reactor = Reactor()
        self.heard = []
        observe = self.watch.observe
        self.watch.observe = lambda seen, at: self.heard.append((at, seen)) or observe(seen, at)
        self.driver = Driver(self.watch, self.effects, self.clock)

    def until(self, instant):
        """Be a good host: step at each deadline up to an instant, and at that."""
        while (due := self.driver.next_deadline()) <= instant:
            if due > self.clock():
                self.clock.jump(due)
            self.driver.step()
        self.clock.jump(max(self.clock(), instant))
        self.driver.step()

    def fired(self):
        """Return which limits fired, and when."""
        return [(fact.limit, fact.at - START) for fact in self.effects.facts(LimitFired)]


@pytest.fixture
def rig():
    """Return a maker of rigs whose reactors are closed at the end."""
    made = []

    def make(*sources, **limits):
        made.append(Rig(*sources, **limits))
        made[-1].driver.start()
        return made[-1]

    yield make
    for each in made:
        each.reactor.close()


@pytest.mark.parametrize(
    ("windows", "interval"), [((), 10_000), ((300_000,), 10_000), ((40_000, 16_000), 2_000), ((200,), 1_000), ((0,), 10_000)]
)  # fmt: skip
def test_look_interval(windows, interval):
    """Often enough to notice a lapse within the shortest window that is on, never more than once a second."""
    spec = Spec({str(n): LimitSpec(window) for n, window in enumerate(windows)})
    assert look_interval(spec) == interval


class TestProgress:
    """Progress is kept in stamps, and told when it matters."""

    def test_chatter_costs_nothing(self, rig):
        """A thousand words between two looks are one observation, at the instant of the last one."""
        run = rig(idle=60_000)
        run.until(START + 1)
        for _ in range(999):
            run.clock.advance(1)
            run.effects.tick("stdout")
            run.driver.step()
        assert run.heard == []
        run.until(START + 8_000)
        [(at, seen)] = run.heard
        assert (at, seen.source, seen.count) == (START + 1_000, "stdout", 999)

    def test_the_window_counts_from_the_last_word(self, rig):
        """However coalesced, a limit fires one window after the newest stamp, to the millisecond."""
        run = rig(idle=5_000)
        for at in (700, 4_990, 7_003):
            run.until(START + at)
            run.effects.tick("stdout")
        run.until(START + 20_000)
        assert run.fired() == [("idle", 12_003)]

    def test_sources_are_told_in_order(self, rig):
        """What several sources stamped is told oldest first, each to its own source."""
        run = rig("stdout", "stderr", idle=5_000)
        run.clock.advance(10)
        run.effects.tick("stderr")
        run.clock.advance(10)
        run.effects.tick("stdout", 3)
        run.until(START + 2_500)
        assert [(at - START, seen.source, seen.count) for at, seen in run.heard] == [
            (10, "stderr", 1),
            (20, "stdout", 3),
        ]

    def test_signs_of_life_are_no_progress(self, rig):
        """Bytes that were judged to be no progress are told as a sign of life, and the limit fires all the same."""
        run = rig(idle=1_000)
        run.clock.advance(500)
        run.effects.sources["stdout"][2] = run.clock()
        run.until(START + 1_500)
        assert isinstance(run.heard[0][1], o.AliveSeen)
        assert run.fired() == [("idle", 1_000)]

    def test_what_happened_is_told_in_its_order(self, rig):
        """Observations wait for the next step and are told by their instants, after what was stamped before them."""
        run = rig(idle=60_000)
        run.clock.advance(100)
        run.effects.tick("stdout")
        run.driver.tell(o.Drained(), run.clock() + 5)
        run.driver.tell(o.Exited(0), run.clock() + 3)
        run.clock.advance(10)
        run.driver.step()
        assert [type(seen).__name__ for _, seen in run.heard] == ["ProgressSeen", "Exited", "Drained"]

    def test_what_was_told_is_not_waited_with(self, rig):
        """A host is asked back at once while something waits to be told, also from before the start."""
        run = rig(idle=60_000)
        assert run.driver.next_deadline() > run.clock()
        run.driver.tell(o.Exited(0))
        assert run.driver.next_deadline() <= run.clock()
        run.driver.step()
        assert run.driver.next_deadline() > run.clock()

    def test_evidence_from_inside(self, rig):
        """What came through the channel is told with the stamps."""
        run = rig(idle=1_000)
        run.clock.advance(900)
        run.effects.news.append((run.clock(), o.QuietBegan(60_000)))
        run.until(START + 30_000)
        assert run.fired() == []


class TestStop:
    """Right before the first signal everything is looked at once more."""

    def test_a_word_while_the_stop_is_prepared_averts_it(self, rig):
        """Progress that arrives during the post-mortem saves the program."""
        run = rig(idle=1_000)

        def prepare():
            run.clock.advance(50)
            run.effects.tick("stdout")
            run.effects.tell(o.Prepared())

        run.effects.prepare = prepare
        run.until(START + 1_100)
        assert len(run.effects.facts(StopAverted)) == 1
        assert run.effects.facts(StopBegan) == []

    def test_a_word_that_is_only_in_the_pipe_averts_it(self, rig):
        """So does what is ready to be read but was not read yet."""
        import os

        run = rig(idle=1_000)
        read, write = os.pipe()
        run.reactor.add(read, lambda: os.read(read, 1) and run.effects.tick("stdout"))

        def prepare():
            os.write(write, b"x")
            run.effects.tell(o.Prepared())

        run.effects.prepare = prepare
        run.until(START + 1_100)
        run.reactor.remove(read)
        os.close(read)
        os.close(write)
        assert run.effects.facts(StopBegan) == []

    def test_silence_is_stopped(self, rig):
        """With nothing new the tree is signalled in the same step."""
        run = rig(idle=1_000)
        run.until(START + 1_000)
        assert [c.signal for c in run.effects.performed if isinstance(c, SignalTree)] == [15]


class TestLapse:
    """Silence must be watched silence."""

    def test_a_late_look_is_none(self, rig):
        """After a blind span the clock of silence goes on where it was left; the lapse is on record."""
        run = rig(idle=8_000)
        run.until(START + 4_000)
        run.clock.advance(100_000)
        run.driver.step()
        [lapse] = run.effects.facts(Lapse)
        assert lapse.span >= 100_000
        run.until(START + 104_000 + 3_000)
        assert run.fired() == []
        run.until(START + 104_000 + 5_100)
        assert run.fired() == [("idle", 108_000)]

    def test_time_is_time(self, rig):
        """A limit of elapsed time counts the blind span."""
        run = rig(timeout=50_000)
        run.until(START + 4_000)
        run.clock.advance(100_000)
        run.driver.step()
        assert run.fired() == [("timeout", 50_000)]

    def test_a_little_late_is_a_look(self, rig):
        """Up to a second late is the ordinary life of a busy machine."""
        run = rig(idle=8_000)
        run.until(START + 4_000)
        run.clock.jump(run.driver.next_deadline() + LATE)
        run.driver.step()
        assert run.effects.facts(Lapse) == []

    def test_what_waited_to_be_read_counts(self, rig):
        """What is read when we are back restarts the clock of silence."""
        run = rig(idle=8_000)
        run.until(START + 4_000)
        run.clock.advance(100_000)
        run.effects.tick("stdout")
        run.driver.step()
        run.until(START + 120_000)
        assert run.fired() == [("idle", 112_000)]

    def test_our_own_reader_is_no_silence(self, rig):
        """While nobody takes what we pass on, the program is blocked by us."""
        run = rig(idle=2_000)
        run.until(START + 1_000)
        run.effects.stuck = START + 1_000
        run.until(START + 9_000)
        assert run.fired() == []
        run.effects.stuck = None
        run.until(START + 12_000)
        assert run.fired() == [("idle", 10_000)]

    def test_blocked_and_blind_is_not_counted_twice(self, rig):
        """A machine that slept while our reader was stuck shifts the clock once."""
        run = rig(idle=8_000)
        run.until(START + 2_000)
        run.effects.stuck = START + 2_000
        run.clock.advance(100_000)
        run.driver.step()
        run.effects.stuck = None
        total = sum(fact.span for fact in run.effects.facts(Lapse))
        assert 100_000 <= total <= 100_000 + 1_000
        run.until(START + 102_000 + 6_000 + 1_000)
        assert len(run.fired()) == 1


class TestTimers:
    """Callbacks at an instant, once or again and again."""

    def test_once(self, rig):
        """A timer wakes the driver at its instant and is gone."""
        run, calls = rig(), []
        run.driver.at(START + 137, calls.append)
        assert run.driver.next_deadline() <= START + 137
        run.until(START + 1_000)
        assert calls == [START + 137]

    def test_periodic(self, rig):
        """A periodic timer comes every period; what was missed is not made up for."""
        run, calls = rig(), []
        run.driver.at(START + 100, calls.append, 200)
        run.until(START + 500)
        assert calls == [START + 100, START + 300, START + 500]
        run.clock.advance(5_000)
        run.driver.step()
        assert len(calls) == 4

    def test_cancel(self, rig):
        """A cancelled timer is not called; cancelling it again is no error."""
        run, calls = rig(), []
        timer = run.driver.at(START + 100, calls.append)
        run.driver.cancel(timer)
        run.driver.cancel(timer)
        run.until(START + 500)
        assert calls == []

    def test_a_timer_that_makes_another(self, rig):
        """A callback may plan the next one; that one is met at its instant."""
        run, calls = rig(), []

        def again(now):
            calls.append(now - START)
            if len(calls) < 3:
                run.driver.at(now + 50, again)

        run.driver.at(START + 50, again)
        run.until(START + 1_000)
        assert calls == [50, 100, 150]


def test_steps_without_need_change_nothing(rig):
    """A host may step as often as it likes: the same facts come out."""
    seldom, often = rig(idle=3_000), rig(idle=3_000)
    for run, stride in ((seldom, 1_000), (often, 7)):
        for at in range(0, 9_000, stride):
            run.until(START + at)
            if at in (0, 2_000, 4_000) or (stride == 7 and at in (2_002, 4_004)):
                run.effects.tick("stdout")
    assert [limit for limit, _ in seldom.fired()] == [limit for limit, _ in often.fired()] == ["idle"]


@settings(max_examples=80, deadline=None)
@given(
    gaps=st.lists(st.integers(1, 1_500), max_size=12),
    windows=st.fixed_dictionaries({"idle": st.integers(200, 2_000)}, optional={"first": st.integers(200, 2_000), "timeout": st.integers(500, 9_000)}),
    steps=st.lists(st.booleans(), max_size=12),
)  # fmt: skip
def test_the_driver_decides_what_the_watch_decides(gaps, windows, steps):
    """However progress is coalesced, the limits fire at the instants at which the bare watch fires them."""
    spec = Spec({name: LimitSpec(window, "notify") for name, window in windows.items()}, held=("stdout",))
    bare = Watch(spec, START)
    facts = []
    at = START
    for gap in gaps:
        at += gap
        facts += bare.observe(o.ProgressSeen("stdout"), at)
    facts += bare.advance(at + 20_000)
    expected = [
        (c.fact.limit, c.fact.at - START)
        for c in facts
        if isinstance(c, Record) and isinstance(c.fact, LimitFired)
    ]

    run = Rig(**windows)
    run.watch.__init__(spec, START)
    run.driver.start()
    try:
        clock = START
        for gap, stepped in zip(gaps, steps + [False] * len(gaps), strict=False):
            clock += gap
            run.until(clock - 1)
            run.clock.jump(clock)
            run.effects.tick("stdout")
            if stepped:
                run.driver.step()
        run.until(clock + 20_000)
        assert run.fired() == expected
    finally:
        run.reactor.close()


class Timerless(Rounds):
    """Rounds of a loop that asks when it has to step."""

    def arm(self, instant):
        """Nothing has to be set."""


def test_what_a_taking_up_brings_about_is_not_put_off():
    """A stop that was due is begun while we take up the run; its next step must not wait for another deadline."""
    rig = Rig("stdout", idle=700)
    seat = rig.driver.lookout = Seat(Timerless(rig.clock), LATE, START)
    rig.clock.jump(START + 2_000)
    rig.driver.resume(START + 1_200)
    assert rig.effects.facts(LimitFired)
    assert seat.due == rig.clock()
    rig.driver.step()
    assert rig.effects.facts(StopBegan)
