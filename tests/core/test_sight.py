"""Two clocks, and each source by itself."""

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify
from longwatch.core.sight import Sight
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, NUDGE, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch

SPEC = Spec({"idle": LimitSpec(10 * SECOND)}, held=("stdout", "stderr"), sampled=("file:log",), observed=True)


def clocks(watch: Watch, now: int) -> tuple[int | None, int | None]:
    """Return the two clocks: alive, progress."""
    view = watch.snapshot(now)
    return view["alive_ms"], view["progress_ms"]


def test_nothing_seen_yet() -> None:
    """Before the first sign both clocks are unknown, not zero."""
    view = Watch(SPEC, 100).snapshot(600)
    assert view == {
        "age_ms": 500,
        "alive_ms": None,
        "progress_ms": None,
        "sources": {name: {"last_ms": None, "count": 0} for name in ("stdout", "stderr", "file:log")},
        "holds": [],
        "limits": {"idle": 9500},
    }


@pytest.mark.parametrize(
    ("observation", "alive", "progress"),
    [
        (o.ProgressSeen("stdout"), True, True),
        (o.ProgressSeen("file:log"), True, True),
        (o.ProgressSeen("screen"), True, False),  # not declared: a sign of life all the same
        (o.AliveSeen("stdout"), True, False),  # a keep-alive, a retry, a line that does not count
        (o.CallBegan("1"), True, True),
        (o.CallProgressed("1"), True, True),
        (o.CallEnded("1"), True, True),
        (o.Asked("q"), True, True),
        (o.TurnEnded(), True, True),
        (o.ResultSeen(), True, True),
        (o.Paused(HOUR), True, False),  # the provider's word, not the program's
        (o.Resumed(), True, False),
        (o.TurnBegan(), True, False),  # the human's word
        (o.QuietBegan(HOUR), False, False),
        (o.EffectChanged(), False, False),
        (o.SourceFound("file:log"), False, False),
        (o.StreamRestarted(), False, False),  # our own doing
        (o.Lapsed(1), False, False),
        (o.Prepared(), False, False),
    ],
)
def test_what_moves_which_clock(observation: o.Observation, alive: bool, progress: bool) -> None:
    """Any sign of the program moves *alive*, what it did moves *progress*, what we did moves neither."""
    watch = Watch(SPEC, 0)
    watch.observe(o.ProgressSeen("stderr"), 0)
    watch.observe(observation, 1000)
    assert clocks(watch, 5000) == (4000 if alive else 5000, 4000 if progress else 5000)


def test_closing_the_calls_of_an_old_stream_is_no_progress() -> None:
    """A retried stream ends the holds of calls that will never end, and shows no progress for it."""
    watch = Watch(SPEC, 0)
    watch.observe(o.CallBegan("1"), 1000)
    watch.observe(o.StreamRestarted(), 3000)
    assert clocks(watch, 5000) == (4000, 4000)
    assert watch.snapshot(5000)["holds"] == []


def test_each_source_by_itself() -> None:
    """Every declared source, and every other that was seen, has its own last sign and count."""
    watch = Watch(SPEC, 0)
    watch.observe(o.ProgressSeen("stdout", 3), 1000)
    watch.observe(o.ProgressSeen("stdout", 2), 2000)
    watch.observe(o.ProgressSeen("screen"), 3000)
    assert watch.snapshot(5000)["sources"] == {
        "stdout": {"last_ms": 3000, "count": 5},
        "stderr": {"last_ms": None, "count": 0},
        "file:log": {"last_ms": None, "count": 0},
        "screen": {"last_ms": 2000, "count": 1},
    }


def test_the_newest_source_counts() -> None:
    """Of several sources the newest is what a limit goes by, and what its firing names."""
    watch = Watch(
        Spec({"idle": LimitSpec(10 * SECOND, NOTIFY)}, held=("stdout", "stderr"), sampled=("file:log",)), 0
    )
    watch.observe(o.ProgressSeen("stdout"), 1 * SECOND)
    watch.observe(o.ProgressSeen("file:log"), 2 * SECOND)
    (fired,) = [c.fact for c in watch.advance(HOUR) if isinstance(c, Notify)]
    assert (fired.at, fired.source) == (12 * SECOND, "file:log")  # type: ignore[attr-defined]


@pytest.mark.parametrize("action", [NUDGE, STOP])
def test_a_blind_dialect_notifies(action: str) -> None:
    """Where no record was ever read the silence of calls proves nothing: no nudge, no stop, one notice."""
    spec = Spec({"stall": LimitSpec(10 * MINUTE, action)}, held=("output",), observed=True, nudge="go on")
    watch = Watch(spec, 0)
    watch.observe(o.ProgressSeen("output"), 5 * MINUTE)
    told = [type(c) for c in watch.advance(HOUR)]
    assert Notify in told
    assert CapturePostMortem not in told
    assert watch.next_deadline() is None


@pytest.mark.parametrize(
    "record",
    [
        o.CallBegan("1"),
        o.ProgressSeen("transcript"),  # a text
        o.AliveSeen("transcript"),  # a retry
        o.Paused(),
    ],
)
def test_a_dialect_that_read_a_record_is_not_blind(record: o.Observation) -> None:
    """Any record, a mere text too, proves that calls would have been seen: the stall may stop."""
    spec = Spec({"stall": LimitSpec(10 * MINUTE)}, held=("output",), observed=True)
    watch = Watch(spec, 0)
    watch.observe(record, 1 * MINUTE)
    assert CapturePostMortem("stall") in watch.advance(HOUR)


def test_a_program_without_a_dialect_runs_from_its_start() -> None:
    """Where nobody reads records the stall counts from the start, and acts as it was told to."""
    watch = Watch(Spec({"stall": LimitSpec(10 * MINUTE)}, held=("output",)), 0)
    watch.observe(o.ProgressSeen("output"), 5 * MINUTE)
    assert CapturePostMortem("stall") in watch.advance(10 * MINUTE)


def test_sources_are_known_from_the_start_or_when_seen() -> None:
    """What we hold is known at once, what is sampled once it was seen, and what is not declared never."""
    sight = Sight(SPEC)
    assert sight.known == {"stdout", "stderr"}
    assert sight.progress("file:log", 1, 5) == (True, True)
    assert sight.progress("file:log", 1, 6) == (True, False)
    assert sight.progress("screen", 1, 7) == (False, False)
    assert sight.lost("file:log")
    assert not sight.lost("file:log")
    assert sight.found("file:log")
    assert not sight.found("file:log")
    assert not sight.found("screen")
