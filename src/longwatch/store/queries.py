"""What verbs ask: which runs live, how past ones ended, which run a word means.

Live runs are read from their folders, past ones from the ledger. A run is live while its supervisor is; a folder
without report whose supervisor is gone is `interrupted`: somebody else ended it, or the machine did.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from longwatch.errors import LongwatchError, StoreError
from longwatch.paths import inner_id, is_run_id, name_of, runs_folder
from longwatch.posix import now
from longwatch.posix.clocks import ALIVE, COUNT, LAST, LOOKED, PROGRESS, SOURCE_ALIVE, STARTED, Clocks
from longwatch.posix.supervisor import lives
from longwatch.store.ledger import Ledger
from longwatch.store.spool import summary
from longwatch.units import nearest

SCHEMA = 1
#: Runs that were, and are over.
_OVER = "ended IS NOT NULL AND attempt>0"


class NoSuchRunError(LongwatchError):
    """No run has this id or name; the text offers the nearest name."""


class ManyRunsError(LongwatchError):
    """A word fits several runs; the text lists their ids."""


@dataclass(slots=True)
class Folder:
    """A run folder as it was read: `meta` of meta.json, `clocks` (None: unreadable), `live`, and `here`: this host."""

    path: str
    run: str
    meta: dict[str, Any]
    live: bool
    clocks: Clocks | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.meta.get("name") or name_of(self.run))

    @property
    def here(self) -> bool:
        """False for a run of another machine that shares this home: its clocks are not ours."""
        return self.meta.get("host") == os.uname().nodename

    @property
    def limits(self) -> dict[str, dict[str, Any]]:
        """The limits by name: window_ms, action, source."""
        found = self.meta.get("limits")
        return found if isinstance(found, dict) else {}

    @property
    def log(self) -> str | None:
        """The file that all output goes to, when the user asked for one."""
        return self.meta.get("log")

    def report(self) -> dict[str, Any] | None:
        """Return the report; None while there is none, or when it was torn."""
        return read(os.path.join(self.path, "report.json"))

    def events(self) -> list[dict[str, Any]]:
        """Return the facts recorded so far, oldest first; lines that are no facts are passed over."""
        try:
            with open(os.path.join(self.path, "events.jsonl"), "rb") as lines:
                found = [_object(line) for line in lines]
        except OSError:
            return []
        return [event for event in found if event is not None]

    def agent(self) -> dict[str, Any] | None:
        """Return how the run's agent stands, or stood last; None where none was observed.

        `ago_ms` is how long ago that was written: spans in it (`since_ms`) are older by as much.
        """
        report = self.report()
        if report is not None:
            found = report.get("agent")
            return found if isinstance(found, dict) else None
        found = read(os.path.join(self.path, "agent.json"))
        if found is None:
            return None
        at = found.get("at_ms")
        if not isinstance(at, int) or not (self.live and self.here):
            return {**found, "ago_ms": 0}
        return {**found, "ago_ms": max(0, now() - at)}

    def progressed(self) -> int:
        """Return when it progressed last, 0 for never: the supervisor stores this at its looks, sources at once."""
        return self._newest(PROGRESS, LAST)

    def seen_alive(self) -> int:
        """Return when it gave its last sign of life, 0 for never."""
        return max(self._newest(ALIVE, SOURCE_ALIVE), self.progressed())

    def _newest(self, slot: int, source_slot: int) -> int:
        if self.clocks is None:
            return 0
        count = len(self.meta.get("sources") or ())
        return max(self.clocks.header[slot], *(self.clocks.source(i)[source_slot] for i in range(count)), 0)

    def sources(self) -> dict[str, dict[str, Any]]:
        """Return for each source when it moved last, in ms before now (None: never seen), and how often."""
        if self.clocks is None:
            return {}
        moment = now() if self.live else max(self.clocks.header[LOOKED], self.seen_alive())
        found = {}
        for index, name in enumerate(self.meta.get("sources") or ()):
            slots = self.clocks.source(index)
            last = moment - slots[LAST] if slots[LAST] else None
            found[str(name)] = {"last_ms_ago": last, "count": slots[COUNT]}
        return found


@dataclass(slots=True)
class Found:
    """What a word means: a run, its folder if it (still) has one, its summary if it is over."""

    run: str
    folder: Folder | None
    summary: dict[str, Any] | None


def folders(state: str, notes: list[str] | None = None) -> list[Folder]:
    """Return all run folders, newest start first; odd entries are left out, newer ones told in `notes`."""
    found = []
    for name in _listed(runs_folder(state)):
        try:
            folder = open_folder(os.path.join(runs_folder(state), name))
        except StoreError as error:
            if notes is not None:
                notes.append(str(error))
            continue
        if folder is not None:
            found.append(folder)
    return sorted(found, key=lambda folder: str(folder.meta.get("started_at")), reverse=True)


def open_folder(path: str) -> Folder | None:
    """Return one run folder; None for what is none. Raises StoreError when a newer longwatch wrote it."""
    meta = read(os.path.join(path, "meta.json"))
    if meta is None or meta.get("run") != os.path.basename(path):
        return None
    schema = meta.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(f"{path} was written by a newer longwatch (schema {schema}); upgrade to read it")
    ended = os.path.exists(os.path.join(path, "report.json"))
    clocks = Clocks.open(os.path.join(path, "clocks"))
    return Folder(path, os.path.basename(path), meta, not ended and lives(meta), clocks)


def live_runs(state: str, notes: list[str] | None = None) -> list[Folder]:
    """Return the folders whose supervisor lives, newest start first."""
    return [folder for folder in folders(state, notes) if folder.live]


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


def ending(folder: Folder) -> dict[str, Any]:
    """Return the summary of a run that is over: of its report, or `interrupted` where it has none."""
    report = folder.report()
    if report is not None:
        return summary(report)
    started = 0 if folder.clocks is None else folder.clocks.header[STARTED]
    progress = folder.progressed()
    looked = max(0 if folder.clocks is None else folder.clocks.header[LOOKED], folder.seen_alive(), started)
    return {
        "schema": SCHEMA,
        "run": folder.run,
        "name": folder.name,
        "attempt": folder.meta.get("attempt", 1),
        "termination_reason": "interrupted",
        "origin": None,
        "outcome": "interrupted",
        "exit_code": None,
        "signal": None,
        "limit": None,
        "started_at": folder.meta.get("started_at"),
        "duration_ms": looked - started,
        "idle_ms": looked - (progress or started),
        "progress": folder.sources(),
        "diagnosis": "longwatch itself ended without a report: it was killed, or the machine went down",
        "resume": None,
    }


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
    if run is None and word in _listed(runs_folder(state)):  # its report says too little for the ledger
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


def _listed(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if is_run_id(name)]
    except OSError:
        return []


def read(path: str) -> dict[str, Any] | None:
    """Return the JSON object that a file holds; None when it is missing, torn or something else."""
    try:
        with open(path, "rb") as file:
            return _object(file.read())
    except OSError:
        return None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
