"""What turns need of a loop: a block that can be left, a signal from any thread, a bounded last word."""

import asyncio

import pytest
import trio

from forked import LOOPS, forever, under_asyncio
from longwatch.streams.loops import Scope, Signal, shielded, sleep, together

pytestmark = pytest.mark.capability("CAP-93")


@LOOPS
def test_a_block_is_left_when_it_is_cancelled(loop) -> None:
    """Whoever cancels ends the wait inside, the code behind goes on and may wait as ever."""

    async def main():
        scope = Scope()

        async def inside():
            async with scope:
                await forever()
            await sleep(0)

        async def outside():
            scope.cancel()
            scope.cancel()

        await together([inside, outside])
        return scope.caught

    assert loop(main)


@LOOPS
def test_a_block_that_was_cancelled_before_waits_for_nothing(loop) -> None:
    """A cancellation that comes first is not lost."""

    async def main():
        scope = Scope()
        scope.cancel()
        async with scope:
            await forever()
        await sleep(0)
        return scope.caught

    assert loop(main)


@LOOPS
def test_a_block_that_ended_first_was_not_left(loop) -> None:
    """Cancelled after its end, or never, a block has simply ended."""

    async def main():
        scope = Scope()
        async with scope:
            await sleep(0)
        scope.cancel()
        await sleep(0)
        return scope.caught

    assert not loop(main)


@LOOPS
def test_an_error_inside_goes_through(loop) -> None:
    """A cancelled block that raises something else has failed; nothing is left behind for the code after it."""

    async def main():
        scope = Scope()

        async def inside():
            async with scope:
                scope.cancel()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await inside()
        await sleep(0)
        return scope.caught

    assert not loop(main)


@LOOPS
def test_a_cancellation_that_the_block_swallows_is_over(loop) -> None:
    """Where the block answers it with an error of its own, that error goes through and nothing follows it."""

    async def main():
        scope = Scope()

        async def inside():
            async with scope:
                scope.cancel()
                try:
                    await forever()
                finally:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await inside()
        await sleep(0)
        return scope.caught

    assert not loop(main)


def test_a_cancellation_by_the_host_is_not_swallowed_with_ours() -> None:
    """Both cancel before anything was awaited: ours is taken, the host's goes on."""

    async def main():
        scope = Scope()
        task = asyncio.current_task()

        async def inside():
            async with scope:
                scope.cancel()
                task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await inside()
        assert not scope.caught
        assert task.uncancel() == 0

    under_asyncio(main)


@LOOPS
def test_the_last_word_is_bounded(loop) -> None:
    """What does not end in its time is given up, and that is told."""

    async def main():
        return await shielded(forever, 0.01), await shielded(lambda: sleep(0), 10)

    assert loop(main) == (False, True)


@LOOPS
def test_a_timeout_of_the_last_word_itself_is_an_error(loop) -> None:
    """A TimeoutError that the awaited raises is not mistaken for ours."""

    async def late():
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        loop(lambda: shielded(late, 10))


def test_the_last_word_is_spoken_although_trio_cancels() -> None:
    """Under a cancelled scope, where every wait ends at once, the last word is still awaited."""
    spoken = []

    async def speak():
        await sleep(0)
        spoken.append(1)

    async def main():
        with trio.CancelScope() as scope:
            scope.cancel()
            await shielded(speak, 10)

    trio.run(main)
    assert spoken == [1]


@LOOPS
def test_a_signal_is_awaited_so_long_at_most(loop) -> None:
    """One that comes is told from one that does not."""

    async def main():
        signal = Signal()
        first = await signal.wait(0.01)
        signal.set()
        return first, await signal.wait(10)

    assert loop(main) == (False, True)
