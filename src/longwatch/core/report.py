"""What is said of a run when it is over: one JSON object, made from facts alone.

Keys are only added within a schema number. Times are RFC 3339, spans `*_ms`, bytes are decoded with replacement.
"""

from longwatch.core.facts import (
    Fact,
    KillSent,
    LeftoversStopped,
    LimitFired,
    Nudged,
    RunEnded,
    StopAverted,
    StopBegan,
    TreeUnkillable,
)
from longwatch.core.outcomes import outcome
from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = 1
#: The facts that are rungs: what was done about a silence, in order.
RUNGS = (LimitFired, Nudged, StopAverted, StopBegan, KillSent, TreeUnkillable)
#: A run of many days climbs many first rungs; the report keeps the newest.
MAX_RUNGS = 100

SIGNALS = {
    1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
    11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 24: "XCPU", 25: "XFSZ", 31: "SYS",
}  # fmt: skip


class Stream(Plain):
    """What is known of one output stream: bytes in all, the first and last of them, and what a sink refused."""

    __slots__ = ("bytes", "gap", "head", "lost", "tail")

    def __init__(self, bytes: int, head: bytes, tail: bytes, gap: int, lost: int = 0) -> None:  # noqa: A002
        self.bytes = bytes
        self.head = head
        self.tail = tail
        self.gap = gap
        self.lost = lost

    def as_dict(self) -> dict[str, object]:
        """Return the report's form."""
        return {
            "bytes": self.bytes,
            "head": self.head.decode("utf-8", "replace"),
            "tail": self.tail.decode("utf-8", "replace"),
            "truncated": self.gap > 0,
            "lost": self.lost,
        }


def signal_name(number: int | None) -> str | None:
    """Return `TERM` for 15; a number without a name (real-time signals) as text."""
    return None if number is None else SIGNALS.get(number, str(number))


def build(
    *,
    run: str,
    name: str,
    attempt: int,
    started_at: str,
    started: int,
    facts: "Iterable[Fact]",
    progress: "Mapping[str, Mapping[str, object]]",
    last_progress: int | None,
    streams: "Mapping[str, Stream]",
    merged: bool,
    parked_ms: int = 0,
    post_mortem: "Mapping[str, object] | None" = None,
    survivors: "Iterable[str]" = (),
    proof: str = "group+marker",
    result_ok: bool | None = None,
    notes: "Iterable[str]" = (),
    agent: "Mapping[str, object] | None" = None,
    resume: str | None = None,
) -> dict[str, object]:
    """Return the report of a run whose facts end with `RunEnded`; without one it says `unknown`."""
    facts = list(facts)
    end = next((fact for fact in reversed(facts) if isinstance(fact, RunEnded)), None)
    end = end or RunEnded(started, "unknown")
    word, verdict = outcome(end.termination_reason, end.code, result_ok=result_ok)
    return {
        "schema": SCHEMA,
        "run": run,
        "name": name,
        "attempt": attempt,
        "termination_reason": end.termination_reason,
        "origin": end.origin,
        "outcome": word,
        "verdict": verdict,
        "exit_code": end.code if end.termination_reason != "spawn_failed" else None,
        "signal": signal_name(end.signal),
        "limit": _limit(facts, end),
        "started_at": started_at,
        "duration_ms": end.at - started,
        "idle_ms": _idle(facts, end, last_progress, started),
        "progress": progress,
        "pauses": {"parked_ms": parked_ms},
        "stdout": streams["stdout"].as_dict() if "stdout" in streams else None,
        "stderr": streams["stderr"].as_dict() if "stderr" in streams else None,
        "merged": merged,
        "leftovers": _leftovers(facts),
        "rungs": [_rung(fact, started) for fact in facts if isinstance(fact, RUNGS)][-MAX_RUNGS:],
        "survivors": list(survivors),
        "proof": proof,
        "stopped": _stopped(facts, end),
        "post_mortem": post_mortem,
        "notes": list(notes),
        "agent": agent,
        "resume": resume,
    }


def _limit(facts: list[Fact], end: RunEnded) -> dict[str, object] | None:
    if end.limit is None:
        return None
    fired = [f for f in facts if isinstance(f, LimitFired) and f.limit == end.limit]
    if not fired:
        return {"name": end.limit}
    last = fired[-1]
    return {"name": last.limit, "window_ms": last.window, "source": last.source, "subject": last.subject}


def _idle(facts: list[Fact], end: RunEnded, last_progress: int | None, started: int) -> int:
    """Return the span of silence: up to the first signal if we stopped it, else up to the end.

    What a program says when it is stopped is no progress: then the limit knows since when there was none.
    """
    stop = next((fact.at for fact in facts if isinstance(fact, StopBegan)), end.at)
    since = started if last_progress is None else last_progress
    if since > stop:
        since = next(
            (fact.since for fact in reversed(facts) if isinstance(fact, LimitFired) and fact.at <= stop), stop
        )
    return max(0, stop - since)


def _leftovers(facts: list[Fact]) -> dict[str, object]:
    found = [fact for fact in facts if isinstance(fact, LeftoversStopped)]
    processes = [process for fact in found for process in fact.processes]
    return {"count": len(processes), "processes": processes, "kept": any(fact.kept for fact in found)}


def _rung(fact: Fact, started: int) -> dict[str, object]:
    fields = {name: value for name, value in fact.as_dict().items() if name not in ("at", "since")}
    return {"rung": fact.name, "after_ms": fact.at - started, **fields}


def _stopped(facts: list[Fact], end: RunEnded) -> dict[str, object] | None:
    began = next((fact for fact in facts if isinstance(fact, StopBegan)), None)
    if began is None:
        return None
    killed = any(isinstance(fact, KillSent) for fact in facts)
    how = f"{signal_name(began.signal)}, then KILL" if killed else signal_name(began.signal)
    return {"how": how, "ms": end.at - began.at}
