"""Playbooks of the third seed: a stream of typed events, with tools, pauses and a far-away ceiling."""

import itertools

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify
from longwatch.core.facts import ExtensionGranted, HoldBegan, HoldEnded, LimitFired, LimitNoted, StopAverted
from longwatch.core.spec import HOUR, MINUTE, PAUSE_CREDIT_GUARD, SECOND, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.testing import Playbook, like

S = SECOND
EVENT = o.ProgressSeen("events")
WINDOW, CEILING = 8 * MINUTE, 45 * MINUTE
CREDIT = PAUSE_CREDIT_GUARD


def stream(window: int = WINDOW, ceiling: int = CEILING, **more: LimitSpec) -> Playbook:
    """Return a script for a guarded stream with the guard's own numbers."""
    limits = {"idle": LimitSpec(window), "ceiling": LimitSpec(ceiling), **more}
    spec = Spec(limits, held=("events",), pause_credit=CREDIT)
    return Playbook(spec, ignore=(LimitNoted, HoldBegan, HoldEnded))


def fires(book: Playbook, limit: str, at: int, source: str | None = None) -> Playbook:
    """Expect a limit to fire, the observer to hear of it before anything is done, and then the stop to be prepared."""
    return book.expect(
        at, like(LimitFired, limit=limit, source=source), like(Notify), CapturePostMortem(limit)
    )


def test_no_event_at_all() -> None:
    """Without any event the guard fires once, at its window, and names no last event."""
    fires(stream(), "idle", WINDOW).until(HOUR).play()


def test_every_event_re_arms() -> None:
    """Each event gives a whole window; the firing after the last names what it was."""
    book = stream()
    for minute in (7, 14, 21):
        book.tell(minute * MINUTE, EVENT)
    fires(book, "idle", 29 * MINUTE, "events").play()


def test_a_steady_stream_never_fires_for_silence() -> None:
    """What keeps coming is only bounded by the ceiling."""
    book = stream()
    for minute in range(1, 45, 4):
        book.tell(minute * MINUTE, EVENT)
    fires(book, "ceiling", CEILING, "events").play()


def test_a_silent_tool_suspends_the_clock() -> None:
    """Thirty seconds of a silent tool under a window of five: nothing; after its result a whole window counts."""
    book = stream(5 * S)
    book.tell(1 * S, o.CallBegan("1", "Bash"))
    book.tell(31 * S, o.CallEnded("1"))
    fires(book, "idle", 36 * S, "records").play()


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_a_batch_of_tools_waits_for_its_last(order: tuple[str, ...]) -> None:
    """Of tools that run in parallel the last result re-arms the clock, whichever it is."""
    book = stream(5 * S)
    book.tell(1 * S, *(o.CallBegan(name) for name in "abc"))
    for place, name in enumerate(order):
        book.tell((10 + 10 * place) * S, o.CallEnded(name))
    fires(book, "idle", 35 * S, "records").play()


def test_other_events_leave_a_suspended_clock_suspended() -> None:
    """While a tool is in flight text does not arm the clock again."""
    book = stream(5 * S)
    book.tell(1 * S, o.CallBegan("1")).tell(2 * S, EVENT).until(CEILING - 1).play()


def test_stray_tool_events_are_harmless() -> None:
    """Duplicate starts count once, results without a start close nothing, a retried stream forgets what is open."""
    book = stream(5 * S)
    book.tell(1 * S, o.CallBegan("1"), o.CallBegan("1"), o.CallEnded("never"))
    book.tell(20 * S, o.CallEnded("1"))
    book.tell(21 * S, o.CallEnded("1"))
    book.tell(22 * S, o.CallBegan("2"), o.CallBegan("3"))
    book.tell(40 * S, o.StreamRestarted())
    fires(book, "idle", 45 * S, "records").play()


def test_a_tool_has_its_own_budget() -> None:
    """A tool in flight for ever does not suspend for ever."""
    book = stream(call=LimitSpec(HOUR // 2))
    book.tell(1 * S, o.CallBegan("1", "Bash"))
    fires(book, "call", HOUR // 2 + 1 * S, "records").play()


@pytest.mark.parametrize(
    ("pause", "at"),
    [
        (o.Paused(10 * MINUTE), 1 * S + 630 * S),  # until the reset and the slack
        (o.Paused(90 * S), WINDOW),  # a short one never shortens the window: the last event's still stands
        (o.Paused(), WINDOW),  # without a reset: the normal window
    ],
)
def test_a_pause_extends_and_never_shortens(pause: o.Paused, at: int) -> None:
    """The clock may fire at the later of its own window and the pause's end."""
    book = stream()
    book.tell(1 * S, pause)
    fires(book, "idle", at).play()


def test_resumed_gives_a_fresh_window() -> None:
    """When the provider says that it goes on, the normal window counts from there."""
    book = stream()
    book.tell(1 * S, o.Paused(4 * HOUR)).tell(20 * MINUTE, o.Resumed())
    fires(book, "idle", 28 * MINUTE).play()


def test_a_pause_during_a_tool_is_not_lost() -> None:
    """A pause told while a tool runs still holds after the tool's result, and so does it after other events."""
    book = stream()
    book.tell(1 * S, o.CallBegan("1"))
    book.tell(2 * S, o.Paused(20 * MINUTE))
    book.tell(3 * S, o.CallEnded("1"), EVENT)
    fires(book, "idle", 2 * S + 20 * MINUTE + 30 * S, "events").play()


def test_whichever_fires_first_wins() -> None:
    """Guard and ceiling stand beside each other; at the same moment the guard has the word."""
    fires(stream(window=CEILING), "idle", CEILING).play()
    fires(stream(window=CEILING + 1), "ceiling", CEILING).play()


@pytest.mark.parametrize("value", [0, -1])
def test_disabled(value: int) -> None:
    """Zero or less never fires."""
    stream(value, value).until(100 * HOUR).play()


def test_content_adds_nothing_to_the_ceiling() -> None:
    """Text, thinking, tools and messages add nothing: only the provider's own signals do."""
    book = stream()
    for minute in range(1, 45):
        book.tell(minute * MINUTE, EVENT, o.CallBegan(str(minute)), o.CallEnded(str(minute)), o.TurnEnded())
    book.tell(45 * MINUTE - 1, o.Answered("q"), o.EffectChanged())
    fires(book, "ceiling", CEILING, "records").play()


def test_a_parked_child_gets_its_working_time() -> None:
    """The incident: parked for most of its ceiling, the child used to die right after the reset; it now works on."""
    book = stream()
    book.tell(0, EVENT)
    book.tell(81 * S, o.Paused(CEILING))
    parked = CEILING - 81 * S
    book.tell(CEILING, EVENT, o.Resumed())
    book.expect(CEILING, ExtensionGranted(CEILING, "ceiling", parked, parked, CREDIT - parked))
    book.tell(CEILING + 5 * MINUTE, EVENT)
    fires(book, "idle", CEILING + 13 * MINUTE, "events").play()


def test_the_worst_case() -> None:
    """With the guard's numbers no stream takes longer than 2 h 45 min, however long it is told to wait."""
    watch = Watch(Spec({"ceiling": LimitSpec(CEILING)}, held=("events",), pause_credit=CREDIT), 0)
    told = [c for minute in range(0, 1000, 3) for c in watch.observe(o.Paused(10 * HOUR), minute * MINUTE)]
    assert [c.fact.at for c in told if isinstance(c, Notify)] == [2 * HOUR + 45 * MINUTE]


def test_a_soft_deadline_is_told_once() -> None:
    """Five minutes before the ceiling the child is told to wrap up; a pause moves both."""
    soft = LimitSpec(40 * MINUTE, derived=True)
    book = stream(window=0, soft=soft)
    book.tell(1 * MINUTE, o.Paused(9 * MINUTE + 30 * S))
    grant = like(ExtensionGranted, grant=10 * MINUTE)
    book.expect(40 * MINUTE, grant)
    book.expect(45 * MINUTE, grant)
    book.expect(50 * MINUTE, like(LimitFired, limit="soft"), like(Notify))
    fires(book, "ceiling", 55 * MINUTE).play()


def test_the_finding_comes_before_the_act() -> None:
    """Who observes hears of the firing before the stream is ended, and an event meanwhile still saves it."""
    book = stream()
    fires(book, "idle", WINDOW)
    book.tell(WINDOW + 1, EVENT)
    book.tell(WINDOW + 2, o.Prepared()).expect(WINDOW + 2, StopAverted(WINDOW + 2, "idle", "progress")).play()
