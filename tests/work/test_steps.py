"""Steps with a real timeout, and what is tried again."""

from itertools import pairwise

import pytest

from longwatch.core.spec import SECOND
from longwatch.work.steps import BUDGET, Command, Done, Pause, Steps, WorkError, tried, walk


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
    with pytest.raises(WorkError, match="no-such-program"):
        walk(one(Command(("no-such-program-here",), SECOND)))


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
