"""How a run ended, in words made from its report: a few for an exception, a log or a notice, and more for a reader."""

from longwatch import vocabulary
from longwatch.core.outcomes import LIMITED
from longwatch.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Limits whose reason is another word.
_NAMES = {"stalled": "stall", "asked": "ask", "looping": "loop", "lingered": "linger"}
#: Sources that are the output of a program; what is missed of all others is progress.
_OUTPUT = {"stdout", "stderr"}


def how(program: str, report: "Mapping[str, Any]") -> str:
    """Return one line: the program, and how its run ended."""
    if report["termination_reason"] == "spawn_failed":
        return str(report["notes"][0])
    return f"{program}: {in_short(report)}"


def in_short(report: "Mapping[str, Any]") -> str:
    """Return how a run ended in a few words: the limit that stopped it, its signal, its exit status."""
    reason, limit = report.get("termination_reason"), report.get("limit") or {}
    if limit.get("window_ms") is not None:
        return vocabulary.limit(limit["name"], limit["window_ms"], _missed(report), limit.get("subject"))
    if reason in LIMITED:
        return f"its {_name(str(reason), limit)} limit was reached"
    return _ENDS.get(str(reason), str(reason or report.get("outcome"))).format(
        asked=_asked(report), code=report.get("exit_code"), signal=report.get("signal")
    )


def told(report: "Mapping[str, Any]") -> str:
    """Return the same for one who did not ask for it: that a limit stopped the run is said, too."""
    return f"stopped: {in_short(report)}" if report.get("termination_reason") in LIMITED else in_short(report)


def in_full(report: "Mapping[str, Any]") -> str:
    """Return what ended a run, or what is on record of one that has not ended: its cause, never guessed from a status."""
    reason = report.get("termination_reason")
    if reason in LIMITED:
        return f"stopped by longwatch: {_evidence(str(reason), report)}"
    if reason is None and report.get("outcome") is not None:
        return _no_end(report)
    if reason == "exited":
        code = report.get("exit_code")
        return f"failed by itself with exit status {code}" if code else "exited 0"
    if reason == "signaled":
        return f"died of {report.get('signal')}, which longwatch did not send"
    if reason == "interrupted" and report.get("diagnosis"):
        return str(report["diagnosis"])
    return f"ended: {reason}" if reason not in _ENDS else in_short(report)


def _asked(report: "Mapping[str, Any]") -> str:
    """Return who wanted the end of a run, where that is known."""
    origin = report.get("origin")
    return f" ({vocabulary.ORIGINS.get(origin, origin)})" if origin else ""


_ENDS = {
    "exited": "exited with status {code}",
    "signaled": "died of signal {signal}",
    "cancelled": "stopped on request{asked}",
    "interrupted": "stopped: a signal reached longwatch",
    "spawn_failed": "could not be started",
    "unknown": "ended; how could not be found out",
}


def _missed(report: "Mapping[str, Any]") -> str:
    return "output" if set(report.get("progress") or ()) <= _OUTPUT else "progress"


def _name(reason: str, limit: "Mapping[str, Any]") -> str:
    """Return the name of the limit that was reached; where it is not on record, the one that the reason speaks of."""
    return str(limit.get("name") or _NAMES.get(reason, reason))


def _evidence(reason: str, report: "Mapping[str, Any]") -> str:
    found = report.get("limit") or {}
    text = f"its {_name(reason, found)} limit"
    window = found.get("window_ms")
    text += f" of {format_duration(window)} was reached" if isinstance(window, int) else " was reached"
    if found.get("subject"):
        text += f" by {found['subject']}"
    if reason == "stalled":
        return f"{text}, no successful call in all that time"
    if reason in ("idle", "first") and isinstance(report.get("idle_ms"), int):
        source = found.get("source")
        text += f", silent for {format_duration(report['idle_ms'])}"
        text += f" since {source} moved" if source else ", nothing ever moved"
    return text


def _no_end(report: "Mapping[str, Any]") -> str:
    """Return what is on record of a run that has not ended, or of a firing that became none."""
    if report.get("outcome") == "running":
        trigger = str(report.get("trigger") or "")
        begun = f"started {vocabulary.trigger(trigger)}, " if trigger else ""
        return f"{begun}no end on record yet"
    why, count = report.get("why"), report.get("count")
    times = f", {count} times" if isinstance(count, int) and count > 1 else ""
    return f"not started{times}" + (f": {vocabulary.firing(str(why))}" if why else "")
