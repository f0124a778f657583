"""How a run ended, in the few words that an exception or a model is told."""

from longwatch.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: What a limit that stopped a run says, with its window.
_LIMIT_WORDS = {
    "idle": "no output for {}",
    "first": "no first output within {}",
    "stall": "no successful call for {}",
    "call": "a call took longer than {}",
    "ceiling": "reached its ceiling of {}",
    "timeout": "took longer than {}",
    "ask": "a question waited longer than {} for its answer",
    "linger": "stayed for {} after its result",
    "effect": "changed nothing for {}",
}


def how(program: str, report: "Mapping[str, Any]") -> str:
    """Return one line: the program, and how its run ended."""
    if report["termination_reason"] == "spawn_failed":
        return str(report["notes"][0])
    return f"{program}: {in_short(report)}"


def in_short(report: "Mapping[str, Any]") -> str:
    """Return how a run ended in a few words: the limit that stopped it, its signal, its exit status."""
    if report["limit"] is not None:
        return _LIMIT_WORDS[report["limit"]["name"]].format(format_duration(report["limit"]["window_ms"]))
    if report["signal"] is not None and report["termination_reason"] == "signaled":
        return f"died of signal {report['signal']}"
    if report["exit_code"] is not None and report["termination_reason"] == "exited":
        return f"exited with status {report['exit_code']}"
    return str(report["termination_reason"])
