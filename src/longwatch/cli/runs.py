"""`longwatch runs`: past runs, from the ledger."""

import time
from typing import Any

import click

from longwatch.cli.agent_words import limit_in_short
from longwatch.cli.render import (
    clean,
    duration,
    emit,
    fail,
    how_it_ended,
    note,
    paint,
    refuse,
    span,
    table,
    when,
)
from longwatch.core.outcomes import OUTCOMES
from longwatch.errors import UsageError
from longwatch.paths import inner_id, state
from longwatch.store.ledger import Ledger
from longwatch.store.queries import ManyRunsError, NoSuchRunError, find, history, runs
from longwatch.units import nearest, shown

_COLOURS = {"success": "green", "failed": "red", "timed_out": "red"}


@click.command("runs")
@click.argument("name", required=False)
@click.option("--since", metavar="DURATION", help="Only runs that started within this span, such as 2h.")
@click.option("--outcome", metavar="OUTCOME", help=f"Only runs that ended so: {', '.join(OUTCOMES)}.")
@click.option("-n", "--number", default=20, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(name: str | None, since: str | None, outcome: str | None, number: int, as_json: bool) -> None:
    """List past runs, the newest first."""
    if outcome is not None and outcome not in OUTCOMES:
        guess = nearest(outcome, OUTCOMES)
        hint = f"did you mean {guess}? " if guess else ""
        raise UsageError(
            f"--outcome {shown(outcome)}: no such outcome; {hint}outcomes are {', '.join(OUTCOMES)}"
        )
    ago = duration("--since", since)
    begin = round(time.time() * 1000) - ago if ago else None
    folder = state()
    with history(folder) as ledger:
        found = runs(ledger, name, begin, outcome, number)
        if name and not found:
            found = _by_id(folder, ledger, name, narrowed=begin is not None or outcome is not None)
        for text in ledger.notes:
            note(text)
    if as_json:
        emit({"runs": found})
    elif found:
        click.echo(table(("RUN", "STARTED", "TOOK", "OUTCOME", "WHY"), [_row(summary) for summary in found]))
    else:
        note("no such runs are on record" if begin or outcome else "no run is on record yet")


def _by_id(folder: str, ledger: Ledger, name: str, *, narrowed: bool) -> list[dict[str, Any]]:
    """A word that is no name may be an id; when it is neither it ends us. A known name may just have no such runs."""
    try:
        found = find(folder, ledger, name)
    except (NoSuchRunError, ManyRunsError) as error:
        refuse(error)
    if found.summary is None:
        fail(f"{found.run} still runs; longwatch ls shows it")
    exact = found.run.startswith(inner_id(name)) and not narrowed
    return [found.summary] if exact else []


def _row(summary: dict[str, Any]) -> list[str]:
    outcome = clean(summary.get("outcome"))
    why = how_it_ended(summary)
    diagnosis = summary.get("diagnosis")
    if diagnosis and summary.get("termination_reason") != "interrupted":
        why += f" ({clean(diagnosis)})"
    met = limit_in_short(summary.get("agent"))
    if met:
        why += f"; {met}"
    return [
        clean(summary.get("run")),
        when(summary.get("started_at")),
        span(summary.get("duration_ms")),
        paint(outcome, _COLOURS.get(outcome, "yellow")),
        why,
    ]
