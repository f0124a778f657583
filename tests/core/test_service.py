"""One harness across its incarnations: states, what is asked in each of them, and what is told late."""

import itertools

import pytest

from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.harness import Harness
from longwatch.core.parking import Limited
from longwatch.core.restarts import Life
from longwatch.core.service import Service
from longwatch.core.service_facts import FACTS
from longwatch.core.service_memory import Memory
from longwatch.core.service_states import (
    DEGRADED,
    EDGES,
    FAILED,
    RESTARTING,
    RUNNING,
    STARTING,
    STATES,
    STOPPED,
    STOPPING,
    IllegalEdge,
    check,
)
from longwatch.core.service_words import Moment
from longwatch.core.spec import MINUTE, SECOND
from services import HOURS, House, resident, scheduled

LEGAL = {
    "stopped starting",
    "starting running", "starting restarting", "starting degraded", "starting stopping", "starting stopped",
    "starting failed",
    "running restarting", "running degraded", "running stopping", "running stopped", "running failed",
    "restarting starting", "restarting degraded", "restarting stopping", "restarting stopped", "restarting failed",
    "degraded starting", "degraded stopped",
    "stopping stopped",
    "failed starting",
}  # fmt: skip


@pytest.mark.capability("CAP-118")
def test_edges() -> None:
    """Exactly these ways lead from a state to another; every other one is refused by name."""
    for before, after in itertools.product(STATES, STATES):
        if f"{before} {after}" in LEGAL:
            check(before, after)
        else:
            with pytest.raises(IllegalEdge, match=f"no edge leads from {before} to {after}"):
                check(before, after)
    assert {f"{before} {after}" for before, afters in EDGES.items() for after in afters} == LEGAL


# -- each state, and how a test gets there


def stopped() -> House:
    return resident(enabled=False)


def starting() -> House:
    return resident(ready="listening")


def running() -> House:
    return resident()


def ending_for_another() -> House:
    house = resident()
    house.stubborn = True
    house.tell(w.RestartAsked())
    return house


def waiting() -> House:
    house = resident()
    house.over(after=1)
    return house


def flapping() -> House:
    house = resident()
    for _ in range(3):
        house.over(after=1)
        if house.state != DEGRADED:
            house.wait()
    return house


def stopping() -> House:
    house = resident()
    house.stubborn = True
    house.tell(w.StopAsked())
    return house


def failed() -> House:
    house = resident(intensity=1)
    house.over(after=MINUTE)
    house.over(after=MINUTE)
    return house


PLACES = {
    "stopped": (stopped, STOPPED),
    "starting": (starting, STARTING),
    "running": (running, RUNNING),
    "ending": (ending_for_another, RESTARTING),
    "waiting": (waiting, RESTARTING),
    "flapping": (flapping, DEGRADED),
    "stopping": (stopping, STOPPING),
    "failed": (failed, FAILED),
}
# asked -> place -> (state at once, orders that are not told or remembered, state once all is over, intent)
OPEN, STOP = "OpenRun", "StopRun"
ASKED = {
    "start": {
        "stopped": (RUNNING, [OPEN], RUNNING), "starting": (STARTING, [], STARTING), "running": (RUNNING, [], RUNNING),
        "ending": (RESTARTING, [], RUNNING), "waiting": (RUNNING, [OPEN], RUNNING),
        "flapping": (RUNNING, [OPEN], RUNNING), "stopping": (STOPPING, [], RUNNING), "failed": (RUNNING, [OPEN], RUNNING),
    },
    "stop": {
        "stopped": (STOPPED, [], STOPPED), "starting": (STOPPING, [STOP], STOPPED), "running": (STOPPING, [STOP], STOPPED),
        "ending": (STOPPING, [STOP], STOPPED), "waiting": (STOPPED, [], STOPPED), "flapping": (STOPPED, [], STOPPED),
        "stopping": (STOPPING, [STOP], STOPPED), "failed": (FAILED, [], FAILED),
    },
    "restart": {
        "stopped": (RUNNING, [OPEN], RUNNING), "starting": (RESTARTING, [STOP], RUNNING),
        "running": (RESTARTING, [STOP], RUNNING), "ending": (RESTARTING, [], RUNNING), "waiting": (RUNNING, [OPEN], RUNNING),
        "flapping": (RUNNING, [OPEN], RUNNING), "stopping": (STOPPING, [], RUNNING), "failed": (RUNNING, [OPEN], RUNNING),
    },
    "shutdown": {
        "stopped": (STOPPED, [], STOPPED), "starting": (STOPPING, [STOP], STOPPED), "running": (STOPPING, [STOP], STOPPED),
        "ending": (STOPPING, [STOP], STOPPED), "waiting": (STOPPED, [], STOPPED), "flapping": (STOPPED, [], STOPPED),
        "stopping": (STOPPING, [STOP], STOPPED), "failed": (FAILED, [], FAILED),
    },
}  # fmt: skip
WORDS = {
    "start": w.StartAsked("me"), "stop": w.StopAsked("me"), "restart": w.RestartAsked("me"),
    "shutdown": w.ShutdownAsked(keep=False),
}  # fmt: skip
QUIETLY = (orders.Tell, orders.Remember, orders.KeepIntent)


@pytest.mark.capability("CAP-118")
@pytest.mark.parametrize(("asked", "place"), [(asked, place) for asked in ASKED for place in PLACES])
def test_what_is_asked_in_each_state(asked: str, place: str) -> None:
    """Whatever is asked, in whatever state: what happens at once, and where it comes to rest. Intent follows people only."""
    make, before = PLACES[place]
    house = make()
    house.stubborn = True
    assert house.state == before
    intent = house.service.memory.enabled
    ready = w.BecameReady(house.generation + 1)
    told = house.tell(WORDS[asked])
    at_once, ordered, finally_ = ASKED[asked][place]
    assert [type(order).__name__ for order in told if not isinstance(order, QUIETLY)] == ordered
    if at_once == RUNNING and house.state == STARTING:
        house.tell(ready)
    assert house.state == at_once
    if house.service.alive and house.state != RUNNING and place != "starting":
        house.over("cancelled", "cancelled")
        assert house.state == finally_
    assert house.service.memory.enabled == {"start": True, "restart": True, "stop": False}.get(asked, intent)


def test_a_stop_that_is_asked_again_is_passed_on() -> None:
    """Who asks a second time wants the end sooner; who restarts a second time gets one new incarnation."""
    house = stopping()
    assert house.tell(w.StopAsked()) == [orders.StopRun(1, "cancelled", "explicit")]
    house = ending_for_another()
    assert house.tell(w.RestartAsked()) == []
    house.over("cancelled", "cancelled")
    assert (house.state, house.starts) == (RUNNING, [1, 2])


@pytest.mark.capability("CAP-118")
@pytest.mark.parametrize("keep", [False, True])
def test_a_shutdown_keeps_the_intent(keep: bool) -> None:
    """The daemon's end is nobody's wish about a harness: what was wanted before is wanted after."""
    house = resident()
    told = house.tell(w.ShutdownAsked(keep=keep))
    assert not any(isinstance(order, orders.KeepIntent) for order in house.orders)
    assert house.state == (RUNNING if keep else STOPPED)
    assert told == [] if keep else told
    assert house.service.memory.enabled
    again = House(memory=Memory.of(house.harness, house.service.memory.kept(house.moment), house.moment))
    assert again.state == RUNNING
    assert again.orders[1] == orders.OpenRun(1, "autostart", 1, "" if keep else "cancelled")


def test_after_a_shutdown_nothing_begins() -> None:
    """A daemon that ends refuses what it is asked; one that has let go of its harnesses does nothing at all."""
    house = resident()
    house.tell(w.ShutdownAsked(keep=False))
    assert house.tell(w.StartAsked()) == [orders.Refuse("shutdown")]
    assert house.tell(w.RestartAsked()) == [orders.Refuse("shutdown")]
    assert house.wait(MINUTE) == []
    assert house.service.next_deadline() is None
    house = waiting()
    house.tell(w.ShutdownAsked(keep=True))
    assert house.service.next_deadline() is None
    assert house.wait(MINUTE) == []
    assert house.tell(w.StartAsked()) == []


def test_a_run_that_ends_while_the_daemon_does_is_closed() -> None:
    """Its record is written, and nothing follows it."""
    house = resident()
    house.stubborn = True
    house.tell(w.ShutdownAsked(keep=False))
    house.facts.clear()
    house.over("success")
    assert [fact.name for fact in house.facts] == ["run_closed", "state_changed"]
    assert (house.state, house.starts) == (STOPPED, [1])


# -- beginnings


@pytest.mark.capability("CAP-122")
def test_a_record_before_a_process() -> None:
    """A run is written down first; the process is asked for when that is durable; then it runs."""
    house = House(awake=False)
    house.slow = True
    assert house.state == STOPPED
    told = house.tell(w.Awoke())
    assert [order for order in told if not isinstance(order, QUIETLY)] == [
        orders.OpenRun(1, "autostart", 1, "", None, report_only=False)
    ]
    assert house.tell(w.Opened(1, "web-1")) == [orders.Spawn(1)]
    assert (house.state, house.service.run) == (STARTING, "web-1")
    house.spawned(1)
    assert house.state == RUNNING


def test_readiness() -> None:
    """With a ready text it is `starting` until that appears; said again it changes nothing."""
    house = starting()
    assert not house.service.snapshot(house.moment)["ready"]
    house.tell(w.BecameReady(1))
    assert (house.state, house.service.snapshot(house.moment)["ready"]) == (RUNNING, True)
    assert house.tell(w.BecameReady(1)) == []


@pytest.mark.parametrize("asked", ["stop", "restart"])
def test_an_end_before_there_is_a_process(asked: str) -> None:
    """What is not wanted any more when its record is durable gets no process, and its record is closed."""
    house = House(awake=False)
    house.slow = True
    house.tell(w.Awoke())
    assert [order for order in house.tell(WORDS[asked]) if not isinstance(order, QUIETLY)] == []
    assert house.tell(w.Opened(1, "web-1")) == [orders.CloseRun(1, "cancelled", "explicit")]
    house.tell(w.StopAsked() if asked == "stop" else w.RestartAsked())
    assert not any(isinstance(order, orders.StopRun) for order in house.orders)
    house.over("cancelled", "cancelled")
    assert (house.state, house.generation) == ((STOPPED, 1) if asked == "stop" else (STARTING, 2))


def test_an_end_while_the_process_is_being_made() -> None:
    """It is stopped as soon as there is something to stop."""
    house = House(awake=False)
    house.slow = house.stubborn = True
    house.tell(w.Awoke())
    house.tell(w.Opened(1, "web-1"))
    house.tell(w.StopAsked())
    assert house.tell(w.Spawned(1)) == [orders.StopRun(1, "cancelled", "explicit")]
    assert house.state == STOPPING


@pytest.mark.capability("CAP-116")
def test_a_spawn_that_fails() -> None:
    """What cannot be started is `failed`, with the reason shown, until somebody starts it; intent is kept."""
    house = House(awake=False)
    house.slow = True
    house.tell(w.Awoke())
    house.tell(w.Opened(1, "web-1"))
    house.tell(w.SpawnFailed(1, "serve: no such file", {"outcome": "failed"}))
    assert (house.state, house.service.memory.enabled) == (FAILED, True)
    shown = house.service.snapshot(house.moment)
    assert (shown["gave_up"], shown["last_error"]) == ("spawn", "serve: no such file")
    assert house.names() == ["run_closed", "gave_up"]
    assert house.service.next_deadline() is None
    house.slow = False
    house.tell(w.StartAsked())
    assert (house.state, house.service.snapshot(house.moment)["gave_up"]) == (RUNNING, None)


@pytest.mark.parametrize(("asked", "state"), [(w.StopAsked(), STOPPED), (w.RestartAsked(), STARTING)])
def test_a_spawn_that_fails_when_nobody_wants_it(asked: w.Word, state: str) -> None:
    """Whoever stopped or restarted it meanwhile gets what was asked for."""
    house = House(awake=False)
    house.slow = True
    house.tell(w.Awoke())
    house.tell(w.Opened(1, "web-1"))
    house.tell(asked)
    house.tell(w.SpawnFailed(1, "no memory"))
    assert house.state == state


# -- adoption


@pytest.mark.fault("I2")
def test_an_adopted_program_is_looked_after() -> None:
    """Whoever was alive when the daemon came is taken over as it is: no second copy, and its end is followed by another."""
    house = House(awake=False)
    house.tell(w.Adopted("web-7", house.now - MINUTE, attempt=3))
    assert (house.state, house.service.run, house.starts) == (RUNNING, "web-7", [])
    assert [fact.name for fact in house.facts] == ["state_changed", "adopted", "state_changed"]
    house.over("unknown", "unknown", began=house.now - MINUTE)
    assert house.starts == [2]
    assert orders.OpenRun(2, "restart", 4, "unknown") in house.orders
    assert house.service.memory.attempt == 4


def test_an_adopted_program_that_is_not_ready_or_not_wanted() -> None:
    """One that was still starting goes on starting; one that was being stopped is stopped."""
    house = House(Harness("web", ("serve",), ready="up"), awake=False)
    house.tell(w.Adopted("web-7", house.now, ready=False))
    assert house.state == STARTING
    house = House(memory=Memory(enabled=False), awake=False)
    house.tell(w.Adopted("web-7", house.now))
    assert house.state == STOPPED


def test_an_adopted_run_of_a_schedule() -> None:
    """A run that goes on goes on, whether or not its schedule is on; where it is to be tried again, it is."""
    job = Harness("job", ("work",), kind="scheduled", restart="on-failure")
    house = House(job, Memory(enabled=False), awake=False)
    house.tell(w.Adopted("job-7", house.now - MINUTE))
    assert house.state == RUNNING
    house.over("failed", began=house.now - MINUTE)
    assert (house.state, house.starts) == (RUNNING, [2])


def test_adopted_what_had_failed() -> None:
    """What was started by hand just before the daemon went is not failed any more."""
    house = House(memory=Memory(enabled=True, failed=True), awake=False)
    assert house.state == FAILED
    house.tell(w.Adopted("web-7", house.now))
    assert (house.state, house.service.memory.failed) == (RUNNING, False)


# -- generations


@pytest.mark.fault("I3")
@pytest.mark.parametrize(
    "word",
    [
        w.RunOver(1, Life(0, 1, "success")), w.Spawned(1), w.Opened(1, "x"), w.SpawnFailed(1, "no"), w.BecameReady(1),
        w.TurnSeen(1, busy=False), w.StopStarted(1, "idle"), w.TreeStuck(1), w.CallSucceeded(1), w.Progressed(1),
        w.LimitFound(1, "idle", 5), w.BudgetSpent(1, "all"),
        w.StallFound(1, 5, 5, "stop"), w.RunOver(3, Life(0, 1, "success")),
    ],
)  # fmt: skip
@pytest.mark.capability("CAP-111")
def test_what_comes_late_is_dropped(word: w.LifeWord) -> None:
    """What is told of an incarnation that was replaced changes nothing, and that it was dropped is told."""
    house = resident()
    house.over(after=MINUTE)
    assert house.generation == 2
    before = house.service.snapshot(house.moment)
    house.facts.clear()
    told = house.tell(word)
    assert [order.fact.name for order in told] == ["stale_dropped"]
    fact = house.facts[0].as_dict()
    assert fact["run"] == "run-2"
    assert f"of generation {word.generation}" in str(fact["what"])
    assert house.service.snapshot(house.moment) == before


@pytest.mark.fault("I3")
def test_a_request_that_means_another_run() -> None:
    """Who stops or restarts a run that is over does not hit the one that goes on."""
    house = resident()
    house.over(after=MINUTE)
    for word in (
        w.StopAsked(run="run-1"),
        w.RestartAsked(run="run-1"),
        w.RestartAsked(run="run-1", inside=True),
    ):
        assert [order.fact.name for order in house.tell(word)] == ["stale_dropped"]
    assert (house.state, house.generation) == (RUNNING, 2)
    house.tell(w.StopAsked(run="run-2"))
    assert house.state == STOPPED
    assert [order.fact.name for order in house.tell(w.StopAsked(run="run-2"))] == ["stale_dropped"]


# -- ends that take their time


@pytest.mark.fault("F7")
@pytest.mark.parametrize("then", ["restart", "stop", "limit"])
def test_no_copy_beside_what_cannot_be_killed(then: str) -> None:
    """While something of the old tree lives, the state is `stopping` and nothing is started, whatever is asked."""
    house = resident(revive=("idle",))
    house.stubborn = True
    words = {"restart": w.RestartAsked(), "stop": w.StopAsked(), "limit": w.StopStarted(1, "idle")}
    house.tell(words[then])
    house.facts.clear()
    house.tell(w.TreeStuck(1))
    assert (house.state, house.names()) == (STOPPING, ["unkillable"])
    assert house.service.snapshot(house.moment)["stuck"]
    assert house.tell(w.TreeStuck(1)) == []
    if then == "restart":
        house.tell(w.StartAsked())
    house.wait(10 * MINUTE)
    assert house.starts == [1]
    house.over("cancelled" if then != "limit" else "failed", "cancelled" if then != "limit" else "idle")
    assert house.starts == ([1] if then == "stop" else [1, 2])


def test_what_cannot_be_killed_waits_for_its_backoff_all_the_same() -> None:
    """From `stopping` one way leads out; a quick life is followed by its backoff there too."""
    house = resident()
    house.tell(w.TreeStuck(1))
    house.over(after=1)
    assert (house.state, house.starts) == (STOPPED, [1])
    assert house.service.snapshot(house.moment)["backoff_until"] == house.now + SECOND
    house.wait()
    assert (house.state, house.starts) == (RUNNING, [1, 2])
    assert house.service.snapshot(house.moment)["backoff_until"] is None


def test_what_cannot_be_killed_and_has_given_up() -> None:
    """It has given up, and shows that, though the state is `stopped`."""
    house = resident(intensity=1)
    house.over(after=MINUTE)
    house.tell(w.TreeStuck(2))
    house.over(after=MINUTE)
    assert house.state == STOPPED
    assert house.service.snapshot(house.moment)["gave_up"] == "intensity"
    assert house.wait(MINUTE) == []
    house.tell(w.StartAsked())
    assert house.state == RUNNING


@pytest.mark.parametrize(
    ("restart", "revive", "reason", "state"),
    [
        ("always", (), "idle", RESTARTING),
        ("no", (), "idle", STOPPING),
        ("no", ("idle",), "idle", RESTARTING),
        ("no", ("stall",), "stalled", RESTARTING),
        ("always", (), "looping", STOPPING),
        ("on-failure", (), "timeout", RESTARTING),
    ],
)
def test_while_a_limit_stops_it(restart: str, revive: tuple[str, ...], reason: str, state: str) -> None:
    """As far as can be seen, the state says whether another one follows."""
    house = resident(restart=restart, revive=revive)
    house.tell(w.StopStarted(1, reason))
    assert house.state == state
    house.tell(w.StopStarted(1, reason))
    assert house.state == state


def test_while_a_limit_stops_what_is_not_wanted() -> None:
    """What was taken from the file is not started again."""
    house = resident()
    house.tell(w.Removed())
    house.tell(w.StopStarted(1, "idle"))
    assert house.state == STOPPING
    house.over("failed", "idle")
    assert (house.state, house.service.gone) == (STOPPED, True)


# -- asked from inside


@pytest.mark.fault("I5")
def test_a_restart_from_inside() -> None:
    """Who restarts itself gets one new run, however often it asks, and that clears nothing and costs budget."""
    house = resident(restart="no")
    house.stubborn = True
    assert house.tell(w.RestartAsked(inside=True, run="run-1"))[-1] == orders.StopRun(
        1, "cancelled", "explicit"
    )
    assert house.state == RESTARTING
    assert house.tell(w.RestartAsked(inside=True, run="run-1")) == []
    house.over("cancelled", "cancelled", after=MINUTE)
    assert (house.starts, house.service.memory.history.restarts) == ([1, 2], (house.now,))
    assert house.service.memory.enabled


def test_a_restart_from_inside_does_not_hinder_a_stop() -> None:
    """What is on its way out for good, or gone, is not called back by its own tree."""
    for house in (stopping(), stopped()):
        assert house.tell(w.RestartAsked(inside=True)) == []
    house = resident(restart="no")
    house.tell(w.StopStarted(1, "idle"))
    assert house.tell(w.RestartAsked(inside=True)) == []
    house.over("failed", "idle")
    assert house.state == STOPPED


@pytest.mark.fault("J1")
def test_who_restarts_itself_for_ever_is_stopped() -> None:
    """A program that wants nothing but a restart uses up its budget like one that crashes."""
    house = resident()
    for _ in range(6):
        house.now += 11 * SECOND
        house.tell(w.RestartAsked(inside=True))
    assert (house.state, len(house.starts)) == (FAILED, 6)


# -- the file


def test_another_definition() -> None:
    """It holds at once; launch keys wait for a restart, which is shown, or done where it is asked for."""
    house = resident()
    assert house.tell(w.Changed(Harness("web", ("serve",), restart="no"))) == []
    assert not house.service.snapshot(house.moment)["pending_restart"]
    other = Harness("web", ("serve", "--fast"))
    assert house.tell(w.Changed(other)) == []
    assert house.service.snapshot(house.moment)["pending_restart"]
    assert house.service.harness is other
    house.tell(w.Changed(other, restart=True))
    assert house.starts == [1, 2]
    assert not house.service.snapshot(house.moment)["pending_restart"]
    house.tell(w.Changed(other, restart=True))
    assert house.starts == [1, 2]


def test_a_definition_that_is_gone() -> None:
    """What the file does not name any more runs on and is not started again; with `prune` it is ended."""
    house = resident()
    house.tell(w.Removed())
    assert (house.state, house.service.gone) == (RUNNING, False)
    assert house.tell(w.StartAsked()) == [orders.Refuse("removed")]
    house.over()
    assert (house.state, house.service.gone) == (STOPPED, True)
    house = resident()
    house.tell(w.Removed(prune=True))
    assert (house.state, house.service.gone) == (STOPPED, True)
    assert house.service.memory.enabled
    house = waiting()
    house.tell(w.Removed())
    assert (house.state, house.service.gone) == (STOPPED, True)


def test_a_definition_that_comes_back() -> None:
    """Named again, it goes on as before."""
    house = resident()
    house.tell(w.Removed())
    house.over()
    house.tell(w.Changed(house.harness))
    assert (house.state, house.service.gone) == (RUNNING, False)


# -- what is kept


def test_memory_over_a_reboot() -> None:
    """Counts, holds and what waits survive the daemon and the machine; how long ago something was is what counts."""
    house = scheduled(restart="on-failure")
    house.fire(token="a")
    house.over(after=MINUTE, error="no")
    house.hold(HOURS)
    house.over(after=MINUTE)
    house.fire(token="b")
    kept = house.service.kept(house.moment)
    assert kept == house.service.memory.kept(house.moment)
    later = Moment(5 * SECOND, house.wall + MINUTE)
    memory = Memory.of(house.harness, {**kept, "agenda": {"of": "others"}}, later)
    assert memory.kept(later) == kept
    assert memory.history.restarts == (5 * SECOND - 2 * MINUTE, 5 * SECOND - MINUTE)
    assert memory.retry is not None
    assert (memory.retry.token, memory.queued) == ("a", None)
    back = Memory.of(house.harness, kept, Moment(5 * SECOND, house.wall - MINUTE * 10))
    assert back.history.restarts == (5 * SECOND, 5 * SECOND)


def test_memory_of_nothing() -> None:
    """What an older daemon did not know is as in a fresh one."""
    assert Memory.of(Harness("web", ("serve",), enabled=False), {}, Moment(0, 0)) == Memory(enabled=False)
    assert Memory.fresh(Harness("web", ("serve",))) == Memory(enabled=True)


def test_what_is_kept_is_said() -> None:
    """A word that changes what is remembered ends with `Remember`, one that does not does not."""
    house = resident()
    assert house.tell(w.StopAsked())[-1] == orders.Remember(at_once=True)
    assert house.tell(w.StopAsked()) == []
    assert house.wait(MINUTE) == []
    intents = [order for order in house.orders if isinstance(order, orders.KeepIntent)]
    assert intents == [orders.KeepIntent(enabled=False)]


def test_what_must_not_be_lost() -> None:
    """What waits to be run, what is held and what has failed are kept at once; counts when there is time."""
    house = scheduled(on_overlap="queue")
    assert house.fire()[-1] == orders.Remember(at_once=False)
    assert house.fire()[-1] == orders.Remember(at_once=True)
    assert house.over("success")[-1] == orders.Remember(at_once=True)
    house = resident()
    assert house.tell(w.StallFound(1, 5, 5, "notify"))[-1] == orders.Remember(at_once=False)
    assert house.over(limited=Limited("auth"))[-1] == orders.Remember(at_once=True)
    assert failed().service.memory.failed


def test_names_of_facts() -> None:
    """The set of facts is closed, and each has its name on the wire."""
    assert {name: kind.__name__ for name, kind in FACTS.items()}["state_changed"] == "StateChanged"
    assert len(FACTS) == 32
    house = resident()
    assert house.facts[0].name in FACTS
    assert house.facts[0].as_dict()["harness"] == "web"


def test_before_it_awoke() -> None:
    """Nothing begins before the daemon says so."""
    service = Service(Harness("web", ("serve",)), Memory(enabled=True))
    assert service.advance(Moment(0, 0)) == []
    assert service.next_deadline() is None
    assert (service.run, service.alive) == ("", False)


def test_a_state_that_nobody_saw_begin_has_no_beginning() -> None:
    """What was never started is not said to be stopped since the machine was."""
    house = House(awake=False)
    assert house.service.snapshot(house.moment)["since"] is None
    house.tell(w.Awoke())
    assert house.service.snapshot(house.moment)["since"] == house.now
