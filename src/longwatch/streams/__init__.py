"""Streams of events: the same watch as for processes, over any iterator of an agent's events, and turns made of them.

The names below are loaded when they are first used; `guard` itself is one of the package's own names.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.core.repeats import Detector, Failures, Latch
    from longwatch.streams.ends import TurnFailed, TurnResult
    from longwatch.streams.graph import Abort, AbortGraph
    from longwatch.streams.handle import Turn
    from longwatch.streams.retry import Retry
    from longwatch.streams.trace import Trace, TraceEvent
    from longwatch.streams.waves import wave

_HOMES = {
    "Abort": "streams.graph",
    "AbortGraph": "streams.graph",
    "Detector": "core.repeats",
    "Failures": "core.repeats",
    "Latch": "core.repeats",
    "Retry": "streams.retry",
    "Trace": "streams.trace",
    "TraceEvent": "streams.trace",
    "Turn": "streams.handle",
    "TurnFailed": "streams.ends",
    "TurnResult": "streams.ends",
    "wave": "streams.waves",
}

__all__ = [
    "Abort", "AbortGraph", "Detector", "Failures", "Latch", "Retry", "Trace", "TraceEvent", "Turn", "TurnFailed",
    "TurnResult", "wave",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see the module's docstring

    value = globals()[name] = getattr(import_module(f"longwatch.{home}"), name)
    return value
