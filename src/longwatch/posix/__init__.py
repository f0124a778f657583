"""DOES. The only code that touches processes, descriptors and signals; and the one clock that all of it runs on."""

import time

# A clock that counts the machine's sleep. macOS has no BOOTTIME, and its MONOTONIC does the same.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MS = 1_000_000


def now() -> int:
    """Return the time in ms on the clock of all watches; it counts the machine's sleep and never steps back."""
    return time.clock_gettime_ns(CLOCK) // _MS


def wall_of(mono_ms: int) -> int:
    """Return the wall-clock ms since 1970 of an instant on that clock, by the clocks' distance now."""
    return time.time_ns() // _MS - (now() - mono_ms)
