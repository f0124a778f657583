"""The driver under asyncio and trio; a module of its own, since a blocking program loads neither."""

import asyncio
import sys

from longwatch.runtime.driver import Driver
from longwatch.runtime.hosts import told_to_stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


async def drive(driver: Driver) -> None:
    """Drive to the end under whichever of asyncio and trio runs this coroutine.

    When cancelled, the tree is stopped first: shielded, and bounded by the stop's own waits. Under asyncio, which
    cannot be kept from cancelling again, that ends the grace.
    """
    trio = _running_trio()
    driver.start()
    if trio is not None:
        await _under_trio(driver, trio)
        return
    stepping = Stepping(driver, asyncio.get_running_loop())
    try:
        await _under_asyncio(driver, stepping)
    finally:
        stepping.close()


def _running_trio() -> "Any":
    """Return the trio module if a trio loop runs us. Only a program that imported it can be under it."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


class Stepping:
    """Steps a driver in an asyncio loop, on every readiness and at each deadline; `done` when the run is over."""

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self._driver = driver
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0
        self.done: asyncio.Future[None] = loop.create_future()
        loop.add_reader(driver.fileno(), self.step)
        self.step()

    def step(self) -> None:
        """Take what is ready, and sleep until the next deadline. An error of the driver is the result of `done`."""
        if self.done.done():
            return
        try:
            self._driver.effects.poll(0)
            self._driver.step()
        except Exception as error:  # noqa: BLE001 - whoever awaits gets it
            self.done.set_exception(error)
        else:
            if self._driver.over:
                self.done.set_result(None)
            else:
                self._sleep()

    def _sleep(self) -> None:
        """Have one timer, and a new one only for another deadline: a chatty program moves none."""
        due = self._driver.next_deadline()
        now = self._driver.clock()
        if self._timer is not None and due == self._due and now < due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(0, due - now) / 1000, self.step)

    def close(self) -> None:
        """Leave the loop. It may have been closed before, when a coroutine is thrown away with it."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._driver.fileno())


async def _under_asyncio(driver: Driver, stepping: Stepping) -> None:
    cancelled: asyncio.CancelledError | None = None
    while not stepping.done.done():
        try:
            await asyncio.shield(stepping.done)
        except asyncio.CancelledError as error:
            cancelled = error
            told_to_stop(driver)
            stepping.step()
    stepping.done.result()
    if cancelled is not None:
        raise cancelled


async def _under_trio(driver: Driver, trio: "Any") -> None:
    try:
        await _trio_turns(driver, trio)
    except GeneratorExit:
        raise  # thrown away: nothing can be awaited any more
    except BaseException:
        with trio.CancelScope(shield=True):
            told_to_stop(driver)
            await _trio_turns(driver, trio)
        raise


async def _trio_turns(driver: Driver, trio: "Any") -> None:
    while not driver.over:
        with trio.move_on_after(max(0, driver.next_deadline() - driver.clock()) / 1000):
            await trio.lowlevel.wait_readable(driver.fileno())
        driver.effects.poll(0)
        driver.step()
