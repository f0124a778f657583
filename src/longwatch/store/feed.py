"""What happened, read back: the events of a daemon from a number on, with a word about those that are gone."""

import json

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from longwatch.store.ledger import Ledger


class Page(Plain):
    """Some events, oldest first. Go on reading behind `last`.

    `dropped` that came after the number asked for are gone: too old, or the ledger too large. `renewed`: the ledger is
    another one than when that number was given, so the events begin anew.
    """

    __slots__ = ("dropped", "events", "last", "renewed")

    def __init__(self, events: "list[dict[str, Any]]", last: int, dropped: int, *, renewed: bool) -> None:
        self.events = events
        self.last = last
        self.dropped = dropped
        self.renewed = renewed


def feed(
    ledger: "Ledger", daemon: str, since: int = 0, limit: int = 1_000, harnesses: "Sequence[str]" = ()
) -> Page:
    """Return a daemon's events behind the number `since`, at most `limit` of them; of some harnesses only if named."""
    ((first, newest),) = ledger.rows("SELECT min(seq), max(seq) FROM feed WHERE daemon=?", (daemon,))
    if first is None:
        return Page([], 0, 0, renewed=since > 0)
    renewed = since > newest
    begin = 0 if renewed else max(since, 0)
    narrowed = f" AND harness IN ({', '.join('?' * len(harnesses))})" if harnesses else ""
    rows = ledger.rows(
        f"SELECT seq, json FROM feed WHERE daemon=?{narrowed} AND seq>? ORDER BY seq LIMIT ?",
        (daemon, *harnesses, begin, limit),
    )
    # A full page ends with its last event; any other one has seen all that there are.
    last = rows[-1][0] if len(rows) == limit and rows else newest
    return Page([json.loads(text) for _, text in rows], last, max(0, first - 1 - begin), renewed=renewed)


def since_time(ledger: "Ledger", daemon: str, wall_ms: int) -> int:
    """Return the number behind which the events begin that happened from an instant on, in ms since 1970."""
    sql = "SELECT min(seq) FROM feed WHERE daemon=? AND at>=?"
    ((first,),) = ledger.rows(sql, (daemon, wall_ms))
    if first is not None:
        return int(first) - 1
    ((newest,),) = ledger.rows("SELECT max(seq) FROM feed WHERE daemon=?", (daemon,))
    return int(newest or 0)


def daemons(ledger: "Ledger") -> list[str]:
    """Return the daemons that have events here."""
    return [str(daemon) for (daemon,) in ledger.rows("SELECT DISTINCT daemon FROM feed ORDER BY daemon")]


def newest_of(ledger: "Ledger", daemon: str, count: int, harnesses: "Sequence[str]" = ()) -> int:
    """Return the number behind which the newest `count` events are."""
    narrowed = f" AND harness IN ({', '.join('?' * len(harnesses))})" if harnesses else ""
    sql = f"SELECT seq FROM feed WHERE daemon=?{narrowed} ORDER BY seq DESC LIMIT 1 OFFSET ?"
    found = ledger.rows(sql, (daemon, *harnesses, count))
    return int(found[0][0]) if found else 0
