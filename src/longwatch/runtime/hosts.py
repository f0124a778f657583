"""The same driver under three hosts: a blocking caller here, asyncio and trio in `hosts_async`.

Each waits for the driver's descriptor or its next deadline, whichever comes first, and calls `step`.
Hosted, nothing installs a signal handler or touches a disposition. When the host goes away, the stop comes first,
shielded and bounded. What is raised even then goes through: whoever owns the run ends its tree by KILL.
"""

from longwatch.core.observations import StopRequested
from longwatch.core.spec import GRACE_WHEN_TOLD
from longwatch.runtime.driver import Driver


def block(driver: Driver) -> None:
    """Drive to the end in this thread. What is raised meanwhile (Ctrl-C) stops the tree first, then goes on."""
    try:
        loop(driver)
    except BaseException:
        told_to_stop(driver)
        _turn(driver)
        raise


def loop(driver: Driver) -> None:
    """Drive to the end in this thread; what is raised goes through, and the run is as it was."""
    driver.start()
    _turn(driver)


def _turn(driver: Driver) -> None:
    poll, clock = driver.effects.poll, driver.clock
    while not driver.over:
        poll(max(0, driver.next_deadline() - clock()))
        driver.step()


def told_to_stop(driver: Driver) -> None:
    """The host goes away: the tree goes first, in the short grace of somebody who was told to stop."""
    grace = driver.watch.spec.grace
    short = GRACE_WHEN_TOLD if grace is None else min(grace, GRACE_WHEN_TOLD)
    driver.tell(StopRequested("cancelled", "cascade", grace=short))
    driver.step()
