"""What makes scheduled and triggered harnesses run: which windows are fired when, and what whoever asked is told."""

from types import SimpleNamespace
from typing import Any

import pytest

from longwatch.core import service_words as w
from longwatch.core.firing_facts import FiringMissed, FiringSkipped, TriggerReceived
from longwatch.core.harness import SCHEDULED, Harness
from longwatch.core.spec import HOUR, MINUTE
from longwatch.daemon import firings
from longwatch.daemon.asking import NOT_NOW, Later
from longwatch.daemon.calendar import Calendar
from longwatch.daemon.firings import LOOK, Firings
from longwatch.daemon.supervisor import Supervisor as Supervising

NOW = 1_900_000_000_000 - 1_900_000_000_000 % (24 * HOUR)


class Supervisor:
    """One whose clock stands where the test wants it; a harness is asked to run, and does what the test wants."""

    def __init__(self) -> None:
        self.now = NOW
        self.timers: list[int] = []
        self.host = SimpleNamespace(now=lambda: self.now, cancel=lambda timer: None, at=self.wake)
        self.calendars: dict[str, Calendar] = {}
        self.services: dict[str, Any] = {}
        self.published: list[Any] = []
        self.told: list[Any] = []
        self.dropped: list[str] = []
        self.kept = self.looked = 0
        self.on_fired: Any = lambda word: None
        self.firings = Firings(self)  # type: ignore[arg-type]

    def wake(self, at: int, call: Any) -> int:
        self.timers.append(at)
        return at

    def subscribe(self, heard: Any) -> None:
        self.heard = heard

    def publish(self, fact: Any) -> None:
        self.published.append(fact)

    def remember(self, *, at_once: bool) -> None:
        self.kept += at_once

    def look_again(self) -> None:
        self.looked += 1

    def drop_payload(self, payload: str) -> None:
        self.dropped.append(payload)

    def add(self, name: str = "job", told: Any = None, **more: Any) -> Harness:
        """Have a harness looked after."""
        harness = Harness(name, ("x",), kind=SCHEDULED, **more)
        self.calendars[name] = Calendar(harness.schedule, harness.hours, "UTC")
        self.services[name] = SimpleNamespace(harness=harness, tell=self.tell, opening=None)
        self.firings.add(harness, told)
        return harness

    def tell(self, word: w.Fired) -> None:
        self.told.append(word)
        self.on_fired(word)

    def fired(self) -> list[int | None]:
        """Return the windows that were fired since the last look at them."""
        found, self.told = [word.firing.due for word in self.told], []
        return found


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    monkeypatch.setattr(firings, "wall_of", lambda at: at)
    return Supervisor()


def heard(later: Any) -> tuple[Any, Any]:
    """Return the answer and the refusal, as far as they are there."""
    assert isinstance(later, Later)
    found: list[tuple[Any, Any]] = []
    later.then(lambda answer, refusal: found.append((answer, refusal and (refusal.kind, str(refusal)))))
    return found[0] if found else (None, None)


# -- schedules


def test_a_window_is_fired_once_when_it_is_due(supervisor: Supervisor) -> None:
    """What was decided is kept at once, so that the next daemon does not fire it again; nothing is kept for nothing."""
    supervisor.add(schedule=("@hourly",))
    supervisor.firings.look()
    assert (supervisor.fired(), supervisor.kept, supervisor.looked) == ([], 0, 1)
    supervisor.now += HOUR
    supervisor.firings.look()
    supervisor.firings.look()
    assert (supervisor.fired(), supervisor.kept) == ([NOW + HOUR], 1)
    assert supervisor.firings.due("job") == NOW + 2 * HOUR
    kept = supervisor.firings.kept("job")
    supervisor.add(told=kept, schedule=("@hourly",))
    supervisor.firings.look()
    assert supervisor.fired() == []


def test_windows_that_nobody_could_act_on_are_told_as_one(supervisor: Supervisor) -> None:
    """The first and the last of them, and how many; with catch-up the newest is run, and is none of them."""
    supervisor.add(schedule=("@hourly",))
    supervisor.now += 3 * HOUR + 20 * MINUTE
    supervisor.firings.look()
    assert supervisor.published == [FiringMissed(supervisor.now, "job", NOW + 3 * HOUR, 3, NOW + HOUR)]
    assert (supervisor.fired(), supervisor.kept) == ([], 1)
    supervisor.add("late", schedule=("@hourly",), catch_up=HOUR)
    supervisor.now += 3 * HOUR
    supervisor.published.clear()
    supervisor.firings.look()
    assert supervisor.published[1:] == [
        FiringMissed(supervisor.now, "late", NOW + 5 * HOUR, 2, NOW + 4 * HOUR)
    ]
    assert supervisor.fired() == [NOW + 6 * HOUR]


def test_it_wakes_for_the_next_window_and_now_and_then(supervisor: Supervisor) -> None:
    """The clock may be set; without a schedule or hours nobody wakes up."""
    supervisor.add("plain")
    supervisor.firings.look()
    assert supervisor.timers == []
    supervisor.add(schedule=("@hourly",))
    supervisor.firings.look()
    supervisor.now = NOW + HOUR - 5_000
    supervisor.firings.look()
    assert supervisor.timers == [NOW + LOOK, NOW + HOUR]


def test_it_wakes_for_a_change_of_hours(supervisor: Supervisor) -> None:
    """Who waits for its hours is not kept waiting."""
    supervisor.add(hours=("01:00-02:00",))
    supervisor.now = NOW + HOUR - 5_000
    supervisor.firings.look()
    assert supervisor.timers == [NOW + HOUR]
    assert supervisor.firings.due("job") is None


def test_a_schedule_that_changes_begins_now(supervisor: Supervisor) -> None:
    """What lies behind is none of its windows, and what was fired is not forgotten; without one nothing is due."""
    supervisor.add(schedule=("@hourly",))
    supervisor.now += HOUR
    supervisor.firings.look()
    supervisor.fired()
    supervisor.now += 30 * MINUTE
    every = Harness("job", ("x",), kind=SCHEDULED, schedule=("*/10 * * * *",))
    supervisor.calendars["job"] = Calendar(every.schedule, (), "UTC")
    supervisor.firings.change(every)
    supervisor.firings.look()
    assert (supervisor.fired(), supervisor.published) == ([], [])
    kept = supervisor.firings.kept("job")
    assert kept == {"mark": supervisor.now, "fired": (NOW + HOUR,)}
    supervisor.firings.change(Harness("job", ("x",), kind=SCHEDULED))
    assert supervisor.firings.kept("job") is None
    supervisor.firings.change(every)
    assert supervisor.firings.kept("job") == {"mark": supervisor.now, "fired": ()}
    supervisor.firings.drop("job")
    assert supervisor.firings.due("job") is None


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({}, False),
        ({"grace": 7}, False),
        ({"schedule": ("@daily",)}, True),
        ({"timezone": "Asia/Tokyo"}, True),
    ],
)
def test_another_time_zone_is_another_schedule(more: dict[str, Any], begins: bool) -> None:
    """Windows that lie behind in the new one were none; whatever else changes leaves the schedule alone."""
    words: dict[str, Any] = {"kind": SCHEDULED, "schedule": ("0 12 * * *",), "timezone": "UTC"}
    service = SimpleNamespace(harness=Harness("job", ("x",), **words), change=lambda harness, restart: None)
    changed: list[Harness] = []
    supervisor: Any = SimpleNamespace(
        calendars={}, services={"job": service}, firings=SimpleNamespace(change=changed.append)
    )
    after = Harness("job", ("x",), **(words | more))
    Supervising.define(supervisor, after)
    assert changed == ([after] if begins else [])


# -- triggers


def ask(
    supervisor: Supervisor, source: str = "cli", *, wait: bool = False, payload: str | None = None
) -> Any:
    return supervisor.firings.trigger("job", "manual", source, wait=wait, payload=payload)


def opens(supervisor: Supervisor, run: str) -> Any:
    """Have the harness begin a run as soon as it is fired."""

    def begin(word: w.Fired) -> None:
        supervisor.services["job"].opening = SimpleNamespace(firing=word.firing, run=run)

    return begin


def test_who_triggers_is_told_the_run(supervisor: Supervisor) -> None:
    """It begins at once; a human overrules holds, a webhook does not."""
    supervisor.add()
    supervisor.on_fired = opens(supervisor, "job-1")
    answer = {"name": "job", "run": "job-1", "queued": False, "attempt": 1}
    assert heard(ask(supervisor)) == (answer, None)
    assert heard(ask(supervisor, "webhook")) == (answer, None)
    assert [word.manual for word in supervisor.told] == [True, False]
    assert supervisor.published == [TriggerReceived(NOW, "job", "manual", at) for at in ("cli", "webhook")]


def test_who_has_to_wait_is_told_so(supervisor: Supervisor) -> None:
    """The run of another firing is not its run."""
    supervisor.add()
    supervisor.services["job"].opening = SimpleNamespace(
        firing=w.Firing("schedule", NOW, "other"), run="job-1"
    )
    assert heard(ask(supervisor))[0] == {"name": "job", "run": None, "queued": True, "attempt": 1}
    supervisor.services["job"].opening = SimpleNamespace(firing=None, run="job-1")
    assert heard(ask(supervisor))[0]["queued"] is True


def test_who_waits_is_told_the_end(supervisor: Supervisor) -> None:
    """Of its own run, also where that begins later; the end of another one is not meant."""
    supervisor.add()
    later = ask(supervisor, wait=True)
    assert heard(later) == (None, None)
    supervisor.firings.begun(supervisor.told[0].firing.token, "job-2")
    supervisor.firings.begun("unknown", "job-3")
    supervisor.firings.over("job-1", {"outcome": "failed"})
    assert heard(later) == (None, None)
    supervisor.firings.over("job-2", {"outcome": "success"})
    ended = {"outcome": "success"}
    assert heard(later)[0] == {"name": "job", "run": "job-2", "queued": False, "ended": ended}


def test_a_firing_that_comes_to_nothing_is_refused(supervisor: Supervisor) -> None:
    """What came with it is thrown away; who was told already is told nothing more."""
    supervisor.add()

    def skip(word: w.Fired) -> None:
        supervisor.heard(FiringSkipped(NOW, "job", "manual", None, "busy", word.firing.token))

    supervisor.on_fired = skip
    for wait in (True, False):
        _, refusal = heard(ask(supervisor, wait=wait, payload="p"))
        assert refusal[0] == NOT_NOW
        assert refusal[1].startswith("job: not started: ")
    assert supervisor.dropped == ["p", "p"]
    supervisor.heard(FiringSkipped(NOW, "job", "schedule", NOW, "busy"))
    supervisor.heard(TriggerReceived(NOW, "job", "manual", "cli"))
    ask(supervisor)
    assert supervisor.dropped == ["p", "p"]


def test_what_comes_with_a_firing_is_there_for_its_run(supervisor: Supervisor) -> None:
    """Until that is over; other firings have nothing."""
    supervisor.add()
    supervisor.on_fired = opens(supervisor, "job-1")
    ask(supervisor, payload="p")
    token = supervisor.told[0].firing.token
    assert (supervisor.firings.payload(token), supervisor.firings.payload("other")) == ("p", None)
    supervisor.firings.over("job-1", {})
    assert supervisor.firings.payload(token) is None
