"""The table of limits, row by row: what each counts from, what restarts it, what holds it, what moves it.

Each cell is found out by asking a watch: one thing is told, and the limit's deadline is looked at again.
"""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Command, Notify, Record
from longwatch.core.facts import LimitFired, LimitNoted, StopBegan
from longwatch.core.limits import NAMES, ORDER, REASON_OF, RULES
from longwatch.core.outcomes import TABLE
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

WINDOW = 60 * SECOND
EVENT = 4 * SECOND

# What is told before, and what is told at EVENT. Where a first half is needed it comes at 1 s.
BEFORE: dict[str, list[o.Observation]] = {
    "answer": [o.Asked("q")],
    "quiet ends": [o.QuietBegan(30 * MINUTE)],
    "pause over": [o.Paused(10 * MINUTE)],
    "turn begins": [o.TurnEnded()],
    "source back": [o.SourceLost("output"), o.SourceLost("file:log")],
}
EVENTS: dict[str, o.Observation] = {
    "bytes": o.ProgressSeen("output"),
    "file": o.ProgressSeen("file:log"),
    "undeclared": o.ProgressSeen("screen"),
    "alive": o.AliveSeen("output"),
    "call begins": o.CallBegan("other"),
    "call moves": o.CallProgressed("own"),
    "call moves, another": o.CallProgressed("other"),
    "call succeeds": o.CallEnded("other"),
    "call fails": o.CallEnded("other", ok=False),
    "pause": o.Paused(10 * MINUTE),
    "pause, no end": o.Paused(),
    "resumed": o.Resumed(),
    "pause over": o.Resumed(),
    "question": o.Asked("q"),
    "answer": o.Answered("q"),
    "answer, unasked": o.Answered("q"),
    "quiet": o.QuietBegan(30 * MINUTE),
    "quiet ends": o.QuietEnded(),
    "turn ends": o.TurnEnded(),
    "turn begins": o.TurnBegan(),
    "turn begins, none ended": o.TurnBegan(),
    "result": o.ResultSeen(),
    "effect": o.EffectChanged(),
    "source lost": o.SourceLost("output"),
    "stream restarts": o.StreamRestarted(),
    "lapse": o.Lapsed(7 * SECOND),
}
# R restarted, H held (its deadline is the hold's end, or not foreseeable), G gone for good, L moved by the lapse,
# C moved by the credit of a pause; a point: nothing happened. Rows of the design's table, events as above.
EFFECTS = """
                          idle first stall call ceiling timeout soft ask linger effect
bytes                     R    G     .     .    .       .       .    .   .      .
file                      R    G     .     .    .       .       .    .   R      .
undeclared                .    .     .     .    .       .       .    .   .      .
alive                     .    .     .     .    .       .       .    .   .      .
call begins               H    G     .     .    .       .       .    .   H      .
call moves                R    G     .     R    .       .       .    .   R      .
call moves, another       R    G     .     .    .       .       .    .   R      .
call succeeds             R    G     R     .    .       .       .    .   R      .
call fails                R    G     .     .    .       .       .    .   R      .
pause                     H    H     H     H    C       .       C    .   .      H
pause, no end             .    .     .     .    .       .       .    .   .      .
resumed                   R    .     R     .    .       .       .    .   .      .
pause over                R    .     R     .    .       .       .    .   .      .
question                  H    H     H     H    .       .       .    .   H      H
answer                    R    .     R     R    .       .       .    .   .      .
answer, unasked           .    .     .     .    .       .       .    .   .      .
quiet                     H    H     .     H    .       .       .    .   .      .
quiet ends                R    .     .     .    .       .       .    .   .      .
turn ends                 H    H     H     .    .       .       .    .   .      H
turn begins               R    R     R     .    .       .       .    .   G      R
turn begins, none ended   .    .     .     .    .       .       .    .   G      .
result                    .    .     .     .    .       .       .    .   R      .
effect                    .    .     .     .    .       .       .    .   .      R
source lost               H    H     .     .    .       .       .    .   .      .
stream restarts           .    .     .     G    .       .       .    .   .      .
lapse                     L    L     L     L    .       .       .    L   L      L
"""
HEAD, *ROWS = EFFECTS.strip("\n").splitlines()
COLUMNS = HEAD.split()
CELLS = [
    pytest.param(limit, row[:25].strip(), cell, id=f"{limit}-{row[:25].strip()}")
    for row in ROWS
    for limit, cell in zip(COLUMNS, row[25:].split(), strict=True)
]
# The longest a limit may be held by each kind of hold, where the hold says so itself.
HELD_UNTIL = {"pause": EVENT + 10 * MINUTE + 30 * SECOND, "quiet": EVENT + 30 * MINUTE}


def watch_with(limit: str, *, window: int = WINDOW, action: str = STOP, derived: bool = True) -> Watch:
    """Return a watch whose one limit is armed at 0, whatever it counts from."""
    spec = Spec({limit: LimitSpec(window, action, derived=derived)}, held=("output",), sampled=("file:log",))
    watch = Watch(spec, 0)
    if limit == "call":
        watch.observe(o.CallBegan("own", "Bash"), 0)
    if limit == "ask":
        watch.observe(o.Asked("first"), 0)
    if limit == "linger":
        watch.observe(o.ResultSeen(), 0)
    return watch


def deadline(watch: Watch, limit: str, now: int) -> int | None:
    """Return the instant at which a limit would fire."""
    left: int | None = watch.snapshot(now)["limits"][limit]
    return None if left is None else now + left


def effect(watch: Watch, limit: str, event: str) -> str:
    """Return the letter of what an event does to a limit."""
    watch.observe(EVENTS[event], EVENT)
    if limit not in watch.snapshot(EVENT)["limits"]:
        return "G"
    at = deadline(watch, limit, EVENT)
    if limit in ("ceiling", "soft") and at is not None and at > WINDOW:
        return "C"
    if at is None or at == HELD_UNTIL.get(event):
        return "H"
    return {WINDOW: ".", EVENT + WINDOW: "R", 7 * SECOND + WINDOW: "L"}[at]


@pytest.mark.parametrize(("limit", "event", "cell"), CELLS)
def test_cell(limit: str, event: str, cell: str) -> None:
    """What happens restarts, holds, ends or moves a limit as the table says, and else does nothing to it."""
    watch = watch_with(limit)
    for observation in BEFORE.get(event, []):
        watch.observe(observation, 1 * SECOND)
    assert effect(watch, limit, event) == cell


def test_the_table_is_complete() -> None:
    """Every limit has a column, in the order that decides at the same millisecond, and every word has a row."""
    assert tuple(COLUMNS) == NAMES == tuple(rule.name for rule in RULES)
    assert [ORDER[name] for name in NAMES] == list(range(len(NAMES)))
    assert {row[:25].strip() for row in ROWS} == set(EVENTS)
    ends = {
        o.Prepared,
        o.Vetoed,
        o.StopRequested,
        o.SpawnFailed,
        o.Exited,
        o.Drained,
        o.LeftoversFound,
        o.TreeGone,
    }
    told = {type(observation) for observation in EVENTS.values()} | ends | {o.SourceFound}
    assert told == set(o.Observation.__subclasses__())


def test_every_reason_of_a_limit_is_in_the_closed_set() -> None:
    """Each limit that can stop a run has its own reason, and the outcome table knows it."""
    assert REASON_OF == {
        "idle": "idle", "first": "first", "stall": "stalled", "call": "call", "ceiling": "ceiling",
        "timeout": "timeout", "ask": "asked", "linger": "lingered", "effect": "effect",
        "loop": "looping",
    }  # fmt: skip
    assert set(REASON_OF.values()) <= set(TABLE)


@pytest.mark.parametrize("limit", NAMES)
@pytest.mark.parametrize("window", [0, -1])
def test_off(limit: str, window: int) -> None:
    """Zero switches a limit off, and so does anything below."""
    watch = watch_with(limit, window=window)
    assert limit not in watch.snapshot(0)["limits"]
    assert watch.next_deadline() is None


def answers(watch: Watch, until: int) -> list[Command]:
    """Return what a watch asks for up to an instant."""
    return [c for c in watch.advance(until) if not (isinstance(c, Record) and isinstance(c.fact, LimitNoted))]


@pytest.mark.parametrize("limit", NAMES)
def test_a_limit_fires_at_its_window_and_not_before(limit: str) -> None:
    """The comparison is `>=`: one millisecond before the window nothing happens, at it the limit fires."""
    watch = watch_with(limit)
    assert answers(watch, WINDOW - 1) == []
    fired, told, *rest = answers(watch, WINDOW)
    assert like(LimitFired, at=WINDOW, limit=limit, window=WINDOW, since=0).matches(fired)
    assert isinstance(told, Notify)
    # A soft limit only marks: whatever it is set to, it never climbs to the stop.
    assert rest == ([] if limit == "soft" else [CapturePostMortem(limit)])


@pytest.mark.parametrize("limit", sorted(set(NAMES) - {"soft"}))
def test_a_stop_carries_the_reason_of_its_limit(limit: str) -> None:
    """A limit that stops a run is the cause of its end, by its reason."""
    watch = watch_with(limit)
    watch.advance(WINDOW)
    began, *_ = watch.observe(o.Prepared(), WINDOW + 1)
    assert began == Record(StopBegan(WINDOW + 1, REASON_OF[limit], 15))


def test_the_order_of_the_table_decides_at_the_same_millisecond() -> None:
    """All limits due at once fire in the order of the table, each once."""
    limits = {name: LimitSpec(WINDOW, NOTIFY) for name in reversed(NAMES)}
    watch = Watch(Spec(limits, held=("output",)), 0)
    watch.observe(o.ResultSeen(), 0)
    fired = [c.fact.limit for c in answers(watch, WINDOW) if isinstance(c, Notify)]  # type: ignore[attr-defined]
    # `idle` waits for the first progress here; calls and questions would hold the others.
    assert fired == ["first", "stall", "ceiling", "timeout", "soft", "linger", "effect"]


def test_idle_counts_from_the_first_progress_where_first_is_on() -> None:
    """With a first limit, silence before the first progress is its business alone."""
    spec = Spec({"idle": LimitSpec(5 * SECOND), "first": LimitSpec(60 * SECOND)}, held=("output",))
    book = Playbook(spec, ignore=(LimitNoted,))
    book.tell(20 * SECOND, o.ProgressSeen("output"))
    book.expect(25 * SECOND, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle"))
    book.play()


def test_first_is_gone_after_the_first_progress() -> None:
    """Once something came, the first limit never fires again, however long the silence after it."""
    book = Playbook(Spec({"first": LimitSpec(5 * SECOND)}, held=("output",)))
    book.tell(2 * SECOND, o.ProgressSeen("output")).until(HOUR).play()


def test_a_call_that_begins_is_a_first_sign() -> None:
    """Of an agent's records a call's begin is progress for `first` and `idle`."""
    spec = Spec({"idle": LimitSpec(5 * SECOND), "first": LimitSpec(5 * SECOND)}, held=("output",))
    watch = Watch(spec, 0)
    watch.observe(o.CallBegan("1"), 4 * SECOND)
    assert list(watch.snapshot(4 * SECOND)["limits"]) == ["idle"]


def test_each_call_has_its_own_clock() -> None:
    """Two open calls are two clocks; the own progress of one does nothing for the other."""
    book = Playbook(Spec({"call": LimitSpec(10 * SECOND)}, held=("output",)), ignore=(LimitNoted,))
    book.watch.observe(o.CallBegan("a", "Bash"), 0)
    book.watch.observe(o.CallBegan("b", "Read"), 0)
    book.tell(6 * SECOND, o.CallProgressed("a"))
    book.expect(
        10 * SECOND, like(LimitFired, limit="call", subject="Read"), like(Notify), CapturePostMortem("call")
    )
    book.play()


@pytest.mark.parametrize(
    ("tool", "at"),
    [
        ("Bash", 30 * MINUTE),  # its own budget
        ("Read", 10 * SECOND),
        ("Other", HOUR),  # the budget of all others
        ("Never", None),  # switched off for this tool
    ],
)
def test_call_budgets_by_tool(tool: str, at: int | None) -> None:
    """A tool's own budget takes the place of the common one, and 0 switches it off for this tool."""
    budgets = {"Bash": 30 * MINUTE, "Read": 10 * SECOND, "Never": 0}
    watch = Watch(Spec({"call": LimitSpec(HOUR, budgets=budgets)}, held=("output",)), 0)
    watch.observe(o.CallBegan("1", tool), 0)
    assert watch.snapshot(0)["limits"].get("call") == at


def test_call_budgets_without_a_common_one() -> None:
    """A budget for one tool works where the common limit is off."""
    watch = Watch(Spec({"call": LimitSpec(0, budgets={"Bash": 5 * SECOND})}, held=("output",)), 0)
    watch.observe(o.CallBegan("1", "Read"), 0)
    assert watch.next_deadline() is None
    watch.observe(o.CallBegan("2", "Bash"), 0)
    assert watch.snapshot(0)["limits"] == {"call": 5 * SECOND}


@pytest.mark.parametrize(
    ("pause", "restarted"), [(59 * SECOND, False), (60 * SECOND, False), (61 * SECOND, True)]
)
def test_the_end_of_a_long_pause_restarts_stall(pause: int, restarted: bool) -> None:
    """A pause longer than the window gives `stall` a fresh one when it ends by itself; a shorter one only holds it."""
    watch = Watch(Spec({"stall": LimitSpec(WINDOW)}, held=("output",)), 0)
    watch.observe(o.Paused(pause - 30 * SECOND), 10 * SECOND)
    end = 10 * SECOND + pause
    watch.advance(end - 1)
    assert deadline(watch, "stall", end - 1) == end
    commands = watch.advance(end)
    assert any(isinstance(c, CapturePostMortem) for c in commands) != restarted
    assert not restarted or deadline(watch, "stall", end) == end + WINDOW


def test_a_pause_that_ends_by_itself_only_unmasks_the_others() -> None:
    """A stated end is no sign of the program: `idle` fires then if the silence is long enough."""
    book = Playbook(Spec({"idle": LimitSpec(5 * SECOND)}, held=("output",)), ignore=(LimitNoted,))
    book.tell(1 * SECOND, o.Paused(20 * SECOND))
    book.expect(1 * SECOND, like(Record))
    book.expect(51 * SECOND, like(Record), like(LimitFired, since=0), like(Notify), CapturePostMortem("idle"))
    book.play()


@pytest.mark.parametrize(
    ("strict", "found"),
    [
        (False, False),  # a finished turn is no stall
        (True, True),  # unless the stricter clock is asked for
    ],
)
def test_stall_when_ready(strict: bool, found: bool) -> None:
    """A finished turn holds `stall`; `stall_when_ready` counts from start and last successful call alone."""
    spec = Spec({"stall": LimitSpec(WINDOW, NOTIFY)}, held=("output",), stall_when_ready=strict)
    watch = Watch(spec, 0)
    watch.observe(o.TurnEnded(), 1 * SECOND)
    assert any(isinstance(c, Notify) for c in watch.advance(HOUR)) == found


@pytest.mark.capability("CAP-109")
def test_a_stall_is_found_when_its_window_is_over() -> None:
    """Nobody samples: it is due at the window's very end, counted from the last call that went well."""
    watch = Watch(Spec({"stall": LimitSpec(45 * MINUTE, NOTIFY)}, held=("output",)), 0)
    watch.observe(o.CallBegan("1", "Bash"), 10 * MINUTE)
    watch.observe(o.CallEnded("1"), 20 * MINUTE)
    for minute in range(21, 65):
        watch.observe(o.ProgressSeen("output"), minute * MINUTE)
    assert deadline(watch, "stall", 64 * MINUTE) == 65 * MINUTE
    assert [command for command in watch.advance(65 * MINUTE - 1) if isinstance(command, Notify)] == []
    (told,) = [command.fact for command in watch.advance(65 * MINUTE) if isinstance(command, Notify)]
    assert (told.at, told.since) == (65 * MINUTE, 20 * MINUTE)


def test_the_strict_stall_is_not_talked_away() -> None:
    """With the stricter clock a human's word is no successful call."""
    spec = Spec({"stall": LimitSpec(WINDOW)}, held=("output",), stall_when_ready=True, resident=True)
    watch = Watch(spec, 0)
    watch.observe(o.TurnBegan(), 30 * SECOND)
    watch.observe(o.TurnEnded(), 40 * SECOND)
    watch.observe(o.TurnBegan(), 50 * SECOND)
    assert deadline(watch, "stall", 50 * SECOND) == WINDOW


def test_linger_goes_by_records_not_by_bytes() -> None:
    """After the final result a spinner's bytes change nothing, a file that grows does, and an open call holds."""
    spec = Spec({"linger": LimitSpec(30 * SECOND)}, held=("output",), sampled=("transcript",))
    watch = Watch(spec, 0)
    assert watch.next_deadline() is None
    watch.observe(o.ResultSeen(), 10 * SECOND)
    watch.observe(o.ProgressSeen("output"), 20 * SECOND)
    assert deadline(watch, "linger", 20 * SECOND) == 40 * SECOND
    watch.observe(o.ProgressSeen("transcript"), 30 * SECOND)
    assert deadline(watch, "linger", 30 * SECOND) == 60 * SECOND
    watch.observe(o.CallBegan("1"), 50 * SECOND)
    watch.advance(HOUR)
    watch.observe(o.CallEnded("1"), HOUR)
    assert deadline(watch, "linger", HOUR) == HOUR + 30 * SECOND


def test_the_last_result_is_the_final_one() -> None:
    """A second result counts anew and has the last word about the run's own status."""
    watch = Watch(Spec({"linger": LimitSpec(30 * SECOND)}, held=("output",)), 0)
    watch.observe(o.ResultSeen(ok=False), 10 * SECOND)
    watch.observe(o.ResultSeen(ok=True), 20 * SECOND)
    assert watch.result_ok is True
    assert watch.snapshot(20 * SECOND)["limits"] == {"linger": 30 * SECOND}


def test_linger_and_ask_are_off_by_default() -> None:
    """Without the limit, a result and a question are only noted."""
    watch = Watch(Spec({}, held=("output",)), 0)
    watch.observe(o.ResultSeen(ok=False), 1)
    watch.observe(o.Asked("q"), 2)
    assert watch.next_deadline() is None
    assert watch.result_ok is False


def test_each_question_has_its_own_clock() -> None:
    """A question that was answered is forgotten; another one goes on counting from when it was asked."""
    book = Playbook(Spec({"ask": LimitSpec(10 * SECOND, NOTIFY)}, held=("output",)), ignore=(LimitNoted,))
    book.tell(0, o.Asked("a")).expect(0, like(Record))
    book.tell(2 * SECOND, o.Asked("b")).expect(2 * SECOND, like(Record))
    book.tell(9 * SECOND, o.Answered("a")).expect(9 * SECOND, like(Record))
    book.expect(12 * SECOND, like(LimitFired, limit="ask", subject="b", action=NOTIFY), like(Notify))
    book.until(HOUR).play()


def test_a_soft_limit_moves_with_the_ceiling_only_if_derived_from_it() -> None:
    """A soft limit of one's own is not moved by pauses; one computed from the ceiling is."""
    for derived, at in ((True, 10 * MINUTE + 30 * SECOND), (False, 10 * MINUTE)):
        limits = {"soft": LimitSpec(10 * MINUTE, derived=derived)}
        watch = Watch(Spec(limits, held=("output",)), 0)
        watch.observe(o.Paused(1), 0)
        watch.observe(o.Resumed(), 30 * SECOND)
        watch.advance(10 * MINUTE - 1)
        found = [c.fact.at for c in watch.advance(HOUR) if isinstance(c, Notify)]
        assert found == [at], derived
