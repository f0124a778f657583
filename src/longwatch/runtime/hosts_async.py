"""The driver under asyncio and trio; a module of its own, since a blocking program loads neither."""

import asyncio
import sys

from longwatch.runtime.driver import Driver
from longwatch.runtime.hosts import told_to_stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


async def drive(driver: Driver) -> None:
    """Drive to the end under whichever of asyncio and trio runs this coroutine.

    When cancelled, the tree is stopped first: shielded, and bounded by the stop's own waits.
    """
    trio = _running_trio()
    driver.start()
    if trio is None:
        await _under_asyncio(driver)
    else:
        await _under_trio(driver, trio)


def _running_trio() -> "Any":
    """Return the trio module if a trio loop runs us. Only a program that imported it can be under it."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


async def _under_asyncio(driver: Driver) -> None:
    done, step = _start_stepping(driver, asyncio.get_running_loop())
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            cancelled = error
            told_to_stop(driver)
            step()
    done.result()
    if cancelled is not None:
        raise cancelled


def _start_stepping(
    driver: Driver, loop: asyncio.AbstractEventLoop
) -> "tuple[asyncio.Future[None], Callable[[], None]]":
    """Step on every readiness and at each deadline, with one timer; the future is done when the run is over."""
    done: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    def step() -> None:
        nonlocal timer
        if done.done():
            return
        try:
            driver.reactor.poll(0)
            driver.step()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            finish(error)
            return
        if driver.over:
            finish(None)
            return
        if timer is not None:
            timer.cancel()
        timer = loop.call_later(max(0, driver.next_deadline() - driver.clock()) / 1000, step)

    def finish(error: BaseException | None) -> None:
        loop.remove_reader(driver.fileno())
        if timer is not None:
            timer.cancel()
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    loop.add_reader(driver.fileno(), step)
    loop.call_soon(step)
    return done, step


async def _under_trio(driver: Driver, trio: "Any") -> None:
    try:
        while not driver.over:
            await _trio_turn(driver, trio)
    except trio.Cancelled:
        told_to_stop(driver)
        with trio.CancelScope(shield=True):
            while not driver.over:
                await _trio_turn(driver, trio)
        raise


async def _trio_turn(driver: Driver, trio: "Any") -> None:
    with trio.move_on_after(max(0, driver.next_deadline() - driver.clock()) / 1000):
        await trio.lowlevel.wait_readable(driver.fileno())
    driver.reactor.poll(0)
    driver.step()
