"""What other supervisors get wrong between two incarnations, tried on the decisions of ours."""

import itertools

import pytest

from longwatch.core import observations as o
from longwatch.core import service_orders as orders
from longwatch.core import service_words as w
from longwatch.core.admission import Admission, Standing
from longwatch.core.agenda import Agenda, Looked
from longwatch.core.commands import Notify
from longwatch.core.harness import Harness
from longwatch.core.parking import Limited
from longwatch.core.spec import HOUR, MINUTE, SECOND, STOP, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.daemon.calendar import Calendar
from services import AHEAD, House, resident


@pytest.mark.fault("C3")
@pytest.mark.capability("CAP-106")
def test_a_finished_turn_is_no_stall() -> None:
    """An agent that has finished its turn sits at its prompt for a night: no notice, no stop; its next turn counts again."""
    watch = Watch(Spec({"stall": LimitSpec(45 * MINUTE, STOP)}, observed=True, resident=True), 0)
    watch.observe(o.TurnBegan(), 0)
    watch.observe(o.CallBegan("1", "Bash"), SECOND)
    watch.observe(o.CallEnded("1", ok=True), 2 * SECOND)
    watch.observe(o.TurnEnded(), MINUTE)
    assert [command for command in watch.advance(12 * HOUR) if isinstance(command, Notify)] == []
    assert "ready" in {hold["kind"] for hold in watch.snapshot(12 * HOUR)["holds"]}
    watch.observe(o.TurnBegan(), 12 * HOUR)
    told = watch.advance(12 * HOUR + 46 * MINUTE)
    assert any(isinstance(command, Notify) for command in told)


@pytest.mark.fault("F7")
def test_attempt_two_waits_for_the_proof() -> None:
    """A leftover of attempt 1 ignores TERM: attempt 2 is not begun before it is gone, whoever asks and however often."""
    house = resident()
    house.stubborn = True
    for word in (
        w.RestartAsked(),
        w.StartAsked(),
        w.RestartAsked(inside=True),
        w.TreeStuck(1),
        w.StartAsked(),
    ):
        house.tell(word)
        house.wait(HOUR)
    assert (house.state, house.starts) == ("stopping", [1])
    house.over("cancelled", "cancelled")
    assert (house.state, house.starts) == ("running", [1, 2])


@pytest.mark.fault("I3")
def test_a_late_word_of_run_one() -> None:
    """Run 1's end and a request to kill it arrive when run 2 is there: run 2 is untouched, and that is told."""
    house = resident()
    house.over(after=MINUTE)
    house.facts.clear()
    house.over(generation=1)
    house.tell(w.StopAsked(run="run-1"))
    assert (house.state, house.service.run, house.starts) == ("running", "run-2", [1, 2])
    assert house.names() == ["stale_dropped", "stale_dropped"]


@pytest.mark.fault("J1")
def test_a_child_that_lives_a_second_and_a_half() -> None:
    """Crashing and stalling in turn: five restarts, `gave_up`, one notice; one command and it runs."""
    house = resident(revive=("stall",))
    for end in itertools.cycle((("failed", "exited"), ("stalled", "stalled"))):
        house.over(*end, after=1500)
        if house.state == "failed":
            break
        house.wait()
    assert len(house.starts) == 1 + 5
    assert house.service.snapshot(house.moment)["gave_up"]
    assert [fact.name for fact in house.facts].count("gave_up") == 1
    house.tell(w.StartAsked())
    assert house.state == "running"


@pytest.mark.fault("J2")
@pytest.mark.parametrize("outcome", ["failed", "success"])
@pytest.mark.parametrize("intensity", [5, 0])
def test_a_child_that_ends_at_once(outcome: str, intensity: int) -> None:
    """The gaps grow from a second; by default the tries end, and without a bound there are under 800 in six hours."""
    house = resident(intensity=intensity)
    began, gaps = house.now, []
    while house.now < began + 6 * HOUR and house.state != "failed":
        house.over(outcome)
        if (due := house.service.next_deadline()) is not None:
            gaps.append(due - house.now)
            house.wait()
    assert gaps[0] >= SECOND
    assert gaps == sorted(gaps)
    assert len(house.starts) == 6 if intensity else len(house.starts) < 800


@pytest.mark.fault("J3")
def test_one_fixed_error() -> None:
    """A child prints one error and exits at once; budget 10, three alike: it stops after three, with that line in its status."""
    house = resident(intensity=10, fail_alike=3)
    while house.state != "failed":
        house.over(error="Invalid API key · Please run /login")
        if house.service.next_deadline() is not None:
            house.wait()
    assert len(house.starts) == 3
    assert house.service.snapshot(house.moment)["last_error"] == "Invalid API key · Please run /login"


@pytest.mark.fault("J5")
def test_a_stall_never_looks_like_success() -> None:
    """With a restart for stalls attempt 2 starts; without one it stays down, and the record says `stalled`."""
    for revive, starts in ((("stall",), [1, 2]), ((), [1])):
        house = resident(restart="no", revive=revive)
        house.tell(w.StopStarted(1, "stalled"))
        house.over("stalled", "stalled", after=HOUR)
        assert house.starts == starts
        closed = next(fact for fact in house.facts if fact.name == "run_closed").as_dict()
        assert closed["record"]["outcome"] == "stalled"


@pytest.mark.fault("K6")
def test_an_agent_limited_twice_past_its_reset() -> None:
    """Three starts in all, one for each window, and the budget untouched."""
    house = resident()
    reset = house.wall + HOUR
    for _ in range(2):
        house.over(limited=Limited("usage", reset))
        while house.state != "running":
            house.wait()
    house.wait(HOUR)
    assert house.starts == [1, 2, 3]
    assert house.service.memory.history.restarts == ()


@pytest.mark.fault("K7")
def test_eight_harnesses_parked_to_one_moment() -> None:
    """They come back within a minute after it, each in a second of its own, and none before."""
    admission = Admission()
    houses = [House(Harness(f"agent-{number}", ("x",), quota_group="team")) for number in range(8)]
    begin = houses[0].now
    reset = begin + AHEAD + 3 * HOUR
    for house in houses:
        house.over(limited=Limited("usage", reset))
        for order in house.orders:
            if isinstance(order, orders.ParkGroup):
                admission.quota.park(order.group, order.until, order.cls, order.text, order.drawn)
    back: dict[str, int] = {}
    for second in range(3 * 3600 - 5, 3 * 3600 + 65):
        for house in houses:
            house.now = begin + second * SECOND
            house.holds = admission.holds(house.harness, Standing(), house.wall)
            house.wait(0)
            if house.state == "running":
                back.setdefault(house.harness.name, second)
    assert sorted(back) == [house.harness.name for house in houses]
    assert min(back.values()) >= 3 * 3600
    assert len(set(back.values())) == 8
    assert max(back.values()) - min(back.values()) > 30


@pytest.mark.fault("L2")
def test_a_daemon_down_over_three_windows() -> None:
    """One late run where the file allows it, one logged miss where it does not."""
    calendar = Calendar(("0 * * * *",), (), "UTC")
    begin = 1_740_000_000_000 - 1_740_000_000_000 % HOUR + 1
    wall = begin + 3 * HOUR + 10 * MINUTE
    for catch_up, fired, missed in ((0, None, 3), (HOUR, begin - 1 + 3 * HOUR, 2)):
        agenda = Agenda.begun(begin)
        looked = agenda.look(calendar.between(agenda.since(wall), wall), wall, catch_up)
        assert (looked.fire, looked.missed) == (fired, missed)
        assert agenda.look(calendar.between(agenda.since(wall), wall), wall, catch_up) == Looked()
