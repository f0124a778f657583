"""What is fired: overlaps, holds, tries, and one that waits."""

import pytest

from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.harness import Harness
from longwatch.core.parking import Limited
from longwatch.core.service_memory import Memory
from longwatch.core.service_states import FAILED, RESTARTING, RUNNING, STARTING, STOPPED, STOPPING
from longwatch.core.service_words import Firing
from longwatch.core.spec import HOUR, MINUTE
from services import HOURS, House, resident, scheduled


def openings(house: House) -> list[tuple[str, int, str]]:
    """Return what was started: by which trigger, which try, for whom."""
    found = [order for order in house.orders if isinstance(order, orders.OpenRun)]
    return [(order.trigger, order.attempt, order.firing.token if order.firing else "") for order in found]


def told(house: House) -> list[tuple[str, str, str]]:
    """Return what came of firings that did not begin at once."""
    found = [fact.as_dict() | {"name": fact.name} for fact in house.facts]
    house.facts.clear()
    return [
        (fact["name"], fact["token"], fact["why"])  # type: ignore[misc]
        for fact in found
        if fact["name"] in ("firing_queued", "firing_skipped")
    ]


@pytest.mark.capability("CAP-119")
def test_a_firing_runs_once() -> None:
    """A window runs its program once; its end is not followed by another, and the next window comes all the same."""
    house = scheduled()
    assert house.state == STOPPED
    house.fire(token="a")
    assert house.state == RUNNING
    house.over("success")
    assert (house.state, house.service.memory.enabled) == (STOPPED, True)
    house.fire("webhook", token="b")
    assert openings(house) == [("schedule", 1, "a"), ("webhook", 1, "b")]
    assert told(house) == []


@pytest.mark.capability("CAP-120")
def test_overlap_skip() -> None:
    """While a run goes on, another firing is skipped, and told; a human's too."""
    house = scheduled()
    house.fire(token="a")
    house.fire(token="b")
    house.fire("manual", token="c", manual=True)
    assert told(house) == [("firing_skipped", "b", "busy"), ("firing_skipped", "c", "busy")]
    house.over("success")
    assert house.starts == [1]


@pytest.mark.capability("CAP-120")
def test_overlap_queue() -> None:
    """One firing waits, and begins when the run is over; a third is skipped."""
    house = scheduled(on_overlap="queue")
    for token in "abc":
        house.fire("webhook", token=token)
    assert told(house) == [("firing_queued", "b", "busy"), ("firing_skipped", "c", "queued")]
    assert house.service.snapshot(house.moment)["queued"]
    house.over("success")
    assert (house.state, openings(house)[-1]) == (RUNNING, ("webhook", 1, "b"))
    house.over("success")
    assert (house.state, house.starts) == (STOPPED, [1, 2])


@pytest.mark.capability("CAP-120")
def test_overlap_replace() -> None:
    """The run is ended for the new firing; of two that come meanwhile the later one begins."""
    house = scheduled(on_overlap="replace")
    house.fire(token="a")
    house.stubborn = True
    assert house.fire(token="b")[-1] == orders.StopRun(1, "cancelled", "replaced")
    assert house.state == RESTARTING
    house.fire(token="c")
    assert told(house) == [("firing_skipped", "b", "replaced")]
    stops = [order for order in house.orders if isinstance(order, orders.StopRun)]
    assert len(stops) == 1
    house.over("cancelled", "cancelled")
    assert openings(house) == [("schedule", 1, "a"), ("schedule", 1, "c")]


def test_replace_what_is_stopped_for_good() -> None:
    """A run that somebody ends makes room for the firing; started or restarted meanwhile, the firing is still the next."""
    for ask in (None, w.StartAsked(), w.RestartAsked()):
        house = scheduled(on_overlap="replace")
        house.fire(token="a")
        house.stubborn = True
        house.tell(w.StopAsked(run="run-1", keep=True))
        assert house.state == STOPPING
        house.fire(token="b")
        if ask is not None:
            house.tell(ask)
        house.over("cancelled", "cancelled")
        assert openings(house) == [("schedule", 1, "a"), ("schedule", 1, "b")]


def test_a_stop_drops_what_would_replace() -> None:
    """Who stops the harness wants nothing of it."""
    house = scheduled(on_overlap="replace")
    house.fire(token="a")
    house.stubborn = True
    house.fire(token="b")
    house.tell(w.StopAsked())
    assert told(house) == [("firing_skipped", "b", "replaced")]
    house.over("cancelled", "cancelled")
    assert (house.state, house.starts) == (STOPPED, [1])


@pytest.mark.capability("CAP-126")
def test_a_firing_during_a_hold_waits() -> None:
    """One is queued, the others are skipped; it begins when nothing holds it, over a restart of the daemon too."""
    house = scheduled()
    house.hold(HOURS)
    house.fire(token="a")
    house.fire(token="b")
    assert told(house) == [("firing_queued", "a", "hours"), ("firing_skipped", "b", "hours")]
    assert (house.state, house.starts) == (STOPPED, [])
    kept = Memory.of(house.harness, house.service.memory.kept(house.moment), house.moment)
    for place in (house, House(house.harness, kept)):
        place.hold()
        assert openings(place) == [("schedule", 1, "a")]


@pytest.mark.capability("CAP-126")
def test_a_firing_during_a_hold_is_skipped() -> None:
    """Where the file says so."""
    house = scheduled(on_hold="skip")
    house.hold(HOURS)
    house.fire(token="a")
    assert told(house) == [("firing_skipped", "a", "hours")]
    house.hold()
    assert house.starts == []


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize("how", ["fired", "started"])
def test_by_hand_during_a_hold(how: str) -> None:
    """A human's firing overrules the hold, once; what waits for it goes on waiting."""
    house = scheduled()
    house.hold(HOURS)
    if how == "fired":
        house.fire(token="a")
        house.fire("manual", token="m", manual=True)
    else:
        house.tell(w.StartAsked())
    assert (house.state, openings(house)[0][0]) == (RUNNING, "manual")
    house.over("success")
    assert house.state == STOPPED
    house.hold()
    assert openings(house)[1:] == ([("schedule", 1, "a")] if how == "fired" else [])


def test_start_runs_what_waits() -> None:
    """Where a firing is held back, that is what a human starts."""
    house = scheduled()
    house.hold(HOURS)
    house.fire("webhook", token="a")
    house.tell(w.StartAsked())
    assert openings(house) == [("webhook", 1, "a")]
    assert not house.service.snapshot(house.moment)["queued"]


@pytest.mark.capability("CAP-118")
def test_what_is_off() -> None:
    """A stopped harness has no windows; whoever else fires it is told; a human's firing runs and leaves it off."""
    house = scheduled(on_overlap="queue")
    house.fire(token="a")
    house.fire(token="b")
    house.tell(w.StopAsked())
    assert told(house) == [("firing_queued", "b", "busy"), ("firing_skipped", "b", "stopped")]
    house.fire(token="c")
    assert told(house) == []
    house.fire("webhook", token="d")
    assert told(house) == [("firing_skipped", "d", "stopped")]
    house.fire("manual", token="e", manual=True)
    assert (house.state, house.service.memory.enabled) == (RUNNING, False)
    house.over("success")
    house.tell(w.StartAsked())
    assert (house.state, house.service.memory.enabled) == (RUNNING, True)


def test_the_end_of_one_run() -> None:
    """Who stops a run by its id stops that run, and what waits comes next."""
    house = scheduled(on_overlap="queue")
    house.fire(token="a")
    house.fire(token="b")
    house.tell(w.StopAsked(run="run-1", keep=True))
    assert (house.state, openings(house)[-1][2], house.service.memory.enabled) == (RUNNING, "b", True)
    house = resident()
    house.tell(w.StopAsked(run="run-1", keep=True))
    assert (house.state, house.service.memory.enabled) == (STOPPED, False)


def test_a_run_that_is_restarted() -> None:
    """It begins again with what it was fired by."""
    house = scheduled()
    house.fire("webhook", token="a")
    house.tell(w.RestartAsked())
    assert openings(house) == [("webhook", 1, "a"), ("manual", 1, "a")]


def test_an_adopted_run_that_is_restarted() -> None:
    """Of one that another daemon began it is not known what it was fired by."""
    house = House(Harness("job", ("work",), kind="scheduled", restart="no"), awake=False)
    house.tell(w.Adopted("job-1", house.now))
    house.tell(w.RestartAsked())
    assert openings(house) == [("manual", 1, "")]


# -- tries


def test_a_run_that_fails_is_tried_again() -> None:
    """Where the policy says so: the same firing, one attempt further, with what it ended by."""
    house = scheduled(restart="on-failure")
    house.fire(token="a")
    house.over("failed", "timeout", after=1)
    assert house.state == RESTARTING
    house.wait()
    assert openings(house) == [("schedule", 1, "a"), ("restart", 2, "a")]
    house.over("success", after=1)
    assert house.state == STOPPED
    assert house.service.next_deadline() is None


@pytest.mark.parametrize(
    ("overlap", "came_of_it"),
    [
        ("skip", [("firing_skipped", "b", "busy")]),
        ("queue", [("firing_queued", "b", "busy")]),
        ("replace", [("firing_skipped", "a", "replaced")]),
    ],
)
def test_a_firing_between_two_tries(overlap: str, came_of_it: list[tuple[str, str, str]]) -> None:
    """A run that is about to be tried again is not over: the overlap rule holds."""
    house = scheduled(restart="on-failure", on_overlap=overlap)
    house.fire(token="a")
    house.over(after=1)
    house.fire(token="b")
    assert told(house) == came_of_it
    if overlap != "replace":
        house.wait()
    assert openings(house)[1] == (("schedule", 1, "b") if overlap == "replace" else ("restart", 2, "a"))


def test_by_hand_between_two_tries() -> None:
    """A human's firing goes at once, in the place of the try."""
    house = scheduled(restart="on-failure")
    house.fire(token="a")
    house.over(after=1)
    house.fire("manual", token="m", manual=True)
    assert told(house) == [("firing_skipped", "a", "replaced")]
    assert (house.state, openings(house)[1]) == (RUNNING, ("manual", 1, "m"))
    house.over("success", after=1)
    assert house.state == STOPPED


def test_a_stop_between_two_tries() -> None:
    """There is none then; with `keep` what waits behind it runs."""
    for keep, starts in ((False, [1]), (True, [1, 2])):
        house = scheduled(restart="on-failure", on_overlap="queue")
        house.fire(token="a")
        house.fire(token="b")
        house.over(after=1)
        assert house.state == RESTARTING
        house.tell(w.StopAsked(keep=keep))
        assert house.starts == starts
        assert openings(house)[-1][2] == ("b" if keep else "a")


def test_what_becomes_a_resident_is_not_tried_again() -> None:
    """A run of a schedule that the file has made a resident meanwhile ends as one."""
    house = scheduled(restart="always")
    house.fire(token="a")
    house.tell(w.Changed(Harness("job", ("work",))))
    house.over(after=MINUTE)
    assert house.service.memory.retry is None
    assert openings(house)[1:] == [("restart", 2, "")]


def test_tries_that_are_spent() -> None:
    """It has failed until it is fired again, and each firing has its own quick tries within the rolling budget."""
    house = scheduled(restart="on-failure", intensity=2)
    house.fire()
    while house.state != FAILED:
        house.over(after=1)
        if house.state != FAILED:
            house.wait()
    assert house.starts == [1, 2, 3]
    assert house.names()[-1] == "gave_up"
    house.now += HOUR
    house.fire()
    assert (house.state, house.service.snapshot(house.moment)["gave_up"]) == (RUNNING, None)
    house.over("success", after=1)
    assert house.names()[-1] == "recovered"
    assert house.state == STOPPED


def test_a_spawn_that_fails_does_not_hinder_the_next() -> None:
    """The next window tries; what waits does at once."""
    house = scheduled(on_overlap="queue")
    house.slow = True
    house.fire()
    house.fire()
    house.tell(w.Opened(1, "job-1"))
    house.tell(w.SpawnFailed(1, "no such file"))
    assert (house.state, house.generation) == (STARTING, 2)
    house.tell(w.Opened(2, "job-2"))
    house.tell(w.SpawnFailed(2, "no such file"))
    assert house.state == FAILED
    house.hold(HOURS)
    house.fire()
    assert house.state == FAILED
    house.hold()
    assert (house.state, house.generation) == (STARTING, 3)


@pytest.mark.capability("CAP-125")
@pytest.mark.parametrize("on_hold", ["queue", "skip"])
def test_a_run_that_a_limit_ends(on_hold: str) -> None:
    """It is parked and tried once more at the reset, unless firings are to be skipped then; others wait or are skipped."""
    house = scheduled(on_hold=on_hold)
    house.fire(token="a")
    house.over(limited=Limited("usage", house.wall + HOUR), after=1)
    assert house.state == STOPPED
    house.fire(token="b")
    assert told(house) == [("firing_skipped", "b", "park")]
    house.wait(HOUR)
    assert openings(house)[1:] == ([("release", 2, "a")] if on_hold == "queue" else [])


def test_a_resident_is_not_fired() -> None:
    """It lives by itself."""
    house = resident()
    house.fire(token="a")
    assert told(house) == [("firing_skipped", "a", "resident")]


@pytest.mark.parametrize(
    ("word", "why"), [(w.ShutdownAsked(keep=False), "shutdown"), (w.Removed(), "removed")]
)
def test_a_firing_at_the_end(word: w.Word, why: str) -> None:
    """Nothing begins any more; what waits is told when its harness is taken from the file, and kept over a shutdown."""
    house = scheduled()
    house.hold(HOURS)
    house.fire(token="a")
    house.facts.clear()
    house.tell(word)
    house.fire("webhook", token="b")
    expected = [("firing_skipped", "b", why)]
    assert told(house) == ([("firing_skipped", "a", why), *expected] if why == "removed" else expected)
    assert (house.service.memory.queued is None) == (why == "removed")
    house.hold()
    assert house.starts == []


def test_what_is_fired_before_the_daemon_awoke() -> None:
    """It waits until then."""
    house = House(Harness("job", ("work",), kind="triggered", restart="no"), awake=False)
    house.fire(token="a")
    assert house.starts == []
    house.tell(w.Awoke())
    assert house.starts == [1]


def test_a_second_firing_before_the_first_begins() -> None:
    """Of two that come before anything can begin the second follows the overlap rule."""
    house = House(Harness("job", ("work",), kind="triggered", restart="no"), awake=False)
    house.fire(token="a")
    house.fire(token="b")
    assert told(house) == [("firing_skipped", "b", "busy")]
    replacing = House(Harness("job", ("work",), kind="triggered", on_overlap="replace"), awake=False)
    replacing.fire(token="a")
    replacing.fire(token="b")
    replacing.tell(w.Awoke())
    assert openings(replacing)[0][2] == "b"


def test_firings_as_values() -> None:
    """A firing is known by what it is."""
    assert Firing("schedule", 5) == Firing("schedule", 5)
    house = scheduled()
    house.fire(token="a")
    assert house.service.snapshot(house.moment)["attempt"] == 1
    house.wait(MINUTE)
    assert house.state == RUNNING
