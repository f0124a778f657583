"""Lists of runs: past ones, those that are open in the ledger, and firings that became none."""

import json

from longwatch.core.outcomes import OUTCOMES
from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.store.entries import QUEUED, RUNNING
from longwatch.units import nearest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from longwatch.store.ledger import Ledger

#: What a row may be asked for by: how runs end, and the two that have not.
LISTED = (*OUTCOMES, RUNNING, QUEUED)
_COLUMNS = "json, ended, outcome, daemon, kind, trigger, generation, name, started"
_SHORT = "SELECT run, attempt, started, ended, outcome, reason, trigger, daemon FROM runs WHERE name=?"


class Wanted(Plain):
    """Which rows: all that fit every condition that is given. `since` and `until` are ms since 1970, of the start."""

    __slots__ = ("daemon", "kinds", "limit", "names", "outcomes", "since", "triggers", "until")

    def __init__(
        self,
        names: "Sequence[str]" = (),
        *,
        since: int | None = None,
        until: int | None = None,
        outcomes: "Sequence[str]" = (),
        triggers: "Sequence[str]" = (),
        kinds: "Sequence[str]" = (),
        daemon: str | None = None,
        limit: int = 20,
    ) -> None:
        self.names = names
        self.since = since
        self.until = until
        self.outcomes = outcomes
        self.triggers = triggers
        self.kinds = kinds
        self.daemon = daemon
        self.limit = limit


class Short(Plain):
    """A row of a list, without its summary; times are ms since 1970."""

    __slots__ = ("attempt", "daemon", "ended", "outcome", "reason", "run", "started", "trigger")

    def __init__(
        self, run: str, attempt: int, started: int, ended: int | None, outcome: str | None, reason: str | None,
        trigger: str | None, daemon: str | None,
    ) -> None:  # fmt: skip
        self.run = run
        self.attempt = attempt
        self.started = started
        self.ended = ended
        self.outcome = outcome
        self.reason = reason
        self.trigger = trigger
        self.daemon = daemon


def check_outcomes(words: "Iterable[str]") -> tuple[str, ...]:
    """Return the words if each is an outcome. Raises UsageError with the nearest one and all that there are."""
    found = tuple(words)
    for word in found:
        if word not in LISTED:
            guess = nearest(word, LISTED)
            hint = f"did you mean {guess}? " if guess else ""
            raise UsageError(f"{shown(word)}: no such outcome; {hint}outcomes are {', '.join(LISTED)}")
    return found


def listed(ledger: "Ledger", wanted: Wanted) -> "list[dict[str, Any]]":
    """Return the summaries of these rows, newest start first.

    An open run has the outcome `running` and no `termination_reason`; a firing that became no run has attempt 0. What a
    daemon ran has `harness`, `kind`, `trigger`, `daemon` and `generation`.
    """
    # Each name by itself is answered from its index, newest first; a list of names would be sorted whole.
    names: Sequence[str | None] = list(dict.fromkeys(wanted.names)) or [None]
    rows = [row for name in names for row in _rows(ledger, wanted, name)]
    rows.sort(key=lambda row: int(row[-1]), reverse=True)
    return [_summary(row) for row in rows[: wanted.limit]]


def _rows(ledger: "Ledger", wanted: Wanted, name: str | None) -> "list[tuple[Any, ...]]":
    terms: list[str] = []
    values: list[object] = []
    for term, value in (
        ("name=?", name), ("started>=?", wanted.since), ("started<=?", wanted.until), ("daemon=?", wanted.daemon),
    ):  # fmt: skip
        if value is not None:
            terms.append(term)
            values.append(value)
    for column, words in (("outcome", wanted.outcomes), ("trigger", wanted.triggers), ("kind", wanted.kinds)):
        if words:
            terms.append(f"{column} IN ({', '.join('?' * len(words))})")
            values += words
    where = " AND ".join(terms) or "1"
    sql = f"SELECT {_COLUMNS} FROM runs NATURAL JOIN summaries WHERE {where} ORDER BY started DESC LIMIT ?"
    return ledger.rows(sql, [*values, wanted.limit])


def _summary(row: "tuple[Any, ...]") -> "dict[str, Any]":
    text, ended, outcome, daemon, kind, trigger, generation, name, _ = row
    summary: dict[str, Any] = json.loads(text)
    if ended is None:
        summary["outcome"] = outcome
    if daemon is not None:
        summary |= {
            "harness": name, "kind": kind, "trigger": trigger, "daemon": daemon, "generation": generation,
        }  # fmt: skip
    return summary


def recent(ledger: "Ledger", harness: str, limit: int = 50) -> list[Short]:
    """Return the newest rows of a harness, from the index alone."""
    return [Short(*row) for row in ledger.rows(f"{_SHORT} ORDER BY started DESC LIMIT ?", (harness, limit))]


def open_records(ledger: "Ledger", daemon: str) -> "list[dict[str, Any]]":
    """Return what the open runs of a daemon were opened with, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM runs NATURAL JOIN summaries WHERE daemon=? AND ended IS NULL ORDER BY started"
    return [_summary(row) for row in ledger.rows(sql, (daemon,))]
