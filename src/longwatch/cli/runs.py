"""`longwatch runs`: past runs, those of harnesses that are open, and firings that became none; from the ledger."""

import time
from typing import Any

import click

from longwatch.cli.agent_words import limit_in_short
from longwatch.cli.render import (
    clean,
    emit,
    fail,
    how_it_ended,
    instant,
    note,
    paint,
    refuse,
    span,
    table,
    when,
)
from longwatch.errors import UnitError, UsageError
from longwatch.paths import inner_id, state
from longwatch.store.entries import RUNNING
from longwatch.store.ledger import Ledger
from longwatch.store.listing import LISTED, Wanted, check_outcomes, listed
from longwatch.store.queries import ManyRunsError, NoSuchRunError, find, history
from longwatch.units import parse_duration

LIMIT, WIDE_LIMIT = 20, 50
_COLOURS = {"success": "green", "failed": "red", "timed_out": "red", "running": "cyan"}
_HEADS = ("RUN", "STARTED", "TOOK", "OUTCOME", "WHY")
_WIDE_HEADS = ("RUN", "ATTEMPT", "TRIGGER", "STARTED", "ENDED", "TOOK", "EXIT", "OUTCOME", "WHY")


@click.command("runs")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option(
    "--since", metavar="WHEN", help="Only what started since: a span such as 2h, or an RFC 3339 time."
)
@click.option("--until", metavar="WHEN", help="Only what started until then.")
@click.option(
    "--outcome",
    metavar="OUTCOME",
    multiple=True,
    help=f"Only with this outcome: {', '.join(LISTED)}. Repeatable.",
)
@click.option(
    "--trigger",
    metavar="TRIGGER",
    multiple=True,
    help="Only runs that this started, such as schedule. Repeatable.",
)
@click.option(
    "-n",
    "--limit",
    "--number",
    "limit",
    type=click.IntRange(min=1),
    help=f"How many; {LIMIT}, with --wide {WIDE_LIMIT}.",
)
@click.option("--wide", is_flag=True, help="More columns.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(
    names: tuple[str, ...],
    since: str | None,
    until: str | None,
    outcome: tuple[str, ...],
    trigger: tuple[str, ...],
    limit: int | None,
    wide: bool,
    as_json: bool,
) -> None:
    """List runs, the newest first. A run whose daemon does not answer is `running?`: nobody can say."""
    wanted = Wanted(
        since=moment("--since", since),
        until=moment("--until", until),
        outcomes=_outcomes(outcome),
        triggers=trigger,
        limit=limit or (WIDE_LIMIT if wide else LIMIT),
    )
    narrowed = bool(wanted.outcomes or trigger or wanted.until or wanted.since)
    folder = state()
    with history(folder) as ledger:
        found = _found(folder, ledger, names, wanted, narrowed=narrowed)
        for text in ledger.notes:
            note(text)
    _mark_answering(folder, found)
    if as_json:
        emit({"runs": found})
    elif found:
        heads, row = (_WIDE_HEADS, _wide_row) if wide else (_HEADS, _row)
        click.echo(table(heads, [row(summary) for summary in found]))
    else:
        note("no such runs are on record" if narrowed or names else "no run is on record yet")


def moment(flag: str, text: str | None) -> int | None:
    """Return the instant that a flag's value means, in ms since 1970: so long ago, or a time of the clock.

    None where it was not given, or is 0 or `off`. Raises UsageError naming the flag.
    """
    if text is None:
        return None
    at = instant(text) if "-" in text[1:] else None
    if at is not None:
        return round(at.timestamp() * 1000)
    try:
        ago = parse_duration(text)
    except UnitError as error:
        raise UsageError(f"{flag} {error}; a time is written as 2030-01-31T08:00") from error
    return round(time.time() * 1000) - ago if ago else None


def _outcomes(words: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return check_outcomes(words)
    except UsageError as error:
        raise UsageError(f"--outcome {error}") from None


def _found(
    folder: str, ledger: Ledger, words: tuple[str, ...], wanted: Wanted, *, narrowed: bool
) -> list[dict[str, Any]]:
    """Return the rows of the names, and the runs whose ids were given instead of one."""
    known = [word for word in words if ledger.rows("SELECT 1 FROM runs WHERE name=? LIMIT 1", (word,))]
    by_id = [
        summary
        for word in words
        if word not in known
        for summary in _by_id(folder, ledger, word, narrowed=narrowed)
    ]
    wanted.names = known
    rows = listed(ledger, wanted) if known or not words else []
    return rows + by_id


def _by_id(folder: str, ledger: Ledger, word: str, *, narrowed: bool) -> list[dict[str, Any]]:
    """A word that is no name may be an id; when it is neither it ends us."""
    try:
        found = find(folder, ledger, word)
    except (NoSuchRunError, ManyRunsError) as error:
        refuse(error)
    if found.summary is None:
        fail(f"{found.run} still runs; longwatch ls shows it")
    exact = found.run.startswith(inner_id(word)) and not narrowed
    return [found.summary] if exact else []


def _mark_answering(folder: str, found: list[dict[str, Any]]) -> None:
    """Say of each open run whether its daemon answers: only then it is known to run."""
    still = [summary for summary in found if summary.get("outcome") == RUNNING]
    if not still:
        return
    # Verbs that read the ledger load no client for it, but where a daemon may know more.
    from longwatch.api.finding import running  # noqa: PLC0415

    answering = {daemon["id"] for daemon in running(folder)}
    for summary in still:
        summary["daemon_answers"] = summary.get("daemon") in answering


def _outcome(summary: dict[str, Any]) -> str:
    outcome = clean(summary.get("outcome"))
    colour = _COLOURS.get(outcome, "yellow")
    return paint(outcome + ("" if summary.get("daemon_answers", True) else "?"), colour)


def _why(summary: dict[str, Any]) -> str:
    why = how_it_ended(summary)
    diagnosis = summary.get("diagnosis")
    if diagnosis and summary.get("termination_reason") != "interrupted":
        why += f" ({clean(diagnosis)})"
    met = limit_in_short(summary.get("agent"))
    return f"{why}; {met}" if met else why


def _took(summary: dict[str, Any]) -> str:
    begun = instant(summary.get("started_at"))
    if summary.get("outcome") == RUNNING and summary.get("daemon_answers") and begun is not None:
        return span(max(0, round((time.time() - begun.timestamp()) * 1000)))
    return span(summary.get("duration_ms")) if summary.get("attempt", 1) else "-"


def _row(summary: dict[str, Any]) -> list[str]:
    return [
        clean(summary.get("run")),
        when(summary.get("started_at")),
        _took(summary),
        _outcome(summary),
        _why(summary),
    ]


def _wide_row(summary: dict[str, Any]) -> list[str]:
    ended, code, signal = summary.get("ended_at"), summary.get("exit_code"), summary.get("signal")
    return [
        clean(summary.get("run")),
        str(summary.get("attempt") or "-"),
        clean(summary.get("trigger") or "-"),
        when(summary.get("started_at")),
        when(ended) if ended else "-",
        _took(summary),
        clean(signal) if signal else str(code) if isinstance(code, int) else "-",
        _outcome(summary),
        _why(summary),
    ]
