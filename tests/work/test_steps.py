"""Steps with a real timeout, and what is tried again."""

from itertools import pairwise

import pytest

from longwatch.core.spec import SECOND
from longwatch.errors import StoreError
from longwatch.work.steps import BUDGET, Command, Done, Pause, Shared, Steps, Turns, WorkError, tried, walk
from repositories import side_by_side


def sh(script: str, limit: int = 10 * SECOND) -> Command:
    return Command(("sh", "-c", script), limit)


def one(command: Command) -> Steps[Done]:
    return (yield command)


@pytest.mark.capability("CAP-32")
def test_a_step_ends_at_its_limit_even_while_it_prints() -> None:
    """These limits are by the clock: talking does not help."""
    done = walk(one(sh("while :; do echo working; done", 300)))
    assert done.code is None
    assert done.words == "working"
    assert not done.ok


def test_steps_follow_each_other_and_come_to_an_answer() -> None:
    """What is decided between the commands is plain code; a pause is one."""

    def steps() -> Steps[str]:
        first = yield sh("echo one; exit 3")
        yield Pause(1)
        second = yield sh(f"echo {first.words}-{first.code}")
        return second.words

    assert walk(steps()) == "one-3"


def test_a_command_that_cannot_be_started_ends_the_steps() -> None:
    """One line says which."""
    with pytest.raises(WorkError, match="no-such-program") as error:
        walk(one(Command(("no-such-program-here",), SECOND)))
    assert not error.value.transient


def test_steps_hear_of_a_command_that_cannot_be_started() -> None:
    """They can clean up, and do something else."""

    def steps() -> Steps[str]:
        try:
            yield Command(("no-such-program-here",), SECOND)
        except WorkError:
            done = yield sh("echo instead")
        return done.words

    assert walk(steps()) == "instead"


@pytest.mark.parametrize("error", [OSError(28, "no space left"), StoreError("no folder")])
def test_what_the_machine_refuses_between_the_steps_may_be_possible_later(error: Exception) -> None:
    """It says nothing against the work."""

    def steps() -> Steps[None]:
        yield sh("true")
        raise error

    with pytest.raises(WorkError) as told:
        walk(steps())
    assert (str(told.value), told.value.transient) == (str(error), True)


def test_an_error_between_the_steps_comes_out() -> None:
    """And what it says about trying again."""

    def steps() -> Steps[None]:
        yield sh("true")
        raise WorkError("no space", transient=True)

    with pytest.raises(WorkError, match="no space") as error:
        walk(steps())
    assert error.value.transient


@pytest.mark.capability("CAP-33")
@pytest.mark.parametrize(
    ("drawn", "least", "most"), [(0.0, 1_500, 2_000), (0.5, 2_000, 2_000), (0.999, 2_000, 2_500)]
)
def test_a_network_step_is_tried_again_until_its_budget_is_spent(drawn: float, least: int, most: int) -> None:
    """Two seconds first, doubled, spread; in all no more than a minute of waiting."""
    steps = tried(sh("x"), lambda: drawn)
    assert next(steps) == sh("x")
    waits = []
    with pytest.raises(StopIteration) as over:  # noqa: PT012 - the loop ends by it
        while True:
            step = steps.send(Done(1))
            assert isinstance(step, Pause)
            waits.append(step.span)
            assert steps.send(Done(0)) == sh("x")
    assert not over.value.value.ok
    assert least <= waits[0] <= most
    assert all(later == pytest.approx(2 * earlier, abs=2) for earlier, later in pairwise(waits))
    assert BUDGET == 60 * SECOND
    assert sum(waits) <= BUDGET < sum(waits) + 2 * waits[-1]


@pytest.mark.capability("CAP-33")
def test_a_network_step_that_succeeds_is_not_tried_again() -> None:
    """The first answer that is good is the answer."""
    steps = tried(sh("x"), lambda: 0.5)
    next(steps)
    assert isinstance(steps.send(Done(None)), Pause)
    steps.send(Done(0))
    with pytest.raises(StopIteration) as over:
        steps.send(Done(0, "fine"))
    assert over.value.value.words == "fine"


def test_steps_that_several_need_are_gone_through_once() -> None:
    """Those who come meanwhile are told the same answer; whoever comes later has them done again."""
    shared: Shared[str] = Shared()
    times: list[int] = []

    def steps() -> Steps[str]:
        times.append(1)
        done = yield sh("echo done")
        return f"{done.words} {len(times)}"

    assert side_by_side(shared.go("a", steps()), shared.go("a", steps())) == [("done 1", None)] * 2
    assert side_by_side(shared.go("a", steps()), shared.go("b", steps())) == [("done 3", None)] * 2


def test_an_error_of_shared_steps_is_told_to_all_who_wait() -> None:
    """It is that of the one who went through them, and the next one tries anew."""
    shared: Shared[str] = Shared()

    def steps(script: str) -> Steps[str]:
        done = yield sh(script)
        if not done.ok:
            raise WorkError("it failed", transient=True)
        return done.words

    both = side_by_side(shared.go("a", steps("exit 1")), shared.go("a", steps("echo unused")))
    assert [(answer, str(error)) for answer, error in both] == [(None, "it failed")] * 2
    assert walk(shared.go("a", steps("echo fine"))) == "fine"


def test_who_waits_takes_over_where_shared_steps_are_given_up() -> None:
    """A cancelled item must not hold up the others."""
    shared: Shared[str] = Shared()

    def steps(answer: str) -> Steps[str]:
        yield sh("true")
        return answer

    first, second = shared.go("a", steps("first")), shared.go("a", steps("second"))
    next(first)
    assert isinstance(next(second), Pause)
    first.close()
    assert second.send(Done(0)) == sh("true")
    with pytest.raises(StopIteration) as over:
        second.send(Done(0))
    assert over.value.value == "second"


def test_steps_are_taken_in_turn() -> None:
    """One after the other, whatever became of the one before; others go on beside them."""
    turns, story = Turns(), list[str]()

    def steps(name: str, *, fails: bool = False) -> Steps[None]:
        story.append(f"{name} begins")
        yield sh("true")
        story.append(f"{name} ends")
        if fails:
            raise WorkError(name)

    side_by_side(
        turns.take("key", steps("a", fails=True)),
        turns.take("key", steps("b")),
        turns.take("other", steps("c")),
    )
    assert story[:2] == ["a begins", "c begins"]
    assert [what for what in story if what[0] != "c"] == ["a begins", "a ends", "b begins", "b ends"]
