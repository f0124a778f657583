"""What is said of a run of a harness: when it is about to begin, in its own environment, and when it is over."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.core import service_orders as orders
    from longwatch.core.harness import Harness
    from longwatch.runtime.making import Parts


class Opening:
    """A run between its first record and the end of its program."""

    __slots__ = ("attempt", "firing", "generation", "reason", "report_only", "run", "started_at", "trigger")

    def __init__(self, word: "orders.OpenRun", run: str, started_at: str) -> None:
        self.run = run
        self.generation = word.generation
        self.attempt = word.attempt
        self.trigger = word.trigger
        self.reason = word.reason
        self.firing = word.firing
        self.report_only = word.report_only
        self.started_at = started_at

    def record(self, harness: "Harness", recorded: "list[str]") -> "dict[str, Any]":
        """Return what the ledger holds of it before it starts; `recorded` is what may be of its command."""
        program, *flags = recorded
        return {
            "run": self.run, "harness": harness.name, "name": harness.name, "attempt": self.attempt,
            "kind": harness.kind, "trigger": self.trigger, "generation": self.generation, "started_at": self.started_at,
            "program": program, "flags": list(harness.command[1:]) if harness.record_args else flags, "cwd": harness.cwd,
        }  # fmt: skip

    def environment(self, harness: "Harness", parts: "Parts", payload: str | None) -> dict[str, str]:
        """Return the program's environment: it is told its number, why it was started, and how the last one ended."""
        environ = parts.environment({**os.environ, **harness.env}, self.run, self.attempt)
        environ |= {"LONGWATCH_NAME": harness.name, "LONGWATCH_TRIGGER": self.trigger}
        if self.reason:
            environ["LONGWATCH_LAST_REASON"] = self.reason
        if payload is not None:
            environ["LONGWATCH_EVENT_FILE"] = payload
        return environ


def blank(harness: "Harness", opening: Opening) -> "dict[str, Any]":
    """Return the record of a run that never was."""
    return {
        "schema": 1, "run": opening.run, "name": harness.name, "attempt": opening.attempt,
        "started_at": opening.started_at, "ended_at": opening.started_at, "duration_ms": 0, "termination_reason": "",
        "origin": None, "outcome": "", "verdict": None, "exit_code": None, "signal": None, "limit": None,
    }  # fmt: skip


def summary(report: "dict[str, Any]") -> "dict[str, Any]":
    """Return what is told of an ended run: no output, and of the post-mortem what it comes down to."""
    told = {key: value for key, value in report.items() if key != "post_mortem"}
    for stream in ("stdout", "stderr"):
        if told.get(stream):
            told[stream] = {key: value for key, value in told[stream].items() if key not in ("head", "tail")}
    told["diagnosis"] = (report.get("post_mortem") or {}).get("diagnosis")
    return told


def last_line(report: "dict[str, Any]") -> str:
    """Return the last line that a failed run wrote, where there is one: what it died of, most likely."""
    if report.get("outcome") != "failed":
        return ""
    for stream in ("stderr", "stdout"):
        captured = report.get(stream)
        if captured:
            lines = [
                line.strip() for line in (captured["tail"] or captured["head"]).splitlines() if line.strip()
            ]
            if lines:
                return str(lines[-1])[:200]
    return ""
