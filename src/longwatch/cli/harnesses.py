"""What `ls` shows of a daemon: its harnesses, each with both clocks, what it is about, and what comes next."""

from typing import Any

from longwatch.cli.agent_words import state_of
from longwatch.cli.at_daemon import gave_up_text, only_told, state_word, waits_for
from longwatch.cli.render import clean, paint, since, when
from longwatch.units import ago, format_duration
from longwatch.vocabulary import ONLY_TOLD

HEADS = ("HARNESS", "PID", "UP", "ALIVE", "PROGRESS", "STATE", "LIMITS", "NEXT")
_COLOURS = {
    "running": "green",
    "starting": "green",
    "failed": "red",
    "degraded": "yellow",
    "stopping": "yellow",
}


def row(harness: dict[str, Any]) -> list[str]:
    """Return the cells of one harness."""
    lives = bool(harness.get("pid"))
    return [
        paint(clean(harness.get("name")), _COLOURS.get(str(harness.get("state")), "white")),
        str(harness["pid"]) if lives else "-",
        ago(harness["age_ms"]) if lives else "-",
        since(harness.get("alive_ms")) if lives else "-",
        since(harness.get("progress_ms")) if lives else "-",
        state(harness),
        ", ".join(_limits(harness)) or "-",
        _next(harness),
    ]


def state(harness: dict[str, Any]) -> str:
    """Return what a harness is about in a few words: the most telling of what is known."""
    name = state_word(harness)
    if harness.get("gave_up") and not harness.get("pid") and not only_told(harness):
        return gave_up_text(harness)
    if waits := waits_for(harness):
        return f"{name}, {waits}"
    if name == "running" and harness.get("agent"):
        name = state_of(harness["agent"])
    remarks = [ONLY_TOLD] if only_told(harness) else []
    remarks += [clean(harness["blind"])] if harness.get("blind") else []
    if harness.get("pending_restart"):
        remarks.append("pending restart")
    return ", ".join([name, *remarks])


def _limits(harness: dict[str, Any]) -> list[str]:
    found = []
    for name, limit in (harness.get("limits") or {}).items():
        window = limit.get("window_ms")
        if window:
            left = limit.get("left_ms")
            found.append(
                f"{name} {format_duration(window)}" + ("" if left is None else f" ({ago(max(left, 0))} left)")
            )
    return found


def _next(harness: dict[str, Any]) -> str:
    words = []
    if harness.get("next_due"):
        words.append(when(harness["next_due"]))
    if harness.get("queued"):
        words.append("one queued")
    last = harness.get("last_run") or {}
    if not harness.get("pid") and last.get("outcome"):
        at = f" {when(last['ended_at'], brief=True)}" if last.get("ended_at") else ""
        words.append(f"last: {clean(last['outcome'])}{at}")
    return ", ".join(words) or "-"
