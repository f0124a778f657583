"""What verbs ask: how runs ended, and which run a word means.

Live runs are read from their folders, past ones from the ledger.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from longwatch.errors import LongwatchError, StoreError
from longwatch.paths import inner_id, is_run_id, name_of, runs_folder
from longwatch.store.ledger import Ledger
from longwatch.store.run_folders import Folder, ending, folders, listed, live_runs, open_folder
from longwatch.units import nearest

#: Runs that were, and are over.
_OVER = "ended IS NOT NULL AND attempt>0"


class NoSuchRunError(LongwatchError):
    """No run has this id or name; the text offers the nearest name."""


class ManyRunsError(LongwatchError):
    """A word fits several runs; the text lists their ids."""


@dataclass(slots=True)
class Found:
    """What a word means: a run, its folder if it (still) has one, its summary if it is over."""

    run: str
    folder: Folder | None
    summary: dict[str, Any] | None


def history(state: str) -> Ledger:
    """Open the ledger with everything in it: the spool's lines, and folders of runs that left no line."""
    ledger = Ledger.current(state)
    past = [folder for folder in folders(state, ledger.notes) if not folder.live]
    marks = ", ".join("?" * len(past))
    known = {
        run for (run,) in ledger.rows(f"SELECT run FROM runs WHERE run IN ({marks})", [f.run for f in past])
    }
    new = [ended for folder in past if folder.run not in known and (ended := ending(folder)) is not None]
    if new:
        try:
            ledger.adopt(new)
        except StoreError as error:
            ledger.notes.append(f"runs without a line in the spool are missing here: {error}")
    return ledger


def runs(
    ledger: Ledger,
    name: str | None = None,
    since: int | None = None,
    outcome: str | None = None,
    limit: int = 20,
) -> list[dict[str, Any]]:
    """Return summaries of past runs, newest start first. `since` is ms since 1970, the rest narrows down.

    Neither open runs nor firings that became none: `listing.listed` has those too.
    """
    wanted = [("name=?", name), ("started>=?", since), ("outcome=?", outcome)]
    terms = [(term, value) for term, value in wanted if value is not None]
    where = " AND ".join([_OVER, *(term for term, _ in terms)])
    sql = f"SELECT json FROM runs NATURAL JOIN summaries WHERE {where} ORDER BY started DESC LIMIT ?"
    return _summaries(ledger, sql, [value for _, value in terms] + [limit])


def last_run(ledger: Ledger) -> dict[str, Any] | None:
    """Return the summary of the run that ended last."""
    sql = f"SELECT json FROM runs NATURAL JOIN summaries WHERE {_OVER} ORDER BY ended DESC LIMIT 1"
    found = _summaries(ledger, sql, [])
    return found[0] if found else None


def find(state: str, ledger: Ledger, word: str) -> Found:
    """Return the run that a word means: an id, the beginning of one id, a name that one live run has, else its last.

    Raises ManyRunsError when several live runs have the name (or only beginnings fit), NoSuchRunError else.
    """
    word = inner_id(word)
    live = {folder.run: folder for folder in live_runs(state)}
    run = _only(_begun(ledger, live, word), word) or _named(live, word) or _newest(ledger, word)
    if run is None and word in listed(runs_folder(state)):  # its report says too little for the ledger
        run = word
    if run is None:
        begun = _begun(ledger, live, word)
        if begun and word:
            raise ManyRunsError(_many(word, begun))
        raise NoSuchRunError(_unknown(word, [*_names(ledger), *(folder.name for folder in live.values())]))
    if run in live:
        return Found(run, live[run], None)
    return past(state, ledger, run)


def past(state: str, ledger: Ledger, run: str) -> Found:
    """Return a run that is over, by its id."""
    sql = "SELECT json FROM summaries WHERE run=? ORDER BY attempt DESC LIMIT 1"
    found = _summaries(ledger, sql, [run])
    folder = open_folder(os.path.join(runs_folder(state), run)) if is_run_id(run) else None
    return Found(run, folder, found[0] if found else None)


def find_live(state: str, word: str) -> Folder:
    """Return the live run that a word means, as `find` does, without the history."""
    word = inner_id(word)
    live = {folder.run: folder for folder in live_runs(state)}
    begun = [run for run in live if run.startswith(word)] if word else []
    run = _only(begun, word) or _named(live, word)
    if run is not None:
        return live[run]
    if begun:
        raise ManyRunsError(_many(word, begun))
    raise NoSuchRunError(_unknown(word, [folder.name for folder in live.values()], "live run"))


def _only(begun: list[str], word: str) -> str | None:
    if word in begun:
        return word
    return begun[0] if len(begun) == 1 else None


def _begun(ledger: Ledger, live: Iterable[str], word: str) -> list[str]:
    """Return the ids that begin with a word, at most a handful of them."""
    if not word:
        return []
    sql = "SELECT DISTINCT run FROM runs WHERE run=? OR (run>=? AND run<?) ORDER BY run LIMIT 9"
    stored = ledger.rows(sql, (word, word, word + "\U0010ffff"))
    return sorted({run for run in live if run.startswith(word)} | {run for (run,) in stored})


def _named(live: dict[str, Folder], word: str) -> str | None:
    named = [run for run, folder in live.items() if word in (folder.name, name_of(run))]
    if len(named) > 1:
        raise ManyRunsError(_many(word, named))
    return named[0] if named else None


def _newest(ledger: Ledger, word: str) -> str | None:
    """Return the last run of a name; where it never ran, the last firing that became none."""
    for runs_only in ("AND attempt>0", ""):
        sql = f"SELECT run FROM runs WHERE name=? {runs_only} ORDER BY started DESC LIMIT 1"
        found = ledger.rows(sql, (word,))
        if found:
            return str(found[0][0])
    return None


def _many(word: str, ids: list[str]) -> str:
    return f"{word} fits several runs; name one: {', '.join(sorted(ids)[:8])}"


def _unknown(word: str, names: list[str], what: str = "run") -> str:
    guess = nearest(word, sorted(set(names)))
    return f"no {what} {word}" + (f"; did you mean {guess}?" if guess else "")


def _names(ledger: Ledger) -> list[str]:
    return [str(name) for (name,) in ledger.rows("SELECT DISTINCT name FROM runs LIMIT 1000")]


def _summaries(ledger: Ledger, sql: str, parameters: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(text) for (text,) in ledger.rows(sql, parameters)]
