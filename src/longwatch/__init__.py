"""longwatch supervises long-running agents and commands by progress, never by elapsed time alone.

The public names are loaded when they are first used, so that a program that needs one does not pay for all.
"""

import sys

if sys.platform == "win32":
    raise ImportError("longwatch needs processes and signals as Unix has them; on Windows use it under WSL")

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.errors import LongwatchError, UsageError
    from longwatch.library import run, run_async, watch
    from longwatch.limits import Limits
    from longwatch.posix.files import file_idle_since
    from longwatch.reached import (
        CallReached,
        CeilingReached,
        FirstReached,
        IdleReached,
        LimitReached,
        TimeoutReached,
    )
    from longwatch.result import Result, RunFailed
    from longwatch.streams.guard import guard
    from longwatch.tool.command import CommandTool

_HOMES = {
    "CallReached": "reached",
    "CeilingReached": "reached",
    "CommandTool": "tool.command",
    "FirstReached": "reached",
    "IdleReached": "reached",
    "LimitReached": "reached",
    "Limits": "limits",
    "LongwatchError": "errors",
    "Result": "result",
    "RunFailed": "result",
    "TimeoutReached": "reached",
    "UsageError": "errors",
    "file_idle_since": "posix.files",
    "guard": "streams.guard",
    "run": "library",
    "run_async": "library",
    "watch": "library",
}

__all__ = [
    "CallReached",
    "CeilingReached",
    "CommandTool",
    "FirstReached",
    "IdleReached",
    "LimitReached",
    "Limits",
    "LongwatchError",
    "Result",
    "RunFailed",
    "TimeoutReached",
    "UsageError",
    "file_idle_since",
    "guard",
    "run",
    "run_async",
    "watch",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"longwatch.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
