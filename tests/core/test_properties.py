"""What holds for every script: random observations at random instants, told to a watch in several ways.

Commands carry their instants in their facts, so two runs decided the same when their commands are equal.
"""

import itertools
from collections.abc import Iterable

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from longwatch.core import observations as o
from longwatch.core.commands import (
    AbandonPipes,
    CapturePostMortem,
    Command,
    Notify,
    Nudge,
    Record,
    SignalTree,
)
from longwatch.core.facts import (
    ExtensionGranted,
    Fact,
    HoldBegan,
    HoldEnded,
    KillSent,
    LimitFired,
    LimitNoted,
    Nudged,
    RunEnded,
    StopBegan,
    TreeUnkillable,
)
from longwatch.core.limits import NAMES, RULES
from longwatch.core.spec import ACTIONS, DRAIN_TOTAL, HOUR, KILL_WAIT, NOTIFY, SECOND, LimitSpec, Spec
from longwatch.core.watch import Watch

Script = list[tuple[int, o.Observation]]

SILENCE = ("idle", "first", "stall", "call", "ask", "linger", "effect")
TIME = ("ceiling", "timeout", "soft")
SOURCES = ("stdout", "stderr", "file:log", "screen")
END = 2 * HOUR
MASKS = {rule.name: rule.holds for rule in RULES}

# -- scripts

moves = st.builds(o.ProgressSeen, st.sampled_from(SOURCES), st.integers(1, 3))
spans = st.integers(0, 90 * SECOND)
ids = st.sampled_from("abc")
pauses = st.one_of(st.builds(o.Paused, st.one_of(st.none(), spans)), st.just(o.Resumed()))
authored = st.one_of(
    moves,
    st.builds(o.AliveSeen, st.sampled_from(SOURCES)),
    st.builds(o.CallBegan, ids, st.sampled_from(("Bash", "Read"))),
    st.builds(o.CallProgressed, ids),
    st.builds(o.CallEnded, ids, st.booleans()),
    st.builds(o.Asked, ids),
    st.builds(o.Answered, ids),
    st.builds(o.QuietBegan, spans),
    st.just(o.QuietEnded()),
    st.just(o.TurnEnded()),
    st.just(o.TurnBegan()),
    st.builds(o.ResultSeen, st.booleans()),
    st.just(o.EffectChanged()),
    st.builds(o.SourceLost, st.sampled_from(SOURCES)),
    st.builds(o.SourceFound, st.sampled_from(SOURCES)),
    st.just(o.StreamRestarted()),
)
# Many moves, some of everything else: what a chatty agent looks like.
anything = st.one_of(moves, authored, pauses)


@st.composite
def scripts(draw: st.DrawFn, kinds: st.SearchStrategy[o.Observation] = anything, size: int = 14) -> Script:
    """Return observations with their instants, in the order of time, some of them at the same one."""
    gaps = st.one_of(st.just(0), st.integers(1, 2 * SECOND), st.integers(1, 40 * SECOND))
    told = draw(st.lists(st.tuples(gaps, kinds), max_size=size))
    instants = itertools.accumulate(gap for gap, _ in told)
    return [(at, observation) for at, (_, observation) in zip(instants, told, strict=True)]


@st.composite
def specs(draw: st.DrawFn, names: Iterable[str] = NAMES, actions: Iterable[str] = ACTIONS) -> Spec:
    """Return some limits with windows of up to a minute, and any of the switches."""
    limit = st.builds(
        LimitSpec, st.integers(0, 60 * SECOND), st.sampled_from(tuple(actions)),
        st.sampled_from(({}, {"Bash": 5 * SECOND}, {"Bash": 0})), st.booleans(), st.sampled_from(tuple(actions)),
    )  # fmt: skip
    limits = draw(st.dictionaries(st.sampled_from(tuple(names)), limit, min_size=1))
    # What keeps limits from acting at all is the exception.
    seldom = st.sampled_from((False, False, False, True))
    return Spec(
        limits,
        held=draw(st.sampled_from((("stdout",), ("stdout", "stderr"), ("stdout",), ()))),
        sampled=draw(st.sampled_from(((), ("file:log",)))),
        nudge=draw(st.sampled_from((None, "go on"))),
        allow_quiet=draw(st.integers(0, 120 * SECOND)),
        pause_credit=draw(st.integers(0, 120 * SECOND)),
        observed=draw(seldom),
        resident=draw(seldom),
        stall_when_ready=draw(seldom),
        armed_by_soft="soft" in limits and draw(seldom),
    )


# -- drivers


class Driver:
    """Plays a script to a watch, waking it at each deadline. A stop is prepared in `preparing` ms, if it ever is."""

    def __init__(self, spec: Spec, preparing: int | None = 700) -> None:
        self.watch = Watch(spec, 0)
        self.preparing = preparing
        self.answers: Script = []
        self.out: list[Command] = []

    def play(self, script: Script, until: int = END, ticks: Iterable[int] = ()) -> list[Command]:
        """Play the script to its end, and some time more; return all commands."""
        queue = sorted([*script, *((at, None) for at in ticks)], key=lambda each: each[0])
        for at, observation in queue:
            self.wake(at)
            self.told(at, observation)
        self.wake(until)
        return self.out

    def told(self, at: int, observation: o.Observation | None) -> None:
        """Tell one thing; None is a look without any news."""
        commands = self.watch.advance(at) if observation is None else self.watch.observe(observation, at)
        self.take(commands, at)

    def wake(self, until: int) -> None:
        """Wake the watch at each deadline, and answer what it asked for in time."""
        while True:
            due = self.watch.next_deadline()
            answer = self.answers[0][0] if self.answers else None
            at = min((each for each in (due, answer) if each is not None), default=None)
            if at is None or at > until:
                return
            if answer is not None and answer <= at:
                self.told(answer, self.answers.pop(0)[1])
            else:
                self.take(self.watch.advance(at), at)

    def take(self, commands: list[Command], at: int) -> None:
        """Keep the commands, and prepare the stop that they ask for."""
        self.out += commands
        if self.preparing is not None and any(isinstance(c, CapturePostMortem) for c in commands):
            self.answers.append((at + self.preparing, o.Prepared()))


class Coalescing(Driver):
    """Keeps progress back, one stamp and count per source, until a deadline comes due or something else happens."""

    def __init__(self, spec: Spec, preparing: int | None = 700) -> None:
        super().__init__(spec, preparing)
        self.kept: dict[str, tuple[int, int]] = {}

    def told(self, at: int, observation: o.Observation | None) -> None:
        if isinstance(observation, o.ProgressSeen) and not self.watch.eager:
            _, count = self.kept.pop(observation.source, (0, 0))
            self.kept[observation.source] = (at, count + observation.count)
            return
        self.tell_kept(at)
        super().told(at, observation)

    def tell_kept(self, until: int) -> None:
        """Tell what was kept back, oldest stamp first."""
        kept, self.kept = self.kept, {}
        for source, (at, count) in kept.items():
            assert at <= until
            self.take(self.watch.observe(o.ProgressSeen(source, count), at), at)

    def wake(self, until: int) -> None:
        while (due := self.watch.next_deadline()) is not None and due <= until and self.kept:
            self.tell_kept(due)
        super().wake(until)
        if until == END:
            self.tell_kept(until)


def facts(commands: Iterable[Command]) -> list[Fact]:
    """Return the recorded facts."""
    return [c.fact for c in commands if isinstance(c, Record)]


def fired(commands: Iterable[Command]) -> list[LimitFired]:
    """Return the firings."""
    return [fact for fact in facts(commands) if isinstance(fact, LimitFired)]


# -- when somebody looks


@given(specs(), scripts(), st.lists(st.integers(0, END // 8), max_size=30))
def test_extra_ticks_change_nothing(spec: Spec, script: Script, ticks: list[int]) -> None:
    """Waking a watch without need, at any instants, changes no command."""
    assert Driver(spec).play(script, ticks=ticks) == Driver(spec).play(script)


@given(specs(actions=("none", "notify", "nudge")), scripts())
def test_decisions_come_at_the_deadline_whatever_the_looks(spec: Spec, script: Script) -> None:
    """A watch that is only woken when something is told decides the same, at the same instants."""
    seldom = Watch(spec, 0)
    out = [c for at, observation in script for c in seldom.observe(observation, at)] + seldom.advance(END)
    assert out == Driver(spec).play(script)


@given(specs(), scripts())
def test_advancing_twice_is_advancing_once(spec: Spec, script: Script) -> None:
    """After an advance nothing is due any more at that instant."""
    watch = Watch(spec, 0)
    for at, observation in script:
        watch.observe(observation, at)
        watch.advance(at)
        due = watch.next_deadline()
        assert due is None or due > at
        assert watch.advance(at) == []


# -- how progress is told


@given(specs(), scripts(size=24), st.sampled_from((0, 700, None)))
def test_coalescing_changes_nothing(spec: Spec, script: Script, preparing: int | None) -> None:
    """Progress told one by one, or one stamp and count per source when it matters, gives the same commands."""
    one, other = Driver(spec, preparing), Coalescing(spec, preparing)
    single, coalesced = one.play(script), other.play(script)
    assert coalesced == single
    assert other.watch.snapshot(END) == one.watch.snapshot(END)


@given(specs(), scripts(kinds=moves, size=30))
def test_coalescing_of_nothing_but_output(spec: Spec, script: Script) -> None:
    """The same for a program that does nothing but print."""
    assert Coalescing(spec).play(script) == Driver(spec).play(script)


@given(specs(), scripts())
def test_chunking_changes_nothing(spec: Spec, script: Script) -> None:
    """Three moves at one instant are the same as one move that counts for three."""
    chunks = [
        (at, piece)
        for at, seen in script
        for piece in (
            [o.ProgressSeen(seen.source)] * seen.count if isinstance(seen, o.ProgressSeen) else [seen]
        )
    ]
    one, other = Driver(spec), Driver(spec)
    assert other.play(chunks) == one.play(script)
    assert other.watch.snapshot(END) == one.watch.snapshot(END)


# -- what acts, and how often


@given(specs(), scripts(size=20))
def test_each_rung_acts_once_per_episode(spec: Spec, script: Script) -> None:
    """A limit fires once per silence, tells of it once, nudges at most once for it, and there is one stop per run."""
    out = Driver(spec).play(script)
    episodes = [(fact.limit, fact.subject, fact.since) for fact in fired(out)]
    by_clock = [(fact.limit, fact.since) for fact in fired(out) if fact.limit not in ("call", "ask")]
    assert len(set(by_clock)) == len(by_clock), episodes
    told = [c.fact for c in out if isinstance(c, Notify)]
    assert told == [fact for fact in fired(out) if fact.action != "none"] + [
        fact for fact in facts(out) if isinstance(fact, TreeUnkillable)
    ]
    assert sum(isinstance(c, Nudge) for c in out) == sum(isinstance(fact, Nudged) for fact in facts(out))
    for name in NAMES:
        nudged = sum(isinstance(fact, Nudged) and fact.limit == name for fact in facts(out))
        assert nudged <= sum(fact.limit == name for fact in fired(out))
    for kind in (StopBegan, KillSent, RunEnded):
        assert sum(isinstance(fact, kind) for fact in facts(out)) <= 1
    event(f"stopped: {any(isinstance(fact, StopBegan) for fact in facts(out))}")


@given(specs(), scripts(size=20))
def test_a_note_comes_before_its_firing(spec: Spec, script: Script) -> None:
    """Before a limit fires it has noted, in the same episode, and only once."""
    out = facts(Driver(spec).play(script))
    for fact in out:
        if isinstance(fact, LimitFired):
            noted = [
                n for n in out if isinstance(n, LimitNoted) and n.limit == fact.limit and n.at <= fact.at
            ]
            assert noted
            assert noted[-1].at >= fact.since + (fact.window + 1) // 2 or fact.limit in ("call", "ask")


@given(specs(names=SILENCE), scripts(size=20))
def test_nothing_fires_while_a_hold_masks_it(spec: Spec, script: Script) -> None:
    """From the fact that a hold began until the fact that it ended no limit that it masks fires."""
    held = [("ready", "")] if spec.resident else []
    for fact in facts(Driver(spec).play(script)):
        if isinstance(fact, HoldBegan) and (fact.hold, fact.subject) not in held:
            held.append((fact.hold, fact.subject))
        if isinstance(fact, HoldEnded):
            held.remove((fact.hold, fact.subject))
        if isinstance(fact, LimitFired):
            strict = spec.stall_when_ready and fact.limit == "stall"
            masks = MASKS[fact.limit] - ({"ready"} if strict else set())
            assert not [kind for kind, _ in held if kind in masks]


@given(st.permutations(["a", "b", "q", "r", "pause", "quiet"]))
def test_the_order_of_ends_does_not_matter(order: list[str]) -> None:
    """Six holds at once: nothing fires until the last has ended, and then a whole window counts from there."""
    begin: list[o.Observation] = [
        o.CallBegan("a"), o.CallBegan("b"), o.Asked("q"), o.Asked("r"), o.Paused(HOUR), o.QuietBegan(HOUR),
    ]  # fmt: skip
    ends: dict[str, o.Observation] = {
        "a": o.CallEnded("a"), "b": o.CallEnded("b"), "q": o.Answered("q"), "r": o.Answered("r"),
        "pause": o.Resumed(), "quiet": o.QuietEnded(),
    }  # fmt: skip
    watch = Watch(Spec({"idle": LimitSpec(100)}, held=("stdout",)), 0)
    for observation in begin:
        watch.observe(observation, 1)
    for place, name in enumerate(order, 1):
        assert not fired(watch.advance(1 + 1000 * place - 1))
        watch.observe(ends[name], 1 + 1000 * place)
    last = 1 + 1000 * len(order)
    assert watch.snapshot(last)["limits"] == {"idle": 100}
    assert fired(watch.advance(last + 100))


# -- what moves a ceiling


@given(scripts(size=30), st.integers(1, 120 * SECOND), st.integers(0, 120 * SECOND))
def test_only_pauses_move_a_ceiling(script: Script, window: int, cap: int) -> None:
    """Without all that the child wrote, and with all of it, the ceiling fires at the same instant."""
    spec = Spec({"ceiling": LimitSpec(window, NOTIFY)}, held=("stdout",), pause_credit=cap)
    provider = [each for each in script if isinstance(each[1], o.Paused | o.Resumed)]
    one, other = Driver(spec).play(script), Driver(spec).play(provider)
    assert fired(one)
    assert [f.at for f in fired(one)] == [f.at for f in fired(other)]
    if not provider:
        assert fired(one)[0].at == window


@given(scripts(kinds=pauses, size=30), st.integers(1, 120 * SECOND), st.integers(0, 60 * SECOND))
@example([(60_000, o.Paused(10)), (60_001, o.Resumed()), (60_500, o.Paused(3_600_000))], 60_400, 5_000)
def test_a_ceiling_is_never_later_than_its_cap(script: Script, window: int, cap: int) -> None:
    """However the provider behaves, the ceiling fires between its window and that plus the cap, by what was parked."""
    spec = Spec({"ceiling": LimitSpec(window, NOTIFY)}, held=("stdout",), pause_credit=cap)
    driver = Driver(spec)
    out = driver.play(script)
    (end,) = fired(out)
    assert window <= end.at <= window + cap
    granted = [fact for fact in facts(out) if isinstance(fact, ExtensionGranted)]
    assert sum(fact.grant for fact in granted) <= cap
    assert all(fact.grant >= min(SECOND, fact.remaining + fact.grant) for fact in granted)
    assert end.at <= window + max(driver.watch.parked(end.at), 0) + SECOND * len(granted)
    event(f"grants: {len(granted)}")


# -- what a lapse shifts


def shifted(fact: Fact, span: int) -> dict[str, object]:
    """Return the fields of a fact with all its instants moved."""
    fields = fact.as_dict()
    for name in ("at", "since", "until"):
        value = fields.get(name)
        if isinstance(value, int):
            fields[name] = value + span
    return {"fact": fact.name, **fields}


@given(
    specs(names=SILENCE, actions=("none", "notify", "nudge")),
    scripts(size=16),
    st.integers(0, 60 * SECOND),
    st.integers(1, 600 * SECOND),
)
def test_a_lapse_shifts_silence_by_its_length(spec: Spec, script: Script, when: int, span: int) -> None:
    """Cut a script open at any instant, put in a span that nobody watched: all that was decided later is decided
    later by exactly that span, all that was decided before stays.
    """
    cut = [(at, seen) for at, seen in script if at <= when]
    rest = [(at + span, seen) for at, seen in script if at > when]
    plain = facts(Driver(spec).play(script))
    lapsed = [
        fact
        for fact in facts(Driver(spec).play([*cut, (when, o.Lapsed(span)), *rest], until=END + span))
        if fact.name != "lapse"
    ]
    assert [shifted(fact, 0) for fact in lapsed] == [
        shifted(fact, span if fact.at > when else 0) for fact in plain
    ]


@given(scripts(kinds=authored), st.integers(0, 60 * SECOND), st.integers(1, 600 * SECOND))
def test_a_lapse_shifts_no_other_clock(script: Script, when: int, span: int) -> None:
    """Limits of time fire when they would have fired, whoever watched."""
    limits = {name: LimitSpec(40 * SECOND, NOTIFY) for name in TIME}
    spec = Spec(limits, held=("stdout",))
    told = sorted([*script, (when, o.Lapsed(span))], key=lambda each: each[0])
    assert {fact.at for fact in fired(Driver(spec).play(told))} == {40 * SECOND}


# -- the end


answers = st.one_of(
    st.builds(o.Exited, st.one_of(st.none(), st.integers(0, 255)), st.one_of(st.none(), st.integers(1, 15))),
    st.just(o.Drained()),
    st.just(o.LeftoversFound(("7 sleep",))),
    st.builds(
        o.StopRequested, st.sampled_from(("cancelled", "interrupted")), signal=st.sampled_from((1, 2, 15))
    ),
    st.builds(o.ProgressSeen, st.just("stdout")),
)


def ended(commands: Iterable[Command]) -> list[RunEnded]:
    """Return the ends."""
    return [fact for fact in facts(commands) if isinstance(fact, RunEnded)]


@given(
    st.integers(0, 20 * SECOND),
    scripts(kinds=answers, size=6),
    st.one_of(st.none(), st.integers(0, 40 * SECOND)),
)
def test_every_stop_ends_in_bounded_time(grace: int, script: Script, gone: int | None) -> None:
    """Once told to stop, a run ends within its grace, the wait after KILL and two drains at most, whichever of the
    news about its end come, in whatever order, or none at all.
    """
    watch = Driver(Spec({}, held=("stdout",), grace=grace))
    told = [(0, o.StopRequested("cancelled", "explicit", grace=grace)), *script]
    if gone is not None:
        told = sorted([*told, (gone, o.TreeGone())], key=lambda each: each[0])
    (end,) = ended(watch.play(told))
    assert end.at <= grace + KILL_WAIT + 2 * DRAIN_TOTAL + KILL_WAIT
    assert end.termination_reason == "cancelled"


@given(
    st.sampled_from(sorted(set(NAMES) - {"soft"})), st.integers(1, 30 * SECOND), st.integers(0, 20 * SECOND)
)
def test_a_limits_stop_ends_though_nobody_answers(name: str, window: int, grace: int) -> None:
    """From the first signal on, a driver that tells nothing at all changes nothing about the bound."""
    driver = Driver(Spec({name: LimitSpec(window)}, held=("stdout",), grace=grace), preparing=0)
    start: Script = (
        [(0, o.CallBegan("a"))] if name == "call" else [(0, o.Asked("q"))] if name == "ask" else []
    )
    out = driver.play([(0, o.ResultSeen())] if name == "linger" else start)
    began = next(fact.at for fact in facts(out) if isinstance(fact, StopBegan))
    (end,) = ended(out)
    assert (began, end.at) == (window, window + grace + KILL_WAIT)
    assert [c for c in out if isinstance(c, SignalTree | AbandonPipes)] == [
        SignalTree(15),
        SignalTree(9),
        AbandonPipes(),
    ]


@given(
    specs(),
    scripts(kinds=st.one_of(anything, answers, st.just(o.TreeGone()), st.just(o.Vetoed())), size=30),
    st.integers(0, 60 * SECOND),
)
def test_nothing_is_commanded_after_the_end(spec: Spec, script: Script, gone: int) -> None:
    """There is at most one end of a run, it is the last thing that is said, and then there is no deadline any more."""
    driver = Driver(spec)
    told = sorted([*script, (gone, o.TreeGone())], key=lambda each: each[0])
    out = driver.play(told)
    ends = [place for place, command in enumerate(out) if ended([command])]
    assert len(ends) <= 1
    if ends:
        assert ends[0] == len(out) - 1
        assert driver.watch.over
        assert driver.watch.next_deadline() is None
    event(f"ended: {bool(ends)}")


@given(specs(), scripts(), st.integers(0, 60 * SECOND), st.integers(0, 255))
def test_an_exit_of_its_own_is_its_own(spec: Spec, script: Script, at: int, code: int) -> None:
    """A program that ends before any first signal has exited, with its code, whatever limits had fired by then."""
    driver = Driver(spec)
    told = [
        *(each for each in script if each[0] <= at),
        (at, o.Exited(code)),
        (at, o.Drained()),
        (at, o.TreeGone()),
    ]
    out = driver.play(told)
    (end,) = ended(out)
    stopped = any(isinstance(fact, StopBegan) for fact in facts(out))
    assert (end.termination_reason != "exited") == stopped
    assert stopped or end.code == code


# -- the quiet allowance


@given(
    st.lists(
        st.tuples(st.integers(0, 30 * SECOND), st.one_of(st.integers(0, 60 * SECOND), st.none())), max_size=20
    ),
    st.integers(0, 90 * SECOND),
    st.integers(1, 20 * SECOND),
)
def test_quiet_never_exceeds_the_allowance(
    asked: list[tuple[int, int | None]], allow: int, idle: int
) -> None:
    """However often quiet is asked for, cut short, renewed or left to end, its total is never over the allowance, and
    each use that is followed by another has cost at least a window.
    """
    watch = Watch(Spec({"idle": LimitSpec(idle, NOTIFY)}, held=("stdout",), allow_quiet=allow), 0)
    out: list[Command] = []
    now = 0
    for gap, span in asked:
        now += gap
        out += watch.observe(o.QuietEnded() if span is None else o.QuietBegan(span), now)
    out += watch.advance(END)
    total = uses = 0
    began: int | None = None
    for fact in facts(out):
        if isinstance(fact, HoldBegan) and began is None:
            assert uses * idle < allow
            uses, began = uses + 1, fact.at
        if isinstance(fact, HoldEnded):
            assert began is not None
            total, began = total + fact.at - began, None
    assert began is None
    assert total <= allow


def test_the_random_scripts_reach_every_limit() -> None:
    """The scripts above are no empty show: each limit does fire in some of them."""
    spec = Spec({name: LimitSpec(20 * SECOND, NOTIFY) for name in NAMES}, held=("stdout",))
    found: set[str] = set()

    @settings(max_examples=100)
    @given(scripts(size=20))
    def search(script: Script) -> None:
        found.update(fact.limit for fact in fired(Driver(spec).play(script)))

    search()
    assert found == set(NAMES)
